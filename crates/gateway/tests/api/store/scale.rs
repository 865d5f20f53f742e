//! Durations with a million tasks. Takes minutes:
//! `cargo test --release -p mediagate --test api store::scale -- --ignored --nocapture`,
//! with another number in `MEDIAGATE_SCALE_TASKS`, on Postgres with
//! `MEDIAGATE_SCALE_ON=postgres`.

use std::time::{Duration, Instant};

use mediagate_model::clock::Timestamp;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{AccountId, TaskId};
use mediagate_model::task::{MediaKind, Task, TaskState};
use mediagate_store::tasks::{PageQuery, TaskFilter};
use mediagate_store::usage::DAY_MICROS;
use mediagate_store::{Conn, PgSession, StoreError, accounts, ledger, submissions, tasks, usage};

use crate::support::mismatches;

use super::{Fixture, postgres, sqlite};

type Work = fn(&mut Conn<'_>, AccountId) -> Result<usize, StoreError>;

/// The measured operations, and their limits at a million tasks.
const OPERATIONS: [(&str, Duration, Work); 9] = [
    ("tasks?status=cancelled", SHORT, |conn, account| {
        list_length(conn, account, Some(TaskState::Cancelled), None)
    }),
    ("tasks?status=running", SHORT, |conn, account| {
        list_length(conn, account, Some(TaskState::Running), None)
    }),
    ("tasks?model=none", SHORT, |conn, account| {
        list_length(conn, account, None, Some("none"))
    }),
    ("usage of a month", SHORT, |conn, account| {
        let filter = usage::UsageFilter {
            account,
            from: Timestamp::from_micros(START),
            before: Timestamp::from_micros(START + 31 * DAY_MICROS),
            model: None,
            key: None,
        };
        usage::rows(conn, &filter).map(|rows| rows.len())
    }),
    ("keys and their open tasks", SHORT, |conn, account| {
        accounts::keys_of(conn, account, super::at(0)).map(|keys| keys.len())
    }),
    ("ledger list of an account", SHORT, |conn, account| {
        let filter = ledger::LedgerFilter {
            account: Some(account),
            ..ledger::LedgerFilter::default()
        };
        ledger::newest(conn, &filter, None, 50).map(|entries| entries.len())
    }),
    ("a page of the export", SHORT, |conn, _| {
        let filter = ledger::LedgerFilter {
            after: Some((Timestamp::from_micros(START + DAY_MICROS), String::new())),
            ..ledger::LedgerFilter::default()
        };
        ledger::list(conn, &filter, 1000).map(|entries| entries.len())
    }),
    ("places and submissions at a provider", SHORT, |conn, _| {
        let open = submissions::count_open(conn, "acme")?;
        let recent = submissions::count_since(conn, "acme", Timestamp::from_micros(i64::MAX))?;
        Ok(open.len() + recent.len())
    }),
    ("ledger verify", Duration::from_mins(1), |conn, _| {
        mismatches(conn).map(|found| {
            assert_eq!(found, []);
            found.len()
        })
    }),
];

const SHORT: Duration = Duration::from_millis(100);
/// When the first task was created.
const START: i64 = 1_700_000_000_000_000;

fn list_length(
    conn: &mut Conn<'_>,
    account: AccountId,
    state: Option<TaskState>,
    model: Option<&str>,
) -> Result<usize, StoreError> {
    let filter = TaskFilter {
        kind: model.is_none().then_some(MediaKind::Video),
        state,
        model: model.map(Into::into),
        ..TaskFilter::default()
    };
    let page = PageQuery {
        after: None,
        limit: 21,
        ascending: false,
    };
    tasks::page(conn, account, &filter, page).map(|found| found.len())
}

#[tokio::test]
#[ignore = "a million tasks: minutes"]
async fn costs_stay_low_with_a_million_tasks() {
    let count = std::env::var("MEDIAGATE_SCALE_TASKS").map_or(1_000_000, |text| {
        text.parse().expect("MEDIAGATE_SCALE_TASKS is a number")
    });
    let on_postgres = std::env::var("MEDIAGATE_SCALE_ON").is_ok_and(|name| name == "postgres");
    let db: Fixture = if on_postgres {
        postgres().await
    } else {
        sqlite()
    };
    let started = Instant::now();
    match &db.url {
        Some(url) => fill_postgres(url, count).await,
        None => db.write(move |conn| fill(conn, count)).await,
    }
    println!("{count} tasks written in {:.1?}", started.elapsed());
    let account: AccountId = db
        .read(|conn| {
            conn.one("SELECT MIN(id) FROM accounts", &[], |row| {
                row.parse(0, "id")
            })
        })
        .await
        .unwrap();
    let mut slow = slow_filters(&db, account).await;
    for (name, limit, work) in OPERATIONS {
        // The first one prepares the statement, and reads from the disk.
        let mut best = Duration::MAX;
        for _ in 0..if limit == SHORT { 3 } else { 1 } {
            let started = Instant::now();
            let rows = db.store.long_read(move |conn| work(conn, account));
            let rows = rows.await.unwrap();
            best = best.min(started.elapsed());
            println!("{name:40} {:>12.2?} {rows:>6} rows", started.elapsed());
        }
        if best > limit {
            slow.push(name);
        }
    }
    assert_eq!(slow, <[&str; 0]>::default(), "at {count} tasks");
}

/// Measures the filters of lists, alone and combined: median and 95th percentile.
/// Returns the slow ones.
#[expect(clippy::too_many_lines, reason = "a list of filters")]
async fn slow_filters(db: &Fixture, account: AccountId) -> Vec<&'static str> {
    let any_task = TaskFilter::default;
    let key = "b0000000-0000-7000-8000-000000000000".parse().ok();
    // Search terms that match every task of the account, one in a thousand, and one in twenty.
    let (common, rare, one_in_twenty) = (vec![1], vec![1, 1007], vec![1, 100_007]);
    let filters = [
        ("list", any_task()),
        (
            "kind",
            TaskFilter {
                kind: Some(MediaKind::Music),
                ..any_task()
            },
        ),
        (
            "status",
            TaskFilter {
                state: Some(TaskState::Failed),
                ..any_task()
            },
        ),
        (
            "model",
            TaskFilter {
                model: Some("m3".into()),
                ..any_task()
            },
        ),
        ("key", TaskFilter { key, ..any_task() }),
        (
            "error",
            TaskFilter {
                error: Some(ErrorCode::ContentPolicy),
                ..any_task()
            },
        ),
        (
            "q, in every task",
            TaskFilter {
                terms: common.clone(),
                ..any_task()
            },
        ),
        (
            "q, two words, one rare",
            TaskFilter {
                terms: rare.clone(),
                ..any_task()
            },
        ),
        (
            "q, two words, one in twenty",
            TaskFilter {
                terms: one_in_twenty.clone(),
                ..any_task()
            },
        ),
        (
            "q, in none",
            TaskFilter {
                terms: vec![1, 5000],
                ..any_task()
            },
        ),
        (
            "q status",
            TaskFilter {
                terms: common.clone(),
                state: Some(TaskState::Failed),
                ..any_task()
            },
        ),
        (
            "q key model",
            TaskFilter {
                terms: rare,
                key,
                model: Some("m3".into()),
                ..any_task()
            },
        ),
        (
            "q, one in twenty, key model",
            TaskFilter {
                terms: one_in_twenty,
                key,
                model: Some("m3".into()),
                ..any_task()
            },
        ),
        (
            "kind status model key error q",
            TaskFilter {
                kind: Some(MediaKind::Video),
                state: Some(TaskState::Failed),
                model: Some("m3".into()),
                key,
                error: Some(ErrorCode::ContentPolicy),
                terms: common,
                ..any_task()
            },
        ),
    ];
    let mut slow = Vec::new();
    for (name, filter) in filters {
        slow.extend(measure_list(db, "tasks", name, filter.clone(), Some(account)).await);
        // Search terms belong to an account; a search of all accounts queries each account's list.
        if filter.terms.is_empty() {
            slow.extend(measure_list(db, "admin/tasks", name, filter, None).await);
        }
    }
    for (name, provider, model) in [
        ("provider", "acme", None),
        ("provider, none's", "nobody", None),
        ("provider model", "acme", Some("m3")),
        ("model, none's", "", Some("nothing")),
    ] {
        let filter = TaskFilter {
            provider: (!provider.is_empty()).then(|| provider.to_owned()),
            model: model.map(str::to_owned),
            ..any_task()
        };
        slow.extend(measure_list(db, "admin/tasks", name, filter, None).await);
    }
    slow.extend(measure_search(db).await);
    slow
}

