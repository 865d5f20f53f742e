//! Connection table: counts connections in total and per peer, and makes room for a new one by
//! closing the longest idle one.
//!
//! If all are busy, a few more are admitted beyond the caps: probes are answered and other requests
//! refused, so that a full gateway does not look dead.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ConnectionLimits;

/// Connections admitted beyond the caps.
const MAX_OVERFLOW: usize = 32;

/// The table of all connections.
pub(super) struct ConnectionTable {
    limits: Arc<ConnectionLimits>,
    state: Mutex<TableState>,
}

#[derive(Default)]
struct TableState {
    /// Numbers the connections, and orders the moments at which they became idle.
    clock: u64,
    connections: HashMap<u64, TableEntry>,
    admitted: ConnectionGroup,
    overflow: ConnectionGroup,
    /// Connections within the caps, by address.
    peers: HashMap<IpAddr, ConnectionGroup>,
}

/// A group of connections.
#[derive(Default)]
struct ConnectionGroup {
    count: usize,
    /// Connections without a request, by when they became idle.
    idle: BTreeMap<u64, u64>,
}

struct TableEntry {
    peer: IpAddr,
    is_admitted: bool,
    /// `None` while it has a request.
    idle_since: Option<u64>,
    requests: usize,
    leave: CancellationToken,
}

/// An admitted connection, until dropped.
pub(super) struct Connection {
    table: Arc<ConnectionTable>,
    id: u64,
    /// Set when its slot is needed for others.
    pub(super) leave: CancellationToken,
    /// Whether it is beyond the caps: see [`super::OverflowConnection`].
    pub(super) is_overflow: bool,
    is_busy: watch::Sender<bool>,
}

/// A request on a connection, until its response is written or abandoned.
pub(super) struct ActiveRequest(Arc<Connection>);

impl ConnectionTable {
    pub(super) fn new(limits: Arc<ConnectionLimits>) -> Self {
        Self {
            limits,
            state: Mutex::default(),
        }
    }

    /// Admits a new connection, if necessary in place of an idle one; `None` if there is no room at
    /// all.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Arc<Connection>> {
        // All callers behind a proxy come from its address: the cap of one peer would hit them
        // together.
        let is_proxy = {
            let address = peer.to_canonical();
            let mut proxies = self.limits.proxies.iter();
            proxies.any(|network| network.contains(&address))
        };
        let peer = peer_key(peer);
        let mut state = self.state();
        // The peer's cap is checked first: a peer at its cap may displace its own idle connections,
        // never those of others.
        let fits_peer = is_proxy || state.make_room_of_peer(peer, self.limits.per_peer);
        let is_seated = fits_peer && state.make_room(self.limits.max_total);
        // If all slots are busy, a few more are admitted, so that probes get their answer and
        // callers a 503 instead of a refused connection.
        if !is_seated && !state.make_overflow_room() {
            return None;
        }
        state.clock += 1;
        let id = state.clock;
        let leave = CancellationToken::new();
        let entry = TableEntry {
            peer,
            is_admitted: is_seated,
            idle_since: None,
            requests: 0,
            leave: leave.clone(),
        };
        for group in state.groups(&entry) {
            group.count += 1;
        }
        state.connections.insert(id, entry);
        // A connection without a request counts as idle, so silent ones can be displaced.
        state.mark_idle(id);
        Some(Arc::new(Connection {
            table: self.clone(),
            id,
            leave,
            is_overflow: !is_seated,
            is_busy: watch::Sender::new(false),
        }))
    }

    /// Closes the longest idle connection.
    pub(super) fn evict_one(&self) {
        let mut state = self.state();
        // Those beyond the caps go first: they wait for nothing but a probe or a refusal.
        if let Some(id) = state.overflow.oldest().or_else(|| state.admitted.oldest()) {
            state.evict(id);
        }
    }

    fn state(&self) -> MutexGuard<'_, TableState> {
        // A panic elsewhere must not stop the server from accepting.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// A request has arrived.
    pub(super) fn begin(self: &Arc<Self>) -> ActiveRequest {
        let mut state = self.table.state();
        // An evicted connection is no longer in the table, but can still begin a request before it
        // is closed.
        if let Some(entry) = state.connections.get_mut(&self.id) {
            entry.requests += 1;
            state.mark_active(self.id);
        }
        drop(state);
        self.is_busy.send_replace(true);
        ActiveRequest(self.clone())
    }

    /// A watch that shows whether the connection has a request.
    pub(super) fn is_busy(&self) -> watch::Receiver<bool> {
        self.is_busy.subscribe()
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
        let mut state = self.0.table.state();
        let Some(entry) = state.connections.get_mut(&self.0.id) else {
            return;
        };
        entry.requests -= 1;
        // HTTP/2 carries several requests at once: the connection is idle only after the last.
        if entry.requests == 0 {
            state.mark_idle(self.0.id);
            self.0.is_busy.send_replace(false);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.table.state().remove(self.id);
    }
}

impl TableState {
    /// Whether another connection of this peer fits, after closing an idle one if necessary.
    fn make_room_of_peer(&mut self, peer: IpAddr, most: usize) -> bool {
        let Some(group) = self.peers.get(&peer).filter(|group| group.count >= most) else {
            return true;
        };
        let oldest = group.oldest();
        oldest.map(|id| self.evict(id)).is_some()
    }

    fn make_room(&mut self, most: usize) -> bool {
        if self.admitted.count < most {
            return true;
        }
        let oldest = self.admitted.oldest();
        oldest.map(|id| self.evict(id)).is_some()
    }

    fn make_overflow_room(&mut self) -> bool {
        if self.overflow.count < MAX_OVERFLOW {
            return true;
        }
        let oldest = self.overflow.oldest();
        oldest.map(|id| self.evict(id)).is_some()
    }

