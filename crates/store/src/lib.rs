//! All SQL, for both databases. Only this crate knows rusqlite and tokio-postgres.
//!
//! Most statements have one text for `SQLite` and Postgres; where the two differ, [`Conn::dialect`]
//! takes both. Functions in the submodules, one for each group of tables, take a [`Conn`] and do
//! one thing each; the caller of [`Store::write`] owns the transaction, and everything is on disk
//! when it returns. Begin with [`Store`], then [`tasks`]; [`migrations`] has the schema.
//!
//! The store knows the types of the model and must not know settings or business rules: the caller
//! that opens the transaction decides what is allowed.

// These modules come first because their column lists are macros, which are visible only in later
// modules.
#[macro_use]
mod account_row;
#[macro_use]
mod money_columns;

pub mod accounts;
pub mod assets;
pub mod attributed_sums;
pub mod audit;
pub mod budget_alerts;
pub mod clips;
mod columns;
mod conn;
mod database_location;
pub mod end_users;
pub mod feed;
pub mod fingerprints;
mod health;
pub mod hourly_sums;
pub mod intents;
pub mod keys;
pub mod ledger;
mod ledger_change;
pub mod media_folders;
pub mod meta;
pub mod migrations;
pub mod moderation;
pub mod page;
pub mod personas;
pub mod pg_session;
mod postgres;
mod process_locks;
pub mod rates;
pub mod record_expiry;
pub mod refused_orders;
pub mod replicas;
pub mod request_log;
pub mod restored;
pub mod routes;
pub mod sessions;
mod sqlite;
mod statement;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod statement_log;
pub mod submissions;
pub mod task_progress;
pub mod tasks;
pub mod upkeep;
pub mod usage;
mod value;
pub mod verify;
pub mod webhooks;
pub mod workers;
mod writer_lock;

use crate::statement::{dialect_sql, sql};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::health::DatabaseHealth;
use crate::postgres::{ReadKind, WriteOrder};
use crate::sqlite::WritePriority;
use mediagate_model::database::{DatabaseOptions, MigrationMode};
use mediagate_model::ids::{AccountId, AssetId};

pub use conn::{Conn, Row};
pub use database_location::{DatabaseLocation, file_id};
#[doc(hidden)]
pub use pg_session::PgSession;
pub use process_locks::ProcessLock;
pub use value::SqlValue;

/// Timeout of a heartbeat and of a probe.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(2);

/// A database error, or a stored value that this version cannot read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An error from `SQLite`.
    #[error("sqlite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// An error from Postgres.
    #[error("postgres: {0}{causes}", causes = causes_of(.0))]
    Postgres(tokio_postgres::Error),
    /// A pooler between this process and Postgres gives each transaction another connection.
    #[error(
        "the address of the database is that of a pooler in transaction mode (PgBouncer: pool_mode), which loses \
         prepared statements: set it to session mode, or use Postgres' own address; PgBouncer from 1.21 on keeps \
         them with max_prepared_statements = 200"
    )]
    Pooler,
    /// A stored value does not fit its column.
    #[error("column {column} holds {value:?}")]
    Unreadable {
        /// The column, or the statement if it reads only one.
        column: &'static str,
        /// The stored value.
        value: String,
    },
    /// The database was migrated by a newer version of this program.
    #[error(
        "the database has migration {found}, this program knows {known}: start the newer version"
    )]
    TooNew { found: i64, known: i64 },
    /// Migrations are missing, and this process may not run them.
    #[error(
        "the database has migration {found}, this program needs {known}: run `mediagate migrate`, or set migrate = \"auto\""
    )]
    TooOld { found: i64, known: i64 },
    /// A statement was refused; its transaction was rolled back.
    #[error("a write was refused and rolled back")]
    Refused,
    /// The database cannot be reached or written to; nothing was changed.
    #[error("the database cannot be reached or written to")]
    Lost,
    /// The database did not answer in time; nothing was changed.
    #[error("the database did not answer in time")]
    TimedOut,
    /// Too many calls are waiting for the database.
    #[error("too many calls are waiting for the database")]
    Busy,
    /// It is not known yet whether a write was committed.
    #[error("the database did not confirm the commit in time")]
    InDoubt,
    /// The database's threads have stopped.
    #[error("the store is closed")]
    Closed,
    /// TLS to Postgres could not be set up.
    #[error("tls for postgres: {0}")]
    Tls(String),
}

