//! The media folder that belongs to the database. If it is missing, or another folder is in its
//! place, that is detected, and no new folder replaces it.

use std::path::{Path, PathBuf};

use super::open::OpenError;
use crate::private_files;
use mediagate_config::{Config, DatabaseTarget};
use mediagate_media::blob::{BlobStore, folder_mark};
use mediagate_store::Store;
use mediagate_store::media_folders::{self, KnownFolders};

/// The media store in the configured folder. While the folder that the database knows is missing,
/// no folder is created in its place, and the store is unavailable.
pub(super) fn open(config: &Config, store: &Store) -> Result<BlobStore, OpenError> {
    let folder = config.media_path();
    let location = folder_location(config, &folder);
    let key = location.clone();
    let known_folders = store.read_blocking(move |conn| media_folders::lookup(conn, &key))?;
    let in_folder = |error| OpenError::Data {
        path: folder.display().to_string(),
        error,
    };
    let mark = match judge(
        &known_folders,
        folder_mark::read(&folder),
        has_files(&folder),
    ) {
        FolderVerdict::Ours(mark) => {
            private_files::folder(&folder).map_err(in_folder)?;
            mark
        }
        FolderVerdict::New(mark) => {
            private_files::folder(&folder).map_err(in_folder)?;
            folder_mark::write(&folder, &mark).map_err(in_folder)?
        }
        // Startup continues: the store is unavailable until a folder with this mark exists, and
        // never writes to another one.
        FolderVerdict::Missing(mark) => {
            tracing::error!(
                folder = %folder.display(),
                mark,
                "the media folder is missing, or it is a different folder: restore it. If its files are lost for \
                 good, create the folder with a file \"{}\" in it that contains this mark",
                folder_mark::FILE
            );
            mark
        }
    };
    // Noted even for a missing folder, so that the next start expects the same one.
    if known_folders.here.as_ref() != Some(&mark) {
        let new_mark = mark.clone();
        store.write_blocking(move |conn| media_folders::note(conn, &location, &new_mark))?;
    }
    Ok(BlobStore::in_marked_folder(&folder, mark))
}

/// What to do with a folder.
#[derive(Debug, PartialEq, Eq)]
enum FolderVerdict {
    /// It is a known folder with this mark.
    Ours(String),
    /// It is a new folder: it is created if missing, and gets this mark.
    New(String),
    /// The folder with this mark is missing.
    Missing(String),
}

/// Decides what to do with the folder, in which `mark` was found.
fn judge(known_folders: &KnownFolders, mark: Option<String>, has_files: bool) -> FolderVerdict {
    match (&known_folders.here, mark) {
        // A known mark counts at any path: the folder may have been moved, or processes share it.
        (_, Some(mark)) if known_folders.marks.contains(&mark) => FolderVerdict::Ours(mark),
        // The database knows no folder yet, or no media, so this one cannot be the wrong one.
        (_, Some(mark)) if known_folders.marks.is_empty() || !known_folders.has_media => {
            FolderVerdict::Ours(mark)
        }
        // An empty folder, or one with another mark, where files were stored: the real one is
        // probably not mounted.
        (Some(here), _) if known_folders.has_media => FolderVerdict::Missing(here.clone()),
        (None, Some(_)) => FolderVerdict::Missing(known_folders.marks[0].clone()),
        // Nothing was ever stored, so nothing can be lost.
        (Some(here), None) => FolderVerdict::New(here.clone()),
        // There are records of files, but no folder was ever marked and this one is empty: the
        // files are still in a bucket, or lost.
        (None, None) if known_folders.has_media && known_folders.marks.is_empty() && !has_files => {
            FolderVerdict::Missing(folder_mark::fresh())
        }
        // The database knows no folder at this path, and this one has no mark: it is new, or its
        // files were copied here.
        (None, None) => FolderVerdict::New(folder_mark::fresh()),
        (Some(here), Some(_)) => FolderVerdict::Missing(here.clone()),
    }
}

fn has_files(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Identifies this folder among others of the same database: several machines may have one at the
/// same path.
fn folder_location(config: &Config, folder: &Path) -> String {
    let path = std::path::absolute(folder).unwrap_or_else(|_| PathBuf::from(folder));
    match config.database {
        DatabaseTarget::Sqlite => path.display().to_string(),
        DatabaseTarget::Postgres(_) => {
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            format!("{}:{}", host.trim(), path.display())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_folder_replaces_one_that_had_files() {
        let marked = |mark: &str| Some(mark.to_owned());
        let folders = |location_mark: Option<&str>, marks: &[&str], has_media| KnownFolders {
            here: location_mark.map(str::to_owned),
            marks: marks.iter().map(|mark| (*mark).to_owned()).collect(),
            has_media,
        };
        let ours = |mark: &str| FolderVerdict::Ours(mark.to_owned());
        let missing = |mark: &str| FolderVerdict::Missing(mark.to_owned());
        for (known_folders, mark, verdict) in [
            (folders(Some("a"), &["a"], true), marked("a"), ours("a")),
            (folders(Some("a"), &["a"], true), None, missing("a")),
            (folders(Some("a"), &["a"], true), marked("x"), missing("a")),
            // It had nothing, so nothing is lost.
            (
                folders(Some("a"), &["a"], false),
                None,
                FolderVerdict::New("a".to_owned()),
            ),
            // A folder that was moved, or that processes share.
            (folders(None, &["a", "b"], true), marked("b"), ours("b")),
            (
                folders(Some("a"), &["a", "b"], true),
                marked("b"),
                ours("b"),
            ),
            (folders(None, &["a"], true), marked("x"), missing("a")),
            // A database that was put next to an older folder.
            (folders(None, &[], false), marked("x"), ours("x")),
            (folders(None, &[], true), marked("x"), ours("x")),
        ] {
            assert_eq!(
                judge(&known_folders, mark.clone(), false),
                verdict,
                "{known_folders:?} {mark:?}"
            );
        }
        let is_new = |known_folders, has_files| {
            matches!(
                judge(&known_folders, None, has_files),
                FolderVerdict::New(_)
            )
        };
        assert!(is_new(folders(None, &[], false), false), "the first start");
        assert!(
            is_new(folders(None, &["a"], true), false),
            "another process"
        );
        assert!(
            is_new(folders(None, &[], true), true),
            "its files were copied here from a bucket"
        );
        assert!(
            !is_new(folders(None, &[], true), false),
            "its files are missing"
        );
    }
}
