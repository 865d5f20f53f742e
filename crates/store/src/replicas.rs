//! Replicas: the live processes on this database.
//!
//! Each says what it has for the settings that must agree, and how it
//! stands to the routes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;

/// Without a word for so long a process is gone.
const REPLICA_TIMEOUT: Duration = Duration::from_mins(1);

/// What a process says of itself: fingerprints by the settings' names, and `routes`.
pub type ReplicaMarks = BTreeMap<String, String>;

/// Notes that this process is there. Returns what the others have that are.
pub fn check_in(
    conn: &mut Conn<'_>,
    name: &str,
    marks: &ReplicaMarks,
    now: Timestamp,
) -> Result<Vec<ReplicaMarks>, StoreError> {
    note(conn, name, marks, now)?;
    let gone = now.minus(REPLICA_TIMEOUT).micros();
    conn.execute("DELETE FROM replicas WHERE seen_at < ?1", &[gone.into()])?;
    conn.all(
        "SELECT marks FROM replicas WHERE name <> ?1",
        &[name.into()],
        |row| row.json(0, "replicas.marks"),
    )
}

/// Notes that this process is there, and that no other is.
pub fn check_in_alone(
    conn: &mut Conn<'_>,
    name: &str,
    marks: &ReplicaMarks,
    now: Timestamp,
) -> Result<(), StoreError> {
    conn.execute("DELETE FROM replicas WHERE name <> ?1", &[name.into()])?;
    note(conn, name, marks, now)
}

/// What the others say that are there, by their names.
pub fn other_replicas(
    conn: &mut Conn<'_>,
    name: &str,
    now: Timestamp,
) -> Result<Vec<(String, ReplicaMarks)>, StoreError> {
    conn.all(
        "SELECT name, marks FROM replicas WHERE name <> ?1 AND seen_at >= ?2",
        &[name.into(), now.minus(REPLICA_TIMEOUT).micros().into()],
        |row| Ok((row.text(0)?, row.json(1, "replicas.marks")?)),
    )
}

fn note(
    conn: &mut Conn<'_>,
    name: &str,
    marks: &ReplicaMarks,
    now: Timestamp,
) -> Result<(), StoreError> {
    let text = serde_json::to_string(marks).unwrap_or_default();
    conn.execute(
        "INSERT INTO replicas (name, seen_at, marks) VALUES (?1, ?2, ?3)
         ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at, marks = excluded.marks",
        &[name.into(), now.micros().into(), (&text).into()],
    )?;
    Ok(())
}

/// This process is going.
pub fn leave(conn: &mut Conn<'_>, name: &str) -> Result<(), StoreError> {
    conn.execute("DELETE FROM replicas WHERE name = ?1", &[name.into()])?;
    Ok(())
}
