//! Query plans of each statement on large databases: none reads a
//! growing table from end to end, and none sorts without a bound.
//!
//! The statements are not listed by hand: they are recorded while the
//! store's own tests, which call each of its functions, run.

use std::collections::{BTreeMap, BTreeSet};

use mediagate_model::account::{ApiKey, BudgetPeriod, CallerCredential};
use mediagate_model::audit::{Actor, ActorKind, AuditEntry};
use mediagate_model::clock::Timestamp;
use mediagate_model::database::{DatabaseOptions, MigrationMode};
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{
    AccountId, AssetId, AuditId, ClipId, IntentId, KeyId, RequestId, SubmissionId,
};
use mediagate_model::intent::RequestFingerprint;
use mediagate_model::money::MicroDollars;
use mediagate_model::route::{RouteError, StoredRouteState};
use mediagate_model::submission::{JobCost, SubmissionFilter};
use mediagate_model::task::{MediaKind, Task, TaskState};
use mediagate_store::statement_log::{self, StatementLog, StatementParameter};
use mediagate_store::tasks::PageQuery;
use mediagate_store::{
    Conn, DatabaseLocation, Store, StoreError, accounts, assets, audit, clips, feed, hourly_sums,
    intents, ledger, meta, restored, routes, sessions, submissions, tasks, workers,
};
use providers::JobHandle;
use serde_json::Value;

use super::at;
use super::scale::{fill, fill_postgres};

/// Tables that grow with the business.
const GROWING_TABLES: [&str; 25] = [
    "hourly_sums",
    "attributed_sums",
    "end_users",
    "end_user_limits",
    "budget_alerts",
    "audit",
    "prints",
    "print_keys",
    "task_words",
    "accounts",
    "api_keys",
    "tasks",
    "task_events",
    "assets",
    "clips",
    "personas",
    "submissions",
    "ledger",
    "intents",
    "webhook_endpoints",
    "webhook_events",
    "webhook_deliveries",
    "webhook_attempts",
    "requests",
    "moderation_sums",
];

/// Indexes that stay small, however much is stored: work that waits or is held.
const SMALL: [&str; 19] = [
    "tasks_open",
    "tasks_free",
    "tasks_free_upstream",
    "tasks_free_begun",
    "tasks_held",
    "tasks_pending_approval",
    "tasks_of_user",
    "tasks_cancelled_and_held",
    "tasks_cancelled_and_held_of",
    "submissions_stray",
    "submissions_unclear",
    "submissions_unconfirmed",
    "submissions_taking_place",
    "assets_expiring",
    "assets_deleting",
    "intents_open",
    "webhook_deliveries_due",
    "webhook_deliveries_in_lane",
    "webhook_deliveries_held",
];

/// Statements that may read a whole table, and why.
const ALLOWED_SCANS: [(&str, &str); 10] = [
    (
        "FROM requests GROUP BY account_id",
        "upkeep removes what is too much of an account; the log is bounded",
    ),
    (
        "CAST(MAX(at) AS BIGINT) FROM requests WHERE id >=",
        "the operator's count of errors in a span of time; the log is bounded",
    ),
    (
        "FROM accounts a ORDER BY a.created_at",
        "the operator's list of accounts",
    ),
    (
        "SELECT id FROM accounts",
        "the operator's search asks each account's list",
    ),
    (
        "FROM api_keys k JOIN accounts",
        "the operator's list of keys",
    ),
    (
        "(SELECT COUNT(*) FROM ledger)",
        "the command `ledger verify` says how many",
    ),
    (
        "FROM (SELECT MIN(day) AS day FROM daily_sums",
        "the first of an index",
    ),
    (
        "FROM webhook_endpoints ORDER BY id",
        "the operator's list of endpoints",
    ),
    ("DISTINCT lease_owner", "the tasks that are held"),
    (
        "SELECT id, model, created_at FROM tasks WHERE lease_owner",
        "the operator's list of a restored backup's open tasks",
    ),
];

/// Maximum number of rows that may be sorted: a page, a task's entries, a key's models.
const MAX_SORTED_ROWS: u64 = 2000;

