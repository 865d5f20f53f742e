//! Intents outlive the process that first knew them, and are known to others.

use std::time::Duration;

use super::{chat, hang_up, keyed, prompt, retried, task_of, tasks};
use crate::support::program::Server;
use crate::support::{Client, TestGateway, eventually};

#[tokio::test]
async fn a_restart_leads_callers_back_to_their_tasks() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let lost = hang_up(&gateway, "/v1/chat/completions", &chat("a lake")).await;
    let kept = gateway
        .send(keyed(&gateway, "/v1/videos", "k", &prompt("a lake")))
        .await;
    let gateway = gateway.restart(None).await;
    let answer = gateway.post("/v1/chat/completions", &chat("a lake")).await;
    assert_eq!(task_of(&answer), lost);
    answer.ok();
    let again = gateway
        .send(keyed(&gateway, "/v1/videos", "k", &prompt("a lake")))
        .await;
    assert_eq!(again.bytes, kept.bytes);
    assert_eq!(tasks(&gateway).await.len(), 2);
    gateway.stop().await;
}

/// What a crash interrupts is lost to its callers, at once.
#[tokio::test]
async fn a_crash_leads_callers_back_to_their_tasks() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]).await;
    let key = server.first_key().await;
    let client = Client::new(&server.base, Some(&key));
    let mut body = chat("a lake");
    body["video"]["seconds"] = 8.into();
    let request = client
        .request(reqwest::Method::POST, "/v1/chat/completions")
        .json(&body);
    let waiting = tokio::spawn(request.send());
    let task = eventually("the task is accepted", async || {
        let list = client.get("/v1/tasks").await.ok();
        Some(list["data"][0]["id"].as_str()?.to_owned())
    })
    .await;
    server.crash();
    drop(waiting.await);
    let server = Server::start(data.path(), &[]).await;
    let client = Client::new(&server.base, Some(&key));
    let answer = client.post("/v1/chat/completions", &body).await;
    assert_eq!(task_of(&answer), task);
    answer.ok();
    server.stop().await;
}

#[tokio::test]
async fn two_servers_on_one_database_know_each_others_callers() {
    let data = tempfile::tempdir().unwrap();
    let one = Server::start(data.path(), &[]).await;
    let key = one.first_key().await;
    let two = Server::start(data.path(), &[]).await;
    let (first, second) = (
        Client::new(&one.base, Some(&key)),
        Client::new(&two.base, Some(&key)),
    );
    // A caller that waits over there is here: the same body is a new intent.
    let mut body = chat("a lake");
    body["video"]["seconds"] = 10.into();
    let request = first
        .request(reqwest::Method::POST, "/v1/chat/completions")
        .json(&body);
    let waiting = tokio::spawn(request.send());
    eventually("the task is accepted", async || {
        let list = second.get("/v1/tasks").await.ok();
        (!list["data"].as_array()?.is_empty()).then_some(())
    })
    .await;
    let body_two = body.clone();
    let other = second.clone();
    let same = tokio::spawn(async move {
        let request = other.request(reqwest::Method::POST, "/v1/chat/completions");
        request
            .json(&body_two)
            .timeout(Duration::from_secs(8))
            .send()
            .await
    });
    eventually("a second task", async || {
        let list = second.get("/v1/tasks").await.ok();
        (list["data"].as_array()?.len() == 2).then_some(())
    })
    .await;
    // One key, two servers: one task.
    let order = prompt("a sea");
    let both = futures_util::future::join(
        first.send(keyed(&first, "/v1/videos", "k", &order)),
        second.send(keyed(&second, "/v1/videos", "k", &order)),
    );
    let (here, there) = both.await;
    assert_eq!(task_of(&here), task_of(&there));
    assert_eq!(here.bytes, there.bytes);
    let again = second.send(retried(&second, "/v1/videos", &order)).await;
    assert_eq!(task_of(&again), task_of(&here));
    waiting.abort();
    same.abort();
    one.crash();
    two.stop().await;
}
