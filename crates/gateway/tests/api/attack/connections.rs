//! Silent connections, and more connections than the limits allow.

use std::time::Duration;

use mediagate_http::server::ConnectionLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{LimitedListener, connect_and_send, read_until_closed};
use crate::support::program::Server;
use crate::support::{Client, TestGateway, eventually, videos_order};
use mediagate_core::domain::keys::NewKey;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

fn limits(total: usize) -> ConnectionLimits {
    let mut limits = ConnectionLimits::new(total, total, None, Vec::new());
    limits.per_peer = total;
    limits
}

#[tokio::test]
async fn silent_connections_are_closed() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let timeout = Duration::from_millis(200);
    let listener = LimitedListener::open(
        &gateway,
        ConnectionLimits {
            first_request: timeout,
            idle: timeout,
            ..limits(100)
        },
    )
    .await;
    let half_a_header = b"GET /healthz HTTP/1.1\r\nhost: x\r\n";
    let open_h2 = [PREFACE, SETTINGS].concat();
    for bytes in [
        b"".as_slice(),
        b"P",
        b"PRI * HTTP/2.0",
        &open_h2,
        half_a_header,
    ] {
        read_until_closed(listener.connect_and_send(bytes).await).await;
    }
    let connection = listener
        .connect_and_send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    let answer = read_until_closed(connection).await;
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    gateway.stop().await;
}

#[tokio::test]
async fn a_waiting_request_is_not_closed_as_silent() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let timeout = Duration::from_millis(400);
    let listener = LimitedListener::open(
        &gateway,
        ConnectionLimits {
            first_request: timeout,
            idle: timeout,
            ..limits(100)
        },
    )
    .await;
    let answer = read_until_closed(
        listener
            .connect_and_send(waiting_request(&gateway, 1).await.as_bytes())
            .await,
    )
    .await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("queued"),
        "{answer}"
    );
    gateway.stop().await;
}

/// A request that waits this many seconds for a task that no worker runs.
async fn waiting_request(caller: &Client, seconds: u32) -> String {
    let video = caller.post("/v1/videos", &videos_order()).await.ok();
    let task = video["id"].as_str().unwrap().replace("video_", "");
    let key = caller.key.as_deref().unwrap();
    format!(
        "GET /v1/tasks/{task}?wait={seconds} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n"
    )
}

#[tokio::test]
async fn beyond_the_connection_limit_only_probes_are_answered() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let listener = LimitedListener::open(&gateway, limits(2)).await;
    // Of two accounts: one that had both connections would give one up.
    let other = gateway.caller("other", NewKey::default()).await;
    let requests = [
        waiting_request(&gateway, 60).await,
        waiting_request(&other, 60).await,
    ];
    let _busy = [
        listener.connect_and_send(requests[0].as_bytes()).await,
        listener.connect_and_send(requests[1].as_bytes()).await,
    ];
    eventually("both connections are busy", async || {
        let answer = listener.client(&gateway).get("/v1/models").await;
        (answer.status == 503).then(|| answer.refused(503, "overloaded").clone())
    })
    .await;
    assert_eq!(listener.client(&gateway).get("/healthz").await.status, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn the_program_answers_despite_more_silent_sockets_than_it_may_have_open_files() {
    const SOCKETS: usize = 1100;
    let open_files = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: open_files.maximum,
        ..open_files
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_within("-n 1024", data.path(), &[]).await;
    let key = server.first_key().await;
    let mut connections = Vec::new();
    for number in 0..SOCKETS {
        let bytes = [b"".as_slice(), b"P", PREFACE][number % 3];
        connections.push(connect_and_send(&server.base, bytes).await);
    }
    // Each request has a connection of its own.
    let anyone = Client::new(&server.base, None);
    assert_eq!(anyone.get("/healthz").await.status, 200);
    let caller = Client::new(&server.base, Some(&key));
    caller.post("/v1/videos", &videos_order()).await.ok();
    assert!(
        server.peak_memory() < 300_000_000,
        "{}",
        server.peak_memory()
    );
    drop(connections);
    server.stop().await;
}