#[tokio::test]
async fn every_statement_uses_an_index() {
    let log = record_statements().await;
    let mut problems = on_sqlite(&log).await;
    let texts: Vec<(String, Vec<StatementParameter>)> = log
        .statements
        .iter()
        .map(|(sql, values)| {
            let sql = log.on_postgres.get(sql).unwrap_or(sql);
            ((*sql).to_owned(), values.clone())
        })
        .collect();
    crate::support::client::install_tls();
    let database = crate::support::postgres::TestDatabase::create().await;
    let url = database.url.clone();
    let store = Store::postgres(&url, DatabaseOptions::default()).unwrap();
    drop(store);
    fill_postgres(&url, TASKS).await;
    let postgres_problems = tokio::task::spawn_blocking(move || on_postgres(&url, &texts));
    problems.extend(postgres_problems.await.unwrap());
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// Runs the store's tests, and returns the statements that they executed.
async fn record_statements() -> StatementLog {
    statement_log::begin();
    super::contract::all_on_sqlite().await;
    super::intents::all_on_sqlite().await;
    super::money::all_on_sqlite().await;
    super::accounting::all_on_sqlite().await;
    super::approvals::all_on_sqlite().await;
    super::records::all_on_sqlite().await;
    super::upkeep::all_on_sqlite().await;
    super::rates::all_on_sqlite().await;
    super::prints::all_on_sqlite().await;
    super::turns::all_on_sqlite().await;
    super::webhooks::all_on_sqlite().await;
    super::key_ends::all_on_sqlite().await;
    super::end_users::all_on_sqlite().await;
    super::request_log::all_on_sqlite().await;
    super::moderation::all_on_sqlite().await;
    super::sqlite().write(the_rest).await;
    let log = statement_log::end();
    let lists = log
        .statements
        .keys()
        .filter(|sql| sql.contains("FROM task_words o"));
    assert_eq!(lists.count(), LISTS, "not every list was read");
    let executed: BTreeSet<(String, u32)> = log
        .places
        .iter()
        .map(|(path, line)| (name_of(path), *line))
        .collect();
    let call_sites = call_sites();
    let not_executed: Vec<_> = call_sites.difference(&executed).collect();
    assert!(
        not_executed.len() * 12 < call_sites.len(),
        "the store's tests execute too few statements: {not_executed:?}"
    );
    log
}

/// The operator's lists and changes.
#[expect(clippy::too_many_lines, reason = "a line for each statement")]
fn run_operator_statements(
    conn: &mut Conn<'_>,
    account: AccountId,
    key: KeyId,
) -> Result<(), StoreError> {
    let mut settings = super::key(account);
    settings.id = key;
    settings.budget_period = Some(BudgetPeriod::Week);
    accounts::update_key(conn, &settings)?;
    accounts::rotate_secret(conn, key, ("sk-mg-012345", "new"), at(5))?;
    accounts::caller_by_sha256(conn, "new")?;
    accounts::caller_by_sha256(conn, &settings.sha256)?;
    accounts::note_use(conn, key, at(1))?;
    accounts::key_record(conn, key, at(1))?;
    accounts::record_of(conn, account)?;
    for ascending in [true, false] {
        let limit = 20;
        let page = PageQuery {
            after: None,
            limit,
            ascending,
        };
        accounts::page(conn, page)?;
        for account in [None, Some(account)] {
            let after = None;
            let page = PageQuery {
                after,
                limit,
                ascending,
            };
            accounts::key_page(conn, account, page, at(1))?;
            for (provider, state) in [
                (None, None),
                (Some("acme"), None),
                (None, Some(TaskState::Failed)),
                (Some("acme"), Some(TaskState::Failed)),
                (None, Some(TaskState::Running)),
            ] {
                let filter = tasks::TaskFilter {
                    state,
                    provider: provider.map(str::to_owned),
                    ..tasks::TaskFilter::default()
                };
                let page = PageQuery {
                    after: None,
                    limit,
                    ascending,
                };
                tasks::page_of_all(conn, &filter, page)?;
                tasks::search_of_all(conn, &filter, page, |_| vec![1])?;
            }
        }
    }
    let entry = AuditEntry {
        id: AuditId::new(),
        at: at(1),
        actor: Actor {
            kind: ActorKind::Command,
            id: None,
            name: "keys update".into(),
        },
        action: "key.update".into(),
        target: key.to_string(),
        before: None,
        after: Some(serde_json::json!({"rpm": 1})),
        request_id: None,
        address: None,
        account: None,
    };
    let of_account = AuditEntry {
        id: AuditId::new(),
        actor: Actor {
            kind: ActorKind::Key,
            id: Some(key.to_string()),
            name: "owl".into(),
        },
        account: Some(account),
        ..entry.clone()
    };
    audit::insert(conn, &entry)?;
    audit::insert(conn, &of_account)?;
    for (log, expected) in [
        (audit::AuditLog::Operators, &entry),
        (audit::AuditLog::Account(account), &of_account),
        (audit::AuditLog::Accounts, &of_account),
    ] {
        for target in [None, Some(key.to_string())] {
            let filter = audit::AuditFilter {
                log,
                target,
                ..audit::AuditFilter::default()
            };
            let entries = audit::newest(conn, &filter, None, 20)?;
            assert_eq!(entries, std::slice::from_ref(expected));
        }
    }
    audit::time_of(conn, entry.id)?;
    let owner = (account, key.to_string());
    let owner = (owner.0, owner.1.as_str());
    assert_eq!(audit::time_of_earlier(conn, owner, 1, at(0))?, Some(at(1)));
    assert_eq!(audit::time_of_earlier(conn, owner, 2, at(0))?, None);
    assert_eq!(audit::forget(conn, at(2), 10)?, 1);
    let route = ("acme".to_owned(), "sora-2".to_owned());
    let error = RouteError {
        class: "credentials".into(),
        message: "No.".into(),
        at: at(2),
    };
    routes::set_retry_requested(conn, &route, at(1))?;
    routes::set_error(conn, &route, &error, true)?;
    routes::clear_refusal(conn, &route)?;
    routes::set_paused(conn, &route, Some(at(3)))?;
    let route_state = routes::stored_state(conn, &route)?;
    let expected = StoredRouteState {
        paused_at: Some(at(3)),
        retry_requested_at: Some(at(1)),
        refused_at: None,
        error: Some(error),
    };
    assert_eq!(route_state, expected);
    assert!(routes::stored_states(conn)?.contains(&(route, route_state)));
    routes::outcomes(conn, "acme", at(0), std::time::Duration::from_mins(5))?;
    routes::success_durations(conn, "acme", at(0))?;
    let endpoint = "openai-videos https://acme.example/v1";
    routes::known_job(conn, "acme", endpoint, at(0))?;
    let key_row = accounts::key_by_id(conn, key)?.unwrap();
    sessions::insert(conn, "s", &key_row, at(0), at(9))?;
    assert_eq!(sessions::count(conn, key, at(8))?, 1);
    assert_eq!(sessions::count(conn, key, at(9))?, 0);
    let session = sessions::caller(conn, "s")?.unwrap();
    assert_eq!(
        session.credential,
        CallerCredential::Session { until: at(9) }
    );
    let hashes = [key_row.sha256.clone(), "s".into(), "nobody's".into()];
    let mut known_hashes = accounts::known_hashes(conn, &hashes)?;
    known_hashes.sort();
    let mut expected = hashes[..2].to_vec();
    expected.sort();
    assert_eq!(known_hashes, expected);
    // A session that was being created while the key was rotated: its secret is a former one.
    let former = ApiKey {
        sha256: "former".into(),
        ..key_row
    };
    sessions::insert(conn, "late", &former, at(1), at(9))?;
    assert_eq!(sessions::caller(conn, "late")?, None);
    sessions::insert(conn, "old", &former, at(-1), at(9))?;
    assert_eq!(sessions::delete_oldest(conn, key, 1)?, ["old"]);
    assert!(!sessions::delete(conn, "other")?);
    sessions::forget_before(conn, at(8))?;
    sessions::delete_of_key(conn, key)?;
    assert_eq!(sessions::caller(conn, "s")?, None);
    for ascending in [true, false] {
        for filter in [None, Some(SubmissionFilter::Unconfirmed)] {
            let page = PageQuery {
                after: None,
                limit: 20,
                ascending,
            };
            submissions::page(conn, filter, page)?;
        }
    }
    let submission = SubmissionId::new();
    assert_eq!(submissions::record_by_id(conn, submission)?, None);
    assert!(!submissions::resolve(
        conn,
        submission,
        "n",
        Some("j"),
        at(1)
    )?);
    Ok(())
}

/// The statements of an operator's sums and event streams.
fn run_overview_statements(
    conn: &mut Conn<'_>,
    account: AccountId,
    task: &Task,
) -> Result<(), StoreError> {
    let at_hour = |hours: i64| {
        Timestamp::from_micros(1_700_000_000_000_000 + hours * hourly_sums::HOUR_MICROS)
    };
    for step in [None, Some(1), Some(24)] {
        for account in [None, Some(account)] {
            let query = hourly_sums::HourlyQuery {
                from: at_hour(0),
                before: at_hour(1),
                account,
                provider: None,
                model: None,
                key: None,
                outcome: None,
                step,
                by_account: true,
                by_provider: true,
                by_model: true,
                by_key: false,
                by_outcome: true,
            };
            hourly_sums::sums(conn, &query, 10_000)?;
        }
    }
    for cost in [
        JobCost::Made(MicroDollars::new(3)),
        JobCost::Wasted(MicroDollars::new(2)),
        JobCost::Unknown,
        JobCost::Made(MicroDollars::ZERO),
    ] {
        hourly_sums::add_job(conn, task, "acme", cost, at(1))?;
    }
    let sums = conn.one(
        "SELECT made_micros, wasted_micros, unknown_jobs FROM hourly_sums WHERE hour = ?1 AND provider = 'acme'",
        &[(at(1).micros() / hourly_sums::HOUR_MICROS).into()],
        |row| Ok([row.int(0)?, row.int(1)?, row.int(2)?]),
    )?;
    assert_eq!(sums, Some([3, 2, 1]));
    let since = Timestamp::from_micros(1_700_000_000_000_000);
    feed::accepted_tasks(conn, since, 500)?;
    feed::sent_submissions(conn, since, 500)?;
    feed::ended_tasks(conn, since, 500)?;
    feed::audit_entries(conn, since, 500)?;
    let clip = ClipId::new();
    clips::recording_name(conn, AssetId::new())?;
    clips::newest_separation(conn, clip, account)?;
    clips::stems_of(conn, clip, account, task.id)?;
    Ok(())
}

/// Number of the statements that list an account's tasks: one for each index and direction, with
/// and without a far end.
const LISTS: usize = 10 * 4;

/// Every statement that lists an account's tasks.
fn run_every_list(conn: &mut Conn<'_>, account: AccountId, key: KeyId) -> Result<(), StoreError> {
    let any = tasks::TaskFilter::default;
    let filters = [
        any(),
        tasks::TaskFilter {
            kind: Some(MediaKind::Video),
            ..any()
        },
        tasks::TaskFilter {
            kind: Some(MediaKind::Video),
            without_deleted: true,
            ..any()
        },
        tasks::TaskFilter {
            state: Some(TaskState::Failed),
            ..any()
        },
        tasks::TaskFilter {
            model: Some("m".into()),
            ..any()
        },
        tasks::TaskFilter {
            request: Some(RequestId::generate()),
            ..any()
        },
        tasks::TaskFilter {
            key: Some(key),
            ..any()
        },
        tasks::TaskFilter {
            error: Some(ErrorCode::ContentPolicy),
            ..any()
        },
        tasks::TaskFilter {
            terms: vec![1],
            ..any()
        },
    ];
    for filter in filters {
        for (since, until) in [(None, None), (Some(at(0)), Some(at(9)))] {
            for ascending in [true, false] {
                let filter = tasks::TaskFilter {
                    since,
                    until,
                    ..filter.clone()
                };
                let page = PageQuery {
                    after: None,
                    limit: 21,
                    ascending,
                };
                tasks::page(conn, account, &filter, page)?;
            }
        }
    }
    Ok(())
}

/// The statements that the store's tests leave out, because tests through HTTP cover them.
#[expect(clippy::too_many_lines, reason = "a line for each statement")]
fn the_rest(conn: &mut Conn<'_>) -> Result<(), StoreError> {
    let (account, key) = super::owner(conn)?;
    let task = super::task((account, key), at(0));
    tasks::insert(conn, &task)?;
    let submission = super::accounting::submission(&task, 1);
    let handle = JobHandle(serde_json::json!({"id": "1"}));
    accounts::all(conn)?;
    accounts::rename(conn, account, "name")?;
    accounts::set_budget(conn, account, None)?;
    accounts::keys_of(conn, account, at(0))?;
    run_operator_statements(conn, account, key)?;
    assets::stored_bytes(conn, account)?;
    assets::expected_bytes(conn, account)?;
    assets::lock_storage(conn, account)?;
    intents::answer(conn, IntentId::new(), "{}")?;
    let body = RequestFingerprint {
        key,
        fingerprint: "f".into(),
    };
    intents::latest_task(conn, &body, at(0))?;
    let other = super::owner(conn)?.0;
    accounts::lock_and_check_closed(conn, other)?;
    accounts::close(conn, other, at(1))?;
    run_overview_statements(conn, account, &task)?;
    ledger::counts(conn)?;
    ledger::time_of(conn, "x")?;
    for (account, task) in [(None, None), (Some(account), None), (None, Some(task.id))] {
        let filter = ledger::LedgerFilter {
            account,
            task,
            from: Some(at(0)),
            ..ledger::LedgerFilter::default()
        };
        ledger::newest(conn, &filter, None, 50)?;
        ledger::list(conn, &filter, 50)?;
    }
    for state in [None, Some(TaskState::Queued), Some(TaskState::Failed)] {
        for kind in [None, Some(MediaKind::Video)] {
            for (model, without_deleted) in [(None, false), (None, true), (Some("m"), false)] {
                for ascending in [true, false] {
                    let filter = tasks::TaskFilter {
                        kind,
                        state,
                        model: model.map(Into::into),
                        without_deleted,
                        ..tasks::TaskFilter::default()
                    };
                    let page = tasks::PageQuery {
                        after: None,
                        limit: 21,
                        ascending,
                    };
                    tasks::page(conn, account, &filter, page)?;
                }
            }
        }
    }
    for terms in [vec![], vec![1, 2]] {
        for (key, error) in [
            (None, None),
            (Some(key), None),
            (None, Some(ErrorCode::ContentPolicy)),
            (Some(key), Some(ErrorCode::ContentPolicy)),
        ] {
            for ascending in [true, false] {
                let filter = tasks::TaskFilter {
                    terms: terms.clone(),
                    key,
                    error,
                    since: Some(at(0)),
                    ..tasks::TaskFilter::default()
                };
                let page = tasks::PageQuery {
                    after: None,
                    limit: 21,
                    ascending,
                };
                tasks::page(conn, account, &filter, page)?;
            }
        }
    }
    run_every_list(conn, account, key)?;
    accounts::key_name(conn, key)?;
    submissions::insert_refused(conn, &submission, ("account", "no money"), at(1))?;
    submissions::of_task(conn, task.id, 100)?;
    let submission = super::accounting::submission(&task, 2);
    submissions::intend(conn, &submission, "w")?;
    submissions::lock_provider(conn, "acme")?;
    submissions::release_from_follower(conn, submission.id, "w", at(1))?;
    submissions::release_strays_of_task(conn, task.id, "w", at(1))?;
    submissions::claim_strays(conn, "w", 100, at(1))?;
    submissions::schedule_lookup(conn, submission.id, None)?;
    submissions::unclear_due(conn, 20, at(1))?;
    let acceptance = submissions::JobAcceptance {
        handle: Some(handle.clone()),
        results: None,
        cost: None,
    };
    submissions::mark_found(conn, submission.id, &acceptance, at(1))?;
    let cost = providers::ProviderCost {
        millionths: 1,
        unit: providers::CostUnit::Credits,
    };
    submissions::set_cost(conn, submission.id, cost)?;
    submissions::costs_between(conn, (at(0), ""), (at(9), "z"))?;
    submissions::accept(conn, submission.id, &acceptance, at(1))?;
    submissions::is_taken(conn, "openai-videos https://acme.test/v1", &handle)?;
    submissions::has_undecided_twin(conn, &submission, at(1))?;
    let mark = restored::DatabaseMark {
        database: "d".into(),
        count: 1,
    };
    restored::set_mark(conn, &mark)?;
    restored::mark(conn)?;
    let location = DatabaseLocation {
        id: "file 1".into(),
        timeline: Some("1".into()),
    };
    restored::set_location(conn, &location)?;
    restored::location(conn)?;
    restored::has_live_workers(conn, at(0))?;
    meta::advance_steady(conn, at(0))?;
    restored::newest_submission(conn)?;
    restored::held_tasks(conn)?;
    restored::release_task(conn, task.id, at(1))?;
    submissions::by_id(conn, submission.id)?;
    submissions::strays_of(conn, "w")?;
    tasks::cancelled_and_held(conn)?;
    tasks::held_by(conn, "w")?;
    tasks::any_due_after(conn, at(2))?;
    tasks::pull_forward(conn, at(2), at(1))?;
    for model in tasks::models_waiting(conn, at(1))? {
        tasks::waiting(conn, &model, at(1), 100)?;
    }
    workers::held_until(conn, "w")?;
    workers::set_models(conn, "w", "[]")?;
    workers::offered_models(conn, at(1))?;
    workers::free_unknown(conn)?;
    Ok(())
}

fn name_of(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned()
}

/// Whether a text ends inside the definition of a macro.
fn is_in_macro(text: &str) -> bool {
    let Some((before, body)) = text.rsplit_once("macro_rules!") else {
        return false;
    };
    let indentation = before.rsplit('\n').next().unwrap_or_default();
    !body.contains(&format!("\n{indentation}}}"))
}

/// The files and lines at which the store runs statements.
fn call_sites() -> BTreeSet<(String, u32)> {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../store/src"));
    let mut call_sites = BTreeSet::new();
    let entries_of = |name: &str| std::fs::read_dir(folder.join(name)).unwrap();
    let entries = entries_of("")
        .chain(entries_of("tasks"))
        .chain(entries_of("webhooks"));
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let without_tables = [
            "columns.rs",
            "conn.rs",
            "lib.rs",
            "migrations.rs",
            "sqlite.rs",
            "statement.rs",
        ];
        let has_tables = !without_tables.contains(&&*name);
        if !has_tables || path.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for call in [
            ".execute",
            ".all",
            ".one",
            ".value",
            ".values",
            ".exists",
            "insert!(conn",
            "columns!(insert ",
        ] {
            for (position, _) in text.match_indices(call) {
                let line = 1 + text[..position].matches('\n').count();
                let arguments = arguments(&text[position + call.len()..]);
                let is_bound = arguments.is_some_and(|list| list.starts_with("conn"));
                let is_on_conn =
                    arguments.is_some() && text[..position].trim_end().ends_with("conn");
                // The place of such a call is that of the macro's use.
                if is_in_macro(&text[..position]) {
                    continue;
                }
                if !call.starts_with('.') || is_bound || is_on_conn {
                    call_sites.insert((name.clone(), u32::try_from(line).unwrap()));
                }
            }
        }
    }
    call_sites
}

