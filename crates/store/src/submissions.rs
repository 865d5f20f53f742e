//! Submissions to providers. A row is on disk before its request is sent, so a crash cannot make a
//! submission undetectable.
//!
//! A submission's *follower* is the worker process that sends it and then follows its job to the
//! end. A *stray* is a submission whose task has ended while its job may still be running. See
//! [`SubmissionState`] for the states.

mod jobs;

use orders::ProviderCost;

use crate::columns::{FieldReader, TableRecord as _, insert, record, saturated};
use crate::statement::{dialect_sql, sql};
use crate::tasks::PageQuery;
use crate::{Conn, Row, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{SubmissionId, TaskId};
use mediagate_model::submission::{
    ClosedSubmission, ReportedCost, Submission, SubmissionEnd, SubmissionFilter, SubmissionRecord,
    SubmissionResolution, SubmissionState,
};

pub use jobs::{AcceptanceResult, JobAcceptance, accept, has_undecided_twin, is_taken, mark_found};

record! {
    columns for Submission of "submissions" {
        id: "id",
        task: "task_id",
        attempt: saturated("attempt"),
        provider: "provider",
        route_model: "route_model",
        endpoint: "endpoint",
        credential: "credential",
        state: "state",
        handle: "handle",
        results: "results",
        created_at: "created_at",
        accepted_at: "accepted_at",
        likeness: "likeness",
        has_key: "has_key",
        job_settings: "job_settings",
        order_settings: "order_settings",
    }
}

record! {
    cost_columns for ReportedCost of "submissions" {
        provider: "provider",
        millionths: "cost_millionths",
        unit: "cost_unit",
    }
}

record! {
    end_columns for SubmissionEnd of "submissions" {
        answered_at: "answered_at",
        ended_at: "ended_at",
        error: error("error_class", "error_message"),
    }
}

record! {
    record_columns for SubmissionRecord of "submissions" {
        submission: ..columns!("s"),
        error: Option::zip("s.error_class", "s.error_message"),
        account: "a.handle",
        task_state: "t.state",
        resolution: resolution("s.resolved_at", "s.resolved_note", "s.resolved_job"),
    }
}

fn error(class: Option<String>, message: Option<String>) -> Option<(String, String)> {
    class.map(|class| (class, message.unwrap_or_default()))
}

fn resolution(
    at: Option<Timestamp>,
    note: Option<String>,
    job: Option<String>,
) -> Option<SubmissionResolution> {
    at.map(|at| SubmissionResolution {
        at,
        note: note.unwrap_or_default(),
        job,
    })
}

/// Records that a submission is about to be sent by the process `follower`.
pub fn intend(conn: &mut Conn<'_>, new: &Submission, follower: &str) -> Result<(), StoreError> {
    insert!(conn, "submissions" {
        "id": new.id,
        "task_id": new.task,
        "attempt": new.attempt,
        "provider": new.provider,
        "route_model": new.route_model,
        "credential": new.credential,
        "state": SubmissionState::Intended,
        "created_at": new.created_at,
        "follower": follower,
        "endpoint": new.endpoint,
        "likeness": new.likeness,
        "has_key": new.has_key,
        "job_settings": new.job_settings,
        "order_settings": new.order_settings,
    })?;
    Ok(())
}

/// Closes a submission at `now`; `error` is a class and a message. Changes nothing and returns
/// `None` if the submission is no longer in the state `from`.
pub fn close(
    conn: &mut Conn<'_>,
    id: SubmissionId,
    from: SubmissionState,
    state: SubmissionState,
    error: Option<(&str, &str)>,
    now: Timestamp,
) -> Result<Option<ClosedSubmission>, StoreError> {
    // An unclear outcome means that the provider did not answer.
    sql!(
        "UPDATE submissions SET state = :state, error_class = :class, error_message = :message, follower = NULL,
         stray = 0, ended_at = :now,
                answered_at = CASE :state WHEN 'unclear' THEN answered_at ELSE COALESCE(answered_at, :now) END
         WHERE id = :id AND state = :from
         RETURNING task_id, provider, route_model, cost_millionths, cost_unit",
        id,
        from,
        state,
        class = error.map(|error| error.0),
        message = error.map(|error| error.1),
        now
    )
    .one(conn, |row| {
            let mut fields = FieldReader::new(row);
            Ok(ClosedSubmission {
                state,
                task: fields.field("submissions.task_id")?,
                provider: fields.field("submissions.provider")?,
                route_model: fields.field("submissions.route_model")?,
                reported_cost: fields
                    .field::<Option<i64>>("submissions.cost_millionths")?
                    .zip(fields.field("submissions.cost_unit")?),
            })
        })
}

/// Records the cost that the provider reports for its job.
pub fn set_cost(
    conn: &mut Conn<'_>,
    id: SubmissionId,
    cost: ProviderCost,
) -> Result<(), StoreError> {
    sql!(
        "UPDATE submissions SET cost_millionths = :millionths, cost_unit = :unit WHERE id = :id",
        id,
        millionths = cost.millionths,
        unit = cost.unit.name()
    )
    .execute(conn)?;
    Ok(())
}

/// The reported costs of the jobs of tasks whose money was settled or released by ledger entries
/// between two positions, each with its task, in the order of the jobs.
pub fn costs_between(
    conn: &mut Conn<'_>,
    first: (Timestamp, &str),
    last: (Timestamp, &str),
) -> Result<Vec<(TaskId, ReportedCost)>, StoreError> {
    let mut costs = sql!(
        concat!(
            "SELECT submissions.id, submissions.task_id, ",
            cost_columns!(),
            "
         FROM ledger JOIN submissions ON submissions.task_id = ledger.task_id
         WHERE (ledger.created_at, ledger.id) >= (:first_at, :first_id) AND (ledger.created_at,
         ledger.id) <= (:last_at, :last_id)
         AND kind IN ('settle', 'release') AND cost_unit IS NOT NULL"
        ),
        first_at = first.0,
        first_id = first.1,
        last_at = last.0,
        last_id = last.1
    )
    .all(conn, |row| {
        let mut fields = FieldReader::new(row);
        let id: String = fields.field("submissions.id")?;
        Ok((id, (fields.field("submissions.task_id")?, fields.record()?)))
    })?;
    // Ids sort by time, so this is the order of the jobs.
    costs.sort_by(|(id, _), (other_id, _)| id.cmp(other_id));
    Ok(costs.into_iter().map(|(_, cost)| cost).collect())
}

/// A page after, or before, a position.
macro_rules! records {
    ($position:literal, $condition:literal, $order:literal) => {
        concat!(
            "SELECT ", record_columns!(), "
             FROM submissions s JOIN tasks t ON t.id = s.task_id JOIN accounts a ON a.id = t.account_id WHERE ",
            $position, $condition, " ORDER BY ", $order, " LIMIT :limit"
        )
    };
}

/// A page of submissions of all accounts.
pub fn page(
    conn: &mut Conn<'_>,
    filter: Option<SubmissionFilter>,
    page: PageQuery<SubmissionId>,
) -> Result<Vec<SubmissionRecord>, StoreError> {
    let limit = page.limit;
    // A text that sorts before every id, or after every id if the list descends.
    let end = if page.ascending { "" } else { "g" };
    let start = page
        .after
        .map_or_else(|| end.to_owned(), |id| id.to_string());
    macro_rules! read {
        ($condition:literal) => {
            if page.ascending {
                sql!(records!("s.id > :start", $condition, "s.id"), start, limit)
            } else {
                sql!(
                    records!("s.id < :start", $condition, "s.id DESC"),
                    start,
                    limit
                )
            }
        };
    }
    let statement = match filter {
        None => read!(""),
        Some(SubmissionFilter::Unconfirmed) => {
            read!(" AND s.state IN ('unclear', 'found') AND s.resolved_at IS NULL")
        }
    };
    statement.all(conn, SubmissionRecord::from_row)
}

/// A submission of any account.
pub fn record_by_id(
    conn: &mut Conn<'_>,
    id: SubmissionId,
) -> Result<Option<SubmissionRecord>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            record_columns!(),
            " FROM submissions s JOIN tasks t ON t.id = s.task_id JOIN accounts a ON a.id = t.account_id
             WHERE s.id = :id"
        ),
        id
    )
    .one(conn, SubmissionRecord::from_row)
}

