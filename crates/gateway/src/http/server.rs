//! Accepts connections and serves them until told to stop.
//!
//! Like `axum::serve`, plus what a public server needs: a limit on how long a
//! request's head may take, and a bounded end.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// How long a request's head may take to arrive.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long answers that were told to end may take to do so.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// When to stop what.
pub struct Shutdown {
    /// Set when no more connections are accepted.
    pub draining: CancellationToken,
    /// Set here when requests in flight must end.
    pub closing: CancellationToken,
    /// Between the two.
    pub grace: Duration,
}

/// Serves until `shutdown.draining` is set and the requests in flight have
/// ended, or the grace is over.
pub async fn serve(listener: TcpListener, router: Router, shutdown: Shutdown) {
    let graceful = GracefulShutdown::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => spawn(stream, peer, router.clone(), &graceful),
                Err(error) => {
                    // Out of file descriptors, most likely: let some be closed.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            () = shutdown.draining.cancelled() => break,
        }
    }
    drop(listener);
    let mut ended = std::pin::pin!(graceful.shutdown());
    if tokio::time::timeout(shutdown.grace, &mut ended)
        .await
        .is_err()
    {
        tracing::warn!("requests in flight are ended: the grace is over");
        shutdown.closing.cancel();
        drop(tokio::time::timeout(LAST_WORDS, ended).await);
    }
}

fn spawn(stream: TcpStream, peer: SocketAddr, router: Router, graceful: &GracefulShutdown) {
    // Answers are small and complete; waiting to fill a packet only delays them.
    drop(stream.set_nodelay(true));
    let service = router.map_request(move |mut request: Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        request.map(axum::body::Body::new)
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(HEAD_TIME);
    let connection = builder
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .into_owned();
    let connection = graceful.watch(connection);
    #[expect(clippy::disallowed_methods, reason = "the graceful shutdown ends it")]
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended badly");
        }
    });
}
