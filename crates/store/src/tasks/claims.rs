//! Claims: a worker claims, holds, postpones and releases a task.

use crate::columns::TableRecord as _;
use crate::keys::{key_end_columns, read_key_end};
use crate::{Conn, StoreError};
use mediagate_model::account::{OpenTaskSums, TasksAtEnd};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, KeyId, TaskId};
use mediagate_model::money::MicroDollars;
use mediagate_model::task::{Task, TaskState};

/// Whether a task for one of these embedded models is due; cheaper than a failing claim.
pub fn any_due(conn: &mut Conn<'_>, models: &str, now: Timestamp) -> Result<bool, StoreError> {
    // A bare 1 is an INT4 in Postgres, while rows are read as BIGINT.
    let sql = conn.dialect(
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider = 'embedded' AND account_id > '' AND due_at <= ?1 AND model IN (SELECT value FROM json_each(?2))
         ORDER BY account_id LIMIT 1",
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider = 'embedded' AND account_id > '' AND due_at <= ?1
         AND model IN (SELECT jsonb_array_elements_text(CAST(CAST(?2 AS TEXT) AS JSONB))) ORDER BY account_id LIMIT 1",
    );
    let found = conn.one(sql, &[now.micros().into(), models.into()], |row| row.int(0))?;
    Ok(found.is_some())
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
                   AND provider = 'embedded' AND account_id > '' AND due_at <= ?1 AND model IN (", $models, "))
                   THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END,
                 CASE WHEN EXISTS (SELECT 1 FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
                   AND provider <> 'embedded' AND due_at <= ?1)
                   OR EXISTS (SELECT 1 FROM submissions WHERE stray = 1 AND due_at <= ?1)
                   THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END,
                 CASE WHEN EXISTS (SELECT 1 FROM webhook_deliveries WHERE state = 'waiting' AND lease_owner IS NULL
                   AND due_at <= ?1) THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END"
            )
        };
    }
    let sql = conn.dialect(
        due_work!("SELECT value FROM json_each(?2)"),
        due_work!("SELECT jsonb_array_elements_text(CAST(CAST(?2 AS TEXT) AS JSONB))"),
    );
    let found = conn.one(sql, &[now.micros().into(), models.into()], |row| {
        Ok(DueWork {
            embedded: row.flag(0)?,
            hosted: row.flag(1)?,
            deliveries: row.flag(2)?,
        })
    })?;
    Ok(found.unwrap_or(DueWork::ALL))
}

/// Models with due tasks for hosted providers, and whether any of those tasks have begun.
pub fn models_due(conn: &mut Conn<'_>, now: Timestamp) -> Result<Vec<(String, bool)>, StoreError> {
    // The recursion jumps from each model to the next in the index: thousands of tasks may wait for
    // one model, and only the first due one of each is read. For a GROUP BY both databases would
    // read them all.
    conn.all(
        "WITH RECURSIVE waiting (model) AS (
           SELECT MIN(model) FROM tasks
             WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider <> 'embedded'
           UNION ALL
           SELECT (SELECT MIN(tasks.model) FROM tasks
             WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider <> 'embedded'
               AND tasks.model > waiting.model)
           FROM waiting WHERE waiting.model IS NOT NULL)
         SELECT waiting.model,
           CASE WHEN EXISTS (SELECT 1 FROM tasks WHERE state = 'running' AND lease_owner IS NULL
             AND provider <> 'embedded' AND tasks.model = waiting.model AND due_at <= ?1)
             THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END
         FROM waiting WHERE waiting.model IS NOT NULL
           AND EXISTS (SELECT 1 FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
             AND provider <> 'embedded' AND tasks.model = waiting.model AND due_at <= ?1)",
        &[now.micros().into()],
        |row| Ok((row.text(0)?, row.flag(1)?)),
    )
}

/// Models with tasks that have not begun and were due at `due`.
pub fn models_waiting(conn: &mut Conn<'_>, due: Timestamp) -> Result<Vec<String>, StoreError> {
    // Two statements, because waiting tasks of the two kinds are in different partial indexes.
    let mut models = conn.all(
        "SELECT DISTINCT model FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider = 'embedded' AND account_id > '' AND due_at <= ?1 AND state = 'queued'",
        &[due.micros().into()],
        |row| row.text(0),
    )?;
    models.extend(conn.all(
        "SELECT DISTINCT model FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider <> 'embedded' AND due_at <= ?1 AND state = 'queued'",
        &[due.micros().into()],
        |row| row.text(0),
    )?);
    Ok(models)
}

