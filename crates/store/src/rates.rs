//! Rate limits of API keys in requests a minute, shared by all processes on one database.
//!
//! A key's state is one number, the theoretical arrival time (`tat`) of the generic cell rate
//! algorithm. One statement grants a process several requests at once.

use std::time::Duration;

use crate::statement::dialect_sql;
use crate::{Conn, StoreError};
use mediagate_model::ids::KeyId;

const MINUTE_NANOS: i64 = 60_000_000_000;

/// The rate limit for a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateRule {
    /// Requests a minute, all of which may be sent at once. At least 1.
    pub rpm: u32,
    /// Maximum number of requests to grant.
    pub most: u32,
}

/// The result of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateGrant {
    /// The requests that were granted; 0 if none were left.
    pub granted: u32,
    /// Requests left after the grant.
    pub left: u32,
    /// If none are left: the wait until the next one.
    pub wait: Duration,
}

/// The grant as one SQL text; `now` is the time in nanoseconds, `max` and `min` name functions of
/// two arguments. The inserted `tat` is `now` plus the whole grant, so `now` can be computed from
/// it. When little is left, grants get smaller, so that no process keeps requests that another
/// needs.
macro_rules! grant {
    ($now:literal, $max:literal, $min:literal) => {
        concat!(
            "INSERT INTO rate_grants (key_id, tat, granted) VALUES (:key, ", $now, " + CAST(:max_grant
             AS BIGINT) * CAST(:interval AS BIGINT), CAST(:max_grant AS BIGINT))
             ON CONFLICT (key_id) DO UPDATE SET
               granted = ", grant!(@granted $max, $min), ",
               tat = ", $max, "(rate_grants.tat, excluded.tat - CAST(:max_grant AS BIGINT) * CAST(:interval AS BIGINT)) + CAST(:interval AS BIGINT) * ", grant!(@granted $max, $min), "
             RETURNING granted, tat - ", $now, " AS reserved_ahead"
        )
    };
    (@granted $max:literal, $min:literal) => {
        concat!(
            $min, "(CAST(:max_grant AS BIGINT), ", $min, "(", grant!(@available $max), ", ", $max, "(1, ", grant!(@available $max), " / 8)))"
        )
    };
    (@available $max:literal) => {
        concat!(
            $max, "(0, (excluded.tat - CAST(:max_grant AS BIGINT) * CAST(:interval AS BIGINT) + CAST(:window
            AS BIGINT) - ", $max, "(rate_grants.tat, excluded.tat - CAST(:max_grant AS BIGINT) * CAST(:interval AS BIGINT))) / CAST(:interval AS BIGINT))"
        )
    };
}

/// Grants a key up to `rule.most` requests. `now` is in nanoseconds; if `None`, the database's
/// clock is used.
pub fn grant(
    conn: &mut Conn<'_>,
    key: KeyId,
    rule: RateRule,
    now: Option<i64>,
) -> Result<RateGrant, StoreError> {
    // In Postgres `now()` would be the start of the transaction.
    let max_grant = i64::from(rule.most.clamp(1, rule.rpm));
    // Rounded up, so that the limit is never exceeded.
    let interval = (MINUTE_NANOS + i64::from(rule.rpm) - 1) / i64::from(rule.rpm);
    let window = interval * i64::from(rule.rpm);
    let row = dialect_sql!(
        conn,
        grant!(
            "COALESCE(:now, CAST(unixepoch('subsec') * 1000000 AS INTEGER) * 1000)",
            "MAX",
            "MIN"
        ),
        grant!(
            "COALESCE(CAST(:now AS BIGINT), CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000
             AS BIGINT) * 1000)",
            "GREATEST",
            "LEAST"
        ),
        key,
        max_grant,
        interval,
        window,
        now
    )
    .one(conn, |row| {
        Ok((
            row.field::<i64>("granted")?,
            row.field::<i64>("reserved_ahead")?,
        ))
    })?;
    let (granted, reserved_ahead) = row.unwrap_or((0, window));
    // `reserved_ahead` is how far the granted requests reach into the future if they are spread
    // evenly. They may reach a minute ahead, which is `window`.
    let requests_left = (window - reserved_ahead).max(0) / interval;
    let wait = if requests_left > 0 {
        0
    } else {
        reserved_ahead + interval - window
    };
    Ok(RateGrant {
        granted: u32::try_from(granted).unwrap_or(0),
        left: u32::try_from(requests_left).unwrap_or(0),
        wait: Duration::from_nanos(u64::try_from(wait).unwrap_or(0)),
    })
}
