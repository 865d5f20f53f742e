//! Hourly sums by attribute: by end user, and by each name in the metadata of orders. A task counts
//! once for each of its attributes. They change together with the sums in `hourly_sums`.

use sha2::{Digest as _, Sha256};

use crate::columns::FieldReader;
use crate::hourly_sums::{
    HourlyGroup, HourlyQuery, HourlySum, group_columns, hour_of, job_amounts, sum_columns,
};
use crate::ledger_change::LedgerChange;
use crate::statement::sql;
use crate::usage::{DailyUsage, UsageFilter, ended};
use crate::{Conn, StoreError};
use mediagate_model::attribution::{Attribute, Attribution};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::TaskId;
use mediagate_model::money::MicroDollars;
use mediagate_model::submission::JobCost;
use mediagate_model::task::Task;

/// The key of a value in the table: enough of its hash that no two values share one.
pub(super) fn digest(value: &str) -> String {
    let hash = Sha256::digest(value.as_bytes());
    let mut first = [0; 16];
    for (to, from) in first.iter_mut().zip(hash) {
        *to = from;
    }
    format!("{:032x}", u128::from_be_bytes(first))
}

/// Adds a change of a task's money or state. The provider and the outcome are read from the task.
pub(super) fn add(
    conn: &mut Conn<'_>,
    task: TaskId,
    attribution: &Attribution,
    change: LedgerChange,
    now: Timestamp,
) -> Result<(), StoreError> {
    // Money that is only reserved is not in these sums.
    if change.spent == MicroDollars::ZERO && change.final_state.is_none() {
        return Ok(());
    }
    for (attribute, value) in attribution.attributes() {
        sql!(
            "INSERT INTO attributed_sums (account_id, attribute, digest, hour, key_id, model, provider, outcome,
                                          value, tasks, spent_micros)
             SELECT account_id, CAST(:attribute AS TEXT), CAST(:digest AS TEXT), CAST(:hour AS BIGINT), key_id, model,
                    provider, state, CAST(:value AS TEXT), CAST(:has_ended AS BIGINT), CAST(:spent AS BIGINT)
             FROM tasks WHERE id = :task
             ON CONFLICT (account_id, attribute, digest, hour, key_id, model, provider, outcome) DO UPDATE SET
                 tasks = attributed_sums.tasks + excluded.tasks,
                 spent_micros = attributed_sums.spent_micros + excluded.spent_micros",
            task,
            attribute = attribute.to_string(),
            digest = digest(value),
            hour = hour_of(now),
            value,
            has_ended = change.final_state.is_some(),
            spent = change.spent
        )
        .execute(conn)?;
    }
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
    let amounts @ (made, wasted, unknown) = job_amounts(cost);
    if amounts == (0, 0, 0) {
        return Ok(());
    }
    for (attribute, value) in task.attribution.attributes() {
        sql!(
            "INSERT INTO attributed_sums (account_id, attribute, digest, hour, key_id, model, provider, outcome,
                                          value, made_micros, wasted_micros, unknown_jobs)
             SELECT account_id, CAST(:attribute AS TEXT), CAST(:digest AS TEXT), CAST(:hour AS BIGINT), key_id, model,
                    CAST(:provider AS TEXT), state, CAST(:value AS TEXT), CAST(:made AS BIGINT),
                    CAST(:wasted AS BIGINT), CAST(:unknown AS BIGINT)
             FROM tasks WHERE id = :id
             ON CONFLICT (account_id, attribute, digest, hour, key_id, model, provider, outcome) DO UPDATE SET
                 made_micros = attributed_sums.made_micros + excluded.made_micros,
                 wasted_micros = attributed_sums.wasted_micros + excluded.wasted_micros,
                 unknown_jobs = attributed_sums.unknown_jobs + excluded.unknown_jobs",
            id = task.id,
            attribute = attribute.to_string(),
            digest = digest(value),
            hour = hour_of(now),
            provider,
            value,
            made,
            wasted,
            unknown
        )
        .execute(conn)?;
    }
    Ok(())
}

