//! Worker leases on tasks and webhooks: one row per worker process, extended by its heartbeat.
//!
//! The process named in a task's `lease_owner` holds the task until its own row expires and another
//! process declares it dead; its name is then never valid again. The row is kept for a while, so
//! that tasks that the old owner still claims in a late commit are freed too.

use std::collections::HashSet;
use std::time::Duration;

use crate::statement::{dialect_sql, sql};
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;

/// The name of the placeholder worker that holds tasks of a restored backup.
pub(crate) const RESTORED_HOLDER: &str = "restored";
/// The name of the placeholder worker that holds tasks which wait for approval.
pub(crate) const APPROVAL_HOLDER: &str = "approval";
/// The names of both, for an `IN`: they are no processes, and the tasks that they hold use no slot.
macro_rules! placeholders {
    () => {
        "('restored', 'approval')"
    };
}
pub(crate) use placeholders;

/// The year 9999: when the lease of a placeholder ends.
const NEVER_EXPIRES: Timestamp = Timestamp::from_seconds(253_370_764_800);

/// How long the row of a dead worker is kept: longer than one of its transactions can last.
const DEAD_ROW_TTL: Duration = Duration::from_mins(1);

/// The clock for leases: the database's if several machines may use it, else this machine's.
pub fn now(conn: &mut Conn<'_>, local_now: Timestamp) -> Result<Timestamp, StoreError> {
    // Processes on one file share a machine and its clock.
    if matches!(conn, Conn::Sqlite(_)) {
        return Ok(local_now);
    }
    let now = sql!("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)")
        .value::<i64>(conn)?;
    Ok(now.map_or(local_now, Timestamp::from_micros))
}

/// Registers a worker, which claims no tasks before [`set_models`].
pub fn register(conn: &mut Conn<'_>, name: &str, until: Timestamp) -> Result<(), StoreError> {
    sql!(
        "INSERT INTO workers (name, held_until, models) VALUES (:name, :until, '[]')
         ON CONFLICT (name) DO UPDATE SET held_until = excluded.held_until",
        name,
        until
    )
    .execute(conn)?;
    Ok(())
}

/// Registers a placeholder worker. Its lease never ends, otherwise any process would free the tasks
/// that it holds as those of a dead worker.
pub(crate) fn register_placeholder(conn: &mut Conn<'_>, name: &str) -> Result<(), StoreError> {
    sql!(
        "INSERT INTO workers (name, held_until, models) VALUES (:name, :until, '[]')
         ON CONFLICT (name) DO NOTHING",
        name,
        until = NEVER_EXPIRES
    )
    .execute(conn)?;
    Ok(())
}

/// Sets the models, a JSON array, whose tasks the worker claims.
pub fn set_models(conn: &mut Conn<'_>, name: &str, models: &str) -> Result<(), StoreError> {
    sql!(
        "UPDATE workers SET models = :models WHERE name = :name AND models <> :models",
        name,
        models
    )
    .execute(conn)?;
    Ok(())
}

/// The models whose tasks live workers claim.
pub fn offered_models(conn: &mut Conn<'_>, now: Timestamp) -> Result<HashSet<String>, StoreError> {
    let lists: Vec<Vec<String>> =
        sql!("SELECT models FROM workers WHERE held_until > :now", now).values(conn)?;
    Ok(lists.into_iter().flatten().collect())
}

/// Extends a worker's leases. Returns false if it was declared dead.
pub fn prolong(conn: &mut Conn<'_>, name: &str, until: Timestamp) -> Result<bool, StoreError> {
    // A worker that was declared dead stays dead: others may have its tasks already.
    let changed = sql!(
        "UPDATE workers SET held_until = :until WHERE name = :name AND held_until > 0",
        name,
        until
    )
    .execute(conn)?;
    Ok(changed == 1)
}

/// When a worker's leases expire without another heartbeat; a time before 1970 if it was declared
/// dead.
pub fn held_until(conn: &mut Conn<'_>, name: &str) -> Result<Option<Timestamp>, StoreError> {
    sql!("SELECT held_until FROM workers WHERE name = :name", name).value(conn)
}

/// Whether [`free_lapsed`] has something to do.
pub fn any_lapsed(conn: &mut Conn<'_>, now: Timestamp) -> Result<bool, StoreError> {
    // Rows of workers that were declared dead are ignored while they are recent and nothing refers
    // to them.
    sql!(
        "SELECT CAST(1 AS BIGINT) FROM workers WHERE held_until <= :now
         AND (held_until > 0 OR held_until > :dead_row_limit OR EXISTS (SELECT 1 FROM tasks
         WHERE lease_owner = workers.name)
              OR EXISTS (SELECT 1 FROM webhook_deliveries WHERE lease_owner = workers.name)) LIMIT 1",
        now,
        dead_row_limit = dead_row_limit(now)
    )
    .exists(conn)
}

