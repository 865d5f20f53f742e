//! Settings that must be the same in all processes on one database.

use mediagate_core::domain::settings_drift::{compare, leave};
use serde_json::{Value, json};

use crate::support::TestGateway;
use crate::support::spec::assert_time;

/// The settings that another process has otherwise, as the probe says.
async fn differing(gateway: &TestGateway) -> Vec<Value> {
    let told = gateway.without_key().get("/readyz?verbose").await.ok();
    let told = &told["verbose"]["settings_differ"];
    for entry in told.as_array().unwrap() {
        assert_time(&entry["since"]);
    }
    let entries = told.as_array().unwrap().iter();
    entries.map(|entry| entry["name"].clone()).collect()
}

#[tokio::test]
async fn what_differs_is_told_by_each_until_it_is_gone() {
    let gateway = TestGateway::builder()
        .on_postgres()
        .without_workers()
        .start()
        .await;
    compare(&gateway.app).await.unwrap();
    let alike = gateway.idle_replica().await;
    compare(&alike.app).await.unwrap();
    assert!(differing(&alike).await.is_empty());
    let odd = gateway.replica_with(|it| {
        it.brand = Some("other".to_owned());
        // A process that signs does not start with another secret: it cannot read the certificate that
        // the others made.
        if !cfg!(feature = "c2pa") {
            it.signing_secret = Some("a secret of its own, and long enough".parse().unwrap());
        }
    });
    let differ = if cfg!(feature = "c2pa") {
        &["brand"][..]
    } else {
        &["brand", "signing_secret"]
    };
    let odd = odd.await;
    compare(&odd.app).await.unwrap();
    assert_eq!(differing(&odd).await, differ);
    compare(&gateway.app).await.unwrap();
    assert_eq!(differing(&gateway).await, differ);
    let metrics = mediagate_telemetry::counters::metrics_recorder().render();
    assert!(metrics.contains("mediagate_settings_differ{setting=\"models\"}"));
    let short = gateway.without_key().get("/readyz").await.ok();
    assert_eq!(short, json!({"status": "ok"}));
    leave(&odd.app).await.unwrap();
    compare(&gateway.app).await.unwrap();
    assert!(differing(&gateway).await.is_empty());
    odd.stop().await;
    alike.stop().await;
    gateway.stop().await;
}
