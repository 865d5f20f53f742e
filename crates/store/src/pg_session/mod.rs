//! One connection to Postgres, used by one thread, with a timeout on every wait.
//!
//! The driver's own blocking client waits forever for a server that has stopped. This one gives up
//! at a deadline; the outcome of the last statement is then unknown, so the session is broken and
//! the connection is closed.

pub mod notify_channel;
pub(crate) mod server;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join;
use tokio::runtime::Runtime;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Row, SimpleQueryMessage, Statement};

use crate::StoreError;
use crate::pg_session::server::PostgresServer;

/// How long a statement may wait for a lock, in milliseconds.
// Shorter than the statement timeout, so that a conflict is reported as such and the write is
// retried.
pub(crate) const LOCK_MS: u32 = 1500;
/// The server's statement timeout; does not apply to COMMIT.
pub(crate) const STATEMENT_MS: u32 = 2500;
/// The server ends a transaction after this long without a statement, so that a suspended process
/// does not keep its locks.
const IDLE_MS: u32 = 3000;

/// A connection with its prepared statements.
pub struct PgSession {
    runtime: Runtime,
    client: Client,
    statements: HashMap<&'static str, Statement>,
    deadline: Instant,
    /// SQL to send together with the next statement.
    pending_sql: String,
    /// The transaction's id, once known.
    transaction: Option<String>,
    /// Identifies this run of this server: see [`PgSession::read_server_run`].
    server_run: String,
    /// Whether a transaction is open.
    is_open: bool,
    trouble: Option<SessionTrouble>,
    /// Whether the last write succeeded.
    write_accepted: Option<bool>,
    /// Whether the server sent a warning.
    warned: Arc<AtomicBool>,
    last_used: Instant,
}

/// The kind of trouble on a session since the last call of [`PgSession::take_trouble`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionTrouble {
    Refused,
    /// A deadlock, or a lock timeout.
    LockConflict,
    /// The server did not answer in time.
    TimedOut,
    /// The connection is gone.
    Lost,
}

/// A transaction's id, with the run of the server that assigned it. A server that crashed, or a
/// standby in its place, continues to count from the state on its disk, so the id of a lost
/// transaction is assigned again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransactionRef {
    pub(crate) id: String,
    pub(crate) server_run: String,
}

/// The outcome of a COMMIT.
pub(crate) enum CommitOutcome {
    /// On disk, and on the synchronous standby if there is one.
    Committed,
    /// The server refused; everything is rolled back.
    Refused(StoreError),
    /// Unknown; it can be looked up by the transaction's id. `warned` means that it is on the
    /// server's disk, but perhaps not on the standby's.
    InDoubt {
        transaction: TransactionRef,
        warned: bool,
    },
}

