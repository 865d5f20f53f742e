//! Check of the hourly sums against the daily sums, which are checked against the entries
//! themselves.
//!
//! Hourly sums were introduced in a later version than daily sums, and were computed from the
//! records that existed then, without work whose records had been removed. They must therefore lie
//! between the sum of the remaining records and the day's sum. These two are equal as long as
//! nothing was removed.

use super::sums::counted_entries;
use super::{Mismatch, RetentionBounds, day_name};
use crate::columns::FieldReader;
use crate::hourly_sums::HOUR_MICROS;
use crate::statement::sql;
use crate::usage::DAY_MICROS;
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::money::MicroDollars;

/// Hours per day.
pub(super) const HOURS_PER_DAY: i64 = 24;

/// The differences between the hourly sums of a day and the day's sums.
pub(super) fn of_day(
    conn: &mut Conn<'_>,
    day: i64,
    bounds: RetentionBounds,
) -> Result<Vec<Mismatch>, StoreError> {
    let mut mismatches = spent_mismatches(conn, day)?;
    mismatches.extend(count_mismatches(conn, day)?);
    // This check needs all records, and would only repeat the mismatches found above.
    if mismatches.is_empty() && bounds.is_exact_day(day) {
        mismatches.extend(outcome_mismatches(conn, day)?);
    }
    Ok(mismatches)
}

