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
pub mod migrations;
pub mod personas;
mod postgres;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod record;
pub mod records;
pub mod refusals;
mod sqlite;
pub mod submissions;
pub mod tasks;
pub mod upkeep;
pub mod usage;
pub mod verify;
pub mod workers;

use std::path::Path;
use std::sync::Arc;

pub use conn::{Conn, Row, Value};

/// The database misbehaved, or holds something that this version cannot read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// `SQLite` said no.
    #[error("sqlite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// Postgres said no.
    #[error("postgres: {0}: {detail}", detail = .0.as_db_error().map_or("", |e| e.message()))]
    Postgres(#[from] ::postgres::Error),
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
    /// The database's threads are gone.
    #[error("the store is closed")]
    Closed,
    /// TLS to Postgres could not be set up.
    #[error("tls for postgres: {0}")]
    Tls(String),
}

impl From<StoreError> for crate::error::Error {
    fn from(error: StoreError) -> Self {
        Self::internal(error)
    }
}

/// A mark of the database's content at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(std::time::SystemTime, u64);

/// The database. Cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<Backend>);

enum Backend {
    Sqlite(sqlite::Sqlite),
    Postgres(postgres::Postgres),
}

impl Store {
    /// Opens or creates the `SQLite` database at `path` and migrates it.
    pub fn sqlite(path: &Path) -> Result<Self, StoreError> {
        Ok(Self(Arc::new(Backend::Sqlite(sqlite::Sqlite::open(path)?))))
    }

    /// Connects to the Postgres database at `url` and migrates it.
    pub fn postgres(url: &str) -> Result<Self, StoreError> {
        Ok(Self(Arc::new(Backend::Postgres(
            postgres::Postgres::connect(url)?,
        ))))
    }

    /// Runs `work` in a transaction and returns once it is on disk. An error
    /// from `work` undoes what it did.
    ///
    /// The work goes on even when the returned future is dropped.
    pub async fn write<T, E>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match &*self.0 {
            Backend::Sqlite(sqlite) => sqlite.write(work).await,
            Backend::Postgres(postgres) => postgres.run(work, true).await,
        }
    }

    /// Runs `work`, which only reads.
    ///
    /// On `SQLite` it runs on the calling thread: point look-ups take
    /// microseconds, less than a hop to another thread would.
    pub async fn read<T, E>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match &*self.0 {
            Backend::Sqlite(sqlite) => sqlite.read(work),
            Backend::Postgres(postgres) => postgres.run(work, false).await,
        }
    }

    /// Runs `work`, which only reads and may take long, off the async threads.
    pub async fn examine<T, E>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match &*self.0 {
            Backend::Sqlite(_) => {
                let store = self.clone();
                let read = move || match &*store.0 {
                    Backend::Sqlite(sqlite) => sqlite.read(work),
                    Backend::Postgres(_) => Err(StoreError::Closed.into()),
                };
                let done = tokio::task::spawn_blocking(read).await;
                done.unwrap_or_else(|_| Err(StoreError::Closed.into()))
            }
            Backend::Postgres(postgres) => postgres.run(work, false).await,
        }
    }

    /// Changes with every commit, whichever process made it; `None` where that
    /// cannot be seen cheaply.
    pub fn stamp(&self) -> Option<Stamp> {
        match &*self.0 {
            Backend::Sqlite(sqlite) => sqlite.stamp(),
            Backend::Postgres(_) => None,
        }
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.read(|conn| {
            conn.one("SELECT CAST(1 AS BIGINT)", &[], |row| row.int(0))
                .map(|_: Option<i64>| ())
        })
        .await
    }
}
