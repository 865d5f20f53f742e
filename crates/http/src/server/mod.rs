//! HTTP server: accepts connections and serves them until shutdown.
//!
//! Like `axum::serve`, plus what a public server needs: caps on connections, timeouts for idle
//! ones, and a bounded shutdown. `connection_table` decides who may connect, `connection` serves
//! one, `stall_timeout` ends those that stop reading.

mod connection;
mod connection_table;
mod stall_timeout;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use ipnet::IpNet;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::connection_table::ConnectionTable;

/// Marks a request on a connection beyond the caps: only probes are answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct OverflowConnection;

/// How long open responses may take to end after `closing`.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Caps on connections, and their timeouts.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// Connections in total.
    pub max_total: usize,
    /// Connections from one address, or one /64 of IPv6.
    pub per_peer: usize,
    /// Proxies, to which `per_peer` does not apply.
    pub proxies: Vec<IpNet>,
    /// Longest time from connecting to the first complete request head.
    pub first_request: Duration,
    /// Longest time between requests.
    pub idle: Duration,
}

impl ConnectionLimits {
    /// Limits for these numbers of connections, in total and per peer, reduced if few `files` may
    /// be open: a quarter of them stays free for the database, media and providers.
    pub fn new(in_all: usize, per_peer: usize, files: Option<u64>, proxies: Vec<IpNet>) -> Self {
        let files = files.and_then(|files| usize::try_from(files).ok());
        let room = files.map_or(usize::MAX, |files| (files - files / 4).max(8));
        let in_all = in_all.min(room);
        Self {
            max_total: in_all,
            // One peer gets at most half, so that it cannot take every slot if few files may be
            // open.
            per_peer: per_peer.min((in_all / 2).max(1)),
            proxies,
            first_request: Duration::from_secs(15),
            // Proxies must close idle connections earlier (docs/deployment.md), or they may send a
            // request on a connection that is just being closed here.
            idle: Duration::from_secs(75),
        }
    }
}

/// The steps of a shutdown.
pub struct Shutdown {
    /// Set when no more connections are accepted.
    pub draining: CancellationToken,
    /// Set here when requests in flight must end.
    pub closing: CancellationToken,
    /// Time between the two.
    pub grace: Duration,
}

/// Serves until `shutdown.draining` is set and requests in flight have ended, or the grace period
/// is over.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    shutdown: Shutdown,
) {
    let limits = Arc::new(limits);
    let table = Arc::new(ConnectionTable::new(limits.clone()));
    let connections = TaskTracker::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    // Without any room the connection is just closed.
                    if let Some(connection) = table.admit(peer.ip()) {
                        let served = connection::AcceptedConnection {
                            stream,
                            peer,
                            connection,
                            limits: limits.clone(),
                            draining: shutdown.draining.clone(),
                        };
                        connections.spawn(served.serve(router.clone()));
                    }
                }
                Err(error) => {
                    // Most often the process is out of file descriptors. The same error would come
                    // back at once, so a connection is closed and the loop pauses.
                    tracing::warn!(%error, "cannot accept a connection");
                    table.evict_one();
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            () = shutdown.draining.cancelled() => break,
        }
    }
    // From here on the system refuses new connections, so that callers go to another process
    // instead of waiting in the backlog.
    drop(listener);
    connections.close();
    if tokio::time::timeout(shutdown.grace, connections.wait())
        .await
        .is_err()
    {
        tracing::warn!("the grace period is over: closing requests in flight");
        // Requests that wait for a task now answer `shutting_down`, and need a moment to write it.
        shutdown.closing.cancel();
        drop(tokio::time::timeout(CLOSE_TIMEOUT, connections.wait()).await);
    }
}
