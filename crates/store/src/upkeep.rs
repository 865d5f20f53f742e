//! Leases for upkeep that one process of a cluster does at a time: each kind has a due time by the
//! database's clock.

use std::time::Duration;

use crate::statement::{dialect_sql, sql};
use crate::{Conn, StoreError};

/// The furthest that any upkeep can be due in the future. A later due time was written before the
/// clock was set back.
const MAX_LEAD_MICROS: i64 = 7 * 86_400_000_000;

/// The right to do one kind of upkeep, until a time by the database's clock.
#[derive(Debug, Clone, Copy)]
pub struct UpkeepLease {
    kind: &'static str,
    until: i64,
}

/// Acquires the lease for this kind of upkeep if it is due and no other process has it. The upkeep
/// becomes due for others after `lease`, unless the lease is extended or finished before.
pub fn acquire(
    conn: &mut Conn<'_>,
    kind: &'static str,
    lease: Duration,
) -> Result<Option<UpkeepLease>, StoreError> {
    let now = now(conn)?;
    let until = now.saturating_add(micros(lease));
    let due_at = sql!("SELECT due_at FROM upkeep WHERE kind = :kind", kind).value::<i64>(conn)?;
    let changed = match due_at {
        // Read first, so that idle processes do not write.
        Some(due_at) if due_at > now && due_at < now.saturating_add(MAX_LEAD_MICROS) => 0,
        // Compare-and-set: if several processes find it due, only one gets the lease.
        Some(due_at) => sql!(
            "UPDATE upkeep SET due_at = :until WHERE kind = :kind AND due_at = :due_at",
            kind,
            due_at,
            until
        )
        .execute(conn)?,
        None => sql!(
            "INSERT INTO upkeep (kind, due_at) VALUES (:kind, :until) ON CONFLICT (kind) DO NOTHING",
            kind,
            until
        )
        .execute(conn)?,
    };
    Ok((changed == 1).then_some(UpkeepLease { kind, until }))
}

/// Makes the kind due again after `pause`: to extend the lease, or because the work is done.
/// Returns the lease unless another process has acquired it.
pub fn postpone(
    conn: &mut Conn<'_>,
    lease: &UpkeepLease,
    pause: Duration,
) -> Result<Option<UpkeepLease>, StoreError> {
    let until = now(conn)?.saturating_add(micros(pause));
    let changed = sql!(
        "UPDATE upkeep SET due_at = :next WHERE kind = :kind AND due_at = :until",
        kind = lease.kind,
        until = lease.until,
        next = until
    )
    .execute(conn)?;
    let kind = lease.kind;
    Ok((changed == 1).then_some(UpkeepLease { kind, until }))
}

fn now(conn: &mut Conn<'_>) -> Result<i64, StoreError> {
    // All machines compare due times, so these use the database's clock.
    Ok(dialect_sql!(
        conn,
        "SELECT CAST(unixepoch('subsec') * 1000000 AS BIGINT)",
        "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"
    )
    .value::<i64>(conn)?
    .unwrap_or_default())
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
