//! Connection table: counts connections in total and per peer, and makes room for a new one by
//! closing the longest idle one.
//!
//! If all are busy, the owner of most of them gives up the one whose request began first. If no
//! owner has two, a few more are admitted beyond the caps: probes are answered and other requests
//! refused, so that a full gateway does not look dead.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use locks::lock;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ConnectionLimits;
use crate::displacement::{RequestConnection, RequestOwner};
use mediagate_model::bounds;

/// Connections admitted beyond the caps.
const MAX_OVERFLOW: usize = bounds::OVERFLOW_CONNECTIONS.total.count();

/// The table of all connections.
pub(super) struct ConnectionTable {
    limits: Arc<ConnectionLimits>,
    /// Orders the moments at which connections became idle.
    clock: AtomicU64,
    started: Instant,
    state: Mutex<TableState>,
}

#[derive(Default)]
struct TableState {
    last_id: u64,
    connections: HashMap<u64, TableEntry>,
    /// Number of connections within the caps.
    within_caps: usize,
    overflow: usize,
    /// Number of connections within the caps, by address.
    peers: HashMap<IpAddr, usize>,
}

struct TableEntry {
    peer: IpAddr,
    is_within_caps: bool,
    activity: Arc<ConnectionActivity>,
    leave: CancellationToken,
    requests: RequestConnection,
}

/// The requests of a connection. They are counted without the table's lock, which all connections
/// share; the table reads these numbers when it needs a slot.
#[derive(Default)]
struct ConnectionActivity {
    requests: AtomicUsize,
    /// When the connection became idle, by the table's clock.
    idle_since: AtomicU64,
    /// When its first request since then began, by the table's clock.
    busy_since: AtomicU64,
    /// When the last request ended, in milliseconds since the table's start; 0 if none has.
    ended_at: AtomicU64,
}

impl ConnectionActivity {
    fn is_idle(&self) -> bool {
        self.requests.load(Ordering::Acquire) == 0
    }
}

/// A connection in the table, until it is dropped.
pub(super) struct Connection {
    table: Arc<ConnectionTable>,
    id: u64,
    activity: Arc<ConnectionActivity>,
    /// Cancelled when its slot is needed for others, and it is idle.
    pub(super) leave: CancellationToken,
    /// What its requests know of it.
    pub(super) requests: RequestConnection,
    /// Whether it is beyond the caps: see [`super::OverflowConnection`].
    pub(super) is_overflow: bool,
}

/// A request on a connection, until its response is written or abandoned.
pub(super) struct ActiveRequest(Arc<Connection>);

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// It has not sent a request yet.
    New,
    /// It has at least one request.
    Busy,
    /// It has no request; its last one ended at this time.
    Idle(Instant),
}

impl ConnectionTable {
    pub(super) fn new(limits: Arc<ConnectionLimits>) -> Self {
        Self {
            limits,
            clock: AtomicU64::new(0),
            started: Instant::now(),
            state: Mutex::default(),
        }
    }

