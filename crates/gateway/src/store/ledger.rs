//! The ledger: entries are added, never changed, and the running sums of key
//! and account move with each in the same transaction.
//!
//! The database itself keeps an entry of a kind from being written twice for a
//! task, and a reservation from ending twice.

use crate::clock::Timestamp;
use crate::ids::{AccountId, EntryId, KeyId, TaskId};
use crate::model::account::{AccountMoney, KeyMoney};
use crate::model::ledger::{Entry, EntryKind};
use crate::model::money::Micros;
use crate::store::{Conn, Row, StoreError};

/// Whose money an entry moves, for which task.
#[derive(Debug, Clone, Copy)]
pub struct Of {
    /// The account.
    pub account: AccountId,
    /// The key, where one spends it.
    pub key: Option<KeyId>,
    /// The task, where it is spent on one.
    pub task: Option<TaskId>,
}

/// How an entry changes the sums.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change {
    /// What is held.
    pub held: Micros,
    /// What is spent.
    pub spent: Micros,
    /// What is credited.
    pub credit: Micros,
}

/// The sums after an entry.
#[derive(Debug, Clone, Copy)]
pub struct Sums {
    /// Of the key, where the entry has one.
    pub key: Option<KeyMoney>,
    /// Of the account.
    pub account: AccountMoney,
}

/// Adds an entry and moves the sums. Always the key first, then the account, so
/// that two transactions never wait for each other.
pub fn add(
    conn: &mut Conn<'_>,
    of: Of,
    kind: EntryKind,
    change: Change,
    note: Option<&str>,
    now: Timestamp,
) -> Result<Sums, StoreError> {
    let (held, spent, credit) = (change.held, change.spent, change.credit);
    let key_id = of.key.map(|key| key.to_string());
    let account_id = of.account.to_string();
    let task_id = of.task.map(|task| task.to_string());
    // A task has one entry of each kind: a second one would have the same id.
    let id = match &task_id {
        Some(task) => format!("{task}:{}", kind.name()),
        None => EntryId::new().to_string(),
    };
    conn.execute(
        "INSERT INTO ledger (id, account_id, key_id, task_id, kind, held_micros, spent_micros, credit_micros, note, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        &[
            (&id).into(),
            (&account_id).into(),
            key_id.as_ref().into(),
            task_id.as_ref().into(),
            kind.name().into(),
            held.get().into(),
            spent.get().into(),
            credit.get().into(),
            note.into(),
            now.micros().into(),
        ],
    )?;
    let key = match &key_id {
        None => None,
        Some(id) => conn.one(
            "UPDATE api_keys SET held_micros = held_micros + ?2, spent_micros = spent_micros + ?3 WHERE id = ?1
             RETURNING budget_micros, held_micros, spent_micros",
            &[id.into(), held.get().into(), spent.get().into()],
            |row| key_money(row, 0),
        )?,
    };
    let account = conn.one(
        "UPDATE accounts SET held_micros = held_micros + ?2, spent_micros = spent_micros + ?3,
                credit_micros = credit_micros + ?4 WHERE id = ?1
         RETURNING prepaid, budget_micros, held_micros, spent_micros, credit_micros",
        &[
            (&account_id).into(),
            held.get().into(),
            spent.get().into(),
            credit.get().into(),
        ],
        |row| account_money(row, 0),
    )?;
    let account = account.ok_or(StoreError::Unreadable {
        column: "ledger.account_id",
        value: account_id,
    })?;
    Ok(Sums { key, account })
}

/// The sums of an account.
pub fn of_account(
    conn: &mut Conn<'_>,
    account: AccountId,
) -> Result<Option<AccountMoney>, StoreError> {
    conn.one(
        "SELECT prepaid, budget_micros, held_micros, spent_micros, credit_micros FROM accounts WHERE id = ?1",
        &[(&account.to_string()).into()],
        |row| account_money(row, 0),
    )
}

/// The sums of every key of an account, or of all keys, by the key's id.
pub fn of_keys(
    conn: &mut Conn<'_>,
    account: Option<AccountId>,
) -> Result<Vec<(KeyId, KeyMoney)>, StoreError> {
    conn.all(
        "SELECT id, budget_micros, held_micros, spent_micros FROM api_keys
         WHERE CAST(?1 AS TEXT) IS NULL OR account_id = ?1 ORDER BY id",
        &[account.map(|id| id.to_string()).as_ref().into()],
        |row| Ok((row.parse(0, "api_keys.id")?, key_money(row, 1)?)),
    )
}

/// What a list of entries is narrowed to.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only of this account.
    pub account: Option<AccountId>,
    /// Only of this task.
    pub task: Option<TaskId>,
    /// Only behind this entry: its instant and id.
    pub after: Option<(Timestamp, String)>,
}

