//! Whose turn it is to write to a `SQLite` file.
//!
//! `SQLite` lets whoever asks at the right moment write. A busy server asks again
//! right after each commit, so that another process beside it, such as `mediagate
//! keys create`, could wait for seconds. Here a writer takes a lock on a file
//! beside the database before it asks for the database, and gives it up once it
//! has it: who waits is next. A process that dies loses the lock.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

/// Whoever holds the turn for longer is stuck, and is not waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is asked for.
const ASK: Duration = Duration::from_millis(1);

/// The file that is locked; without one nobody waits.
pub(super) struct Turn(Option<File>);

/// Until it is dropped nobody else begins to ask for the database.
pub(super) struct Held<'a>(Option<&'a File>);

impl Turn {
    pub(super) fn of(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-turn");
        let file = File::options().create(true).append(true).open(&path);
        Self(file.ok())
    }

    /// Waits for the turn.
    pub(super) fn take(&self) -> Held<'_> {
        let Some(file) = &self.0 else {
            return Held(None);
        };
        let until = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Held(Some(file)),
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(ASK),
                // A file system without locks, or a process that is stuck.
                Err(_) => return Held(None),
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.0 {
            // It can only fail where locks do not work at all.
            let _ = file.unlock();
        }
    }
}