/// Compares the sums of each hour, by provider and outcome, with the tasks and entries themselves:
/// the day's sums contain neither provider nor outcome.
fn outcome_mismatches(conn: &mut Conn<'_>, day: i64) -> Result<Vec<Mismatch>, StoreError> {
    let first_instant = day.saturating_mul(DAY_MICROS);
    sql!(
        concat!(
            "SELECT hour, account_id, key_id, model, provider, outcome, CAST(SUM(tasks) AS BIGINT), CAST(SUM(there) AS BIGINT),
                CAST(SUM(spent) AS BIGINT), CAST(SUM(entries_spent) AS BIGINT)
         FROM (SELECT hour, account_id, key_id, model, provider, outcome, tasks, 0 AS there, spent_micros AS spent,
                      0 AS entries_spent
               FROM hourly_sums WHERE hour >= :first_hour AND hour < :end_hour
               UNION ALL
               SELECT finished_at / 3600000000, account_id, key_id, model, provider, state, 0, 1, 0, 0 FROM tasks
               WHERE finished_at IS NOT NULL AND finished_at >= :first_instant AND finished_at < :end
               UNION ALL
               SELECT e.at / 3600000000, t.account_id, t.key_id, t.model, t.provider, t.state, 0, 0, 0, e.spent_micros
               FROM (",
            counted_entries!(
                "l.task_id, l.spent_micros, COALESCE(l.counted_at, l.created_at) AS at"
            ),
            ") AS e JOIN tasks t ON t.id = e.task_id WHERE e.spent_micros <> 0) AS sums
         GROUP BY hour, account_id, key_id, model, provider, outcome
         HAVING SUM(tasks) <> SUM(there) OR SUM(spent) <> SUM(entries_spent)"
        ),
        first_hour = day.saturating_mul(HOURS_PER_DAY),
        first_instant,
        end = first_instant.saturating_add(DAY_MICROS),
        end_hour = day.saturating_add(1).saturating_mul(HOURS_PER_DAY)
    )
    .all(conn, |row| {
            let mut fields = FieldReader::new(row);
            let hour: i64 = fields.field("hour")?;
            let account: String = fields.field("account_id")?;
            let key: String = fields.field("key_id")?;
            let model: String = fields.field("model")?;
            let provider: String = fields.field("provider")?;
            let outcome: String = fields.field("outcome")?;
            let tasks: i64 = fields.field("tasks")?;
            let existing: i64 = fields.field("there")?;
            let spent: MicroDollars = fields.field("spent")?;
            let entries_spent: MicroDollars = fields.field("entries_spent")?;
            Ok(Mismatch {
                kind: "hours",
                id: hour_name(hour),
                detail: format!(
                    "account {account}, key {key}, model {model}, provider {provider}: {tasks} {outcome} for {spent}; there are \
                     {existing} such tasks, and their entries sum to {entries_spent}"
                ),
            })
        })
}

fn spent_mismatches(conn: &mut Conn<'_>, day: i64) -> Result<Vec<Mismatch>, StoreError> {
    sql!(
        "SELECT account_id, key_id, model, CAST(SUM(of_hours) AS BIGINT), CAST(SUM(of_day) AS BIGINT)
         FROM (SELECT account_id, key_id, model, spent_micros AS of_hours, 0 AS of_day, 0 AS past
               FROM hourly_sums WHERE hour >= :first_hour AND hour < :end_hour
               UNION ALL
               SELECT account_id, key_id, model, 0, spent_micros, past_micros FROM daily_sums WHERE day = :day) AS sums
         WHERE key_id <> '' GROUP BY account_id, key_id, model
         HAVING SUM(of_hours) > SUM(of_day) OR SUM(of_hours) < SUM(of_day) - SUM(past)",
        day,
        first_hour = day.saturating_mul(HOURS_PER_DAY),
        end_hour = day.saturating_add(1).saturating_mul(HOURS_PER_DAY)
    )
    .all(conn, |row| {
            let mut fields = FieldReader::new(row);
            let account: String = fields.field("account_id")?;
            let key: String = fields.field("key_id")?;
            let model: String = fields.field("model")?;
            let hours_sum: MicroDollars = fields.field("of_hours")?;
            let day_sum: MicroDollars = fields.field("of_day")?;
            Ok(Mismatch {
                kind: "hours",
                id: day_name(day),
                detail: format!(
                    "account {account}, key {key}, model {model}: spent {hours_sum}; the day's sum is {day_sum}"
                ),
            })
        })
}

fn count_mismatches(conn: &mut Conn<'_>, day: i64) -> Result<Vec<Mismatch>, StoreError> {
    let first_instant = day.saturating_mul(DAY_MICROS);
    sql!(
        "SELECT account_id, key_id, model, outcome, CAST(SUM(of_hours) AS BIGINT), CAST(SUM(of_day) AS BIGINT)
         FROM (SELECT account_id, key_id, model, outcome, tasks AS of_hours, 0 AS of_day, 0 AS there
               FROM hourly_sums WHERE hour >= :first_hour AND hour < :end_hour
               UNION ALL
               SELECT account_id, key_id, model, 'succeeded', 0, succeeded, 0 FROM daily_sums WHERE day = :day
               UNION ALL
               SELECT account_id, key_id, model, 'failed', 0, failed, 0 FROM daily_sums WHERE day = :day
               UNION ALL
               SELECT account_id, key_id, model, 'cancelled', 0, cancelled, 0 FROM daily_sums WHERE day = :day
               UNION ALL
               SELECT account_id, key_id, model, state, 0, 0, 1 FROM tasks
               WHERE finished_at IS NOT NULL AND finished_at >= :first_instant AND finished_at < :end) AS counts
         GROUP BY account_id, key_id, model, outcome
         HAVING SUM(of_hours) > SUM(of_day) OR SUM(of_hours) < SUM(there)",
        day,
        first_hour = day.saturating_mul(HOURS_PER_DAY),
        end_hour = day.saturating_add(1).saturating_mul(HOURS_PER_DAY),
        first_instant,
        end = first_instant.saturating_add(DAY_MICROS)
    )
    .all(conn, |row| {
            let mut fields = FieldReader::new(row);
            let account: String = fields.field("account_id")?;
            let key: String = fields.field("key_id")?;
            let model: String = fields.field("model")?;
            let outcome: String = fields.field("outcome")?;
            let hours_sum: i64 = fields.field("of_hours")?;
            let day_sum: i64 = fields.field("of_day")?;
            Ok(Mismatch {
                kind: "hours",
                id: day_name(day),
                detail: format!(
                    "account {account}, key {key}, model {model}: {hours_sum} {outcome}; the day's sum is {day_sum}"
                ),
            })
        })
}

/// The hour as it is named in a mismatch.
pub(super) fn hour_name(hour: i64) -> String {
    Timestamp::from_micros(hour.saturating_mul(HOUR_MICROS)).rfc3339()
}
