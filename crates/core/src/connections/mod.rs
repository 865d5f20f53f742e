//! The clients of this process that still wait for an answer to something that
//! they wanted made.
//!
//! A caller is here as long as its [`ClientGuard`] lives: the request's handler
//! holds it, then the body of the answer. What happens to it is written to the
//! database a moment later (`domain/idempotency`); until then this is the truth.

mod client_guard;
mod client_table;
mod peer_socket;
mod refusals;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use providers::driver::SendDeadline;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub use client_guard::{AcceptanceGuard, ClientGuard, IntentCloseTime};
use client_table::{ClientEntry, ClientTable, CreationState, IdempotencyKey};
use mediagate_model::clock::{Clock, Timestamp};
use mediagate_model::ids::{AssetId, IntentId};
use mediagate_model::intent::RequestFingerprint;
pub use peer_socket::PeerSocket;
pub use refusals::RefusalCheckGuard;
use refusals::RefusalLog;

/// How long an ended visit is kept whose intent is not in the database: the
/// write may still be under way.
const PATIENCE: Duration = Duration::from_mins(1);

/// The callers of one process. Cheap to clone.
#[derive(Clone)]
pub struct ClientRegistry(Arc<RegistryState>);

struct RegistryState {
    name: String,
    clock: Clock,
    book: Mutex<ClientTable>,
    refusals: Mutex<RefusalLog>,
    /// Somebody left: the database is to be told.
    left: Notify,
    /// Counts every change, for those who wait for one.
    changes: watch::Sender<u64>,
    /// Until when other processes are sure to know that this one lives.
    proved: watch::Sender<Instant>,
}

/// Where the caller of an intent's latest request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientState {
    /// It waits for its answer.
    Waiting,
    /// It left without, or with an answer that is given again.
    Gone,
    /// It has had its answer since this instant.
    Answered(Timestamp),
}

impl ClientState {
    /// Of a caller that left an intent which can be joined until then.
    pub fn after(joinable_until: Option<Timestamp>, now: Timestamp) -> Self {
        match joinable_until {
            Some(until) if until <= now => Self::Answered(until),
            _ => Self::Gone,
        }
    }
}

/// A visit that ended and of which the database does not know yet.
#[derive(Debug, Clone, Copy)]
pub struct Disconnect {
    pub id: IntentId,
    /// The number of the visit.
    pub number: u32,
    /// Whether the intent was in the database before anything was made for it.
    pub reserved: bool,
    /// Until when a request with the same body joins the intent.
    pub joinable_until: Option<Timestamp>,
}

/// Who claimed an `Idempotency-Key` before.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyConflict {
    /// Of that request.
    pub fingerprint: String,
    /// Whether that caller still waits.
    pub is_here: bool,
}

