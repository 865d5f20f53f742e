//! Hourly sums of all accounts: tasks by outcome, charges, and payments to providers.
//! They change in the transaction that moves the money, ends the task or closes the job.

use crate::columns::{FieldReader, record};
use crate::ledger_change::LedgerChange;
use crate::statement::sql;
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, KeyId, TaskId};
use mediagate_model::money::MicroDollars;
use mediagate_model::submission::JobCost;
use mediagate_model::task::{Task, TaskState};

/// Microseconds per hour.
pub const HOUR_MICROS: i64 = 3_600_000_000;

/// Which sums to read, and how to group them.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is one way to group")]
pub struct HourlyQuery {
    pub from: Timestamp,
    /// Exclusive.
    pub before: Timestamp,
    pub account: Option<AccountId>,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub key: Option<KeyId>,
    pub outcome: Option<TaskState>,
    /// Hours per row, 24 at most; `None` sums up the whole time.
    pub step: Option<i64>,
    pub by_account: bool,
    pub by_provider: bool,
    pub by_model: bool,
    pub by_key: bool,
    pub by_outcome: bool,
}

/// What the sums of a row have in common; 0 or empty where the query does not group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HourlyGroup {
    /// Steps since the epoch.
    pub step: i64,
    pub account: String,
    pub provider: String,
    pub model: String,
    pub key: String,
    pub outcome: String,
}

/// Work, what was charged for it, and what it cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HourlySum {
    pub succeeded: i64,
    pub failed: i64,
    pub cancelled: i64,
    /// Charged, by the hour of the ledger's entries.
    pub charged: MicroDollars,
    /// Paid to providers for jobs that they finished.
    pub made: MicroDollars,
    /// The costs that providers reported for other jobs.
    pub wasted: MicroDollars,
    /// Jobs with unknown costs.
    pub unknown_jobs: i64,
}

impl HourlySum {
    /// What is in `self` and not in `part`.
    #[must_use]
    pub fn without(&self, part: &Self) -> Self {
        Self {
            succeeded: self.succeeded - part.succeeded,
            failed: self.failed - part.failed,
            cancelled: self.cancelled - part.cancelled,
            charged: self.charged.minus(part.charged),
            made: self.made.minus(part.made),
            wasted: self.wasted.minus(part.wasted),
            unknown_jobs: self.unknown_jobs - part.unknown_jobs,
        }
    }
}

record! {
    group_columns for HourlyGroup of "hourly_sums" {
        step: "CASE CAST(:step AS BIGINT) WHEN 0 THEN 0 ELSE hour / :step END",
        account: "CASE CAST(:by_account AS BIGINT) WHEN 1 THEN account_id ELSE '' END",
        provider: "CASE CAST(:by_provider AS BIGINT) WHEN 1 THEN provider ELSE '' END",
        model: "CASE CAST(:by_model AS BIGINT) WHEN 1 THEN model ELSE '' END",
        key: "CASE CAST(:by_key AS BIGINT) WHEN 1 THEN key_id ELSE '' END",
        outcome: "CASE CAST(:by_outcome AS BIGINT) WHEN 1 THEN outcome ELSE '' END",
    }
}

record! {
    sum_columns for HourlySum of "hourly_sums" {
        succeeded: "CAST(SUM(CASE outcome WHEN 'succeeded' THEN tasks ELSE 0 END) AS BIGINT)",
        failed: "CAST(SUM(CASE outcome WHEN 'failed' THEN tasks ELSE 0 END) AS BIGINT)",
        cancelled: "CAST(SUM(CASE outcome WHEN 'cancelled' THEN tasks ELSE 0 END) AS BIGINT)",
        charged: "CAST(SUM(spent_micros) AS BIGINT)",
        made: "CAST(SUM(made_micros) AS BIGINT)",
        wasted: "CAST(SUM(wasted_micros) AS BIGINT)",
        unknown_jobs: "CAST(SUM(unknown_jobs) AS BIGINT)",
    }
}

pub(super) use {group_columns, sum_columns};

