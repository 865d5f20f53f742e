//! Which processes are there, and what each of them has for the settings that must agree.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::store::{Conn, StoreError};

/// Without a word for so long a process is gone.
const GONE: Duration = Duration::from_mins(1);

/// Fingerprints by the settings' names.
pub type Marks = BTreeMap<String, String>;

/// Notes that this process is there. Returns what the others have that are.
pub fn meet(
    conn: &mut Conn<'_>,
    name: &str,
    marks: &Marks,
    now: Timestamp,
) -> Result<Vec<Marks>, StoreError> {
    let text = serde_json::to_string(marks).unwrap_or_default();
    conn.execute(
        "INSERT INTO replicas (name, seen_at, marks) VALUES (?1, ?2, ?3)
         ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at, marks = excluded.marks",
        &[name.into(), now.micros().into(), (&text).into()],
    )?;
    let gone = now.minus(GONE).micros();
    conn.execute("DELETE FROM replicas WHERE seen_at < ?1", &[gone.into()])?;
    conn.all(
        "SELECT marks FROM replicas WHERE name <> ?1",
        &[name.into()],
        |row| row.json(0, "replicas.marks"),
    )
}

/// This process is going.
pub fn leave(conn: &mut Conn<'_>, name: &str) -> Result<(), StoreError> {
    conn.execute("DELETE FROM replicas WHERE name = ?1", &[name.into()])?;
    Ok(())
}