impl ClientRegistry {
    /// Nobody yet.
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(RegistryState {
            // Short: it stands in every row of an intent that is being asked for.
            name: format!("c-{}", &AssetId::new().simple()[16..]),
            clock,
            book: Mutex::default(),
            refusals: Mutex::default(),
            left: Notify::new(),
            changes: watch::Sender::new(0),
            proved: watch::Sender::new(Instant::now()),
        }))
    }

    /// The name of this process among those that serve callers.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Other processes know until then that this one lives.
    pub fn prove(&self, until: Instant) {
        self.0.proved.send_replace(until);
    }

    /// Until when something may be ordered for a caller: later another process may
    /// have answered it.
    pub fn send_before(&self) -> SendDeadline {
        SendDeadline::until(self.0.proved.subscribe())
    }

    /// A caller comes for an intent that is in the database, as its visit number
    /// `number`.
    pub fn enter(
        &self,
        id: IntentId,
        number: u32,
        body: RequestFingerprint,
        line: PeerSocket,
    ) -> Arc<ClientGuard> {
        let entry = ClientEntry::new(number, body, None, line, true);
        let is_told = self.book().add(id, entry);
        ClientGuard::new(self.clone(), id, number, is_told)
    }

    /// A caller comes for a new intent; `None` when callers with the same body
    /// are known that are not among `alone_but_for`, or ask whether they are new.
    pub fn begin(
        &self,
        id: IntentId,
        body: RequestFingerprint,
        line: PeerSocket,
        alone_but_for: Option<&[IntentId]>,
    ) -> Option<Arc<ClientGuard>> {
        let mut book = self.book();
        if let Some(expected) = alone_but_for {
            let others = book.with_body(&body).any(|(id, _)| !expected.contains(&id));
            if others || self.is_asked(&body) {
                return None;
            }
        }
        let is_told = book.add(id, ClientEntry::new(1, body, None, line, false));
        drop(book);
        Some(ClientGuard::new(self.clone(), id, 1, is_told))
    }

    /// A caller comes for a new intent with an `Idempotency-Key`, unless another
    /// caller has claimed it for an intent that is not in the database yet: then
    /// this is the other one's body, and whether it is still here.
    pub fn claim(
        &self,
        id: IntentId,
        body: RequestFingerprint,
        line: PeerSocket,
        key: IdempotencyKey,
    ) -> Result<Arc<ClientGuard>, KeyConflict> {
        let mut book = self.book();
        let other = book.by_key.get(&key).and_then(|id| book.entries.get(id));
        if let Some(other) = other.filter(|entry| entry.is_under_way()) {
            return Err(KeyConflict {
                fingerprint: other.body.fingerprint.clone(),
                is_here: other.left.is_none(),
            });
        }
        book.by_key.insert(key.clone(), id);
        let is_told = book.add(id, ClientEntry::new(1, body, Some(key), line, false));
        drop(book);
        Ok(ClientGuard::new(self.clone(), id, 1, is_told))
    }

    fn book(&self) -> MutexGuard<'_, ClientTable> {
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusals(&self) -> MutexGuard<'_, RefusalLog> {
        self.0
            .refusals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.0.changes.send_modify(|count| *count += 1);
    }

    /// Where the caller of an intent is; `None` when the database knows all.
    pub fn caller_of(&self, id: IntentId) -> Option<ClientState> {
        let now = self.0.clock.now();
        Some(self.book().entries.get(&id)?.caller(now))
    }

    /// The intents with this body that are known here.
    pub fn with_body(&self, body: &RequestFingerprint) -> Vec<(IntentId, ClientState)> {
        let (now, book) = (self.0.clock.now(), self.book());
        let of_body = book.with_body(body);
        of_body.map(|(id, entry)| (id, entry.caller(now))).collect()
    }

    /// Whether somebody has waited here with this body for longer than that.
    pub fn is_waiting_for(&self, body: &RequestFingerprint, time: Duration) -> bool {
        let waits = |entry: &ClientEntry| entry.left.is_none() && entry.since.elapsed() > time;
        self.any(body, waits)
    }

    fn any(&self, body: &RequestFingerprint, is_meant: impl Fn(&ClientEntry) -> bool) -> bool {
        self.book()
            .with_body(body)
            .any(|(_, entry)| is_meant(entry))
    }

    /// Looks again after each change, until there is something.
    async fn until<T>(&self, look: impl Fn() -> Option<T>) -> T {
        let mut changes = self.0.changes.subscribe();
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            // The sender lives as long as this does.
            let _ = changes.changed().await;
        }
    }

    async fn until_none(&self, body: &RequestFingerprint, is_meant: impl Fn(&ClientEntry) -> bool) {
        self.until(|| (!self.any(body, &is_meant)).then_some(()))
            .await;
    }

    /// Waits until everything that was being accepted for callers with this body
    /// who have left is in the database.
    pub async fn settled(&self, body: &RequestFingerprint) {
        self.until_none(body, |entry| {
            entry.making == CreationState::UnderWay && entry.left.is_some()
        })
        .await;
    }

    /// Waits until everything that callers with this body have asked for is in
    /// the database, or refused.
    pub async fn written(&self, body: &RequestFingerprint) {
        self.until_none(body, ClientEntry::is_under_way).await;
    }

    /// Waits until nobody with this body is taken to be here whose connection is
    /// closed: that is noticed soon, but not before the next try of a caller who
    /// left while the process stood still.
    pub async fn noticed(&self, body: &RequestFingerprint) {
        self.until_none(body, ClientEntry::is_unnoticed).await;
    }

    /// Waits until somebody with this body has left or was answered.
    pub async fn somebody_leaves(&self, body: &RequestFingerprint) {
        let here = || {
            let book = self.book();
            let here = book.with_body(body);
            here.filter(|(_, entry)| entry.left.is_none()).count()
        };
        let before = here();
        self.until(|| (here() < before).then_some(())).await;
    }

    /// Waits for a change of anything, but no longer than `time`.
    pub async fn change_within(&self, time: Duration) {
        let mut changes = self.0.changes.subscribe();
        drop(tokio::time::timeout(time, changes.changed()).await);
    }

    /// Sleeps until somebody left.
    pub async fn somebody_left(&self) {
        self.0.left.notified().await;
    }

    /// The visits that ended and of which the database does not know yet.
    pub fn leavers(&self) -> Vec<Disconnect> {
        let book = self.book();
        let ended = book.entries.iter().filter_map(|(id, entry)| {
            let left = entry
                .left
                .filter(|_| entry.making != CreationState::UnderWay)?;
            Some(Disconnect {
                id: *id,
                number: entry.number,
                reserved: entry.reserved,
                joinable_until: left.joinable_until,
            })
        });
        ended.collect()
    }

    /// The database was told of an ended visit. When its intent is not there, and will
    /// never be, the visit is forgotten after a while.
    pub fn noted(&self, id: IntentId, number: u32, is_there: bool) {
        let mut book = self.book();
        let left = book.entries.get(&id).and_then(|entry| entry.left);
        if is_there || left.is_some_and(|left| left.at.elapsed() > PATIENCE) {
            book.remove(id, number);
        }
    }
}
