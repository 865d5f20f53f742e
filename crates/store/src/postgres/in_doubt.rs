//! Commits in doubt: their outcome is unknown until the server reports it.
//!
//! A COMMIT whose answer is lost may have succeeded, be waiting for a standby, or never have
//! arrived. The server keeps the outcome under the transaction's id; a thread asks until it is
//! known, and only then are the writes answered. After a crash or a fail-over the id may have been
//! assigned again: then "committed" may refer to another transaction, and the writes stay in doubt.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use locks::{ignore_poison, lock};
use tokio_postgres::error::SqlState;

use crate::StoreError;
use crate::pg_session::server::PostgresServer;
use crate::pg_session::{CommitOutcome, PgSession, TransactionRef};
use crate::postgres::write_group::QueuedWrite;

/// With this many commits in doubt, no more writes are started.
const MAX_UNRESOLVED: usize = 32;
/// The pause between two look-ups of a commit in doubt.
const LOOKUP_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of each look-up.
const QUERY_TIMEOUT: Duration = Duration::from_secs(3);

/// The commits in doubt. Cheap to clone.
#[derive(Clone)]
pub(super) struct DoubtQueue(Arc<DoubtState>);

struct DoubtState {
    open: Mutex<Vec<UnresolvedCommit>>,
    wake: Condvar,
    is_closed: AtomicBool,
}

struct UnresolvedCommit {
    transaction: TransactionRef,
    /// The commit is on the server's disk, but perhaps not on the standby's.
    warned: bool,
    writes: Vec<QueuedWrite>,
}

/// The outcome of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommitFate {
    Committed,
    Aborted,
    Open,
    /// It will never be known.
    Unknown,
}

impl DoubtQueue {
    pub(super) fn start(server: PostgresServer) -> Result<Self, StoreError> {
        let doubts = Self(Arc::new(DoubtState {
            open: Mutex::default(),
            wake: Condvar::new(),
            is_closed: AtomicBool::new(false),
        }));
        let lookups = doubts.clone();
        std::thread::Builder::new()
            .name("postgres-doubts".into())
            .spawn(move || lookups.look_up_all(&server))
            .map_err(|_| StoreError::Closed)?;
        Ok(doubts)
    }

    /// Adds the writes of a transaction whose outcome is unknown.
    pub(super) fn add(&self, transaction: TransactionRef, warned: bool, writes: Vec<QueuedWrite>) {
        self.lock_open().push(UnresolvedCommit {
            transaction,
            warned,
            writes,
        });
        self.0.wake.notify_one();
    }

    /// Whether to start no more writes until some are resolved.
    pub(super) fn is_full(&self) -> bool {
        self.lock_open().len() >= MAX_UNRESOLVED
    }

    /// Stops the look-ups, because no caller is waiting any longer.
    pub(super) fn close(&self) {
        self.0.is_closed.store(true, Ordering::Release);
        self.0.wake.notify_all();
    }

    fn lock_open(&self) -> MutexGuard<'_, Vec<UnresolvedCommit>> {
        lock(&self.0.open)
    }

    fn look_up_all(&self, server: &PostgresServer) {
        let mut session = None;
        loop {
            let mut open = self.lock_open();
            while open.is_empty() {
                // Nothing is in doubt, so the server gets its connection back.
                session = None;
                if self.0.is_closed.load(Ordering::Acquire) {
                    return;
                }
                open = ignore_poison(self.0.wake.wait(open));
            }
            let unresolved: Vec<_> = open
                .iter()
                .map(|commit| (commit.transaction.clone(), commit.warned))
                .collect();
            // The server may take seconds to answer. Writers must not wait for that to add a doubt.
            drop(open);
            for (transaction, warned) in unresolved {
                match query_fate(server, &mut session, &transaction, warned) {
                    // It still runs or waits for the standby, and is looked up again.
                    Ok(CommitFate::Open) => {}
                    Ok(fate) => self.resolve(&transaction, fate),
                    Err(error) => {
                        tracing::warn!(%error, transaction = transaction.id, "cannot query the outcome of a transaction");
                        // Another host may be the primary now.
                        session = None;
                    }
                }
            }
            if self.0.is_closed.load(Ordering::Acquire) {
                return;
            }
            std::thread::sleep(LOOKUP_INTERVAL);
        }
    }

    fn resolve(&self, transaction: &TransactionRef, fate: CommitFate) {
        tracing::warn!(
            transaction = transaction.id,
            ?fate,
            "outcome of a transaction in doubt determined"
        );
        let mut open = self.lock_open();
        let Some(index) = open
            .iter()
            .position(|commit| commit.transaction == *transaction)
        else {
            return;
        };
        let commit = open.swap_remove(index);
        drop(open);
        for write in commit.writes {
            write.reply(match fate {
                CommitFate::Committed => Ok(()),
                // Callers treat it as possibly written and look for what they wrote.
                CommitFate::Unknown => Err(StoreError::InDoubt),
                CommitFate::Aborted | CommitFate::Open => Err(StoreError::Lost),
            });
        }
    }
}

fn query_fate(
    server: &PostgresServer,
    idle_session: &mut Option<PgSession>,
    transaction: &TransactionRef,
    warned: bool,
) -> Result<CommitFate, StoreError> {
    let session = match idle_session {
        Some(session) => session,
        None => idle_session.insert(server.connect()?),
    };
    session.set_deadline(Instant::now() + QUERY_TIMEOUT);
    let sql = "SELECT pg_xact_status(CAST(?1 AS TEXT)::xid8)";
    let status = match session.query(sql, &[&transaction.id]) {
        Ok(rows) => rows
            .first()
            .and_then(|row| row.try_get::<_, String>(0).ok()),
        // `pg_xact_status` rejects an id that was not assigned yet. So this server took over
        // without the transaction, which is lost.
        Err(StoreError::Postgres(error))
            if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) =>
        {
            return Ok(CommitFate::Aborted);
        }
        Err(error) => return Err(error),
    };
    let is_same_run = session.server_run() == transaction.server_run;
    match status.as_deref() {
        // After a crash the id may have been assigned to another transaction.
        Some("committed") if !is_same_run => Ok(CommitFate::Unknown),
        Some("committed") if warned => flush_standby(session),
        Some("committed") => Ok(CommitFate::Committed),
        // Certain in any run: the id of a commit that is on disk is not assigned again.
        Some("aborted") => Ok(CommitFate::Aborted),
        _ => Ok(CommitFate::Open),
    }
}

/// Makes a later commit to settle one whose wait for the standby was cut short: the log is sent in
/// order, so once the later commit has arrived at the standby, so has the earlier one.
fn flush_standby(session: &mut PgSession) -> Result<CommitFate, StoreError> {
    session.begin(None);
    session.script(
        "INSERT INTO meta (name, value) VALUES ('flushed', '1')
         ON CONFLICT (name) DO UPDATE SET value = excluded.value;",
    )?;
    Ok(match session.commit(Instant::now() + QUERY_TIMEOUT) {
        CommitOutcome::Committed => CommitFate::Committed,
        CommitOutcome::Refused(_) | CommitOutcome::InDoubt { .. } => CommitFate::Open,
    })
}
