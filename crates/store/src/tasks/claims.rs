//! Claims: a worker claims, holds, postpones and releases a task.

use crate::columns::{TableRecord as _, saturated};
use crate::keys::{key_end_columns, read_key_end};
use crate::statement::{dialect_sql, sql};
use crate::{Conn, StoreError};
use mediagate_model::account::{OpenTaskSums, TasksAtEnd};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, KeyId, TaskId};
use mediagate_model::money::MicroDollars;
use mediagate_model::task::{Task, TaskState};

/// Whether a task for one of these embedded models is due; cheaper than a failing claim.
pub fn any_due(conn: &mut Conn<'_>, models: &str, now: Timestamp) -> Result<bool, StoreError> {
    // A bare 1 is an INT4 in Postgres, while rows are read as BIGINT.
    dialect_sql!(
        conn,
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider = 'embedded' AND account_id > '' AND due_at <= :now AND model IN (SELECT value
         FROM json_each(:models))
         ORDER BY account_id LIMIT 1",
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider = 'embedded' AND account_id > '' AND due_at <= :now
         AND model IN (SELECT jsonb_array_elements_text(CAST(CAST(:models AS TEXT) AS JSONB)))
         ORDER BY account_id LIMIT 1",
        now,
        models
    )
    .exists(conn)
}

/// What is due for the workers of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueWork {
    /// Tasks for embedded models that the process has.
    pub embedded: bool,
    /// Tasks for hosted providers, or jobs of cancelled tasks.
    pub hosted: bool,
    pub deliveries: bool,
}

impl DueWork {
    /// All kinds of work, for when a poll got no answer.
    pub const ALL: Self = Self {
        embedded: true,
        hosted: true,
        deliveries: true,
    };
}

/// What is due, for a process with these embedded models: one statement, each part of which ends at
/// the first row that is due.
pub fn due_work(conn: &mut Conn<'_>, models: &str, now: Timestamp) -> Result<DueWork, StoreError> {
    macro_rules! due_work {
        ($models:literal) => {
            concat!(
                "SELECT CASE WHEN EXISTS (SELECT 1 FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
                   AND provider = 'embedded' AND account_id > '' AND due_at <= :now AND model IN (", $models, "))
                   THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END AS embedded,
                 CASE WHEN EXISTS (SELECT 1 FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
                   AND provider <> 'embedded' AND due_at <= :now)
                   OR EXISTS (SELECT 1 FROM submissions WHERE stray = 1 AND due_at <= :now)
                   THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END AS hosted,
                 CASE WHEN EXISTS (SELECT 1 FROM webhook_deliveries WHERE state = 'waiting' AND lease_owner IS NULL
                   AND due_at <= :now) THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END AS deliveries"
            )
        };
    }
    let found = dialect_sql!(
        conn,
        due_work!("SELECT value FROM json_each(:models)"),
        due_work!("SELECT jsonb_array_elements_text(CAST(CAST(:models AS TEXT) AS JSONB))"),
        now,
        models
    )
    .one(conn, |row| {
        Ok(DueWork {
            embedded: row.field("embedded")?,
            hosted: row.field("hosted")?,
            deliveries: row.field("deliveries")?,
        })
    })?;
    Ok(found.unwrap_or(DueWork::ALL))
}

/// Models with due tasks for hosted providers, and whether any of those tasks have begun.
pub fn models_due(conn: &mut Conn<'_>, now: Timestamp) -> Result<Vec<(String, bool)>, StoreError> {
    // The recursion jumps from each model to the next in the index: thousands of tasks may wait for
    // one model, and only the first due one of each is read. For a GROUP BY both databases would
    // read them all.
    sql!(
        "WITH RECURSIVE waiting (model) AS (
           SELECT MIN(model) FROM tasks
             WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider <> 'embedded'
           UNION ALL
           SELECT (SELECT MIN(tasks.model) FROM tasks
             WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider <> 'embedded'
               AND tasks.model > waiting.model)
           FROM waiting WHERE waiting.model IS NOT NULL)
         SELECT waiting.model AS model,
           CASE WHEN EXISTS (SELECT 1 FROM tasks WHERE state = 'running' AND lease_owner IS NULL
             AND provider <> 'embedded' AND tasks.model = waiting.model AND due_at <= :now)
             THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END AS has_begun
         FROM waiting WHERE waiting.model IS NOT NULL
           AND EXISTS (SELECT 1 FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
             AND provider <> 'embedded' AND tasks.model = waiting.model AND due_at <= :now)",
        now
    )
    .all(conn, |row| Ok((row.field("model")?, row.field("has_begun")?)))
}