/// The arguments of a call, whose name ends before this text: `(…` or `::<…>(…`.
fn arguments(after_name: &str) -> Option<&str> {
    let list = match after_name.strip_prefix("::<") {
        Some(types) => types.split_once(">(")?.1,
        None => after_name.strip_prefix('(')?,
    };
    Some(list.trim_start())
}

fn is_allowed(sql: &str) -> bool {
    ALLOWED_SCANS.iter().any(|(part, _)| sql.contains(part))
}

/// Enough tasks to make the databases use indexes.
const TASKS: usize = 20_000;

async fn on_sqlite(record: &StatementLog) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = Store::sqlite(&path, MigrationMode::Auto).unwrap();
    store.write(|conn| fill(conn, TASKS)).await.unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    let postgres_only: BTreeSet<_> = record.on_postgres.values().collect();
    let mut problems = Vec::new();
    for sql in record.statements.keys() {
        if postgres_only.contains(sql) || is_allowed(sql) {
            continue;
        }
        let tables = aliases(sql);
        let mut plan = connection
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .unwrap_or_else(|error| panic!("{error}: {sql}"));
        let count = plan.parameter_count();
        for number in 1..=count {
            plan.raw_bind_parameter(number, rusqlite::types::Null)
                .unwrap();
        }
        let mut rows = plan.raw_query();
        let mut steps: Vec<String> = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            steps.push(row.get(3).unwrap());
        }
        if steps
            .iter()
            .any(|step| is_slow_on_sqlite(step, sql, &tables))
        {
            problems.push(format!("SQLite: {sql}\n  {}", steps.join("\n  ")));
        }
    }
    problems
}

