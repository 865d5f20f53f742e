//! All SQL, and the two databases it runs on.
//!
//! One statement text serves `SQLite` and Postgres. The functions in the
//! submodules take a [`Conn`] and do one thing each; whoever calls
//! [`Store::write`] owns the transaction, and when it returns, what was written
//! is on disk. Knows the model types, never the rules about them.

pub mod accounts;
pub mod assets;
pub mod clips;
mod conn;
pub mod intents;
pub mod ledger;
pub mod meta;
pub mod migrations;
pub mod personas;
mod postgres;
mod pulse;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod record;
pub mod records;
pub mod refusals;
pub mod restored;
mod sqlite;
pub mod submissions;
pub mod tasks;
mod turn;
pub mod upkeep;
pub mod usage;
pub mod verify;
pub mod workers;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::ids::AccountId;
use crate::store::postgres::{Look, Turn};
use crate::store::pulse::Pulse;
use crate::store::sqlite::Lane;

pub use conn::{Conn, Row, Value};
#[doc(hidden)]
pub use postgres::session::Session;

/// How long a heartbeat may take.
const BEAT: Duration = Duration::from_secs(2);

/// The database misbehaved, or holds something that this version cannot read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// `SQLite` said no.
    #[error("sqlite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// Postgres said no.
    #[error("postgres: {0}: {detail}", detail = .0.as_db_error().map_or("", |e| e.message()))]
    Postgres(#[from] tokio_postgres::Error),
    /// A stored value is not what the column should hold.
    #[error("column {column} holds {value:?}")]
    Unreadable {
        /// Where.
        column: &'static str,
        /// What is there.
        value: String,
    },
    /// The database was migrated by a newer version of this program.
    #[error(
        "the database has migration {found}, this program knows {known}: start the newer version"
    )]
    TooNew {
        /// The newest migration in the database.
        found: i64,
        /// The newest migration in this program.
        known: i64,
    },
    /// The database lacks migrations, and this process may not run them.
    #[error(
        "the database has migration {found}, this program needs {known}: run `mediagate migrate`, or set migrate = \"auto\""
    )]
    TooOld {
        /// The newest migration in the database.
        found: i64,
        /// The newest migration in this program.
        known: i64,
    },
    /// A statement was refused, and the write that it was part of is undone.
    #[error("a write was refused and is undone")]
    Refused,
    /// The database cannot be reached or written to; nothing was changed.
    #[error("the database cannot be reached or written to")]
    Lost,
    /// The database did not answer in time; nothing was changed.
    #[error("the database did not answer in time")]
    Late,
    /// Too much waits for the database already.
    #[error("too much waits for the database")]
    Busy,
    /// Whether a write was committed is not known yet.
    #[error("the database did not say in time whether it committed")]
    InDoubt,
    /// The database's threads are gone.
    #[error("the store is closed")]
    Closed,
    /// TLS to Postgres could not be set up.
    #[error("tls for postgres: {0}")]
    Tls(String),
}

impl StoreError {
    /// Whether the database is away, overloaded or full: the same may succeed
    /// later, and nobody but its operator can do anything about it.
    pub fn is_away(&self) -> bool {
        match self {
            Self::Sqlite(error) => error.sqlite_error_code().is_some_and(sqlite::is_away),
            Self::Postgres(error) => error.code().is_none_or(postgres::is_away),
            Self::Lost | Self::Late | Self::Busy | Self::InDoubt => true,
            Self::Unreadable { .. }
            | Self::TooNew { .. }
            | Self::TooOld { .. }
            | Self::Refused
            | Self::Closed
            | Self::Tls(_) => false,
        }
    }
}

impl From<StoreError> for crate::error::Error {
    fn from(error: StoreError) -> Self {
        if error.is_away() {
            let is_open = matches!(error, StoreError::InDoubt);
            return Self::away(error, is_open);
        }
        Self::internal(error)
    }
}

/// Whether the schema is brought up to date at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Migrate {
    /// By each process that finds it behind.
    #[default]
    Auto,
    /// By `mediagate migrate` alone.
    Never,
}

/// How a Postgres database is used.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Connections of this process, at least two; one is the heartbeat's.
    pub connections: usize,
    /// Whether to migrate it.
    pub migrate: Migrate,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections: 8,
            migrate: Migrate::Auto,
        }
    }
}

/// How long a caller waits to hear whether what it wants was written.
const SOON: Duration = Duration::from_secs(5);

/// What `work` came to, if that is known soon; otherwise it is in doubt for the
/// caller, and goes on.
pub async fn soon<T, E: From<StoreError>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match tokio::time::timeout(SOON, work).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::InDoubt.into()),
    }
}

/// A mark of the database's content at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(std::time::SystemTime, u64);

/// The database. Cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    backend: Backend,
    pulse: Arc<Pulse>,
}

enum Backend {
    Sqlite(sqlite::Sqlite),
    Postgres(postgres::Postgres),
}

impl Store {
    /// Opens or creates the `SQLite` database at `path`.
    pub fn sqlite(path: &Path, migrate: Migrate) -> Result<Self, StoreError> {
        let pulse = Arc::new(Pulse::new());
        let backend = Backend::Sqlite(sqlite::Sqlite::open(path, migrate, &pulse)?);
        Ok(Self(Arc::new(Inner { backend, pulse })))
    }

