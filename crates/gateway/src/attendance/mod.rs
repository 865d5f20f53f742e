//! Which callers of this process still wait for an answer to something that
//! they wanted made.
//!
//! A caller is here as long as its [`Presence`] lives: the request's handler
//! holds it, then the body of the answer. What happens to it is written to the
//! database a moment later (`domain/intents`); until then this is the truth.

mod line;
mod presence;
mod refusals;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use providers::driver::SendBefore;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::clock::{Clock, Timestamp};
use crate::ids::{AccountId, AssetId, IntentId, KeyId};

pub use line::Line;
pub use presence::{Accepting, Close, Presence};
use refusals::Refusals;
pub use refusals::{Asking, Refusal};

/// How long an ended visit is kept whose intent is not in the database: the
/// write may still be under way.
const PATIENCE: Duration = Duration::from_mins(1);

/// The callers of one process. Cheap to clone.
#[derive(Clone)]
pub struct Attendance(Arc<Inner>);

struct Inner {
    name: String,
    clock: Clock,
    book: Mutex<Book>,
    refusals: Mutex<Refusals>,
    /// Somebody left: the database is to be told.
    left: Notify,
    /// Counts every change, for those who wait for one.
    changes: watch::Sender<u64>,
    /// Until when other processes are sure to know that this one lives.
    proved: watch::Sender<Instant>,
}

#[derive(Default)]
struct Book {
    visits: HashMap<IntentId, Visit>,
    by_body: HashMap<Body, Vec<IntentId>>,
    by_key: HashMap<IdempotencyKey, IntentId>,
}

/// An API key, and the fingerprint of endpoint and body.
type Body = (KeyId, String);

/// An account, and the `Idempotency-Key` that it sent.
type IdempotencyKey = (AccountId, String);

#[derive(Debug, Clone)]
struct Visit {
    number: u32,
    body: Body,
    /// The key that it has claimed.
    key: Option<IdempotencyKey>,
    since: Instant,
    /// Whether the intent was in the database before anything was made for it.
    reserved: bool,
    making: Making,
    left: Option<Leaving>,
    line: Line,
    /// Whether its answer was handed to the connection, to the end.
    is_told: Arc<AtomicBool>,
}

/// Whether something was made for an intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Making {
    /// Nothing, for certain.
    Nothing,
    /// It is being written: nobody may conclude from its absence that it is not there.
    UnderWay,
    /// Something may have been.
    Perhaps,
}

/// A visit that ended and of which the database does not know yet.
#[derive(Debug, Clone, Copy)]
pub struct Leaver {
    /// The intent.
    pub id: IntentId,
    /// The number of the visit.
    pub number: u32,
    /// Whether the intent was in the database before anything was made for it.
    pub reserved: bool,
    /// Until when a request with the same body leads to it.
    pub joinable_until: Option<Timestamp>,
}

/// How a visit ended.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    at: Instant,
    joinable_until: Option<Timestamp>,
}

/// Who claimed an `Idempotency-Key` before.
#[derive(Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Names endpoint and body of that request.
    pub fingerprint: String,
    /// Whether that caller still waits.
    pub is_here: bool,
}

/// What is known here of an intent's latest visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The caller waits, and has for this long.
    Here(Duration),
    /// The caller left without an answer, or with one that lets it come back
    /// until this instant.
    Left(Option<Timestamp>),
}