/// At most `limit` sums, in no particular order.
pub fn sums(
    conn: &mut Conn<'_>,
    query: &HourlyQuery,
    limit: i64,
) -> Result<Vec<(HourlyGroup, HourlySum)>, StoreError> {
    sql!(
        concat!("SELECT ", group_columns!(), ", ", sum_columns!(), "
         FROM hourly_sums WHERE hour >= :from AND hour < :before
         AND (CAST(:account AS TEXT) IS NULL OR account_id = :account) AND (CAST(:provider AS TEXT) IS NULL
         OR provider = :provider)
         AND (CAST(:model AS TEXT) IS NULL OR model = :model) AND (CAST(:key AS TEXT) IS NULL OR key_id = :key)
         AND (CAST(:outcome AS TEXT) IS NULL OR outcome = :outcome)
         GROUP BY 1, 2, 3, 4, 5, 6 LIMIT :limit"),
        from = hour_of(query.from),
        before = hour_of(query.before),
        account = query.account,
        provider = query.provider.as_ref(),
        model = query.model.as_ref(),
        key = query.key,
        outcome = query.outcome,
        step = query.step.unwrap_or(0),
        by_account = query.by_account,
        by_provider = query.by_provider,
        by_model = query.by_model,
        by_key = query.by_key,
        by_outcome = query.by_outcome,
        limit
    )
    .all(conn, |row| {
            let mut fields = FieldReader::new(row);
            Ok((fields.record()?, fields.record()?))
        })
}

/// Adds a change of a task's money or state to its hour. The provider and the outcome are read from
/// the task itself.
pub(super) fn add(
    conn: &mut Conn<'_>,
    task: TaskId,
    change: LedgerChange,
    now: Timestamp,
) -> Result<(), StoreError> {
    sql!(
        "INSERT INTO hourly_sums (hour, account_id, key_id, model, provider, outcome, tasks, spent_micros)
         SELECT CAST(:hour AS BIGINT), account_id, key_id, model, provider,
         state, CAST(:has_ended AS BIGINT), CAST(:spent AS BIGINT)
         FROM tasks WHERE id = :task
         ON CONFLICT (hour, account_id, key_id, model, provider, outcome) DO UPDATE SET
             tasks = hourly_sums.tasks + excluded.tasks, spent_micros = hourly_sums.spent_micros + excluded.spent_micros",
        task,
        hour = hour_of(now),
        has_ended = change.final_state.is_some(),
        spent = change.spent
    )
    .execute(conn)?;
    Ok(())
}

/// Adds the cost of a job to the hour in which it ended.
pub fn add_job(
    conn: &mut Conn<'_>,
    task: &Task,
    provider: &str,
    cost: JobCost,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (made, wasted, unknown) = job_amounts(cost);
    if (made, wasted, unknown) == (0, 0, 0) {
        return Ok(());
    }
    sql!(
        "INSERT INTO hourly_sums (hour, account_id, key_id, model, provider, outcome, made_micros, wasted_micros, unknown_jobs)
         SELECT CAST(:hour AS BIGINT), account_id, key_id, model, CAST(:provider AS TEXT),
         state, CAST(:made AS BIGINT), CAST(:wasted AS BIGINT),
                CAST(:unknown AS BIGINT)
         FROM tasks WHERE id = :id
         ON CONFLICT (hour, account_id, key_id, model, provider, outcome) DO UPDATE SET
             made_micros = hourly_sums.made_micros + excluded.made_micros,
             wasted_micros = hourly_sums.wasted_micros + excluded.wasted_micros,
             unknown_jobs = hourly_sums.unknown_jobs + excluded.unknown_jobs",
        id = task.id,
        hour = hour_of(now),
        provider,
        made,
        wasted,
        unknown
    )
    .execute(conn)?;
    Ok(())
}

/// What is added to the sums for a job: paid for its result, paid for nothing, unknown.
pub(super) const fn job_amounts(cost: JobCost) -> (i64, i64, i64) {
    match cost {
        JobCost::Made(cost) => (cost.get(), 0, 0),
        JobCost::Wasted(cost) => (0, cost.get(), 0),
        JobCost::Unknown => (0, 0, 1),
    }
}

/// Hours since the epoch, in UTC.
pub(super) const fn hour_of(instant: Timestamp) -> i64 {
    instant.micros().div_euclid(HOUR_MICROS)
}