impl PgSession {
    /// A connection to `url` for a test that owns it, without timeouts.
    #[doc(hidden)]
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let mut session = PostgresServer::new(url)?.connect()?;
        session.set_deadline(Instant::now() + Duration::from_hours(1));
        session.script("SET statement_timeout = 0")?;
        Ok(session)
    }

    /// Wraps a connection that [`server::PostgresServer::connect`] opened.
    pub(crate) fn new<S, T>(
        runtime: Runtime,
        client: Client,
        mut connection: tokio_postgres::Connection<S, T>,
        deadline: Instant,
    ) -> Self
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let warned = Arc::new(AtomicBool::new(false));
        let has_warned = warned.clone();
        // Runs while the session's thread waits for an answer, which is when messages matter.
        runtime.spawn(async move {
            while let Some(Ok(message)) =
                std::future::poll_fn(|cx| connection.poll_message(cx)).await
            {
                if let AsyncMessage::Notice(notice) = message
                    && notice.parsed_severity() == Some(tokio_postgres::error::Severity::Warning)
                {
                    tracing::warn!(message = notice.message(), "postgres warning");
                    has_warned.store(true, Ordering::Release);
                }
            }
        });
        Self {
            runtime,
            client,
            statements: HashMap::new(),
            deadline,
            pending_sql: String::new(),
            transaction: None,
            server_run: String::new(),
            is_open: false,
            trouble: None,
            write_accepted: None,
            warned,
            last_used: Instant::now(),
        }
    }

    /// Sets the deadline for everything that follows.
    pub(crate) fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Finds out which run of which server this is. After a crash of one of its processes a server
    /// continues with the same start time, but its statistics are reset.
    pub(crate) fn read_server_run(&mut self) -> Result<(), StoreError> {
        let sql =
            "SELECT CONCAT(pg_postmaster_start_time(), ' ', stats_reset) FROM pg_stat_bgwriter";
        let rows = self.query(sql, &[])?;
        let run = rows.first().and_then(|row| row.try_get(0).ok());
        self.server_run = run.unwrap_or_default();
        Ok(())
    }

    /// The run of the server to which this connection was opened.
    pub(crate) fn server_run(&self) -> &str {
        &self.server_run
    }

    pub(crate) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// How long the session has been unused.
    pub(crate) fn idle_time(&self) -> Duration {
        self.last_used.elapsed()
    }

    /// Whether the server answers.
    pub(crate) fn is_answering(&mut self) -> bool {
        self.script(";").is_ok()
    }

    /// Whether the session can be used again.
    pub(crate) fn is_usable(&self) -> bool {
        !self.client.is_closed() && !self.is_broken()
    }

    /// Whether the outcome of the last request is unknown.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(
            self.trouble,
            Some(SessionTrouble::TimedOut | SessionTrouble::Lost)
        )
    }

    /// Returns the trouble since the last call. A broken session stays broken.
    pub(crate) fn take_trouble(&mut self) -> Option<SessionTrouble> {
        let trouble = self.trouble;
        if !self.is_broken() {
            self.trouble = None;
        }
        trouble
    }

    /// Whether the server accepted the last write; `None` if there was none since the last call.
    /// False if it cannot write: its disk is full, or it is a standby.
    pub(crate) fn take_write_accepted(&mut self) -> Option<bool> {
        self.write_accepted.take()
    }

    /// Begins a transaction together with its first statement. The transaction sets its own
    /// timeouts, so that they also apply behind a pooler. `account_lock` is the number of an
    /// advisory lock that writers of the same rows share.
    pub(crate) fn begin(&mut self, account_lock: Option<i32>) {
        self.transaction = None;
        // A role or a database may be configured to commit before the data is on disk, so that is
        // overridden. The transaction's id is read because the outcome of a COMMIT whose answer is
        // lost can be looked up only by this id.
        self.queue_sql(&format!(
            "BEGIN; SELECT set_config('lock_timeout', '{LOCK_MS}', true), \
             set_config('statement_timeout', '{STATEMENT_MS}', true), \
             set_config('idle_in_transaction_session_timeout', '{IDLE_MS}', true), \
             CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') \
             THEN set_config('synchronous_commit', 'on', true) END, pg_current_xact_id()::text;"
        ));
        if let Some(account_lock) = account_lock {
            self.queue_sql(&format!("SELECT pg_advisory_xact_lock(1, {account_lock});"));
        }
    }

    /// Begins a read-only transaction with this time limit.
    ///
    /// Statements are planned for their actual parameters: a generic plan considers neither how
    /// many rows an optional condition selects nor how many an account has. With the default cost
    /// of a random read, the planner would search all accounts' tasks for an idle account's page.
    /// JIT compilation takes longer than running the statement.
    pub(crate) fn begin_reading(&mut self, limit: Duration) {
        self.queue_sql(&format!(
            "BEGIN READ ONLY; SET LOCAL statement_timeout = {}; SET LOCAL idle_in_transaction_session_timeout = {IDLE_MS}; \
             SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL random_page_cost = 1.1; SET LOCAL jit = off;",
            limit.as_millis()
        ));
    }

    /// Sets a savepoint for [`PgSession::rollback_to_savepoint`].
    pub(crate) fn savepoint(&mut self) {
        self.pending_sql.push_str("SAVEPOINT one;");
    }

    /// Rolls back to the last savepoint.
    pub(crate) fn rollback_to_savepoint(&mut self) {
        if let Some(start) = self.pending_sql.rfind("SAVEPOINT one;") {
            // The savepoint was not sent yet, so there is nothing to roll back.
            self.pending_sql.truncate(start);
        } else {
            self.pending_sql.clear();
            // Savepoints of one name are stacked. This goes back to the latest.
            self.pending_sql.push_str("ROLLBACK TO one;");
        }
    }

    /// Rolls the transaction back.
    pub(crate) fn roll_back(&mut self) {
        self.pending_sql.clear();
        if self.is_open {
            self.pending_sql.push_str("ROLLBACK;");
        }
    }

    /// Sends the SQL that was waiting for the next statement.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        if self.pending_sql.is_empty() {
            return Ok(());
        }
        self.script("")
    }

    /// Commits, and waits until `deadline` for the outcome.
    pub(crate) fn commit(&mut self, deadline: Instant) -> CommitOutcome {
        if self.pending_sql.contains("BEGIN") {
            // No statement was run.
            self.roll_back();
            drop(self.flush());
            return CommitOutcome::Committed;
        }
        let transaction = self.transaction.take().map(|id| TransactionRef {
            id,
            server_run: self.server_run.clone(),
        });
        self.deadline = deadline;
        // A server that stops waiting for its standby commits anyway, with a warning. Only a
        // warning of this COMMIT counts.
        self.warned.store(false, Ordering::Release);
        self.pending_sql.push_str("COMMIT;");
        let result = self.flush();
        let warned = self.warned.swap(false, Ordering::AcqRel);
        match (result, transaction) {
            (Ok(()), Some(transaction)) if warned => CommitOutcome::InDoubt {
                transaction,
                warned,
            },
            (Ok(()), _) => {
                self.write_accepted = Some(true);
                CommitOutcome::Committed
            }
            // The COMMIT may have arrived, so only the server knows the outcome.
            (Err(error), Some(transaction)) if self.is_broken() => {
                tracing::warn!(%error, transaction = transaction.id, "unknown whether a transaction was committed");
                CommitOutcome::InDoubt {
                    transaction,
                    warned,
                }
            }
            (Err(error), _) => CommitOutcome::Refused(error),
        }
    }

    /// Waits for an advisory lock, kept until the transaction ends, together with the next
    /// statement.
    pub(crate) fn lock(&mut self, number: i64) {
        self.queue_sql(&format!("SELECT pg_advisory_xact_lock({number});"));
    }

    /// Runs a prepared statement and returns the number of rows it changed.
    pub(crate) fn execute(
        &mut self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, StoreError> {
        let statement = self.prepare(sql)?;
        self.run(async |client| client.execute(&statement, values).await)
    }

    /// Runs a prepared query.
    pub(crate) fn query(
        &mut self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepare(sql)?;
        self.run(async |client| client.query(&statement, values).await)
    }

    /// Runs several statements without parameters.
    pub(crate) fn script(&mut self, sql: &str) -> Result<(), StoreError> {
        self.pending_sql.push_str(sql);
        self.run(async |_| Ok(()))
    }

    /// Adds SQL to send with the next statement.
    fn queue_sql(&mut self, sql: &str) {
        self.pending_sql.push_str(sql);
    }

    fn prepare(&mut self, sql: &'static str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        // Postgres writes parameters as `$1`; no statement has another question mark.
        let text = sql.replace('?', "$");
        let statement = self.run(async |client| client.prepare(&text).await)?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    /// Sends the waiting SQL and then the request, without waiting in between.
    fn run<T>(
        &mut self,
        request: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        let sql_ahead = std::mem::take(&mut self.pending_sql);
        let client = &self.client;
        let deadline = tokio::time::Instant::from_std(self.deadline);
        let exchange = async {
            if sql_ahead.is_empty() {
                return (Ok(Vec::new()), request(client).await);
            }
            join(client.simple_query(&sql_ahead), request(client)).await
        };
        // Created inside the block, because the timer needs the runtime.
        let limited = async { tokio::time::timeout_at(deadline, exchange).await };
        let outcome = self.runtime.block_on(limited);
        self.last_used = Instant::now();
        // The outcome of the statement is unknown, so the session is not used again.
        let (first, answer) = outcome.map_err(|_| {
            self.trouble = Some(SessionTrouble::TimedOut);
            StoreError::TimedOut
        })?;
        let ends_transaction = sql_ahead.ends_with("COMMIT;") || sql_ahead == "ROLLBACK;";
        self.is_open = sql_ahead.contains("BEGIN") || (self.is_open && !ends_transaction);
        // An error in the SQL that was sent ahead is the cause of the error of the statement after
        // it.
        let messages = first.map_err(|error| self.note_error(error))?;
        if let Some(transaction) = messages.iter().find_map(transaction_id) {
            self.transaction = Some(transaction);
        }
        answer.map_err(|error| self.note_error(error))
    }

    fn note_error(&mut self, error: tokio_postgres::Error) -> StoreError {
        let trouble = trouble_of(&error, self.client.is_closed());
        let unwritable_codes = [
            SqlState::DISK_FULL,
            SqlState::IO_ERROR,
            SqlState::READ_ONLY_SQL_TRANSACTION,
        ];
        // The readiness check reports a database that accepts no writes.
        if error
            .code()
            .is_some_and(|code| unwritable_codes.contains(code))
        {
            self.write_accepted = Some(false);
        }
        if !self.is_broken() {
            self.trouble = Some(trouble);
        }
        let error = StoreError::from(error);
        if matches!(error, StoreError::Pooler) {
            // If one prepared statement is lost, the others may be lost or belong to another
            // process.
            self.statements.clear();
            tracing::error!(%error, "a prepared statement was lost behind the pooler");
        }
        error
    }
}

fn transaction_id(message: &SimpleQueryMessage) -> Option<String> {
    match message {
        // The answer to `begin`. Nothing else that is sent ahead returns five columns.
        SimpleQueryMessage::Row(row) if row.len() == 5 => row.get(4).map(ToOwned::to_owned),
        _ => None,
    }
}

fn trouble_of(error: &tokio_postgres::Error, is_closed: bool) -> SessionTrouble {
    // Errors of the server have a code. An error without one comes from the connection.
    let Some(code) = error.code() else {
        return SessionTrouble::Lost;
    };
    let conflict_codes = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::LOCK_NOT_AVAILABLE,
    ];
    let lost_codes = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        // A standby; another host may be the primary now.
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ];
    if is_closed || lost_codes.contains(code) {
        SessionTrouble::Lost
    } else if conflict_codes.contains(code) {
        SessionTrouble::LockConflict
    } else {
        SessionTrouble::Refused
    }
}
