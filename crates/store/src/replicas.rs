//! Replicas: the live processes on this database.
//!
//! Each publishes fingerprints of the settings that must agree, and its route states.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::statement::sql;
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;

/// A process that was silent for this long counts as gone.
const REPLICA_TIMEOUT: Duration = Duration::from_mins(1);

/// What a process publishes, by name: values or fingerprints of the settings that must agree, its
/// version, and its route states (`routes`).
pub type ReplicaMarks = BTreeMap<String, String>;

/// Records that this process runs. Returns the data of the other running processes.
pub fn check_in(
    conn: &mut Conn<'_>,
    name: &str,
    marks: &ReplicaMarks,
    now: Timestamp,
) -> Result<Vec<ReplicaMarks>, StoreError> {
    upsert(conn, name, marks, now)?;
    let oldest_alive = now.minus(REPLICA_TIMEOUT).micros();
    sql!(
        "DELETE FROM replicas WHERE seen_at < :oldest_alive",
        oldest_alive
    )
    .execute(conn)?;
    sql!("SELECT marks FROM replicas WHERE name <> :name", name).values(conn)
}

/// Records that this process runs, as the only one.
pub fn check_in_alone(
    conn: &mut Conn<'_>,
    name: &str,
    marks: &ReplicaMarks,
    now: Timestamp,
) -> Result<(), StoreError> {
    sql!("DELETE FROM replicas WHERE name <> :name", name).execute(conn)?;
    upsert(conn, name, marks, now)
}

/// The data of the other running processes, by their names.
pub fn other_replicas(
    conn: &mut Conn<'_>,
    name: &str,
    now: Timestamp,
) -> Result<Vec<(String, ReplicaMarks)>, StoreError> {
    sql!(
        "SELECT name, marks FROM replicas WHERE name <> :name AND seen_at >= :now",
        name,
        now = now.minus(REPLICA_TIMEOUT)
    )
    .all(conn, |row| Ok((row.field("name")?, row.field("marks")?)))
}

fn upsert(
    conn: &mut Conn<'_>,
    name: &str,
    marks: &ReplicaMarks,
    now: Timestamp,
) -> Result<(), StoreError> {
    let text = serde_json::to_string(marks).unwrap_or_default();
    sql!(
        "INSERT INTO replicas (name, seen_at, marks) VALUES (:name, :now, :text)
         ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at, marks = excluded.marks",
        name,
        now,
        text = &text
    )
    .execute(conn)?;
    Ok(())
}

/// Removes the row of this process, which is stopping.
pub fn leave(conn: &mut Conn<'_>, name: &str) -> Result<(), StoreError> {
    sql!("DELETE FROM replicas WHERE name = :name", name).execute(conn)?;
    Ok(())
}
