//! Which callers of this process still wait for an answer to something that
//! they wanted made.
//!
//! A caller is here as long as its [`Presence`] lives: the request's handler
//! holds it, then the body of the answer. What happens to it is written to the
//! database a moment later (`domain/intents`); until then this is the truth.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::clock::{Clock, Timestamp};
use crate::ids::{AssetId, IntentId, KeyId};

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
    /// Somebody left: the database is to be told.
    left: Notify,
    /// Counts every change, for those who wait for one.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Book {
    visits: HashMap<IntentId, Visit>,
    by_body: HashMap<(KeyId, String), Vec<IntentId>>,
}

#[derive(Debug, Clone)]
struct Visit {
    number: u32,
    body: (KeyId, String),
    since: Instant,
    accepting: bool,
    left: Option<Leaving>,
}

/// How a visit ended.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    at: Instant,
    joinable_until: Option<Timestamp>,
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

const NOTHING: u8 = 0;
const MADE: u8 = 1;

impl Attendance {
    /// Nobody yet.
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Inner {
            name: format!("callers-{}", AssetId::new().simple()),
            clock,
            book: Mutex::default(),
            left: Notify::new(),
            changes: watch::Sender::new(0),
        }))
    }

    /// The name of this process among those that serve callers.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// A caller comes for an intent as its visit number `number`. `reserved`
    /// says that the intent is in the database already.
    pub fn enter(
        &self,
        id: IntentId,
        number: u32,
        body: (KeyId, String),
        reserved: bool,
    ) -> Arc<Presence> {
        let visit = Visit {
            number,
            body: body.clone(),
            since: Instant::now(),
            accepting: false,
            left: None,
        };
        let mut book = self.book();
        if book.visits.insert(id, visit).is_none() {
            book.by_body.entry(body).or_default().push(id);
        }
        drop(book);
        Arc::new(Presence {
            attendance: self.clone(),
            id,
            number,
            stage: AtomicU8::new(if reserved { MADE } else { NOTHING }),
            complete: Mutex::new(None),
            written: AtomicBool::new(false),
        })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn is_unsettled(&self, key: KeyId, fingerprint: &str) -> bool {
        let book = self.book();
        let ids = book.by_body.get(&(key, fingerprint.to_owned()));
        let mut visits = ids
            .into_iter()
            .flatten()
            .filter_map(|id| book.visits.get(id));
        visits.any(|visit| visit.accepting && visit.left.is_some())
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
    pub fn leavers(&self) -> Vec<(IntentId, u32, Option<Timestamp>)> {
        let book = self.book();
        let ended = book.visits.iter().filter_map(|(id, visit)| {
            let left = visit.left.filter(|_| !visit.accepting)?;
            Some((*id, visit.number, left.joinable_until))
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
    }
}

impl Visit {
    fn standing(&self) -> Standing {
        match self.left {
            None => Standing::Here(self.since.elapsed()),
            Some(left) => Standing::Left(left.joinable_until),
        }
    }
}

/// A caller that waits. When it is dropped, the caller has its answer or has left.
pub struct Presence {
    attendance: Attendance,
    id: IntentId,
    number: u32,
    stage: AtomicU8,
    complete: Mutex<Option<Close>>,
    written: AtomicBool,
}

/// When an answer that was written to the end closes its intent to requests
/// with the same body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// At once.
    Now,
    /// At this instant.
    At(Timestamp),
}

impl Presence {
    /// The intent.
    pub const fn id(&self) -> IntentId {
        self.id
    }

    /// The number of the visit.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// The answer that is being written is the last word on the intent.
    pub fn complete(&self, close: Close) {
        let mut complete = self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        *complete = Some(close);
    }

    /// The body's end was handed to the connection.
    pub fn written(&self) {
        self.written.store(true, Ordering::Release);
    }

    /// Something is about to be written to the database; until the guard is
    /// dropped, nobody may conclude from its absence that it is not there.
    pub fn accepting(self: &Arc<Self>) -> Accepting {
        self.stage.store(MADE, Ordering::Release);
        self.set_accepting(true);
        Accepting {
            attendance: self.attendance.clone(),
            id: self.id,
        }
    }

    fn set_accepting(&self, accepting: bool) {
        if let Some(visit) = self.attendance.book().visits.get_mut(&self.id) {
            visit.accepting = accepting;
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let complete = *self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        let close = complete.filter(|_| self.written.load(Ordering::Acquire));
        let joinable_until = close.map(|close| match close {
            Close::Now => self.attendance.0.clock.now(),
            Close::At(at) => at,
        });
        let mut book = self.attendance.book();
        if self.stage.load(Ordering::Acquire) == NOTHING {
            book.remove(self.id, self.number);
        } else if let Some(visit) = book
            .visits
            .get_mut(&self.id)
            .filter(|visit| visit.number == self.number)
        {
            visit.left = Some(Leaving {
                at: Instant::now(),
                joinable_until,
            });
        }
        drop(book);
        self.attendance.changed();
        self.attendance.0.left.notify_one();
    }
}

/// See [`Presence::accepting`].
pub struct Accepting {
    attendance: Attendance,
    id: IntentId,
}

impl Drop for Accepting {
    fn drop(&mut self) {
        if let Some(visit) = self.attendance.book().visits.get_mut(&self.id) {
            visit.accepting = false;
        }
        self.attendance.changed();
        self.attendance.0.left.notify_one();
    }
}
