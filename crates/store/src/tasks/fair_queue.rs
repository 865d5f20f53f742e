//! Fair queuing between accounts whose tasks wait for the same slots.
//!
//! The next slot goes to the account that holds the fewest of them; among equals to the one whose
//! last turn was longest ago, and then to the one whose task has been due longest. Within an
//! account the task that has been due longest goes first. An account that waits alone gets all
//! slots.

use std::collections::HashMap;

use super::append_event;
use crate::columns::{TableRecord as _, saturated};
use crate::conn::to_json;
use crate::statement::{dialect_sql, sql};
use crate::workers::placeholders;
use crate::{Conn, Row, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::AccountId;
use mediagate_model::task::Task;

/// Tasks that wait for the same slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FairQueue {
    /// The queue's name, the same in every process.
    pub name: String,
    /// Every model whose tasks use these slots.
    pub models: Vec<String>,
}

/// The name of the queue of all embedded engines.
const ENGINES: &str = "engines";

/// An account's waiting tasks of one model, or for the engines.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WaitingAccount {
    account: AccountId,
    /// Index of the model in the list of models to claim.
    model: usize,
    /// Number of the account's last turn; 0 if it had none.
    last_turn: i64,
    /// When the first of these tasks became due.
    due_at: i64,
}

/// The waiting accounts in the order of their next turns, and how many slots each holds.
#[derive(Debug, Default)]
struct QueueContest {
    waiting: Vec<WaitingAccount>,
    held: HashMap<AccountId, u32>,
}

/// Claims the task for an embedded engine whose turn it is. `models` are those of this process, a
/// JSON array.
pub fn claim(
    conn: &mut Conn<'_>,
    owner: &str,
    models: &str,
    now: Timestamp,
) -> Result<Option<Task>, StoreError> {
    lock_queue(conn, ENGINES);
    let waiting = waiting_for_engines(conn, models, now)?;
    for WaitingAccount { account, .. } in QueueContest::new(conn, waiting, models)?.waiting {
        // None if all its tasks are locked, because they are being cancelled.
        if let Some(task) = claim_of_account(conn, owner, models, account, now)? {
            append_event(conn, task.id)?;
            note_turn(conn, ENGINES, account)?;
            return Ok(Some(task));
        }
    }
    Ok(None)
}

/// Claims unsent tasks for hosted providers, by turns of the accounts: at most `slots` tasks of a
/// queue, and of each model at most its capacity. They stay in their state until
/// [`mark_running`](super::mark_running).
pub fn claim_in_turn(
    conn: &mut Conn<'_>,
    owner: &str,
    queue: &FairQueue,
    capacities: &[(String, u32)],
    mut slots: u32,
    now: Timestamp,
) -> Result<Vec<Task>, StoreError> {
    let mut remaining: Vec<u32> = capacities.iter().map(|(_, capacity)| *capacity).collect();
    let mut waiting = Vec::new();
    for (index, (model, _)) in capacities.iter().enumerate() {
        waiting.extend(waiting_for_provider(conn, queue, (index, model), now)?);
    }
    // Held slots are counted for all models of the queue: tasks of models that this process does
    // not claim use the same slots.
    let mut contest = QueueContest::new(conn, waiting, &to_json(&queue.models)?)?;
    let mut claimed = Vec::new();
    let mut served = Vec::new();
    loop {
        let shares = contest.distribute(&remaining, slots);
        if shares.iter().all(|share| *share == 0) {
            break;
        }
        for (candidate, share) in std::mem::take(&mut contest.waiting).into_iter().zip(shares) {
            let mut count = 0;
            if share > 0 {
                let model = &capacities[candidate.model].0;
                let tasks = claim_of_model(conn, owner, (model, candidate.account), share, now)?;
                count = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
                claimed.extend(tasks);
            }
            if count > 0 {
                slots = slots.saturating_sub(count);
                remaining[candidate.model] = remaining[candidate.model].saturating_sub(count);
                *contest.held.entry(candidate.account).or_default() += count;
                if !served.contains(&candidate.account) {
                    served.push(candidate.account);
                }
            }
            // An account that had fewer tasks than its share leaves the contest. The rest of its
            // share is distributed again.
            if count == share {
                contest.waiting.push(candidate);
            }
        }
    }
    for account in served {
        note_turn(conn, &queue.name, account)?;
    }
    Ok(claimed)
}

