//! Group commit: several writes share one transaction and one commit.
//!
//! A commit waits for the disk, and for a standby. So the waiting writes of one turn run in one
//! transaction, each in its own savepoint, and are committed once; none is answered before. A
//! failing write rolls back only itself. A write that met a lock conflict, or was lost with its
//! connection before the commit, is retried once separately.
//!
//! A group grows while it is written: its first write may wait long for other processes that have
//! the turn, and writes that arrive meanwhile need not wait for the turn again.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::pg_session::{CommitOutcome, PgSession, SessionTrouble};
use crate::postgres::in_doubt::DoubtQueue;
use crate::postgres::pending_work::{PendingWork, with_reply};
use crate::{Conn, StoreError};

/// Most writes per commit. Postgres handles up to 64 savepoints per transaction cheaply.
pub(super) const GROUP: usize = 32;
/// How long until a COMMIT without an answer counts as lost.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(3);
/// A write that has waited longer than this is not tried again.
const MAX_RETRY_AGE: Duration = Duration::from_secs(2);
/// A group with less time left accepts no more writes: if it is late, all of them are.
const MIN_TIME_LEFT: Duration = Duration::from_secs(1);

pub(super) struct QueuedWrite {
    /// Writes to the same rows have the same turn.
    pub(super) turn: Option<i32>,
    pub(super) since: Instant,
    work: Box<dyn PendingWork>,
    was_tried: bool,
}

impl QueuedWrite {
    pub(super) fn new<W, T, E>(
        turn: Option<i32>,
        work: W,
    ) -> (Self, oneshot::Receiver<Result<T, E>>)
    where
        W: FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (work, answered) = with_reply(work);
        let piece = Self {
            turn,
            since: Instant::now(),
            work,
            was_tried: false,
        };
        (piece, answered)
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

/// Writes `first` and the writes of its turn from `more`, in one transaction; returns those to be
/// retried separately.
pub(super) fn write(
    session: &mut PgSession,
    first: QueuedWrite,
    more: impl Fn() -> Option<QueuedWrite>,
    doubts: &DoubtQueue,
) -> Vec<QueuedWrite> {
    let turn = first.turn;
    let mut kept: Vec<QueuedWrite> = Vec::new();
    let mut again = Vec::new();
    let mut tried = 0;
    let mut next = Some(first);
    // The turn is also a lock in the database, for groups of other processes.
    session.begin(turn);
    while let Some(mut piece) = next {
        // The first one is alone in the transaction and needs no savepoint.
        if !kept.is_empty() {
            session.savepoint();
        }
        let ran = piece.work.run(session);
        let trouble = session.trouble();
        match (ran, trouble) {
            (Ok(true), None) => kept.push(piece),
            (_, Some(trouble @ (SessionTrouble::Lost | SessionTrouble::TimedOut))) => {
                // COMMIT was not sent, so the server rolls back and nothing is in doubt.
                retry_or_fail(kept.into_iter().chain([piece]), trouble, &mut again);
                return again;
            }
            (ran, trouble) => {
                refuse(piece, ran, trouble, &mut again);
                // There is no savepoint yet, so the transaction starts again.
                if kept.is_empty() {
                    session.roll_back();
                    session.begin(turn);
                } else {
                    session.rollback_to_savepoint();
                }
            }
        }
        tried += 1;
        let has_room = tried < GROUP && session.time_left() > MIN_TIME_LEFT;
        next = if has_room { more() } else { None };
    }
    if kept.is_empty() {
        session.roll_back();
        drop(session.flush());
        return again;
    }
    match session.commit(Instant::now() + COMMIT_TIMEOUT) {
        CommitOutcome::Committed => reply_all(kept, || Ok(())),
        CommitOutcome::Refused(error) => {
            tracing::error!(%error, "postgres rejected a commit");
            reply_all(kept, || Err(StoreError::Refused));
        }
        CommitOutcome::InDoubt {
            transaction,
            warned,
        } => doubts.add(transaction, warned, kept),
    }
    again
}

/// Answers a write of which nothing is kept.
fn refuse(
    piece: QueuedWrite,
    ran: Result<bool, ()>,
    trouble: Option<SessionTrouble>,
    again: &mut Vec<QueuedWrite>,
) {
    match (ran, trouble) {
        (_, Some(SessionTrouble::LockConflict)) => retry(piece, again),
        // It continued after a statement was refused: nothing of it can be kept, whatever it
        // returned.
        (Ok(true), _) => piece.reply(Err(StoreError::Refused)),
        // Its own error is the answer.
        (Ok(false), _) => piece.reply(Ok(())),
        // A panic; its caller sees that the answer never comes.
        (Err(()), _) => drop(piece),
    }
}

fn reply_all(pieces: Vec<QueuedWrite>, committed: impl Fn() -> Result<(), StoreError>) {
    for piece in pieces {
        piece.reply(committed());
    }
}

/// Nothing was committed; `trouble` decides whether to try again.
fn retry_or_fail(
    pieces: impl Iterator<Item = QueuedWrite>,
    trouble: SessionTrouble,
    again: &mut Vec<QueuedWrite>,
) {
    for piece in pieces {
        match trouble {
            SessionTrouble::Lost => retry(piece, again),
            _ => piece.reply(Err(StoreError::TimedOut)),
        }
    }
}

fn retry(piece: QueuedWrite, again: &mut Vec<QueuedWrite>) {
    match piece.into_retry() {
        Ok(piece) => again.push(piece),
        Err(piece) => piece.reply(Err(StoreError::TimedOut)),
    }
}