/// The number of tasks that are due and not claimed, up to `limit`.
pub fn count_waiting(conn: &mut Conn<'_>, now: Timestamp, limit: u32) -> Result<u32, StoreError> {
    let sql = "SELECT COUNT(*) FROM (
        SELECT id FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND due_at <= ?1 LIMIT ?2
    ) AS waiting";
    let count = conn.one(
        sql,
        &[now.micros().into(), i64::from(limit).into()],
        |row| row.int(0),
    )?;
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
    let sql = conn.dialect(
        concat!(
            "SELECT ", columns!(), " FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
             AND model = ?1 AND due_at <= ?2 AND state = 'queued' ORDER BY id LIMIT ?3"
        ),
        concat!(
            "SELECT ", columns!(), " FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
             AND model = ?1 AND due_at <= ?2 AND state = 'queued' ORDER BY id LIMIT ?3 FOR UPDATE SKIP LOCKED"
        ),
    );
    let values = [model.into(), due.micros().into(), i64::from(limit).into()];
    conn.all(sql, &values, Task::from_row)
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
    let sql = conn.dialect(
        concat!(
            "UPDATE tasks SET attempts = attempts + 1, lease_owner = ?1
             WHERE id IN (SELECT id FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
                          AND provider <> 'embedded' AND model = ?2 AND state = ?5 AND due_at <= ?3
                          ORDER BY due_at, id LIMIT ?4)
             RETURNING ", columns!()
        ),
        concat!(
            "UPDATE tasks SET attempts = attempts + 1, lease_owner = ?1
             WHERE id IN (SELECT id FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
                          AND provider <> 'embedded' AND model = ?2 AND state = ?5 AND due_at <= ?3
                          ORDER BY due_at, id LIMIT ?4 FOR UPDATE SKIP LOCKED)
             RETURNING ", columns!()
        ),
    );
    let values = [
        owner.into(),
        model.into(),
        now.micros().into(),
        i64::from(limit).into(),
        state.name().into(),
    ];
    conn.all(sql, &values, Task::from_row)
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
    let sql = conn.dialect(
        concat!(
            "UPDATE tasks SET attempts = attempts + 1, lease_owner = ?1
             WHERE id IN (SELECT id FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
                          AND provider <> 'embedded' AND model = ?2 AND due_at <= ?3 AND NOT ", unsent!(), "
                          ORDER BY due_at, id LIMIT ?4)
             RETURNING ", columns!()
        ),
        concat!(
            "UPDATE tasks SET attempts = attempts + 1, lease_owner = ?1
             WHERE id IN (SELECT id FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
                          AND provider <> 'embedded' AND model = ?2 AND due_at <= ?3 AND NOT ", unsent!(), "
                          ORDER BY due_at, id LIMIT ?4 FOR UPDATE SKIP LOCKED)
             RETURNING ", columns!()
        ),
    );
    let values = [
        owner.into(),
        model.into(),
        now.micros().into(),
        i64::from(limit).into(),
    ];
    conn.all(sql, &values, Task::from_row)
}

/// Locks a task: no other process can claim it, end it or begin a submission for it before this
/// transaction ends.
pub fn lock(conn: &mut Conn<'_>, id: TaskId) -> Result<(), StoreError> {
    // `SQLite` has one writer at a time.
    let sql = conn.dialect(
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE id = ?1",
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE id = ?1 FOR UPDATE",
    );
    conn.one(sql, &[(&id.to_string()).into()], |row| row.int(0))?;
    Ok(())
}

/// Locks an open task that `owner` holds: no other process can claim or end it before this
/// transaction ends. Returns whether `owner` holds it.
pub fn lock_held(conn: &mut Conn<'_>, id: TaskId, owner: &str) -> Result<bool, StoreError> {
    // `SQLite` has one writer at a time, so reading in its transaction is enough.
    let sql = conn.dialect(
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE id = ?1 AND lease_owner = ?2 AND state IN ('queued', 'running')",
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE id = ?1 AND lease_owner = ?2 AND state IN ('queued', 'running')
         FOR UPDATE",
    );
    let found = conn.one(sql, &[(&id.to_string()).into(), owner.into()], |row| {
        row.int(0)
    })?;
    Ok(found.is_some())
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
/// tasks continue.
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
                 WHERE tasks.id = ?1 AND tasks.lease_owner = ?2 AND tasks.state IN ('queued', 'running')", $lock
            )
        };
    }
    // The key is only read. Whoever revokes it then cancels its unsent tasks one by one, and waits
    // for the lock of this one.
    let sql = conn.dialect(held!(""), held!(" FOR UPDATE OF tasks"));
    let held = conn.one(sql, &[(&id.to_string()).into(), owner.into()], |row| {
        read_key_end(row, 0, expired)
    })?;
    Ok(match held {
        None => SendPermission::NotHeld,
        Some(Some(end)) if end.tasks != TasksAtEnd::Keep => SendPermission::KeyEnded,
        Some(_) => SendPermission::Granted,
    })
}

