//! JSON that is small to send and takes much memory to hold.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::program::Server;
use crate::support::{Answer, Client, TestGateway, eventually, video_order};

const CHAT: &str = "/v1/chat/completions";

async fn post(client: &Client, body: String) -> Answer {
    let request = client
        .request(Method::POST, CHAT)
        .header("content-type", "application/json")
        .body(body);
    client.send(request).await
}

/// A list of this many objects, each with one member.
fn objects(count: usize) -> String {
    format!("[{}0]", "{\"\":0},".repeat(count))
}

#[tokio::test]
async fn a_body_of_small_values_is_refused_before_it_is_built() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    let before = server.peak_memory();
    let body = objects(31_900_000 / 7);
    let (first, second) = tokio::join!(post(&client, body.clone()), post(&client, body));
    first.refused(413, "body_too_large");
    second.refused(413, "body_too_large");
    let growth = server.peak_memory().saturating_sub(before);
    assert!(growth < 64_000_000, "two bodies took {growth} bytes");
}

#[tokio::test]
async fn values_are_counted_whatever_they_are() {
    let gateway = TestGateway::builder().without_workers().start().await;
    for body in [
        objects(60_000),
        format!("[{}0]", "0,".repeat(200_000)),
        format!("[{}0]", "[],".repeat(200_000)),
        format!("[{}0]", "\"\",".repeat(200_000)),
    ] {
        assert!(body.len() < 1_000_000);
        let answer = post(&gateway, body).await;
        answer.refused(413, "body_too_large");
        assert!(answer.message().contains("150000"), "{}", answer.message());
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_waiting_caller_holds_only_its_order_in_memory() {
    const CHATS: usize = 15;
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--workers", "1"]).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    let mut order = video_order();
    order["video"]["seconds"] = json!(20);
    order["padding"] = serde_json::from_str(&objects(49_000)).unwrap();
    let order = order.to_string();
    let chats: Vec<_> = (0..CHATS)
        .map(|_| {
            let (client, order) = (client.clone(), order.clone());
            tokio::spawn(async move { post(&client, order).await })
        })
        .collect();
    eventually("all wait", async || {
        let tasks = client.get("/v1/tasks?limit=100").await.ok();
        (tasks["data"].as_array().unwrap().len() == CHATS).then_some(())
    })
    .await;
    assert!(chats.iter().all(|chat| !chat.is_finished()));
    // Each of these bodies takes some 40 MB when it is parsed.
    let peak = server.peak_memory();
    assert!(
        peak < 500_000_000,
        "{CHATS} waiting callers took {peak} bytes"
    );
    chats.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn an_answer_names_only_some_of_many_faults() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let part = json!({"type": "image_url", "image_url": {}});
    let message = json!({"role": "user", "content": vec![part; 64]});
    let body = json!({"model": "animatic-1", "messages": vec![message; 256]});
    let answer = gateway.post(CHAT, &body).await;
    answer
        .refused(400, "missing_field")
        .on_param("messages[0].content[0].image_url.url");
    assert!(answer.bytes.len() < 4000, "{} bytes", answer.bytes.len());
    assert!(
        answer.message().ends_with("And 16365 more."),
        "{}",
        answer.message()
    );
    assert_eq!(answer.json["error"]["code"], Value::from("missing_field"));
    gateway.stop().await;
}