impl QueueContest {
    fn new(
        conn: &mut Conn<'_>,
        mut waiting: Vec<WaitingAccount>,
        models: &str,
    ) -> Result<Self, StoreError> {
        let mut accounts = waiting.iter().map(|candidate| candidate.account);
        let first = accounts.next();
        // An account that waits alone gets all slots, however many it holds.
        let is_contested = accounts.any(|account| Some(account) != first);
        let held = if is_contested {
            slots_held(conn, models)?
        } else {
            HashMap::new()
        };
        let mut contest = Self {
            waiting: Vec::new(),
            held,
        };
        waiting.sort_by_key(|candidate| contest.rank(candidate));
        contest.waiting = waiting;
        Ok(contest)
    }

    /// The account with the lowest rank has the next turn.
    fn rank(&self, candidate: &WaitingAccount) -> (u32, i64, i64) {
        let held = self.held.get(&candidate.account).copied().unwrap_or(0);
        (held, candidate.last_turn, candidate.due_at)
    }

    /// How many slots each waiting account gets if it has enough tasks: the slots are given out one
    /// by one, each to the account whose turn it is, as long as its model has slots left.
    fn distribute(&self, remaining: &[u32], slots: u32) -> Vec<u32> {
        let mut remaining = remaining.to_vec();
        let mut shares = vec![0; self.waiting.len()];
        let mut assigned: HashMap<AccountId, u32> = HashMap::new();
        for _ in 0..slots {
            let candidates = self.waiting.iter().enumerate();
            let candidates = candidates.filter(|(_, candidate)| remaining[candidate.model] > 0);
            let next = candidates.min_by_key(|(_, candidate)| {
                let (held, last_turn, due_at) = self.rank(candidate);
                let assigned = assigned.get(&candidate.account).copied().unwrap_or(0);
                (held.saturating_add(assigned), last_turn, due_at)
            });
            let Some((index, candidate)) = next else {
                break;
            };
            shares[index] += 1;
            remaining[candidate.model] -= 1;
            *assigned.entry(candidate.account).or_default() += 1;
        }
        shares
    }
}

/// Makes other processes wait with their claims from this queue until this transaction ends.
/// Otherwise two of them would give the same account a turn.
fn lock_queue(conn: &mut Conn<'_>, queue: &str) {
    // FNV-1a: the same in every process and version.
    let hash = queue.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    conn.advisory_lock(i64::from_ne_bytes(hash.to_ne_bytes()));
}

/// Begins to claim from a queue: from now on other processes do not change it before this
/// transaction ends.
pub fn enter_queue(conn: &mut Conn<'_>, queue: &FairQueue) {
    lock_queue(conn, &queue.name);
}

/// The accounts with tasks for embedded engines that are not claimed. Of each account only the
/// first task is read, however many wait.
fn waiting_for_engines(
    conn: &mut Conn<'_>,
    models: &str,
    now: Timestamp,
) -> Result<Vec<WaitingAccount>, StoreError> {
    // A loose index scan: each step jumps to the next account. An account with thousands of tasks
    // costs no more than one with a single task.
    macro_rules! waiting {
        ($models:literal) => {
            concat!(
                "WITH RECURSIVE accounts_waiting (account_id) AS (
                     SELECT MIN(account_id) FROM tasks
                     WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider = 'embedded' AND account_id > ''
                     UNION ALL
                     SELECT (SELECT MIN(account_id) FROM tasks
                             WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider = 'embedded'
                             AND account_id > accounts_waiting.account_id)
                     FROM accounts_waiting WHERE account_id IS NOT NULL)
                 SELECT account_id,
                     COALESCE((SELECT number FROM turns WHERE queue = :queue
                     AND turns.account_id = accounts_waiting.account_id), 0) AS last_turn,
                     (SELECT due_at FROM tasks
                      WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider = 'embedded'
                      AND tasks.account_id = accounts_waiting.account_id AND due_at <= :now AND model IN ", $models, "
                      ORDER BY due_at, id LIMIT 1) AS due_at
                 FROM accounts_waiting WHERE account_id IS NOT NULL"
            )
        };
    }
    let waiting = dialect_sql!(
        conn,
        waiting!("(SELECT value FROM json_each(:models))"),
        waiting!("(SELECT jsonb_array_elements_text(CAST(CAST(:models AS TEXT) AS JSONB)))"),
        queue = ENGINES,
        now,
        models
    )
    .all(conn, read_waiting)?;
    Ok(due_accounts(waiting, 0))
}

