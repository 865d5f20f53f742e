//! Migrations, replayed over rows as each version wrote them.

use mediagate_model::database::MigrationMode;
use mediagate_model::ids::AccountId;
use mediagate_store::migrations::{ALL, run, sample, version};
use mediagate_store::tasks::{PageQuery, TaskFilter};
use mediagate_store::{
    Conn, PgSession, Store, StoreError, accounts, assets, clips, personas, submissions, tasks,
};

use crate::support::mismatches;

/// The samples of every migration pass all later ones and can be read.
fn replay(from: i64, conn: &mut Conn<'_>) {
    sample(conn, from).unwrap();
    assert_eq!(version(conn).unwrap(), from);
    run(conn).unwrap();
    run(conn).unwrap();
    assert_eq!(version(conn).unwrap(), ALL.last().unwrap().version);
    let keys = accounts::keys(conn).unwrap();
    assert!(!keys.is_empty());
    let account: AccountId = keys[0].0.account;
    let page = |limit| PageQuery {
        after: None,
        limit,
        ascending: false,
    };
    let rows = tasks::page(conn, account, &TaskFilter::default(), page(100)).unwrap();
    assert!(!rows.is_empty());
    let all = PageQuery {
        after: None,
        limit: 100,
        ascending: false,
    };
    let sent = submissions::page(conn, None, all).unwrap();
    assert!(sent.iter().all(|record| record.resolution.is_none()));
    for task in &rows {
        tasks::events_after(conn, task.id, 0).unwrap();
    }
    assert_eq!(
        mismatches(conn).unwrap(),
        [],
        "the money of old rows adds up"
    );
    let listed = clips::page(
        conn,
        account,
        false,
        PageQuery {
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
        PageQuery {
            after: None,
            limit: 100,
            ascending: false,
        },
    )
    .unwrap();
    assert!(!listed.is_empty() && !trashed.is_empty());
    for clip in listed.iter().chain(&trashed) {
        let media = clip.media.unwrap();
        assert!(assets::by_id(conn, media.audio).unwrap().is_some());
    }
    let rows = personas::page(
        conn,
        account,
        PageQuery {
            after: None,
            limit: 100,
            ascending: false,
        },
    )
    .unwrap();
    assert!(!rows.is_empty());
}

#[test]
fn old_rows_survive_every_later_step_on_sqlite() {
    for from in ALL.iter().map(|step| step.version) {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        replay(from, &mut Conn::Sqlite(&connection));
    }
}

#[tokio::test]
async fn old_rows_survive_every_later_step_on_postgres() {
    for from in ALL.iter().map(|step| step.version) {
        let database = crate::support::postgres::TestDatabase::create().await;
        let url = database.url.clone();
        let replayed = std::thread::spawn(move || {
            let mut session = PgSession::open(&url).unwrap();
            replay(from, &mut Conn::Postgres(&mut session));
        });
        assert!(replayed.join().is_ok());
    }
}

/// The tables with options that only one of the databases supports.
const TREES: [&str; 4] = ["moderation_sums", "requests", "task_events", "task_words"];
const UNLOGGED: [&str; 3] = ["rate_grants", "replicas", "turns"];

#[test]
fn tables_without_rowid_are_so_on_sqlite() {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    run(&mut Conn::Sqlite(&connection)).unwrap();
    let mut tables = connection
        .prepare("SELECT name FROM pragma_table_list WHERE wr = 1 ORDER BY name")
        .unwrap();
    let tables: Vec<String> = tables
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(tables, TREES);
}

#[tokio::test]
async fn unlogged_tables_are_so_on_postgres() {
    let database = crate::support::postgres::TestDatabase::create().await;
    let url = database.url.clone();
    let reader = std::thread::spawn(move || {
        let mut session = PgSession::open(&url).unwrap();
        let mut conn = Conn::Postgres(&mut session);
        run(&mut conn).unwrap();
        conn.all(
            "SELECT CAST(relname AS TEXT) FROM pg_class WHERE relpersistence = 'u' AND relkind = 'r' ORDER BY relname",
            &[],
            |row| row.text(0),
        )
    });
    let tables: Result<Vec<String>, StoreError> = reader.join().unwrap();
    assert_eq!(tables.unwrap(), UNLOGGED);
}

#[test]
fn a_database_of_a_newer_version_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    drop(Store::sqlite(&path, MigrationMode::Auto).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute(
            "UPDATE meta SET value = '9999' WHERE name IN ('schema', 'oldest_reader')",
            [],
        )
        .unwrap();
    assert!(matches!(
        Store::sqlite(&path, MigrationMode::Auto),
        Err(StoreError::TooNew { found: 9999, .. })
    ));
}

#[test]
fn a_newer_database_is_used_if_it_permits_this_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    drop(Store::sqlite(&path, MigrationMode::Auto).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute("UPDATE meta SET value = '9999' WHERE name = 'schema'", [])
        .unwrap();
    for migrate in [MigrationMode::Auto, MigrationMode::Never] {
        drop(Store::sqlite(&path, migrate).unwrap());
    }
    let schema = connection.query_row("SELECT value FROM meta WHERE name = 'schema'", [], |row| {
        row.get::<_, String>(0)
    });
    assert_eq!(schema.unwrap(), "9999");
}

#[test]
fn a_process_that_may_not_migrate_names_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let error = Store::sqlite(&path, MigrationMode::Never).err().unwrap();
    assert!(error.to_string().contains("mediagate migrate"), "{error}");
    drop(Store::sqlite(&path, MigrationMode::Auto).unwrap());
    drop(Store::sqlite(&path, MigrationMode::Never).unwrap());
}