/// Records how an operator resolved an unconfirmed submission, which is no longer looked up then.
/// Returns false if it is not unconfirmed, or was resolved before.
pub fn resolve(
    conn: &mut Conn<'_>,
    id: SubmissionId,
    note: &str,
    job: Option<&str>,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE submissions SET resolved_at = :now, resolved_note = :note, resolved_job = :job, due_at = NULL
         WHERE id = :id AND state IN ('unclear', 'found') AND resolved_at IS NULL",
        id,
        note,
        job,
        now
    )
    .execute(conn)?;
    Ok(changed == 1)
}

pub fn by_id(conn: &mut Conn<'_>, id: SubmissionId) -> Result<Option<Submission>, StoreError> {
    sql!(
        concat!("SELECT ", columns!(), " FROM submissions WHERE id = :id"),
        id
    )
    .one(conn, Submission::from_row)
}

/// The latest submission of a task.
pub fn latest(conn: &mut Conn<'_>, task: TaskId) -> Result<Option<Submission>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM submissions WHERE task_id = :task ORDER BY attempt DESC LIMIT 1"
        ),
        task
    )
    .one(conn, Submission::from_row)
}

/// Adds a submission that a provider refused in a preparatory call, before the order was sent.
pub fn insert_refused(
    conn: &mut Conn<'_>,
    refused: &Submission,
    (class, message): (&str, &str),
    now: Timestamp,
) -> Result<(), StoreError> {
    insert!(conn, "submissions" {
        "task_id": refused.task,
        "id": refused.id,
        "attempt": sql("(SELECT COALESCE(MAX(attempt), 0) + 1 FROM submissions WHERE task_id = :task_id)"),
        "provider": refused.provider,
        "route_model": refused.route_model,
        "credential": refused.credential,
        "state": SubmissionState::Refused,
        "created_at": refused.created_at,
        "answered_at": now,
        "ended_at": now,
        "error_class": class,
        "error_message": message,
        "endpoint": refused.endpoint,
    })?;
    Ok(())
}

