//! Accepts connections and serves them until told to stop.
//!
//! Like `axum::serve`, plus what a public server needs: caps on connections,
//! deadlines for whoever says nothing, and a bounded end. `crowd` decides who
//! may be connected, `connection` serves one of them, `pace` ends those that
//! stop reading. Knows nothing of what is asked for.

mod connection;
mod crowd;
mod pace;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use ipnet::IpNet;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::crowd::Crowd;

/// A request of a connection beyond the caps; only probes are answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowded;

/// How long answers that were told to end may take to do so.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Who may be connected, and how long without asking for anything.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// Connections at once.
    pub in_all: usize,
    /// Connections at once from one address, or one /64 of IPv6.
    pub per_peer: usize,
    /// Networks of proxies, for which `per_peer` does not hold.
    pub proxies: Vec<IpNet>,
    /// From the connection to its first whole request head.
    pub first_request: Duration,
    /// Between requests.
    pub idle: Duration,
}

impl ConnectionLimits {
    /// The limits for this many connections in all and from one peer, as far as
    /// `files` open files allow: a quarter of them stays free for the database,
    /// media and providers.
    pub fn new(in_all: usize, per_peer: usize, files: Option<u64>, proxies: Vec<IpNet>) -> Self {
        let files = files.and_then(|files| usize::try_from(files).ok());
        let room = files.map_or(usize::MAX, |files| (files - files / 4).max(8));
        let in_all = in_all.min(room);
        Self {
            in_all,
            // Nobody takes all that there is, however few files there are.
            per_peer: per_peer.min((in_all / 2).max(1)),
            proxies,
            first_request: Duration::from_secs(15),
            idle: Duration::from_secs(75),
        }
    }
}

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
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    shutdown: Shutdown,
) {
    let limits = Arc::new(limits);
    let crowd = Arc::new(Crowd::new(limits.clone()));
    let connections = TaskTracker::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    // Who finds not even standing room is let go without a word.
                    if let Some(guest) = crowd.admit(peer.ip()) {
                        let served = connection::Connection {
                            stream,
                            peer,
                            guest,
                            limits: limits.clone(),
                            draining: shutdown.draining.clone(),
                        };
                        connections.spawn(served.serve(router.clone()));
                    }
                }
                Err(error) => {
                    // Out of file descriptors, most likely: let some be closed.
                    tracing::warn!(%error, "cannot accept a connection");
                    crowd.evict_one();
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            () = shutdown.draining.cancelled() => break,
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(shutdown.grace, connections.wait())
        .await
        .is_err()
    {
        tracing::warn!("requests in flight are ended: the grace is over");
        shutdown.closing.cancel();
        drop(tokio::time::timeout(LAST_WORDS, connections.wait()).await);
    }
}
