//! Streams and waits: they end with the key of their request.

use reqwest::Method;
use serde_json::{Value, json};

use super::{patch, start};
use crate::support::sse::Events;
use crate::support::{Answer, Client, TestGateway, eventually, video_order, videos_order};
use mediagate_core::domain::keys::NewKey;
use mediagate_core::event_feed::MOST_FOLLOWERS;
use mediagate_model::account::Scope;

const FEED: &str = "/v1/admin/events";

async fn follow(client: &Client, path: &str) -> Events {
    Events::open(client.request(Method::GET, path)).await
}

/// The code of the error that ends a stream.
async fn last_code(events: Events) -> Value {
    let last = events.rest().await.pop().unwrap();
    last.json()["error"]["code"].clone()
}

async fn key_path(caller: &Client) -> String {
    let account = caller.get("/v1/account").await.ok();
    format!("/v1/admin/keys/{}", account["key"]["id"].as_str().unwrap())
}

/// A caller whose key has every scope, so that it may follow everything.
async fn second_operator(gateway: &TestGateway, handle: &str) -> Client {
    let new = NewKey {
        scopes: vec![Scope::Admin],
        ..NewKey::default()
    };
    gateway.caller(handle, new).await
}

/// A stream of a session, which has no key but a cookie.
async fn session_stream(client: &Client, path: &str) -> Events {
    let begun = client
        .send(client.request(Method::POST, "/v1/session"))
        .await;
    let cookie = begun.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let anyone = client.without_key();
    let request = anyone.request(Method::GET, path);
    Events::open(request.header("cookie", cookie)).await
}

#[tokio::test]
async fn streams_and_waits_end_with_their_key() {
    for postgres in [false, true] {
        Box::pin(check_revocation(postgres)).await;
    }
}

/// On Postgres another process revokes the key. Its tasks continue, so that nothing but the key ends
/// its requests.
async fn check_revocation(postgres: bool) {
    let (gateway, staying) = start(postgres).await;
    let replica = if postgres {
        Some(gateway.replica_without_workers().await)
    } else {
        None
    };
    let leaked = second_operator(&gateway, "leaky").await;
    let order = leaked.post("/v1/videos", &videos_order()).await;
    let task = order.header("x-task-id").unwrap().to_owned();
    let path = format!("/v1/tasks/{task}/events");
    let mut streams = vec![
        follow(&leaked, &path).await,
        follow(&leaked, FEED).await,
        session_stream(&leaked, &path).await,
        session_stream(&leaked, FEED).await,
    ];
    let mut chat = video_order();
    chat["stream"] = json!(true);
    let request = leaked.request(Method::POST, "/v1/chat/completions");
    streams.push(Events::open(request.json(&chat)).await);
    let wait = |client: Client, path: String| tokio::spawn(async move { client.get(&path).await });
    let single = wait(leaked.clone(), format!("/v1/tasks/{task}?wait=60"));
    let chat = {
        let client = leaked.clone();
        let mut order = video_order();
        order["messages"][0]["content"] = json!("another lake");
        tokio::spawn(async move {
            let request = client.request(Method::POST, "/v1/chat/completions");
            let request = request.header("idempotency-key", "wait").json(&order);
            client.send(request).await
        })
    };
    eventually("all orders are accepted", async || {
        let key = staying.get("/v1/admin/tasks?account=leaky").await.ok();
        (key["data"].as_array().unwrap().len() == 3).then_some(())
    })
    .await;
    let mut kept_stream = follow(&staying, FEED).await;
    let key = key_path(&leaked).await;
    let revoker = replica.as_ref().map_or_else(
        || staying.clone(),
        |replica| replica.with_key(staying.key.as_ref().unwrap()),
    );
    let revoked = revoker.delete(&format!("{key}?keep_tasks=true")).await;
    assert_eq!(revoked.ok()["tasks"]["continuing"], 3);
    for stream in streams {
        assert_eq!(last_code(stream).await, "revoked_api_key");
    }
    for waiting in [single, chat] {
        let answer: Answer = waiting.await.unwrap();
        answer.refused(401, "revoked_api_key");
    }
    // The others are still served: the entry of the revocation arrives.
    loop {
        let event = kept_stream.next().await.unwrap().json();
        if event["change"]["action"] == "key.revoke" {
            break;
        }
    }
    let view = staying.get(&format!("/v1/admin/tasks/{task}")).await.ok();
    assert_eq!(view["status"], "queued");
    drop(kept_stream);
    if let Some(replica) = replica {
        replica.stop().await;
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_stream_ends_with_the_right_that_it_needs() {
    let (gateway, staying) = start(false).await;
    // A scope is taken away.
    let demoted = second_operator(&gateway, "leaky").await;
    let stream = follow(&demoted, FEED).await;
    let body = json!({"scopes": ["tasks:read"]});
    patch(&staying, &key_path(&demoted).await, &body).await.ok();
    assert_eq!(last_code(stream).await, "insufficient_scope");
    // The secret is replaced.
    let rotated = second_operator(&gateway, "leaky").await;
    let (stream, session) = (
        follow(&rotated, FEED).await,
        session_stream(&rotated, FEED).await,
    );
    let rotate = format!("{}/rotate", key_path(&rotated).await);
    staying.post(&rotate, &json!({})).await.ok();
    assert_eq!(last_code(stream).await, "revoked_api_key");
    assert_eq!(last_code(session).await, "expired_api_key");
    gateway.stop().await;
}

#[tokio::test]
async fn a_revoked_operator_leaves_its_seat_at_the_feed() {
    let (gateway, staying) = start(false).await;
    for _ in 1..MOST_FOLLOWERS {
        gateway.app.process.feed.join().unwrap();
    }
    let leaked = second_operator(&gateway, "leaky").await;
    let stream = follow(&leaked, FEED).await;
    staying.get(FEED).await.refused(503, "overloaded");
    staying.delete(&key_path(&leaked).await).await.ok();
    assert_eq!(last_code(stream).await, "revoked_api_key");
    eventually("the seat is free", async || {
        let response = staying.request(Method::GET, FEED).send().await.unwrap();
        (response.status() == 200).then_some(())
    })
    .await;
    gateway.stop().await;
}

/// A default revocation cancels the task that a request waits for. The request learns that its key
/// has ended, and not what became of the task.
#[tokio::test]
async fn a_wait_for_a_task_that_ends_with_its_key_is_refused() {
    let (gateway, staying) = start(false).await;
    let leaked = second_operator(&gateway, "leaky").await;
    let mut order = video_order();
    order["stream"] = json!(true);
    let request = leaked.request(Method::POST, "/v1/chat/completions");
    let stream = Events::open(request.json(&order)).await;
    let list = staying.get("/v1/admin/tasks?account=leaky").await.ok();
    let task = list["data"][0]["id"].as_str().unwrap().to_owned();
    let waiting = {
        let (client, path) = (leaked.clone(), format!("/v1/tasks/{task}?wait=60"));
        tokio::spawn(async move { client.get(&path).await })
    };
    let events = follow(&leaked, &format!("/v1/tasks/{task}/events")).await;
    let revoked = staying.delete(&key_path(&leaked).await).await.ok();
    assert_eq!(
        revoked["tasks"],
        json!({"cancelled": 1, "continuing": 0, "held_usd": "0.00"})
    );
    assert_eq!(last_code(stream).await, "revoked_api_key");
    assert_eq!(last_code(events).await, "revoked_api_key");
    waiting.await.unwrap().refused(401, "revoked_api_key");
    gateway.stop().await;
}
