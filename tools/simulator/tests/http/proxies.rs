//! The proxy as the two sides of a connection see it.

#![expect(
    clippy::disallowed_methods,
    reason = "the server at the end ends with its test"
)]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use simulator::{ConnectionCut, FaultProxy, LinkState, NetworkState, ProxyDirection, Simulator};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::client::send;

/// How long an expected event may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long the test waits to see that nothing happens.
const QUIET_PERIOD: Duration = Duration::from_millis(60);

/// A server that echoes each message, and reports what it received: messages, and `None` for an
/// end.
struct EchoServer {
    proxy: FaultProxy,
    received: mpsc::UnboundedReceiver<Option<Vec<u8>>>,
}

impl EchoServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap();
        let (sender, received) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let sender = sender.clone();
                tokio::spawn(async move {
                    let mut buffer = vec![0; 1024];
                    loop {
                        let length = stream.read(&mut buffer).await.unwrap_or(0);
                        if length == 0 {
                            let _ = sender.send(None);
                            return;
                        }
                        let _ = sender.send(Some(buffer[..length].to_vec()));
                        let _ = stream.write_all(&buffer[..length]).await;
                    }
                });
            }
        });
        let proxy = FaultProxy::start(target).await.unwrap();
        Self { proxy, received }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.proxy.address()).await.unwrap()
    }

    async fn receives(&mut self, expected: &[u8]) {
        let event = tokio::time::timeout(DEADLINE, self.received.recv()).await;
        assert_eq!(event.unwrap().unwrap().as_deref(), Some(expected));
    }

    async fn receives_nothing(&mut self) {
        let event = tokio::time::timeout(QUIET_PERIOD, self.received.recv()).await;
        assert!(event.is_err(), "received {event:?}");
    }

    async fn receives_end(&mut self) {
        let event = tokio::time::timeout(DEADLINE, self.received.recv()).await;
        assert_eq!(event.unwrap().unwrap(), None);
    }
}

