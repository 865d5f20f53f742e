//! Who holds tasks: one row for each worker process, prolonged by its
//! heartbeat. A task's `lease_owner` holds it exactly as long as that row is
//! current.

use crate::clock::Timestamp;
use crate::store::{Conn, StoreError};

/// Enters a worker.
pub fn enter(conn: &mut Conn<'_>, name: &str, until: Timestamp) -> Result<(), StoreError> {
    conn.execute(
        "INSERT INTO workers (name, held_until) VALUES (?1, ?2)
         ON CONFLICT (name) DO UPDATE SET held_until = excluded.held_until",
        &[name.into(), until.micros().into()],
    )?;
    Ok(())
}

/// Prolongs a worker's leases. Returns false when they were taken from it.
pub fn prolong(conn: &mut Conn<'_>, name: &str, until: Timestamp) -> Result<bool, StoreError> {
    let changed = conn.execute(
        "UPDATE workers SET held_until = ?2 WHERE name = ?1",
        &[name.into(), until.micros().into()],
    )?;
    Ok(changed == 1)
}

/// Until when a worker's time is, without another heartbeat.
pub fn held_until(conn: &mut Conn<'_>, name: &str) -> Result<Option<Timestamp>, StoreError> {
    conn.one(
        "SELECT held_until FROM workers WHERE name = ?1",
        &[name.into()],
        |row| row.int(0).map(Timestamp::from_micros),
    )
}

/// Whether tasks are held by workers whose time is over.
pub fn any_lapsed(conn: &mut Conn<'_>, now: Timestamp) -> Result<bool, StoreError> {
    let found = conn.one(
        "SELECT CAST(1 AS BIGINT) FROM (SELECT DISTINCT lease_owner FROM tasks WHERE lease_owner IS NOT NULL) AS holders
         WHERE NOT EXISTS (SELECT 1 FROM workers WHERE name = lease_owner AND held_until > ?1) LIMIT 1",
        &[now.micros().into()],
        |row| row.int(0),
    )?;
    Ok(found.is_some())
}

/// Removes the workers whose time is over and frees their tasks. Returns how
/// many tasks that were.
pub fn free_lapsed(conn: &mut Conn<'_>, now: Timestamp) -> Result<u64, StoreError> {
    conn.execute(
        "DELETE FROM workers WHERE held_until <= ?1",
        &[now.micros().into()],
    )?;
    conn.execute(
        "UPDATE tasks SET lease_owner = NULL WHERE lease_owner IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM workers WHERE name = lease_owner)",
        &[],
    )
}

/// Removes a worker that ends in good order; its tasks are free at once.
pub fn leave(conn: &mut Conn<'_>, name: &str) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE tasks SET lease_owner = NULL WHERE lease_owner = ?1",
        &[name.into()],
    )?;
    conn.execute("DELETE FROM workers WHERE name = ?1", &[name.into()])?;
    Ok(())
}
