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

/// Long enough for anything that is meant to happen.
const SOON: Duration = Duration::from_secs(10);
/// How long something is watched that must not happen.
const A_WHILE: Duration = Duration::from_millis(60);

/// A server that answers each message with its echo, and tells what it heard:
/// messages, and `None` for an end.
struct Echo {
    proxy: FaultProxy,
    heard: mpsc::UnboundedReceiver<Option<Vec<u8>>>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap();
        let (told, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let told = told.clone();
                tokio::spawn(async move {
                    let mut buffer = vec![0; 1024];
                    loop {
                        let length = stream.read(&mut buffer).await.unwrap_or(0);
                        if length == 0 {
                            let _ = told.send(None);
                            return;
                        }
                        let _ = told.send(Some(buffer[..length].to_vec()));
                        let _ = stream.write_all(&buffer[..length]).await;
                    }
                });
            }
        });
        let proxy = FaultProxy::start(target).await.unwrap();
        Self { proxy, heard }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.proxy.address()).await.unwrap()
    }

    async fn hears(&mut self, expected: &[u8]) {
        let heard = tokio::time::timeout(SOON, self.heard.recv()).await;
        assert_eq!(heard.unwrap().unwrap().as_deref(), Some(expected));
    }

    async fn hears_nothing(&mut self) {
        let heard = tokio::time::timeout(A_WHILE, self.heard.recv()).await;
        assert!(heard.is_err(), "heard {heard:?}");
    }

    async fn hears_the_end(&mut self) {
        let heard = tokio::time::timeout(SOON, self.heard.recv()).await;
        assert_eq!(heard.unwrap().unwrap(), None);
    }
}

