//! The clients of this process that wait for the answer to an order.
//!
//! A client is connected as long as its [`ClientGuard`] lives and its connection is open. The
//! request's handler holds the guard, then the body of the answer. Its disconnection is written to
//! the database a little later, together with others; until then this table is authoritative.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use locks::lock;
use tokio::sync::{Notify, watch};

use super::client_state::ClientState;
use super::client_table::{ClientEntry, ClientTable, CreationState};
use super::{ClientGuard, PeerSocket};
use mediagate_model::clock::{Clock, Timestamp};
use mediagate_model::ids::IntentId;
use mediagate_model::intent::RequestFingerprint;

/// How long an ended attempt is kept if its intent is not in the database: the write may still be
/// in progress.
const UNWRITTEN_TTL: Duration = Duration::from_mins(1);

/// How long the handler of a closed connection gets to notice that its client has left: only then
/// is it known what the client was told. A connection on which a second request waits seems open
/// until the first is answered.
const MAX_DISCONNECT_DELAY: Duration = Duration::from_secs(2);
/// How long a retry waits for its first try to be accepted or refused.
const MAX_FIRST_TRY: Duration = Duration::from_mins(1);
/// A client that was connected for this long may have just disconnected.
const MIN_CONNECTED: Duration = Duration::from_millis(50);
/// How long its connection then gets to report that.
const DISCONNECT_WAIT: Duration = Duration::from_millis(50);

/// The clients of one process.
pub(super) struct ClientRegistry {
    clock: Clock,
    table: Mutex<ClientTable>,
    /// Notified when a client disconnects or is refused, so that it is written to the database.
    event_signal: Notify,
    /// Counts every change, to wake those that wait for one.
    changes: watch::Sender<u64>,
}

/// A client that disconnected, which is not in the database yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientDisconnect {
    pub(super) id: IntentId,
    /// The number of its attempt.
    pub(super) number: u32,
    /// Whether the intent was in the database before anything was made for it.
    pub(super) reserved: bool,
    /// The time until which a request with the same body joins the intent.
    pub(super) joinable_until: Option<Timestamp>,
}

