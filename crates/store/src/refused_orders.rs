//! Counts of refused orders: how many requests with the same body were refused, so that each may
//! make something when it is sent again.
//!
//! `core/intents` has the rule: the number of results equals the number of orders.

use std::time::Duration;

use crate::intents::fingerprint_hash;
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
    conn.execute(
        "INSERT INTO refused_orders (body, owed, until_at, made_up_at) VALUES (?1, ?2, ?3, 0)
         ON CONFLICT (body) DO UPDATE SET
             owed = CASE WHEN refused_orders.until_at > ?5 THEN refused_orders.owed ELSE 0 END
                  + CASE WHEN refused_orders.made_up_at < ?4 THEN excluded.owed ELSE 0 END,
             until_at = CASE WHEN refused_orders.until_at > excluded.until_at
                  THEN refused_orders.until_at ELSE excluded.until_at END",
        &[
            fingerprint_hash(&new.body).into(),
            i64::from(new.count).into(),
            new.until.micros().into(),
            new.since.micros().into(),
            now.micros().into(),
        ],
    )?;
    Ok(())
}

/// Records that a retry was refused again: the next retry is expected for longer.
fn extend_expectation(conn: &mut Conn<'_>, refused: &RefusedOrders) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE refused_orders SET until_at = ?2 WHERE body = ?1 AND owed > 0 AND until_at < ?2",
        &[
            fingerprint_hash(&refused.body).into(),
            refused.until.micros().into(),
        ],
    )?;
    Ok(())
}

/// Whether a retry of a refused order with this body is still expected.
pub fn any(
    conn: &mut Conn<'_>,
    body: &RequestFingerprint,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let found = conn.one(
        "SELECT owed FROM refused_orders WHERE body = ?1 AND owed > 0 AND until_at > ?2",
        &[fingerprint_hash(body).into(), now.micros().into()],
        |row| row.int(0),
    )?;
    Ok(found.is_some())
}

/// Uses up one refusal for a retry that makes something. Returns whether there was one.
pub fn take(
    conn: &mut Conn<'_>,
    body: &RequestFingerprint,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let changed = conn.execute(
        "UPDATE refused_orders SET owed = owed - 1 WHERE body = ?1 AND owed > 0 AND until_at > ?2",
        &[fingerprint_hash(body).into(), now.micros().into()],
    )?;
    Ok(changed == 1)
}

/// Records an unmatched retry: it makes something although no refusal is known and there is nothing
/// to join. A refusal from before `now` that is reported later belongs to it.
pub fn note_unmatched_retry(
    conn: &mut Conn<'_>,
    body: &RequestFingerprint,
    now: Timestamp,
) -> Result<(), StoreError> {
    conn.execute(
        "INSERT INTO refused_orders (body, owed, until_at, made_up_at) VALUES (?1, 0, 0, ?2)
         ON CONFLICT (body) DO UPDATE SET made_up_at = excluded.made_up_at",
        &[fingerprint_hash(body).into(), now.micros().into()],
    )?;
    Ok(())
}

/// Deletes counts that nothing depends on any more.
pub fn forget(conn: &mut Conn<'_>, now: Timestamp) -> Result<u64, StoreError> {
    conn.execute(
        "DELETE FROM refused_orders WHERE until_at <= ?1 AND made_up_at <= ?2",
        &[
            now.micros().into(),
            now.minus(MAX_REPORT_DELAY).micros().into(),
        ],
    )
}