impl StoreError {
    /// Whether the database is unavailable, overloaded or full: a retry may succeed, and only the
    /// operator can fix it.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Sqlite(error) => error
                .sqlite_error_code()
                .is_some_and(sqlite::is_unavailable),
            // An error without a code comes from the connection.
            Self::Postgres(error) => error.code().is_none_or(postgres::is_unavailable),
            Self::Lost | Self::TimedOut | Self::Busy | Self::InDoubt | Self::Pooler => true,
            Self::Unreadable { .. }
            | Self::TooNew { .. }
            | Self::TooOld { .. }
            | Self::Refused
            | Self::Closed
            | Self::Tls(_) => false,
        }
    }
}

/// The reason of a Postgres error, which its own text leaves out.
fn causes_of(error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;

    // Of an error from the server only the message: its details may contain stored values.
    if let Some(refusal) = error.as_db_error() {
        return format!(": {}", refusal.message());
    }
    let (mut text, mut next) = (String::new(), error.source());
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        if error.code().is_some_and(postgres::is_pooler_error) {
            return Self::Pooler;
        }
        Self::Postgres(error)
    }
}

impl From<StoreError> for mediagate_model::error::Error {
    fn from(error: StoreError) -> Self {
        if error.is_unavailable() {
            // After any other error nothing was written.
            let outcome_unknown = matches!(error, StoreError::InDoubt);
            return Self::unavailable(error, outcome_unknown);
        }
        Self::internal(error)
    }
}

/// How long a caller waits for the outcome of a write, or for a read.
const WAIT_LIMIT: Duration = Duration::from_secs(5);

/// Waits at most 5 s for the result of a write or a read; then returns [`StoreError::InDoubt`]. A
/// write continues.
pub async fn await_within_limit<T, E: From<StoreError>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match tokio::time::timeout(WAIT_LIMIT, work).await {
        Ok(result) => result,
        // A write may still succeed.
        Err(_) => Err(StoreError::InDoubt.into()),
    }
}

/// Identifies the content of the database at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeStamp(std::time::SystemTime, u64);

/// The database. Cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<StoreInner>);

struct StoreInner {
    backend: StoreBackend,
    health: Arc<DatabaseHealth>,
}

enum StoreBackend {
    Sqlite(sqlite::SqliteBackend),
    Postgres(postgres::PostgresBackend),
}

impl Store {
    pub fn sqlite(path: &Path, migrate: MigrationMode) -> Result<Self, StoreError> {
        let health = Arc::new(DatabaseHealth::new());
        let backend = StoreBackend::Sqlite(sqlite::SqliteBackend::open(path, migrate, &health)?);
        Ok(Self(Arc::new(StoreInner { backend, health })))
    }

    pub fn postgres(url: &str, options: DatabaseOptions) -> Result<Self, StoreError> {
        let health = Arc::new(DatabaseHealth::new());
        let backend =
            StoreBackend::Postgres(postgres::PostgresBackend::connect(url, options, &health)?);
        Ok(Self(Arc::new(StoreInner { backend, health })))
    }

    /// The servers in a database's URL, for messages: `a:5432, b:5432`.
    pub fn servers_in(url: &str) -> String {
        pg_session::server::names_in(url)
    }