fn is_slow_on_sqlite(step: &str, sql: &str, tables: &BTreeMap<String, String>) -> bool {
    let mut words = step.split(' ');
    match words.next() {
        Some("SCAN") => {
            let name = words.next().unwrap_or_default();
            let is_growing = tables
                .get(name)
                .is_some_and(|table| GROWING_TABLES.contains(&&**table));
            let index = step.split("INDEX ").nth(1).unwrap_or_default();
            let is_small = SMALL.contains(&index);
            // The first rows of an index, in its order.
            let is_limited =
                !index.is_empty() && sql.contains("LIMIT") && !sql.contains("GROUP BY");
            is_growing && !is_small && !is_limited
        }
        // Sorting a page, or the open work of one account, task or provider, is fine.
        Some("USE") => step.contains("ORDER BY") && !sql.contains("AS holders") && !is_bounded(sql),
        _ => false,
    }
}

/// Whether a statement sorts a naturally small set.
fn is_bounded(sql: &str) -> bool {
    SMALL_SORTS.iter().any(|part| sql.contains(part))
}

/// Statements that sort a task's entries, claims from an index of waiting work, the intents of one
/// body, or groups of errors.
const SMALL_SORTS: [&str; 4] = [
    "task_id = ?",
    "lease_owner IS NULL",
    "WHERE body = ?",
    "GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 7 DESC",
];

