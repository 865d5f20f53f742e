//! Tasks and their events.
//!
//! Tasks change only by compare-and-set: the conditions of each statement are the state that the
//! task must be in and, for a worker, the lease that it must hold. Each change that a caller can
//! see also appends an event.

use std::time::Duration;

use orders::DurationSample;

use crate::columns::{FieldReader, TableRecord as _, attribution, insert, record};
use crate::conn::to_json;
use crate::statement::sql;
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{AccountId, TaskId};
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::price::Bill;
use mediagate_model::task::{
    ApprovalState, Task, TaskApproval, TaskEvent, TaskFailure, TaskRequest, TaskResult, TaskState,
};

record! {
    request_columns for TaskRequest of "tasks" {
        id: "request_id",
        origin: "origin",
    }
}

record! {
    columns for Task of "tasks" {
        id: "id",
        account: "account_id",
        key: "key_id",
        model: "model",
        asked_model: "asked_model",
        provider: "provider",
        fingerprint: "fingerprint",
        payload: "payload",
        state: "state",
        progress: "progress",
        progress_is_guess: "progress_estimated",
        cost: "cost_micros",
        reserved: "reserved_micros",
        money: "money",
        tariff: "tariff",
        bill: "bill",
        approval: approval("approval_state", "approval_expires_at", "approval_decided_at"),
        request: ..request_columns!(),
        identical_task: "identical_task_id",
        callback: "callback",
        trace: "trace",
        attempts: "attempts",
        deaths: "deaths",
        expected_bytes: "expected_bytes",
        created_at: "created_at",
        started_at: "started_at",
        finished_at: "finished_at",
        failure: failure("error_code", "error_message"),
        output: "output",
        attribution: attribution("end_user", "metadata"),
        event_seq: "event_seq",
    }
}

record! {
    event_columns for TaskEvent of "task_events" {
        seq: "seq",
        state: "state",
        progress: "progress",
    }
}

/// Whether no provider has, or may have, a task. Written so that Postgres looks up each task in the
/// index of submissions, which it would not do for NOT EXISTS.
macro_rules! unsent {
    () => {
        "(state = 'queued' OR (SELECT MIN(submissions.id) FROM submissions WHERE submissions.task_id = tasks.id
                               AND submissions.state <> 'refused') IS NULL)"
    };
}

/// Whether an open task was neither sent to a provider nor begun here.
macro_rules! never_begun {
    () => {
        concat!(
            "(state = 'queued' OR (provider <> 'embedded' AND ",
            unsent!(),
            "))"
        )
    };
}

mod all_accounts;
mod approval;
mod claims;
mod fair_queue;
mod list;

pub use crate::page::PageQuery;
pub use all_accounts::{page_of_all, search_of_all};
pub use approval::{approve, expired_approvals, refuse_approval};
pub use claims::{
    DueWork, SendPermission, any_due, any_due_after, cancelled_and_held_of_key, claim_sent,
    claim_upstream, count_waiting, due_work, held_by, lock, lock_held, lock_to_send, models_due,
    models_waiting, open_of_key, open_sums_of_key, pull_forward, release, set_deaths, waiting,
};
pub use fair_queue::{FairQueue, claim, claim_in_turn, count_unsent, enter_queue};
pub(crate) use list::first_id;
pub(crate) use list::remove_words;
pub use list::{TaskFilter, has_request, page};

/// Inserts a queued task, due now, with its first event, for any worker to claim.
pub fn insert(conn: &mut Conn<'_>, task: &Task) -> Result<(), StoreError> {
    insert_held(conn, task, None)
}

