//! Records of stored files; the bytes are in `blob`.

use crate::columns::{TableRecord as _, insert, record};
use crate::statement::{dialect_sql, sql};
use crate::{Conn, StoreError, conn::to_json};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, AssetId};
use mediagate_model::media::Asset;

record! {
    columns for Asset of "assets" {
        id: "id",
        account: "account_id",
        media: "media",
        size_bytes: "size_bytes",
        sha256: "sha256",
        created_at: "created_at",
        expires_at: "expires_at",
        removed_at: "removed_at",
    }
}

/// Adds a file's record; the file is already stored.
pub fn insert(conn: &mut Conn<'_>, asset: &Asset) -> Result<(), StoreError> {
    insert!(conn, "assets" {
        "id": asset.id,
        "account_id": asset.account,
        "media": asset.media,
        "size_bytes": asset.size_bytes,
        "sha256": asset.sha256,
        "created_at": asset.created_at,
        "expires_at": asset.expires_at,
    })?;
    sql!(
        "INSERT INTO account_storage (account_id, size_bytes) VALUES (:account, :size_bytes)
         ON CONFLICT (account_id) DO UPDATE SET size_bytes = account_storage.size_bytes + excluded.size_bytes",
        account = asset.account,
        size_bytes = asset.size_bytes
    )
    .execute(conn)?;
    Ok(())
}

/// Bytes of files stored for an account.
pub fn stored_bytes(conn: &mut Conn<'_>, account: AccountId) -> Result<u64, StoreError> {
    let stored = sql!(
        "SELECT size_bytes FROM account_storage WHERE account_id = :account",
        account
    )
    .value::<i64>(conn)?;
    Ok(stored.map_or(0, |bytes| u64::try_from(bytes).unwrap_or(0)))
}

/// Bytes that an account's open tasks are expected to add.
pub fn expected_bytes(conn: &mut Conn<'_>, account: AccountId) -> Result<u64, StoreError> {
    let expected = sql!(
        "SELECT CAST(COALESCE(SUM(expected_bytes), 0) AS BIGINT) FROM tasks
         WHERE account_id = :account AND expected_bytes IS NOT NULL AND state IN ('queued', 'running')",
        account
    )
    .value::<i64>(conn)?;
    Ok(expected.map_or(0, |bytes| u64::try_from(bytes).unwrap_or(0)))
}

/// Makes other transactions that call this for the account wait until this one ends; they then see
/// what it wrote.
pub fn lock_storage(conn: &mut Conn<'_>, account: AccountId) -> Result<(), StoreError> {
    // There is only one SQLite writer. On Postgres it is the row that the ledger updates, so the
    // order of the locks is the same for free orders and for paid ones.
    dialect_sql!(
        conn,
        "SELECT CAST(1 AS BIGINT) FROM accounts WHERE id = :account",
        "SELECT CAST(1 AS BIGINT) FROM accounts WHERE id = :account FOR NO KEY UPDATE",
        account
    )
    .value::<i64>(conn)?;
    Ok(())
}

/// The file with this id, regardless of its owner: its signed URL is permission enough.
pub fn by_id(conn: &mut Conn<'_>, id: AssetId) -> Result<Option<Asset>, StoreError> {
    sql!(
        concat!("SELECT ", columns!(), " FROM assets WHERE id = :id"),
        id
    )
    .one(conn, Asset::from_row)
}

/// The file with this id, if it is the account's and was not removed.
pub fn by_owner(
    conn: &mut Conn<'_>,
    id: AssetId,
    account: AccountId,
) -> Result<Option<Asset>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM assets WHERE id = :id AND account_id = :account AND removed_at IS NULL"
        ),
        id,
        account
    )
    .one(conn, Asset::from_row)
}

/// At most 100 files that had expired at `now`, the longest expired first.
pub fn expired(conn: &mut Conn<'_>, now: Timestamp) -> Result<Vec<Asset>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM assets WHERE removed_at IS NULL AND expires_at IS NOT NULL AND expires_at <= :now
             ORDER BY expires_at LIMIT 100"
        ),
        now
    )
    .all(conn, Asset::from_row)
}

/// Which of these files have a record, even if they were removed.
pub fn existing_ids(conn: &mut Conn<'_>, ids: &[AssetId]) -> Result<Vec<AssetId>, StoreError> {
    // The inner CAST keeps the parameter a TEXT. A parameter of type JSON would be refused.
    let ids = json_ids(ids)?;
    let statement = dialect_sql!(
        conn,
        "SELECT id FROM assets WHERE id IN (SELECT value FROM json_each(:ids))",
        "SELECT id FROM assets
         WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(CAST(:ids AS TEXT) AS JSONB))))",
        ids,
    );
    statement.values(conn)
}