/// The tables of a statement by their aliases.
fn aliases(sql: &str) -> BTreeMap<String, String> {
    let words: Vec<&str> = sql
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let mut tables = BTreeMap::new();
    for index in 0..words.len() {
        if !["FROM", "JOIN", "UPDATE", "INTO"].contains(&words[index]) {
            continue;
        }
        let mut next_words = words[index + 1..].iter().filter(|word| **word != "AS");
        let Some(table) = next_words.next() else {
            continue;
        };
        tables.insert((*table).to_owned(), (*table).to_owned());
        if let Some(alias) = next_words.next() {
            tables.insert((*alias).to_owned(), (*table).to_owned());
        }
    }
    tables
}

fn on_postgres(url: &str, texts: &[(String, Vec<StatementParameter>)]) -> Vec<String> {
    let mut client = postgres::Client::connect(url, postgres::NoTls).unwrap();
    client.batch_execute("ANALYZE").unwrap();
    let mut problems = Vec::new();
    for (sql, values) in texts {
        if is_allowed(sql) || sql.contains("pg_advisory") {
            continue;
        }
        let explain = format!("EXPLAIN (FORMAT JSON) {}", with_literals(sql, values));
        let answer = client
            .simple_query(&explain)
            .unwrap_or_else(|error| panic!("{error:?}: {explain}"));
        let text: String = answer
            .iter()
            .filter_map(|row| match row {
                postgres::SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            })
            .collect();
        let plan: Value = serde_json::from_str(&text).unwrap();
        let mut reasons = Vec::new();
        collect_slow_nodes(&plan[0]["Plan"], false, &mut reasons);
        if !reasons.is_empty() {
            problems.push(format!("Postgres: {explain}\n  {}", reasons.join("\n  ")));
        }
    }
    problems
}