    /// Admits a new connection, if necessary in place of an idle one; `None` if there is no room at
    /// all.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Arc<Connection>> {
        // All callers behind a proxy come from its address and would share the cap of one peer.
        let is_proxy = {
            let address = peer.to_canonical();
            let mut proxies = self.limits.proxies.iter();
            proxies.any(|network| network.contains(&address))
        };
        let peer = peer_key(peer);
        let mut state = self.state();
        // The peer's cap is checked first: a peer at its cap may displace its own idle connections,
        // never those of others.
        let fits_peer = is_proxy || state.make_room_for_peer(peer, self.limits.per_peer);
        let is_within_caps = fits_peer && state.make_room(self.limits.max_total);
        // If all slots are busy, a few more are admitted, so that probes get their answer and
        // callers a 503 instead of a refused connection.
        if !is_within_caps && !state.make_overflow_room() {
            return None;
        }
        state.last_id += 1;
        let id = state.last_id;
        let leave = CancellationToken::new();
        let requests = RequestConnection::default();
        // A connection without a request counts as idle, so silent ones can be displaced.
        let activity = Arc::new(ConnectionActivity {
            idle_since: AtomicU64::new(self.tick()),
            ..ConnectionActivity::default()
        });
        let entry = TableEntry {
            peer,
            is_within_caps,
            activity: activity.clone(),
            leave: leave.clone(),
            requests: requests.clone(),
        };
        state.insert(id, entry);
        Some(Arc::new(Connection {
            table: self.clone(),
            id,
            activity,
            leave,
            requests,
            is_overflow: !is_within_caps,
        }))
    }

    /// Closes the longest idle connection.
    pub(super) fn evict_one(&self) {
        let mut state = self.state();
        // Those beyond the caps go first: they only answer probes and refuse other requests.
        let _ = state.evict_oldest(|entry| !entry.is_within_caps)
            || state.evict_oldest(|entry| entry.is_within_caps);
    }

    /// The next moment: a counter, not a time, so that no two are equal.
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, TableState> {
        // A panic elsewhere must not stop the server from accepting.
        lock(&self.state)
    }
}

impl Connection {
    /// Counts a request that has arrived from this address. An evicted connection may also get one
    /// before it is closed.
    pub(super) fn begin(self: &Arc<Self>, client: IpAddr) -> ActiveRequest {
        // Until the request's key is known.
        self.requests
            .set_owner(RequestOwner::Address(peer_key(client)));
        if self.activity.requests.fetch_add(1, Ordering::AcqRel) == 0 {
            let now = self.table.tick();
            self.activity.busy_since.store(now, Ordering::Relaxed);
        }
        ActiveRequest(self.clone())
    }

    pub(super) fn state(&self) -> ConnectionState {
        if !self.activity.is_idle() {
            return ConnectionState::Busy;
        }
        match self.activity.ended_at.load(Ordering::Acquire) {
            0 => ConnectionState::New,
            ended_at => ConnectionState::Idle(self.table.started + Duration::from_millis(ended_at)),
        }
    }
}

impl ActiveRequest {
    /// Whether the connection is beyond the caps.
    pub(super) fn is_overflow(&self) -> bool {
        self.0.is_overflow
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let Connection {
            table, activity, ..
        } = &*self.0;
        let now = table.started.elapsed().as_millis();
        let now = u64::try_from(now).unwrap_or(u64::MAX).max(1);
        activity.ended_at.store(now, Ordering::Release);
        activity.idle_since.store(table.tick(), Ordering::Relaxed);
        // HTTP/2 carries several requests at once: the connection is idle only after the last.
        activity.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.table.state().remove(self.id);
    }
}

impl TableState {
    /// Whether another connection of this peer fits, after closing an idle one if necessary.
    fn make_room_for_peer(&mut self, peer: IpAddr, max: usize) -> bool {
        let is_candidate = |entry: &TableEntry| entry.is_within_caps && entry.peer == peer;
        self.peers.get(&peer).is_none_or(|count| *count < max)
            || self.evict_oldest(is_candidate)
            || self.displace_largest_owner(is_candidate)
    }

    fn make_room(&mut self, max: usize) -> bool {
        let is_candidate = |entry: &TableEntry| entry.is_within_caps;
        self.within_caps < max
            || self.evict_oldest(is_candidate)
            || self.displace_largest_owner(is_candidate)
    }

    fn make_overflow_room(&mut self) -> bool {
        self.overflow < MAX_OVERFLOW || self.evict_oldest(|entry| !entry.is_within_caps)
    }

