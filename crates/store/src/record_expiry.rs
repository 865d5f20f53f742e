//! Removal of old records: finished tasks with their events, submissions and entries, a batch at a
//! time. The sums stay.
//!
//! A clip outlives the task that made it: it keeps the task's id and request, so it can still be
//! shown, fetched and separated.

use std::collections::BTreeMap;

use crate::columns::FieldReader;
use crate::conn::to_json;
use crate::statement::{dialect_sql, sql};
use crate::usage::DAY_MICROS;
use crate::{Conn, StoreError, meta};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::TaskId;
use mediagate_model::money::MicroDollars;
use mediagate_model::task::TaskState;

/// `meta` key of the latest time at which a removed task had ended.
const REMOVED_UNTIL: &str = "records_removed_until";

/// At most `limit` tasks that ended before `before` and need no more work, the earliest first.
pub fn expired_tasks(
    conn: &mut Conn<'_>,
    before: Timestamp,
    limit: u32,
) -> Result<Vec<TaskId>, StoreError> {
    // A task is kept while its money is held or its job may still be found at a provider.
    sql!(
        "SELECT id FROM tasks WHERE finished_at IS NOT NULL AND finished_at < :before AND money <> 'held'
         AND NOT EXISTS (SELECT 1 FROM submissions s WHERE s.task_id = tasks.id
                         AND (s.state IN ('intended', 'accepted') OR (s.state = 'unclear' AND s.due_at IS NOT NULL)))
         ORDER BY finished_at, id LIMIT :limit",
        before,
        limit
    )
    .values(conn)
}

/// A statement with the condition that the column at the end of `$before` is in `:ids`, a JSON list
/// of ids.
macro_rules! in_ids {
    ($conn:expr, $before:literal, $after:literal $(, $name:ident)+) => {
        dialect_sql!(
            $conn,
            concat!($before, " IN (SELECT value FROM json_each(:ids))", $after),
            concat!(
                $before,
                " = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(:ids AS TEXT) AS json))))",
                $after
            )
            $(, $name)+
        )
    };
}

/// Deletes these tasks. Their money stays in the sums of keys, accounts and days, and their cost is
/// kept as long as their orders may be repeated.
pub fn remove(conn: &mut Conn<'_>, tasks: &[TaskId], now: Timestamp) -> Result<(), StoreError> {
    let ids = to_json(&tasks.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let ids = ids.as_str();
    // First, because it reads the entries that are deleted below.
    record_past_spending(conn, ids)?;
    keep_costs(conn, ids, now)?;
    crate::tasks::remove_words(conn, tasks)?;
    // Rows that refer to a task are deleted before the task itself.
    let statements = [
        in_ids!(conn, "DELETE FROM ledger WHERE task_id", "", ids),
        in_ids!(conn, "DELETE FROM submissions WHERE task_id", "", ids),
        in_ids!(conn, "DELETE FROM task_events WHERE task_id", "", ids),
        // Clips that were never made.
        in_ids!(
            conn,
            "DELETE FROM clips WHERE task_id",
            " AND audio IS NULL",
            ids
        ),
        in_ids!(
            conn,
            "UPDATE clips SET past_task_id = task_id, task_id = NULL,
                    past_payload = (SELECT payload FROM tasks WHERE tasks.id = clips.task_id)
             WHERE task_id",
            "",
            ids
        ),
        in_ids!(
            conn,
            "DELETE FROM print_keys WHERE print_id IN (SELECT id FROM prints WHERE task_id",
            ")",
            ids
        ),
        in_ids!(conn, "DELETE FROM prints WHERE task_id", "", ids),
        in_ids!(conn, "DELETE FROM tasks WHERE id", "", ids),
    ];
    for statement in statements {
        statement.execute(conn)?;
    }
    Ok(())
}

/// A task whose record was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastTask {
    pub id: TaskId,
    pub state: TaskState,
    /// Why there is no result.
    pub failure: Option<ErrorCode>,
    /// The cost, including its correction.
    pub cost: MicroDollars,
}

