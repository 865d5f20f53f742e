//! `/healthz` and `/readyz`.

use serde_json::json;

use crate::support::TestGateway;

#[tokio::test]
async fn probes_need_no_key_and_say_when_it_goes_down() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let anyone = gateway.without_key();
    assert_eq!(anyone.get("/healthz").await.ok(), json!({"status": "ok"}));
    assert_eq!(anyone.get("/readyz").await.ok(), json!({"status": "ok"}));
    gateway.app.closing.cancel();
    anyone.get("/readyz").await.refused(503, "shutting_down");
    assert_eq!(anyone.get("/healthz").await.status, 200);
    gateway.stop().await;
}
