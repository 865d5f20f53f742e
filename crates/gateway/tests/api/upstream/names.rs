//! What a route for `*` hands on: the name that was looked up, and nothing that
//! the provider would read as another path.

use serde_json::json;
use simulator::RequestRole;

use super::{arrives, gateway, provider, simulator};

/// Names that match `veo-*` and were once sent as other paths.
const WAYS_OUT: [&str; 16] = [
    "veo-x/../../billing/x?y=1",
    "veo-x/%2e%2e/%2e%2e/billing/x",
    "veo-x%2f..%2fbilling",
    "veo-x%252f..%252fbilling",
    "veo-x/./billing",
    "veo-x\\..\\billing",
    "veo-x#billing",
    "veo-x?y=1",
    "veo-x//billing",
    "veo-x\r\nbilling: x",
    "veo-x\u{2025}/billing",
    "veo-x/..",
    "veo-x..",
    "veo-x/",
    "veo-x/operations",
    "veo-x:delete",
];

#[tokio::test]
async fn a_caller_cannot_write_the_providers_paths() {
    let simulator = simulator().await;
    let open = "[models.open]\nkind = \"video\"\naliases = [\"veo-*\"]\nroutes = [{ provider = \"acme\", model = \"*\" }]\n";
    let toml = provider("acme", "gemini-veo", &simulator, "") + open;
    let gateway = gateway(&toml).await;
    simulator.world().clear_journal();
    for name in WAYS_OUT {
        let chat = json!({"model": name, "messages": [{"role": "user", "content": "a lake"}]});
        let answer = gateway.post("/v1/chat/completions", &chat).await;
        answer.refused(404, "model_not_found").on_param("model");
        let video = json!({"model": name, "prompt": "a lake"});
        let answer = gateway.post("/v1/videos", &video).await;
        answer.refused(404, "model_not_found").on_param("model");
    }
    assert_eq!(simulator.world().journal().len(), 0, "nothing has left");
    let fine = json!({"model": "veo-3.1-generate-preview", "prompt": "a lake"});
    gateway.post("/v1/videos", &fine).await.ok();
    arrives(&simulator, RequestRole::Submit, 1).await;
    let sent = simulator.world().journal();
    let path = &sent
        .iter()
        .find(|one| one.role == RequestRole::Submit)
        .unwrap()
        .path;
    assert!(
        path.ends_with("/models/veo-3.1-generate-preview:predictLongRunning"),
        "{path}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_version_that_runs_by_itself_is_no_name_for_callers() {
    let simulator = simulator().await;
    let open = "[models.open]\nkind = \"video\"\naliases = [\"google/*\"]\nroutes = [{ provider = \"acme\", model = \"*\" }]\n";
    let toml = provider("acme", "replicate", &simulator, "") + open;
    let gateway = gateway(&toml).await;
    simulator.world().clear_journal();
    for name in [
        "google/veo-3.1:5f2e0c8d",
        "google/veo-3.1/predictions",
        "google/../other",
    ] {
        let video = json!({"model": name, "prompt": "a lake"});
        let answer = gateway.post("/v1/videos", &video).await;
        answer.refused(404, "model_not_found").on_param("model");
    }
    assert_eq!(simulator.world().journal().len(), 0, "nothing has left");
    gateway.stop().await;
}
