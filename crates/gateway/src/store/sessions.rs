//! Sessions: who is signed in by a cookie, with the rights of which key.

use crate::clock::Timestamp;
use crate::ids::KeyId;
use crate::model::account::Caller;
use crate::store::{Conn, StoreError, keys};

pub fn insert(
    conn: &mut Conn<'_>,
    sha256: &str,
    key: KeyId,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<(), StoreError> {
    conn.execute(
        "INSERT INTO sessions (sha256, key_id, created_at, expires_at) VALUES (?1, ?2, ?3, ?4)",
        &[
            sha256.into(),
            (&key.to_string()).into(),
            now.micros().into(),
            expires_at.micros().into(),
        ],
    )?;
    Ok(())
}

/// Sessions of a key.
pub fn count(conn: &mut Conn<'_>, key: KeyId) -> Result<i64, StoreError> {
    let count = conn.one(
        "SELECT COUNT(*) FROM sessions WHERE key_id = ?1",
        &[(&key.to_string()).into()],
        |row| row.int(0),
    )?;
    Ok(count.unwrap_or(0))
}

/// The caller with this session.
pub fn caller(conn: &mut Conn<'_>, sha256: &str) -> Result<Option<Caller>, StoreError> {
    let found = conn.one(
        "SELECT key_id, expires_at FROM sessions WHERE sha256 = ?1",
        &[sha256.into()],
        |row| {
            let expires_at = Timestamp::from_micros(row.int(1)?);
            Ok((row.parse::<KeyId>(0, "sessions.key_id")?, expires_at))
        },
    )?;
    let Some((key, expires_at)) = found else {
        return Ok(None);
    };
    let caller = keys::caller_by_id(conn, key)?;
    Ok(caller.map(|caller| Caller {
        ends_at: Some(expires_at),
        ..caller
    }))
}

pub fn delete(conn: &mut Conn<'_>, sha256: &str) -> Result<(), StoreError> {
    conn.execute("DELETE FROM sessions WHERE sha256 = ?1", &[sha256.into()])?;
    Ok(())
}

/// Ends all sessions of a key.
pub fn delete_of_key(conn: &mut Conn<'_>, key: KeyId) -> Result<(), StoreError> {
    conn.execute(
        "DELETE FROM sessions WHERE key_id = ?1",
        &[(&key.to_string()).into()],
    )?;
    Ok(())
}

/// Forgets sessions that have ended.
pub fn forget_before(conn: &mut Conn<'_>, now: Timestamp) -> Result<(), StoreError> {
    conn.execute(
        "DELETE FROM sessions WHERE expires_at <= ?1",
        &[now.micros().into()],
    )?;
    Ok(())
}