/// Entries in the order in which they were written, at most `limit`.
pub fn list(conn: &mut Conn<'_>, filter: &Filter, limit: u32) -> Result<Vec<Entry>, StoreError> {
    let (at, id) = match &filter.after {
        Some((at, id)) => (at.micros(), id.as_str()),
        None => (i64::MIN, ""),
    };
    conn.all(
        "SELECT id, account_id, key_id, task_id, kind, held_micros, spent_micros, credit_micros, note, created_at
         FROM ledger WHERE (CAST(?1 AS TEXT) IS NULL OR account_id = ?1) AND (CAST(?2 AS TEXT) IS NULL OR (id > ?2 || ':' AND id < ?2 || ';'))
         AND (created_at > ?3 OR (created_at = ?3 AND id > ?4)) ORDER BY created_at, id LIMIT ?5",
        &[
            filter.account.map(|id| id.to_string()).as_ref().into(),
            filter.task.map(|id| id.to_string()).as_ref().into(),
            at.into(),
            id.into(),
            i64::from(limit).into(),
        ],
        entry,
    )
}

/// The same entries, the newest first.
pub fn newest(conn: &mut Conn<'_>, filter: &Filter, limit: u32) -> Result<Vec<Entry>, StoreError> {
    conn.all(
        "SELECT id, account_id, key_id, task_id, kind, held_micros, spent_micros, credit_micros, note, created_at
         FROM ledger WHERE (CAST(?1 AS TEXT) IS NULL OR account_id = ?1) AND (CAST(?2 AS TEXT) IS NULL OR (id > ?2 || ':' AND id < ?2 || ';'))
         ORDER BY created_at DESC, id DESC LIMIT ?3",
        &[
            filter.account.map(|id| id.to_string()).as_ref().into(),
            filter.task.map(|id| id.to_string()).as_ref().into(),
            i64::from(limit).into(),
        ],
        entry,
    )
}

/// How many entries, tasks, keys and accounts there are.
pub fn counts(conn: &mut Conn<'_>) -> Result<[i64; 4], StoreError> {
    let counts = conn.one(
        "SELECT (SELECT COUNT(*) FROM ledger), (SELECT COUNT(*) FROM tasks), (SELECT COUNT(*) FROM api_keys),
                (SELECT COUNT(*) FROM accounts)",
        &[],
        |row| Ok([row.int(0)?, row.int(1)?, row.int(2)?, row.int(3)?]),
    )?;
    Ok(counts.unwrap_or_default())
}

fn entry(row: &Row<'_>) -> Result<Entry, StoreError> {
    Ok(Entry {
        id: row.text(0)?,
        account: row.parse(1, "ledger.account_id")?,
        key: row.parse_or_null(2, "ledger.key_id")?,
        task: row.parse_or_null(3, "ledger.task_id")?,
        kind: row.parse(4, "ledger.kind")?,
        held: Micros::new(row.int(5)?),
        spent: Micros::new(row.int(6)?),
        credit: Micros::new(row.int(7)?),
        note: row.text_or_null(8)?,
        created_at: Timestamp::from_micros(row.int(9)?),
    })
}

fn key_money(row: &Row<'_>, at: usize) -> Result<KeyMoney, StoreError> {
    Ok(KeyMoney {
        budget: row.int_or_null(at)?.map(Micros::new),
        held: Micros::new(row.int(at + 1)?),
        spent: Micros::new(row.int(at + 2)?),
    })
}

pub(super) fn account_money(row: &Row<'_>, at: usize) -> Result<AccountMoney, StoreError> {
    Ok(AccountMoney {
        prepaid: row.flag(at)?,
        budget: row.int_or_null(at + 1)?.map(Micros::new),
        held: Micros::new(row.int(at + 2)?),
        spent: Micros::new(row.int(at + 3)?),
        credit: Micros::new(row.int(at + 4)?),
    })
}

/// Something about the money that does not add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// `key`, `account` or `task`.
    pub what: &'static str,
    /// Which one.
    pub id: String,
    /// What is wrong, with the two figures.
    pub why: String,
}