    fn evict(&mut self, id: u64) {
        // The slot is free at once. The connection itself ends a moment later, and its own removal
        // then finds nothing.
        if let Some(entry) = self.remove(id) {
            entry.leave.cancel();
        }
    }

    fn remove(&mut self, id: u64) -> Option<TableEntry> {
        self.mark_active(id);
        let entry = self.connections.remove(&id)?;
        for group in self.groups(&entry) {
            group.count -= 1;
        }
        if self
            .peers
            .get(&entry.peer)
            .is_some_and(|group| group.count == 0)
        {
            self.peers.remove(&entry.peer);
        }
        Some(entry)
    }

    /// Notes that the connection has become idle.
    fn mark_idle(&mut self, id: u64) {
        // A counter, not a time: it orders the idle connections, never repeats and needs no clock.
        self.clock += 1;
        let now = self.clock;
        self.set_idle(id, Some(now));
    }

    fn mark_active(&mut self, id: u64) {
        self.set_idle(id, None);
    }

    fn set_idle(&mut self, id: u64, since: Option<u64>) {
        // Taken out for the change, because `groups` borrows the whole table.
        let Some(mut entry) = self.connections.remove(&id) else {
            return;
        };
        let before = std::mem::replace(&mut entry.idle_since, since);
        for group in self.groups(&entry) {
            if let Some(before) = before {
                group.idle.remove(&before);
            }
            if let Some(since) = since {
                group.idle.insert(since, id);
            }
        }
        self.connections.insert(id, entry);
    }

    /// The groups that a connection belongs to.
    fn groups(&mut self, entry: &TableEntry) -> impl Iterator<Item = &mut ConnectionGroup> {
        let of_peer = entry
            .is_admitted
            .then(|| self.peers.entry(entry.peer).or_default());
        let of_all = if entry.is_admitted {
            &mut self.admitted
        } else {
            &mut self.overflow
        };
        of_peer.into_iter().chain([of_all])
    }
}

impl ConnectionGroup {
    fn oldest(&self) -> Option<u64> {
        self.idle.first_key_value().map(|(_, id)| *id)
    }
}

/// A peer: an address, or a /64 of IPv6, the least that a subscriber gets.
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
    use super::*;

    fn crowd(in_all: usize, per_peer: usize) -> Arc<ConnectionTable> {
        let mut limits = ConnectionLimits::new(100, 100, None, Vec::new());
        (limits.max_total, limits.per_peer) = (in_all, per_peer);
        limits.proxies = vec!["10.0.0.0/8".parse().unwrap()];
        Arc::new(ConnectionTable::new(Arc::new(limits)))
    }

    fn peer(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_longest_idle_makes_room() {
        let crowd = crowd(2, 2);
        let [a, b] = ["1.1.1.1", "1.1.1.2"].map(|text| crowd.admit(peer(text)).unwrap());
        drop(a.begin());
        let c = crowd.admit(peer("1.1.1.3")).unwrap();
        assert!(b.leave.is_cancelled() && !a.leave.is_cancelled() && !c.is_overflow);
    }

    #[test]
    fn one_peer_displaces_only_itself() {
        let crowd = crowd(10, 2);
        let other = crowd.admit(peer("2.2.2.2")).unwrap();
        let mine: Vec<_> = (0..5)
            .map(|_| crowd.admit(peer("1.1.1.1")).unwrap())
            .collect();
        let gone: Vec<bool> = mine
            .iter()
            .map(|guest| guest.leave.is_cancelled())
            .collect();
        assert_eq!(gone, [true, true, true, false, false]);
        assert!(!other.leave.is_cancelled());
    }

    #[test]
    fn a_network_of_one_subscriber_is_one_peer() {
        let crowd = crowd(10, 1);
        let first = crowd.admit(peer("2001:db8::1")).unwrap();
        let _second = crowd.admit(peer("2001:db8::2")).unwrap();
        let _third = crowd.admit(peer("2001:db8:0:1::2")).unwrap();
        assert!(first.leave.is_cancelled());
        assert_eq!(crowd.state().admitted.count, 2);
    }

    #[test]
    fn when_all_are_busy_a_few_stand_and_the_rest_go() {
        let crowd = crowd(1, 1);
        let seated = crowd.admit(peer("1.1.1.1")).unwrap();
        let busy = seated.begin();
        let standing: Vec<_> = (0..MAX_OVERFLOW)
            .map(|_| crowd.admit(peer("1.1.1.1")).unwrap())
            .collect();
        assert!(standing.iter().all(|guest| guest.is_overflow));
        let one_more = crowd.admit(peer("1.1.1.1")).unwrap();
        assert!(one_more.is_overflow && standing[0].leave.is_cancelled());
        let _all: Vec<_> = standing[1..]
            .iter()
            .chain([&one_more])
            .map(Connection::begin)
            .collect();
        assert!(crowd.admit(peer("1.1.1.1")).is_none());
        drop(busy);
        assert!(!crowd.admit(peer("1.1.1.1")).unwrap().is_overflow);
    }

    #[test]
    fn proxies_speak_for_many() {
        let crowd = crowd(10, 1);
        let guests = [0; 5].map(|_| crowd.admit(peer("10.1.1.1")).unwrap());
        assert!(guests.iter().all(|guest| !guest.leave.is_cancelled()));
    }

    #[test]
    fn who_leaves_is_forgotten() {
        let crowd = crowd(10, 10);
        let guest = crowd.admit(peer("1.1.1.1")).unwrap();
        let busy = guest.begin();
        drop(guest);
        drop(busy);
        let state = crowd.state();
        assert_eq!((state.connections.len(), state.peers.len()), (0, 0));
        assert_eq!((state.admitted.count, state.admitted.idle.len()), (0, 0));
    }
}