/// Models with tasks that have not begun and were due at `due`.
pub fn models_waiting(conn: &mut Conn<'_>, due: Timestamp) -> Result<Vec<String>, StoreError> {
    // Two statements, because waiting tasks of the two kinds are in different partial indexes.
    let mut models = sql!(
        "SELECT DISTINCT model FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider = 'embedded' AND account_id > '' AND due_at <= :due AND state = 'queued'",
        due
    )
    .values::<String>(conn)?;
    models.extend(sql!(
        "SELECT DISTINCT model FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider <> 'embedded' AND due_at <= :due AND state = 'queued'",
        due
    )
    .values::<String>(conn)?);
    Ok(models)
}

/// The number of tasks that are due and not claimed, up to `limit`.
pub fn count_waiting(conn: &mut Conn<'_>, now: Timestamp, limit: u32) -> Result<u32, StoreError> {
    let count = sql!(
        "SELECT COUNT(*) FROM (
        SELECT id FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND due_at <= :now
        LIMIT :limit
    ) AS waiting",
        now,
        limit
    )
    .value::<i64>(conn)?;
    Ok(count
        .and_then(|count| u32::try_from(count).ok())
        .unwrap_or(0))
}

/// Up to `limit` tasks of a model that have not begun and were due at `due`.
pub fn waiting(
    conn: &mut Conn<'_>,
    model: &str,
    due: Timestamp,
    limit: u32,
) -> Result<Vec<Task>, StoreError> {
    // A locked task is being claimed or cancelled, so it no longer waits.
    dialect_sql!(
        conn,
        concat!(
            "SELECT ", columns!(), " FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
             AND model = :model AND due_at <= :due AND state = 'queued' ORDER BY id LIMIT :limit"
        ),
        concat!(
            "SELECT ", columns!(), " FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
             AND model = :model AND due_at <= :due AND state = 'queued' ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED"
        ),
        model,
        due,
        limit
    )
    .all(conn, Task::from_row)
}

