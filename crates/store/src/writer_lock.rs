//! The writer lock: lets processes write to a `SQLite` file in fair turns.
//!
//! `SQLite` gives its lock to the process that happens to try at the right moment. A busy server
//! tries again right after each commit, so another process, for example `mediagate keys create`,
//! could wait for seconds. Therefore a writer locks a file next to the database before it tries to
//! lock the database, and unlocks the file when it has the database: the process that waits for the
//! file is next. If a process dies, its lock is released.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

/// After this long the holder is assumed to be stuck and is ignored.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(1);
/// Poll interval of the lock.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The lock file; without one, writers do not wait.
pub(super) struct WriterLock(Option<File>);

/// While it exists, no other process tries to lock the database.
pub(super) struct WriterLockGuard<'a>(Option<&'a File>);

impl WriterLock {
    pub(super) fn for_database(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-turn");
        let file = File::options().create(true).append(true).open(&path);
        Self(file.ok())
    }

    pub(super) fn acquire(&self) -> WriterLockGuard<'_> {
        let Some(file) = &self.0 else {
            return WriterLockGuard(None);
        };
        let deadline = Instant::now() + MAX_LOCK_WAIT;
        loop {
            // Tried repeatedly, because a file lock cannot be waited for with a time limit.
            match file.try_lock() {
                Ok(()) => return WriterLockGuard(Some(file)),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(POLL_INTERVAL);
                }
                // The file system does not support locks, or another process is stuck.
                Err(_) => return WriterLockGuard(None),
            }
        }
    }
}

impl Drop for WriterLockGuard<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.0 {
            // Fails only where locks do not work at all.
            let _ = file.unlock();
        }
    }
}
