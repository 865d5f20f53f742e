//! The ledger: entries are only added, and the running sums of key and account change in the same
//! transaction.
//!
//! Unique indexes keep a task from having two entries of a kind, or two ends of its reservation.
//! `verify` checks the sums.

use crate::columns::{FieldReader, TableRecord as _, attribution, insert, record};
use crate::money_columns::period_starts;
use crate::statement::sql;
use crate::{Conn, Row, StoreError, attributed_sums, keys, usage};

pub use crate::ledger_change::{EntrySubject, LedgerChange};
use mediagate_model::account::{AccountMoney, KeyMoney};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, EntryId, KeyId, TaskId};
use mediagate_model::ledger::{EntryKind, MoneyEntry};
use mediagate_model::task::TaskState;

/// The sums after an entry.
#[derive(Debug, Clone, Copy)]
pub struct LedgerSums {
    /// `None` if the entry has no key.
    pub key: Option<KeyMoney>,
    pub account: AccountMoney,
}

/// Adds an entry and updates the sums, always in the order key, account, day, so that transactions
/// cannot deadlock.
pub fn add(
    conn: &mut Conn<'_>,
    subject: EntrySubject<'_>,
    kind: EntryKind,
    change: LedgerChange,
    note: Option<&str>,
    now: Timestamp,
) -> Result<LedgerSums, StoreError> {
    let (held, spent, credit) = (change.held, change.spent, change.credit);
    let account_id = subject.account.to_string();
    let task_id = subject.task.map(|task| task.to_string());
    // A task has at most one entry of each kind: a second one would have the same id.
    let id = match &task_id {
        Some(task) => format!("{task}:{}", kind.name()),
        None => EntryId::new().to_string(),
    };
    insert!(conn, "ledger" {
        "id": id,
        "account_id": subject.account,
        "key_id": subject.key,
        "task_id": subject.task,
        "kind": kind,
        "held_micros": held,
        "spent_micros": spent,
        "credit_micros": credit,
        "note": note,
        "created_at": now,
        "counted_at": change.counted_at,
    })?;
    // The update returns the sums. From here on the row is locked, so no other transaction changes
    // them between this and the caller's check of a limit.
    let mut key = match subject.key {
        None => None,
        Some(id) => sql!(
            "UPDATE api_keys SET held_micros = held_micros + :held, spent_micros = spent_micros + :spent,
             open_tasks = open_tasks - :has_ended
             WHERE id = :id RETURNING budget_micros, budget_period, held_micros, spent_micros",
            id,
            held,
            spent,
            has_ended = change.final_state.is_some()
        )
        .one(conn, changed_key_money)?,
    };
    let account = sql!(
        concat!(
            "UPDATE accounts SET held_micros = held_micros + :held, spent_micros = spent_micros + :spent,
                    credit_micros = credit_micros + :credit WHERE id = :account_id RETURNING ",
            account_money_columns!()
        ),
        account_id = &account_id,
        held,
        spent,
        credit
    )
    .one(conn, AccountMoney::from_row)?;
    let account = account.ok_or(StoreError::Unreadable {
        column: "ledger.account_id",
        value: account_id,
    })?;
    add_to_sums(conn, subject, change, change.counted_at.unwrap_or(now))?;
    // Other spenders with this key wait for its row, so the sum cannot grow meanwhile.
    if let (Some(money), Some(key)) = (&mut key, subject.key)
        && let (Some(_), Some(period)) = (money.budget, money.period)
    {
        money.counted = usage::spent_since(conn, subject.account, key, period.start(now))?;
    }
    Ok(LedgerSums { key, account })
}

/// Makes other transactions that move money of this key or account wait until this one ends.
pub fn lock(conn: &mut Conn<'_>, subject: EntrySubject<'_>) -> Result<(), StoreError> {
    // An update that changes nothing locks the row. The order is that of `add`.
    if let Some(key) = subject.key {
        sql!(
            "UPDATE api_keys SET held_micros = held_micros WHERE id = :key",
            key
        )
        .execute(conn)?;
    }
    sql!(
        "UPDATE accounts SET held_micros = held_micros WHERE id = :account",
        account = subject.account
    )
    .execute(conn)?;
    Ok(())
}

