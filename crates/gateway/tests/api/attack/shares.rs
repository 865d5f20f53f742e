//! Slow requests of one account must not delay another's.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::error::ErrorCode;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::connect_and_send;
use crate::support::gateway::upload;
use crate::support::{Client, TestGateway, sound, video_order, videos_order};

#[tokio::test]
async fn slow_addresses_delay_no_other_account() {
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
async fn trickled_bodies_use_no_other_accounts_capacity() {
    const BODIES: usize = 16;
    let gateway = TestGateway::builder().without_workers().start().await;
    let key = gateway.key.clone().unwrap();
    let beginning = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: 31000000\r\n\r\n{{\"x\":\"data:{}",
        "A".repeat(2_000_000)
    );
    let mut connections = Vec::new();
    for _ in 0..BODIES {
        connections.push(connect_and_send(&gateway.base, beginning.as_bytes()).await);
    }
    let other = gateway.with_key(&gateway.new_key("other", NewKey::default()).await);
    let mut order = video_order();
    let picture = format!("data:image/png;base64,{}", "A".repeat(8_000_000));
    order["messages"][0]["content"] = json!([{"type": "image_url", "image_url": {"url": picture}}]);
    let answer = other.post("/v1/chat/completions", &order).await;
    answer.refused(422, "image_invalid");
    drop(connections);
    gateway.stop().await;
}

#[tokio::test]
async fn many_films_of_one_account_delay_no_other_account() {
    let gateway = TestGateway::builder().without_workers().start().await;
    accounts_take_turns(&gateway, &gateway).await;
    gateway.stop().await;
}

#[tokio::test]
async fn many_films_of_one_account_delay_no_other_account_at_two_processes() {
    let gateway = TestGateway::builder().without_workers().on_postgres();
    let gateway = gateway.start().await;
    let replica = gateway.replica_without_workers().await;
    accounts_take_turns(&gateway, &replica).await;
    replica.stop().await;
    gateway.stop().await;
}

/// Two workers, perhaps of two processes, claim tasks of two accounts.
async fn accounts_take_turns(gateway: &TestGateway, replica: &TestGateway) {
    let order = async |client: &Client| {
        let answer = client.post("/v1/videos", &videos_order()).await;
        let task = answer.header("x-task-id").map(str::to_owned);
        answer.ok();
        task.unwrap()
    };
    let mut tasks = Vec::new();
    for _ in 0..12 {
        tasks.push(order(gateway).await);
    }
    let first = gateway.claim().await;
    assert_eq!(first.id.to_string(), tasks[0]);
    let other = gateway.caller("other", NewKey::default()).await;
    let other_tasks = [order(&other).await, order(&other).await];
    // With one slot: the account that was served goes last.
    gateway.fail(first.id, ErrorCode::ContentPolicy).await;
    let second = replica.claim().await;
    assert_eq!(second.id.to_string(), other_tasks[0]);
    // With two slots: an account that holds one goes after one that holds none.
    let third = gateway.claim().await;
    assert_eq!(third.id.to_string(), tasks[1]);
    replica.fail(second.id, ErrorCode::ContentPolicy).await;
    let fourth = replica.claim().await;
    assert_eq!(fourth.id.to_string(), other_tasks[1]);
    // An account that waits alone gets all slots.
    for task in &tasks[2..] {
        assert_eq!(gateway.claim().await.id.to_string(), *task);
    }
}
