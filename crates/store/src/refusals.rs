//! Refused attempts: requests that were refused before anything was made, kept until their retries arrive.

use crate::intents::lookup;
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::intent::{RefusedAttempts, RequestFingerprint};

/// Records refused attempts.
pub fn add(conn: &mut Conn<'_>, new: &RefusedAttempts, now: Timestamp) -> Result<(), StoreError> {
    conn.execute(
        "INSERT INTO refusals (body, tries, refused, refused_at, until_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (body, tries) DO UPDATE SET
             refused = CASE WHEN refusals.until_at > ?6 THEN refusals.refused ELSE 0 END + excluded.refused,
             refused_at = CASE WHEN refusals.until_at > ?6 AND refusals.refused > 0 AND refusals.refused_at < excluded.refused_at
                 THEN refusals.refused_at ELSE excluded.refused_at END,
             until_at = CASE WHEN refusals.until_at > excluded.until_at THEN refusals.until_at ELSE excluded.until_at END",
        &[
            lookup(&new.body).into(),
            i64::from(new.tries).into(),
            i64::from(new.count).into(),
            new.since.micros().into(),
            new.until.micros().into(),
            now.micros().into(),
        ],
    )?;
    Ok(())
}

/// The latest refused attempt with this body that had at most `tries` attempts before it: how many
/// it had, and when it was refused.
pub fn find(
    conn: &mut Conn<'_>,
    body: &RequestFingerprint,
    tries: u32,
    now: Timestamp,
) -> Result<Option<(i64, Timestamp)>, StoreError> {
    conn.one(
        "SELECT tries, refused_at FROM refusals WHERE body = ?1 AND tries <= ?2 AND refused > 0 AND until_at > ?3 ORDER BY tries DESC LIMIT 1",
        &[
            lookup(body).into(),
            i64::from(tries).into(),
            now.micros().into(),
        ],
        |row| Ok((row.int(0)?, Timestamp::from_micros(row.int(1)?))),
    )
}

/// Takes one for its retry. Returns whether it was still there.
pub fn take(
    conn: &mut Conn<'_>,
    body: &RequestFingerprint,
    tries: i64,
) -> Result<bool, StoreError> {
    let changed = conn.execute(
        "UPDATE refusals SET refused = refused - 1 WHERE body = ?1 AND tries = ?2 AND refused > 0",
        &[lookup(body).into(), tries.into()],
    )?;
    Ok(changed == 1)
}

/// Deletes those whose retries are no longer expected.
pub fn forget(conn: &mut Conn<'_>, now: Timestamp) -> Result<u64, StoreError> {
    conn.execute(
        "DELETE FROM refusals WHERE until_at <= ?1",
        &[now.micros().into()],
    )
}
