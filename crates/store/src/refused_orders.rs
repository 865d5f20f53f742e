//! Counts of refused orders: how many requests with the same body were refused, so that each may
//! make something when it is sent again.
//!
//! `core/intents` has the rule: the number of results equals the number of orders.

use std::time::Duration;

use crate::intents::fingerprint_hash;
use crate::statement::sql;
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::intent::{RefusedOrders, RequestFingerprint};

/// How long an unmatched retry is remembered: as long as another process may take to report the
/// refusal that caused the retry.
const MAX_REPORT_DELAY: Duration = Duration::from_mins(10);

/// Adds refused orders. Refusals from before the last unmatched retry are not counted: they were
/// reported late and belong to that retry.
pub fn add(conn: &mut Conn<'_>, new: &RefusedOrders, now: Timestamp) -> Result<(), StoreError> {
    if new.count == 0 {
        return extend_expectation(conn, new);
    }
    sql!(
        "INSERT INTO refused_orders (body, owed, until_at, made_up_at) VALUES (:hash, :count, :until, 0)
         ON CONFLICT (body) DO UPDATE SET
             owed = CASE WHEN refused_orders.until_at > :now THEN refused_orders.owed ELSE 0 END
                  + CASE WHEN refused_orders.made_up_at < :since THEN excluded.owed ELSE 0 END,
             until_at = CASE WHEN refused_orders.until_at > excluded.until_at
                  THEN refused_orders.until_at ELSE excluded.until_at END",
        hash = fingerprint_hash(&new.body),
        count = new.count,
        until = new.until,
        since = new.since,
        now
    )
    .execute(conn)?;
    Ok(())
}

/// Records that a retry was refused again: the next retry is expected for longer.
fn extend_expectation(conn: &mut Conn<'_>, refused: &RefusedOrders) -> Result<(), StoreError> {
    sql!(
        "UPDATE refused_orders SET until_at = :until WHERE body = :hash AND owed > 0 AND until_at < :until",
        hash = fingerprint_hash(&refused.body),
        until = refused.until
    )
    .execute(conn)?;
    Ok(())
}

/// Whether a retry of a refused order with this body is still expected.
pub fn any(
    conn: &mut Conn<'_>,
    body: &RequestFingerprint,
    now: Timestamp,
) -> Result<bool, StoreError> {
    sql!(
        "SELECT owed FROM refused_orders WHERE body = :hash AND owed > 0 AND until_at > :now",
        hash = fingerprint_hash(body),
        now
    )
    .exists(conn)
}

/// Uses up one refusal for a retry that makes something. Returns whether there was one.
pub fn take(
    conn: &mut Conn<'_>,
    body: &RequestFingerprint,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE refused_orders SET owed = owed - 1 WHERE body = :hash AND owed > 0 AND until_at > :now",
        hash = fingerprint_hash(body),
        now
    )
    .execute(conn)?;
    Ok(changed == 1)
}

/// Records an unmatched retry: it makes something although no refusal is known and there is nothing
/// to join. A refusal from before `now` that is reported later belongs to it.
pub fn note_unmatched_retry(
    conn: &mut Conn<'_>,
    body: &RequestFingerprint,
    now: Timestamp,
) -> Result<(), StoreError> {
    sql!(
        "INSERT INTO refused_orders (body, owed, until_at, made_up_at) VALUES (:hash, 0, 0, :now)
         ON CONFLICT (body) DO UPDATE SET made_up_at = excluded.made_up_at",
        hash = fingerprint_hash(body),
        now
    )
    .execute(conn)?;
    Ok(())
}

/// Deletes counts that nothing depends on any more.
pub fn forget(conn: &mut Conn<'_>, now: Timestamp) -> Result<u64, StoreError> {
    sql!(
        "DELETE FROM refused_orders WHERE until_at <= :now AND made_up_at <= :made_before",
        now,
        made_before = now.minus(MAX_REPORT_DELAY)
    )
    .execute(conn)
}