    /// Connects to the Postgres database at `url`.
    pub fn postgres(url: &str, options: Options) -> Result<Self, StoreError> {
        let pulse = Arc::new(Pulse::new());
        let backend = Backend::Postgres(postgres::Postgres::connect(url, options, &pulse)?);
        Ok(Self(Arc::new(Inner { backend, pulse })))
    }

    /// Runs `work` in a transaction and returns once it is on disk. An error
    /// from `work` undoes what it did; an error of the database means that
    /// nothing was written. That may take longer than a caller waits: see
    /// [`soon`]. `work` may be run twice, where the first time is undone.
    ///
    /// The work goes on even when the returned future is dropped.
    pub async fn write<T, E>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match &self.0.backend {
            Backend::Sqlite(sqlite) => sqlite.write(Lane::Usual, work).await,
            Backend::Postgres(postgres) => postgres.write(Turn::Any, work).await,
        }
    }

    /// As [`Store::write`], for what writes to the rows of an account and its
    /// keys: such writes follow each other and share commits.
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
            Backend::Sqlite(sqlite) => sqlite.write(Lane::Usual, work).await,
            Backend::Postgres(postgres) => postgres.write(Turn::Of(turn(account)), work).await,
        }
    }

    /// As [`Store::write`], ahead of all that waits and on a connection of its
    /// own: for the heartbeat. Not answered within 2 s it is in doubt.
    pub async fn beat<T, E>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let beat = async {
            match &self.0.backend {
                Backend::Sqlite(sqlite) => sqlite.write(Lane::Ahead, work).await,
                Backend::Postgres(postgres) => postgres.write(Turn::Beat, work).await,
            }
        };
        match tokio::time::timeout(BEAT, beat).await {
            Ok(result) => result,
            Err(_) => Err(StoreError::InDoubt.into()),
        }
    }

    /// Runs `work`, which only reads.
    ///
    /// On `SQLite` it runs on the calling thread: point look-ups take
    /// microseconds, less than a hop to another thread would.
    pub async fn read<T, E>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match &self.0.backend {
            Backend::Sqlite(sqlite) => sqlite.read(work),
            Backend::Postgres(postgres) => postgres.look(Look::Read, work).await,
        }
    }

    /// Runs `work`, which only reads and may take long, off the async threads.
    pub async fn examine<T, E>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match &self.0.backend {
            Backend::Sqlite(_) => {
                let store = self.clone();
                let read = move || match &store.0.backend {
                    Backend::Sqlite(sqlite) => sqlite.read(work),
                    Backend::Postgres(_) => Err(StoreError::Closed.into()),
                };
                let done = tokio::task::spawn_blocking(read).await;
                done.unwrap_or_else(|_| Err(StoreError::Closed.into()))
            }
            Backend::Postgres(postgres) => postgres.look(Look::Examine, work).await,
        }
    }

    /// The secret that signs media addresses for all processes on this database;
    /// `fresh` if it has none yet. Blocks.
    pub fn keep_secret(&self, fresh: String) -> Result<String, StoreError> {
        let keep = move |conn: &mut Conn<'_>| meta::get_or_set(conn, "signing_secret", fresh);
        let store = self.clone();
        // Its own runtime, on its own thread: this one may belong to another.
        let kept = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let runtime = runtime.map_err(|_| StoreError::Closed)?;
            runtime.block_on(store.write(keep))
        });
        kept.join().map_err(|_| StoreError::Closed)?
    }

    /// Changes with every commit, whichever process made it; `None` where that
    /// cannot be seen cheaply.
    pub fn stamp(&self) -> Option<Stamp> {
        match &self.0.backend {
            Backend::Sqlite(sqlite) => sqlite.stamp(),
            Backend::Postgres(_) => None,
        }
    }

    /// How long ago the database answered last, as far as anything was asked.
    pub fn silence(&self) -> Duration {
        self.0.pulse.silence()
    }

    /// Whether writes succeed, by the last one that was tried.
    pub fn takes_writes(&self) -> bool {
        self.0.pulse.takes_writes()
    }

    /// Asks the database for a sign of life, past all that waits.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let ask = |conn: &mut Conn<'_>| {
            let sql = "SELECT CAST(1 AS BIGINT)";
            conn.one(sql, &[], |row| row.int(0)).map(drop)
        };
        match &self.0.backend {
            Backend::Sqlite(sqlite) => sqlite.read(ask),
            Backend::Postgres(postgres) => postgres.look(Look::Ping, ask).await,
        }
    }

    /// Writes something, to see whether that is possible, past all that waits.
    pub async fn probe(&self) -> Result<(), StoreError> {
        self.beat(|conn| meta::set(conn, "probe", "")).await
    }

    /// Whether a synchronous standby has everything that was committed.
    pub async fn is_replicated(&self) -> Result<bool, StoreError> {
        self.read(|conn| {
            let sql = conn.dialect(
                "SELECT CAST(0 AS BIGINT)",
                "SELECT COUNT(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')",
            );
            Ok(conn.one(sql, &[], |row| row.int(0))?.unwrap_or(0) > 0)
        })
        .await
    }
}

/// The turn in which writes for an account come.
fn turn(account: AccountId) -> i32 {
    let digest = Sha256::digest(account.to_string().as_bytes());
    let mut start = [0; 4];
    start.copy_from_slice(&digest[..4]);
    i32::from_le_bytes(start)
}
