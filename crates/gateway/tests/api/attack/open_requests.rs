//! Streams and waits: each holds a connection, and behind a trusted proxy all callers share one
//! address.

use futures_util::FutureExt as _;
use mediagate_core::domain::keys::NewKey;
use mediagate_http::server::ConnectionLimits;
use reqwest::Method;

use super::{LimitedListener, read_until_closed};
use crate::support::sse::Events;
use crate::support::{Client, TestGateway, eventually, video_order, videos_order};

/// Most streams, and most waits, of one key.
const PER_KEY: usize = 100;

/// A task that no worker runs.
async fn task(client: &Client) -> String {
    let video = client.post("/v1/videos", &videos_order()).await.ok();
    video["id"].as_str().unwrap().replace("video_", "")
}

/// A listener to which this machine is a trusted proxy.
async fn behind_proxy(gateway: &TestGateway, connections: usize) -> LimitedListener {
    let proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let limits = ConnectionLimits::new(connections, 1, None, proxies);
    LimitedListener::open(gateway, limits).await
}

/// A request on a connection of its own.
fn request(client: &Client, path: &str) -> String {
    let key = client.key.as_deref().unwrap();
    format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n")
}

async fn ask_once(listener: &LimitedListener, client: &Client, path: &str) -> String {
    let bytes = request(client, path) + "connection: close\r\n\r\n";
    let connection = listener.connect_and_send(bytes.as_bytes()).await;
    String::from_utf8(read_until_closed(connection).await).unwrap()
}

/// Follows a new task of this caller, on a connection of its own.
async fn follow(listener: &LimitedListener, caller: &Client) -> (Client, Events) {
    follow_on(&listener.base, caller).await
}

async fn follow_on(base: &str, caller: &Client) -> (Client, Events) {
    let path = format!("/v1/tasks/{}/events", task(caller).await);
    // With a pool of connections of its own.
    let client = Client::new(base, caller.key.as_deref());
    let mut events = Events::open(client.request(Method::GET, &path)).await;
    assert_eq!(events.next().await.unwrap().name.unwrap(), "task");
    (client, events)
}

#[tokio::test]
async fn one_accounts_streams_take_no_connection_from_another_account() {
    const CONNECTIONS: usize = 12;
    let gateway = TestGateway::builder().without_workers().start().await;
    let listener = behind_proxy(&gateway, CONNECTIONS).await;
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        streams.push(follow(&listener, &gateway).await);
    }
    let other = gateway.caller("other", NewKey::default()).await;
    for _ in 0..40 {
        let answer = ask_once(&listener, &other, "/v1/models").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    // The oldest stream gave its connection up, and says so.
    let (_, mut oldest) = streams.remove(0);
    let last = oldest.next().await.unwrap();
    assert_eq!(last.name.as_deref(), Some("error"));
    assert_eq!(last.json()["error"]["code"], "overloaded");
    assert!(oldest.next().await.is_none());
    for (_, events) in &mut streams {
        assert!(events.next().now_or_never().is_none(), "it goes on");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn the_account_with_most_connections_gives_its_oldest_request_up() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let listener = behind_proxy(&gateway, 4).await;
    let other = gateway.caller("other", NewKey::default()).await;
    // The first request of all, but its account has only one.
    let others_events = follow(&listener, &other).await;
    let path = format!("/v1/tasks/{}?wait=60", task(&gateway).await);
    let waiting = request(&gateway, &path) + "\r\n";
    let waiting = listener.connect_and_send(waiting.as_bytes()).await;
    let own_events = [
        follow(&listener, &gateway).await,
        follow(&listener, &gateway).await,
    ];
    let third = gateway.caller("third", NewKey::default()).await;
    let answer = ask_once(&listener, &third, "/v1/models").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The wait ends early, with the task as it is.
    let ended = String::from_utf8(read_until_closed(waiting).await).unwrap();
    assert!(
        ended.starts_with("HTTP/1.1 200") && ended.contains("queued"),
        "{ended}"
    );
    for (_, mut events) in own_events.into_iter().chain([others_events]) {
        assert!(events.next().now_or_never().is_none(), "it goes on");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_chat_that_gives_its_connection_up_names_its_task() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let listener = behind_proxy(&gateway, 2).await;
    let chat = |stream: bool| {
        let client = Client::new(&listener.base, gateway.key.as_deref());
        let mut order = video_order();
        order["stream"] = stream.into();
        client
            .request(Method::POST, "/v1/chat/completions")
            .json(&order)
    };
    let (client, waiting) = (Client::new(&listener.base, None), chat(false));
    let waiting = tokio::spawn(async move { client.send(waiting).await });
    let task = eventually("the order is accepted", async || {
        let tasks = gateway.get("/v1/tasks").await.ok();
        tasks["data"][0]["id"].as_str().map(ToOwned::to_owned)
    })
    .await;
    let mut chunks = Events::open(chat(true)).await;
    assert!(chunks.next().await.unwrap().data.contains("assistant"));
    let other = gateway.caller("other", NewKey::default()).await;
    let answer = ask_once(&listener, &other, "/v1/models").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = waiting.await.unwrap();
    answer.refused(503, "still_running");
    assert_eq!(answer.header("x-task-id"), Some(task.as_str()));
    drop(chunks);
    gateway.stop().await;
}

#[tokio::test]
async fn a_key_has_a_limit_of_streams_and_waits() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let task = task(&gateway).await;
    let path = format!("/v1/tasks/{task}/events");
    let mut streams = Vec::new();
    for _ in 0..PER_KEY {
        streams.push(Events::open(gateway.request(Method::GET, &path)).await);
    }
    let wait = format!("/v1/tasks/{task}?wait=60");
    for refused in [gateway.get(&path).await, gateway.get(&wait).await] {
        refused.refused(429, "too_many_open_requests");
        assert!(refused.header("retry-after").is_some());
        assert_eq!(refused.header("x-should-retry"), Some("true"));
    }
    // What does not stay open is not counted, nor are other keys.
    gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    let second_key = gateway.caller("default", NewKey::default()).await;
    drop(Events::open(second_key.request(Method::GET, &path)).await);
    streams.pop();
    eventually("the closed stream is no longer counted", async || {
        (gateway
            .get(&format!("/v1/tasks/{task}?wait=0.01"))
            .await
            .status
            == 200)
            .then_some(())
    })
    .await;
    gateway.stop().await;
}

#[tokio::test]
async fn an_account_holds_at_most_half_of_the_connections_with_streams() {
    let gateway = TestGateway::builder()
        .without_workers()
        .set(|settings| settings.max_connections = Some(20))
        .start()
        .await;
    let path = format!("/v1/tasks/{}/events", task(&gateway).await);
    let keys = [
        gateway.caller("default", NewKey::default()).await,
        gateway.caller("default", NewKey::default()).await,
    ];
    let mut streams = Vec::new();
    for number in 0..10 {
        let request = keys[number % 2].request(Method::GET, &path);
        streams.push(Events::open(request).await);
    }
    for key in &keys {
        let refused = key.get(&path).await;
        refused.refused(429, "too_many_open_requests");
        assert!(
            refused.message().contains("account"),
            "{}",
            refused.message()
        );
    }
    let other = gateway.caller("other", NewKey::default()).await;
    let (_, _events) = follow_on(&gateway.client.base, &other).await;
    gateway.stop().await;
}
