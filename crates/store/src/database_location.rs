//! Database location, identified by properties that a copy of the database does not share.
//!
//! A file is known by its number in its file system, the moment at which it came to be there, to the
//! nanosecond, and the machine's id: file systems give numbers away again, so a number alone proves
//! nothing. A database of Postgres is known by its cluster's system identifier and its own number. Its
//! timeline changes when a server is promoted, which is a fail-over or a restore to a point in time.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::{Conn, StoreError};

/// Where a database lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseLocation {
    /// Another one lies elsewhere.
    pub id: String,
    /// Of Postgres.
    pub timeline: Option<String>,
}

impl DatabaseLocation {
    /// Of a database in a file; `None` if there is no such file.
    pub(super) fn of_file(path: &Path) -> Option<Self> {
        let file = id(&std::fs::metadata(path).ok()?);
        let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
        Some(Self {
            id: format!("file {file} {}", machine.trim()),
            timeline: None,
        })
    }

    /// Of the database that this connection leads to. Fails where the server tells nobody.
    pub(super) fn of_server(conn: &mut Conn<'_>) -> Result<Option<Self>, StoreError> {
        // The name of a WAL file begins with the timeline in eight digits.
        conn.one(
            "SELECT CAST((SELECT system_identifier FROM pg_control_system()) AS TEXT),
                    CAST((SELECT oid FROM pg_database WHERE datname = current_database()) AS TEXT),
                    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)",
            &[],
            |row| {
                Ok(Self {
                    id: format!("server {} {}", row.text(0)?, row.text(1)?),
                    timeline: row.text_or_null(2)?,
                })
            },
        )
    }
}

/// What a copy of a file has another of.
pub(super) fn id(file: &Metadata) -> String {
    // Some file systems keep no such time. The number has to do there.
    let born = file.created().ok();
    let born = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let born = born.map_or_else(String::new, |born| born.as_nanos().to_string());
    format!("{}:{born}", file.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_lies_elsewhere_and_a_file_that_was_moved_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two, three] = ["one", "two", "three"].map(|name| folder.path().join(name));
        std::fs::write(&one, "a database").unwrap();
        let place = DatabaseLocation::of_file(&one);
        assert!(place.is_some());
        std::fs::copy(&one, &two).unwrap();
        assert_ne!(DatabaseLocation::of_file(&two), place);
        std::fs::rename(&one, &three).unwrap();
        assert_eq!(DatabaseLocation::of_file(&three), place);
        assert_eq!(DatabaseLocation::of_file(&one), None);
    }
}
