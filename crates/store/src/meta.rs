//! Named values about the database as a whole.

use std::fmt::Display;
use std::str::FromStr;

use crate::statement::sql;
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;

/// The value with this name, if it is set.
pub fn get<T: FromStr>(conn: &mut Conn<'_>, name: &str) -> Result<Option<T>, StoreError> {
    let stored = sql!("SELECT value FROM meta WHERE name = :name", name).value::<String>(conn)?;
    let parse = |value: String| {
        let parsed = value.parse();
        parsed.map_err(|_| StoreError::Unreadable {
            column: "meta.value",
            value,
        })
    };
    stored.map(parse).transpose()
}

/// Sets a value, replacing any old one.
pub fn set(conn: &mut Conn<'_>, name: &str, value: impl Display) -> Result<(), StoreError> {
    let value = value.to_string();
    sql!(
        "INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        name,
        value = &value
    )
    .execute(conn)?;
    Ok(())
}

/// The steady time, as recorded by the last upkeep:
/// [`Clock::steady`](mediagate_model::clock::Clock::steady).
pub fn steady(conn: &mut Conn<'_>) -> Result<Option<Timestamp>, StoreError> {
    Ok(get(conn, STEADY)?.map(Timestamp::from_micros))
}

/// Records the steady time.
pub fn advance_steady(conn: &mut Conn<'_>, steady: Timestamp) -> Result<(), StoreError> {
    let recorded = self::steady(conn)?;
    // Only forward: a process whose clock is behind must not set it back.
    if recorded.is_none_or(|recorded| recorded < steady) {
        set(conn, STEADY, steady.micros())?;
    }
    Ok(())
}

const STEADY: &str = "steady";

/// The value with this name; sets it to `fresh` if it is not set.
pub(super) fn get_or_set(
    conn: &mut Conn<'_>,
    name: &str,
    fresh: String,
) -> Result<String, StoreError> {
    // Inserted and read back, so that processes that start together use the same value.
    sql!(
        "INSERT INTO meta (name, value) VALUES (:name, :fresh) ON CONFLICT (name) DO NOTHING",
        name,
        fresh = &fresh
    )
    .execute(conn)?;
    Ok(get(conn, name)?.unwrap_or(fresh))
}
