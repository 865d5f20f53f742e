//! Migrations, replayed over rows as each version wrote them.

use mediagate::ids::AccountId;
use mediagate::store::migrations::{ALL, insert_samples, run, up_to, version};
use mediagate::store::tasks::{Filter, Page};
use mediagate::store::{
    Conn, Migrate, Session, Store, StoreError, accounts, assets, clips, personas, tasks,
};

use crate::support::mismatches;

/// Every step's samples go through all later steps and still read.
fn replay(step: usize, conn: &mut Conn<'_>) {
    let migration = &ALL[step];
    up_to(conn, migration.version).unwrap();
    assert_eq!(version(conn).unwrap(), migration.version);
    insert_samples(conn, migration).unwrap();
    run(conn).unwrap();
    run(conn).unwrap();
    assert_eq!(version(conn).unwrap(), ALL.last().unwrap().version);
    let keys = accounts::keys(conn).unwrap();
    assert!(!keys.is_empty());
    let account: AccountId = keys[0].0.account;
    let page = |limit| Page {
        after: None,
        limit,
        ascending: false,
    };
    let found = tasks::page(conn, account, &Filter::default(), page(100)).unwrap();
    assert!(!found.is_empty());
    for task in &found {
        tasks::events_after(conn, task.id, 0).unwrap();
    }
    assert_eq!(
        mismatches(conn).unwrap(),
        [],
        "the money of old rows adds up"
    );
    let shown = clips::page(
        conn,
        account,
        false,
        Page {
            after: None,
            limit: 100,
            ascending: false,
        },
    )
    .unwrap();
    let trashed = clips::page(
        conn,
        account,
        true,
        Page {
            after: None,
            limit: 100,
            ascending: false,
        },
    )
    .unwrap();
    assert!(!shown.is_empty() && !trashed.is_empty());
    for clip in shown.iter().chain(&trashed) {
        let media = clip.media.unwrap();
        assert!(assets::by_id(conn, media.audio).unwrap().is_some());
    }
    let found = personas::page(
        conn,
        account,
        Page {
            after: None,
            limit: 100,
            ascending: false,
        },
    )
    .unwrap();
    assert!(!found.is_empty());
}

#[test]
fn old_rows_survive_every_later_step_on_sqlite() {
    for step in 0..ALL.len() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        replay(step, &mut Conn::Sqlite(&connection));
    }
}

#[tokio::test]
async fn old_rows_survive_every_later_step_on_postgres() {
    for step in 0..ALL.len() {
        let database = crate::support::postgres::TestDatabase::create().await;
        let url = database.url.clone();
        let replayed = std::thread::spawn(move || {
            let mut session = Session::open(&url).unwrap();
            replay(step, &mut Conn::Postgres(&mut session));
        });
        assert!(replayed.join().is_ok());
    }
}

/// Older versions could submit a task twice; that stays to be seen.
#[test]
fn a_task_that_was_submitted_twice_is_no_hindrance() {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    let mut conn = Conn::Sqlite(&connection);
    up_to(&mut conn, 8).unwrap();
    insert_samples(&mut conn, &ALL[7]).unwrap();
    connection
        .execute_batch(
            "INSERT INTO submissions (id, task_id, attempt, provider, route_model, credential, state, created_at)
             SELECT 'twice', task_id, 3, provider, route_model, credential, 'unclear', created_at
             FROM submissions WHERE state = 'accepted'",
        )
        .unwrap();
    run(&mut conn).unwrap();
    let marked: Vec<(String, i64)> = connection
        .prepare("SELECT state, surplus FROM submissions ORDER BY attempt")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let marked: Vec<_> = marked.iter().map(|(s, n)| (s.as_str(), *n)).collect();
    assert_eq!(marked, [("refused", 0), ("accepted", 1), ("unclear", 0)]);
}

#[test]
fn a_database_of_a_newer_version_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    drop(Store::sqlite(&path, Migrate::Auto).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute(
            "UPDATE meta SET value = '9999' WHERE name IN ('schema', 'oldest_reader')",
            [],
        )
        .unwrap();
    assert!(matches!(
        Store::sqlite(&path, Migrate::Auto),
        Err(StoreError::TooNew { found: 9999, .. })
    ));
}

#[test]
fn a_database_with_more_in_it_is_used_by_a_program_that_it_says_it_suits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    drop(Store::sqlite(&path, Migrate::Auto).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute("UPDATE meta SET value = '9999' WHERE name = 'schema'", [])
        .unwrap();
    for migrate in [Migrate::Auto, Migrate::Never] {
        drop(Store::sqlite(&path, migrate).unwrap());
    }
    let schema = connection.query_row("SELECT value FROM meta WHERE name = 'schema'", [], |row| {
        row.get::<_, String>(0)
    });
    assert_eq!(schema.unwrap(), "9999");
}

#[test]
fn a_process_that_may_not_migrate_says_who_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let error = Store::sqlite(&path, Migrate::Never).err().unwrap();
    assert!(error.to_string().contains("mediagate migrate"), "{error}");
    drop(Store::sqlite(&path, Migrate::Auto).unwrap());
    drop(Store::sqlite(&path, Migrate::Never).unwrap());
}
