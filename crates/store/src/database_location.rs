//! Database location, identified by properties that a copy of the database does not have.
//!
//! A file is identified by its inode number, its creation time in nanoseconds, and the machine's
//! id: file systems reuse inode numbers, so a number alone proves nothing. A Postgres database is
//! identified by its cluster's system identifier and its own number. Its timeline changes when a
//! server is promoted, which is a fail-over or a restore to a point in time.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::statement::sql;
use crate::{Conn, StoreError};

/// The location of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseLocation {
    /// Identifies the location; a copy has another id.
    pub id: String,
    /// The timeline of a Postgres server.
    pub timeline: Option<String>,
}

impl DatabaseLocation {
    /// Whether the database is a file of this machine.
    pub fn is_file(&self) -> bool {
        self.id.starts_with("file ")
    }

    /// The location of a database in a file; `None` if there is no such file.
    pub(super) fn of_file(path: &Path) -> Option<Self> {
        let file = file_id(&std::fs::metadata(path).ok()?);
        let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
        Some(Self {
            id: format!("file {file} {}", machine.trim()),
            timeline: None,
        })
    }

    /// The location of the database of this connection. Fails if the server does not reveal it.
    pub(super) fn of_server(conn: &mut Conn<'_>) -> Result<Option<Self>, StoreError> {
        // The name of a WAL file begins with the timeline in eight digits.
        sql!(
            "SELECT CAST((SELECT system_identifier FROM pg_control_system()) AS TEXT) AS cluster,
                    CAST((SELECT oid FROM pg_database WHERE datname = current_database()) AS TEXT) AS database,
                    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS timeline"
        )
        .one(conn, |row| {
            let cluster: String = row.field("cluster")?;
            let database: String = row.field("database")?;
            Ok(Self {
                id: format!("server {cluster} {database}"),
                timeline: row.field("timeline")?,
            })
        })
    }
}

/// The properties of a file that a copy does not share: its inode number, and its creation time if
/// the file system has one.
pub fn file_id(file: &Metadata) -> String {
    // Some file systems have no creation time. There the number has to suffice.
    let created = file.created().ok();
    let created = created.and_then(|created| created.duration_since(UNIX_EPOCH).ok());
    let created = created.map_or_else(String::new, |created| created.as_nanos().to_string());
    format!("{}:{created}", file.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_another_location_and_a_moved_file_keeps_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let [original, copy, moved] =
            ["original", "copy", "moved"].map(|name| folder.path().join(name));
        std::fs::write(&original, "a database").unwrap();
        let location = DatabaseLocation::of_file(&original);
        assert!(location.is_some());
        std::fs::copy(&original, &copy).unwrap();
        assert_ne!(DatabaseLocation::of_file(&copy), location);
        std::fs::rename(&original, &moved).unwrap();
        assert_eq!(DatabaseLocation::of_file(&moved), location);
        assert_eq!(DatabaseLocation::of_file(&original), None);
    }
}