/// Inserts a task as `insert` does, claimed by this owner if one is given. A task that waits for
/// approval is held until then instead.
pub fn insert_held(
    conn: &mut Conn<'_>,
    task: &Task,
    owner: Option<&str>,
) -> Result<(), StoreError> {
    let owner = if task.awaits_approval() {
        Some(approval::register_holder(conn)?)
    } else {
        owner
    };
    let approval = task.approval;
    insert!(conn, "tasks" {
        "id": task.id,
        "account_id": task.account,
        "key_id": task.key,
        "kind": task.kind(),
        "model": task.model,
        "asked_model": task.asked_model,
        "provider": task.provider,
        "fingerprint": task.fingerprint,
        "payload": task.payload,
        "state": TaskState::Queued,
        "cost_micros": task.cost,
        "request_id": task.request.id,
        "created_at": task.created_at,
        "due_at": task.created_at,
        "event_seq": 1_i64,
        "reserved_micros": task.cost,
        "money": task.money,
        "tariff": task.tariff,
        "approval_state": approval.map(|approval| approval.state),
        "approval_expires_at": approval.map(|approval| approval.expires_at),
        "callback": task.callback,
        "origin": task.request.origin,
        "trace": task.trace,
        "attempts": task.attempts,
        "expected_bytes": task.expected_bytes,
        "lease_owner": owner,
        "identical_task_id": task.identical_task,
        "end_user": task.attribution.user,
        "metadata": (!task.attribution.metadata.is_empty()).then_some(&task.attribution.metadata),
    })?;
    insert!(conn, "task_events" {
        "task_id": task.id,
        "seq": 1_i64,
        "state": TaskState::Queued,
        "progress": 0_i64,
    })?;
    list::insert_words(conn, task)
}

pub fn by_id(
    conn: &mut Conn<'_>,
    id: TaskId,
    account: AccountId,
) -> Result<Option<Task>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM tasks WHERE id = :id AND account_id = :account"
        ),
        id,
        account
    )
    .one(conn, Task::from_row)
}

/// A task's state and the number of its last event: cheaper to read than the whole task.
pub fn state_and_seq(
    conn: &mut Conn<'_>,
    id: TaskId,
    account: AccountId,
) -> Result<Option<(TaskState, u32)>, StoreError> {
    sql!(
        "SELECT state, event_seq FROM tasks WHERE id = :id AND account_id = :account",
        id,
        account
    )
    .one(conn, |row| {
        let mut fields = FieldReader::new(row);
        Ok((
            fields.field("tasks.state")?,
            fields.field("tasks.event_seq")?,
        ))
    })
}

/// Records that a provider accepted the task that `owner` holds: it is now running there, by this
/// route. Returns whether `owner` still holds it.
pub fn mark_running(
    conn: &mut Conn<'_>,
    id: TaskId,
    owner: &str,
    provider: &str,
    fingerprint: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    // The first start time is kept, because the time limit for busy providers counts from it.
    let changed = sql!(
        "UPDATE tasks SET event_seq = event_seq + CASE state WHEN 'queued' THEN 1 ELSE 0 END, state = 'running',
                started_at = COALESCE(started_at, :now), provider = :provider, fingerprint = :fingerprint
         WHERE id = :id AND lease_owner = :owner AND state IN ('queued', 'running')",
        id,
        owner,
        provider,
        fingerprint,
        now
    )
    .execute(conn)?;
    if changed == 1 {
        append_event(conn, id)?;
    }
    Ok(changed == 1)
}

/// Tasks that ended at `since` or later.
pub fn ended_since(conn: &mut Conn<'_>, since: Timestamp) -> Result<Vec<TaskId>, StoreError> {
    sql!(
        "SELECT id FROM tasks WHERE finished_at IS NOT NULL AND finished_at >= :since",
        since
    )
    .values(conn)
}

/// Raises the progress of a task that `owner` holds, reported by the provider or guessed. Returns
/// whether it rose.
pub fn raise_progress(
    conn: &mut Conn<'_>,
    id: TaskId,
    owner: &str,
    (progress, is_guess): (u8, bool),
) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE tasks SET progress = :progress, progress_estimated = :is_guess, event_seq = event_seq + 1
         WHERE id = :id AND lease_owner = :owner AND state = 'running' AND progress < :progress",
        id,
        owner,
        progress,
        is_guess
    )
    .execute(conn)?;
    if changed == 1 {
        append_event(conn, id)?;
    }
    Ok(changed == 1)
}