    /// Closes the longest idle one of these connections; false if all are busy.
    fn evict_oldest(&mut self, is_candidate: impl Fn(&TableEntry) -> bool) -> bool {
        // A linear search, because only a full table needs the oldest one. A sorted list of the
        // idle connections would have to be updated at every request.
        let idle = self.connections.iter();
        let idle = idle.filter(|(_, entry)| is_candidate(entry) && entry.activity.is_idle());
        let oldest =
            idle.min_by_key(|(_, entry)| entry.activity.idle_since.load(Ordering::Relaxed));
        let Some(id) = oldest.map(|(id, _)| *id) else {
            return false;
        };
        // The slot is free at once. The connection itself ends a moment later, and its own removal
        // then finds nothing.
        if let Some(entry) = self.remove(id) {
            entry.leave.cancel();
        }
        true
    }

    /// Takes one of these busy connections from the owner of most of them: the one whose request
    /// began first, which usually is a stream or a wait. False if no owner has two.
    fn displace_largest_owner(&mut self, is_candidate: impl Fn(&TableEntry) -> bool) -> bool {
        let mut owners: HashMap<RequestOwner, Vec<(u64, u64)>> = HashMap::new();
        for (id, entry) in &self.connections {
            if let Some(owner) = entry.requests.owner().filter(|_| is_candidate(entry)) {
                let since = entry.activity.busy_since.load(Ordering::Relaxed);
                owners.entry(owner).or_default().push((since, *id));
            }
        }
        let shared = owners.into_values().filter(|owned| owned.len() > 1);
        let oldest = shared.filter_map(|owned| {
            let (since, id) = owned.iter().min()?;
            Some((owned.len(), Reverse(*since), *id))
        });
        let Some((.., id)) = oldest.max() else {
            return false;
        };
        // The slot is free at once; the request gets a moment to end.
        if let Some(entry) = self.remove(id) {
            entry.requests.displace();
        }
        true
    }

    fn insert(&mut self, id: u64, entry: TableEntry) {
        if entry.is_within_caps {
            self.within_caps += 1;
            *self.peers.entry(entry.peer).or_default() += 1;
        } else {
            self.overflow += 1;
        }
        self.connections.insert(id, entry);
    }

    fn remove(&mut self, id: u64) -> Option<TableEntry> {
        let entry = self.connections.remove(&id)?;
        if !entry.is_within_caps {
            self.overflow -= 1;
            return Some(entry);
        }
        self.within_caps -= 1;
        if let Some(count) = self.peers.get_mut(&entry.peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&entry.peer);
            }
        }
        Some(entry)
    }
}

