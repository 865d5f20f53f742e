//! Writes that share a commit.
//!
//! A commit waits for the disk, and for a standby. So the writes of one turn that
//! are waiting run in one transaction, each behind a savepoint of its own, and
//! are committed once; nobody is answered before that. What fails undoes itself
//! only. What another transaction was in the way of, or what was lost with its
//! connection before the commit, is written once more, by itself.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::store::postgres::doubt::Doubts;
use crate::store::postgres::session::{Committed, Session, Trouble};
use crate::store::postgres::work::{Work, asked};
use crate::store::{Conn, StoreError};

/// Most writes of one commit. Postgres remembers 64 savepoints of a transaction
/// cheaply.
pub(super) const GROUP: usize = 32;
/// How long a COMMIT may take before its answer counts as lost.
const COMMIT: Duration = Duration::from_secs(3);
/// Whoever has waited longer than this is not made to wait for a second try.
const PATIENCE: Duration = Duration::from_secs(2);

/// One write.
pub(super) struct Piece {
    /// Those who write to the same rows have the same.
    pub(super) turn: Option<i32>,
    pub(super) since: Instant,
    work: Box<dyn Work>,
    was_tried: bool,
}

impl Piece {
    pub(super) fn new<W, T, E>(
        turn: Option<i32>,
        work: W,
    ) -> (Self, oneshot::Receiver<Result<T, E>>)
    where
        W: FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (work, answered) = asked(work);
        let piece = Self {
            turn,
            since: Instant::now(),
            work,
            was_tried: false,
        };
        (piece, answered)
    }

    pub(super) fn tell(self, committed: Result<(), StoreError>) {
        self.work.tell(committed);
    }

    /// Whether its caller has waited so long that another try would be too late.
    pub(super) fn is_late(&self) -> bool {
        self.since.elapsed() > PATIENCE
    }

    /// Itself, if it may be tried once more.
    fn again(mut self) -> Result<Self, Self> {
        if self.was_tried || self.is_late() {
            return Err(self);
        }
        self.was_tried = true;
        Ok(self)
    }
}

/// Writes these in one transaction; returns those that are to be written again,
/// each by itself.
pub(super) fn write(
    session: &mut Session,
    turn: Option<i32>,
    pieces: Vec<Piece>,
    doubts: &Doubts,
) -> Vec<Piece> {
    let mut kept: Vec<Piece> = Vec::new();
    let mut again = Vec::new();
    let mut pieces = pieces.into_iter();
    session.begin(turn);
    while let Some(mut piece) = pieces.next() {
        // The first has the transaction to itself.
        if !kept.is_empty() {
            session.mark();
        }
        let ran = piece.work.run(session);
        let trouble = session.trouble();
        match (ran, trouble) {
            (Ok(true), None) => {
                kept.push(piece);
                continue;
            }
            (_, Some(trouble @ (Trouble::Lost | Trouble::Late))) => {
                let undone = kept.into_iter().chain([piece]).chain(pieces);
                give_up(undone, trouble, &mut again);
                return again;
            }
            (_, Some(Trouble::InTheWay)) => retry(piece, &mut again),
            // It went on after a statement of it was refused: nothing of that can
            // be kept, whatever it says.
            (Ok(true), Some(Trouble::Refused)) => piece.tell(Err(StoreError::Refused)),
            (Ok(false), _) => piece.tell(Ok(())),
            // A bug; its caller learns of it by the answer that never comes.
            (Err(()), _) => drop(piece),
        }
        if kept.is_empty() {
            session.roll_back();
            session.begin(turn);
        } else {
            session.undo();
        }
    }
    if kept.is_empty() {
        session.roll_back();
        drop(session.flush());
        return again;
    }
    match session.commit(Instant::now() + COMMIT) {
        Committed::Yes => tell_all(kept, || Ok(())),
        Committed::No(error) => {
            tracing::error!(%error, "postgres refused a commit");
            tell_all(kept, || Err(StoreError::Refused));
        }
        Committed::InDoubt {
            transaction,
            warned,
        } => doubts.add(transaction, warned, kept),
    }
    again
}

fn tell_all(pieces: Vec<Piece>, committed: impl Fn() -> Result<(), StoreError>) {
    for piece in pieces {
        piece.tell(committed());
    }
}

/// Nothing was committed; whether it is worth another try depends on why.
fn give_up(pieces: impl Iterator<Item = Piece>, trouble: Trouble, again: &mut Vec<Piece>) {
    for piece in pieces {
        match trouble {
            Trouble::Lost => retry(piece, again),
            _ => piece.tell(Err(StoreError::Late)),
        }
    }
}

fn retry(piece: Piece, again: &mut Vec<Piece>) {
    match piece.again() {
        Ok(piece) => again.push(piece),
        Err(piece) => piece.tell(Err(StoreError::Late)),
    }
}
