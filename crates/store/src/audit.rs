//! The audit log. Entries are only added, in the transaction of the change that they record.

use crate::columns::{TableRecord as _, insert, record};
use crate::{Conn, StoreError};
use mediagate_model::audit::{Actor, ActorKind, AuditEntry};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::AuditId;

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
    })?;
    Ok(())
}

/// Which entries to list.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    pub action: Option<String>,
    pub target: Option<String>,
    /// The actor's id, name or kind.
    pub actor: Option<String>,
    pub since: Option<Timestamp>,
    /// Exclusive.
    pub until: Option<Timestamp>,
}

macro_rules! entries {
    ($rest:literal) => {
        concat!(
            "SELECT ", columns!(), "
             FROM audit WHERE (at, id) < (?1, ?2) AND at >= ?3 AND (CAST(?4 AS TEXT) IS NULL OR action = ?4)
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
    let sql = match &filter.target {
        None => entries!(""),
        Some(target) => {
            values.push(target.into());
            entries!("AND target = ?7")
        }
    };
    conn.all(sql, &values, AuditEntry::from_row)
}

/// At most `limit` entries that were written at `since` or later, the oldest first.
pub fn oldest(
    conn: &mut Conn<'_>,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<AuditEntry>, StoreError> {
    conn.all(
        concat!(
            "SELECT ",
            columns!(),
            " FROM audit WHERE at >= ?1 ORDER BY at, id LIMIT ?2"
        ),
        &[since.micros().into(), i64::from(limit).into()],
        AuditEntry::from_row,
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
