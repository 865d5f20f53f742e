//! Login sessions: cookies, each with the rights of an API key.

use crate::columns::insert;
use crate::statement::sql;
use crate::{Conn, StoreError, account_row, keys};
use mediagate_model::account::{ApiKey, Caller, CallerCredential};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::KeyId;

/// Adds a session, valid as long as the key keeps its present secret.
pub fn insert(
    conn: &mut Conn<'_>,
    sha256: &str,
    key: &ApiKey,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<(), StoreError> {
    insert!(conn, "sessions" {
        "sha256": sha256,
        "key_id": key.id,
        "created_at": now,
        "expires_at": expires_at,
        "secret_sha256": key.sha256,
    })?;
    Ok(())
}

/// Sessions of a key that have not expired.
pub fn count(conn: &mut Conn<'_>, key: KeyId, now: Timestamp) -> Result<i64, StoreError> {
    let count = sql!(
        "SELECT COUNT(*) FROM sessions WHERE key_id = :key AND expires_at > :now",
        key,
        now
    )
    .value::<i64>(conn)?;
    Ok(count.unwrap_or(0))
}

/// The caller with this session; `None` if the key's secret was replaced since the session began.
pub fn caller(conn: &mut Conn<'_>, sha256: &str) -> Result<Option<Caller>, StoreError> {
    let session = sql!(
        "SELECT key_id, expires_at, secret_sha256 FROM sessions WHERE sha256 = :sha256",
        sha256
    )
    .one(conn, |row| {
        let key = row.field::<KeyId>("key_id")?;
        let until = row.field::<Timestamp>("expires_at")?;
        Ok((key, until, row.field::<String>("secret_sha256")?))
    })?;
    let Some((key, until, secret)) = session else {
        return Ok(None);
    };
    let Some(key) = keys::key_by_id(conn, key)? else {
        return Ok(None);
    };
    // The secret was replaced. Users who signed in with the old one must not stay signed in.
    if secret != key.sha256 {
        return Ok(None);
    }
    let account = account_row::account_and_is_limited(conn, key.account)?;
    Ok(account.map(|(account, account_is_limited)| Caller {
        key,
        account,
        account_is_limited,
        credential: CallerCredential::Session { until },
    }))
}

/// Ends a session. Returns whether there was one.
pub fn delete(conn: &mut Conn<'_>, sha256: &str) -> Result<bool, StoreError> {
    let deleted = sql!("DELETE FROM sessions WHERE sha256 = :sha256", sha256).execute(conn)?;
    Ok(deleted > 0)
}

/// Ends the oldest sessions of a key. Returns their hashes.
pub fn delete_oldest(
    conn: &mut Conn<'_>,
    key: KeyId,
    count: i64,
) -> Result<Vec<String>, StoreError> {
    sql!(
        "DELETE FROM sessions WHERE sha256 IN
             (SELECT sha256 FROM sessions WHERE key_id = :key ORDER BY created_at, sha256 LIMIT :count)
             RETURNING sha256",
        key,
        count
    )
    .values::<String>(conn)
}

/// Ends all sessions of a key.
pub fn delete_of_key(conn: &mut Conn<'_>, key: KeyId) -> Result<(), StoreError> {
    sql!("DELETE FROM sessions WHERE key_id = :key", key).execute(conn)?;
    Ok(())
}

/// Deletes expired sessions.
pub fn forget_before(conn: &mut Conn<'_>, now: Timestamp) -> Result<(), StoreError> {
    sql!("DELETE FROM sessions WHERE expires_at <= :now", now).execute(conn)?;
    Ok(())
}