/// A search of all accounts for a word: ten of the thousand have matching tasks.
async fn measure_search(db: &Fixture) -> Option<&'static str> {
    let measurement = measure(db, |conn| {
        tasks::search_of_all(conn, &TaskFilter::default(), PAGE, |account| {
            let number = account.to_string()[24..].parse::<i64>();
            number.map_or_else(|_| Vec::new(), |number| vec![number, 1000 * number + 7])
        })
    });
    report("admin/tasks", "q, two words, one rare", measurement.await)
}

const PAGE: PageQuery<TaskId> = PageQuery {
    after: None,
    limit: 21,
    ascending: false,
};

/// An account's list, or the operator's.
async fn measure_list(
    db: &Fixture,
    list: &str,
    name: &'static str,
    filter: TaskFilter,
    account: Option<AccountId>,
) -> Option<&'static str> {
    let measurement = measure(db, move |conn| match account {
        Some(account) => tasks::page(conn, account, &filter, PAGE),
        None => tasks::page_of_all(conn, &filter, PAGE),
    });
    report(list, name, measurement.await)
}

/// The sorted durations of the same list, and its number of rows.
async fn measure(
    db: &Fixture,
    list: impl Fn(&mut Conn<'_>) -> Result<Vec<Task>, StoreError> + Clone + Send + 'static,
) -> (Vec<Duration>, usize) {
    const TIMES: usize = 40;
    let mut durations = Vec::new();
    let mut rows = 0;
    for _ in 0..TIMES {
        let (list, started) = (list.clone(), Instant::now());
        let page = db.store.long_read(move |conn| list(conn));
        rows = page.await.unwrap().len();
        durations.push(started.elapsed());
    }
    durations.sort_unstable();
    (durations, rows)
}

/// Prints the median and the 95th percentile. Returns the name if the median is too long.
#[expect(clippy::print_stdout, reason = "a measurement for whoever runs it")]
fn report(
    list: &str,
    name: &'static str,
    (durations, rows): (Vec<Duration>, usize),
) -> Option<&'static str> {
    let (median, p95) = (
        durations[durations.len() / 2],
        durations[durations.len() * 19 / 20 - 1],
    );
    let label = format!("{list}?{name}");
    println!("{label:44} p50 {median:>10.2?} p95 {p95:>10.2?} {rows:>4} rows");
    (median > SHORT).then_some(name)
}

/// [`fill`] without the limits on time that a store has.
pub(super) async fn fill_postgres(url: &str, tasks: usize) {
    let url = url.to_owned();
    let filling = tokio::task::spawn_blocking(move || {
        let mut session = PgSession::open(&url).unwrap();
        let mut conn = Conn::Postgres(&mut session);
        fill(&mut conn, tasks).unwrap();
        // As a server does by itself.
        conn.execute("ANALYZE", &[]).unwrap();
    });
    filling.await.unwrap();
}

/// Writes this many tasks, and their related rows.
pub(super) fn fill(conn: &mut Conn<'_>, tasks: usize) -> Result<(), StoreError> {
    let text = include_str!("fill.sql").replace("19999", &(tasks - 1).to_string());
    let statements: &'static str = text.leak();
    for sql in statements
        .split_inclusive(";\n")
        .filter(|sql| sql.contains(';'))
    {
        conn.execute(sql, &[])?;
    }
    Ok(())
}
