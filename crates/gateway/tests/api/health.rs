//! `/healthz` and `/readyz`.

use serde_json::json;

use crate::support::program::Server;
use crate::support::{Client, TestGateway, videos_order};

#[tokio::test]
async fn probes_need_no_key_and_report_shutdown() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let anyone = gateway.without_key();
    assert_eq!(anyone.get("/healthz").await.ok(), json!({"status": "ok"}));
    assert_eq!(anyone.get("/readyz").await.ok(), json!({"status": "ok"}));
    let no_differences =
        json!({"status": "ok", "verbose": {"away": [], "settings_differ": [], "unconfined": []}});
    for query in ["verbose", "verbose=", "verbose=true"] {
        let readiness = anyone.get(&format!("/readyz?{query}")).await.ok();
        assert_eq!(readiness, no_differences, "{query}");
    }
    let readiness = anyone.get("/readyz?verbose=false").await.ok();
    assert_eq!(readiness, json!({"status": "ok"}));
    gateway.app.process.closing.cancel();
    anyone.get("/readyz").await.refused(503, "shutting_down");
    assert_eq!(anyone.get("/healthz").await.status, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn a_draining_process_is_not_ready_and_still_accepts_requests() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--drain-delay", "1m"]).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    server.signal("-TERM");
    crate::support::eventually("it is not ready", async || {
        (client.get("/readyz").await.status == 503).then_some(())
    })
    .await;
    client.get("/readyz").await.refused(503, "shutting_down");
    client.post("/v1/videos", &videos_order()).await.ok();
    // A second signal ends it at once.
    server.signal("-TERM");
    let (status, _) = server.wait_for_exit().await;
    assert_eq!(status.code(), Some(1));
}
