//! What things cost with a million tasks. Takes minutes:
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

/// What is measured, and the time that it may take at a million tasks.
const MEASURED: [(&str, Duration, Work); 9] = [
    ("tasks?status=cancelled", SHORT, |conn, account| {
        listed(conn, account, Some(TaskState::Cancelled), None)
    }),
    ("tasks?status=running", SHORT, |conn, account| {
        listed(conn, account, Some(TaskState::Running), None)
    }),
    ("tasks?model=none", SHORT, |conn, account| {
        listed(conn, account, None, Some("none"))
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
        ledger::newest(conn, &filter, 50).map(|entries| entries.len())
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
        let lately = submissions::count_since(conn, "acme", Timestamp::from_micros(i64::MAX))?;
        Ok(open.len() + lately.len())
    }),
    ("ledger verify", Duration::from_mins(1), |conn, _| {
        mismatches(conn).map(|found| {
            assert_eq!(found, []);
            found.len()
        })
    }),
];

const SHORT: Duration = Duration::from_millis(100);
/// When the first task was made.
const START: i64 = 1_700_000_000_000_000;

fn listed(
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
async fn nothing_costs_more_because_there_is_much() {
    let count = std::env::var("MEDIAGATE_SCALE_TASKS").map_or(1_000_000, |text| {
        text.parse().expect("MEDIAGATE_SCALE_TASKS is a number")
    });
    let on_postgres = std::env::var("MEDIAGATE_SCALE_ON").is_ok_and(|name| name == "postgres");
    let db: Fixture = if on_postgres {
        postgres().await
    } else {
        sqlite()
    };
    let began = Instant::now();
    match &db.url {
        Some(url) => fill_postgres(url, count).await,
        None => db.write(move |conn| fill(conn, count)).await,
    }
    println!("{count} tasks written in {:.1?}", began.elapsed());
    let account: AccountId = db
        .read(|conn| {
            conn.one("SELECT MIN(id) FROM accounts", &[], |row| {
                row.parse(0, "id")
            })
        })
        .await
        .unwrap();
    let mut slow = of_filters(&db, account).await;
    for (name, most, work) in MEASURED {
        // The first one prepares the statement, and reads from the disk.
        let mut best = Duration::MAX;
        for _ in 0..if most == SHORT { 3 } else { 1 } {
            let began = Instant::now();
            let rows = db.store.long_read(move |conn| work(conn, account));
            let rows = rows.await.unwrap();
            best = best.min(began.elapsed());
            println!("{name:40} {:>12.2?} {rows:>6} rows", began.elapsed());
        }
        if best > most {
            slow.push(name);
        }
    }
    assert_eq!(slow, <[&str; 0]>::default(), "at {count} tasks");
}

/// How long the filters of lists take, alone and together, at the median and at worst but one in
/// twenty. Returns those that take too long.
#[expect(clippy::too_many_lines, reason = "a list of filters")]
async fn of_filters(db: &Fixture, account: AccountId) -> Vec<&'static str> {
    let plain = TaskFilter::default;
    let key = "b0000000-0000-7000-8000-000000000000".parse().ok();
    // Words that every task of the account has, one in a thousand, and one in twenty.
    let (common, rare, some) = (vec![1], vec![1, 1007], vec![1, 100_007]);
    let filters = [
        ("list", plain()),
        (
            "kind",
            TaskFilter {
                kind: Some(MediaKind::Music),
                ..plain()
            },
        ),
        (
            "status",
            TaskFilter {
                state: Some(TaskState::Failed),
                ..plain()
            },
        ),
        (
            "model",
            TaskFilter {
                model: Some("m3".into()),
                ..plain()
            },
        ),
        ("key", TaskFilter { key, ..plain() }),
        (
            "error",
            TaskFilter {
                error: Some(ErrorCode::ContentPolicy),
                ..plain()
            },
        ),
        (
            "q, in every task",
            TaskFilter {
                terms: common.clone(),
                ..plain()
            },
        ),
        (
            "q, two words, one rare",
            TaskFilter {
                terms: rare.clone(),
                ..plain()
            },
        ),
        (
            "q, two words, one in twenty",
            TaskFilter {
                terms: some.clone(),
                ..plain()
            },
        ),
        (
            "q, in none",
            TaskFilter {
                terms: vec![1, 5000],
                ..plain()
            },
        ),
        (
            "q status",
            TaskFilter {
                terms: common.clone(),
                state: Some(TaskState::Failed),
                ..plain()
            },
        ),
        (
            "q key model",
            TaskFilter {
                terms: rare,
                key,
                model: Some("m3".into()),
                ..plain()
            },
        ),
        (
            "q, one in twenty, key model",
            TaskFilter {
                terms: some,
                key,
                model: Some("m3".into()),
                ..plain()
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
                ..plain()
            },
        ),
    ];
    let mut slow = Vec::new();
    for (name, filter) in filters {
        slow.extend(timed(db, "tasks", name, filter.clone(), Some(account)).await);
        // Words are an account's; a search of all asks each account's list for them.
        if filter.terms.is_empty() {
            slow.extend(timed(db, "admin/tasks", name, filter, None).await);
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
            ..plain()
        };
        slow.extend(timed(db, "admin/tasks", name, filter, None).await);
    }
    slow.extend(timed_search(db).await);
    slow
}