/// What counts as one peer: an IPv4 address, or the /64 of an IPv6 address, which is the smallest
/// network that a subscriber gets.
fn peer_key(address: IpAddr) -> IpAddr {
    // An IPv4 caller of a dual-stack listener arrives as an IPv4-mapped IPv6 address.
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use mediagate_model::ids::AccountId;

    use super::*;

    fn table(max_total: usize, per_peer: usize) -> Arc<ConnectionTable> {
        let mut limits = ConnectionLimits::new(100, 100, None, Vec::new());
        (limits.max_total, limits.per_peer) = (max_total, per_peer);
        limits.proxies = vec!["10.0.0.0/8".parse().unwrap()];
        Arc::new(ConnectionTable::new(Arc::new(limits)))
    }

    fn peer(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_longest_idle_connection_makes_room() {
        let table = table(2, 2);
        let [a, b] = ["1.1.1.1", "1.1.1.2"].map(|text| table.admit(peer(text)).unwrap());
        drop(a.begin(peer("1.1.1.1")));
        let c = table.admit(peer("1.1.1.3")).unwrap();
        assert!(b.leave.is_cancelled() && !a.leave.is_cancelled() && !c.is_overflow);
    }

    #[test]
    fn one_peer_displaces_only_itself() {
        let table = table(10, 2);
        let other = table.admit(peer("2.2.2.2")).unwrap();
        let mine: Vec<_> = (0..5)
            .map(|_| table.admit(peer("1.1.1.1")).unwrap())
            .collect();
        let evicted: Vec<bool> = mine
            .iter()
            .map(|connection| connection.leave.is_cancelled())
            .collect();
        assert_eq!(evicted, [true, true, true, false, false]);
        assert!(!other.leave.is_cancelled());
    }

    #[test]
    fn a_network_of_one_subscriber_is_one_peer() {
        let table = table(10, 1);
        let first = table.admit(peer("2001:db8::1")).unwrap();
        let _second = table.admit(peer("2001:db8::2")).unwrap();
        let _third = table.admit(peer("2001:db8:0:1::2")).unwrap();
        assert!(first.leave.is_cancelled());
        assert_eq!(table.state().within_caps, 2);
    }

    #[test]
    fn when_all_are_busy_a_few_more_are_admitted_and_the_rest_refused() {
        let table = table(1, 1);
        let admitted = table.admit(peer("1.1.1.1")).unwrap();
        let busy = admitted.begin(peer("1.1.1.1"));
        let overflow: Vec<_> = (0..MAX_OVERFLOW)
            .map(|_| table.admit(peer("1.1.1.1")).unwrap())
            .collect();
        assert!(overflow.iter().all(|connection| connection.is_overflow));
        let one_more = table.admit(peer("1.1.1.1")).unwrap();
        assert!(one_more.is_overflow && overflow[0].leave.is_cancelled());
        let _all: Vec<_> = overflow[1..]
            .iter()
            .chain([&one_more])
            .map(|connection| connection.begin(peer("1.1.1.1")))
            .collect();
        assert!(table.admit(peer("1.1.1.1")).is_none());
        drop(busy);
        assert!(!table.admit(peer("1.1.1.1")).unwrap().is_overflow);
    }

    #[test]
    fn the_owner_of_most_busy_connections_gives_the_oldest_up() {
        let table = table(5, 5);
        let accounts = [AccountId::new(), AccountId::new()];
        let connections: Vec<_> = (0..5)
            .map(|_| table.admit(peer("10.1.1.1")).unwrap())
            .collect();
        let busy: Vec<_> = [0, 1, 1, 0, 1]
            .into_iter()
            .zip(&connections)
            .map(|(account, connection)| {
                let request = connection.begin(peer("10.1.1.1"));
                let owner = RequestOwner::Account(accounts[account]);
                connection.requests.set_owner(owner);
                request
            })
            .collect();
        let given_up = || -> Vec<usize> {
            let state = table.state();
            let is_gone = |index: &usize| !state.connections.contains_key(&connections[*index].id);
            (0..5).filter(is_gone).collect()
        };
        let mut admitted = Vec::new();
        for expected in [vec![1], vec![0, 1], vec![0, 1, 2]] {
            let newcomer = table.admit(peer("10.1.1.1")).unwrap();
            admitted.push((newcomer.begin(peer("9.9.9.9")), newcomer.is_overflow));
            let address = format!("9.9.9.{}", admitted.len());
            let owner = RequestOwner::Address(peer(&address));
            newcomer.requests.set_owner(owner);
            assert_eq!(given_up(), expected);
        }
        // Everybody has one now.
        assert!(table.admit(peer("10.1.1.1")).unwrap().is_overflow);
        assert!(admitted.iter().all(|(_, is_overflow)| !is_overflow));
        drop(busy);
    }

    #[test]
    fn a_proxy_has_no_cap_of_its_own() {
        let table = table(10, 1);
        let connections = [0; 5].map(|_| table.admit(peer("10.1.1.1")).unwrap());
        assert!(
            connections
                .iter()
                .all(|connection| !connection.leave.is_cancelled())
        );
    }

    #[test]
    fn a_closed_connection_is_removed() {
        let table = table(10, 10);
        let connection = table.admit(peer("1.1.1.1")).unwrap();
        let busy = connection.begin(peer("1.1.1.1"));
        drop(connection);
        drop(busy);
        let state = table.state();
        assert_eq!((state.connections.len(), state.peers.len()), (0, 0));
        assert_eq!((state.within_caps, state.overflow), (0, 0));
    }
}
