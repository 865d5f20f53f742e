//! The audit logs: one of the operators, and one of each account. Entries are only added, in the
//! transaction of the change that they record. Those of accounts are removed when they are old.

use crate::columns::{TableRecord as _, insert, record};
use crate::{Conn, SqlValue, StoreError};
use mediagate_model::audit::{Actor, ActorKind, AuditEntry};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, AuditId};

record! {
    columns for AuditEntry of "audit" {
        id: "id",
        at: "at",
        actor: actor("actor_kind", "actor_id", "actor_name"),
        action: "action",
        target: "target",
        before: "before",
        after: "after",
        request_id: "request_id",
        address: "address",
        account: "account_id",
    }
}

const fn actor(kind: ActorKind, id: Option<String>, name: String) -> Actor {
    Actor { kind, id, name }
}

pub fn insert(conn: &mut Conn<'_>, entry: &AuditEntry) -> Result<(), StoreError> {
    insert!(conn, "audit" {
        "id": entry.id,
        "at": entry.at,
        "actor_kind": entry.actor.kind,
        "actor_id": entry.actor.id,
        "actor_name": entry.actor.name,
        "action": entry.action,
        "target": entry.target,
        "before": entry.before,
        "after": entry.after,
        "request_id": entry.request_id,
        "address": entry.address,
        "account_id": entry.account,
    })?;
    Ok(())
}

/// Whose log to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AuditLog {
    #[default]
    Operators,
    Account(AccountId),
    /// Those of all accounts.
    Accounts,
}

/// Which entries to list.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    pub log: AuditLog,
    pub action: Option<String>,
    pub target: Option<String>,
    /// The actor's id, name or kind.
    pub actor: Option<String>,
    pub since: Option<Timestamp>,
    /// Exclusive.
    pub until: Option<Timestamp>,
}

macro_rules! entries {
    ($log:literal, $rest:literal) => {
        concat!(
            "SELECT ", columns!(), "
             FROM audit WHERE ", $log, " AND (at, id) < (?1, ?2) AND at >= ?3 AND (CAST(?4 AS TEXT) IS NULL OR action = ?4)
             AND (CAST(?5 AS TEXT) IS NULL OR actor_id = ?5 OR actor_name = ?5 OR actor_kind = ?5) ",
            $rest,
            " ORDER BY at DESC, id DESC LIMIT ?6"
        )
    };
}

/// At most `limit` entries before the one with this time and id, newest first.
pub fn newest(
    conn: &mut Conn<'_>,
    filter: &AuditFilter,
    before: Option<(Timestamp, AuditId)>,
    limit: u32,
) -> Result<Vec<AuditEntry>, StoreError> {
    let until = filter.until.map_or(i64::MAX, Timestamp::micros);
    // Every id sorts after "", so this excludes entries written at `until`.
    let (at, id) = match before {
        Some((at, id)) if at.micros() < until => (at.micros(), id.to_string()),
        _ => (until, String::new()),
    };
    let since = filter.since.map_or(i64::MIN, Timestamp::micros);
    let mut values = vec![
        at.into(),
        (&id).into(),
        since.into(),
        filter.action.as_ref().into(),
        filter.actor.as_ref().into(),
        i64::from(limit).into(),
    ];
    let account = match filter.log {
        AuditLog::Account(account) => Some(account.to_string()),
        AuditLog::Operators | AuditLog::Accounts => None,
    };
    // The statements below number them in this order.
    values.extend(filter.target.iter().map(SqlValue::from));
    values.extend(account.iter().map(SqlValue::from));
    let sql = match (filter.log, &filter.target) {
        (AuditLog::Operators, None) => entries!("account_id IS NULL", ""),
        (AuditLog::Operators, Some(_)) => entries!("account_id IS NULL", "AND target = ?7"),
        (AuditLog::Accounts, None) => entries!("account_id IS NOT NULL", ""),
        (AuditLog::Accounts, Some(_)) => entries!("account_id IS NOT NULL", "AND target = ?7"),
        (AuditLog::Account(_), None) => entries!("account_id = ?7", ""),
        (AuditLog::Account(_), Some(_)) => entries!("account_id = ?8", "AND target = ?7"),
    };
    conn.all(sql, &values, AuditEntry::from_row)
}

/// At most `limit` entries of the operators' log that were written at `since` or later, the oldest
/// first.
pub fn oldest(
    conn: &mut Conn<'_>,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<AuditEntry>, StoreError> {
    conn.all(
        concat!(
            "SELECT ",
            columns!(),
            " FROM audit WHERE account_id IS NULL AND at >= ?1 ORDER BY at, id LIMIT ?2"
        ),
        &[since.micros().into(), i64::from(limit).into()],
        AuditEntry::from_row,
    )
}

/// When a key wrote the entry number `number` in its account's log, counted from the newest, if that
/// was after `since`.
pub fn time_of_earlier(
    conn: &mut Conn<'_>,
    (account, actor): (AccountId, &str),
    number: u32,
    since: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    conn.one(
        "SELECT at FROM audit WHERE account_id = ?1 AND at > ?2 AND actor_id = ?3
         ORDER BY at DESC, id DESC LIMIT 1 OFFSET ?4",
        &[
            (&account.to_string()).into(),
            since.micros().into(),
            actor.into(),
            i64::from(number.saturating_sub(1)).into(),
        ],
        |row| Ok(Timestamp::from_micros(row.int(0)?)),
    )
}

/// Removes at most `limit` entries of accounts' logs that were written before `before`, the oldest
/// first; returns how many.
pub fn forget(conn: &mut Conn<'_>, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    conn.execute(
        "DELETE FROM audit WHERE id IN
         (SELECT id FROM audit WHERE account_id IS NOT NULL AND at < ?1 ORDER BY at, id LIMIT ?2)",
        &[before.micros().into(), i64::from(limit).into()],
    )
}

/// When an entry was written.
pub fn time_of(conn: &mut Conn<'_>, id: AuditId) -> Result<Option<Timestamp>, StoreError> {
    conn.one(
        "SELECT at FROM audit WHERE id = ?1",
        &[(&id.to_string()).into()],
        |row| Ok(Timestamp::from_micros(row.int(0)?)),
    )
}
