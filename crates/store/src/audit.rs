//! The audit logs: one of the operators, and one of each account. Entries are only added, in the
//! transaction of the change that they record. Those of accounts are removed when they are old.

use crate::columns::{TableRecord as _, insert, record};
use crate::statement::sql;
use crate::{Conn, StoreError};
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

/// The condition that selects a log, and a further one.
macro_rules! entries {
    ($log:literal, $rest:literal) => {
        concat!(
            "SELECT ", columns!(), "
             FROM audit WHERE ", $log, " AND (at, id) < (:at, :id) AND at >= :since
             AND (CAST(:action AS TEXT) IS NULL OR action = :action)
             AND (CAST(:actor AS TEXT) IS NULL OR actor_id = :actor OR actor_name = :actor OR actor_kind = :actor) ",
            $rest,
            " ORDER BY at DESC, id DESC LIMIT :limit"
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
    let AuditFilter { action, actor, .. } = filter;
    macro_rules! read {
        ($log:literal $(, $name:ident)*) => {
            sql!(entries!($log, ""), at, id, since, action, actor, limit $(, $name)*).all(conn, AuditEntry::from_row)
        };
        ($log:literal, target = $target:ident $(, $name:ident)*) => {
            sql!(entries!($log, "AND target = :target"), at, id, since, action, actor, limit, target = $target $(, $name)*)
                .all(conn, AuditEntry::from_row)
        };
    }
    match (filter.log, &filter.target) {
        (AuditLog::Operators, None) => read!("account_id IS NULL"),
        (AuditLog::Operators, Some(target)) => read!("account_id IS NULL", target = target),
        (AuditLog::Accounts, None) => read!("account_id IS NOT NULL"),
        (AuditLog::Accounts, Some(target)) => read!("account_id IS NOT NULL", target = target),
        (AuditLog::Account(account), None) => read!("account_id = :account", account),
        (AuditLog::Account(account), Some(target)) => {
            read!("account_id = :account", target = target, account)
        }
    }
}

/// At most `limit` entries of the operators' log that were written at `since` or later, the oldest
/// first.
pub fn oldest(
    conn: &mut Conn<'_>,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<AuditEntry>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM audit WHERE account_id IS NULL AND at >= :since ORDER BY at, id LIMIT :limit"
        ),
        since,
        limit
    )
    .all(conn, AuditEntry::from_row)
}

/// When a key wrote the entry number `number` in its account's log, counted from the newest, if that
/// was after `since`.
pub fn time_of_earlier(
    conn: &mut Conn<'_>,
    (account, actor): (AccountId, &str),
    number: u32,
    since: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    sql!(
        "SELECT at FROM audit WHERE account_id = :account AND at > :since AND actor_id = :actor
         ORDER BY at DESC, id DESC LIMIT 1 OFFSET :skipped",
        account,
        since,
        actor,
        skipped = number.saturating_sub(1)
    )
    .value(conn)
}

/// Removes at most `limit` entries of accounts' logs that were written before `before`, the oldest
/// first; returns how many.
pub fn forget(conn: &mut Conn<'_>, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    sql!(
        "DELETE FROM audit WHERE id IN
         (SELECT id FROM audit WHERE account_id IS NOT NULL AND at < :before ORDER BY at, id LIMIT :limit)",
        before,
        limit
    )
    .execute(conn)
}

/// When an entry was written.
pub fn time_of(conn: &mut Conn<'_>, id: AuditId) -> Result<Option<Timestamp>, StoreError> {
    sql!("SELECT at FROM audit WHERE id = :id", id).value(conn)
}
