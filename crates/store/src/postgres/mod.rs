//! Postgres: a few connections, each with its own thread.
//!
//! Statements are the same plain functions as on `SQLite`, so they block, and every wait has a
//! timeout: each caller hears within 5 s whether its work was done. The exception is a COMMIT whose
//! answer is lost ([`doubt`]): that write is answered when its outcome is known.
//!
//! [`pooler`] finds out whether the server can be used at all, [`server`] opens connections, [`session`] is one, [`queue`] assigns work to threads, [`group`]
//! runs writes that share a commit, [`work`] is a piece of work.

mod doubt;
mod group;
mod migrate;
mod pooler;
mod queue;
mod work;

use std::iter;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;

use crate::postgres::doubt::Doubts;
use crate::postgres::group::{GROUP, Piece};
use crate::postgres::queue::{Job, Queue};
use crate::postgres::work::{Work, asked};
use crate::pulse::Pulse;
use crate::session::link::Link;
use crate::session::server::Server;
use crate::session::{Session, Trouble};
use crate::{BEAT, Conn, StoreError};
use mediagate_model::database::DatabaseOptions;

/// Work that waits longer for a connection is refused.
const QUEUED: Duration = Duration::from_secs(2);
/// Timeout of a read, or of the statements of a group of writes.
const WORK: Duration = Duration::from_secs(3);
/// Timeout of a long read.
const EXAMINE: Duration = Duration::from_mins(1);
/// After this long unused a connection is tested first.
const RESTED: Duration = Duration::from_secs(30);

/// Whether a server error is temporary: it is stopping, starting, full, overloaded or a standby, or
/// there was a lock conflict.
pub(super) fn is_away(code: &SqlState) -> bool {
    let class = code.code().get(..2).unwrap_or_default();
    matches!(class, "08" | "40" | "53" | "57" | "58")
        || [
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            SqlState::READ_ONLY_SQL_TRANSACTION,
        ]
        .contains(code)
}

/// Whether an error says that a statement was prepared on another connection than this one: nobody but a pooler
/// changes them.
pub(super) fn is_poolers(code: &SqlState) -> bool {
    [
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::DUPLICATE_PSTATEMENT,
    ]
    .contains(code)
}

pub(super) struct Postgres {
    server: Server,
    queue: Arc<Queue>,
    /// Only for the heartbeat's connection.
    beats: Arc<Queue>,
    doubts: Doubts,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.queue.close();
        self.beats.close();
        self.doubts.close();
    }
}

impl Postgres {
    pub(super) fn connect(
        url: &str,
        options: DatabaseOptions,
        pulse: &Arc<Pulse>,
    ) -> Result<Self, StoreError> {
        let server = Server::new(url)?;
        // A session runs its own runtime, which cannot start on a thread of ours.
        let first = server.clone();
        let begin =
            move || pooler::check(&first).and_then(|()| migrate::run(&first, options.migrate));
        std::thread::spawn(begin)
            .join()
            .map_err(|_| StoreError::Closed)??;
        let doubts = Doubts::start(server.clone())?;
        let lane = |queue: &Arc<Queue>, name: String, work: Duration| {
            let lane = Lane {
                server: server.clone(),
                queue: queue.clone(),
                doubts: doubts.clone(),
                pulse: pulse.clone(),
                work,
                session: None,
            };
            let thread = std::thread::Builder::new().name(name);
            let started = thread.spawn(move || lane.serve());
            started.map(drop).map_err(|_| StoreError::Closed)
        };
        let (queue, beats) = (
            Arc::new(Queue::new(doubts.clone())),
            Arc::new(Queue::new(doubts.clone())),
        );
        lane(&beats, "postgres-beat".into(), BEAT)?;
        for number in 1..options.connections {
            lane(&queue, format!("postgres-{number}"), WORK)?;
        }
        Ok(Self {
            server,
            queue,
            beats,
            doubts,
        })
    }

    /// Runs `work` in a transaction; writes of one turn run in order and share commits. Returns
    /// when it is known whether it was committed.
    pub(super) async fn write<T, E>(
        &self,
        turn: Turn,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (queue, turn) = match turn {
            Turn::Any => (&self.queue, None),
            Turn::Of(turn) => (&self.queue, Some(turn)),
            Turn::Beat => (&self.beats, None),
        };
        let (piece, answered) = Piece::new(turn, work);
        queue.write(piece)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }

