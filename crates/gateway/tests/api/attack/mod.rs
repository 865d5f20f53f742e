//! One caller against the gateway: what is tried must neither stop it nor take
//! more memory than is allowed for.

mod bodies;
mod connections;
mod deaths;
mod forms;
mod leaks;
mod media;
mod quota;
mod shares;
mod turns;

use std::time::Duration;

use mediagate_http::server::{ConnectionLimits, Shutdown, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::support::{Client, TestGateway};

/// Longest that a test waits for something that has a deadline.
const PATIENCE: Duration = Duration::from_secs(30);

/// A second address of a gateway, with limits of its own.
struct Door {
    base: String,
    draining: CancellationToken,
}

impl Door {
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

    /// A connection on which this was sent.
    async fn knock(&self, bytes: &[u8]) -> TcpStream {
        knock(&self.base, bytes).await
    }

    fn client(&self, gateway: &TestGateway) -> Client {
        Client::new(&self.base, gateway.key.as_deref())
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.draining.cancel();
    }
}

/// A connection to a gateway on which this was sent.
async fn knock(base: &str, bytes: &[u8]) -> TcpStream {
    let address = base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// What arrives until the other side closes.
async fn until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    // A reset is an end too.
    let _ = tokio::time::timeout(PATIENCE, read)
        .await
        .expect("the connection was never closed");
    bytes
}
