//! `SQLite`: one writer thread that groups commits, and separate readers.
//!
//! With `synchronous=FULL` each commit waits for the disk. Therefore the writer takes all waiting
//! writes, runs them in one transaction, each in its own savepoint, and commits once: callers share
//! the wait, and no caller gets its answer before its own write is on disk. The commit of a
//! heartbeat does not wait for the disk, because after a power cut its process is gone as well. So
//! an idle process lets the disk sleep. Measured in `benches/part_submit.rs`.

use std::cell::Cell;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::TrySendError;
use locks::lock;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tokio::sync::oneshot;

use crate::health::DatabaseHealth;
use crate::process_locks::ProcessLocks;
use crate::writer_lock::WriterLock;
use crate::{ChangeStamp, Conn, StoreError, migrations};
use mediagate_model::bounds;
use mediagate_model::database::MigrationMode;

/// Maximum number of writes in one commit, so that the first of them does not wait for an endless
/// queue.
const GROUP: usize = 256;

/// Maximum number of waiting writes; more are refused at once.
const MAX_WAITING_WRITES: usize = bounds::WAITING_STATEMENTS.total.count();

/// How long to wait for the write lock while another process holds it, for example for a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(3);

/// How often a start waits for the write lock, [`BUSY_TIMEOUT`] each time.
const START_TRIES: u32 = 10;

/// Pages in the write-ahead log before a checkpoint. `SQLite`'s default of 1,000 would mean more
/// than ten checkpoints a second under load, and most of these pages are soon written again. Reads
/// are as fast with a log of 16 MB.
const CHECKPOINT: u32 = 4000;