/// Ends a task for which no entry is written now: updates the key's count of open tasks and the
/// day's sums.
pub fn end_without_entry(
    conn: &mut Conn<'_>,
    subject: EntrySubject<'_>,
    state: TaskState,
    now: Timestamp,
) -> Result<(), StoreError> {
    if let Some(key) = subject.key {
        keys::release_open_task(conn, key)?;
    }
    let change = LedgerChange {
        final_state: Some(state),
        ..LedgerChange::default()
    };
    add_to_sums(conn, subject, change, now)
}

/// Adds a change to the sums of its day, its hour and its attributes.
fn add_to_sums(
    conn: &mut Conn<'_>,
    subject: EntrySubject<'_>,
    change: LedgerChange,
    at: Timestamp,
) -> Result<(), StoreError> {
    usage::add(conn, subject, change, at)?;
    match (subject.task, subject.attribution) {
        (Some(task), Some(attribution)) => {
            attributed_sums::add(conn, task, attribution, change, at)
        }
        _ => Ok(()),
    }
}

pub fn of_account(
    conn: &mut Conn<'_>,
    account: AccountId,
) -> Result<Option<AccountMoney>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            account_money_columns!(),
            " FROM accounts WHERE id = :account"
        ),
        account
    )
    .one(conn, AccountMoney::from_row)
}

pub fn of_key(
    conn: &mut Conn<'_>,
    key: KeyId,
    now: Timestamp,
) -> Result<Option<KeyMoney>, StoreError> {
    let [day, week, month] = period_starts(now);
    sql!(
        concat!(
            "SELECT ",
            key_money_columns!(),
            " FROM api_keys k WHERE k.id = :key"
        ),
        day,
        week,
        month,
        key
    )
    .one(conn, KeyMoney::from_row)
}

/// Which entries to list; what is `None` selects all.
#[derive(Debug, Clone, Default)]
pub struct LedgerFilter {
    /// Only entries of this account.
    pub account: Option<AccountId>,
    /// Only entries of this task.
    pub task: Option<TaskId>,
    /// Only entries that were written at or after this time.
    pub from: Option<Timestamp>,
    /// Only entries that were written before this time.
    pub before: Option<Timestamp>,
    /// Only entries after this one: its time and id.
    pub after: Option<(Timestamp, String)>,
}

record! {
    columns for MoneyEntry of "ledger" {
        id: "id",
        account: "account_id",
        key: "key_id",
        task: "task_id",
        kind: "kind",
        held: "held_micros",
        spent: "spent_micros",
        credit: "credit_micros",
        note: "note",
        created_at: "created_at",
        attribution: attribution(
            "(SELECT end_user FROM tasks WHERE tasks.id = ledger.task_id)",
            "(SELECT metadata FROM tasks WHERE tasks.id = ledger.task_id)"
        ),
    }
}

macro_rules! entries {
    ($rest:literal) => {
        concat!("SELECT ", columns!(), " FROM ledger ", $rest)
    };
}

/// At most `limit` entries, oldest first.
pub fn list(
    conn: &mut Conn<'_>,
    filter: &LedgerFilter,
    limit: u32,
) -> Result<Vec<MoneyEntry>, StoreError> {
    let from = filter.from.map_or(i64::MIN, Timestamp::micros);
    // Entries of one transaction may have the same time, so the id decides between them. Every id
    // sorts after "", so the first entry may have been written at `from`.
    let (at, id) = match &filter.after {
        Some((at, id)) if at.micros() >= from => (at.micros(), id.as_str()),
        _ => (from, ""),
    };
    let before = filter.before.map_or(i64::MAX, Timestamp::micros);
    // A statement for each case, because planners use no index for an optional condition. A task
    // has few entries, so there the account may be one.
    match (filter.task, filter.account) {
        (Some(task), account) => sql!(
            entries!(
                "WHERE task_id = :task AND (created_at, id) > (:at, :id) AND created_at < :before
                 AND (CAST(:account AS TEXT) IS NULL OR account_id = :account) ORDER BY created_at, id LIMIT :limit"
            ),
            at, id, limit, before, task, account
        )
        .all(conn, MoneyEntry::from_row),
        (None, Some(account)) => sql!(
            entries!(
                "WHERE account_id = :account AND (created_at, id) > (:at, :id) AND created_at < :before
                 ORDER BY created_at, id LIMIT :limit"
            ),
            at, id, limit, before, account
        )
        .all(conn, MoneyEntry::from_row),
        (None, None) => sql!(
            entries!(
                "WHERE (created_at, id) > (:at, :id) AND created_at < :before ORDER BY created_at, id LIMIT :limit"
            ),
            at, id, limit, before
        )
        .all(conn, MoneyEntry::from_row),
    }
}

