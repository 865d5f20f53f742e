//! The audit log: entries are only added, in the transaction of what they tell of.

use serde_json::Value as Json;

use crate::conn::to_json;
use crate::{Conn, Row, StoreError};
use mediagate_model::audit::{Actor, AuditEntry};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::AuditId;

pub fn insert(conn: &mut Conn<'_>, entry: &AuditEntry) -> Result<(), StoreError> {
    let json = |value: &Option<Json>| value.as_ref().map(to_json).transpose();
    let (before, after) = (json(&entry.before)?, json(&entry.after)?);
    conn.execute(
        "INSERT INTO audit (id, at, actor_kind, actor_id, actor_name, action, target, before, after, request_id, address)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        &[
            (&entry.id.to_string()).into(),
            entry.at.micros().into(),
            entry.actor.kind.name().into(),
            entry.actor.id.as_ref().into(),
            (&entry.actor.name).into(),
            (&entry.action).into(),
            (&entry.target).into(),
            before.as_ref().into(),
            after.as_ref().into(),
            entry.request_id.as_ref().into(),
            entry.address.as_ref().into(),
        ],
    )?;
    Ok(())
}

/// Which entries to list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
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
            "SELECT id, at, actor_kind, actor_id, actor_name, action, target, before, after, request_id, address
             FROM audit WHERE (at, id) < (?1, ?2) AND at >= ?3 AND (CAST(?4 AS TEXT) IS NULL OR action = ?4)
             AND (CAST(?5 AS TEXT) IS NULL OR actor_id = ?5 OR actor_name = ?5 OR actor_kind = ?5) ",
            $rest,
            " ORDER BY at DESC, id DESC LIMIT ?6"
        )
    };
}

/// At most `limit` entries before this one, its time and id, newest first.
pub fn newest(
    conn: &mut Conn<'_>,
    filter: &Filter,
    before: Option<(Timestamp, AuditId)>,
    limit: u32,
) -> Result<Vec<AuditEntry>, StoreError> {
    let until = filter.until.map_or(i64::MAX, Timestamp::micros);
    // Every id sorts after "".
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
    conn.all(sql, &values, entry)
}

/// At most `limit` entries that were written at `since` or later, the oldest first.
pub fn oldest(
    conn: &mut Conn<'_>,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<AuditEntry>, StoreError> {
    conn.all(
        "SELECT id, at, actor_kind, actor_id, actor_name, action, target, before, after, request_id, address
         FROM audit WHERE at >= ?1 ORDER BY at, id LIMIT ?2",
        &[since.micros().into(), i64::from(limit).into()],
        entry,
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

fn entry(row: &Row<'_>) -> Result<AuditEntry, StoreError> {
    let json = |at, column| {
        let text = row.text_or_null(at)?;
        text.map(|_| row.json(at, column)).transpose()
    };
    Ok(AuditEntry {
        id: row.parse(0, "audit.id")?,
        at: Timestamp::from_micros(row.int(1)?),
        actor: Actor {
            kind: row.parse(2, "audit.actor_kind")?,
            id: row.text_or_null(3)?,
            name: row.text(4)?,
        },
        action: row.text(5)?,
        target: row.text(6)?,
        before: json(7, "audit.before")?,
        after: json(8, "audit.after")?,
        request_id: row.text_or_null(9)?,
        address: row.text_or_null(10)?,
    })
}
