//! Group commit: several writes share one transaction and one commit.
//!
//! A commit waits for the disk, and for a standby. So the waiting writes with one account lock run
//! in one transaction, each in its own savepoint, and are committed once; none is answered before.
//! A failing write rolls back only itself. Its error is answered after the commit too: it may follow
//! from what the writes before it wrote, and its caller may look for that at once. A write that met
//! a lock conflict, or was lost with its connection before the commit, is retried once separately.
//!
//! A group grows while it is written: its first write may wait long for other processes that hold
//! the lock, and writes that arrive meanwhile need not wait for the lock again.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::pg_session::{CommitOutcome, PgSession, SessionTrouble};
use crate::postgres::in_doubt::DoubtQueue;
use crate::postgres::pending_work::{PendingWork, with_reply};
use crate::{Conn, StoreError};

/// Maximum number of writes per commit. Postgres handles up to 64 savepoints per transaction
/// cheaply.
pub(super) const MAX_GROUP_WRITES: usize = 32;
/// How long until a COMMIT without an answer counts as lost.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(3);
/// A write that has waited longer than this is not tried again.
const MAX_RETRY_AGE: Duration = Duration::from_secs(2);
/// A group with less time left accepts no more writes: if it is late, all of them are.
const MIN_TIME_LEFT: Duration = Duration::from_secs(1);

pub(super) struct QueuedWrite {
    /// Writes to the same rows have the same lock.
    pub(super) account_lock: Option<i32>,
    pub(super) since: Instant,
    work: Box<dyn PendingWork>,
    was_tried: bool,
}

impl QueuedWrite {
    pub(super) fn new<W, T, E>(
        account_lock: Option<i32>,
        work: W,
    ) -> (Self, oneshot::Receiver<Result<T, E>>)
    where
        W: FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (work, answer) = with_reply(work);
        let write = Self {
            account_lock,
            since: Instant::now(),
            work,
            was_tried: false,
        };
        (write, answer)
    }

    pub(super) fn reply(self, committed: Result<(), StoreError>) {
        self.work.reply(committed);
    }

    /// Whether its caller has waited too long for another try.
    pub(super) fn is_late(&self) -> bool {
        self.since.elapsed() > MAX_RETRY_AGE
    }

    /// `Ok` if it may be tried once more.
    fn into_retry(mut self) -> Result<Self, Self> {
        if self.was_tried || self.is_late() {
            return Err(self);
        }
        self.was_tried = true;
        Ok(self)
    }
}

/// Writes `first` and the writes of its group from `next_of_group`, in one transaction; returns
/// those to be retried separately.
pub(super) fn write(
    session: &mut PgSession,
    first: QueuedWrite,
    next_of_group: impl Fn() -> Option<QueuedWrite>,
    doubts: &DoubtQueue,
) -> Vec<QueuedWrite> {
    let account_lock = first.account_lock;
    let mut succeeded: Vec<QueuedWrite> = Vec::new();
    // Writes that failed after others of the group had succeeded.
    let mut failed: Vec<QueuedWrite> = Vec::new();
    let mut retries = Vec::new();
    let mut count = 0;
    let mut next = Some(first);
    // The lock in the database is for groups of other processes.
    session.begin(account_lock);
    while let Some(mut write) = next {
        // The first one is alone in the transaction and needs no savepoint.
        if !succeeded.is_empty() {
            session.savepoint();
        }
        let outcome = write.work.run(session);
        let trouble = session.take_trouble();
        match (outcome, trouble) {
            (Ok(true), None) => succeeded.push(write),
            (_, Some(trouble @ (SessionTrouble::Lost | SessionTrouble::TimedOut))) => {
                // COMMIT was not sent, so the server rolls back and nothing is in doubt.
                let lost = succeeded.into_iter().chain(failed).chain([write]);
                retry_or_fail(lost, trouble, &mut retries);
                return retries;
            }
            // There is no savepoint yet, so the transaction starts again.
            (outcome, trouble) if succeeded.is_empty() => {
                refuse(write, outcome, trouble, &mut retries);
                session.roll_back();
                session.begin(account_lock);
            }
            (Ok(false), None | Some(SessionTrouble::Refused)) => {
                failed.push(write);
                session.rollback_to_savepoint();
            }
            (outcome, trouble) => {
                refuse(write, outcome, trouble, &mut retries);
                session.rollback_to_savepoint();
            }
        }
        count += 1;
        let has_room = count < MAX_GROUP_WRITES && session.time_left() > MIN_TIME_LEFT;
        next = if has_room { next_of_group() } else { None };
    }
    if succeeded.is_empty() {
        session.roll_back();
        drop(session.flush());
        return retries;
    }
    match session.commit(Instant::now() + COMMIT_TIMEOUT) {
        CommitOutcome::Committed => {
            reply_all(succeeded, || Ok(()));
            // Their own errors are the answers.
            reply_all(failed, || Ok(()));
        }
        CommitOutcome::Refused(error) => {
            tracing::error!(%error, "postgres rejected a commit");
            reply_all(succeeded, || Err(StoreError::Refused));
            // What they failed at was not written.
            for write in failed {
                retry(write, &mut retries);
            }
        }
        CommitOutcome::InDoubt {
            transaction,
            warned,
        } => {
            succeeded.append(&mut failed);
            doubts.add(transaction, warned, succeeded);
        }
    }
    retries
}

/// Answers a write of which nothing is kept.
fn refuse(
    write: QueuedWrite,
    outcome: Result<bool, ()>,
    trouble: Option<SessionTrouble>,
    retries: &mut Vec<QueuedWrite>,
) {
    match (outcome, trouble) {
        (_, Some(SessionTrouble::LockConflict)) => retry(write, retries),
        // The work continued after a statement was refused. Nothing of it can be kept, whatever it
        // returned.
        (Ok(true), _) => write.reply(Err(StoreError::Refused)),
        // Its own error is the answer.
        (Ok(false), _) => write.reply(Ok(())),
        // A panic; its caller sees that the answer never comes.
        (Err(()), _) => drop(write),
    }
}

fn reply_all(writes: Vec<QueuedWrite>, committed: impl Fn() -> Result<(), StoreError>) {
    for write in writes {
        write.reply(committed());
    }
}

/// Handles writes of which nothing was committed. They are retried if the connection was lost.
fn retry_or_fail(
    writes: impl Iterator<Item = QueuedWrite>,
    trouble: SessionTrouble,
    retries: &mut Vec<QueuedWrite>,
) {
    for write in writes {
        match trouble {
            SessionTrouble::Lost => retry(write, retries),
            _ => write.reply(Err(StoreError::TimedOut)),
        }
    }
}

fn retry(write: QueuedWrite, retries: &mut Vec<QueuedWrite>) {
    match write.into_retry() {
        Ok(write) => retries.push(write),
        Err(write) => write.reply(Err(StoreError::TimedOut)),
    }
}
