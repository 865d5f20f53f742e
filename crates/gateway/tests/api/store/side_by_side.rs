//! Interactions of several connections and processes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use mediagate_model::database::{DatabaseOptions, MigrationMode};
use mediagate_model::ids::AccountId;
use mediagate_store::{Conn, PgSession, Store, StoreError};

fn set(conn: &mut Conn<'_>, name: &str, value: &str) -> Result<(), StoreError> {
    let sql = "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    conn.execute(sql, &[name.into(), value.into()]).map(drop)
}

async fn names(store: &Store, pattern: &'static str) -> Vec<String> {
    let sql = "SELECT name FROM meta WHERE name LIKE ?1 ORDER BY name";
    let reading = store.read(move |conn| conn.all(sql, &[pattern.into()], |row| row.text(0)));
    reading.await.unwrap()
}

#[tokio::test]
async fn a_busy_sqlite_lets_another_process_write_in_its_turn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let busy_store = Store::sqlite(&path, MigrationMode::Auto).unwrap();
    let write_count = Arc::new(AtomicUsize::new(0));
    let (store, count) = (busy_store.clone(), write_count.clone());
    let writer = tokio::spawn(async move {
        loop {
            let write = store.write(|conn| set(conn, "busy", "1"));
            write.await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    // Opens the store while another process writes to it, as a command does.
    let other_store = Store::sqlite(&path, MigrationMode::Auto).unwrap();
    let before = write_count.load(Ordering::SeqCst);
    for _ in 0..20 {
        other_store
            .write(|conn| set(conn, "other", "1"))
            .await
            .unwrap();
    }
    // One or two writes for each of the 20, unless a busy machine delays one of the threads.
    let writes_meanwhile = write_count.load(Ordering::SeqCst) - before;
    assert!(
        writes_meanwhile < 2000,
        "{writes_meanwhile} writes went ahead of 20"
    );
    writer.abort();
}

#[tokio::test]
async fn writes_of_one_account_share_a_commit_and_undo_only_themselves() {
    crate::support::client::install_tls();
    let database = crate::support::postgres::TestDatabase::create().await;
    let store = Store::postgres(&database.url, DatabaseOptions::default()).unwrap();
    let account = AccountId::new();
    let writes = (0..60).map(|number| {
        store.write_for(account, move |conn| {
            set(conn, &format!("w{number:02}"), "1")?;
            match number % 3 {
                0 => Err(StoreError::Closed),
                // A statement that the database refuses.
                1 => conn.one("INSERT INTO meta (name) VALUES ('broken')", &[], |row| {
                    row.text(0)
                }),
                _ => conn.one("SELECT pg_current_xact_id()::text", &[], |row| row.text(0)),
            }
        })
    });
    let results = futures_util::future::join_all(writes).await;
    for (number, result) in results.iter().enumerate() {
        assert_eq!(result.is_ok(), number % 3 == 2, "{number}: {result:?}");
    }
    let expected: Vec<_> = (0..60)
        .filter(|n| n % 3 == 2)
        .map(|n| format!("w{n:02}"))
        .collect();
    assert_eq!(names(&store, "w%").await, expected);
    let transaction_ids = results.into_iter().filter_map(Result::ok);
    let transactions: std::collections::BTreeSet<_> = transaction_ids.collect();
    assert!(transactions.len() < 10, "{transactions:?}");
}

/// A write may fail because of an earlier write in its group, and its caller then looks for what
/// that one wrote.
#[tokio::test]
async fn a_write_that_came_second_fails_after_the_first_is_committed() {
    crate::support::client::install_tls();
    let database = crate::support::postgres::TestDatabase::create().await;
    let store = Store::postgres(&database.url, DatabaseOptions::default()).unwrap();
    let account = AccountId::new();
    for round in 0..10 {
        let name = format!("first{round}");
        let writes = (0..8).map(async |_| {
            let taken = name.clone();
            let write = store.write_for(account, move |conn| {
                let sql =
                    "INSERT INTO meta (name, value) VALUES (?1, '1') ON CONFLICT (name) DO NOTHING";
                match conn.execute(sql, &[(&taken).into()])? {
                    1 => Ok(()),
                    _ => Err(StoreError::Closed),
                }
            });
            let is_first = write.await.is_ok();
            let sought = name.clone();
            let sql = "SELECT value FROM meta WHERE name = ?1";
            let reading =
                store.read(move |conn| conn.one(sql, &[(&sought).into()], |row| row.text(0)));
            assert!(reading.await.unwrap().is_some(), "{name} is not committed");
            is_first
        });
        let results = futures_util::future::join_all(writes).await;
        let first_writes = results.into_iter().filter(|is_first| *is_first);
        assert_eq!(first_writes.count(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_write_is_repeated_after_a_deadlock() {
    crate::support::client::install_tls();
    let database = crate::support::postgres::TestDatabase::create().await;
    detect_deadlocks_early(&database.url).await;
    let store = Store::postgres(&database.url, DatabaseOptions::default()).unwrap();
    store
        .write(|conn| set(conn, "a", "0").and(set(conn, "b", "0")))
        .await
        .unwrap();
    // On a busy machine a write may time out, which is an error of its own.
    let mut timeouts = 0;
    while let Err(error) = cause_deadlock(&store).await {
        assert!(error.is_unavailable(), "{error}");
        timeouts += 1;
        assert!(timeouts < 10, "no write was repeated after a deadlock");
    }
}

/// Two writes that wait for each other, one of which Postgres aborts.
async fn cause_deadlock(store: &Store) -> Result<(), StoreError> {
    let run_count = Arc::new((Mutex::new(0), Condvar::new()));
    let write = |first: &'static str, second: &'static str| {
        let run_count = run_count.clone();
        store.write(move |conn| -> Result<(), StoreError> {
            set(conn, first, "1")?;
            let (runs, changed) = &*run_count;
            let mut count = runs.lock().unwrap();
            *count += 1;
            changed.notify_all();
            let wait = changed.wait_timeout_while(count, Duration::from_secs(1), |runs| *runs < 2);
            if wait.unwrap().1.timed_out() {
                return Err(StoreError::TimedOut);
            }
            set(conn, second, "1")
        })
    };
    let (first, second) = tokio::join!(write("a", "b"), write("b", "a"));
    first?;
    second?;
    // Two writes and one repetition, or more if a lock also times out on a slow machine.
    assert!(
        *run_count.0.lock().unwrap() >= 3,
        "the aborted write ran again"
    );
    Ok(())
}

/// By default Postgres checks for deadlocks after a second, which is most of a write's
/// time limit.
async fn detect_deadlocks_early(url: &str) {
    let url = url.to_owned();
    let setting = tokio::task::spawn_blocking(move || {
        let mut session = PgSession::open(&url)?;
        let sql = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = 50', current_database()); END $$";
        Conn::Postgres(&mut session).execute(sql, &[]).map(drop)
    });
    setting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_heartbeat_passes_a_store_with_no_free_connection() {
    crate::support::client::install_tls();
    let database = crate::support::postgres::TestDatabase::create().await;
    let options = DatabaseOptions {
        connections: 3,
        ..DatabaseOptions::default()
    };
    let store = Store::postgres(&database.url, options).unwrap();
    let (release, release_rx) = crossbeam_channel::bounded::<()>(0);
    let started = Arc::new(std::sync::Barrier::new(3));
    let blocked_reads: Vec<_> = (0..2)
        .map(|_| {
            let (release_rx, started, store) = (release_rx.clone(), started.clone(), store.clone());
            tokio::spawn(async move {
                let read = store.read(move |_| -> Result<(), StoreError> {
                    started.wait();
                    let _ = release_rx.recv();
                    Ok(())
                });
                read.await
            })
        })
        .collect();
    tokio::task::spawn_blocking(move || started.wait())
        .await
        .unwrap();
    store
        .write_heartbeat(|conn| set(conn, "beat", "1"))
        .await
        .unwrap();
    drop(release);
    for read in blocked_reads {
        read.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn too_many_waiting_reads_are_rejected() {
    crate::support::client::install_tls();
    let database = crate::support::postgres::TestDatabase::create().await;
    let options = DatabaseOptions {
        connections: 2,
        ..DatabaseOptions::default()
    };
    let store = Store::postgres(&database.url, options).unwrap();
    let reads = (0..1500).map(|_| store.read(|_| Ok::<_, StoreError>(())));
    let results = futures_util::future::join_all(reads).await;
    let refused = results
        .iter()
        .filter(|result| matches!(result, Err(StoreError::Busy)));
    assert!(refused.count() > 0);
    assert!(results.iter().any(Result::is_ok));
}
