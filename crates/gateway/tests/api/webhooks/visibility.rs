//! What an endpoint is told of: what its key may see, and for as long as that is valid.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use reqwest::Method;
use serde_json::{Value, json};
use simulator::WebhookReceiver;

use super::{body, builder, delivery_in, id, order, register};
use crate::admin::operator;
use crate::support::{Client, TestGateway};

const PROMPT: &str = "a secret lake";

async fn start(postgres: bool) -> TestGateway {
    let mut builder = builder();
    if postgres {
        builder = builder.on_postgres();
    }
    builder.start().await
}

/// A key of the default account that manages webhooks, and these.
async fn manager(gateway: &TestGateway, more: &[Scope]) -> Client {
    let new = NewKey {
        scopes: [&[Scope::WebhooksManage], more].concat(),
        ..NewKey::default()
    };
    gateway.caller("default", new).await
}

async fn receiver() -> WebhookReceiver {
    WebhookReceiver::start().await.unwrap()
}

fn prompt() -> Value {
    json!({"prompt": PROMPT})
}

/// Orders a film, and waits until somebody who may see it was told.
async fn made(
    gateway: &TestGateway,
    by: &Client,
    count: usize,
    strong: &WebhookReceiver,
) -> String {
    let task = order(by, prompt()).await;
    let posted = strong.wait_for_count(count).await;
    assert_eq!(body(&posted[count - 1])["data"]["id"], task);
    gateway.finished(&task).await;
    task
}

async fn change(client: &Client, endpoint: &Value, change: Value) -> Value {
    let path = format!("/v1/webhooks/{}", id(endpoint));
    let request = client.request(Method::PATCH, &path).json(&change);
    client.send(request).await.ok()
}

async fn deliveries(client: &Client, endpoint: &Value) -> Vec<Value> {
    let path = format!("/v1/webhooks/{}/deliveries", id(endpoint));
    let list = client.get(&path).await.ok();
    list["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn an_endpoint_is_told_what_its_key_may_read() {
    for postgres in [false, true] {
        let gateway = start(postgres).await;
        let weak = manager(&gateway, &[]).await;
        let strong = manager(&gateway, &[Scope::TasksRead]).await;
        let (of_weak, of_strong) = (receiver().await, receiver().await);
        let weak_hook = register(&weak, &of_weak, json!({})).await;
        let strong_hook = register(&strong, &of_strong, json!({})).await;
        made(&gateway, &gateway, 1, &of_strong).await;
        assert_eq!(
            body(&of_strong.posted()[0])["data"]["input"]["prompt"],
            PROMPT
        );
        assert!(deliveries(&weak, &weak_hook).await.is_empty());
        // What is no task's, it is told.
        let test = format!("/v1/webhooks/{}/test", id(&weak_hook));
        weak.post(&test, &Value::Null).await.ok();
        assert_eq!(body(&of_weak.wait_for_count(1).await[0])["type"], "test");
        // Whoever leads an endpoint elsewhere is who it is told for: another key's is no way to read.
        let elsewhere = json!({"url": of_weak.url("/taken")});
        let taken = change(&weak, &strong_hook, elsewhere).await;
        assert_eq!(taken["key_id"], weak_hook["key_id"]);
        let witness = receiver().await;
        register(&strong, &witness, json!({})).await;
        made(&gateway, &gateway, 1, &witness).await;
        assert_eq!(of_weak.posted().len(), 1);
        // Nor is what was recorded for it before.
        let since = json!({"since": "2020-01-01T00:00:00Z"});
        let old = &deliveries(&strong, &strong_hook).await[0];
        let again = format!("/v1/webhooks/deliveries/{}/redeliver", id(old));
        weak.post(&again, &Value::Null).await.ok();
        let recover = format!("/v1/webhooks/{}/recover", id(&strong_hook));
        weak.post(&recover, &since).await.ok();
        let task = old["task_id"].as_str().unwrap();
        delivery_in(&strong, task, "held").await;
        assert_eq!(of_weak.posted().len(), 1, "{:?}", of_weak.posted());
    }
}

#[tokio::test]
async fn an_endpoint_of_a_revoked_key_is_told_nothing_until_another_takes_it_over() {
    for postgres in [false, true] {
        let gateway = start(postgres).await;
        let operator = operator(&gateway).await;
        let leaving = manager(&gateway, &[Scope::TasksRead]).await;
        let staying = manager(&gateway, &[Scope::TasksRead]).await;
        let (of_leaving, of_staying) = (receiver().await, receiver().await);
        let hook = register(&leaving, &of_leaving, json!({})).await;
        register(&staying, &of_staying, json!({})).await;
        made(&gateway, &gateway, 1, &of_staying).await;
        of_leaving.wait_for_count(1).await;
        let path = format!("/v1/admin/keys/{}", hook["key_id"].as_str().unwrap());
        let revoked = operator.delete(&path).await.ok();
        assert_eq!(revoked["webhooks"][0]["id"], hook["id"]);
        let missed = made(&gateway, &gateway, 2, &of_staying).await;
        assert_eq!(of_leaving.posted().len(), 1);
        let held = deliveries(&staying, &hook).await;
        assert_eq!(
            (&held[0]["task_id"], &held[0]["state"]),
            (&json!(missed), &json!("held"))
        );
        let taken = change(&staying, &hook, json!({"enabled": true})).await;
        assert_ne!(taken["key_id"], hook["key_id"]);
        let recover = format!("/v1/webhooks/{}/recover", id(&hook));
        let since = json!({"since": "2020-01-01T00:00:00Z"});
        let recovered = staying.post(&recover, &since).await.ok();
        assert_eq!(recovered["recovered"], 1);
        assert_eq!(
            body(&of_leaving.wait_for_count(2).await[1])["data"]["id"],
            missed
        );
    }
}