/// At most `limit` sums by the values of an attribute, or of one of its values, and by what else the
/// query groups by, in no particular order.
pub fn sums(
    conn: &mut Conn<'_>,
    query: &HourlyQuery,
    attribute: &Attribute,
    value: Option<&str>,
    limit: i64,
) -> Result<Vec<(HourlyGroup, String, HourlySum)>, StoreError> {
    macro_rules! read {
        ($account:literal, $digest:literal) => {
            sql!(
                concat!("SELECT ", group_columns!(), ", value, ", sum_columns!(), "
                 FROM attributed_sums WHERE attribute = :attribute AND hour >= :from AND hour < :before AND ", $account,
                 " AND ", $digest, " AND (CAST(:provider AS TEXT) IS NULL OR provider = :provider)
                 AND (CAST(:model AS TEXT) IS NULL OR model = :model) AND (CAST(:key AS TEXT) IS NULL OR key_id = :key)
                 AND (CAST(:outcome AS TEXT) IS NULL OR outcome = :outcome)
                 GROUP BY 1, 2, 3, 4, 5, 6, 7 LIMIT :limit"),
                attribute = attribute.to_string(),
                from = hour_of(query.from),
                before = hour_of(query.before),
                account = query.account,
                digest = value.map(digest),
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
        };
    }
    // A statement for each case, because planners use no index for an optional condition.
    let statement = match (query.account, value) {
        (Some(_), Some(_)) => read!("account_id = :account", "digest = :digest"),
        (Some(_), None) => read!("account_id = :account", "CAST(:digest AS TEXT) IS NULL"),
        (None, Some(_)) => read!("CAST(:account AS TEXT) IS NULL", "digest = :digest"),
        (None, None) => read!(
            "CAST(:account AS TEXT) IS NULL",
            "CAST(:digest AS TEXT) IS NULL"
        ),
    };
    statement.all(conn, |row| {
        let mut fields = FieldReader::new(row);
        Ok((
            fields.record()?,
            fields.field("attributed_sums.value")?,
            fields.record()?,
        ))
    })
}

/// At most `limit` rows of an account by day, each with the value of the attribute: of all values, or
/// of one.
pub fn daily_rows(
    conn: &mut Conn<'_>,
    filter: &UsageFilter,
    attribute: &Attribute,
    value: Option<&str>,
    limit: i64,
) -> Result<Vec<(String, DailyUsage)>, StoreError> {
    macro_rules! read {
        ($digest:literal) => {
            sql!(
                concat!("SELECT value, hour / 24, model, key_id, CAST(SUM(spent_micros) AS BIGINT),
                        CAST(SUM(CASE outcome WHEN 'succeeded' THEN tasks ELSE 0 END) AS BIGINT),
                        CAST(SUM(CASE outcome WHEN 'failed' THEN tasks ELSE 0 END) AS BIGINT),
                        CAST(SUM(CASE outcome WHEN 'cancelled' THEN tasks ELSE 0 END) AS BIGINT)
                 FROM attributed_sums
                 WHERE account_id = :account AND attribute = :attribute AND hour >= :from AND hour < :before
                 AND ", $digest, " AND (CAST(:model AS TEXT) IS NULL OR model = :model)
                 AND (CAST(:key AS TEXT) IS NULL OR key_id = :key)
                 GROUP BY 1, 2, 3, 4 LIMIT :limit"),
                account = filter.account,
                attribute = attribute.to_string(),
                from = hour_of(filter.from),
                before = hour_of(filter.before),
                digest = value.map(digest),
                model = filter.model.as_ref(),
                key = filter.key,
                limit
            )
        };
    }
    let statement = if value.is_some() {
        read!("digest = :digest")
    } else {
        read!("CAST(:digest AS TEXT) IS NULL")
    };
    statement.all(conn, |row| {
        let mut fields = FieldReader::new(row);
        let value = fields.field("attributed_sums.value")?;
        let usage = DailyUsage {
            day: fields.field("attributed_sums.hour")?,
            model: fields.field("attributed_sums.model")?,
            key: fields.field("attributed_sums.key_id")?,
            paid: fields.field("attributed_sums.spent_micros")?,
            ended: ended(
                fields.field("attributed_sums.tasks")?,
                fields.field("attributed_sums.tasks")?,
                fields.field("attributed_sums.tasks")?,
            ),
        };
        Ok((value, usage))
    })
}
