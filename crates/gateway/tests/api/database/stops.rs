//! A server that is stopped without a word, with work under way.

use crate::support::Client;
use crate::support::cluster::Cluster;
use crate::support::program::Server;

use super::{add_up, hosted, jobs, order, provider, succeed};

#[tokio::test]
async fn a_database_that_loses_its_power_costs_nobody_anything() {
    let cluster = Cluster::start();
    let (simulator, toml) = provider().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let toml = format!("database = \"{}\"\n{toml}", cluster.url());
    std::fs::write(&file, toml).unwrap();
    let data = folder.path().join("data");
    let words = ["--config", file.to_str().unwrap()];
    let server = Server::start(&data, &words).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    let mut tasks = order(&client, 0..6).await;
    let made_here = client
        .post("/v1/videos", &crate::support::videos_order())
        .await;
    tasks.push(made_here.header("x-task-id").unwrap().to_owned());
    cluster.stop_immediately();
    let refused = client.post("/v1/videos", &hosted(6)).await;
    refused.refused(503, "overloaded");
    client.get("/v1/tasks").await.refused(503, "overloaded");
    // Long enough for leases to lapse and for outcomes to find nobody.
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    cluster.start_again();
    succeed(&client, &tasks).await;
    assert_eq!(jobs(&simulator), 6);
    let data = data.to_str().unwrap();
    server.stop().await;
    add_up(&["--config", words[1], "--data", data]).await;
}
