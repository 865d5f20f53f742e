//! The counts and sums that replace reading every task, and the check that finds
//! errors in them.

use mediagate_core::domain::{ledger, task_acceptance};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::SubmissionId;
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::submission::{Submission, SubmissionState};
use mediagate_model::task::{Task, TaskState};
use mediagate_store::usage::{self, DAY_MICROS};
use mediagate_store::verify::{LedgerAudit, Mismatch};
use mediagate_store::{Conn, StoreError, accounts, submissions};

use crate::support::mismatches;

use super::money::{DIME, accept, adds_up, end, ending, insert_key_with_budget};
use super::{Fixture, at, postgres, sqlite, task};

on_both! {
    a_keys_open_tasks_are_counted
    the_last_open_task_of_a_limit_is_accepted_once
    daily_sums_equal_tasks_and_entries
    hourly_sums_equal_their_daily_sum
    a_task_that_was_submitted_twice_is_found
    an_ended_task_does_not_count_against_its_provider
    a_check_starts_where_the_last_one_stopped
}

async fn open_tasks(db: &Fixture, key: mediagate_model::ids::KeyId) -> u32 {
    db.read(move |conn| accounts::open_tasks(conn, key)).await
}

async fn a_keys_open_tasks_are_counted(db: Fixture) {
    let mut key = insert_key_with_budget(&db, None).await;
    key.max_running = 3;
    let mut tasks = accept(&db, &key, 2).await.unwrap();
    let refused = accept(&db, &key, 2).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::TooManyTasks);
    assert!(refused.message().contains("2 open tasks"), "{refused}");
    tasks.extend(accept(&db, &key, 1).await.unwrap());
    assert_eq!(open_tasks(&db, key.id).await, 3);
    end(
        &db,
        &tasks[0],
        ending(TaskState::Succeeded, ChargeState::Settled, DIME),
    )
    .await;
    end(
        &db,
        &tasks[0],
        ending(TaskState::Failed, ChargeState::Released, 0),
    )
    .await;
    assert_eq!(open_tasks(&db, key.id).await, 2, "a task ends once");
    end(
        &db,
        &tasks[1],
        ending(TaskState::Cancelled, ChargeState::Held, DIME),
    )
    .await;
    assert_eq!(
        open_tasks(&db, key.id).await,
        1,
        "even while its money is held"
    );
    adds_up(&db).await;
    db.write(|conn| conn.execute("UPDATE api_keys SET open_tasks = 7", &[]))
        .await;
    let mismatches_found = db.read(mismatches).await;
    let detail = "has 7 open tasks; there are 1".to_owned();
    let (kind, id) = ("key", key.id.to_string());
    assert_eq!(mismatches_found, [Mismatch { kind, id, detail }]);
}

async fn the_last_open_task_of_a_limit_is_accepted_once(db: Fixture) {
    let mut key = insert_key_with_budget(&db, None).await;
    key.max_running = 3;
    let acceptances = (0..10).map(|_| accept(&db, &key, 1));
    let results = futures_util::future::join_all(acceptances).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 3);
    adds_up(&db).await;
}

