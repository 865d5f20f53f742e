//! The schema, in numbered steps that run at start.
//!
//! A step is a file in `migrations/`, one text for both databases; its sample
//! rows are in `migrations/samples/`, and a test replays every later step over
//! them. Steps expand first and contract a release later, so that two versions
//! can run side by side; a new NOT NULL column needs a DEFAULT.

use crate::store::{Conn, StoreError};

/// One step of the schema.
pub struct Migration {
    /// Counts from 1 without gaps.
    pub version: i64,
    /// What it does.
    pub sql: &'static str,
    /// Rows as that version wrote them: those of the version before where only an
    /// index differs.
    pub samples: &'static str,
}

/// Every step, in order.
pub const ALL: &[Migration] = &[
    Migration {
        version: 1,
        sql: include_str!("../../migrations/0001_first.sql"),
        samples: include_str!("../../migrations/samples/0001.sql"),
    },
    Migration {
        version: 2,
        sql: include_str!("../../migrations/0002_upstream.sql"),
        samples: include_str!("../../migrations/samples/0002.sql"),
    },
    Migration {
        version: 3,
        sql: include_str!("../../migrations/0003_money.sql"),
        samples: include_str!("../../migrations/samples/0003.sql"),
    },
    Migration {
        version: 4,
        sql: include_str!("../../migrations/0004_open_intents.sql"),
        samples: include_str!("../../migrations/samples/0004.sql"),
    },
    Migration {
        version: 5,
        sql: include_str!("../../migrations/0005_paid_entries.sql"),
        samples: include_str!("../../migrations/samples/0004.sql"),
    },
    Migration {
        version: 6,
        sql: include_str!("../../migrations/0006_growth.sql"),
        samples: include_str!("../../migrations/samples/0006.sql"),
    },
    Migration {
        version: 7,
        sql: include_str!("../../migrations/0007_refusals.sql"),
        samples: include_str!("../../migrations/samples/0007.sql"),
    },
    Migration {
        version: 8,
        sql: include_str!("../../migrations/0008_storage.sql"),
        samples: include_str!("../../migrations/samples/0008.sql"),
    },
];

/// Brings the database to the newest step; the caller owns the transaction.
pub fn run(conn: &mut Conn<'_>) -> Result<(), StoreError> {
    up_to(conn, i64::MAX)
}

/// Runs the steps that are missing, up to and including `last`.
pub fn up_to(conn: &mut Conn<'_>, last: i64) -> Result<(), StoreError> {
    conn.script(
        "CREATE TABLE IF NOT EXISTS meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)",
    )?;
    let found = version(conn)?;
    let known = ALL.last().map_or(0, |newest| newest.version);
    if found > known {
        return Err(StoreError::TooNew { found, known });
    }
    for migration in ALL
        .iter()
        .filter(|step| step.version > found && step.version <= last)
    {
        conn.script(migration.sql)?;
        let version = migration.version.to_string();
        conn.execute(
            "INSERT INTO meta (name, value) VALUES ('schema', ?1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            &[(&version).into()],
        )?;
    }
    Ok(())
}

/// The newest step that has run; 0 in an empty database.
pub fn version(conn: &mut Conn<'_>) -> Result<i64, StoreError> {
    Ok(conn
        .one("SELECT value FROM meta WHERE name = 'schema'", &[], |row| {
            row.parse(0, "schema")
        })?
        .unwrap_or(0))
}

/// Runs a step's sample rows; for the replay test.
#[doc(hidden)]
pub fn insert_samples(conn: &mut Conn<'_>, migration: &Migration) -> Result<(), StoreError> {
    conn.script(migration.samples)
}
