//! Errors below `/api/v1`: the status as `code`, our code in `metadata`.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use reqwest::Method;
use serde_json::{Value, json};

use super::{CHAT, VIDEOS, order, without_workers};
use crate::support::{Answer, Client};

/// Asserts the dialect's form of an error. The caller of all tests checks what each answer must
/// have.
#[track_caller]
fn assert_form(answer: &Answer, status: u16, error_type: &str, code: &str, param: Option<&str>) {
    answer.refused(status, code);
    let error = &answer.json["error"];
    assert_eq!(error["code"], status);
    let id = answer.header("x-request-id").unwrap();
    let mut metadata =
        json!({"error_type": error_type, "code": code, "param": param, "request_id": id});
    if let Some(task) = error.get("task_id") {
        metadata["task_id"] = task.clone();
    }
    assert_eq!(error["metadata"], metadata);
}

#[tokio::test]
async fn every_error_has_the_dialects_form() {
    let gateway = without_workers().await;
    let key = |new| gateway.caller("other", new);
    let reader = key(NewKey {
        scopes: vec![Scope::TasksRead],
        ..NewKey::default()
    })
    .await;
    let poor = key(NewKey {
        budget: Some("0.05".parse().unwrap()),
        ..NewKey::default()
    })
    .await;
    let hasty = key(NewKey {
        rpm: Some(1),
        ..NewKey::default()
    })
    .await;
    hasty.get("/api/v1/models").await.ok();
    let mut private = order("a lake");
    private["frame_images"] = json!([{"type": "image_url", "frame_type": "first_frame",
        "image_url": {"url": "http://10.0.0.1/a.png"}}]);
    let mut unknown_model = order("a lake");
    unknown_model["model"] = "nobody".into();

    let client: &Client = &gateway.client;
    let blocked = Some("frame_images[0].image_url.url");
    let no_prompt = json!({"model": "animatic-1"});
    for (caller, body, status, error_type, code, param) in [
        (
            &client.without_key(),
            &order("a"),
            401,
            "authentication",
            "missing_api_key",
            None,
        ),
        (
            &client.with_key("sk-or-v1-1"),
            &order("a"),
            401,
            "authentication",
            "invalid_api_key",
            None,
        ),
        (
            &reader,
            &order("a"),
            403,
            "permission_denied",
            "insufficient_scope",
            None,
        ),
        (
            &poor,
            &order("a"),
            402,
            "payment_required",
            "budget_exceeded",
            None,
        ),
        (
            &hasty,
            &order("a"),
            429,
            "rate_limit_exceeded",
            "rate_limit_exceeded",
            None,
        ),
        (
            client,
            &no_prompt,
            400,
            "invalid_request",
            "missing_field",
            Some("prompt"),
        ),
        (
            client,
            &unknown_model,
            404,
            "not_found",
            "model_not_found",
            Some("model"),
        ),
        (
            client,
            &private,
            422,
            "image_download_failed",
            "image_fetch_blocked",
            blocked,
        ),
    ] {
        let answer = caller.post(VIDEOS, body).await;
        assert_form(&answer, status, error_type, code, param);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn other_addresses_and_bodies_have_it_too() {
    let gateway = without_workers().await;
    let video = gateway.post(VIDEOS, &order("a lake")).await.accepted();
    let content = format!("{VIDEOS}/{}/content", video["id"].as_str().unwrap());
    let not_ready = gateway.get(&content).await;
    assert_form(&not_ready, 409, "invalid_request", "video_not_ready", None);
    let unknown = gateway.get("/api/v1/video").await;
    assert_form(&unknown, 404, "not_found", "route_not_found", None);
    assert!(unknown.message().contains("/api/v1/videos"), "{unknown:?}");
    let parameter = gateway.get("/api/v1/videos/models?q=x").await;
    assert_form(
        &parameter,
        400,
        "invalid_request",
        "unsupported_value",
        Some("q"),
    );
    let deleted = gateway.delete("/api/v1/models").await;
    assert_form(&deleted, 405, "invalid_request", "method_not_allowed", None);
    let request = gateway.request(Method::POST, VIDEOS).body("{");
    let request = request.header("content-type", "application/json");
    let answer = gateway.send(request).await;
    assert_form(&answer, 400, "invalid_request", "invalid_json", None);
    let answer = gateway.post(CHAT, &json!({"model": "animatic-1"})).await;
    assert_form(
        &answer,
        400,
        "invalid_request",
        "missing_field",
        Some("messages"),
    );
    // The other APIs keep theirs.
    let other = gateway.get("/v1/video").await;
    assert_eq!(other.json["error"]["code"], "route_not_found");
    assert_eq!(other.json["error"].get("metadata"), None::<&Value>);
    gateway.stop().await;
}