async fn daily_sums_equal_tasks_and_entries(db: Fixture) {
    let key = insert_key_with_budget(&db, None).await;
    let mut tasks = accept(&db, &key, 4).await.unwrap();
    let free = Task {
        money: ChargeState::Free,
        reserved: MicroDollars::ZERO,
        cost: MicroDollars::ZERO,
        ..task((key.account, key.id), at(0))
    };
    let (order, accepting_key) = (free.clone(), key.clone());
    let accepted = db
        .store
        .write(move |conn| task_acceptance::write(conn, &accepting_key, &[order], None));
    accepted.await.unwrap();
    tasks.push(free);
    let task_endings = [
        ending(TaskState::Succeeded, ChargeState::Settled, 70_000),
        ending(TaskState::Failed, ChargeState::Released, 0),
        ending(TaskState::Cancelled, ChargeState::Held, DIME),
        ending(TaskState::Cancelled, ChargeState::Released, 0),
        ending(TaskState::Succeeded, ChargeState::Free, 0),
    ];
    for (task, ending) in tasks.iter().zip(task_endings) {
        assert!(end(&db, task, ending).await);
    }
    let tomorrow = Timestamp::from_micros(at(1).micros() + DAY_MICROS);
    let cancelled_task = tasks[2].clone();
    let bill = super::money::bill(MicroDollars::new(40_000));
    let closed = db
        .store
        .write(move |conn| ledger::close(conn, &cancelled_task, Some(&bill), tomorrow));
    assert!(closed.await.unwrap());
    let filter = usage::UsageFilter {
        account: key.account,
        from: at(0),
        before: Timestamp::from_micros(at(1).micros() + 2 * DAY_MICROS),
        model: Some("animatic-1".into()),
        key: Some(key.id),
    };
    let mut rows = db.read(move |conn| usage::rows(conn, &filter)).await;
    rows.sort_by_key(|row| row.day);
    let sums: Vec<_> = rows
        .iter()
        .map(|row| (row.paid.get(), row.ended.map(|(_, tasks)| tasks)))
        .collect();
    assert_eq!(sums, [(70_000, [2, 1, 2]), (40_000, [0, 0, 0])]);
    adds_up(&db).await;
    db.write(|conn| conn.execute("UPDATE daily_sums SET spent_micros = spent_micros + 5", &[]))
        .await;
    let mismatches_found = db.read(mismatches).await;
    let kinds_found = kinds(&mismatches_found);
    assert_eq!(
        kinds_found,
        ["account", "key", "day", "hours", "day", "hours"],
        "{mismatches_found:?}"
    );
}

async fn hourly_sums_equal_their_daily_sum(db: Fixture) {
    let key = insert_key_with_budget(&db, None).await;
    let tasks = accept(&db, &key, 2).await.unwrap();
    let task_endings = [
        ending(TaskState::Succeeded, ChargeState::Settled, 70_000),
        ending(TaskState::Failed, ChargeState::Released, 0),
    ];
    for (task, ending) in tasks.iter().zip(task_endings) {
        assert!(end(&db, task, ending).await);
    }
    adds_up(&db).await;
    for (change, undo, why) in [
        (
            "UPDATE hourly_sums SET spent_micros = spent_micros + 5 WHERE outcome = 'succeeded'",
            "UPDATE hourly_sums SET spent_micros = spent_micros - 5 WHERE outcome = 'succeeded'",
            "spent 0.070005; the day's sum is 0.07",
        ),
        (
            "UPDATE hourly_sums SET spent_micros = spent_micros - 5 WHERE outcome = 'succeeded'",
            "UPDATE hourly_sums SET spent_micros = spent_micros + 5 WHERE outcome = 'succeeded'",
            "spent 0.069995; the day's sum is 0.07",
        ),
        (
            "UPDATE hourly_sums SET tasks = 3 WHERE outcome = 'failed'",
            "UPDATE hourly_sums SET tasks = 1 WHERE outcome = 'failed'",
            "3 failed; the day's sum is 1",
        ),
        (
            "UPDATE hourly_sums SET tasks = 0 WHERE outcome = 'failed'",
            "UPDATE hourly_sums SET tasks = 1 WHERE outcome = 'failed'",
            "0 failed; the day's sum is 1",
        ),
    ] {
        db.write(|conn| conn.execute(change, &[])).await;
        let mismatches_found = db.read(mismatches).await;
        assert_eq!(mismatches_found.len(), 1, "{change}: {mismatches_found:?}");
        assert_eq!(mismatches_found[0].kind, "hours", "{change}");
        assert!(
            mismatches_found[0].detail.contains(why),
            "{change}: {}",
            mismatches_found[0].detail
        );
        db.write(|conn| conn.execute(undo, &[])).await;
    }
    // Sums for an hour in which nothing happened.
    db.write(|conn| conn.execute("UPDATE hourly_sums SET hour = hour + 240", &[]))
        .await;
    let mismatches_found = db.read(mismatches).await;
    let kinds_found = kinds(&mismatches_found);
    assert_eq!(kinds_found, ["hours"; 6], "{mismatches_found:?}");
}

fn kinds(mismatches: &[Mismatch]) -> Vec<&'static str> {
    mismatches.iter().map(|mismatch| mismatch.kind).collect()
}

