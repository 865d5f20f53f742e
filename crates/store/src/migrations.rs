//! The schema, as numbered migrations.
//!
//! A migration is a file in `migrations/`, one text for both databases; `build.rs` lists these
//! files. If its first line is [`ONLY_ADDS`], programs of the previous version still work after it.
//! `migrations/samples/` has rows as each version wrote them, and a test runs the later migrations
//! on them. A migration that only adds nullable columns or indexes needs no samples. Expand first
//! and contract a release later, so that two versions can run side by side; a new NOT NULL column
//! needs a DEFAULT.

use crate::statement::dialect_sql;
use crate::{Conn, StoreError, meta};
use mediagate_model::database::MigrationMode;

pub struct Migration {
    /// Counts from 1 without gaps.
    pub version: i64,
    pub sql: &'static str,
    /// Rows as this version wrote them, or the newest earlier one that has samples.
    pub samples: &'static str,
}

impl Migration {
    /// Whether programs of the previous version still work after it: it only adds, and older
    /// writers need not maintain what it adds. Indexes may change.
    pub fn only_adds(&self) -> bool {
        self.sql.starts_with(ONLY_ADDS)
    }
}

/// The first line of a migration that only adds.
pub const ONLY_ADDS: &str = "-- Only adds.\n";

/// All migrations, in order.
pub const ALL: &[Migration] = include!(concat!(env!("OUT_DIR"), "/migrations.rs"));

const fn migration(version: i64, sql: &'static str, samples: &'static str) -> Migration {
    Migration {
        version,
        sql,
        samples,
    }
}

/// Whether no migration is needed: the database has them all, or newer ones that this program can
/// still use. An error if the schema does not fit and `migrate` forbids changing it.
pub(super) fn is_done(conn: &mut Conn<'_>, migrate: MigrationMode) -> Result<bool, StoreError> {
    let known = newest();
    let found = if has_meta(conn)? { version(conn)? } else { 0 };
    if found > known {
        return check_compatible(conn, found, known).map(|()| true);
    }
    match migrate {
        MigrationMode::Never if found < known => Err(StoreError::TooOld { found, known }),
        MigrationMode::Never | MigrationMode::Auto => Ok(found == known),
    }
}

/// Runs all missing migrations; the caller owns the transaction.
pub fn run(conn: &mut Conn<'_>) -> Result<(), StoreError> {
    apply(conn, ALL)
}

/// Runs those of `migrations` that the database lacks.
fn apply(conn: &mut Conn<'_>, migrations: &[Migration]) -> Result<(), StoreError> {
    conn.script(
        "CREATE TABLE IF NOT EXISTS meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)",
    )?;
    // Read again inside the transaction: another process may have migrated while this one waited.
    let found = version(conn)?;
    let known = migrations.last().map_or(0, |newest| newest.version);
    if found > known {
        return check_compatible(conn, found, known);
    }
    for migration in migrations.iter().filter(|step| step.version > found) {
        conn.script(&sql_for(conn, migration))?;
        meta::set(conn, "schema", migration.version)?;
        // Older programs can no longer use the database from here on.
        if !migration.only_adds() {
            meta::set(conn, OLDEST_READER, migration.version)?;
        }
    }
    Ok(())
}

/// On Postgres a table marked UNLOGGED is emptied by a crash, and its writes do not wait for the
/// disk. On `SQLite` a table marked WITHOUT ROWID is stored in the tree of its primary key;
/// otherwise rows and key are two trees.
fn sql_for(conn: &Conn<'_>, migration: &Migration) -> String {
    let keyword = match conn {
        Conn::Sqlite(_) => "WITHOUT ROWID",
        Conn::Postgres(_) => "UNLOGGED",
    };
    migration.sql.replace(&format!("/* {keyword} */"), keyword)
}

/// `meta` key: the migration that a program must know to use the database.
const OLDEST_READER: &str = "oldest_reader";

/// Fails unless this program may use a database with newer migrations than it knows.
fn check_compatible(conn: &mut Conn<'_>, found: i64, known: i64) -> Result<(), StoreError> {
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
    let tables = dialect_sql!(
        conn,
        "SELECT COUNT(*) FROM sqlite_master WHERE name = 'meta'",
        "SELECT COUNT(to_regclass('meta'))"
    );
    Ok(tables.value(conn)? == Some(1_i64))
}

/// The newest migration that has run; 0 in an empty database.
pub fn version(conn: &mut Conn<'_>) -> Result<i64, StoreError> {
    Ok(meta::get(conn, "schema")?.unwrap_or(0))
}

/// Brings an empty database to a version and inserts its sample rows, for the replay test.
#[doc(hidden)]
pub fn sample(conn: &mut Conn<'_>, version: i64) -> Result<(), StoreError> {
    let steps = ALL.partition_point(|step| step.version <= version);
    apply(conn, &ALL[..steps])?;
    ALL[..steps]
        .last()
        .map_or(Ok(()), |newest| conn.script(newest.samples))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::sql;

    const fn step(version: i64, sql: &'static str) -> Migration {
        migration(version, sql, "")
    }

    const STEPS: [Migration; 3] = [
        step(1, "CREATE TABLE things (id TEXT NOT NULL PRIMARY KEY)"),
        step(
            2,
            "-- Only adds.\nALTER TABLE things ADD COLUMN size BIGINT NOT NULL DEFAULT 3",
        ),
        step(3, "ALTER TABLE things DROP COLUMN size"),
    ];

    fn database() -> rusqlite::Connection {
        rusqlite::Connection::open_in_memory().unwrap()
    }

    #[test]
    fn each_missing_step_runs_once_on_existing_data() {
        let connection = database();
        let mut conn = Conn::Sqlite(&connection);
        apply(&mut conn, &STEPS[..1]).unwrap();
        conn.script("INSERT INTO things (id) VALUES ('old')")
            .unwrap();
        for _ in 0..2 {
            apply(&mut conn, &STEPS[..2]).unwrap();
            assert_eq!(version(&mut conn).unwrap(), 2);
        }
        let size = sql!("SELECT size FROM things").value::<i64>(&mut conn);
        assert_eq!(size.unwrap(), Some(3));
    }

    #[test]
    fn an_older_program_accepts_a_database_with_additions() {
        let connection = database();
        let mut conn = Conn::Sqlite(&connection);
        apply(&mut conn, &STEPS[..2]).unwrap();
        apply(&mut conn, &STEPS[..1]).unwrap();
        assert_eq!(version(&mut conn).unwrap(), 2);
        apply(&mut conn, &STEPS).unwrap();
        assert!(matches!(
            apply(&mut conn, &STEPS[..2]),
            Err(StoreError::TooNew { found: 3, known: 2 })
        ));
    }

    #[test]
    fn versions_count_from_one_without_gaps() {
        for (number, migration) in (1..).zip(ALL) {
            assert_eq!(migration.version, number);
        }
    }
}