/// The accounts with tasks of a hosted model that no provider has, or may have. The model is given
/// by its index and name.
fn waiting_for_provider(
    conn: &mut Conn<'_>,
    queue: &FairQueue,
    (model_index, model): (usize, &str),
    now: Timestamp,
) -> Result<Vec<WaitingAccount>, StoreError> {
    let waiting = sql!(
        concat!(
            "WITH RECURSIVE accounts_waiting (account_id) AS (
                 SELECT MIN(account_id) FROM tasks
                 WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider <> 'embedded'
                 AND model = :model
                 UNION ALL
                 SELECT (SELECT MIN(account_id) FROM tasks
                         WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider <> 'embedded'
                         AND model = :model AND account_id > accounts_waiting.account_id)
                 FROM accounts_waiting WHERE account_id IS NOT NULL)
             SELECT account_id,
                 COALESCE((SELECT number FROM turns WHERE queue = :name
                 AND turns.account_id = accounts_waiting.account_id), 0) AS last_turn,
                 (SELECT due_at FROM tasks
                  WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider <> 'embedded'
                  AND model = :model
                  AND tasks.account_id = accounts_waiting.account_id AND due_at <= :now AND ", unsent!(), "
                  ORDER BY due_at, id LIMIT 1) AS due_at
             FROM accounts_waiting WHERE account_id IS NOT NULL"
        ),
        name = &queue.name,
        now,
        model
    )
    .all(conn, read_waiting)?;
    Ok(due_accounts(waiting, model_index))
}

/// An account, its last turn, and when its first due task became due.
type WaitingRow = (AccountId, i64, Option<i64>);

fn read_waiting(row: &Row<'_>) -> Result<WaitingRow, StoreError> {
    Ok((
        row.field("account_id")?,
        row.field("last_turn")?,
        row.field("due_at")?,
    ))
}

/// Keeps the accounts with a task that is due.
fn due_accounts(waiting: Vec<WaitingRow>, model: usize) -> Vec<WaitingAccount> {
    let waiting = waiting
        .into_iter()
        .filter_map(|(account, last_turn, due_at)| {
            Some(WaitingAccount {
                account,
                model,
                last_turn,
                due_at: due_at?,
            })
        });
    waiting.collect()
}

/// The workers whose tasks use slots. Tasks that a placeholder holds wait for the operator, or for
/// approval.
macro_rules! live_workers {
    () => {
        concat!(
            "(SELECT name FROM workers WHERE held_until > 0 AND name NOT IN ",
            placeholders!(),
            ")"
        )
    };
}

/// How many tasks of these models, a JSON array, each account has in progress.
fn slots_held(conn: &mut Conn<'_>, models: &str) -> Result<HashMap<AccountId, u32>, StoreError> {
    let held = dialect_sql!(
        conn,
        concat!(
            "SELECT account_id, COUNT(*) AS count FROM tasks WHERE lease_owner IN ", live_workers!(), "
             AND model IN (SELECT value FROM json_each(:models)) GROUP BY account_id"
        ),
        concat!(
            "SELECT account_id, COUNT(*) AS count FROM tasks WHERE lease_owner IN ", live_workers!(), "
             AND model IN (SELECT jsonb_array_elements_text(CAST(CAST(:models AS TEXT) AS JSONB))) GROUP BY account_id"
        ),
        models
    )
    .all(conn, |row| {
        Ok((row.field("account_id")?, saturated(row.field("count")?)))
    })?;
    Ok(held.into_iter().collect())
}