/// Called when it is known whether the write is on disk.
type CommitCallback = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Runs in the transaction, if there is one. Returns the callback, and whether to keep the changes.
type WriteClosure = Box<dyn FnOnce(Option<&mut Conn<'_>>) -> (bool, CommitCallback) + Send>;

/// Whether the error may be temporary: the database is locked, or the disk is full or failing.
pub(super) fn is_unavailable(code: rusqlite::ErrorCode) -> bool {
    use rusqlite::ErrorCode as Code;
    matches!(
        code,
        Code::DatabaseBusy
            | Code::DatabaseLocked
            | Code::DiskFull
            | Code::SystemIoFailure
            | Code::CannotOpen
            | Code::ReadOnly
    )
}

/// A write that waits for the writer thread.
struct WriteRequest {
    run: WriteClosure,
    /// Whether it must be on disk before it is answered.
    is_durable: bool,
}

pub(super) struct SqliteBackend {
    pub(super) path: PathBuf,
    /// The write-ahead log. It stays the same file as long as this process has a connection.
    log: Option<File>,
    writes: crossbeam_channel::Sender<WriteRequest>,
    /// Writes with priority.
    urgent_writes: crossbeam_channel::Sender<WriteRequest>,
    readers: Mutex<Vec<Connection>>,
    pub(super) process_locks: ProcessLocks,
    pulse: Arc<DatabaseHealth>,
}

pub(super) enum WritePriority {
    /// Runs after all earlier writes.
    Normal,
    /// Runs before all normal writes.
    High,
    /// Like `High`, and does not wait for the disk.
    Unsynced,
}

/// The writer thread.
struct WriterThread {
    connection: Connection,
    writer_lock: WriterLock,
    /// Whether commits wait for the disk (`synchronous=FULL`).
    is_synced: Cell<bool>,
    writes: crossbeam_channel::Receiver<WriteRequest>,
    urgent_writes: crossbeam_channel::Receiver<WriteRequest>,
    pulse: Arc<DatabaseHealth>,
}

impl SqliteBackend {
    pub(super) fn open(
        path: &Path,
        migrate: MigrationMode,
        pulse: &Arc<DatabaseHealth>,
    ) -> Result<Self, StoreError> {
        let turn = WriterLock::for_database(path);
        let connection = connect(path)?;
        // Switching the journal mode and migrating both write to the file.
        let held = turn.acquire();
        wait_for_write_lock(&connection)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // In WAL mode NORMAL does not sync at a commit. A power cut could undo accepted orders.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT)?;
        if !migrations::is_done(&mut Conn::Sqlite(&connection), migrate)? {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            migrations::run(&mut Conn::Sqlite(&connection))?;
            connection.execute_batch("COMMIT")?;
        }
        drop(held);
        let (writes, waiting) = crossbeam_channel::bounded(MAX_WAITING_WRITES);
        let (urgent_writes, urgent) = crossbeam_channel::bounded(MAX_WAITING_WRITES);
        let writer = WriterThread {
            connection,
            writer_lock: turn,
            is_synced: Cell::new(true),
            writes: waiting,
            urgent_writes: urgent,
            pulse: pulse.clone(),
        };
        std::thread::Builder::new()
            .name("sqlite-writer".into())
            .spawn(move || writer.write_in_groups())
            .map_err(|_| StoreError::Closed)?;
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Ok(Self {
            path: path.to_owned(),
            log: File::open(log).ok(),
            writes,
            urgent_writes,
            readers: Mutex::default(),
            process_locks: ProcessLocks::for_database(path),
            pulse: pulse.clone(),
        })
    }

    pub(super) async fn write<T, E>(
        &self,
        lane: WritePriority,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let waiting = match lane {
            WritePriority::Normal => &self.writes,
            WritePriority::High | WritePriority::Unsynced => &self.urgent_writes,
        };
        let (run, answered) = write(work);
        let write = WriteRequest {
            run,
            is_durable: !matches!(lane, WritePriority::Unsynced),
        };
        waiting.try_send(write).map_err(|error| refuse(&error))?;
        answered.await.map_err(|_| StoreError::Closed)?
    }

    /// Derived from the write-ahead log, which every commit changes.
    pub(super) fn stamp(&self) -> Option<ChangeStamp> {
        // Read from the open file: looking up its path at every request would be most of the cost.
        let log = self.log.as_ref()?.metadata().ok()?;
        Some(ChangeStamp(log.modified().ok()?, log.len()))
    }

    pub(super) fn read<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        // In WAL mode readers and the writer do not wait for each other.
        let idle = lock(&self.readers).pop();
        let reader = match idle {
            Some(reader) => reader,
            None => connect(&self.path)?,
        };
        let result = work(&mut Conn::Sqlite(&reader));
        self.pulse.note_answer();
        lock(&self.readers).push(reader);
        result
    }
}

/// Waits until no other program holds the write lock: a start writes many times, and would fail at
/// the first of them.
fn wait_for_write_lock(connection: &Connection) -> Result<(), StoreError> {
    for _ in 1..START_TRIES {
        match connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK") {
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {
                tracing::warn!("another program holds the lock of the database; waiting for it");
            }
            result => return Ok(result?),
        }
    }
    Ok(connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK")?)
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let conn = Connection::open(path)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    // Otherwise a statement that can use a partial index is planned again whenever one of its
    // parameters changes.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Enough for all statements of this crate. With the default of 16 most of them would be
    // prepared again at each use.
    conn.set_prepared_statement_cache_capacity(256);
    Ok(conn)
}

/// Wraps `work` for the writer thread, with a receiver for its result.
fn write<T, E>(
    work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Send + 'static,
) -> (WriteClosure, oneshot::Receiver<Result<T, E>>)
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let (answer, answered) = oneshot::channel();
    let write: WriteClosure = Box::new(move |conn| {
        let result = conn.map(work);
        let keep = matches!(result, Some(Ok(_)));
        let tell = move |committed: Result<(), StoreError>| {
            let result = match (committed, result) {
                // The work's own error is more informative.
                (Err(_), Some(Err(error))) => Err(error),
                (Err(error), _) => Err(error.into()),
                (Ok(()), result) => result.unwrap_or_else(|| Err(StoreError::Closed.into())),
            };
            // Fails if the caller no longer waits.
            drop(answer.send(result));
        };
        (keep, Box::new(tell))
    });
    (write, answered)
}

