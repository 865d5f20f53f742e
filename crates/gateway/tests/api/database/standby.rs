//! `durability = "replicated"`, with a standby that comes and goes.

use mediagate_config::Durability;
use mediagate_core::domain::readiness;
use serde_json::json;

use crate::support::cluster::Cluster;
use crate::support::program::Server;
use crate::support::{Client, TestGateway, eventually, videos_order};

async fn is_durable(gateway: &TestGateway) -> bool {
    readiness::note_durability(&gateway.app).await;
    let metrics = mediagate_telemetry::counters::metrics_recorder().render();
    metrics.contains("\nmediagate_durability 1\n")
}

#[tokio::test]
async fn orders_are_accepted_only_with_a_standby() {
    let cluster = Cluster::start();
    let url = cluster.url().parse().unwrap();
    let builder = TestGateway::builder().without_workers().set(|settings| {
        settings.database = Some(url);
        settings.durability = Some(Durability::Replicated);
    });
    let gateway = builder.start().await;
    let refused = gateway.get("/readyz").await;
    assert!(refused.text().contains("standby"), "{}", refused.text());
    refused.refused(503, "overloaded");
    assert!(!is_durable(&gateway).await);

    let standby = cluster.log_standby().await;
    cluster.set("synchronous_standby_names", "*").await;
    eventually("the gateway is ready", async || {
        (gateway.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    assert!(is_durable(&gateway).await);
    gateway.post("/v1/videos", &videos_order()).await.ok();

    drop(standby);
    let order_without_standby =
        json!({"model": "animatic-1", "prompt": "a sea", "size": "480x480", "seconds": "1"});
    gateway
        .post("/v1/videos", &order_without_standby)
        .await
        .refused(503, "overloaded");
    assert_eq!(gateway.get("/readyz").await.status, 503);
    let _standby = cluster.log_standby().await;
    eventually(
        "the repeated order finds the task that waited for the standby",
        async || {
            (gateway
                .post("/v1/videos", &order_without_standby)
                .await
                .status
                == 200)
                .then_some(())
        },
    )
    .await;
    let list = gateway.get("/v1/tasks").await.ok();
    assert_eq!(list["data"].as_array().unwrap().len(), 2);
    gateway.stop().await;
}

#[tokio::test]
async fn a_process_that_stops_does_not_wait_for_the_standby() {
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let toml = format!(
        "database = \"{}\"\nshutdown_grace = \"1s\"\n",
        cluster.url()
    );
    std::fs::write(&file, toml).unwrap();
    let args = ["--config", file.to_str().unwrap()];
    let server = Server::start(&folder.path().join("data"), &args).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    // No standby has that name.
    cluster.set("synchronous_standby_names", "nobody").await;
    eventually("no commit is confirmed any more", async || {
        let answer = client.post("/v1/videos", &videos_order()).await;
        (answer.status == 503).then_some(())
    })
    .await;
    server.stop().await;
}