async fn send_text(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

async fn expect_echo(stream: &mut TcpStream, text: &str) {
    let mut buffer = vec![0; text.len()];
    let read = tokio::time::timeout(DEADLINE, stream.read_exact(&mut buffer)).await;
    read.unwrap().unwrap();
    assert_eq!(buffer, text.as_bytes());
}

async fn expect_silence(stream: &mut TcpStream) {
    let read = tokio::time::timeout(QUIET_PERIOD, stream.read_u8()).await;
    assert!(read.is_err(), "received {read:?}");
}

async fn expect_reset(stream: &mut TcpStream) {
    let read = tokio::time::timeout(DEADLINE, stream.read_u8())
        .await
        .unwrap();
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn an_undisturbed_network_changes_nothing() {
    let mut server = EchoServer::start().await;
    let mut stream = server.connect().await;
    send_text(&mut stream, "hello").await;
    server.receives(b"hello").await;
    expect_echo(&mut stream, "hello").await;
    let traffic = server.proxy.traffic();
    assert_eq!((traffic.accepted, traffic.open), (1, 1));
    stream.shutdown().await.unwrap();
    server.receives_end().await;
    // The server's close comes back.
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_message_is_late_by_the_delay_and_a_slow_one_by_its_length() {
    let server = EchoServer::start().await;
    let mut stream = server.connect().await;
    let delay = Duration::from_millis(80);
    let slow = LinkState {
        bytes_per_second: NonZeroU32::new(100),
        ..LinkState::default()
    };
    let slow_down = NetworkState {
        down: slow,
        ..NetworkState::default()
    };
    for network in [NetworkState::both(LinkState::with_delay(delay)), slow_down] {
        server.proxy.set(network);
        let started = Instant::now();
        send_text(&mut stream, "a message of 20 byte").await;
        expect_echo(&mut stream, "a message of 20 byte").await;
        // Never earlier; how much later depends on the machine.
        assert!(started.elapsed() >= delay * 2, "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn held_messages_arrive_in_order_when_the_network_heals() {
    let mut server = EchoServer::start().await;
    let mut stream = server.connect().await;
    server.proxy.set(NetworkState::both(LinkState::held()));
    send_text(&mut stream, "one").await;
    server.receives_nothing().await;
    send_text(&mut stream, "two").await;
    stream.shutdown().await.unwrap();
    server.receives_nothing().await;
    server.proxy.heal();
    expect_echo(&mut stream, "onetwo").await;
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn one_side_receives_nothing_and_the_other_everything() {
    let mut server = EchoServer::start().await;
    let mut stream = server.connect().await;
    server.proxy.set(NetworkState {
        down: LinkState::held(),
        ..NetworkState::default()
    });
    send_text(&mut stream, "hello").await;
    server.receives(b"hello").await;
    expect_silence(&mut stream).await;
    server.proxy.heal();
    expect_echo(&mut stream, "hello").await;
}

#[tokio::test]
async fn connections_are_reset_on_order_and_new_ones_refused() {
    let mut server = EchoServer::start().await;
    let mut stream = server.connect().await;
    send_text(&mut stream, "hello").await;
    expect_echo(&mut stream, "hello").await;
    server.receives(b"hello").await;
    server.proxy.set(NetworkState {
        refuses: true,
        ..NetworkState::default()
    });
    server.proxy.reset();
    expect_reset(&mut stream).await;
    server.receives_end().await;
    expect_reset(&mut server.connect().await).await;
    server.proxy.heal();
    let mut stream = server.connect().await;
    send_text(&mut stream, "again").await;
    expect_echo(&mut stream, "again").await;
}

#[tokio::test]
async fn a_cut_keeps_the_message_or_only_its_answer() {
    for passes in [false, true] {
        let mut server = EchoServer::start().await;
        let cut = ConnectionCut::new("COMMIT");
        server.proxy.cut(if passes { cut.passing() } else { cut });
        let mut stream = server.connect().await;
        send_text(&mut stream, "BEGIN").await;
        server.receives(b"BEGIN").await;
        expect_echo(&mut stream, "BEGIN").await;
        send_text(&mut stream, "COMMIT").await;
        expect_reset(&mut stream).await;
        server.proxy.wait_for_strikes(1).await;
        if passes {
            server.receives(b"COMMIT").await;
        }
        server.receives_end().await;
        // The cut struck as often as it was ordered to.
        let mut stream = server.connect().await;
        send_text(&mut stream, "COMMIT").await;
        expect_echo(&mut stream, "COMMIT").await;
    }
}

#[tokio::test]
async fn a_cut_holds_a_connection_until_it_is_released_and_no_other() {
    let mut server = EchoServer::start().await;
    let mut stream = server.connect().await;
    let mut other = server.connect().await;
    server.proxy.cut(ConnectionCut {
        after: 1,
        ..ConnectionCut::new("INSERT").holding()
    });
    send_text(&mut stream, "INSERT 1").await;
    server.receives(b"INSERT 1").await;
    expect_echo(&mut stream, "INSERT 1").await;
    send_text(&mut stream, "INSERT 2").await;
    server.proxy.wait_for_strikes(1).await;
    server.receives_nothing().await;
    send_text(&mut other, "other").await;
    server.receives(b"other").await;
    expect_echo(&mut other, "other").await;
    server.proxy.release();
    server.receives(b"INSERT 2").await;
    expect_echo(&mut stream, "INSERT 2").await;
}

#[tokio::test]
async fn bytes_are_found_across_messages_and_in_answers() {
    let mut server = EchoServer::start().await;
    server.proxy.cut(ConnectionCut {
        side: ProxyDirection::Down,
        ..ConnectionCut::new("ready")
    });
    let mut stream = server.connect().await;
    send_text(&mut stream, "rea").await;
    server.receives(b"rea").await;
    expect_echo(&mut stream, "rea").await;
    send_text(&mut stream, "dy").await;
    server.receives(b"dy").await;
    expect_reset(&mut stream).await;
}

#[tokio::test]
async fn proxies_are_controlled_over_http() {
    let simulator = Simulator::start().await.unwrap();
    let control = simulator.address();
    let body = json!({"to": control}).to_string();
    let created = send(control, "POST", "/_/proxies", &body).await.json();
    let address: SocketAddr = created["address"].as_str().unwrap().parse().unwrap();
    let health = send(address, "GET", "/_/health", "").await;
    assert_eq!(health.status, 200);

    for (method, path, body) in [
        ("POST", "/_/proxies/0/cuts", json!({"bytes": "health"})),
        ("DELETE", "/_/proxies/0/cuts", Value::Null),
        ("PUT", "/_/proxies/0", json!({"up": {"delay": 1}})),
    ] {
        let response = send(control, method, path, &body.to_string()).await;
        assert_eq!(response.status, 204, "{method} {path}");
    }
    assert_eq!(send(address, "GET", "/_/health", "").await.status, 200);
    let listed = send(control, "GET", "/_/proxies", "").await.json();
    assert_eq!(listed[0]["network"]["up"]["delay"], 1);
    assert_eq!(listed[0]["traffic"]["accepted"], 2);

    let invalid = send(control, "PUT", "/_/proxies/0", r#"{"upp": {}}"#).await;
    assert_eq!(invalid.status, 400);
    let deletion = send(control, "DELETE", "/_/proxies/0", "").await;
    assert_eq!(deletion.status, 204);
    let removed = send(control, "POST", "/_/proxies/0/reset", "").await;
    assert_eq!(removed.status, 404);
}