/// The final state of a task that ends.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskEnding {
    /// A terminal state.
    pub state: TaskState,
    /// The final cost; the reservation if that is still held.
    pub cost: MicroDollars,
    /// The state of its money afterwards.
    pub money: ChargeState,
    /// The charges for the task.
    pub bill: Option<Bill>,
    /// The result.
    pub output: Option<TaskResult>,
    /// Why there is no result.
    pub failure: Option<TaskFailure>,
}

/// Ends a task that `owner` holds, or, without an owner, any open task. Returns the task as it
/// ended; `None` if this call did not end it.
pub fn finish(
    conn: &mut Conn<'_>,
    id: TaskId,
    owner: Option<&str>,
    ending: &TaskEnding,
    now: Timestamp,
) -> Result<Option<Task>, StoreError> {
    let output = ending.output.as_ref().map(to_json).transpose()?;
    let bill = ending.bill.as_ref().map(to_json).transpose()?;
    let failure = ending.failure.as_ref();
    // The CAST gives Postgres the type of a parameter that is compared with NULL.
    let ended = sql!(
        concat!(
            "UPDATE tasks SET state = :state, cost_micros = :cost, output = :output, error_code = :code,
             error_message = :message,
                    finished_at = :now, progress = CASE :state WHEN 'succeeded' THEN 100 ELSE progress END,
                    event_seq = event_seq + 1, lease_owner = NULL, money = :money, bill = :bill,
                    approval_decided_at = CASE approval_state WHEN 'pending' THEN :now ELSE approval_decided_at END,
                    approval_state = CASE approval_state WHEN 'pending' THEN 'cancelled' ELSE approval_state END
             WHERE id = :id AND state IN ('queued', 'running') AND (CAST(:owner AS TEXT) IS NULL
             OR lease_owner = :owner)
             RETURNING ",
            columns!()
        ),
        id,
        owner,
        state = ending.state,
        cost = ending.cost,
        output = output.as_ref(),
        code = failure.map(|failure| failure.code.name()),
        message = failure.map(|failure| failure.message.as_str()),
        now,
        money = ending.money,
        bill = bill.as_ref()
    )
    .one(conn, Task::from_row)?;
    if ended.is_some() {
        append_event(conn, id)?;
    }
    Ok(ended)
}

/// Settles or releases the money of a task that was cancelled while its provider continued;
/// `message` describes the outcome. Returns whether the money was still reserved.
pub fn close_money(
    conn: &mut Conn<'_>,
    id: TaskId,
    money: ChargeState,
    bill: Option<&Bill>,
    message: &str,
) -> Result<bool, StoreError> {
    let json = bill.map(to_json).transpose()?;
    let changed = sql!(
        "UPDATE tasks SET money = :money, cost_micros = :bill, bill = :json, error_message = :message
         WHERE id = :id AND money = 'held' AND state = 'cancelled'",
        id,
        money,
        bill = bill.map_or(0, |bill| bill.cost.get()),
        json = json.as_ref(),
        message
    )
    .execute(conn)?;
    Ok(changed == 1)
}

/// At most 100 cancelled tasks whose money is still reserved.
pub fn cancelled_and_held(conn: &mut Conn<'_>) -> Result<Vec<Task>, StoreError> {
    sql!(concat!(
        "SELECT ",
        columns!(),
        " FROM tasks WHERE money = 'held' AND state = 'cancelled' ORDER BY id LIMIT 100"
    ))
    .all(conn, Task::from_row)
}

/// The task with this id, of any account.
pub fn by_id_any_account(conn: &mut Conn<'_>, id: TaskId) -> Result<Option<Task>, StoreError> {
    sql!(
        concat!("SELECT ", columns!(), " FROM tasks WHERE id = :id"),
        id
    )
    .one(conn, Task::from_row)
}

/// Removes a task from the Videos API's list. Returns whether it was listed.
pub fn mark_deleted(
    conn: &mut Conn<'_>,
    id: TaskId,
    account: AccountId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE tasks SET deleted_at = :now WHERE id = :id AND account_id = :account AND deleted_at IS NULL",
        id,
        account,
        now
    )
    .execute(conn)?;
    Ok(changed == 1)
}

