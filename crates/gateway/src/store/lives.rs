//! Which processes of this machine are alive, beside a database in a file.
//!
//! Each has locked a file that is called like its lease, and the system unlocks it when the process
//! ends, in whatever way. So what one held that was killed is free at once. Where files cannot be
//! locked, and between machines, a lease has to expire.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// The folder of these files.
pub(super) struct Lives(PathBuf);

/// While it exists, its process is alive.
#[derive(Debug)]
pub struct Life {
    path: PathBuf,
    _locked: File,
}

impl Lives {
    pub(super) fn beside(database: &Path) -> Self {
        let mut folder = database.as_os_str().to_owned();
        folder.push("-lives");
        Self(folder.into())
    }

    /// Nothing where that does not work, or a life of this name has begun already.
    pub(super) fn begin(&self, name: &str) -> Option<Life> {
        std::fs::create_dir_all(&self.0).ok()?;
        let path = self.0.join(name);
        let file = File::options().create_new(true).append(true).open(&path);
        let file = file.ok()?;
        file.try_lock().ok()?;
        Some(Life {
            path,
            _locked: file,
        })
    }

    /// Whether it is certain that a process which began a life of this name has ended, and not in an orderly
    /// way. Says so once.
    pub(super) fn is_over(&self, name: &str) -> bool {
        let path = self.0.join(name);
        let Ok(file) = File::open(&path) else {
            return false;
        };
        match file.try_lock() {
            // Whoever removes it has the proof; others who look at the same moment do not.
            Ok(()) => std::fs::remove_file(&path).is_ok(),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // Left behind, it would be a process that was killed.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_over_when_its_lock_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let lives = Lives::beside(&folder.path().join("db"));
        assert!(!lives.is_over("nobody"));
        let mut life = lives.begin("a").unwrap();
        assert!(lives.begin("a").is_none());
        assert!(!lives.is_over("a"));
        // As if its process had been killed: nobody removes the file.
        life.path = folder.path().join("elsewhere");
        drop(life);
        assert!(lives.is_over("a"));
        assert!(!lives.is_over("a"), "it is said once");
    }

    #[test]
    fn who_leaves_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let lives = Lives::beside(&folder.path().join("db"));
        drop(lives.begin("a").unwrap());
        assert!(!lives.is_over("a"));
        assert_eq!(std::fs::read_dir(&lives.0).unwrap().count(), 0);
    }
}