/// Which of these files were removed.
pub fn removed_ids(conn: &mut Conn<'_>, ids: &[AssetId]) -> Result<Vec<AssetId>, StoreError> {
    let ids = json_ids(ids)?;
    let statement = dialect_sql!(
        conn,
        "SELECT id FROM assets
         WHERE removed_at IS NOT NULL AND id IN (SELECT value FROM json_each(:ids))",
        "SELECT id FROM assets
         WHERE removed_at IS NOT NULL
           AND id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(CAST(:ids AS TEXT) AS JSONB))))",
        ids,
    );
    statement.values(conn)
}

fn json_ids(ids: &[AssetId]) -> Result<String, StoreError> {
    to_json(&ids.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// Records that the file was removed. It is deleted at `delete_at`, or earlier if its owner asked
/// for that.
pub fn mark_removed(
    conn: &mut Conn<'_>,
    id: AssetId,
    now: Timestamp,
    delete_at: Timestamp,
) -> Result<(), StoreError> {
    let removed = sql!(
        "UPDATE assets SET removed_at = :now, delete_at = COALESCE(delete_at, :delete_at) WHERE id = :id
         AND removed_at IS NULL",
        id,
        now,
        delete_at
    )
    .execute(conn)?;
    // Only the call that removed the file takes its size from the sum.
    if removed == 1 {
        sql!(
            "UPDATE account_storage SET size_bytes = size_bytes - (SELECT size_bytes FROM assets WHERE id = :id)
             WHERE account_id = (SELECT account_id FROM assets WHERE id = :id)",
            id
        )
        .execute(conn)?;
    }
    Ok(())
}

/// At most 100 removed files that are due to be deleted at `now`, the longest due first.
pub fn deletable(conn: &mut Conn<'_>, now: Timestamp) -> Result<Vec<Asset>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM assets WHERE removed_at IS NOT NULL AND delete_at IS NOT NULL AND delete_at <= :now
             ORDER BY delete_at LIMIT 100"
        ),
        now
    )
    .all(conn, Asset::from_row)
}

/// Records that the file of a removed asset was deleted.
pub fn mark_deleted(conn: &mut Conn<'_>, id: AssetId) -> Result<(), StoreError> {
    sql!(
        "UPDATE assets SET delete_at = NULL WHERE id = :id AND removed_at IS NOT NULL",
        id
    )
    .execute(conn)?;
    Ok(())
}

/// Whether there are files for [`restore_early`].
pub fn any_removed_early(conn: &mut Conn<'_>, now: Timestamp) -> Result<bool, StoreError> {
    sql!(
        "SELECT CAST(1 AS BIGINT) FROM assets
         WHERE removed_at IS NOT NULL AND delete_at IS NOT NULL AND expires_at > :now LIMIT 1",
        now
    )
    .exists(conn)
}

/// Brings back files that were removed by a clock that was ahead: they have not expired yet, and
/// are not deleted. Returns how many.
pub fn restore_early(conn: &mut Conn<'_>, now: Timestamp) -> Result<u64, StoreError> {
    // Summed up first: after the update these files cannot be distinguished from others.
    let early = sql!(
        "SELECT account_id, CAST(SUM(size_bytes) AS BIGINT) AS bytes FROM assets
         WHERE removed_at IS NOT NULL AND delete_at IS NOT NULL AND expires_at > :now GROUP BY account_id",
        now
    )
    .all(conn, |row| {
        Ok((row.field::<String>("account_id")?, row.field::<i64>("bytes")?))
    })?;
    for (account, bytes) in &early {
        sql!(
            "UPDATE account_storage SET size_bytes = size_bytes + :bytes WHERE account_id = :account",
            account,
            bytes = *bytes
        )
        .execute(conn)?;
    }
    if early.is_empty() {
        return Ok(0);
    }
    sql!(
        "UPDATE assets SET removed_at = NULL, delete_at = NULL
         WHERE removed_at IS NOT NULL AND delete_at IS NOT NULL AND expires_at > :now",
        now
    )
    .execute(conn)
}

/// Makes a file expire now and be deleted at once, so that upkeep does both.
pub fn expire(
    conn: &mut Conn<'_>,
    id: AssetId,
    account: AccountId,
    now: Timestamp,
) -> Result<(), StoreError> {
    sql!(
        "UPDATE assets SET expires_at = :now, delete_at = :now WHERE id = :id AND account_id = :account
         AND (expires_at IS NULL OR expires_at > :now)",
        id,
        account,
        now
    )
    .execute(conn)?;
    Ok(())
}