/// At most `limit` entries, newest first, from the one before this time and id on; `filter.after`
/// is ignored.
pub fn newest(
    conn: &mut Conn<'_>,
    filter: &LedgerFilter,
    before: Option<(Timestamp, &str)>,
    limit: u32,
) -> Result<Vec<MoneyEntry>, StoreError> {
    let end = filter.before.map_or(i64::MAX, Timestamp::micros);
    // Every id sorts after "", so this excludes entries written at `end`.
    let (at, id) = match before {
        Some((at, id)) if at.micros() < end => (at.micros(), id),
        _ => (end, ""),
    };
    let from = filter.from.map_or(i64::MIN, Timestamp::micros);
    // A statement for each case, because planners use no index for an optional condition. A task
    // has few entries, so there the account may be one.
    match (filter.task, filter.account) {
        (Some(task), account) => sql!(
            entries!(
                "WHERE task_id = :task AND (created_at, id) < (:at, :id) AND created_at >= :from
                 AND (CAST(:account AS TEXT) IS NULL OR account_id = :account) ORDER BY created_at DESC, id DESC
                 LIMIT :limit"
            ),
            at, id, limit, from, task, account
        )
        .all(conn, MoneyEntry::from_row),
        (None, Some(account)) => sql!(
            entries!(
                "WHERE account_id = :account AND (created_at, id) < (:at, :id) AND created_at >= :from
                 ORDER BY created_at DESC, id DESC LIMIT :limit"
            ),
            at, id, limit, from, account
        )
        .all(conn, MoneyEntry::from_row),
        (None, None) => sql!(
            entries!(
                "WHERE (created_at, id) < (:at, :id) AND created_at >= :from ORDER BY created_at DESC, id DESC
                 LIMIT :limit"
            ),
            at, id, limit, from
        )
        .all(conn, MoneyEntry::from_row),
    }
}

/// When an entry was written.
pub fn time_of(conn: &mut Conn<'_>, id: &str) -> Result<Option<Timestamp>, StoreError> {
    sql!("SELECT created_at FROM ledger WHERE id = :id", id).value(conn)
}

pub fn counts(conn: &mut Conn<'_>) -> Result<[i64; 4], StoreError> {
    let counts = sql!(
        "SELECT (SELECT COUNT(*) FROM ledger) AS entries, (SELECT COUNT(*) FROM tasks) AS tasks,
                (SELECT COUNT(*) FROM api_keys) AS api_keys, (SELECT COUNT(*) FROM accounts) AS accounts"
    )
    .one(conn, |row| {
        Ok([row.field("entries")?, row.field("tasks")?, row.field("api_keys")?, row.field("accounts")?])
    })?;
    Ok(counts.unwrap_or_default())
}

/// The sums of a key as if all of its spending counted against its budget; `add` corrects this for
/// a budget with a period.
fn changed_key_money(row: &Row<'_>) -> Result<KeyMoney, StoreError> {
    let mut fields = FieldReader::new(row);
    let (budget, period) = (
        fields.field("api_keys.budget_micros")?,
        fields.field("api_keys.budget_period")?,
    );
    let held = fields.field("api_keys.held_micros")?;
    let spent = fields.field("api_keys.spent_micros")?;
    Ok(KeyMoney {
        budget,
        period,
        held,
        spent,
        counted: spent,
    })
}