    /// Runs `work` in a transaction and returns once it is on disk. If `work` fails it is rolled
    /// back; on a database error nothing was written. This may take longer than a caller waits: see
    /// [`await_within_limit`]. `work` may run twice if its first run was rolled back.
    ///
    /// The work continues if the returned future is dropped.
    pub async fn write<T, E>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match &self.0.backend {
            StoreBackend::Sqlite(sqlite) => sqlite.write(WritePriority::Normal, work).await,
            StoreBackend::Postgres(postgres) => postgres.write(WriteOrder::Any, work).await,
        }
    }

    /// Like [`Store::write`], for writes to an account and its keys: these run one after the other
    /// and share commits.
    pub async fn write_for<T, E>(
        &self,
        account: AccountId,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match &self.0.backend {
            // The one writer runs all writes in order and lets them share commits.
            StoreBackend::Sqlite(sqlite) => sqlite.write(WritePriority::Normal, work).await,
            StoreBackend::Postgres(postgres) => {
                postgres
                    .write(WriteOrder::Serial(account_lock(account)), work)
                    .await
            }
        }
    }

    /// Like [`Store::write`], for the heartbeat: ahead of all waiting writes. On Postgres it has
    /// its own connection, on `SQLite` it does not wait for the disk. After 2 s it fails with
    /// `InDoubt`.
    pub async fn write_heartbeat<T, E>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.write_first(WritePriority::Unsynced, work).await
    }

    async fn write_first<T, E>(
        &self,
        priority: WritePriority,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let write = async {
            match &self.0.backend {
                StoreBackend::Sqlite(sqlite) => sqlite.write(priority, work).await,
                StoreBackend::Postgres(postgres) => {
                    postgres.write(WriteOrder::Heartbeat, work).await
                }
            }
        };
        match tokio::time::timeout(HEARTBEAT_TIMEOUT, write).await {
            Ok(result) => result,
            Err(_) => Err(StoreError::InDoubt.into()),
        }
    }

    /// Runs `work`, which only reads.
    ///
    /// On `SQLite` it runs on the calling thread: a point lookup takes microseconds, less than a
    /// switch to another thread.
    pub async fn read<T, E>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match &self.0.backend {
            StoreBackend::Sqlite(sqlite) => sqlite.read(work),
            StoreBackend::Postgres(postgres) => postgres.read(ReadKind::Read, work).await,
        }
    }

    /// Runs `work`, which only reads and may be slow, off the async threads.
    pub async fn long_read<T, E>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match &self.0.backend {
            StoreBackend::Sqlite(_) => {
                let store = self.clone();
                let read = move || match &store.0.backend {
                    StoreBackend::Sqlite(sqlite) => sqlite.read(work),
                    StoreBackend::Postgres(_) => Err(StoreError::Closed.into()),
                };
                let result = tokio::task::spawn_blocking(read).await;
                result.unwrap_or_else(|_| Err(StoreError::Closed.into()))
            }
            StoreBackend::Postgres(postgres) => postgres.read(ReadKind::LongRead, work).await,
        }
    }

    /// The secret that signs media URLs for all processes on this database; set to `fresh` if there
    /// is none. Blocks.
    pub fn shared_signing_secret(&self, fresh: String) -> Result<String, StoreError> {
        self.shared_value("signing_secret", fresh)
    }

    /// The value with this name that all processes on this database share; set to `fresh` if there
    /// is none. Blocks.
    pub fn shared_value(&self, name: &'static str, fresh: String) -> Result<String, StoreError> {
        self.write_blocking(move |conn| meta::get_or_set(conn, name, fresh))
    }

    /// [`Store::write`], for startup. Blocks.
    pub fn write_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, StoreError> + Clone + Send + 'static,
    ) -> Result<T, StoreError> {
        self.blocking(async move |store| store.write(work).await)
    }

    /// [`Store::read`], for startup. Blocks.
    pub fn read_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, StoreError> + Clone + Send + 'static,
    ) -> Result<T, StoreError> {
        self.blocking(async move |store| store.read(work).await)
    }

    fn blocking<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = self.clone();
        // On its own thread and runtime, because this thread may already be inside a runtime.
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let runtime = runtime.map_err(|_| StoreError::Closed)?;
            runtime.block_on(work(store))
        });
        thread.join().map_err(|_| StoreError::Closed)?
    }

    /// The database's location; `None` if that cannot be determined.
    pub async fn location(&self) -> Option<DatabaseLocation> {
        match &self.0.backend {
            StoreBackend::Sqlite(sqlite) => DatabaseLocation::of_file(&sqlite.path),
            StoreBackend::Postgres(_) => match self.read(DatabaseLocation::of_server).await {
                Ok(location) => location,
                Err(error) => {
                    tracing::warn!(%error, "cannot identify the database server; a copy of the database will not be detected");
                    None
                }
            },
        }
    }

    /// A connection for notifying other processes, at the address `direct` or otherwise at the
    /// store's; `None` on `SQLite`.
    pub async fn notify_channel(
        &self,
        direct: Option<&str>,
    ) -> Result<Option<pg_session::notify_channel::NotifyChannel>, StoreError> {
        match &self.0.backend {
            StoreBackend::Sqlite(_) => Ok(None),
            StoreBackend::Postgres(postgres) => postgres.notify_channel(direct).await.map(Some),
        }
    }

    /// A stamp that changes with every commit of any process; `None` if it cannot be determined
    /// cheaply.
    pub fn stamp(&self) -> Option<ChangeStamp> {
        match &self.0.backend {
            StoreBackend::Sqlite(sqlite) => sqlite.stamp(),
            StoreBackend::Postgres(_) => None,
        }
    }

    /// Whether the processes on this database can detect which of them was killed.
    pub fn has_process_locks(&self) -> bool {
        matches!(self.0.backend, StoreBackend::Sqlite(_))
    }

    /// Lets other processes of this machine see that the process with this lease is alive; `None`
    /// on Postgres.
    pub fn lock_process(&self, name: &str) -> Option<ProcessLock> {
        match &self.0.backend {
            StoreBackend::Sqlite(sqlite) => sqlite.process_locks.acquire(name),
            StoreBackend::Postgres(_) => None,
        }
    }

    /// Whether it is certain that the process with this lease was killed. Returns true only once.
    pub fn is_process_dead(&self, name: &str) -> bool {
        match &self.0.backend {
            StoreBackend::Sqlite(sqlite) => sqlite.process_locks.is_dead(name),
            StoreBackend::Postgres(_) => false,
        }
    }

    /// Like [`Store::write`], for data that is of no use after a power cut: leases and due times of
    /// this process's own work. On `SQLite` it does not wait for the disk.
    pub async fn write_unsynced<T, E>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match &self.0.backend {
            StoreBackend::Sqlite(sqlite) => sqlite.write(WritePriority::Unsynced, work).await,
            StoreBackend::Postgres(postgres) => postgres.write(WriteOrder::Any, work).await,
        }
    }

    /// Time since the database last answered anything.
    pub fn time_since_answer(&self) -> Duration {
        self.0.health.time_since_answer()
    }

    /// Whether the last attempted write succeeded.
    pub fn takes_writes(&self) -> bool {
        self.0.health.takes_writes()
    }

    /// Checks that the database answers, ahead of all waiting work.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let query = |conn: &mut Conn<'_>| {
            sql!("SELECT CAST(1 AS BIGINT)")
                .value::<i64>(conn)
                .map(drop)
        };
        match &self.0.backend {
            StoreBackend::Sqlite(sqlite) => sqlite.read(query),
            StoreBackend::Postgres(postgres) => postgres.read(ReadKind::Ping, query).await,
        }
    }

    /// Writes something to the disk, ahead of all waiting work, to check that writes succeed.
    pub async fn probe(&self) -> Result<(), StoreError> {
        // A value that differs from the last one: SQLite writes no page that does not change.
        let value = AssetId::new().to_string();
        self.write_first(WritePriority::High, move |conn| {
            meta::set(conn, "probe", &value)
        })
        .await
    }

    /// Whether a synchronous standby has everything that was committed.
    pub async fn is_replicated(&self) -> Result<bool, StoreError> {
        self.read(|conn| {
            Ok(dialect_sql!(
                conn,
                "SELECT CAST(0 AS BIGINT)",
                "SELECT COUNT(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')"
            )
            .value::<i64>(conn)?
            .unwrap_or(0)
                > 0)
        })
        .await
    }
}

/// The number of the queue for an account's writes.
fn account_lock(account: AccountId) -> i32 {
    // An advisory lock with a class has 32 bits. Two accounts with the same number share a queue,
    // which is harmless.
    let digest = Sha256::digest(account.to_string().as_bytes());
    let mut start = [0; 4];
    start.copy_from_slice(&digest[..4]);
    i32::from_le_bytes(start)
}