/// A full queue means that the disk is much too slow for the load.
fn refuse(refused: &TrySendError<WriteRequest>) -> StoreError {
    match refused {
        TrySendError::Full(_) => StoreError::Busy,
        TrySendError::Disconnected(_) => StoreError::Closed,
    }
}

impl WriterThread {
    fn write_in_groups(self) {
        while let Some(first) = self.next_blocking() {
            let is_durable = first.is_durable;
            let mut answers = Vec::new();
            let committed = self.write_group(first, &mut answers);
            // Some errors leave the transaction open, others have rolled it back.
            if committed.is_err() && !self.connection.is_autocommit() {
                drop(self.connection.execute_batch("ROLLBACK"));
            }
            match committed {
                Ok(()) => {
                    self.pulse.note_answer();
                    // A commit that did not wait for the disk does not show that the disk works.
                    if is_durable {
                        self.pulse.note_write(true);
                    }
                    for answer in answers {
                        answer(Ok(()));
                    }
                }
                Err(error) => {
                    self.pulse.note_write(false);
                    tracing::error!(%error, "cannot commit a group of writes");
                    fail_all(answers, &error);
                }
            }
        }
    }

    /// Waits for a write; `None` when the store is closed.
    fn next_blocking(&self) -> Option<WriteRequest> {
        crossbeam_channel::select_biased! {
            recv(self.urgent_writes) -> write => write.ok(),
            recv(self.writes) -> write => write.ok(),
        }
    }

    fn next_waiting(&self) -> Option<WriteRequest> {
        self.urgent_writes
            .try_recv()
            .or_else(|_| self.writes.try_recv())
            .ok()
    }

    fn write_group(
        &self,
        first: WriteRequest,
        answers: &mut Vec<CommitCallback>,
    ) -> Result<(), StoreError> {
        let writer = &self.connection;
        let is_durable = first.is_durable;
        let run = |sql| -> Result<(), StoreError> {
            writer.prepare_cached(sql)?.execute([])?;
            Ok(())
        };
        let begin = || {
            self.sync_commits(is_durable)?;
            let _held = self.writer_lock.acquire();
            // A deferred transaction would fail at its first write if another process had written
            // since its first read.
            run("BEGIN IMMEDIATE")
        };
        let mut next = Some(first);
        if let Err(error) = begin() {
            // The lock was not obtained in time. All writes queued behind this one fail now,
            // instead of each after the same waiting time.
            let all = next
                .into_iter()
                .chain(std::iter::from_fn(|| self.next_waiting()));
            answers.extend(all.take(GROUP).map(|write| (write.run)(None).1));
            return Err(error);
        }
        // The first write needs no savepoint, because it is alone in the transaction. Inside a
        // savepoint every page is copied before it changes.
        let mut is_alone = true;
        let mut done = 0;
        while let Some(write) = next {
            if !is_alone && let Err(error) = run("SAVEPOINT one") {
                // The caller gets the same answer as those of the earlier writes, which are rolled
                // back.
                answers.push((write.run)(None).1);
                return Err(error);
            }
            // A panic in one write must not end the thread that all others need. The caller notices
            // that its channel is closed.
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                (write.run)(Some(&mut Conn::Sqlite(writer)))
            }));
            let keep = outcome.as_ref().is_ok_and(|(keep, _)| *keep);
            answers.extend(outcome.map(|(_, answer)| answer));
            if writer.is_autocommit() {
                // Some errors, such as a full disk, roll back the whole transaction.
                return Err(StoreError::Lost);
            }
            match (is_alone, keep) {
                (true, true) => is_alone = false,
                // There is no savepoint yet, so the transaction starts again.
                (true, false) => {
                    run("ROLLBACK")?;
                    begin()?;
                }
                (false, true) => run("RELEASE one")?,
                (false, false) => {
                    run("ROLLBACK TO one")?;
                    run("RELEASE one")?;
                }
            }
            done += 1;
            // Nothing may join a commit that does not wait for the disk.
            next = if is_durable && done < GROUP {
                self.next_waiting()
            } else {
                None
            };
        }
        run("COMMIT")
    }

    /// Sets whether commits wait for the disk.
    fn sync_commits(&self, is_synced: bool) -> Result<(), StoreError> {
        if self.is_synced.get() != is_synced {
            // In WAL mode NORMAL does not sync at a commit. The next FULL commit syncs the earlier
            // ones too.
            let mode = if is_synced { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", mode)?;
            self.is_synced.set(is_synced);
        }
        Ok(())
    }
}