pub(super) fn submission(task: &Task, attempt: u32) -> Submission {
    Submission {
        id: SubmissionId::new(),
        task: task.id,
        attempt,
        provider: "acme".into(),
        route_model: "m".into(),
        endpoint: "fal https://fal.test".into(),
        credential: "1:aa".into(),
        state: SubmissionState::Intended,
        handle: None,
        results: None,
        created_at: at(1),
        accepted_at: None,
        likeness: Some("aa".into()),
        has_key: Some(true),
        job_settings: Some("bb".into()),
        order_settings: Some("cc".into()),
    }
}

async fn a_task_that_was_submitted_twice_is_found(db: Fixture) {
    let key = insert_key_with_budget(&db, None).await;
    let tasks = accept(&db, &key, 1).await.unwrap();
    let id = tasks[0].id.to_string();
    let task = tasks[0].clone();
    db.write(move |conn| {
        let (first, second) = (submission(&task, 1), submission(&task, 2));
        submissions::intend(conn, &first, "w")?;
        submissions::close(
            conn,
            first.id,
            SubmissionState::Intended,
            SubmissionState::Refused,
            Some(("rate_limited", "slow down")),
            at(9),
        )?;
        submissions::intend(conn, &second, "w")
    })
    .await;
    adds_up(&db).await;
    db.write(move |conn| {
        conn.execute("DROP INDEX submissions_once", &[])?;
        conn.execute(
            "UPDATE submissions SET state = 'unclear' WHERE attempt = 1",
            &[],
        )
    })
    .await;
    let mismatches_found = db.read(mismatches).await;
    let task_mismatches: Vec<_> = mismatches_found
        .iter()
        .filter(|mismatch| mismatch.kind == "task")
        .collect();
    assert_eq!(
        (task_mismatches.len(), &task_mismatches[0].id),
        (1, &id),
        "{mismatches_found:?}"
    );
    assert!(
        task_mismatches[0].detail.contains("submitted 2 times"),
        "{mismatches_found:?}"
    );
}

async fn an_ended_task_does_not_count_against_its_provider(db: Fixture) {
    let key = insert_key_with_budget(&db, None).await;
    let tasks = accept(&db, &key, 1).await.unwrap();
    let hosted = Task {
        provider: "acme".into(),
        ..tasks[0].clone()
    };
    let open_submission = submission(&hosted, 1);
    db.write(move |conn| submissions::intend(conn, &open_submission, "w"))
        .await;
    let open_submissions = async || db.read(|conn| submissions::count_open(conn, "acme")).await;
    assert_eq!(open_submissions().await, [("m".into(), "1:aa".into(), 1)]);
    end(
        &db,
        &hosted,
        ending(TaskState::Failed, ChargeState::Released, 0),
    )
    .await;
    assert_eq!(open_submissions().await, []);
    let stray = db.read(|conn| submissions::any_stray(conn, at(9))).await;
    assert!(stray, "the stray submission is looked up");
    let due_work = db.read(|conn| mediagate_store::tasks::due_work(conn, "[]", at(9)));
    assert!(due_work.await.hosted, "the work poll finds it");
}

/// The mismatches that a check from `since` finds.
fn mismatches_since(conn: &mut Conn<'_>, since: Timestamp) -> Result<Vec<Mismatch>, StoreError> {
    let mut check = LedgerAudit::since(since);
    while check.step(conn)? {}
    Ok(check.mismatches)
}

async fn a_check_starts_where_the_last_one_stopped(db: Fixture) {
    let key = insert_key_with_budget(&db, None).await;
    let tasks = accept(&db, &key, 1).await.unwrap();
    end(
        &db,
        &tasks[0],
        ending(TaskState::Succeeded, ChargeState::Settled, DIME),
    )
    .await;
    db.write(|conn| conn.execute("UPDATE tasks SET cost_micros = 1", &[]))
        .await;
    let later = Timestamp::from_micros(at(1).micros() + 2 * DAY_MICROS);
    let audit_since = async |since| db.read(move |conn| mismatches_since(conn, since)).await;
    // The task's cost differs from its entries and from its bill.
    assert_eq!(audit_since(at(0)).await.len(), 2, "the task ended later");
    assert_eq!(audit_since(later).await, [], "the task was checked before");
    assert_eq!(db.read(mismatches).await.len(), 2);
    db.write(|conn| conn.execute("UPDATE accounts SET spent_micros = 1", &[]))
        .await;
    assert_eq!(audit_since(later).await.len(), 1, "sums are always checked");
}