/// The latest `limit` submissions of a task with their outcomes, in order.
pub fn of_task(
    conn: &mut Conn<'_>,
    task: TaskId,
    limit: u32,
) -> Result<Vec<(Submission, SubmissionEnd)>, StoreError> {
    let mut submissions = sql!(
        concat!(
            "SELECT ",
            columns!(),
            ", ",
            end_columns!(),
            " FROM submissions WHERE task_id = :task ORDER BY attempt DESC LIMIT :limit"
        ),
        task,
        limit
    )
    .all(conn, |row| {
        let mut fields = FieldReader::new(row);
        Ok((fields.record()?, fields.record()?))
    })?;
    submissions.reverse();
    Ok(submissions)
}

/// Marks the open submissions of an ended task as strays.
pub fn set_stray(conn: &mut Conn<'_>, task: TaskId, now: Timestamp) -> Result<(), StoreError> {
    sql!(
        "UPDATE submissions SET stray = 1, due_at = :now WHERE task_id = :task AND state IN ('intended', 'accepted')",
        task,
        now
    )
    .execute(conn)?;
    Ok(())
}

/// Removes `follower` from a submission; any process may claim the submission from `due` on.
pub fn release_from_follower(
    conn: &mut Conn<'_>,
    id: SubmissionId,
    follower: &str,
    due: Timestamp,
) -> Result<(), StoreError> {
    sql!(
        "UPDATE submissions SET follower = NULL, due_at = :due WHERE id = :id AND follower = :follower",
        id,
        follower,
        due
    )
    .execute(conn)?;
    Ok(())
}

/// Releases a task's strays that `follower` follows.
pub fn release_strays_of_task(
    conn: &mut Conn<'_>,
    task: TaskId,
    follower: &str,
    due: Timestamp,
) -> Result<(), StoreError> {
    sql!(
        "UPDATE submissions SET follower = NULL, due_at = :due WHERE task_id = :task AND follower = :follower
         AND stray = 1",
        task,
        follower,
        due
    )
    .execute(conn)?;
    Ok(())
}

/// Claims up to `limit` strays that no live process follows.
pub fn claim_strays(
    conn: &mut Conn<'_>,
    follower: &str,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<Submission>, StoreError> {
    // Strays are not freed when their follower dies, so the claiming process checks whether the
    // follower is alive.
    dialect_sql!(
        conn,
        concat!(
            "UPDATE submissions SET follower = :follower WHERE id IN (SELECT id FROM submissions WHERE stray = 1
             AND due_at <= :now
             AND (follower IS NULL OR NOT EXISTS (SELECT 1 FROM workers WHERE name = follower AND held_until > 0))
             ORDER BY due_at LIMIT :limit)
             RETURNING ", columns!()
        ),
        concat!(
            "UPDATE submissions SET follower = :follower WHERE id IN (SELECT id FROM submissions WHERE stray = 1
             AND due_at <= :now
             AND (follower IS NULL OR NOT EXISTS (SELECT 1 FROM workers WHERE name = follower AND held_until > 0))
             ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED)
             RETURNING ", columns!()
        ),
        follower,
        now,
        limit
    )
    .all(conn, Submission::from_row)
}