/// A search of all accounts for a word: of the thousand, ten have the tasks.
async fn timed_search(db: &Fixture) -> Option<&'static str> {
    let took = measured(db, |conn| {
        tasks::search_of_all(conn, &TaskFilter::default(), PAGE, |account| {
            let number = account.to_string()[24..].parse::<i64>();
            number.map_or_else(|_| Vec::new(), |number| vec![number, 1000 * number + 7])
        })
    });
    say("admin/tasks", "q, two words, one rare", took.await)
}

const PAGE: PageQuery<TaskId> = PageQuery {
    after: None,
    limit: 21,
    ascending: false,
};

/// An account's list, or the operator's.
async fn timed(
    db: &Fixture,
    list: &str,
    name: &'static str,
    filter: TaskFilter,
    account: Option<AccountId>,
) -> Option<&'static str> {
    let took = measured(db, move |conn| match account {
        Some(account) => tasks::page(conn, account, &filter, PAGE),
        None => tasks::page_of_all(conn, &filter, PAGE),
    });
    say(list, name, took.await)
}

/// Times of the same list, sorted, and how many rows it has.
async fn measured(
    db: &Fixture,
    list: impl Fn(&mut Conn<'_>) -> Result<Vec<Task>, StoreError> + Clone + Send + 'static,
) -> (Vec<Duration>, usize) {
    const TIMES: usize = 40;
    let mut took = Vec::new();
    let mut rows = 0;
    for _ in 0..TIMES {
        let (list, began) = (list.clone(), Instant::now());
        let found = db.store.long_read(move |conn| list(conn));
        rows = found.await.unwrap().len();
        took.push(began.elapsed());
    }
    took.sort_unstable();
    (took, rows)
}

/// Prints the median and the worst but one in twenty. Returns the name if that takes too long.
#[expect(clippy::print_stdout, reason = "a measurement, which is read")]
fn say(
    list: &str,
    name: &'static str,
    (took, rows): (Vec<Duration>, usize),
) -> Option<&'static str> {
    let (half, most) = (took[took.len() / 2], took[took.len() * 19 / 20 - 1]);
    let name_of = format!("{list}?{name}");
    println!("{name_of:44} p50 {half:>10.2?} p95 {most:>10.2?} {rows:>4} rows");
    (half > SHORT).then_some(name)
}

/// [`fill`] without the limits on time that a store has.
pub(super) async fn fill_postgres(url: &str, tasks: usize) {
    let url = url.to_owned();
    let filled = tokio::task::spawn_blocking(move || {
        let mut session = PgSession::open(&url).unwrap();
        let mut conn = Conn::Postgres(&mut session);
        fill(&mut conn, tasks).unwrap();
        // As a server does by itself.
        conn.execute("ANALYZE", &[]).unwrap();
    });
    filled.await.unwrap();
}

/// Writes so many tasks, and what goes with them.
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
