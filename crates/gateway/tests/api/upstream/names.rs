//! What a route for `*` forwards: the name that was looked up, and nothing that
//! the provider would read as another path.

use serde_json::json;
use simulator::RequestRole;

use super::{gateway, provider, simulator, wait_for_requests};

/// Names that match `veo-*` and that were once sent as other paths.
const PATH_ESCAPES: [&str; 16] = [
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
async fn a_model_name_cannot_change_the_providers_path() {
    let simulator = simulator().await;
    let open = "[models.open]\nkind = \"video\"\nprice = \"free\"\naliases = [\"veo-*\"]\nroutes = [{ provider = \"acme\", model = \"*\" }]\n";
    let toml = provider("acme", "gemini-veo", &simulator, "") + open;
    let gateway = gateway(&toml).await;
    simulator.world().clear_journal();
    for name in PATH_ESCAPES {
        let chat = json!({"model": name, "messages": [{"role": "user", "content": "a lake"}]});
        let answer = gateway.post("/v1/chat/completions", &chat).await;
        answer.refused(404, "model_not_found").on_param("model");
        let video = json!({"model": name, "prompt": "a lake"});
        let answer = gateway.post("/v1/videos", &video).await;
        answer.refused(404, "model_not_found").on_param("model");
    }
    assert_eq!(simulator.world().journal().len(), 0, "no request was sent");
    let valid = json!({"model": "veo-3.1-generate-preview", "prompt": "a lake"});
    gateway.post("/v1/videos", &valid).await.ok();
    wait_for_requests(&simulator, RequestRole::Submit, 1).await;
    let journal = simulator.world().journal();
    let path = &journal
        .iter()
        .find(|request| request.role == RequestRole::Submit)
        .unwrap()
        .path;
    assert!(
        path.ends_with("/models/veo-3.1-generate-preview:predictLongRunning"),
        "{path}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_model_name_cannot_name_a_version_or_another_path() {
    let simulator = simulator().await;
    let open = "[models.open]\nkind = \"video\"\nprice = \"free\"\naliases = [\"google/*\"]\nroutes = [{ provider = \"acme\", model = \"*\" }]\n";
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
    assert_eq!(simulator.world().journal().len(), 0, "no request was sent");
    gateway.stop().await;
}
