//! Process locks: proof of which processes of this machine are alive, for a database in a file.
//!
//! Each process locks a file with the name of its lease, and the system unlocks it when the process
//! ends, in whatever way. So the tasks of a killed process are free at once. Where files cannot be
//! locked, and between machines, its lease has to expire first.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::database_location;

/// The folder of the lock files.
pub(super) struct ProcessLocks(PathBuf);

/// While it exists, its process is alive.
#[derive(Debug)]
pub struct ProcessLock {
    path: PathBuf,
    _locked: File,
}

impl ProcessLocks {
    pub(super) fn for_database(database: &Path) -> Self {
        let mut folder = database.as_os_str().to_owned();
        folder.push("-lives");
        Self(folder.into())
    }

    /// `None` if files cannot be locked, or if the file already exists.
    pub(super) fn acquire(&self, name: &str) -> Option<ProcessLock> {
        std::fs::create_dir_all(&self.0).ok()?;
        let path = self.0.join(name);
        let file = File::options().create_new(true).append(true).open(&path);
        let mut file = file.ok()?;
        file.try_lock().ok()?;
        // The id is written under the lock. A file without its own id proves nothing: it is new, or
        // a copy that was never locked.
        file.write_all(database_location::file_id(&file.metadata().ok()?).as_bytes())
            .ok()?;
        Some(ProcessLock {
            path,
            _locked: file,
        })
    }

    /// Whether it is certain that the process with this lock was killed. Returns true only once.
    pub(super) fn is_dead(&self, name: &str) -> bool {
        let path = self.0.join(name);
        let Ok(mut file) = File::open(&path) else {
            return false;
        };
        let mut id = String::new();
        let is_own = file.read_to_string(&mut id).is_ok()
            && file
                .metadata()
                .is_ok_and(|metadata| database_location::file_id(&metadata) == id);
        if !is_own {
            return false;
        }
        match file.try_lock() {
            // Several processes may get the lock one after the other. Only the one that removes the
            // file returns true.
            Ok(()) => std::fs::remove_file(&path).is_ok(),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
        }
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        // A leftover file means that the process was killed.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_dead_when_its_lock_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let locks = ProcessLocks::for_database(&folder.path().join("db"));
        assert!(!locks.is_dead("nobody"));
        let mut lock = locks.acquire("a").unwrap();
        assert!(locks.acquire("a").is_none());
        assert!(!locks.is_dead("a"));
        // As if its process had been killed: the file is not removed.
        lock.path = folder.path().join("elsewhere");
        drop(lock);
        assert!(locks.is_dead("a"));
        assert!(!locks.is_dead("a"), "the death is reported once");
    }

    #[test]
    fn a_copied_lock_proves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let locks = ProcessLocks::for_database(&folder.path().join("db"));
        let lock = locks.acquire("a").unwrap();
        let copies = ProcessLocks::for_database(&folder.path().join("copy"));
        std::fs::create_dir(&copies.0).unwrap();
        std::fs::copy(&lock.path, copies.0.join("a")).unwrap();
        assert!(!copies.is_dead("a"));
        drop(lock);
        assert!(!copies.is_dead("a"));
    }

    #[test]
    fn a_process_that_stops_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let locks = ProcessLocks::for_database(&folder.path().join("db"));
        drop(locks.acquire("a").unwrap());
        assert!(!locks.is_dead("a"));
        assert_eq!(std::fs::read_dir(&locks.0).unwrap().count(), 0);
    }
}
