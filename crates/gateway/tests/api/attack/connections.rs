//! Connections that ask for nothing, and more of them than there are places.

use std::time::Duration;

use mediagate_http::server::ConnectionLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Door, knock, until_closed};
use crate::support::program::Server;
use crate::support::{Client, TestGateway, eventually, videos_order};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

fn limits(in_all: usize) -> ConnectionLimits {
    let mut limits = ConnectionLimits::new(in_all, in_all, None, Vec::new());
    limits.per_peer = in_all;
    limits
}

#[tokio::test]
async fn who_says_nothing_is_let_go() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let short = Duration::from_millis(200);
    let door = Door::open(
        &gateway,
        ConnectionLimits {
            first_request: short,
            idle: short,
            ..limits(100)
        },
    )
    .await;
    let half_a_head = b"GET /healthz HTTP/1.1\r\nhost: x\r\n";
    let open_h2 = [PREFACE, SETTINGS].concat();
    for silent in [
        b"".as_slice(),
        b"P",
        b"PRI * HTTP/2.0",
        &open_h2,
        half_a_head,
    ] {
        until_closed(door.knock(silent).await).await;
    }
    let answered = door
        .knock(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    let answer = until_closed(answered).await;
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    gateway.stop().await;
}

#[tokio::test]
async fn a_request_under_way_is_no_silence() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let short = Duration::from_millis(400);
    let door = Door::open(
        &gateway,
        ConnectionLimits {
            first_request: short,
            idle: short,
            ..limits(100)
        },
    )
    .await;
    let answer = until_closed(door.knock(waiting(&gateway, 1).await.as_bytes()).await).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("queued"),
        "{answer}"
    );
    gateway.stop().await;
}

/// A request that waits so many seconds for a task that nobody works on.
async fn waiting(gateway: &TestGateway, seconds: u32) -> String {
    let video = gateway.post("/v1/videos", &videos_order()).await.ok();
    let task = video["id"].as_str().unwrap().replace("video_", "");
    let key = gateway.key.as_deref().unwrap();
    format!(
        "GET /v1/tasks/{task}?wait={seconds} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n"
    )
}

#[tokio::test]
async fn when_every_place_is_taken_probes_are_answered_and_others_told_to_come_back() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let door = Door::open(&gateway, limits(2)).await;
    let wait = waiting(&gateway, 60).await;
    let _busy = [
        door.knock(wait.as_bytes()).await,
        door.knock(wait.as_bytes()).await,
    ];
    eventually("both are busy", async || {
        let answer = door.client(&gateway).get("/v1/models").await;
        (answer.status == 503).then(|| answer.refused(503, "overloaded").clone())
    })
    .await;
    assert_eq!(door.client(&gateway).get("/healthz").await.status, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn more_silent_sockets_than_files_leave_the_program_answering() {
    const SOCKETS: usize = 1100;
    let files = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: files.maximum,
        ..files
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_within("-n 1024", data.path(), &[]).await;
    let key = server.first_key().await;
    let mut silent = Vec::new();
    for number in 0..SOCKETS {
        let word = [b"".as_slice(), b"P", PREFACE][number % 3];
        silent.push(knock(&server.base, word).await);
    }
    // Each asks on a connection of its own.
    let anyone = Client::new(&server.base, None);
    assert_eq!(anyone.get("/healthz").await.status, 200);
    let caller = Client::new(&server.base, Some(&key));
    caller.post("/v1/videos", &videos_order()).await.ok();
    assert!(
        server.peak_memory() < 300_000_000,
        "{}",
        server.peak_memory()
    );
    drop(silent);
    server.stop().await;
}
