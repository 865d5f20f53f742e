//! The schema, as numbered migrations.
//!
//! A migration is a file in `migrations/`, one text for both databases. Its sample rows are in
//! `migrations/samples/`, and a test replays every later migration over them. Expand first and
//! contract a release later, so that two versions can run side by side; a new NOT NULL column needs
//! a DEFAULT.

use crate::store::{Conn, Migrate, StoreError, meta};

pub struct Migration {
    /// Counts from 1 without gaps.
    pub version: i64,
    pub sql: &'static str,
    /// Whether programs of the previous version still work with it: it only adds, and older writers
    /// need not maintain what it adds. Indexes may change.
    pub only_adds: bool,
    /// Rows as that version wrote them; the previous version's if only an index differs.
    pub samples: &'static str,
}

/// In order.
pub const ALL: &[Migration] = &[
    Migration {
        version: 1,
        sql: include_str!("../../migrations/0001_first.sql"),
        only_adds: false,
        samples: include_str!("../../migrations/samples/0001.sql"),
    },
    Migration {
        version: 2,
        sql: include_str!("../../migrations/0002_upstream.sql"),
        only_adds: false,
        samples: include_str!("../../migrations/samples/0002.sql"),
    },
    Migration {
        version: 3,
        sql: include_str!("../../migrations/0003_money.sql"),
        only_adds: false,
        samples: include_str!("../../migrations/samples/0003.sql"),
    },
    Migration {
        version: 4,
        sql: include_str!("../../migrations/0004_open_intents.sql"),
        only_adds: false,
        samples: include_str!("../../migrations/samples/0004.sql"),
    },
    Migration {
        version: 5,
        sql: include_str!("../../migrations/0005_paid_entries.sql"),
        only_adds: false,
        samples: include_str!("../../migrations/samples/0004.sql"),
    },
    Migration {
        version: 6,
        sql: include_str!("../../migrations/0006_growth.sql"),
        only_adds: false,
        samples: include_str!("../../migrations/samples/0006.sql"),
    },
    Migration {
        version: 7,
        sql: include_str!("../../migrations/0007_refusals.sql"),
        only_adds: false,
        samples: include_str!("../../migrations/samples/0007.sql"),
    },
    Migration {
        version: 8,
        sql: include_str!("../../migrations/0008_storage.sql"),
        only_adds: false,
        samples: include_str!("../../migrations/samples/0008.sql"),
    },
    Migration {
        version: 9,
        sql: include_str!("../../migrations/0009_submissions.sql"),
        only_adds: false,
        samples: include_str!("../../migrations/samples/0009.sql"),
    },
    Migration {
        version: 10,
        sql: include_str!("../../migrations/0010_deaths.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0010.sql"),
    },
    Migration {
        version: 11,
        sql: include_str!("../../migrations/0011_costs.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0011.sql"),
    },
    Migration {
        version: 12,
        sql: include_str!("../../migrations/0012_unknown_tries.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0012.sql"),
    },
    Migration {
        version: 13,
        sql: include_str!("../../migrations/0013_webhooks.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0013.sql"),
    },
    Migration {
        version: 14,
        sql: include_str!("../../migrations/0014_task_records.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0014.sql"),
    },
    Migration {
        version: 15,
        sql: include_str!("../../migrations/0015_admin.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0015.sql"),
    },
    Migration {
        version: 16,
        sql: include_str!("../../migrations/0016_rate_grants.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0016.sql"),
    },
    Migration {
        version: 17,
        sql: include_str!("../../migrations/0017_provenance.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0017.sql"),
    },
    Migration {
        version: 18,
        sql: include_str!("../../migrations/0018_replicas.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0018.sql"),
    },
    Migration {
        version: 19,
        sql: include_str!("../../migrations/0019_sums_and_names.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0019.sql"),
    },
    Migration {
        version: 20,
        sql: include_str!("../../migrations/0020_traces.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0020.sql"),
    },
    Migration {
        version: 21,
        sql: include_str!("../../migrations/0021_fewer_writes.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0021.sql"),
    },
    Migration {
        version: 22,
        sql: include_str!("../../migrations/0022_where_and_until.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0022.sql"),
    },
    Migration {
        version: 23,
        sql: include_str!("../../migrations/0023_housekeeping.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0023.sql"),
    },
    Migration {
        version: 24,
        sql: include_str!("../../migrations/0024_exact_books.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0024.sql"),
    },
    Migration {
        version: 25,
        sql: include_str!("../../migrations/0025_doors.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0025.sql"),
    },
    Migration {
        version: 26,
        sql: include_str!("../../migrations/0026_turns.sql"),
        only_adds: true,
        samples: include_str!("../../migrations/samples/0026.sql"),
    },
];

