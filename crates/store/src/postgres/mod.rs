//! Postgres: a few connections, each with its own thread.
//!
//! Statements are the same plain functions as on `SQLite`, so they block, and every wait has a
//! timeout: each caller learns within 5 s whether its work was done. The exception is a COMMIT
//! whose answer is lost ([`in_doubt`]): that write is answered when its outcome is known.
//!
//! [`pooler`] finds out whether the server can be used at all, [`pg_session`](crate::pg_session)
//! opens and wraps connections, [`queue`] assigns work to threads, [`write_group`] runs writes that
//! share a commit, [`pending_work`] is a piece of work.

mod in_doubt;
mod migrate;
mod pending_work;
mod pooler;
mod queue;
mod write_group;

use std::iter;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;

use crate::health::DatabaseHealth;
use crate::pg_session::notify_channel::NotifyChannel;
use crate::pg_session::server::PostgresServer;
use crate::pg_session::{PgSession, SessionTrouble};
use crate::postgres::in_doubt::DoubtQueue;
use crate::postgres::pending_work::{PendingWork, with_reply};
use crate::postgres::queue::{QueuedJob, WorkQueue};
use crate::postgres::write_group::{MAX_GROUP_WRITES, QueuedWrite};
use crate::{Conn, HEARTBEAT_TIMEOUT, StoreError};
use mediagate_model::database::DatabaseOptions;

/// Work that waits longer for a connection is refused.
const MAX_QUEUE_TIME: Duration = Duration::from_secs(2);
/// Timeout of a read, or of the statements of a group of writes.
// Longer than the server's statement timeout: its refusal comes first, and the connection stays
// usable.
const WORK_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of a long read.
const LONG_READ_TIMEOUT: Duration = Duration::from_mins(1);
/// A connection that was idle for this long is tested before use.
const MAX_UNTESTED_IDLE: Duration = Duration::from_secs(30);

/// Whether a server error is temporary: it is stopping, starting, full, overloaded or a standby, or
/// there was a lock conflict.
pub(super) fn is_unavailable(code: &SqlState) -> bool {
    // Classes of SQLSTATE (PostgreSQL, appendix A): connection, rollback, resources, operator
    // intervention, system error.
    let class = code.code().get(..2).unwrap_or_default();
    matches!(class, "08" | "40" | "53" | "57" | "58")
        || [
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            SqlState::READ_ONLY_SQL_TRANSACTION,
        ]
        .contains(code)
}

/// Whether an error shows that a statement was prepared on another connection: only a pooler
/// switches connections.
pub(super) fn is_pooler_error(code: &SqlState) -> bool {
    [
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::DUPLICATE_PSTATEMENT,
    ]
    .contains(code)
}

pub(super) struct PostgresBackend {
    server: PostgresServer,
    queue: Arc<WorkQueue>,
    /// Only for the heartbeat's connection.
    heartbeat_queue: Arc<WorkQueue>,
    doubts: DoubtQueue,
}

impl Drop for PostgresBackend {
    fn drop(&mut self) {
        self.queue.close();
        self.heartbeat_queue.close();
        self.doubts.close();
    }
}

impl PostgresBackend {
    pub(super) fn connect(
        url: &str,
        options: DatabaseOptions,
        health: &Arc<DatabaseHealth>,
    ) -> Result<Self, StoreError> {
        let server = PostgresServer::new(url)?;
        // A session blocks on its own runtime, which is not possible on a thread that drives
        // another.
        let startup_server = server.clone();
        let startup = move || {
            pooler::check(&startup_server)
                .and_then(|()| migrate::run(&startup_server, options.migrate))
        };
        std::thread::spawn(startup)
            .join()
            .map_err(|_| StoreError::Closed)??;
        let doubts = DoubtQueue::start(server.clone())?;
        let start_thread = |queue: &Arc<WorkQueue>, name: String, work_timeout: Duration| {
            let connection = ConnectionThread {
                server: server.clone(),
                queue: queue.clone(),
                doubts: doubts.clone(),
                health: health.clone(),
                work_timeout,
                session: None,
            };
            let thread = std::thread::Builder::new().name(name);
            let started = thread.spawn(move || connection.serve());
            started.map(drop).map_err(|_| StoreError::Closed)
        };
        let (queue, heartbeat_queue) = (
            Arc::new(WorkQueue::new(doubts.clone())),
            Arc::new(WorkQueue::new(doubts.clone())),
        );
        // A heartbeat that waited behind other work could come too late, and the process would lose
        // its tasks.
        start_thread(&heartbeat_queue, "postgres-beat".into(), HEARTBEAT_TIMEOUT)?;
        // `options.connections` includes the heartbeat's connection.
        for number in 1..options.connections {
            start_thread(&queue, format!("postgres-{number}"), WORK_TIMEOUT)?;
        }
        Ok(Self {
            server,
            queue,
            heartbeat_queue,
            doubts,
        })
    }

