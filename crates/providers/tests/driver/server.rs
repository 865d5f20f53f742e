//! An HTTP/1.1 server of which the test controls every byte.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    /// `POST /jobs`.
    pub(crate) line: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
    /// The number of its connection, counting from 1.
    pub(crate) connection: usize,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// The server's reply.
pub(crate) enum Reply {
    /// These bytes; the connection stays open.
    Bytes(Vec<u8>),
    /// These bytes, then the connection is closed.
    AndClose(Vec<u8>),
    /// Nothing, ever.
    Silence,
}

/// Nothing, and the connection is closed.
pub(crate) const CLOSE: Reply = Reply::AndClose(Vec::new());

pub(crate) fn json(status: u16, body: &serde_json::Value) -> Reply {
    answer(
        status,
        &[("content-type", "application/json")],
        body.to_string().as_bytes(),
    )
}

pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    Reply::Bytes([head(status, headers, body.len()).as_bytes(), body].concat())
}

pub(crate) fn head(status: u16, headers: &[(&str, &str)], length: usize) -> String {
    let lines = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let lines: String = lines.collect();
    format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{lines}\r\n")
}

type Script = dyn Fn(&ReceivedRequest) -> Reply + Send + Sync;

/// A server; it ends when this is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    _running: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start(
        script: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let mut running = JoinSet::new();
        running.spawn(accept(listener, Arc::new(script), received.clone()));
        Self {
            address,
            received,
            _running: running,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// All requests received so far.
    pub(crate) fn received(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }

    /// The number of requests whose line begins with this.
    pub(crate) fn count(&self, line: &str) -> usize {
        let received = self.received.lock().unwrap();
        received
            .iter()
            .filter(|request| request.line.starts_with(line))
            .count()
    }
}

async fn accept(
    listener: TcpListener,
    script: Arc<Script>,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
) {
    let number = AtomicUsize::new(0);
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let connection = number.fetch_add(1, Ordering::Relaxed) + 1;
        connections.spawn(serve(stream, connection, script.clone(), received.clone()));
    }
}

async fn serve(
    mut stream: TcpStream,
    connection: usize,
    script: Arc<Script>,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
) {
    let mut bytes = Vec::new();
    while let Some(request) = read(&mut stream, &mut bytes, connection).await {
        received.lock().unwrap().push(request.clone());
        match script(&request) {
            Reply::Bytes(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Reply::AndClose(bytes) => {
                let _ = stream.write_all(&bytes).await;
                return;
            }
            Reply::Silence => std::future::pending().await,
        }
    }
}

/// The next request; `None` if the connection ends before the request is complete.
async fn read(
    stream: &mut TcpStream,
    bytes: &mut Vec<u8>,
    connection: usize,
) -> Option<ReceivedRequest> {
    loop {
        if let Some((request, length)) = parse(bytes, connection) {
            bytes.drain(..length);
            return Some(request);
        }
        if stream.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    }
}

fn parse(bytes: &[u8], connection: usize) -> Option<(ReceivedRequest, usize)> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers
        .get("content-length")
        .and_then(|text| text.parse().ok());
    let length = length.unwrap_or(0);
    let body = body.get(..length)?.to_owned();
    let total_length = head.len() + 4 + length;
    let request = ReceivedRequest {
        line,
        headers,
        body,
        connection,
    };
    Some((request, total_length))
}