/// Claims up to `limit` tasks of a model for hosted providers in this state, the longest due first,
/// regardless of the accounts' turns. They stay in this state until
/// [`mark_running`](super::mark_running).
pub fn claim_upstream(
    conn: &mut Conn<'_>,
    owner: &str,
    model: &str,
    state: TaskState,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<Task>, StoreError> {
    dialect_sql!(
        conn,
        concat!(
            "UPDATE tasks SET attempts = attempts + 1, lease_owner = :owner
             WHERE id IN (SELECT id FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
                          AND provider <> 'embedded' AND model = :model AND state = :state AND due_at <= :now
                          ORDER BY due_at, id LIMIT :limit)
             RETURNING ", columns!()
        ),
        concat!(
            "UPDATE tasks SET attempts = attempts + 1, lease_owner = :owner
             WHERE id IN (SELECT id FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
                          AND provider <> 'embedded' AND model = :model AND state = :state AND due_at <= :now
                          ORDER BY due_at, id LIMIT :limit FOR UPDATE SKIP LOCKED)
             RETURNING ", columns!()
        ),
        owner,
        model,
        now,
        limit,
        state
    )
    .all(conn, Task::from_row)
}

/// Claims up to `limit` tasks of a model that a provider has, or may have: they need no slot that
/// other tasks wait for.
pub fn claim_sent(
    conn: &mut Conn<'_>,
    owner: &str,
    model: &str,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<Task>, StoreError> {
    dialect_sql!(
        conn,
        concat!(
            "UPDATE tasks SET attempts = attempts + 1, lease_owner = :owner
             WHERE id IN (SELECT id FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
                          AND provider <> 'embedded' AND model = :model AND due_at <= :now AND NOT ", unsent!(), "
                          ORDER BY due_at, id LIMIT :limit)
             RETURNING ", columns!()
        ),
        concat!(
            "UPDATE tasks SET attempts = attempts + 1, lease_owner = :owner
             WHERE id IN (SELECT id FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
                          AND provider <> 'embedded' AND model = :model AND due_at <= :now AND NOT ", unsent!(), "
                          ORDER BY due_at, id LIMIT :limit FOR UPDATE SKIP LOCKED)
             RETURNING ", columns!()
        ),
        owner,
        model,
        now,
        limit
    )
    .all(conn, Task::from_row)
}

/// Locks a task: no other process can claim it, end it or begin a submission for it before this
/// transaction ends.
pub fn lock(conn: &mut Conn<'_>, id: TaskId) -> Result<(), StoreError> {
    // `SQLite` has one writer at a time.
    dialect_sql!(
        conn,
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE id = :id",
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE id = :id FOR UPDATE",
        id
    )
    .value::<i64>(conn)?;
    Ok(())
}

/// Locks an open task that `owner` holds: no other process can claim or end it before this
/// transaction ends. Returns whether `owner` holds it.
pub fn lock_held(conn: &mut Conn<'_>, id: TaskId, owner: &str) -> Result<bool, StoreError> {
    // `SQLite` has one writer at a time, so reading in its transaction is enough.
    dialect_sql!(
        conn,
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE id = :id AND lease_owner = :owner
         AND state IN ('queued', 'running')",
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE id = :id AND lease_owner = :owner AND state IN ('queued', 'running')
         FOR UPDATE",
        id,
        owner
    )
    .exists(conn)
}

/// Whether an owner may send a task to a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendPermission {
    Granted,
    /// The owner does not hold the task.
    NotHeld,
    /// The task's key has ended, and its tasks with it.
    KeyEnded,
}

/// Like [`lock_held`], for a task that is about to be sent: its key must not have ended, unless its
/// tasks continue. A task that waits for approval is held by nobody who could send it.
pub fn lock_to_send(
    conn: &mut Conn<'_>,
    id: TaskId,
    owner: &str,
    expired: Timestamp,
) -> Result<SendPermission, StoreError> {
    macro_rules! held {
        ($lock:literal) => {
            concat!(
                "SELECT ", key_end_columns!(), " FROM tasks JOIN api_keys k ON k.id = tasks.key_id
                 WHERE tasks.id = :id AND tasks.lease_owner = :owner AND tasks.state IN ('queued', 'running')
                   AND COALESCE(tasks.approval_state, '') <> 'pending'", $lock
            )
        };
    }
    // The key is only read. Whoever revokes it then cancels its unsent tasks one by one, and waits
    // for the lock of this one.
    let held = dialect_sql!(conn, held!(""), held!(" FOR UPDATE OF tasks"), id, owner)
        .one(conn, |row| read_key_end(row, expired))?;
    Ok(match held {
        None => SendPermission::NotHeld,
        Some(Some(end)) if end.tasks != TasksAtEnd::Keep => SendPermission::KeyEnded,
        Some(_) => SendPermission::Granted,
    })
}

/// Selects the open tasks of the key `:key` of the account `:account`. The key is compared in such a way that
/// no index is used for it: a key can have a million tasks that have ended, and an account has few
/// that are open.
macro_rules! open_of_key {
    () => {
        "account_id = :account AND state IN ('queued', 'running') AND key_id || '' = :key"
    };
}

/// Up to `limit` open tasks of a key, oldest first; with `only_unsent` only those that no provider
/// has or may have, and that have not begun here.
pub fn open_of_key(
    conn: &mut Conn<'_>,
    (account, key): (AccountId, KeyId),
    only_unsent: bool,
    limit: u32,
) -> Result<Vec<TaskId>, StoreError> {
    macro_rules! open_ids {
        ($condition:expr) => {
            sql!(
                concat!(
                    "SELECT id FROM tasks WHERE ",
                    open_of_key!(),
                    $condition,
                    " ORDER BY id LIMIT :limit"
                ),
                account,
                key,
                limit
            )
        };
    }
    let statement = if only_unsent {
        open_ids!(concat!(" AND ", never_begun!()))
    } else {
        open_ids!("")
    };
    statement.values(conn)
}

/// The number of a key's open tasks, and what they have reserved.
pub fn open_sums_of_key(
    conn: &mut Conn<'_>,
    account: AccountId,
    key: KeyId,
) -> Result<OpenTaskSums, StoreError> {
    let mut sums = OpenTaskSums::default();
    let rows = sql!(
        concat!(
            "SELECT CASE WHEN ", never_begun!(), " THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END AS is_unsent, COUNT(*) AS count,
                    CAST(COALESCE(SUM(CASE money WHEN 'held' THEN reserved_micros ELSE 0 END), 0) AS BIGINT) AS held
             FROM tasks WHERE ", open_of_key!(), " GROUP BY 1"
        ),
        account,
        key
    )
    .all(conn, |row| {
        let count = saturated(row.field("count")?);
        Ok((row.field("is_unsent")?, count, row.field("held")?))
    })?;
    for (is_unsent, count, held) in rows {
        let held = MicroDollars::new(held);
        if is_unsent {
            (sums.unsent, sums.unsent_held) = (count, held);
        } else {
            (sums.sent, sums.sent_held) = (count, held);
        }
    }
    Ok(sums)
}

/// The cancelled tasks of a key whose money is still reserved, because their providers may complete
/// them anyway, each with the amount.
pub fn cancelled_and_held_of_key(
    conn: &mut Conn<'_>,
    account: AccountId,
    key: KeyId,
) -> Result<Vec<(TaskId, MicroDollars)>, StoreError> {
    sql!(
        "SELECT id, reserved_micros FROM tasks WHERE account_id = :account AND key_id = :key
         AND money = 'held' AND state = 'cancelled'",
        account,
        key
    )
    .all(conn, |row| {
        let reserved = MicroDollars::new(row.field("reserved_micros")?);
        Ok((row.field::<TaskId>("id")?, reserved))
    })
}

/// Tasks held under this lease.
pub fn held_by(conn: &mut Conn<'_>, owner: &str) -> Result<Vec<TaskId>, StoreError> {
    sql!("SELECT id FROM tasks WHERE lease_owner = :owner", owner).values(conn)
}

/// Whether an unheld task is postponed until after `horizon`.
pub fn any_due_after(conn: &mut Conn<'_>, horizon: Timestamp) -> Result<bool, StoreError> {
    // Two statements, as in `models_waiting`.
    let embedded = sql!(
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider = 'embedded' AND account_id > '' AND due_at > :horizon LIMIT 1",
        horizon
    )
    .value::<i64>(conn)?;
    let hosted = sql!(
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider <> 'embedded' AND due_at > :horizon LIMIT 1",
        horizon
    )
    .value::<i64>(conn)?;
    Ok(embedded.or(hosted).is_some())
}

/// Makes unheld tasks that are postponed until after `horizon` due now. Returns how many.
pub fn pull_forward(
    conn: &mut Conn<'_>,
    horizon: Timestamp,
    now: Timestamp,
) -> Result<u64, StoreError> {
    // Two statements, as in `models_waiting`.
    let embedded = sql!(
        "UPDATE tasks SET due_at = :now WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider = 'embedded' AND account_id > '' AND due_at > :horizon",
        horizon,
        now
    )
    .execute(conn)?;
    let hosted = sql!(
        "UPDATE tasks SET due_at = :now WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider <> 'embedded' AND due_at > :horizon",
        horizon,
        now
    )
    .execute(conn)?;
    Ok(embedded + hosted)
}

/// Sets how often the child process of a task has died. Returns whether `owner` still holds the
/// task; repeating the call is harmless.
pub fn set_deaths(
    conn: &mut Conn<'_>,
    id: TaskId,
    owner: &str,
    deaths: u32,
) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE tasks SET deaths = :deaths WHERE id = :id AND lease_owner = :owner AND state = 'running'",
        id,
        owner,
        deaths
    )
    .execute(conn)?;
    Ok(changed == 1)
}

/// Releases a task; any worker may claim it from `due` on.
pub fn release(
    conn: &mut Conn<'_>,
    id: TaskId,
    owner: &str,
    due: Timestamp,
) -> Result<(), StoreError> {
    sql!(
        "UPDATE tasks SET lease_owner = NULL, due_at = :due
         WHERE id = :id AND lease_owner = :owner AND state IN ('queued', 'running')",
        id,
        owner,
        due
    )
    .execute(conn)?;
    Ok(())
}
