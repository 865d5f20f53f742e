//! The registry of results: fingerprints, digests and watermarks by which a file is recognised.
//!
//! Similar results are looked up by parts of fingerprints, so that no search reads the whole table.
//! The caller decides whether two results are similar enough.

use crate::columns::{TableRecord as _, insert, record};
use crate::statement::sql;
use crate::{Conn, StoreError};
use mediagate_model::ids::AssetId;
use mediagate_model::provenance::{PerceptualFingerprint, ResultFingerprint};

record! {
    /// Without the look-up keys, which are in `print_keys`.
    columns for ResultFingerprint of "prints" {
        id: "id",
        account: "account_id",
        kind: "kind",
        is_embedded: "is_embedded",
        task: "task_id",
        clip: "clip_id",
        sha256: "sha256",
        watermark: watermark("watermark"),
        fingerprint: perceptual_fingerprint("video", "sound"),
        created_at: "created_at",
    }
}

fn watermark(stored: Option<i64>) -> Option<u64> {
    stored.map(i64::cast_unsigned)
}

fn perceptual_fingerprint(video: Option<String>, sound: Option<String>) -> PerceptualFingerprint {
    PerceptualFingerprint {
        // An empty text means that nothing was found, NULL that it was not examined yet.
        video: video.filter(|text| !text.is_empty()),
        sound,
        keys: Vec::new(),
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT ", columns!(), " FROM prints ", $rest)
    };
}

pub fn insert(conn: &mut Conn<'_>, print: &ResultFingerprint) -> Result<(), StoreError> {
    let id = print.id.to_string();
    insert!(conn, "prints" {
        "id": id,
        "account_id": print.account,
        "task_id": print.task,
        "clip_id": print.clip,
        "kind": print.kind,
        "is_embedded": print.is_embedded,
        "sha256": print.sha256,
        "watermark": print.watermark.map(u64::cast_signed),
        "video": print.fingerprint.video,
        "sound": print.fingerprint.sound,
        "created_at": print.created_at,
    })?;
    insert_keys(conn, &id, &print.fingerprint.keys)
}

fn insert_keys(conn: &mut Conn<'_>, id: &String, keys: &[i64]) -> Result<(), StoreError> {
    for part in keys {
        sql!(
            "INSERT INTO print_keys (part, print_id) VALUES (:part, :id)",
            part = *part,
            id
        )
        .execute(conn)?;
    }
    Ok(())
}

/// The latest films before this one that were not examined yet.
pub fn without_fingerprint(
    conn: &mut Conn<'_>,
    before: Option<AssetId>,
    limit: u32,
) -> Result<Vec<ResultFingerprint>, StoreError> {
    let limit = i64::from(limit);
    let Some(before) = before else {
        return sql!(
            select!("WHERE kind = 'video' AND video IS NULL ORDER BY id DESC LIMIT :limit"),
            limit
        )
        .all(conn, ResultFingerprint::from_row);
    };
    sql!(
        select!(
            "WHERE kind = 'video' AND video IS NULL AND id < :before ORDER BY id DESC LIMIT :limit"
        ),
        before,
        limit
    )
    .all(conn, ResultFingerprint::from_row)
}

/// Stores the fingerprint of a film, which may be empty. Returns false if the film already has one.
pub fn set_fingerprint(
    conn: &mut Conn<'_>,
    id: AssetId,
    fingerprint: &PerceptualFingerprint,
) -> Result<bool, StoreError> {
    let id = id.to_string();
    let video = fingerprint.video.clone().unwrap_or_default();
    let changed = sql!(
        "UPDATE prints SET video = :video, sound = :sound WHERE id = :id AND kind = 'video' AND video IS NULL",
        id = &id,
        video = &video,
        sound = fingerprint.sound.as_ref()
    )
    .execute(conn)?;
    if changed == 1 {
        insert_keys(conn, &id, &fingerprint.keys)?;
    }
    Ok(changed == 1)
}

/// The latest results with this digest.
pub fn by_digest(
    conn: &mut Conn<'_>,
    sha256: &str,
    limit: u32,
) -> Result<Vec<ResultFingerprint>, StoreError> {
    sql!(
        select!("WHERE sha256 = :sha256 ORDER BY id DESC LIMIT :limit"),
        sha256,
        limit
    )
    .all(conn, ResultFingerprint::from_row)
}

/// The latest results with this watermark.
pub fn by_watermark(
    conn: &mut Conn<'_>,
    id: u64,
    limit: u32,
) -> Result<Vec<ResultFingerprint>, StoreError> {
    sql!(
        select!("WHERE watermark = :watermark ORDER BY id DESC LIMIT :limit"),
        watermark = id.cast_signed(),
        limit
    )
    .all(conn, ResultFingerprint::from_row)
}

/// Ids of the latest results whose fingerprints have this part.
pub fn ids_with_key(conn: &mut Conn<'_>, part: i64, limit: u32) -> Result<Vec<String>, StoreError> {
    sql!(
        "SELECT print_id FROM print_keys WHERE part = :part ORDER BY print_id DESC LIMIT :limit",
        part,
        limit
    )
    .values::<String>(conn)
}

pub fn by_id(conn: &mut Conn<'_>, id: &str) -> Result<Option<ResultFingerprint>, StoreError> {
    sql!(select!("WHERE id = :id"), id).one(conn, ResultFingerprint::from_row)
}
