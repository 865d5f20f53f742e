//! The ledger: entries are added, never changed, and the running sums of key
//! and account move with each in the same transaction.
//!
//! The database itself keeps an entry of a kind from being written twice for a
//! task, and a reservation from ending twice. Whether it all adds up is looked at
//! in `verify`.

use crate::clock::Timestamp;
use crate::ids::{AccountId, EntryId, KeyId, TaskId};
use crate::model::account::{AccountMoney, KeyMoney};
use crate::model::ledger::{Entry, EntryKind};
use crate::model::money::Micros;
use crate::model::task::TaskState;
use crate::store::{Conn, Row, StoreError, Value, accounts, usage};

/// Whose money an entry moves, for which task.
#[derive(Debug, Clone, Copy)]
pub struct Of<'a> {
    /// The account.
    pub account: AccountId,
    /// The key, where one spends it.
    pub key: Option<KeyId>,
    /// The task, where it is spent on one.
    pub task: Option<TaskId>,
    /// The task's model.
    pub model: Option<&'a str>,
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
    /// How the task ends, when it ends with this entry.
    pub ended: Option<TaskState>,
}

/// The sums after an entry.
#[derive(Debug, Clone, Copy)]
pub struct Sums {
    /// Of the key, where the entry has one.
    pub key: Option<KeyMoney>,
    /// Of the account.
    pub account: AccountMoney,
}

/// Adds an entry and moves the sums. Always the key first, then the account, then
/// the day, so that two transactions never wait for each other.
pub fn add(
    conn: &mut Conn<'_>,
    of: Of<'_>,
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
            "UPDATE api_keys SET held_micros = held_micros + ?2, spent_micros = spent_micros + ?3, open_tasks = open_tasks - ?4
             WHERE id = ?1 RETURNING budget_micros, held_micros, spent_micros",
            &[
                id.into(),
                held.get().into(),
                spent.get().into(),
                change.ended.is_some().into(),
            ],
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
    usage::add(conn, of, change, now)?;
    Ok(Sums { key, account })
}

/// A task ends that moves no money now: its key has a place again, and the day
/// counts it.
pub fn end_without_entry(
    conn: &mut Conn<'_>,
    of: Of<'_>,
    state: TaskState,
    now: Timestamp,
) -> Result<(), StoreError> {
    if let Some(key) = of.key {
        accounts::give_place_back(conn, key)?;
    }
    let change = Change {
        ended: Some(state),
        ..Change::default()
    };
    usage::add(conn, of, change, now)
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

/// The sums of a key.
pub fn of_key(conn: &mut Conn<'_>, key: KeyId) -> Result<Option<KeyMoney>, StoreError> {
    conn.one(
        "SELECT budget_micros, held_micros, spent_micros FROM api_keys WHERE id = ?1",
        &[(&key.to_string()).into()],
        |row| key_money(row, 0),
    )
}

/// The sums of every key, by the key's id.
pub fn of_keys(conn: &mut Conn<'_>) -> Result<Vec<(KeyId, KeyMoney)>, StoreError> {
    conn.all(
        "SELECT id, budget_micros, held_micros, spent_micros FROM api_keys ORDER BY id",
        &[],
        |row| Ok((row.parse(0, "api_keys.id")?, key_money(row, 1)?)),
    )
}

/// What a list of entries is narrowed to.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only of this account.
    pub account: Option<AccountId>,
    /// Only of this task, which then is all that counts.
    pub task: Option<TaskId>,
    /// Only behind this entry: its instant and id.
    pub after: Option<(Timestamp, String)>,
}

macro_rules! entries {
    ($rest:literal) => {
        concat!(
            "SELECT id, account_id, key_id, task_id, kind, held_micros, spent_micros, credit_micros, note, created_at
             FROM ledger ",
            $rest
        )
    };
}

/// Entries in the order in which they were written, at most `limit`.
pub fn list(conn: &mut Conn<'_>, filter: &Filter, limit: u32) -> Result<Vec<Entry>, StoreError> {
    let (at, id) = match &filter.after {
        Some((at, id)) => (at.micros(), id.as_str()),
        None => (i64::MIN, ""),
    };
    let (sql, of) = match (filter.task, filter.account) {
        (Some(task), _) => (
            entries!(
                "WHERE task_id = ?4 AND (created_at, id) > (?1, ?2) ORDER BY created_at, id LIMIT ?3"
            ),
            Some(task.to_string()),
        ),
        (None, Some(account)) => (
            entries!(
                "WHERE account_id = ?4 AND (created_at, id) > (?1, ?2) ORDER BY created_at, id LIMIT ?3"
            ),
            Some(account.to_string()),
        ),
        (None, None) => (
            entries!("WHERE (created_at, id) > (?1, ?2) ORDER BY created_at, id LIMIT ?3"),
            None,
        ),
    };
    let mut values = vec![at.into(), id.into(), i64::from(limit).into()];
    values.extend(of.as_ref().map(Value::from));
    conn.all(sql, &values, entry)
}

/// The same entries, the newest first.
pub fn newest(conn: &mut Conn<'_>, filter: &Filter, limit: u32) -> Result<Vec<Entry>, StoreError> {
    let (sql, of) = match (filter.task, filter.account) {
        (Some(task), _) => (
            entries!("WHERE task_id = ?2 ORDER BY created_at DESC, id DESC LIMIT ?1"),
            Some(task.to_string()),
        ),
        (None, Some(account)) => (
            entries!("WHERE account_id = ?2 ORDER BY created_at DESC, id DESC LIMIT ?1"),
            Some(account.to_string()),
        ),
        (None, None) => (entries!("ORDER BY created_at DESC, id DESC LIMIT ?1"), None),
    };
    let mut values = vec![i64::from(limit).into()];
    values.extend(of.as_ref().map(Value::from));
    conn.all(sql, &values, entry)
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
