//! What one account does slowly must not stand in another's way.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::error::ErrorCode;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::knock;
use crate::support::gateway::upload;
use crate::support::{Client, TestGateway, sound, video_order, videos_order};

#[tokio::test]
async fn slow_addresses_keep_nobody_else_waiting() {
    const ADDRESSES: usize = 6;
    let gateway = TestGateway::builder().allow_loopback().start().await;
    let slow = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/a.wav", slow.local_addr().unwrap());
    let mut uploads = Vec::new();
    let mut fetches = Vec::new();
    for number in 0..ADDRESSES {
        let client = gateway.client.clone();
        let body = json!({"url": format!("{address}?{number}")});
        uploads.push(tokio::spawn(async move {
            client.post("/musicgen/uploads/audio", &body).await
        }));
        // All are fetched at the same time; none is answered.
        let mut fetch = slow.accept().await.unwrap().0;
        fetch.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        fetches.push(fetch);
    }
    let other = gateway.with_key(&gateway.new_key("other", NewKey::default()).await);
    upload(&other, "song", sound::wav(1, 1)).await;
    assert!(uploads.iter().all(|upload| !upload.is_finished()));
    drop(fetches);
    for upload in uploads {
        upload.await.unwrap().refused(422, "audio_fetch_failed");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn trickled_bodies_take_nobody_elses_room() {
    const BODIES: usize = 16;
    let gateway = TestGateway::builder().without_workers().start().await;
    let key = gateway.key.clone().unwrap();
    let begin = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: 31000000\r\n\r\n{{\"x\":\"data:{}",
        "A".repeat(2_000_000)
    );
    let mut trickled = Vec::new();
    for _ in 0..BODIES {
        trickled.push(knock(&gateway.base, begin.as_bytes()).await);
    }
    let other = gateway.with_key(&gateway.new_key("other", NewKey::default()).await);
    let mut order = video_order();
    let picture = format!("data:image/png;base64,{}", "A".repeat(8_000_000));
    order["messages"][0]["content"] = json!([{"type": "image_url", "image_url": {"url": picture}}]);
    let answer = other.post("/v1/chat/completions", &order).await;
    answer.refused(422, "image_invalid");
    drop(trickled);
    gateway.stop().await;
}

#[tokio::test]
async fn many_films_of_one_account_keep_no_other_account_waiting() {
    let gateway = TestGateway::builder().without_workers().start().await;
    accounts_take_turns(&gateway, &gateway).await;
    gateway.stop().await;
}

#[tokio::test]
async fn many_films_of_one_account_keep_no_other_account_waiting_at_two_processes() {
    let gateway = TestGateway::builder().without_workers().on_postgres();
    let gateway = gateway.start().await;
    let replica = gateway.idle_replica().await;
    accounts_take_turns(&gateway, &replica).await;
    replica.stop().await;
    gateway.stop().await;
}

/// Two workers, which may be those of two processes, take what was ordered.
async fn accounts_take_turns(gateway: &TestGateway, replica: &TestGateway) {
    let order = async |client: &Client| {
        let answer = client.post("/v1/videos", &videos_order()).await;
        let task = answer.header("x-task-id").map(str::to_owned);
        answer.ok();
        task.unwrap()
    };
    let mut many = Vec::new();
    for _ in 0..12 {
        many.push(order(gateway).await);
    }
    let first = gateway.claim().await;
    assert_eq!(first.id.to_string(), many[0]);
    let other = gateway.caller("other", NewKey::default()).await;
    let few = [order(&other).await, order(&other).await];
    // With one place: the one who was served goes behind the other.
    gateway.fail(first.id, ErrorCode::ContentPolicy).await;
    let second = replica.claim().await;
    assert_eq!(second.id.to_string(), few[0]);
    // With two: who holds one goes behind who holds none.
    let third = gateway.claim().await;
    assert_eq!(third.id.to_string(), many[1]);
    replica.fail(second.id, ErrorCode::ContentPolicy).await;
    let fourth = replica.claim().await;
    assert_eq!(fourth.id.to_string(), few[1]);
    // Whoever waits alone has all places.
    for task in &many[2..] {
        assert_eq!(gateway.claim().await.id.to_string(), *task);
    }
}