/// Reports to every caller of a group that its write was rolled back.
fn fail_all(answers: Vec<CommitCallback>, error: &StoreError) {
    for answer in answers {
        // The error cannot be cloned. Its code must be preserved, because it determines whether to
        // retry.
        answer(Err(match error {
            StoreError::Sqlite(rusqlite::Error::SqliteFailure(code, message)) => {
                StoreError::Sqlite(rusqlite::Error::SqliteFailure(*code, message.clone()))
            }
            _ => StoreError::Lost,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::sql;

    #[tokio::test]
    async fn a_write_that_fails_undoes_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = SqliteBackend::open(
            &folder.path().join("db"),
            MigrationMode::Auto,
            &Arc::new(DatabaseHealth::new()),
        )
        .unwrap();
        let set = |key: &'static str, fail: bool| {
            sqlite.write(WritePriority::Normal, move |conn| {
                conn.execute(
                    "INSERT INTO meta (name, value) VALUES (?1, ?1)",
                    &[key.into()],
                )?;
                if fail {
                    Err(StoreError::Closed)
                } else {
                    Ok(())
                }
            })
        };
        let (first, kept, undone, also) = tokio::join!(
            set("undone", true),
            set("a", false),
            set("b", true),
            set("c", false)
        );
        assert!(first.is_err() && kept.is_ok() && undone.is_err() && also.is_ok());
        let names: Vec<String> = sqlite
            .read(|conn| {
                sql!("SELECT name FROM meta WHERE name IN ('undone','a','b','c') ORDER BY name")
                    .values(conn)
            })
            .unwrap();
        assert_eq!(names, ["a", "c"]);
    }

    /// The writer's `synchronous`: 1 is NORMAL, 2 is FULL.
    async fn synchronous(sqlite: &SqliteBackend, priority: WritePriority) -> i64 {
        let read = sqlite.write(priority, |conn| sql!("PRAGMA synchronous").value(conn));
        let mode: Result<Option<i64>, StoreError> = read.await;
        mode.unwrap().unwrap()
    }

    #[tokio::test]
    async fn every_write_but_an_unsynced_one_waits_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = SqliteBackend::open(
            &folder.path().join("db"),
            MigrationMode::Auto,
            &Arc::new(DatabaseHealth::new()),
        )
        .unwrap();
        for _ in 0..3 {
            assert_eq!(synchronous(&sqlite, WritePriority::Normal).await, 2);
            assert_eq!(synchronous(&sqlite, WritePriority::Unsynced).await, 1);
            assert_eq!(synchronous(&sqlite, WritePriority::High).await, 2);
        }
        // Waiting writes may share a commit, but not with a write that does not wait for the disk.
        let writes = (0..30).map(|number| match number % 3 {
            0 => WritePriority::Unsynced,
            1 => WritePriority::High,
            _ => WritePriority::Normal,
        });
        let writes = writes.map(async |priority| {
            let is_unsynced = matches!(priority, WritePriority::Unsynced);
            (is_unsynced, synchronous(&sqlite, priority).await)
        });
        for (is_unsynced, mode) in futures_util::future::join_all(writes).await {
            assert!(mode == 2 || is_unsynced, "{mode}");
        }
    }
}
