//! A TCP proxy that disturbs connections: it delays, slows, holds or resets them, silences one
//! direction, or cuts them at given bytes. It is independent of the protocol above TCP.
//!
//! ```
//! # async fn example(postgres: std::net::SocketAddr) -> std::io::Result<()> {
//! use simulator::{ConnectionCut, LinkState, NetworkState, FaultProxy};
//!
//! let proxy = FaultProxy::start(postgres).await?;
//! // … a program is given proxy.address() …
//! proxy.set(NetworkState::both(LinkState::held())); // nothing passes
//! proxy.heal(); // everything passes
//! proxy.cut(ConnectionCut::new("COMMIT").passing()); // a commit without an answer
//! proxy.wait_for_strikes(1).await;
//! # Ok(())
//! # }
//! ```

#![expect(
    clippy::disallowed_methods,
    reason = "the listener's task ends with the proxy, and its connections with it"
)]

mod connection;
mod network;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use locks::lock;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use network::LONGEST_PATTERN;
pub use network::{
    ConnectionCut, CutAction, LinkState, NetworkState, ProxyDirection, ProxyTraffic,
};

/// A running proxy; it and its connections end when this is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<ProxyShared>,
    listener: tokio::task::JoinHandle<()>,
}

impl FaultProxy {
    /// Starts on a free port of loopback.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)), target).await
    }

    /// Starts on this address.
    pub async fn listen(address: SocketAddr, target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ProxyShared::new(target));
        let listener = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self {
            address,
            shared,
            listener,
        })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address to which it forwards.
    pub fn target(&self) -> SocketAddr {
        self.shared.target
    }

    /// The state of the network.
    pub fn network(&self) -> NetworkState {
        self.shared.state.borrow().network
    }

    /// Changes the network, including that of existing connections.
    pub fn set(&self, network: NetworkState) {
        self.shared
            .state
            .send_modify(|state| state.network = network);
    }

    /// Restores a network without a fault: connections held by a cut are released, and pending cuts
    /// are removed.
    pub fn heal(&self) {
        self.clear_cuts();
        self.shared.state.send_modify(|state| {
            state.network = NetworkState::default();
            state.releases += 1;
        });
    }

    /// Resets all connections that are open.
    pub fn reset(&self) {
        self.shared.state.send_modify(|state| state.resets += 1);
    }

    /// Releases connections that are held by a cut.
    pub fn release(&self) {
        self.shared.state.send_modify(|state| state.releases += 1);
    }

    /// Adds a cut, which strikes when its pattern passes. If several cuts match a message, the
    /// oldest strikes. Only the first 256 bytes of a pattern are used.
    pub fn cut(&self, mut cut: ConnectionCut) {
        let longest = cut.bytes.floor_char_boundary(LONGEST_PATTERN);
        cut.bytes.truncate(longest);
        self.shared.cuts().push(cut);
    }

    /// The pending cuts.
    pub fn cuts(&self) -> Vec<ConnectionCut> {
        self.shared.cuts().clone()
    }

    /// Removes the pending cuts.
    pub fn clear_cuts(&self) {
        self.shared.cuts().clear();
    }

    /// Waits until this many cuts have struck since the start.
    pub async fn wait_for_strikes(&self, cuts: u64) {
        let mut strikes = self.shared.strikes.subscribe();
        // `wait_for` fails only if the sender is gone, and `self.shared` owns it.
        let _ = strikes.wait_for(|strikes| *strikes >= cuts).await;
    }

    /// The traffic so far.
    pub fn traffic(&self) -> ProxyTraffic {
        self.shared.traffic()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

/// The state of the network, and the counters of resets and releases.
#[derive(Debug, Clone, Copy, Default)]
struct ProxyState {
    network: NetworkState,
    resets: u64,
    releases: u64,
}

/// State shared by the connections of a proxy.
#[derive(Debug)]
struct ProxyShared {
    target: SocketAddr,
    state: watch::Sender<ProxyState>,
    cuts: Mutex<Vec<ConnectionCut>>,
    strikes: watch::Sender<u64>,
    accepted: AtomicU64,
    open: AtomicU64,
    messages: [AtomicU64; 2],
}

impl ProxyShared {
    fn new(target: SocketAddr) -> Self {
        Self {
            target,
            state: watch::Sender::default(),
            cuts: Mutex::default(),
            strikes: watch::Sender::default(),
            accepted: AtomicU64::new(0),
            open: AtomicU64::new(0),
            messages: [const { AtomicU64::new(0) }; 2],
        }
    }

    fn cuts(&self) -> MutexGuard<'_, Vec<ConnectionCut>> {
        lock(&self.cuts)
    }

    /// The cut that matches this message; `recent` is the data before it.
    fn matching_cut(
        &self,
        side: ProxyDirection,
        recent: &[u8],
        message: &[u8],
    ) -> Option<ConnectionCut> {
        let mut cuts = self.cuts();
        // Only the oldest matching cut is applied to a message, even if the message only counts
        // towards its `after`. Younger ones with the same pattern have to wait until it is used up.
        let index = cuts.iter().position(|cut| {
            cut.side == side && completes_pattern(cut.bytes.as_bytes(), recent, message)
        })?;
        let cut = cuts.get_mut(index)?;
        if let Some(remaining) = cut.after.checked_sub(1) {
            cut.after = remaining;
            return None;
        }
        cut.times = cut.times.saturating_sub(1);
        let cut = cut.clone();
        if cut.times == 0 {
            cuts.remove(index);
        }
        Some(cut)
    }

    fn count_strike(&self) {
        self.strikes.send_modify(|strikes| *strikes += 1);
    }

    fn count_message(&self, side: ProxyDirection) {
        self.messages[side as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn traffic(&self) -> ProxyTraffic {
        ProxyTraffic {
            accepted: self.accepted.load(Ordering::Relaxed),
            open: self.open.load(Ordering::Relaxed),
            messages_up: self.messages[ProxyDirection::Up as usize].load(Ordering::Relaxed),
            messages_down: self.messages[ProxyDirection::Down as usize].load(Ordering::Relaxed),
            struck: *self.strikes.borrow(),
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<ProxyShared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        while connections.try_join_next().is_some() {}
        shared.accepted.fetch_add(1, Ordering::Relaxed);
        // The kernel has already completed the handshake, so the connection cannot be refused any
        // more. A reset without a byte is what comes closest.
        if shared.state.borrow().network.refuses {
            reset(&client);
            continue;
        }
        connections.spawn(connection::carry(client, shared.clone()));
    }
}

/// Makes the next drop of this stream a reset instead of a close.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

/// Whether the pattern ends in this message, wherever it began.
fn completes_pattern(pattern: &[u8], recent: &[u8], message: &[u8]) -> bool {
    let Some(overlap) = pattern.len().checked_sub(1) else {
        return true;
    };
    // Takes only as much previous data as a match that ends in the new message can need. With more,
    // earlier matches would be found again.
    let recent = &recent[recent.len().saturating_sub(overlap)..];
    let joined: Vec<u8> = [recent, message].concat();
    joined
        .windows(pattern.len())
        .any(|window| window == pattern)
}