/// Stores the cost of these tasks, and the time up to which tasks were removed.
fn keep_costs(conn: &mut Conn<'_>, ids: &str, now: Timestamp) -> Result<(), StoreError> {
    in_ids!(
        conn,
        "INSERT INTO past_tasks (id, state, error_code, cost_micros, removed_at)
         SELECT t.id, t.state, t.error_code, t.cost_micros + COALESCE((SELECT l.spent_micros FROM ledger l
                                                         WHERE l.task_id = t.id
                                                         AND l.kind = 'adjust'), 0), CAST(:now AS BIGINT)
         FROM tasks t WHERE t.id",
        " ON CONFLICT (id) DO NOTHING",
        ids, now
    ).execute(conn)?;
    let latest = in_ids!(
        conn,
        "SELECT CAST(MAX(finished_at) AS BIGINT) FROM tasks WHERE id",
        "",
        ids
    )
    .value::<Option<i64>>(conn)?;
    let recorded = removed_until(conn)?;
    // `verify` does not report records as missing if their tasks ended before this time.
    match latest.flatten().filter(|latest| *latest > recorded) {
        Some(latest) => meta::set(conn, REMOVED_UNTIL, latest),
        None => Ok(()),
    }
}

/// The latest time at which a removed task had ended; the lowest number if none was removed.
pub(super) fn removed_until(conn: &mut Conn<'_>) -> Result<i64, StoreError> {
    Ok(meta::get(conn, REMOVED_UNTIL)?.unwrap_or(i64::MIN))
}

/// The stored facts about a task whose record was removed.
pub fn past_task(conn: &mut Conn<'_>, id: TaskId) -> Result<Option<PastTask>, StoreError> {
    sql!(
        "SELECT state, cost_micros, error_code FROM past_tasks WHERE id = :id",
        id
    )
    .one(conn, |row| {
        // An unknown code was written by a newer version; it is still a failure.
        let code: Option<String> = row.field("error_code")?;
        let failure =
            code.map(|name| ErrorCode::from_name(&name).unwrap_or(ErrorCode::GenerationFailed));
        Ok(PastTask {
            id,
            failure,
            state: row.field("state")?,
            cost: row.field("cost_micros")?,
        })
    })
}

/// Deletes the stored costs of tasks that were removed before an instant, at most `limit`. Returns
/// how many.
pub fn forget_past_tasks(
    conn: &mut Conn<'_>,
    before: Timestamp,
    limit: u32,
) -> Result<u64, StoreError> {
    // For an IN, Postgres may choose a join that reads the whole table. The ids of an array are
    // looked up one by one.
    dialect_sql!(
        conn,
        "DELETE FROM past_tasks WHERE id IN
         (SELECT id FROM past_tasks WHERE removed_at < :before ORDER BY removed_at LIMIT :limit)",
        "DELETE FROM past_tasks WHERE id = ANY (ARRAY
         (SELECT id FROM past_tasks WHERE removed_at < :before ORDER BY removed_at LIMIT :limit))",
        before,
        limit
    )
    .execute(conn)
}

/// Records in each daily sum how much of it no longer has entries.
fn record_past_spending(conn: &mut Conn<'_>, ids: &str) -> Result<(), StoreError> {
    let entries = in_ids!(
        conn,
        "SELECT l.account_id, COALESCE(l.counted_at, l.created_at), l.key_id, t.model, l.spent_micros
         FROM ledger l JOIN tasks t ON t.id = l.task_id WHERE l.spent_micros <> 0 AND l.task_id",
        "",
        ids
    ).all(conn, |row| {
        let mut fields = FieldReader::new(row);
        let account: String = fields.field("ledger.account_id")?;
        let counted_at: i64 = fields.field("ledger.counted_at")?;
        let key: String = fields.field("ledger.key_id")?;
        let model: String = fields.field("tasks.model")?;
        let spent: i64 = fields.field("ledger.spent_micros")?;
        Ok((
            (account, counted_at.div_euclid(DAY_MICROS), key, model),
            spent,
        ))
    })?;
    let mut sums: BTreeMap<_, i64> = BTreeMap::new();
    for (group, spent) in entries {
        *sums.entry(group).or_default() += spent;
    }
    for ((account, day, key, model), spent) in sums {
        sql!(
            "UPDATE daily_sums SET past_micros = past_micros + :spent
             WHERE account_id = :account AND day = :day AND key_id = :key AND model = :model",
            account = &account,
            day,
            key = &key,
            model = &model,
            spent
        )
        .execute(conn)?;
    }
    Ok(())
}