impl Attendance {
    /// Nobody yet.
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Inner {
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
    pub fn send_before(&self) -> SendBefore {
        SendBefore::until(self.0.proved.subscribe())
    }

    /// A caller comes for an intent that is in the database, as its visit number
    /// `number`.
    pub fn enter(&self, id: IntentId, number: u32, body: Body, line: Line) -> Arc<Presence> {
        let visit = Visit::new(number, body, None, line, true);
        let is_told = self.book().add(id, visit);
        Presence::new(self.clone(), id, number, is_told)
    }

    /// A caller comes for a new intent; `None` when callers with the same body
    /// are known that are not among `alone_but_for`, or ask whether they are new.
    pub fn begin(
        &self,
        id: IntentId,
        body: Body,
        line: Line,
        alone_but_for: Option<&[IntentId]>,
    ) -> Option<Arc<Presence>> {
        let mut book = self.book();
        if let Some(expected) = alone_but_for {
            let mut others = book.by_body.get(&body).into_iter().flatten();
            if others.any(|other| !expected.contains(other)) || self.is_asked(&body) {
                return None;
            }
        }
        let is_told = book.add(id, Visit::new(1, body, None, line, false));
        drop(book);
        Some(Presence::new(self.clone(), id, 1, is_told))
    }

    /// A caller comes for a new intent with an `Idempotency-Key`, unless another
    /// caller has claimed it for an intent that is not in the database yet: then
    /// this is the other one's body, and whether it is still here.
    pub fn claim(
        &self,
        id: IntentId,
        body: Body,
        line: Line,
        key: IdempotencyKey,
    ) -> Result<Arc<Presence>, Claimed> {
        let mut book = self.book();
        let other = book.by_key.get(&key).and_then(|id| book.visits.get(id));
        if let Some(other) = other.filter(|visit| visit.is_under_way()) {
            return Err(Claimed {
                fingerprint: other.body.1.clone(),
                is_here: other.left.is_none(),
            });
        }
        book.by_key.insert(key.clone(), id);
        let is_told = book.add(id, Visit::new(1, body, Some(key), line, false));
        drop(book);
        Ok(Presence::new(self.clone(), id, 1, is_told))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.0
            .refusals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.0.changes.send_modify(|count| *count += 1);
    }

    /// What is known here of an intent; `None` when the database knows all.
    pub fn standing(&self, id: IntentId) -> Option<Standing> {
        self.book().visits.get(&id).map(Visit::standing)
    }

    /// The intents with this body that are known here.
    pub fn with_body(&self, key: KeyId, fingerprint: &str) -> Vec<(IntentId, Standing)> {
        let book = self.book();
        let ids = book.by_body.get(&(key, fingerprint.to_owned()));
        let ids = ids.map(Vec::as_slice).unwrap_or_default();
        let known = |id: &IntentId| Some((*id, book.visits.get(id)?.standing()));
        ids.iter().filter_map(known).collect()
    }

    /// Waits until everything that was being accepted for callers with this body
    /// who have left is in the database.
    pub async fn settled(&self, key: KeyId, fingerprint: &str) {
        let mut changes = self.0.changes.subscribe();
        while self.is_unsettled(key, fingerprint) {
            // The sender lives as long as this does.
            let _ = changes.changed().await;
        }
    }

    /// Waits until everything that callers with this body have asked for is in
    /// the database, or refused.
    pub async fn written(&self, key: KeyId, fingerprint: &str) {
        let mut changes = self.0.changes.subscribe();
        while self.any_with_body(key, fingerprint, Visit::is_under_way) {
            // The sender lives as long as this does.
            let _ = changes.changed().await;
        }
    }

    fn is_unsettled(&self, key: KeyId, fingerprint: &str) -> bool {
        let is_lost = |visit: &Visit| visit.making == Making::UnderWay && visit.left.is_some();
        self.any_with_body(key, fingerprint, is_lost)
    }

    fn any_with_body(
        &self,
        key: KeyId,
        fingerprint: &str,
        is_meant: impl Fn(&Visit) -> bool,
    ) -> bool {
        let book = self.book();
        let ids = book.by_body.get(&(key, fingerprint.to_owned()));
        let mut visits = ids
            .into_iter()
            .flatten()
            .filter_map(|id| book.visits.get(id));
        visits.any(is_meant)
    }

    /// Waits until nobody with this body is taken to be here whose connection is
    /// closed: that is noticed soon, but not before the next try of a caller who
    /// left while the process stood still.
    pub async fn noticed(&self, key: KeyId, fingerprint: &str) {
        let mut changes = self.0.changes.subscribe();
        while self.any_with_body(key, fingerprint, Visit::is_unnoticed) {
            // The sender lives as long as this does.
            let _ = changes.changed().await;
        }
    }

    /// Waits until somebody with this body has left or was answered.
    pub async fn somebody_leaves(&self, key: KeyId, fingerprint: &str) {
        let mut changes = self.0.changes.subscribe();
        let here = || {
            let known = self.with_body(key, fingerprint);
            let here = |(_, standing): &(_, Standing)| matches!(standing, Standing::Here(_));
            known.into_iter().filter(here).count()
        };
        let before = here();
        while here() >= before {
            // The sender lives as long as this does.
            let _ = changes.changed().await;
        }
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
    pub fn leavers(&self) -> Vec<Leaver> {
        let book = self.book();
        let ended = book.visits.iter().filter_map(|(id, visit)| {
            let left = visit.left.filter(|_| visit.making != Making::UnderWay)?;
            Some(Leaver {
                id: *id,
                number: visit.number,
                reserved: visit.reserved,
                joinable_until: left.joinable_until,
            })
        });
        ended.collect()
    }

    /// The database knows of these ended visits now.
    pub fn noted(&self, visits: &[(IntentId, u32)]) {
        let mut book = self.book();
        for (id, number) in visits {
            book.remove(*id, *number);
        }
    }

    /// These were not found in the database; those that it will never have are
    /// forgotten.
    pub fn missing(&self, visits: &[(IntentId, u32)]) {
        let mut book = self.book();
        for (id, number) in visits {
            let visit = book.visits.get(id);
            let is_old = visit
                .and_then(|visit| visit.left)
                .is_some_and(|left| left.at.elapsed() > PATIENCE);
            if is_old {
                book.remove(*id, *number);
            }
        }
    }
}

impl Book {
    fn add(&mut self, id: IntentId, mut visit: Visit) -> Arc<AtomicBool> {
        let is_told = visit.is_told.clone();
        if let Some(earlier) = self.visits.remove(&id) {
            visit.key = visit.key.or(earlier.key);
        } else {
            self.by_body.entry(visit.body.clone()).or_default().push(id);
        }
        self.visits.insert(id, visit);
        is_told
    }

    /// Of a visit that ended and left nothing in the database nobody needs to know.
    fn forget_unwritten(&mut self, id: IntentId, number: u32) {
        let is_over = |visit: &Visit| {
            visit.making == Making::Nothing && !visit.reserved && visit.left.is_some()
        };
        if self.visits.get(&id).is_some_and(is_over) {
            self.remove(id, number);
        }
    }

    fn remove(&mut self, id: IntentId, number: u32) {
        if self
            .visits
            .get(&id)
            .is_none_or(|visit| visit.number != number)
        {
            return;
        }
        let Some(visit) = self.visits.remove(&id) else {
            return;
        };
        if let Some(ids) = self.by_body.get_mut(&visit.body) {
            ids.retain(|known| *known != id);
            if ids.is_empty() {
                self.by_body.remove(&visit.body);
            }
        }
        if let Some(key) = &visit.key
            && self.by_key.get(key) == Some(&id)
        {
            self.by_key.remove(key);
        }
    }
}

impl Visit {
    fn new(
        number: u32,
        body: Body,
        key: Option<IdempotencyKey>,
        line: Line,
        reserved: bool,
    ) -> Self {
        Self {
            number,
            body,
            key,
            since: Instant::now(),
            reserved,
            making: Making::Nothing,
            left: None,
            line,
            is_told: Arc::default(),
        }
    }

    /// Whether the database has nothing of it yet that can be relied on.
    fn is_under_way(&self) -> bool {
        self.making == Making::UnderWay || (self.making == Making::Nothing && !self.reserved)
    }

    /// Whether its caller has gone without its answer and nobody knows.
    fn is_unnoticed(&self) -> bool {
        // In this order: whoever has its answer may go.
        self.left.is_none() && self.line.is_closed() && !self.is_told.load(Ordering::Acquire)
    }

    fn standing(&self) -> Standing {
        match self.left {
            None => Standing::Here(self.since.elapsed()),
            Some(left) => Standing::Left(left.joinable_until),
        }
    }
}