/// Everything that does not add up. Each look is one statement, and so sees one
/// moment, whatever is being written beside it.
pub fn mismatches(conn: &mut Conn<'_>) -> Result<Vec<Mismatch>, StoreError> {
    let mut found = conn.all(
        "SELECT k.id, k.held_micros, k.spent_micros, CAST(COALESCE(SUM(l.held_micros), 0) AS BIGINT),
                CAST(COALESCE(SUM(l.spent_micros), 0) AS BIGINT)
         FROM api_keys k LEFT JOIN ledger l ON l.key_id = k.id GROUP BY k.id, k.held_micros, k.spent_micros
         HAVING k.held_micros <> COALESCE(SUM(l.held_micros), 0) OR k.spent_micros <> COALESCE(SUM(l.spent_micros), 0)",
        &[],
        |row| sums_differ("key", row),
    )?;
    found.extend(conn.all(
        "SELECT a.id, a.held_micros, a.spent_micros, CAST(COALESCE(SUM(l.held_micros), 0) AS BIGINT),
                CAST(COALESCE(SUM(l.spent_micros), 0) AS BIGINT)
         FROM accounts a LEFT JOIN ledger l ON l.account_id = a.id GROUP BY a.id, a.held_micros, a.spent_micros
         HAVING a.held_micros <> COALESCE(SUM(l.held_micros), 0) OR a.spent_micros <> COALESCE(SUM(l.spent_micros), 0)",
        &[],
        |row| sums_differ("account", row),
    )?);
    found.extend(conn.all(
        "SELECT a.id, a.credit_micros, CAST(COALESCE(SUM(l.credit_micros), 0) AS BIGINT)
         FROM accounts a LEFT JOIN ledger l ON l.account_id = a.id GROUP BY a.id, a.credit_micros
         HAVING a.credit_micros <> COALESCE(SUM(l.credit_micros), 0)",
        &[],
        |row| {
            let (credit, sum) = (Micros::new(row.int(1)?), Micros::new(row.int(2)?));
            Ok(Mismatch {
                what: "account",
                id: row.text(0)?,
                why: format!("credited {credit}; its entries sum to {sum}"),
            })
        },
    )?);
    // A task's entries against its state; adjustments are the operator's own.
    found.extend(conn.all(
        "SELECT t.id, t.state, t.money, t.reserved_micros, t.cost_micros,
                CAST(COALESCE(SUM(CASE l.kind WHEN 'reserve' THEN l.held_micros ELSE 0 END), 0) AS BIGINT),
                CAST(COALESCE(SUM(l.held_micros), 0) AS BIGINT),
                CAST(COALESCE(SUM(CASE l.kind WHEN 'settle' THEN l.spent_micros ELSE 0 END), 0) AS BIGINT),
                CAST(COALESCE(SUM(CASE l.kind WHEN 'settle' THEN 1 ELSE 0 END), 0) AS BIGINT),
                CAST(COALESCE(SUM(CASE l.kind WHEN 'release' THEN 1 ELSE 0 END), 0) AS BIGINT)
         FROM tasks t LEFT JOIN ledger l ON l.task_id = t.id
         GROUP BY t.id, t.state, t.money, t.reserved_micros, t.cost_micros
         HAVING NOT (
            (t.money = 'free' AND COUNT(l.id) = 0 AND t.cost_micros = 0)
            OR (t.money = 'held' AND t.state IN ('queued', 'running', 'cancelled')
                AND COALESCE(SUM(l.held_micros), 0) = t.reserved_micros AND t.cost_micros = t.reserved_micros
                AND SUM(CASE WHEN l.kind IN ('settle', 'release') THEN 1 ELSE 0 END) = 0)
            OR (t.money = 'settled' AND t.state IN ('succeeded', 'cancelled') AND COALESCE(SUM(l.held_micros), 0) = 0
                AND SUM(CASE l.kind WHEN 'settle' THEN l.spent_micros ELSE 0 END) = t.cost_micros
                AND SUM(CASE l.kind WHEN 'settle' THEN 1 ELSE 0 END) = 1)
            OR (t.money = 'released' AND t.state IN ('failed', 'cancelled') AND COALESCE(SUM(l.held_micros), 0) = 0
                AND t.cost_micros = 0 AND SUM(CASE l.kind WHEN 'release' THEN 1 ELSE 0 END) = 1
                AND SUM(CASE l.kind WHEN 'settle' THEN 1 ELSE 0 END) = 0))",
        &[],
        |row| {
            let amount = |at| row.int(at).map(Micros::new);
            let (state, money) = (row.text(1)?, row.text(2)?);
            let why = format!(
                "it is {state} and its money {money}; reserved {}, cost {}; the ledger reserves {}, still holds {}, \
                 settles {} ({} times) and releases {} times",
                amount(3)?,
                amount(4)?,
                amount(5)?,
                amount(6)?,
                amount(7)?,
                row.int(8)?,
                row.int(9)?
            );
            Ok(Mismatch {
                what: "task",
                id: row.text(0)?,
                why,
            })
        },
    )?);
    Ok(found)
}

fn sums_differ(what: &'static str, row: &Row<'_>) -> Result<Mismatch, StoreError> {
    let amount = |at| row.int(at).map(Micros::new);
    let why = format!(
        "held {} and spent {}; its entries sum to {} and {}",
        amount(1)?,
        amount(2)?,
        amount(3)?,
        amount(4)?
    );
    Ok(Mismatch {
        what,
        id: row.text(0)?,
        why,
    })
}