/// Replaces a task's output because its files have changed.
pub fn set_output(conn: &mut Conn<'_>, id: TaskId, output: &TaskResult) -> Result<(), StoreError> {
    sql!(
        "UPDATE tasks SET output = :output WHERE id = :id",
        id,
        output = to_json(output)?
    )
    .execute(conn)?;
    Ok(())
}

/// Whether the task was removed from the Videos API's list.
pub fn is_deleted(conn: &mut Conn<'_>, id: TaskId) -> Result<bool, StoreError> {
    sql!(
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE id = :id AND deleted_at IS NOT NULL",
        id
    )
    .exists(conn)
}

/// The task's events after `seq`, oldest first.
pub fn events_after(
    conn: &mut Conn<'_>,
    id: TaskId,
    seq: u32,
) -> Result<Vec<TaskEvent>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            event_columns!(),
            " FROM task_events WHERE task_id = :id AND seq > :seq ORDER BY seq"
        ),
        id,
        seq
    )
    .all(conn, TaskEvent::from_row)
}

/// Maximum number of ended tasks, and of running ones, from which a model's duration is estimated.
const MAX_DURATION_SAMPLES: i64 = 10_000;

/// Durations of a model's tasks: of the latest that succeeded since `since`, and of those that have
/// been running longest, up to `now`. If more succeeded than are read, the observed time begins
/// when the earliest of those read ended.
pub fn duration_samples(
    conn: &mut Conn<'_>,
    model: &str,
    since: Timestamp,
    now: Timestamp,
) -> Result<Vec<DurationSample>, StoreError> {
    let ended = sql!(
        "SELECT started_at, finished_at FROM tasks
         WHERE model = :model AND state = 'succeeded' AND finished_at >= :since ORDER BY finished_at DESC
         LIMIT :limit",
        model,
        since,
        limit = MAX_DURATION_SAMPLES
    )
    .all(conn, |row| {
        let started_at: Option<i64> = row.field("started_at")?;
        Ok((started_at, row.field::<i64>("finished_at")?, true))
    })?;
    let running = sql!(
        "SELECT started_at FROM tasks WHERE model = :model AND state = 'running' ORDER BY started_at
         LIMIT :limit",
        model,
        limit = MAX_DURATION_SAMPLES
    )
    .all(conn, |row| {
        Ok((row.field("started_at")?, now.micros(), false))
    })?;
    let is_truncated = i64::try_from(ended.len()) == Ok(MAX_DURATION_SAMPLES);
    let first = ended
        .last()
        .filter(|_| is_truncated)
        .map(|(_, end, _)| *end);
    let observed_from = first.unwrap_or(since.micros());
    let duration = |from: i64, to: i64| {
        Duration::from_micros(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
    };
    let samples = ended.into_iter().chain(running);
    Ok(samples
        .filter_map(|(start, until, has_ended)| {
            let start = start?;
            Some(DurationSample {
                from: duration(start, observed_from),
                until: duration(start, until),
                has_ended,
            })
        })
        .collect())
}

fn append_event(conn: &mut Conn<'_>, id: TaskId) -> Result<(), StoreError> {
    // No event is added if the number did not rise, for example when a running task is marked
    // running again.
    sql!(
        "INSERT INTO task_events (task_id, seq, state, progress) SELECT id, event_seq, state, progress FROM tasks
         WHERE id = :id ON CONFLICT (task_id, seq) DO NOTHING",
        id
    )
    .execute(conn)?;
    Ok(())
}

fn approval(
    state: Option<ApprovalState>,
    expires_at: Option<Timestamp>,
    decided_at: Option<Timestamp>,
) -> Option<TaskApproval> {
    Some(TaskApproval {
        state: state?,
        expires_at: expires_at?,
        decided_at,
    })
}

fn failure(code: Option<String>, message: Option<String>) -> Option<TaskFailure> {
    code.map(|name| TaskFailure {
        // An unknown code was written by a newer version; the task is still a failed one.
        code: ErrorCode::from_name(&name).unwrap_or(ErrorCode::GenerationFailed),
        message: message.unwrap_or_default(),
    })
}