/// A statement with its parameters as literals.
fn with_literals(sql: &str, values: &[StatementParameter]) -> String {
    let mut text = sql.to_owned();
    for (number, value) in values.iter().enumerate().rev() {
        let literal = match value {
            StatementParameter::Null => "NULL".to_owned(),
            StatementParameter::Int(value) => format!("CAST('{value}' AS BIGINT)"),
            StatementParameter::Text(value) => {
                format!("CAST('{}' AS TEXT)", value.replace('\'', "''"))
            }
        };
        text = text.replace(&format!("?{}", number + 1), &literal);
    }
    text
}

fn collect_slow_nodes(node: &Value, is_limited: bool, reasons: &mut Vec<String>) {
    let kind = node["Node Type"].as_str().unwrap_or_default();
    let table = node["Relation Name"].as_str().unwrap_or_default();
    let index = node["Index Name"].as_str().unwrap_or_default();
    let rows = node["Plan Rows"].as_u64().unwrap_or(0);
    let is_growing = GROWING_TABLES.contains(&table);
    match kind {
        "Seq Scan" if is_growing => reasons.push(format!("reads all of {table}")),
        "Index Scan" | "Index Only Scan" => {
            let is_whole = node.get("Index Cond").is_none();
            if is_growing && is_whole && !is_limited && !SMALL.contains(&index) {
                reasons.push(format!("reads all of {index}"));
            }
        }
        "Sort" => {
            let sorted_rows = node["Plans"][0]["Plan Rows"].as_u64().unwrap_or(rows);
            if sorted_rows > MAX_SORTED_ROWS {
                reasons.push(format!("sorts {sorted_rows} rows"));
            }
        }
        _ => {}
    }
    let is_limited = kind == "Limit" || (is_limited && !kind.contains("Aggregate"));
    for child in node["Plans"].as_array().into_iter().flatten() {
        collect_slow_nodes(child, is_limited, reasons);
    }
}
