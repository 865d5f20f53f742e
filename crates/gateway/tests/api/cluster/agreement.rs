//! Settings that must be the same in all processes on one database.

use mediagate_core::domain::settings_drift::{compare, leave};
use serde_json::{Value, json};

use crate::support::TestGateway;
use crate::support::spec::assert_time;

/// The settings in which another process differs, as the probe reports them.
async fn differing(gateway: &TestGateway) -> Vec<Value> {
    let differences = gateway.without_key().get("/readyz?verbose").await.ok();
    let differences = &differences["verbose"]["settings_differ"];
    for entry in differences.as_array().unwrap() {
        assert_time(&entry["since"]);
    }
    let entries = differences.as_array().unwrap().iter();
    entries.map(|entry| entry["name"].clone()).collect()
}

#[tokio::test]
async fn differing_settings_are_reported_by_every_process_while_they_differ() {
    let gateway = TestGateway::builder()
        .on_postgres()
        .without_workers()
        .start()
        .await;
    compare(&gateway.app).await.unwrap();
    let alike = gateway.replica_without_workers().await;
    compare(&alike.app).await.unwrap();
    assert!(differing(&alike).await.is_empty());
    let differing_replica = gateway.replica_with(|settings| {
        settings.brand = Some("other".to_owned());
        // A process built with `c2pa` does not start with another secret, because it cannot read
        // the certificate of the others.
        if !cfg!(feature = "c2pa") {
            settings.signing_secret = Some("a secret of its own, and long enough".parse().unwrap());
        }
    });
    let expected = if cfg!(feature = "c2pa") {
        &["brand"][..]
    } else {
        &["brand", "signing_secret"]
    };
    let differing_replica = differing_replica.await;
    compare(&differing_replica.app).await.unwrap();
    assert_eq!(differing(&differing_replica).await, expected);
    compare(&gateway.app).await.unwrap();
    assert_eq!(differing(&gateway).await, expected);
    let metrics = mediagate_telemetry::counters::metrics_recorder().render();
    assert!(metrics.contains("mediagate_settings_differ{setting=\"models\"}"));
    let readiness = gateway.without_key().get("/readyz").await.ok();
    assert_eq!(readiness, json!({"status": "ok"}));
    leave(&differing_replica.app).await.unwrap();
    compare(&gateway.app).await.unwrap();
    assert!(differing(&gateway).await.is_empty());
    differing_replica.stop().await;
    // It does not find the others' files.
    let folder = tempfile::tempdir().unwrap();
    let separate = gateway.replica_with(|settings| {
        settings.data = Some(folder.path().to_owned());
    });
    let separate = separate.await;
    compare(&separate.app).await.unwrap();
    assert_eq!(differing(&separate).await, ["media"]);
    separate.stop().await;
    alike.stop().await;
    gateway.stop().await;
}
