//! Registering, changing and deleting endpoints.

use serde_json::{Value, json};
use simulator::WebhookReceiver;

use super::{builder, id, order, register, start};
use crate::support::Client;
use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;

#[tokio::test]
async fn an_endpoint_is_registered_changed_and_deleted() {
    let (gateway, receiver) = start().await;
    let endpoint = register(
        &gateway,
        &receiver,
        json!({"description": "mine", "events": ["task.failed"]}),
    )
    .await;
    assert!(endpoint["secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!(
        (&endpoint["events"], &endpoint["enabled"]),
        (&json!(["task.failed"]), &json!(true))
    );
    let path = format!("/v1/webhooks/{}", id(&endpoint));
    let shown = gateway.get(&path).await.ok();
    assert_eq!(shown["secret"], Value::Null);
    assert_eq!(
        gateway.get("/v1/webhooks").await.ok()["data"],
        json!([shown])
    );
    let change = |body: Value| gateway.request(reqwest::Method::PATCH, &path).json(&body);
    let changed = gateway
        .send(change(json!({"events": null, "description": ""})))
        .await
        .ok();
    assert_eq!(
        (&changed["events"], &changed["description"]),
        (&Value::Null, &json!(""))
    );
    assert_eq!(changed["url"], endpoint["url"]);
    let invalid = gateway
        .send(change(json!({"url": "http://10.0.0.1/"})))
        .await;
    invalid.refused(400, "invalid_value").on_param("url");
    gateway
        .send(change(json!({"events": []})))
        .await
        .refused(400, "invalid_value")
        .on_param("events");
    let deleted = gateway.delete(&path).await.ok();
    assert_eq!(deleted["deleted"], true);
    gateway.get(&path).await.refused(404, "webhook_not_found");
    gateway
        .delete(&path)
        .await
        .refused(404, "webhook_not_found");
}

#[tokio::test]
async fn other_accounts_and_keys_without_the_scope_are_refused() {
    let (gateway, receiver) = start().await;
    let endpoint = register(&gateway, &receiver, json!({})).await;
    let other = gateway.caller("other", NewKey::default()).await;
    let without_scope = NewKey {
        scopes: vec![Scope::TasksRead],
        ..NewKey::default()
    };
    let without_scope = gateway.caller("default", without_scope).await;
    let path = format!("/v1/webhooks/{}", id(&endpoint));
    let assert_all_refused = async |client: &Client, status: u16, code: &str| {
        client.get(&path).await.refused(status, code);
        client.delete(&path).await.refused(status, code);
        let change = client
            .request(reqwest::Method::PATCH, &path)
            .json(&json!({}));
        client.send(change).await.refused(status, code);
        for verb in ["rotate", "test"] {
            let path = format!("{path}/{verb}");
            client.post(&path, &Value::Null).await.refused(status, code);
        }
        client
            .get(&format!("{path}/deliveries"))
            .await
            .refused(status, code);
        let since = json!({"since": "2026-01-01T00:00:00Z"});
        client
            .post(&format!("{path}/recover"), &since)
            .await
            .refused(status, code);
    };
    assert_all_refused(&other, 404, "webhook_not_found").await;
    assert_all_refused(&without_scope, 403, "insufficient_scope").await;
    without_scope
        .get("/v1/webhooks/secret")
        .await
        .refused(403, "insufficient_scope");
    assert_eq!(other.get("/v1/webhooks").await.ok()["data"], json!([]));
    gateway
        .get("/v1/webhooks/deliveries/x")
        .await
        .refused(404, "delivery_not_found");
}

#[tokio::test]
async fn an_account_has_at_most_twenty() {
    let (gateway, receiver) = start().await;
    for _ in 0..20 {
        register(&gateway, &receiver, json!({})).await;
    }
    let body = json!({"url": receiver.url("/")});
    gateway
        .post("/v1/webhooks", &body)
        .await
        .refused(409, "limit_reached");
    let page = gateway.get("/v1/webhooks?limit=15").await.ok();
    let next = format!(
        "/v1/webhooks?limit=15&after={}",
        page["last_id"].as_str().unwrap()
    );
    assert_eq!(page["has_more"], true);
    assert_eq!(
        gateway.get(&next).await.ok()["data"]
            .as_array()
            .unwrap()
            .len(),
        5
    );
}

#[tokio::test]
async fn a_repeated_registration_makes_one_endpoint_and_hides_the_secret() {
    let (gateway, receiver) = start().await;
    let body = json!({"url": receiver.url("/")});
    let register_once = || {
        let request = gateway.request(reqwest::Method::POST, "/v1/webhooks");
        gateway.send(request.header("idempotency-key", "one").json(&body))
    };
    let first = register_once().await.ok();
    assert!(first["secret"].is_string());
    let repeated = register_once().await;
    assert_eq!(repeated.header("idempotent-replayed"), Some("true"));
    let repeated = repeated.ok();
    assert_eq!(
        (&repeated["id"], &repeated["secret"]),
        (&first["id"], &Value::Null)
    );
    let secret = first["secret"]
        .as_str()
        .unwrap()
        .strip_prefix("whsec_")
        .unwrap();
    // No stored file contains the secret.
    let data = gateway.app.config.data.clone();
    for entry in std::fs::read_dir(data).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
}

#[tokio::test]
async fn a_deleted_endpoint_is_sent_nothing_more() {
    let gateway = builder().without_workers().start().await;
    let receiver = WebhookReceiver::start().await.unwrap();
    let endpoint = register(&gateway, &receiver, json!({})).await;
    let task = order(&gateway, json!({})).await;
    gateway
        .post(&format!("/v1/tasks/{task}/cancel"), &Value::Null)
        .await
        .ok();
    gateway
        .delete(&format!("/v1/webhooks/{}", id(&endpoint)))
        .await
        .ok();
    let list = gateway
        .get(&format!("/v1/tasks/{task}/deliveries"))
        .await
        .ok();
    assert_eq!(list["data"][0]["state"], "failed");
    assert_eq!(list["data"][0]["url"], endpoint["url"]);
    let redeliver = format!("/v1/webhooks/deliveries/{}/redeliver", id(&list["data"][0]));
    gateway
        .post(&redeliver, &Value::Null)
        .await
        .refused(404, "webhook_not_found");
}