/// Whether no migration is needed: the database has them all, or newer ones that this program can
/// still use. An error if the schema does not fit and `migrate` forbids changing it.
pub(super) fn is_done(conn: &mut Conn<'_>, migrate: Migrate) -> Result<bool, StoreError> {
    let known = newest();
    let found = if has_meta(conn)? { version(conn)? } else { 0 };
    if found > known {
        return suits(conn, found, known).map(|()| true);
    }
    match migrate {
        Migrate::Never if found < known => Err(StoreError::TooOld { found, known }),
        Migrate::Never | Migrate::Auto => Ok(found == known),
    }
}

/// Runs all missing migrations; the caller owns the transaction.
pub fn run(conn: &mut Conn<'_>) -> Result<(), StoreError> {
    up_to(conn, i64::MAX)
}

pub fn up_to(conn: &mut Conn<'_>, last: i64) -> Result<(), StoreError> {
    conn.script(
        "CREATE TABLE IF NOT EXISTS meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)",
    )?;
    let found = version(conn)?;
    let known = newest();
    if found > known {
        return suits(conn, found, known);
    }
    for migration in ALL
        .iter()
        .filter(|step| step.version > found && step.version <= last)
    {
        conn.script(&text(conn, migration))?;
        meta::set(conn, "schema", migration.version)?;
        if !migration.only_adds {
            meta::set(conn, OLDEST_READER, migration.version)?;
        }
    }
    Ok(())
}

/// On Postgres, tables that are marked so are unlogged: a crash empties them, and nothing waits for
/// their being written. What is in a comment that is marked so runs on `SQLite` alone.
fn text(conn: &Conn<'_>, migration: &Migration) -> String {
    match conn {
        Conn::Sqlite(_) => migration
            .sql
            .replace("/* SQLITE", "")
            .replace("SQLITE */", ""),
        Conn::Postgres(_) => migration.sql.replace("/* UNLOGGED */", "UNLOGGED"),
    }
}

/// `meta` key of the oldest version that may use the database, given by the newest migration it
/// knows.
const OLDEST_READER: &str = "oldest_reader";

/// Whether this program may use a database with newer migrations than it knows.
fn suits(conn: &mut Conn<'_>, found: i64, known: i64) -> Result<(), StoreError> {
    let oldest: Option<i64> = meta::get(conn, OLDEST_READER)?;
    // Without the key, the database was migrated by a version that did not write it.
    if oldest.is_some_and(|oldest| oldest <= known) {
        return Ok(());
    }
    Err(StoreError::TooNew { found, known })
}

/// The newest migration that this program knows.
pub fn newest() -> i64 {
    ALL.last().map_or(0, |newest| newest.version)
}

fn has_meta(conn: &mut Conn<'_>) -> Result<bool, StoreError> {
    let sql = conn.dialect(
        "SELECT COUNT(*) FROM sqlite_master WHERE name = 'meta'",
        "SELECT COUNT(to_regclass('meta'))",
    );
    Ok(conn.one(sql, &[], |row| row.int(0))? == Some(1))
}

/// The newest migration that has run; 0 in an empty database.
pub fn version(conn: &mut Conn<'_>) -> Result<i64, StoreError> {
    Ok(meta::get(conn, "schema")?.unwrap_or(0))
}

/// Inserts a migration's sample rows, for the replay test.
#[doc(hidden)]
pub fn insert_samples(conn: &mut Conn<'_>, migration: &Migration) -> Result<(), StoreError> {
    conn.script(migration.samples)
}