/// Frees the tasks that meet the condition.
macro_rules! free {
    ($condition:literal) => {
        concat!("UPDATE tasks SET lease_owner = NULL WHERE ", $condition)
    };
}

/// Declares expired workers dead and frees their tasks and webhooks. Never waits for a lock: rows
/// locked by a stalled transaction are freed later. Returns the number of tasks freed.
pub fn free_lapsed(conn: &mut Conn<'_>, now: Timestamp) -> Result<u64, StoreError> {
    // Negative, so that the time of the declaration is preserved.
    dialect_sql!(
        conn,
        "UPDATE workers SET held_until = 0 - :now WHERE held_until > 0 AND held_until <= :now",
        "UPDATE workers SET held_until = 0 - :now WHERE name IN
         (SELECT name FROM workers WHERE held_until > 0 AND held_until <= :now FOR UPDATE SKIP LOCKED)",
        now
    )
    .execute(conn)?;
    free_dead_rows(conn, now)
}

/// The names of the workers that are not known to be dead.
pub fn live_workers(conn: &mut Conn<'_>) -> Result<Vec<String>, StoreError> {
    sql!("SELECT name FROM workers WHERE held_until > 0").values::<String>(conn)
}

/// Declares a worker dead whose death is certain, and frees everything that dead workers held.
/// Returns the number of tasks freed.
pub fn declare_dead(conn: &mut Conn<'_>, name: &str, now: Timestamp) -> Result<u64, StoreError> {
    sql!(
        "UPDATE workers SET held_until = 0 - :now WHERE name = :name AND held_until > 0",
        name,
        now
    )
    .execute(conn)?;
    free_dead_rows(conn, now)
}

fn free_dead_rows(conn: &mut Conn<'_>, now: Timestamp) -> Result<u64, StoreError> {
    let freed = dialect_sql!(
        conn,
        free!("lease_owner IN (SELECT name FROM workers WHERE held_until <= 0)"),
        free!(
            "id IN (SELECT id FROM tasks WHERE lease_owner IN (SELECT name FROM workers WHERE held_until <= 0)
                    FOR UPDATE SKIP LOCKED)"
        )
    )
    .execute(conn)?;
    dialect_sql!(
        conn,
        "UPDATE webhook_deliveries SET lease_owner = NULL
         WHERE lease_owner IN (SELECT name FROM workers WHERE held_until <= 0)",
        "UPDATE webhook_deliveries SET lease_owner = NULL WHERE id IN
         (SELECT id FROM webhook_deliveries WHERE lease_owner IN (SELECT name FROM workers WHERE held_until <= 0)
          FOR UPDATE SKIP LOCKED)"
    )
    .execute(conn)?;
    sql!(
        "DELETE FROM workers WHERE held_until <= 0 AND held_until > :dead_row_limit
         AND NOT EXISTS (SELECT 1 FROM tasks WHERE lease_owner = workers.name)
         AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE lease_owner = workers.name)",
        dead_row_limit = dead_row_limit(now)
    )
    .execute(conn)?;
    Ok(freed)
}

/// The `held_until` above which the row of a dead worker is no longer needed.
fn dead_row_limit(now: Timestamp) -> i64 {
    // The time of the declaration is stored as a negative number, so a greater number is an earlier
    // time.
    now.minus(DEAD_ROW_TTL).micros().saturating_neg().min(0)
}

/// Frees tasks whose worker has no row at all. This reads every held task.
pub fn free_unknown(conn: &mut Conn<'_>) -> Result<u64, StoreError> {
    sql!(
        "UPDATE webhook_deliveries SET lease_owner = NULL
         WHERE lease_owner IS NOT NULL AND NOT EXISTS (SELECT 1 FROM workers WHERE name = lease_owner)"
    )
    .execute(conn)?;
    dialect_sql!(
        conn,
        free!("lease_owner IS NOT NULL AND NOT EXISTS (SELECT 1 FROM workers WHERE name = lease_owner)"),
        free!(
            "id IN (SELECT id FROM tasks WHERE lease_owner IS NOT NULL
                    AND NOT EXISTS (SELECT 1 FROM workers WHERE name = lease_owner) FOR UPDATE SKIP LOCKED)"
        )
    )
    .execute(conn)
}

/// Removes a worker that stops cleanly; its tasks are freed at once.
pub fn deregister(conn: &mut Conn<'_>, name: &str) -> Result<(), StoreError> {
    sql!(
        "UPDATE tasks SET lease_owner = NULL WHERE lease_owner = :name",
        name
    )
    .execute(conn)?;
    sql!(
        "UPDATE webhook_deliveries SET lease_owner = NULL WHERE lease_owner = :name",
        name
    )
    .execute(conn)?;
    sql!("DELETE FROM workers WHERE name = :name", name).execute(conn)?;
    Ok(())
}
