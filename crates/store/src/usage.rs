//! Daily sums by account, key and model: charges, credits and ended tasks. They change in the
//! transaction that moves the money or ends the task.

use crate::columns::{TableRecord as _, insert, record};
use crate::ledger_change::{EntrySubject, LedgerChange};
use crate::statement::sql;
use crate::{Conn, StoreError, hourly_sums};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, KeyId};
use mediagate_model::money::MicroDollars;
use mediagate_model::task::TaskState;

/// Microseconds per day.
pub const DAY_MICROS: i64 = 86_400_000_000;

/// Which usage to list.
#[derive(Debug, Clone)]
pub struct UsageFilter {
    pub account: AccountId,
    pub from: Timestamp,
    /// Exclusive.
    pub before: Timestamp,
    pub model: Option<String>,
    pub key: Option<KeyId>,
}

/// One day's work and cost of one key with one model.
#[derive(Debug, Clone)]
pub struct DailyUsage {
    /// The day, counted from the epoch.
    pub day: i64,
    /// The model's canonical name.
    pub model: String,
    pub key: KeyId,
    /// The amount charged, by the day of the ledger's entries.
    pub paid: MicroDollars,
    /// Tasks that ended on that day, by state.
    pub ended: [(TaskState, u64); 3],
}

record! {
    columns for DailyUsage of "daily_sums" {
        day: "day",
        model: "model",
        key: "key_id",
        paid: "spent_micros",
        ended: ended("succeeded", "failed", "cancelled"),
    }
}

pub(super) fn ended(succeeded: i64, failed: i64, cancelled: i64) -> [(TaskState, u64); 3] {
    let count = |stored| u64::try_from(stored).unwrap_or(0);
    [
        (TaskState::Succeeded, count(succeeded)),
        (TaskState::Failed, count(failed)),
        (TaskState::Cancelled, count(cancelled)),
    ]
}

/// The rows of an account, by day.
pub fn rows(conn: &mut Conn<'_>, filter: &UsageFilter) -> Result<Vec<DailyUsage>, StoreError> {
    sql!(
        concat!("SELECT ", columns!(), " FROM daily_sums
         WHERE account_id = :account AND day >= :from AND day < :before AND key_id <> ''
         AND (CAST(:model AS TEXT) IS NULL OR model = :model) AND (CAST(:key AS TEXT) IS NULL OR key_id = :key)"),
        account = filter.account,
        from = day_of(filter.from),
        before = day_of(filter.before),
        model = filter.model.as_ref(),
        key = filter.key
    )
    .all(conn, DailyUsage::from_row)
}

/// The amount that a key spent since the day of `since`.
pub(super) fn spent_since(
    conn: &mut Conn<'_>,
    account: AccountId,
    key: KeyId,
    since: Timestamp,
) -> Result<MicroDollars, StoreError> {
    // In Postgres a sum of BIGINTs is a NUMERIC.
    let spent = sql!(
        "SELECT CAST(COALESCE(SUM(spent_micros), 0) AS BIGINT) FROM daily_sums
         WHERE account_id = :account AND day >= :from AND key_id = :key",
        account,
        key,
        from = day_of(since)
    )
    .value::<i64>(conn)?;
    Ok(MicroDollars::new(spent.unwrap_or(0)))
}

/// The amount refunded to an account on the day of `now` for tasks that were cancelled although
/// their jobs were not cancelled at the provider.
pub fn refunded_on(
    conn: &mut Conn<'_>,
    account: AccountId,
    now: Timestamp,
) -> Result<MicroDollars, StoreError> {
    let refunded = sql!(
        "SELECT CAST(COALESCE(SUM(forgiven_micros), 0) AS BIGINT) FROM daily_sums WHERE account_id = :account
         AND day = :today",
        account,
        today = day_of(now)
    )
    .value::<i64>(conn)?;
    Ok(MicroDollars::new(refunded.unwrap_or(0)))
}

/// Adds `amount`, which may be negative, to the refunds of the day of `at`. The sum never falls
/// below zero: nothing was added for a task that was released before any job was known.
pub fn add_refund(
    conn: &mut Conn<'_>,
    subject: EntrySubject<'_>,
    amount: MicroDollars,
    at: Timestamp,
) -> Result<(), StoreError> {
    sql!(
        "INSERT INTO daily_sums (account_id, day, key_id, model, forgiven_micros)
         VALUES (:account, :day, :key, :model, CASE WHEN CAST(:amount AS BIGINT) > 0 THEN CAST(:amount AS BIGINT)
         ELSE 0 END) ON CONFLICT (account_id, day, key_id, model) DO UPDATE SET
             forgiven_micros = CASE WHEN daily_sums.forgiven_micros + CAST(:amount AS BIGINT) > 0
                                   THEN daily_sums.forgiven_micros + CAST(:amount AS BIGINT) ELSE 0 END",
        account = subject.account,
        day = day_of(at),
        key = subject.key.map(|key| key.to_string()).unwrap_or_default(),
        model = subject.model.unwrap_or_default(),
        amount
    )
    .execute(conn)?;
    Ok(())
}

/// Adds a change to the sums of its day and, if it belongs to a task, to those of its hour.
pub(super) fn add(
    conn: &mut Conn<'_>,
    subject: EntrySubject<'_>,
    change: LedgerChange,
    now: Timestamp,
) -> Result<(), StoreError> {
    let has_no_effect =
        [change.spent, change.credit] == [MicroDollars::ZERO; 2] && change.final_state.is_none();
    // Money that is only reserved is not in these sums.
    if has_no_effect {
        return Ok(());
    }
    let has_ended = |state| change.final_state == Some(state);
    // Empty texts instead of NULL, because these columns are part of the primary key.
    insert!(conn, "daily_sums" {
        "account_id": subject.account,
        "day": day_of(now),
        "key_id": subject.key.map(|key| key.to_string()).unwrap_or_default(),
        "model": subject.model.unwrap_or_default(),
        "spent_micros": change.spent,
        "credit_micros": change.credit,
        "succeeded": has_ended(TaskState::Succeeded),
        "failed": has_ended(TaskState::Failed),
        "cancelled": has_ended(TaskState::Cancelled),
    } "ON CONFLICT (account_id, day, key_id, model) DO UPDATE SET
           spent_micros = daily_sums.spent_micros + excluded.spent_micros,
           credit_micros = daily_sums.credit_micros + excluded.credit_micros,
           succeeded = daily_sums.succeeded + excluded.succeeded, failed = daily_sums.failed + excluded.failed,
           cancelled = daily_sums.cancelled + excluded.cancelled")?;
    match subject.task {
        Some(task) => hourly_sums::add(conn, task, change, now),
        None => Ok(()),
    }
}

/// Days since the epoch, in UTC.
pub const fn day_of(instant: Timestamp) -> i64 {
    instant.micros().div_euclid(DAY_MICROS)
}