impl ClientRegistry {
    /// A table without clients.
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            table: Mutex::default(),
            event_signal: Notify::new(),
            changes: watch::Sender::new(0),
        })
    }

    /// Adds a client of an intent, as attempt number `number`; `reserved` if the intent is in the
    /// database.
    pub(super) fn enter(
        self: &Arc<Self>,
        id: IntentId,
        number: u32,
        body: RequestFingerprint,
        socket: PeerSocket,
        reserved: bool,
    ) -> Arc<ClientGuard> {
        let entry = ClientEntry::new(number, body, socket.clone(), reserved);
        let is_answered = self.table().add(id, entry);
        ClientGuard::new(self.clone(), id, number, socket, is_answered)
    }

    /// Adds a client of a new intent, if no request with this body is under way: a retry waits for
    /// its first try, instead of doing the same work at the same time.
    pub(super) fn enter_alone(
        self: &Arc<Self>,
        id: IntentId,
        body: RequestFingerprint,
        socket: PeerSocket,
    ) -> Option<Arc<ClientGuard>> {
        let mut table = self.table();
        if table
            .with_body(&body)
            .any(|(_, entry)| entry.is_under_way())
        {
            return None;
        }
        let is_answered = table.add(id, ClientEntry::new(1, body, socket.clone(), false));
        drop(table);
        Some(ClientGuard::new(self.clone(), id, 1, socket, is_answered))
    }

    pub(super) fn table(&self) -> MutexGuard<'_, ClientTable> {
        lock(&self.table)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Wakes those that wait for a change.
    pub(super) fn notify_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Wakes the writer of disconnects and refusals.
    pub(super) fn wake_writer(&self) {
        self.event_signal.notify_one();
    }

    /// The state of an intent's client; `None` if the database is up to date.
    pub(super) fn state_of(&self, id: IntentId) -> Option<ClientState> {
        let now = self.now();
        Some(self.table().entries.get(&id)?.client(now))
    }

    /// The intents with this body whose clients disconnected from this process without an answer,
    /// or with one that is repeated on request. If a client has waited for long, it first gets a
    /// moment in which its disconnection can be noticed.
    pub(super) async fn disconnected_intents(&self, body: &RequestFingerprint) -> Vec<IntentId> {
        let disconnected = self.gone_intents(body);
        let may_leave = |entry: &ClientEntry| {
            entry.disconnect.is_none() && entry.since.elapsed() > MIN_CONNECTED
        };
        if !disconnected.is_empty() || !self.any(body, may_leave) {
            return disconnected;
        }
        drop(tokio::time::timeout(DISCONNECT_WAIT, self.wait_for_disconnect(body)).await);
        let disconnected = self.gone_intents(body);
        self.wait_until_settled(body).await;
        disconnected
    }

    fn gone_intents(&self, body: &RequestFingerprint) -> Vec<IntentId> {
        let (now, table) = (self.now(), self.table());
        let of_body = table.with_body(body);
        of_body
            .filter(|(_, entry)| entry.client(now) == ClientState::Gone)
            .map(|(id, _)| id)
            .collect()
    }

    fn any(&self, body: &RequestFingerprint, predicate: impl Fn(&ClientEntry) -> bool) -> bool {
        self.table()
            .with_body(body)
            .any(|(_, entry)| predicate(entry))
    }

    /// Calls `check` after each change until it returns a value.
    async fn wait_until<T>(&self, check: impl Fn() -> Option<T>) -> T {
        let mut changes = self.changes.subscribe();
        loop {
            if let Some(value) = check() {
                return value;
            }
            // The sender lives as long as this does.
            let _ = changes.changed().await;
        }
    }

    async fn wait_until_none(
        &self,
        body: &RequestFingerprint,
        predicate: impl Fn(&ClientEntry) -> bool,
    ) {
        self.wait_until(|| (!self.any(body, &predicate)).then_some(()))
            .await;
    }

    /// Waits for the orders with this body whose clients disconnected while they were being
    /// accepted: until all of them are in the database.
    pub(super) async fn wait_until_settled(&self, body: &RequestFingerprint) {
        self.wait_until_none(body, |entry| {
            entry.creation == CreationState::UnderWay && entry.is_disconnected()
        })
        .await;
    }

    /// Waits until everything that clients with this body have asked for is in the database, or
    /// refused; but no longer than a first try takes.
    pub(super) async fn wait_until_written(&self, body: &RequestFingerprint) {
        let written = self.wait_until_none(body, ClientEntry::is_under_way);
        drop(tokio::time::timeout(MAX_FIRST_TRY, written).await);
    }

    /// Waits until every closed connection of a client with this body has been noticed: this
    /// happens soon, but perhaps not before the next try of a client that disconnected while the
    /// process was suspended. Those that remain count as disconnected.
    pub(super) async fn wait_until_disconnects_noticed(&self, body: &RequestFingerprint) {
        let noticed = self.wait_until_none(body, ClientEntry::has_unnoticed_disconnect);
        drop(tokio::time::timeout(MAX_DISCONNECT_DELAY, noticed).await);
    }

    /// Waits until a client with this body has disconnected or was answered.
    async fn wait_for_disconnect(&self, body: &RequestFingerprint) {
        let connected = || {
            let table = self.table();
            let of_body = table.with_body(body);
            of_body
                .filter(|(_, entry)| entry.disconnect.is_none())
                .count()
        };
        let before = connected();
        self.wait_until(|| (connected() < before).then_some(()))
            .await;
    }

    /// Waits for a change of anything, but no longer than `time`.
    pub(super) async fn wait_for_change(&self, time: Duration) {
        let mut changes = self.changes.subscribe();
        drop(tokio::time::timeout(time, changes.changed()).await);
    }

    /// Sleeps until a client has disconnected or its order was refused.
    pub(super) async fn wait_for_event(&self) {
        self.event_signal.notified().await;
    }

    /// The disconnects that are not in the database yet.
    pub(super) fn disconnects(&self) -> Vec<ClientDisconnect> {
        let table = self.table();
        let ended = table.entries.iter().filter_map(|(id, entry)| {
            let disconnect = entry
                .disconnect
                .filter(|_| entry.creation != CreationState::UnderWay)?;
            Some(ClientDisconnect {
                id: *id,
                number: entry.number,
                reserved: entry.reserved,
                joinable_until: disconnect.joinable_until,
            })
        });
        ended.collect()
    }

    /// Notes that a disconnect was written to the database. If its intent does not exist there, the
    /// attempt is forgotten after a while.
    pub(super) fn mark_written(&self, id: IntentId, number: u32, exists: bool) {
        let mut table = self.table();
        let disconnect = table.entries.get(&id).and_then(|entry| entry.disconnect);
        if exists || disconnect.is_some_and(|disconnect| disconnect.at.elapsed() > UNWRITTEN_TTL) {
            table.remove(id, number);
        }
    }
}