/// Selects the open tasks of the key `?2` of the account `?1`. The key is compared in such a way that
/// no index is used for it: a key can have a million tasks that have ended, and an account has few
/// that are open.
macro_rules! open_of_key {
    () => {
        "account_id = ?1 AND state IN ('queued', 'running') AND key_id || '' = ?2"
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
    let sql = if only_unsent {
        concat!(
            "SELECT id FROM tasks WHERE ",
            open_of_key!(),
            " AND ",
            never_begun!(),
            " ORDER BY id LIMIT ?3"
        )
    } else {
        concat!(
            "SELECT id FROM tasks WHERE ",
            open_of_key!(),
            " ORDER BY id LIMIT ?3"
        )
    };
    let (account, key) = (account.to_string(), key.to_string());
    let values = [(&account).into(), (&key).into(), i64::from(limit).into()];
    conn.all(sql, &values, |row| row.parse(0, "tasks.id"))
}

/// The number of a key's open tasks, and what they have reserved.
pub fn open_sums_of_key(
    conn: &mut Conn<'_>,
    account: AccountId,
    key: KeyId,
) -> Result<OpenTaskSums, StoreError> {
    let mut sums = OpenTaskSums::default();
    let rows = conn.all(
        concat!(
            "SELECT CASE WHEN ", never_begun!(), " THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END,
                    COUNT(*), CAST(COALESCE(SUM(CASE money WHEN 'held' THEN reserved_micros ELSE 0 END), 0) AS BIGINT)
             FROM tasks WHERE ", open_of_key!(), " GROUP BY 1"
        ),
        &[(&account.to_string()).into(), (&key.to_string()).into()],
        |row| Ok((row.flag(0)?, row.int(1)?, row.int(2)?)),
    )?;
    for (is_unsent, count, held) in rows {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let held = MicroDollars::new(held);
        if is_unsent {
            (sums.unsent, sums.unsent_held) = (count, held);
        } else {
            (sums.sent, sums.sent_held) = (count, held);
        }
    }
    Ok(sums)
}

/// Tasks held under this lease.
pub fn held_by(conn: &mut Conn<'_>, owner: &str) -> Result<Vec<TaskId>, StoreError> {
    conn.all(
        "SELECT id FROM tasks WHERE lease_owner = ?1",
        &[owner.into()],
        |row| row.parse(0, "tasks.id"),
    )
}

/// Whether an unheld task is postponed until after `horizon`.
pub fn any_due_after(conn: &mut Conn<'_>, horizon: Timestamp) -> Result<bool, StoreError> {
    // Two statements, as in `models_waiting`.
    let embedded = conn.one(
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider = 'embedded' AND account_id > '' AND due_at > ?1 LIMIT 1",
        &[horizon.micros().into()],
        |row| row.int(0),
    )?;
    let hosted = conn.one(
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider <> 'embedded' AND due_at > ?1 LIMIT 1",
        &[horizon.micros().into()],
        |row| row.int(0),
    )?;
    Ok(embedded.or(hosted).is_some())
}

/// Makes unheld tasks that are postponed until after `horizon` due now. Returns how many.
pub fn pull_forward(
    conn: &mut Conn<'_>,
    horizon: Timestamp,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let values = [horizon.micros().into(), now.micros().into()];
    // Two statements, as in `models_waiting`.
    let embedded = conn.execute(
        "UPDATE tasks SET due_at = ?2 WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider = 'embedded' AND account_id > '' AND due_at > ?1",
        &values,
    )?;
    let hosted = conn.execute(
        "UPDATE tasks SET due_at = ?2 WHERE state IN ('queued', 'running') AND lease_owner IS NULL
         AND provider <> 'embedded' AND due_at > ?1",
        &values,
    )?;
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
    let changed = conn.execute(
        "UPDATE tasks SET deaths = ?3 WHERE id = ?1 AND lease_owner = ?2 AND state = 'running'",
        &[
            (&id.to_string()).into(),
            owner.into(),
            i64::from(deaths).into(),
        ],
    )?;
    Ok(changed == 1)
}

/// Releases a task; any worker may claim it from `due` on.
pub fn release(
    conn: &mut Conn<'_>,
    id: TaskId,
    owner: &str,
    due: Timestamp,
) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE tasks SET lease_owner = NULL, due_at = ?3
         WHERE id = ?1 AND lease_owner = ?2 AND state IN ('queued', 'running')",
        &[(&id.to_string()).into(), owner.into(), due.micros().into()],
    )?;
    Ok(())
}
