//! Webhooks, against a receiver that behaves and misbehaves.

mod calls;
mod endpoints;
mod log;
mod receivers;
mod secrets;
mod visibility;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use simulator::{ReceivedPost, WebhookReceiver};

use crate::support::gateway::Builder;
use crate::support::{Client, TestGateway, eventually, videos_order};

/// Receivers on loopback may be called.
fn builder() -> Builder {
    TestGateway::builder().allow_loopback()
}

async fn start() -> (TestGateway, WebhookReceiver) {
    (
        builder().start().await,
        WebhookReceiver::start().await.unwrap(),
    )
}

/// Registers an endpoint; the answer holds its secret.
async fn register(client: &Client, receiver: &WebhookReceiver, more: Value) -> Value {
    let mut body = json!({"url": receiver.url("/hook")});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    client.post("/v1/webhooks", &body).await.ok()
}

fn id(record: &Value) -> &str {
    record["id"].as_str().unwrap()
}

/// Orders a video; its task.
async fn order(client: &Client, more: Value) -> String {
    let mut body = videos_order();
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let made = client.post("/v1/videos", &body).await;
    assert_eq!(made.status, 200, "{}", made.text());
    made.header("x-task-id").unwrap().to_owned()
}

/// The one delivery of a task, once it is in this state.
async fn delivery_in(client: &Client, task: &str, state: &str) -> Value {
    eventually(&format!("the delivery is {state}"), async || {
        let list = client.get(&format!("/v1/tasks/{task}/deliveries")).await;
        let found = list.ok()["data"][0].clone();
        (found["state"] == state).then_some(found)
    })
    .await
}

/// One delivery with its tries.
async fn whole(client: &Client, delivery: &Value) -> Value {
    let path = format!("/v1/webhooks/deliveries/{}", id(delivery));
    client.get(&path).await.ok()
}

/// Whether one of the signatures is right by this secret.
fn is_signed(posted: &ReceivedPost, secret: &str) -> bool {
    let key = BASE64
        .decode(secret.strip_prefix("whsec_").unwrap())
        .unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    let (id, time) = (
        posted.header("webhook-id"),
        posted.header("webhook-timestamp"),
    );
    mac.update(format!("{id}.{time}.{}", posted.body).as_bytes());
    let right = format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()));
    let mut all = posted.header("webhook-signature").split(' ');
    all.any(|signature| signature == right)
}

fn body(posted: &ReceivedPost) -> Value {
    serde_json::from_str(&posted.body).unwrap()
}