    /// A connection of its own, see [`Link`].
    pub(super) async fn link(&self, direct: Option<&str>) -> Result<Link, StoreError> {
        match direct {
            Some(url) => Server::new(url)?.link().await,
            None => self.server.link().await,
        }
    }

    /// Runs `work`, which only reads.
    pub(super) async fn look<T, E>(
        &self,
        kind: Look,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (look, answered) = asked(work);
        match kind {
            Look::Read => self.queue.look(look, false)?,
            Look::Examine => self.queue.look(look, true)?,
            Look::Ping => self.beats.look(look, false)?,
        }
        answered.await.map_err(|_| StoreError::Closed)?
    }
}

/// The queue for a write.
pub(super) enum Turn {
    /// On any free connection.
    Any,
    /// After, and together with, writes of the same number in any process.
    Of(i32),
    /// At once, on the heartbeat's connection.
    Beat,
}

/// The queue for a read.
pub(super) enum Look {
    /// On any free connection.
    Read,
    /// Like `Read`, but may take up to a minute.
    Examine,
    /// At once, on the heartbeat's connection.
    Ping,
}

/// A thread and its connection.
struct Lane {
    server: Server,
    queue: Arc<Queue>,
    doubts: Doubts,
    pulse: Arc<Pulse>,
    /// Timeout of reads and groups.
    work: Duration,
    session: Option<Session>,
}

impl Lane {
    fn serve(mut self) {
        while let Some(job) = self.queue.next() {
            match job {
                Job::Read(look) => self.look(look, false),
                Job::Examine(look) => {
                    self.look(look, true);
                    self.queue.examined();
                }
                Job::Write(first) => {
                    let turn = first.turn;
                    self.write(first);
                    if let Some(turn) = turn {
                        self.queue.turn_over(turn);
                    }
                }
            }
        }
    }

    fn look(&mut self, mut look: Box<dyn Work>, is_long: bool) {
        // A connection may have died while unused: one more try.
        for is_last in [false, true] {
            let limit = if is_long { EXAMINE } else { self.work };
            let Ok(session) = self.session(Instant::now() + limit) else {
                return look.tell(Err(StoreError::Lost));
            };
            if is_long {
                session.begin_reading(limit);
            }
            let has_panicked = look.run(session).is_err();
            let is_lost = session.trouble() == Some(Trouble::Lost);
            if is_long && session.is_usable() {
                session.roll_back();
                drop(session.flush());
            }
            self.keep(has_panicked);
            if !is_lost || is_last || has_panicked {
                return look.tell(Ok(()));
            }
        }
    }

    fn write(&mut self, first: Piece) {
        let (queue, turn) = (self.queue.clone(), first.turn);
        let again = self.write_group(first, || turn.and_then(|turn| queue.more(turn)));
        for piece in again {
            if piece.is_late() {
                piece.tell(Err(StoreError::Late));
                continue;
            }
            for left in self.write_group(piece, || None) {
                left.tell(Err(StoreError::Late));
            }
        }
    }

    /// Writes these in one transaction; returns those to be written again, each on its own.
    fn write_group(&mut self, first: Piece, more: impl Fn() -> Option<Piece>) -> Vec<Piece> {
        let started = Instant::now();
        let doubts = self.doubts.clone();
        let Ok(session) = self.session(started + self.work) else {
            for piece in iter::once(first).chain(iter::from_fn(more).take(GROUP)) {
                piece.tell(Err(StoreError::Lost));
            }
            return Vec::new();
        };
        let again = group::write(session, first, more, &doubts);
        if let Some(is_taken) = session.wrote() {
            self.pulse.wrote(is_taken);
        }
        self.keep(false);
        again
    }

    /// The connection, opened or tested if necessary.
    fn session(&mut self, deadline: Instant) -> Result<&mut Session, StoreError> {
        let mut kept = self.session.take().filter(Session::is_usable);
        if let Some(session) = &mut kept {
            session.until(deadline);
            if session.rested() > RESTED && !session.answers() {
                kept = None;
            }
        }
        let mut session = match kept {
            Some(session) => session,
            None => self
                .server
                .connect()
                .inspect_err(|error| self.pulse.failed(error))?,
        };
        session.until(deadline);
        Ok(self.session.insert(session))
    }

    /// Keeps the connection if it can be used again.
    fn keep(&mut self, is_unfit: bool) {
        match &self.session {
            Some(session) if session.is_usable() && !is_unfit => self.pulse.answered(),
            Some(_) => {
                self.session = None;
                self.pulse.failed(&StoreError::Late);
            }
            None => {}
        }
    }
}
