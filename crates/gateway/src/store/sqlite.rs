//! `SQLite`: one writer thread that groups commits, and readers beside it.
//!
//! `synchronous=FULL` makes each commit wait for the disk. So the writer takes
//! every write that is waiting, runs all in one transaction, each behind a
//! savepoint of its own, and commits once: callers share the wait, and no caller
//! is answered before its own write is on disk. Measured in `benches/submit.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::store::{Conn, Stamp, StoreError, migrations};

/// Most writes that one commit carries, so that the first is not kept waiting
/// by an endless queue.
const GROUP: usize = 256;

/// How many pages the write-ahead log has when they are copied into the database.
/// With `SQLite`'s own 1,000 that is more than ten times a second under load, and
/// most of these pages are written again soon; 16 MB are read as fast.
const CHECKPOINT: u32 = 4000;

/// What a write does once it is known whether it is on disk.
type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// A write: runs inside the transaction; says whether to keep what it did.
type Write = Box<dyn FnOnce(&mut Conn<'_>) -> (bool, Answer) + Send>;

pub(super) struct Sqlite {
    path: PathBuf,
    /// The write-ahead log beside it.
    log: PathBuf,
    writes: crossbeam_channel::Sender<Write>,
    readers: Mutex<Vec<Connection>>,
}

impl Sqlite {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let writer = connect(path)?;
        writer.pragma_update(None, "journal_mode", "WAL")?;
        writer.pragma_update(None, "synchronous", "FULL")?;
        writer.pragma_update(None, "wal_autocheckpoint", CHECKPOINT)?;
        writer.execute_batch("BEGIN IMMEDIATE")?;
        migrations::run(&mut Conn::Sqlite(&writer))?;
        writer.execute_batch("COMMIT")?;
        let (writes, queue) = crossbeam_channel::bounded(4 * GROUP);
        std::thread::Builder::new()
            .name("sqlite-writer".into())
            .spawn(move || write_in_groups(&writer, &queue))
            .map_err(|_| StoreError::Closed)?;
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Ok(Self {
            path: path.to_owned(),
            log: log.into(),
            writes,
            readers: Mutex::default(),
        })
    }

    pub(super) async fn write<T, E>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let write: Write = Box::new(move |conn| {
            let result = work(conn);
            let keep = result.is_ok();
            // A caller that hung up has nobody to tell.
            let tell = move |committed: Result<(), StoreError>| {
                drop(answer.send(committed.map_err(E::from).and(result)));
            };
            (keep, Box::new(tell))
        });
        // A full queue means the disk is far behind; waiting here is the
        // back-pressure, off the async threads.
        if let Err(refused) = self.writes.try_send(write) {
            let writes = self.writes.clone();
            tokio::task::spawn_blocking(move || writes.send(refused.into_inner()))
                .await
                .map_err(|_| StoreError::Closed)?
                .map_err(|_| StoreError::Closed)?;
        }
        answered.await.map_err(|_| StoreError::Closed)?
    }

    /// Every commit writes to the write-ahead log.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        let log = std::fs::metadata(&self.log).ok()?;
        Some(Stamp(log.modified().ok()?, log.len()))
    }

    pub(super) fn read<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let idle = self
            .readers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let reader = match idle {
            Some(reader) => reader,
            None => connect(&self.path)?,
        };
        let result = work(&mut Conn::Sqlite(&reader));
        self.readers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(reader);
        result
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let conn = Connection::open(path)?;
    // Another process (the `keys` command) may hold the write lock for a moment.
    conn.busy_timeout(Duration::from_secs(10))?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    // Otherwise a statement that a partial index may serve is planned anew each
    // time that one of its parameters changes.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.set_prepared_statement_cache_capacity(256);
    Ok(conn)
}

fn write_in_groups(writer: &Connection, queue: &crossbeam_channel::Receiver<Write>) {
    while let Ok(first) = queue.recv() {
        let mut answers = Vec::new();
        let committed = write_group(writer, first, queue, &mut answers);
        if committed.is_err() && !writer.is_autocommit() {
            drop(writer.execute_batch("ROLLBACK"));
        }
        match committed {
            Ok(()) => answers.into_iter().for_each(|answer| answer(Ok(()))),
            Err(error) => fail_all(answers, &error),
        }
    }
}

fn write_group(
    writer: &Connection,
    first: Write,
    queue: &crossbeam_channel::Receiver<Write>,
    answers: &mut Vec<Answer>,
) -> Result<(), StoreError> {
    let run = |sql| -> Result<(), StoreError> {
        writer.prepare_cached(sql)?.execute([])?;
        Ok(())
    };
    // When even this fails the writes are dropped, and their callers told so.
    run("BEGIN IMMEDIATE")?;
    // The first write has the transaction to itself and needs no savepoint, inside
    // which every page is copied before it changes.
    let mut is_alone = true;
    let mut next = Some(first);
    let mut done = 0;
    while let Some(write) = next {
        if !is_alone {
            run("SAVEPOINT one")?;
        }
        // A bug in one write must not end the thread that all others need; its
        // caller learns of it by the answer that never comes.
        let outcome = catch_unwind(AssertUnwindSafe(|| write(&mut Conn::Sqlite(writer))));
        let keep = outcome.as_ref().is_ok_and(|(keep, _)| *keep);
        answers.extend(outcome.map(|(_, answer)| answer));
        match (is_alone, keep) {
            (true, true) => is_alone = false,
            (true, false) => {
                run("ROLLBACK")?;
                run("BEGIN IMMEDIATE")?;
            }
            (false, true) => run("RELEASE one")?,
            (false, false) => {
                run("ROLLBACK TO one")?;
                run("RELEASE one")?;
            }
        }
        done += 1;
        next = if done < GROUP {
            queue.try_recv().ok()
        } else {
            None
        };
    }
    run("COMMIT")
}

/// Tells every caller of a group that nothing of it was kept.
fn fail_all(answers: Vec<Answer>, error: &StoreError) {
    tracing::error!(%error, "a group of writes was not committed");
    for answer in answers {
        answer(Err(match error {
            StoreError::Sqlite(rusqlite::Error::SqliteFailure(code, message)) => {
                StoreError::Sqlite(rusqlite::Error::SqliteFailure(*code, message.clone()))
            }
            _ => StoreError::Closed,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_write_that_fails_undoes_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = Sqlite::open(&folder.path().join("db")).unwrap();
        let set = |key: &'static str, fail: bool| {
            sqlite.write(move |conn| {
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
                conn.all(
                    "SELECT name FROM meta WHERE name IN ('undone','a','b','c') ORDER BY name",
                    &[],
                    |row| row.text(0),
                )
            })
            .unwrap();
        assert_eq!(names, ["a", "c"]);
    }
}
