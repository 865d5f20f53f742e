//! One intent, one task: repeated requests, recognized by key, by body and by an SDK's retry mark.

mod bodies;
mod keys;
mod processes;
mod refused;
mod wordings;

use std::time::Duration;

use mediagate_model::ids::TaskId;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::{Answer, Client, TestGateway, eventually};

/// A request with an `Idempotency-Key`.
fn request_with_key(client: &Client, path: &str, key: &str, body: &Value) -> RequestBuilder {
    let request = client.request(Method::POST, path).json(body);
    request.header("idempotency-key", key)
}

/// A request that an SDK marks as its second try.
fn retry_request(client: &Client, path: &str, body: &Value) -> RequestBuilder {
    let request = client.request(Method::POST, path).json(body);
    request.header("x-stainless-retry-count", "1")
}

/// Sends a request and disconnects once it has created a task; returns that
/// task's id.
async fn hang_up(gateway: &TestGateway, path: &str, body: &Value) -> String {
    let before = tasks(gateway).await;
    let request = gateway.request(Method::POST, path).json(body);
    let request_task = tokio::spawn(request.send());
    let task = eventually("the task is accepted", async || {
        let current = tasks(gateway).await;
        current.iter().find(|id| !before.contains(id)).cloned()
    })
    .await;
    request_task.abort();
    drop(request_task.await);
    task
}

/// Claims a task as a worker would, if one waits.
async fn claim(gateway: &TestGateway) -> Option<TaskId> {
    let list = gateway.get("/v1/tasks?status=queued").await.ok();
    if list["data"].as_array().unwrap().is_empty() {
        return None;
    }
    Some(gateway.claim().await.id)
}

/// Like [`claim`], but waits until there is a task to claim.
async fn claim_soon(gateway: &TestGateway) -> TaskId {
    eventually("a task waits", async || claim(gateway).await).await
}

/// The ids of all tasks, newest first.
async fn tasks(client: &Client) -> Vec<String> {
    let list = client.get("/v1/tasks?limit=100").await.ok();
    let ids = list["data"].as_array().unwrap().iter();
    ids.map(|task| task["id"].as_str().unwrap().to_owned())
        .collect()
}

fn task_of(answer: &Answer) -> String {
    let id = answer.header("x-task-id");
    id.unwrap_or_else(|| panic!("{}", answer.text())).to_owned()
}

fn prompt(text: &str) -> Value {
    json!({"model": "animatic-1", "prompt": text, "size": "480x480", "seconds": "1"})
}

fn chat(text: &str) -> Value {
    json!({
        "model": "animatic-1",
        "messages": [{"role": "user", "content": text}],
        "video": {"size": "480x480", "seconds": 1},
    })
}

/// Longer than it takes to notice that a caller left.
const NOTICE_TIME: Duration = Duration::from_millis(300);
