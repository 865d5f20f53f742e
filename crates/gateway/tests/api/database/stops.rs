//! A server that stops without warning, with work under way.

use crate::support::Client;
use crate::support::cluster::Cluster;
use crate::support::program::Server;

use super::{assert_all_succeed, film_order, order, provider, submission_count, verify_ledger};

#[tokio::test]
async fn a_database_that_loses_power_harms_no_task() {
    let cluster = Cluster::start();
    let (simulator, toml) = provider().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let toml = format!("database = \"{}\"\n{toml}", cluster.url());
    std::fs::write(&file, toml).unwrap();
    let data = folder.path().join("data");
    let args = ["--config", file.to_str().unwrap()];
    let server = Server::start(&data, &args).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    let mut tasks = order(&client, 0..6).await;
    let embedded_order = client
        .post("/v1/videos", &crate::support::videos_order())
        .await;
    tasks.push(embedded_order.header("x-task-id").unwrap().to_owned());
    cluster.stop_immediately();
    let refused = client.post("/v1/videos", &film_order(6)).await;
    refused.refused(503, "overloaded");
    client.get("/v1/tasks").await.refused(503, "overloaded");
    // Long enough for leases to expire and for outcomes to find no database.
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    cluster.start_again();
    assert_all_succeed(&client, &tasks).await;
    assert_eq!(submission_count(&simulator), 6);
    let data = data.to_str().unwrap();
    server.stop().await;
    verify_ledger(&["--config", args[1], "--data", data]).await;
}