/// How many tasks of each of a queue's models are held by a process that has yet to send them.
pub fn count_unsent(
    conn: &mut Conn<'_>,
    queue: &FairQueue,
) -> Result<HashMap<String, u32>, StoreError> {
    let models = to_json(&queue.models)?;
    let counts = dialect_sql!(
        conn,
        concat!(
            "SELECT model, COUNT(*) AS count FROM tasks WHERE lease_owner IN ", live_workers!(), "
             AND model IN (SELECT value FROM json_each(:models)) AND ", unsent!(), " GROUP BY model"
        ),
        concat!(
            "SELECT model, COUNT(*) AS count FROM tasks WHERE lease_owner IN ", live_workers!(), "
             AND model IN (SELECT jsonb_array_elements_text(CAST(CAST(:models AS TEXT) AS JSONB))) AND ", unsent!(), "
             GROUP BY model"
        ),
        models = &models
    )
    .all(conn, |row| {
        Ok((row.field("model")?, saturated(row.field("count")?)))
    })?;
    Ok(counts.into_iter().collect())
}

/// Claims the account's task for an embedded engine that has been due longest.
fn claim_of_account(
    conn: &mut Conn<'_>,
    owner: &str,
    models: &str,
    account: AccountId,
    now: Timestamp,
) -> Result<Option<Task>, StoreError> {
    dialect_sql!(
        conn,
        concat!(
            "UPDATE tasks SET state = 'running', attempts = attempts + 1, started_at = COALESCE(started_at, :now),
                    lease_owner = :owner, event_seq = event_seq + CASE state WHEN 'queued' THEN 1 ELSE 0 END
             WHERE id = (SELECT id FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
                         AND provider = 'embedded' AND account_id = :account AND due_at <= :now
                         AND model IN (SELECT value FROM json_each(:models)) ORDER BY due_at, id LIMIT 1)
             RETURNING ", columns!()
        ),
        concat!(
            "UPDATE tasks SET state = 'running', attempts = attempts + 1, started_at = COALESCE(started_at, :now),
                    lease_owner = :owner, event_seq = event_seq + CASE state WHEN 'queued' THEN 1 ELSE 0 END
             WHERE id = (SELECT id FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
                         AND provider = 'embedded' AND account_id = :account AND due_at <= :now
                         AND model IN (SELECT jsonb_array_elements_text(CAST(CAST(:models AS TEXT) AS JSONB)))
                         ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
             RETURNING ", columns!()
        ),
        owner,
        now,
        models,
        account
    )
    .one(conn, Task::from_row)
}

/// Claims up to `limit` of the account's tasks of a hosted model that no provider has, or may have.
fn claim_of_model(
    conn: &mut Conn<'_>,
    owner: &str,
    (model, account): (&str, AccountId),
    limit: u32,
    now: Timestamp,
) -> Result<Vec<Task>, StoreError> {
    dialect_sql!(
        conn,
        concat!(
            "UPDATE tasks SET attempts = attempts + 1, lease_owner = :owner
             WHERE id IN (SELECT id FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
                          AND provider <> 'embedded' AND model = :model AND account_id = :account
                          AND due_at <= :now AND ", unsent!(), "
                          ORDER BY due_at, id LIMIT :limit)
             RETURNING ", columns!()
        ),
        concat!(
            "UPDATE tasks SET attempts = attempts + 1, lease_owner = :owner
             WHERE id IN (SELECT id FROM tasks WHERE state IN ('queued', 'running') AND lease_owner IS NULL
                          AND provider <> 'embedded' AND model = :model AND account_id = :account
                          AND due_at <= :now AND ", unsent!(), "
                          ORDER BY due_at, id LIMIT :limit FOR UPDATE SKIP LOCKED)
             RETURNING ", columns!()
        ),
        owner,
        model,
        now,
        limit,
        account
    )
    .all(conn, Task::from_row)
}

/// Records that the account had a turn.
fn note_turn(conn: &mut Conn<'_>, queue: &str, account: AccountId) -> Result<(), StoreError> {
    // This runs under the lock of the queue, so that no two turns have the same number.
    sql!(
        "INSERT INTO turns (queue, account_id, number)
         VALUES (:queue, :account, (SELECT COALESCE(MAX(number), 0) + 1 FROM turns WHERE queue = :queue))
         ON CONFLICT (queue, account_id) DO UPDATE SET number = excluded.number",
        queue,
        account
    )
    .execute(conn)?;
    Ok(())
}