    /// Runs `work` in a transaction; writes with the same lock number run in order and share
    /// commits. Returns when it is known whether it was committed.
    pub(super) async fn write<T, E>(
        &self,
        order: WriteOrder,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (queue, account_lock) = match order {
            WriteOrder::Any => (&self.queue, None),
            WriteOrder::Serial(account_lock) => (&self.queue, Some(account_lock)),
            WriteOrder::Heartbeat => (&self.heartbeat_queue, None),
        };
        let (write, answer) = QueuedWrite::new(account_lock, work);
        queue.push_write(write)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// A separate connection, see [`NotifyChannel`].
    pub(super) async fn notify_channel(
        &self,
        direct: Option<&str>,
    ) -> Result<NotifyChannel, StoreError> {
        match direct {
            Some(url) => PostgresServer::new(url)?.open_channel().await,
            None => self.server.open_channel().await,
        }
    }

    /// Runs `work`, which only reads.
    pub(super) async fn read<T, E>(
        &self,
        kind: ReadKind,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (pending_read, answer) = with_reply(work);
        match kind {
            ReadKind::Read => self.queue.push_read(pending_read, false)?,
            ReadKind::LongRead => self.queue.push_read(pending_read, true)?,
            ReadKind::Ping => self.heartbeat_queue.push_read(pending_read, false)?,
        }
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

/// The queue for a write.
pub(super) enum WriteOrder {
    /// On any free connection.
    Any,
    /// After, and together with, writes with the same number in any process.
    Serial(i32),
    /// At once, on the heartbeat's connection.
    Heartbeat,
}

/// The queue for a read.
pub(super) enum ReadKind {
    /// On any free connection.
    Read,
    /// Like `Read`, but may take up to a minute.
    LongRead,
    /// At once, on the heartbeat's connection.
    Ping,
}

/// A thread and its connection.
struct ConnectionThread {
    server: PostgresServer,
    queue: Arc<WorkQueue>,
    doubts: DoubtQueue,
    health: Arc<DatabaseHealth>,
    /// Timeout of reads and groups.
    work_timeout: Duration,
    session: Option<PgSession>,
}

impl ConnectionThread {
    fn serve(mut self) {
        while let Some(job) = self.queue.next() {
            match job {
                QueuedJob::Read(pending_read) => self.read(pending_read, false),
                QueuedJob::LongRead(pending_read) => {
                    self.read(pending_read, true);
                    self.queue.end_long_read();
                }
                QueuedJob::Write(first) => {
                    let account_lock = first.account_lock;
                    self.write(first);
                    if let Some(account_lock) = account_lock {
                        self.queue.end_group(account_lock);
                    }
                }
            }
        }
    }

    fn read(&mut self, mut pending_read: Box<dyn PendingWork>, is_long: bool) {
        // The connection may have died while it was unused. A read changes nothing, so it is run
        // again.
        for is_last in [false, true] {
            let limit = if is_long {
                LONG_READ_TIMEOUT
            } else {
                self.work_timeout
            };
            let Ok(session) = self.ready_session(Instant::now() + limit) else {
                return pending_read.reply(Err(StoreError::Lost));
            };
            if is_long {
                session.begin_reading(limit);
            }
            let has_panicked = pending_read.run(session).is_err();
            let is_lost = session.take_trouble() == Some(SessionTrouble::Lost);
            if is_long && session.is_usable() {
                session.roll_back();
                drop(session.flush());
            }
            // After a panic the connection may be in any state.
            self.keep(has_panicked);
            if !is_lost || is_last || has_panicked {
                return pending_read.reply(Ok(()));
            }
        }
    }

    fn write(&mut self, first: QueuedWrite) {
        let (queue, account_lock) = (self.queue.clone(), first.account_lock);
        let next_of_group = || account_lock.and_then(|lock| queue.next_of_group(lock));
        let retries = self.write_group(first, next_of_group);
        for write in retries {
            if write.is_late() {
                write.reply(Err(StoreError::TimedOut));
                continue;
            }
            for failed in self.write_group(write, || None) {
                failed.reply(Err(StoreError::TimedOut));
            }
        }
    }

    /// Writes these in one transaction; returns those to be retried separately.
    fn write_group(
        &mut self,
        first: QueuedWrite,
        next: impl Fn() -> Option<QueuedWrite>,
    ) -> Vec<QueuedWrite> {
        let started = Instant::now();
        let doubts = self.doubts.clone();
        let Ok(session) = self.ready_session(started + self.work_timeout) else {
            // The server cannot be reached. The others of the group would only wait for the same
            // failure.
            for write in iter::once(first).chain(iter::from_fn(next).take(MAX_GROUP_WRITES)) {
                write.reply(Err(StoreError::Lost));
            }
            return Vec::new();
        };
        let retries = write_group::write(session, first, next, &doubts);
        if let Some(is_accepted) = session.take_write_accepted() {
            self.health.note_write(is_accepted);
        }
        self.keep(false);
        retries
    }

    /// The connection, opened or tested if necessary.
    fn ready_session(&mut self, deadline: Instant) -> Result<&mut PgSession, StoreError> {
        let mut idle_session = self.session.take().filter(PgSession::is_usable);
        if let Some(session) = &mut idle_session {
            session.set_deadline(deadline);
            // A firewall may have dropped it silently. A write would notice that only at its
            // deadline.
            if session.idle_time() > MAX_UNTESTED_IDLE && !session.is_answering() {
                idle_session = None;
            }
        }
        let mut session = match idle_session {
            Some(session) => session,
            None => self
                .server
                .connect()
                .inspect_err(|error| self.health.note_failure(error))?,
        };
        session.set_deadline(deadline);
        Ok(self.session.insert(session))
    }

    /// Keeps the connection if it can be used again.
    fn keep(&mut self, has_panicked: bool) {
        match &self.session {
            Some(session) if session.is_usable() && !has_panicked => self.health.note_answer(),
            Some(_) => {
                self.session = None;
                self.health.note_failure(&StoreError::TimedOut);
            }
            None => {}
        }
    }
}
