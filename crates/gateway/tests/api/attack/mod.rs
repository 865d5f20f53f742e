//! One caller against the gateway: no attack may stop it or use
//! more memory than its limits allow.

mod bodies;
mod connections;
mod deaths;
mod forms;
mod hangs;
mod leaks;
mod media;
mod open_requests;
mod quota;
mod shares;
mod storage;
mod turns;

use std::time::Duration;

use mediagate_http::server::{ConnectionLimits, Shutdown, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::support::{Client, TestGateway};

/// The longest time that a test waits for something with a deadline.
const PATIENCE: Duration = Duration::from_mins(2);

/// A second address of a gateway, with limits of its own.
struct LimitedListener {
    base: String,
    draining: CancellationToken,
}

impl LimitedListener {
    async fn open(gateway: &TestGateway, limits: ConnectionLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let draining = CancellationToken::new();
        let shutdown = Shutdown {
            draining: draining.clone(),
            closing: gateway.app.process.closing.clone(),
            grace: Duration::from_secs(1),
        };
        let router = mediagate_http::router(&gateway.app);
        tokio::spawn(serve(listener, router, limits, shutdown));
        Self { base, draining }
    }

    /// A connection on which these bytes were sent.
    async fn connect_and_send(&self, bytes: &[u8]) -> TcpStream {
        connect_and_send(&self.base, bytes).await
    }

    fn client(&self, gateway: &TestGateway) -> Client {
        Client::new(&self.base, gateway.key.as_deref())
    }
}

impl Drop for LimitedListener {
    fn drop(&mut self) {
        self.draining.cancel();
    }
}

/// A connection to a gateway on which these bytes were sent.
async fn connect_and_send(base: &str, bytes: &[u8]) -> TcpStream {
    let address = base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// All bytes until the other side closes.
async fn read_until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let reading = stream.read_to_end(&mut bytes);
    // A reset ends it, too.
    let _ = tokio::time::timeout(PATIENCE, reading)
        .await
        .expect("the connection was never closed");
    bytes
}
