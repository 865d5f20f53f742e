//! One intent, one film: repeated orders at `/api/v1`.

use mediagate_model::error::ErrorCode;
use reqwest::Method;
use serde_json::Value;

use super::{CHAT, VIDEOS, chat_order, order, without_workers};
use crate::support::{Answer, TestGateway, eventually};

async fn send_with_key(gateway: &TestGateway, path: &str, key: &str, body: &Value) -> Answer {
    let request = gateway.request(Method::POST, path).json(body);
    gateway.send(request.header("idempotency-key", key)).await
}

async fn task_count(gateway: &TestGateway) -> usize {
    let list = gateway.get("/v1/tasks?limit=100").await.ok();
    list["data"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_key_gets_its_first_answer_again() {
    let gateway = without_workers().await;
    let first = send_with_key(&gateway, VIDEOS, "k", &order("a lake")).await;
    let again = send_with_key(&gateway, VIDEOS, "k", &order("a lake")).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.header("x-task-id"), first.header("x-task-id"));
    assert_eq!(again.clone().accepted(), first.accepted());
    let other = send_with_key(&gateway, VIDEOS, "k", &order("a river")).await;
    other.refused(409, "idempotency_conflict");
    // An answer has one form, so a key belongs to one endpoint.
    let other_api = send_with_key(&gateway, "/v1/videos", "k", &order("a lake")).await;
    other_api.refused(409, "idempotency_conflict");
    assert_eq!(task_count(&gateway).await, 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_stored_error_is_repeated_in_the_dialects_form() {
    let gateway = without_workers().await;
    let chat = chat_order("forbidden");
    let request = gateway.request(Method::POST, CHAT).json(&chat);
    let request = request.header("idempotency-key", "k");
    let (client, request) = (gateway.client.clone(), request);
    let first = tokio::spawn(async move { client.send(request).await });
    eventually("the task is accepted", async || {
        (task_count(&gateway).await == 1).then_some(())
    })
    .await;
    let task = gateway.claim().await;
    gateway.fail(task.id, ErrorCode::ContentPolicy).await;
    let first = first.await.unwrap();
    let again = send_with_key(&gateway, CHAT, "k", &chat).await;
    for answer in [&first, &again] {
        answer.refused(422, "content_policy");
        let error = &answer.json["error"];
        assert_eq!(error["code"], 422);
        assert_eq!(error["metadata"]["task_id"], task.id.to_string());
    }
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    gateway.stop().await;
}

/// The connection ends while the order waits for its film, as when a network breaks.
#[tokio::test]
async fn an_order_whose_answer_was_lost_is_joined() {
    let mut gateway = without_workers().await;
    let body = chat_order("a lake");
    let request = gateway.request(Method::POST, CHAT).json(&body);
    let first = tokio::spawn(request.send());
    let task = eventually("the task is accepted", async || {
        let list = gateway.get("/v1/tasks?limit=100").await.ok();
        list["data"][0]["id"].as_str().map(ToOwned::to_owned)
    })
    .await;
    first.abort();
    drop(first.await);
    gateway.start_workers().await;
    gateway.finished(&task).await;
    let joined = gateway.post(CHAT, &body).await;
    assert_eq!(joined.header("x-task-id"), Some(&*task));
    joined.ok();
    assert_eq!(task_count(&gateway).await, 1);
    gateway.stop().await;
}