async fn say(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

async fn echo(stream: &mut TcpStream, text: &str) {
    let mut buffer = vec![0; text.len()];
    let read = tokio::time::timeout(SOON, stream.read_exact(&mut buffer)).await;
    read.unwrap().unwrap();
    assert_eq!(buffer, text.as_bytes());
}

async fn silence(stream: &mut TcpStream) {
    let read = tokio::time::timeout(A_WHILE, stream.read_u8()).await;
    assert!(read.is_err(), "came {read:?}");
}

async fn is_reset(stream: &mut TcpStream) {
    let read = tokio::time::timeout(SOON, stream.read_u8()).await.unwrap();
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_whole_network_changes_nothing() {
    let mut end = Echo::start().await;
    let mut stream = end.connect().await;
    say(&mut stream, "hello").await;
    end.hears(b"hello").await;
    echo(&mut stream, "hello").await;
    let traffic = end.proxy.traffic();
    assert_eq!((traffic.accepted, traffic.open), (1, 1));
    stream.shutdown().await.unwrap();
    end.hears_the_end().await;
    // The server's close comes back.
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_message_is_late_by_the_delay_and_a_slow_one_by_its_length() {
    let end = Echo::start().await;
    let mut stream = end.connect().await;
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
        end.proxy.set(network);
        let begun = Instant::now();
        say(&mut stream, "a message of 20 byte").await;
        echo(&mut stream, "a message of 20 byte").await;
        // Never earlier; how much later is the machine's affair.
        assert!(begun.elapsed() >= delay * 2, "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn what_is_held_arrives_in_order_when_the_network_heals() {
    let mut end = Echo::start().await;
    let mut stream = end.connect().await;
    end.proxy.set(NetworkState::both(LinkState::held()));
    say(&mut stream, "one").await;
    end.hears_nothing().await;
    say(&mut stream, "two").await;
    stream.shutdown().await.unwrap();
    end.hears_nothing().await;
    end.proxy.heal();
    echo(&mut stream, "onetwo").await;
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn one_side_is_silent_and_hears_everything() {
    let mut end = Echo::start().await;
    let mut stream = end.connect().await;
    end.proxy.set(NetworkState {
        down: LinkState::held(),
        ..NetworkState::default()
    });
    say(&mut stream, "hello").await;
    end.hears(b"hello").await;
    silence(&mut stream).await;
    end.proxy.heal();
    echo(&mut stream, "hello").await;
}

#[tokio::test]
async fn connections_are_reset_on_order_and_new_ones_refused() {
    let mut end = Echo::start().await;
    let mut stream = end.connect().await;
    say(&mut stream, "hello").await;
    echo(&mut stream, "hello").await;
    end.hears(b"hello").await;
    end.proxy.set(NetworkState {
        refuses: true,
        ..NetworkState::default()
    });
    end.proxy.reset();
    is_reset(&mut stream).await;
    end.hears_the_end().await;
    is_reset(&mut end.connect().await).await;
    end.proxy.heal();
    let mut stream = end.connect().await;
    say(&mut stream, "again").await;
    echo(&mut stream, "again").await;
}

#[tokio::test]
async fn a_cut_keeps_the_message_or_only_its_answer() {
    for passes in [false, true] {
        let mut end = Echo::start().await;
        let cut = ConnectionCut::new("COMMIT");
        end.proxy.cut(if passes { cut.passing() } else { cut });
        let mut stream = end.connect().await;
        say(&mut stream, "BEGIN").await;
        end.hears(b"BEGIN").await;
        echo(&mut stream, "BEGIN").await;
        say(&mut stream, "COMMIT").await;
        is_reset(&mut stream).await;
        end.proxy.wait_for_strikes(1).await;
        if passes {
            end.hears(b"COMMIT").await;
        }
        end.hears_the_end().await;
        // It has struck as often as was ordered.
        let mut stream = end.connect().await;
        say(&mut stream, "COMMIT").await;
        echo(&mut stream, "COMMIT").await;
    }
}

#[tokio::test]
async fn a_cut_holds_a_connection_until_it_is_released_and_no_other() {
    let mut end = Echo::start().await;
    let mut stream = end.connect().await;
    let mut other = end.connect().await;
    end.proxy.cut(ConnectionCut {
        after: 1,
        ..ConnectionCut::new("INSERT").holding()
    });
    say(&mut stream, "INSERT 1").await;
    end.hears(b"INSERT 1").await;
    echo(&mut stream, "INSERT 1").await;
    say(&mut stream, "INSERT 2").await;
    end.proxy.wait_for_strikes(1).await;
    end.hears_nothing().await;
    say(&mut other, "other").await;
    end.hears(b"other").await;
    echo(&mut other, "other").await;
    end.proxy.release();
    end.hears(b"INSERT 2").await;
    echo(&mut stream, "INSERT 2").await;
}

#[tokio::test]
async fn bytes_are_found_across_messages_and_in_answers() {
    let mut end = Echo::start().await;
    end.proxy.cut(ConnectionCut {
        side: ProxyDirection::Down,
        ..ConnectionCut::new("ready")
    });
    let mut stream = end.connect().await;
    say(&mut stream, "rea").await;
    end.hears(b"rea").await;
    echo(&mut stream, "rea").await;
    say(&mut stream, "dy").await;
    end.hears(b"dy").await;
    is_reset(&mut stream).await;
}

#[tokio::test]
async fn proxies_are_steered_over_http() {
    let simulator = Simulator::start().await.unwrap();
    let control = simulator.address();
    let body = json!({"to": control}).to_string();
    let made = send(control, "POST", "/_/proxies", &body).await.json();
    let address: SocketAddr = made["address"].as_str().unwrap().parse().unwrap();
    let health = send(address, "GET", "/_/health", "").await;
    assert_eq!(health.status, 200);

    for (method, path, body) in [
        ("POST", "/_/proxies/0/cuts", json!({"bytes": "health"})),
        ("DELETE", "/_/proxies/0/cuts", Value::Null),
        ("PUT", "/_/proxies/0", json!({"up": {"delay": 1}})),
    ] {
        let came = send(control, method, path, &body.to_string()).await;
        assert_eq!(came.status, 204, "{method} {path}");
    }
    assert_eq!(send(address, "GET", "/_/health", "").await.status, 200);
    let all = send(control, "GET", "/_/proxies", "").await.json();
    assert_eq!(all[0]["network"]["up"]["delay"], 1);
    assert_eq!(all[0]["traffic"]["accepted"], 2);

    let wrong = send(control, "PUT", "/_/proxies/0", r#"{"upp": {}}"#).await;
    assert_eq!(wrong.status, 400);
    let end = send(control, "DELETE", "/_/proxies/0", "").await;
    assert_eq!(end.status, 204);
    let gone = send(control, "POST", "/_/proxies/0/reset", "").await;
    assert_eq!(gone.status, 404);
}