/// Whether there is a stray to claim.
pub fn any_stray(conn: &mut Conn<'_>, now: Timestamp) -> Result<bool, StoreError> {
    sql!(
        "SELECT CAST(1 AS BIGINT) FROM submissions WHERE stray = 1 AND due_at <= :now
         AND (follower IS NULL OR NOT EXISTS (SELECT 1 FROM workers WHERE name = follower AND held_until > 0)) LIMIT 1",
        now
    )
    .exists(conn)
}

/// The strays that `follower` follows, with their tasks.
pub fn strays_of(
    conn: &mut Conn<'_>,
    follower: &str,
) -> Result<Vec<(SubmissionId, TaskId)>, StoreError> {
    sql!(
        "SELECT id, task_id FROM submissions WHERE stray = 1 AND follower = :follower",
        follower
    )
    .all(conn, |row| Ok((row.field("id")?, row.field("task_id")?)))
}

/// Whether a stray is postponed until after `horizon`.
pub fn any_stray_due_after(conn: &mut Conn<'_>, horizon: Timestamp) -> Result<bool, StoreError> {
    sql!(
        "SELECT CAST(1 AS BIGINT) FROM submissions WHERE stray = 1 AND due_at > :horizon LIMIT 1",
        horizon
    )
    .exists(conn)
}

/// Makes strays that are postponed until after `horizon` due now. Returns how many.
pub fn pull_strays_forward(
    conn: &mut Conn<'_>,
    horizon: Timestamp,
    now: Timestamp,
) -> Result<u64, StoreError> {
    sql!(
        "UPDATE submissions SET due_at = :now WHERE stray = 1 AND due_at > :horizon",
        horizon,
        now
    )
    .execute(conn)
}

/// Sets when to look up the job of an unclear submission again; never if `None`, or if an operator
/// has resolved it.
pub fn schedule_lookup(
    conn: &mut Conn<'_>,
    id: SubmissionId,
    due: Option<Timestamp>,
) -> Result<(), StoreError> {
    sql!(
        "UPDATE submissions SET due_at = :due WHERE id = :id AND resolved_at IS NULL",
        id,
        due
    )
    .execute(conn)?;
    Ok(())
}

/// At most `limit` unclear submissions whose look-up is due.
pub fn unclear_due(
    conn: &mut Conn<'_>,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<Submission>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM submissions WHERE state = 'unclear' AND due_at IS NOT NULL AND due_at <= :now ORDER BY due_at
             LIMIT :limit"
        ),
        now,
        limit
    )
    .all(conn, Submission::from_row)
}

/// Submissions that use one of a provider's slots, counted by route model and credential. Strays
/// use none.
pub fn count_open(
    conn: &mut Conn<'_>,
    provider: &str,
) -> Result<Vec<(String, String, u32)>, StoreError> {
    sql!(
        "SELECT route_model, credential, COUNT(*) AS count FROM submissions
         WHERE provider = :provider AND state IN ('intended', 'accepted') AND stray = 0 GROUP BY route_model,
         credential",
        provider
    )
    .all(conn, read_count)
}

/// Submissions to a provider since `since`, counted by route model and credential.
pub fn count_since(
    conn: &mut Conn<'_>,
    provider: &str,
    since: Timestamp,
) -> Result<Vec<(String, String, u32)>, StoreError> {
    sql!(
        "SELECT route_model, credential, COUNT(*) AS count FROM submissions
         WHERE provider = :provider AND created_at > :since GROUP BY route_model, credential",
        provider,
        since
    )
    .all(conn, read_count)
}

/// Blocks other processes from submitting to this provider until the transaction ends, so that no
/// two processes take its last slot.
pub fn lock_provider(conn: &mut Conn<'_>, provider: &str) -> Result<(), StoreError> {
    // There is only one SQLite writer.
    if matches!(conn, Conn::Sqlite(_)) {
        return Ok(());
    }
    sql!(
        "SELECT CAST(1 AS BIGINT) FROM (SELECT pg_advisory_xact_lock(hashtextextended(:provider, 7))) AS locked",
        provider
    )
    .value::<i64>(conn)
    .map(drop)
}

fn read_count(row: &Row<'_>) -> Result<(String, String, u32), StoreError> {
    let count = saturated(row.field("count")?);
    Ok((row.field("route_model")?, row.field("credential")?, count))
}
