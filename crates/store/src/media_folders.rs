//! The media folders that this database has used, by their marks.

use crate::statement::sql;
use crate::{Conn, StoreError, meta};

/// Prefix of the names of these values in `meta`.
const NAME: &str = "media_folder ";

/// The media folders that the database knows.
#[derive(Debug, Clone, Default)]
pub struct KnownFolders {
    /// The mark of the folder at the given location.
    pub here: Option<String>,
    /// The marks of all folders.
    pub marks: Vec<String>,
    /// Whether any files are stored, according to the records.
    pub has_media: bool,
}

/// The known marks of the folder at this location, and of all folders.
pub fn lookup(conn: &mut Conn<'_>, location: &str) -> Result<KnownFolders, StoreError> {
    let marks = sql!("SELECT value FROM meta WHERE name LIKE 'media_folder %' ORDER BY name")
        .values::<String>(conn)?;
    let stored = sql!("SELECT size_bytes FROM account_storage WHERE size_bytes > 0 LIMIT 1")
        .value::<i64>(conn)?;
    Ok(KnownFolders {
        here: meta::get(conn, &format!("{NAME}{location}"))?,
        marks,
        has_media: stored.is_some(),
    })
}

/// Notes the mark of the folder at this location.
pub fn note(conn: &mut Conn<'_>, location: &str, mark: &str) -> Result<(), StoreError> {
    meta::set(conn, &format!("{NAME}{location}"), mark)
}
