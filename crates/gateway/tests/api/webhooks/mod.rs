//! Webhooks, with a simulated receiver.

mod callbacks;
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

/// A gateway that can send to receivers on loopback.
fn builder() -> Builder {
    TestGateway::builder().allow_loopback()
}

async fn start() -> (TestGateway, WebhookReceiver) {
    (
        builder().start().await,
        WebhookReceiver::start().await.unwrap(),
    )
}

/// Registers an endpoint; the answer has its secret.
async fn register(client: &Client, receiver: &WebhookReceiver, fields: Value) -> Value {
    let mut body = json!({"url": receiver.url("/hook")});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    client.post("/v1/webhooks", &body).await.ok()
}

fn id(record: &Value) -> &str {
    record["id"].as_str().unwrap()
}

/// Orders a video; returns its task's identifier.
async fn order(client: &Client, fields: Value) -> String {
    let mut body = videos_order();
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    let answer = client.post("/v1/videos", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.header("x-task-id").unwrap().to_owned()
}

/// The one delivery of a task, once it is in this state.
async fn delivery_in(client: &Client, task: &str, state: &str) -> Value {
    eventually(&format!("the delivery is {state}"), async || {
        let list = client.get(&format!("/v1/tasks/{task}/deliveries")).await;
        let delivery = list.ok()["data"][0].clone();
        (delivery["state"] == state).then_some(delivery)
    })
    .await
}

/// A delivery with its attempts.
async fn with_attempts(client: &Client, delivery: &Value) -> Value {
    let path = format!("/v1/webhooks/deliveries/{}", id(delivery));
    client.get(&path).await.ok()
}

/// Whether one of the signatures is valid for this secret.
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
    let expected = format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()));
    let mut signatures = posted.header("webhook-signature").split(' ');
    signatures.any(|signature| signature == expected)
}

fn body(posted: &ReceivedPost) -> Value {
    serde_json::from_str(&posted.body).unwrap()
}
