//! A caller's receiver of webhooks: records the posts, and answers as configured, even incorrectly.

#![expect(
    clippy::disallowed_methods,
    reason = "the listener's task ends with the receiver, and its connections with it"
)]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use locks::lock;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Longest body that is read.
const MAX_BODY: usize = 16 * 1024 * 1024;

/// A request that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedPost {
    /// The path with its query.
    pub path: String,
    /// Names are in lower case.
    pub headers: HashMap<String, String>,
    /// The body as text.
    pub body: String,
}

impl ReceivedPost {
    /// A header, empty when it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// The reaction to a post.
#[derive(Debug, Clone)]
pub enum Reaction {
    /// An answer with this status, these headers and this body.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// The receiver never answers.
    Hang,
    /// The connection is closed without an answer.
    Close,
    /// A status and the beginning of a body, then the connection is closed.
    BreakOff(u16),
    /// The answer byte by byte, with this pause.
    Drip(Duration),
    /// A body of this many bytes.
    Flood(u16, usize),
}

impl Reaction {
    /// An answer without a body.
    pub fn status(status: u16) -> Self {
        Self::Answer(status, Vec::new(), String::new())
    }
}

/// Chooses the reaction by the post and the number of posts before it.
type ReactionScript = dyn Fn(&ReceivedPost, usize) -> Reaction + Send + Sync;

/// A running receiver; it and its connections end when this is dropped.
pub struct WebhookReceiver {
    address: SocketAddr,
    state: Arc<ReceiverState>,
    server: tokio::task::JoinHandle<()>,
}

struct ReceiverState {
    posted: Mutex<Vec<ReceivedPost>>,
    count: watch::Sender<usize>,
    script: Mutex<Arc<ReactionScript>>,
}

impl WebhookReceiver {
    /// Starts on a free port of loopback, and answers 204.
    pub async fn start() -> io::Result<Self> {
        Self::start_with_script(|_, _| Reaction::status(204)).await
    }

    /// Like [`Self::start`], but answers according to a script.
    pub async fn start_with_script(
        script: impl Fn(&ReceivedPost, usize) -> Reaction + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(ReceiverState {
            posted: Mutex::default(),
            count: watch::Sender::new(0),
            script: Mutex::new(Arc::new(script)),
        });
        let server = tokio::spawn(accept(listener, state.clone()));
        Ok(Self {
            address,
            state,
            server,
        })
    }

    /// Reacts according to another script from now on.
    pub fn set_script(
        &self,
        script: impl Fn(&ReceivedPost, usize) -> Reaction + Send + Sync + 'static,
    ) {
        *lock(&self.state.script) = Arc::new(script);
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Everything that was posted so far.
    pub fn received(&self) -> Vec<ReceivedPost> {
        lock(&self.state.posted).clone()
    }

    /// Waits for this many posts; returns them.
    pub async fn wait_for_count(&self, count: usize) -> Vec<ReceivedPost> {
        let mut count_changes = self.state.count.subscribe();
        // `wait_for` fails only if the sender is gone, and `self` owns it.
        let _ = count_changes.wait_for(|received| *received >= count).await;
        self.received()
    }
}

impl Drop for WebhookReceiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<ReceiverState>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        while connections.try_join_next().is_some() {}
        let _ = stream.set_nodelay(true);
        let state = state.clone();
        connections.spawn(async move { serve_connection(stream, &state).await });
    }
}

/// Serves one request after another on a connection.
async fn serve_connection(stream: TcpStream, state: &ReceiverState) {
    let mut stream = BufReader::new(stream);
    while let Some(posted) = read(&mut stream).await {
        // The script runs without the lock, so `set_script` can replace it at any time.
        let script = lock(&state.script).clone();
        let before = lock(&state.posted).len();
        let reaction = script(&posted, before);
        // Recorded before the answer is sent: a sender that has the answer must find the post here.
        let count = {
            let mut posts = lock(&state.posted);
            posts.push(posted);
            posts.len()
        };
        state.count.send_replace(count);
        if write(stream.get_mut(), reaction).await.is_none() {
            return;
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<ReceivedPost> {
    // Just enough HTTP/1.1 for a POST. No HTTP library would let an answer break the rules as
    // `write` does.
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = HashMap::new();
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length: usize = headers.get("content-length")?.parse().ok()?;
    let mut body = vec![0; length.min(MAX_BODY)];
    stream.read_exact(&mut body).await.ok()?;
    Some(ReceivedPost {
        path,
        headers,
        body: String::from_utf8(body).ok()?,
    })
}

/// `None` when the connection is over.
async fn write(stream: &mut TcpStream, reaction: Reaction) -> Option<()> {
    match reaction {
        Reaction::Answer(status, headers, body) => {
            let mut head = format!(
                "HTTP/1.1 {status} Simulated\r\ncontent-length: {}\r\n",
                body.len()
            );
            for (name, value) in headers {
                // Writing to a string cannot fail.
                let _ = write!(head, "{name}: {value}\r\n");
            }
            stream
                .write_all(format!("{head}\r\n{body}").as_bytes())
                .await
                .ok()
        }
        Reaction::Hang => std::future::pending().await,
        Reaction::Close => None,
        Reaction::BreakOff(status) => {
            let beginning =
                format!("HTTP/1.1 {status} Simulated\r\ncontent-length: 100\r\n\r\nhalf");
            let _ = stream.write_all(beginning.as_bytes()).await;
            None
        }
        Reaction::Drip(pause) => {
            // A limit on idle time never ends this. Only a limit on the whole answer does.
            for byte in b"HTTP/1.1 204 Simulated\r\n\r\n" {
                stream.write_all(&[*byte]).await.ok()?;
                tokio::time::sleep(pause).await;
            }
            Some(())
        }
        Reaction::Flood(status, size) => {
            let head = format!("HTTP/1.1 {status} Simulated\r\ncontent-length: {size}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.ok()?;
            // In small pieces: the memory that this tries to exhaust is the sender's, not ours.
            let piece = [b'x'; 8192];
            for sent in (0..size).step_by(piece.len()) {
                let piece = &piece[..piece.len().min(size - sent)];
                stream.write_all(piece).await.ok()?;
            }
            Some(())
        }
    }
}
