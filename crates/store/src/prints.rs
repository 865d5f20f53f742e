//! The registry: what each result is known by.
//!
//! Likeness is looked up by parts of fingerprints, so that no search reads the whole table; how
//! alike two are, the caller decides.

use crate::{Conn, Row, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::AssetId;
use mediagate_model::provenance::{Likeness, Print};

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, account_id, task_id, clip_id, kind, is_embedded, sha256, watermark, video, sound, created_at
             FROM prints ",
            $rest
        )
    };
}

pub fn insert(conn: &mut Conn<'_>, print: &Print) -> Result<(), StoreError> {
    let id = print.id.to_string();
    conn.execute(
        "INSERT INTO prints (id, account_id, task_id, clip_id, kind, is_embedded, sha256, watermark, video, sound, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        &[
            (&id).into(),
            (&print.account.to_string()).into(),
            print.task.map(|id| id.to_string()).as_ref().into(),
            print.clip.map(|id| id.to_string()).as_ref().into(),
            print.kind.into_str().into(),
            print.is_embedded.into(),
            (&print.sha256).into(),
            print.watermark.map(u64::cast_signed).into(),
            print.likeness.video.as_ref().into(),
            print.likeness.sound.as_ref().into(),
            print.created_at.micros().into(),
        ],
    )?;
    insert_keys(conn, &id, &print.likeness.keys)
}

fn insert_keys(conn: &mut Conn<'_>, id: &String, keys: &[i64]) -> Result<(), StoreError> {
    for part in keys {
        conn.execute(
            "INSERT INTO print_keys (part, print_id) VALUES (?1, ?2)",
            &[(*part).into(), id.into()],
        )?;
    }
    Ok(())
}

/// The latest films that nobody has looked at, of those before this one.
pub fn unseen(
    conn: &mut Conn<'_>,
    before: Option<AssetId>,
    most: u32,
) -> Result<Vec<Print>, StoreError> {
    let most = i64::from(most);
    let Some(before) = before else {
        return conn.all(
            select!("WHERE kind = 'video' AND video IS NULL ORDER BY id DESC LIMIT ?1"),
            &[most.into()],
            print,
        );
    };
    conn.all(
        select!("WHERE kind = 'video' AND video IS NULL AND id < ?1 ORDER BY id DESC LIMIT ?2"),
        &[(&before.to_string()).into(), most.into()],
        print,
    )
}

/// Writes what a film is known by, which may be nothing; false if somebody did before.
pub fn set_seen(conn: &mut Conn<'_>, id: AssetId, likeness: &Likeness) -> Result<bool, StoreError> {
    let id = id.to_string();
    let video = likeness.video.clone().unwrap_or_default();
    let written = conn.execute(
        "UPDATE prints SET video = ?2, sound = ?3 WHERE id = ?1 AND kind = 'video' AND video IS NULL",
        &[(&id).into(), (&video).into(), likeness.sound.as_ref().into()],
    )?;
    if written == 1 {
        insert_keys(conn, &id, &likeness.keys)?;
    }
    Ok(written == 1)
}

/// The latest results with this digest.
pub fn by_digest(conn: &mut Conn<'_>, sha256: &str, most: u32) -> Result<Vec<Print>, StoreError> {
    conn.all(
        select!("WHERE sha256 = ?1 ORDER BY id DESC LIMIT ?2"),
        &[sha256.into(), i64::from(most).into()],
        print,
    )
}

/// The latest results with this watermark.
pub fn by_watermark(conn: &mut Conn<'_>, id: u64, most: u32) -> Result<Vec<Print>, StoreError> {
    conn.all(
        select!("WHERE watermark = ?1 ORDER BY id DESC LIMIT ?2"),
        &[id.cast_signed().into(), i64::from(most).into()],
        print,
    )
}

/// Ids of the latest results whose fingerprints have this part.
pub fn with_part(conn: &mut Conn<'_>, part: i64, most: u32) -> Result<Vec<String>, StoreError> {
    conn.all(
        "SELECT print_id FROM print_keys WHERE part = ?1 ORDER BY print_id DESC LIMIT ?2",
        &[part.into(), i64::from(most).into()],
        |row| row.text(0),
    )
}

pub fn by_id(conn: &mut Conn<'_>, id: &str) -> Result<Option<Print>, StoreError> {
    conn.one(select!("WHERE id = ?1"), &[id.into()], print)
}

/// Without the keys of the index.
fn print(row: &Row<'_>) -> Result<Print, StoreError> {
    Ok(Print {
        id: row.parse(0, "prints.id")?,
        account: row.parse(1, "prints.account_id")?,
        task: row.parse_or_null(2, "prints.task_id")?,
        clip: row.parse_or_null(3, "prints.clip_id")?,
        kind: row.parse(4, "prints.kind")?,
        is_embedded: row.flag(5)?,
        sha256: row.text(6)?,
        watermark: row.int_or_null(7)?.map(i64::cast_unsigned),
        likeness: Likeness {
            video: row.text_or_null(8)?.filter(|text| !text.is_empty()),
            sound: row.text_or_null(9)?,
            keys: Vec::new(),
        },
        created_at: Timestamp::from_micros(row.int(10)?),
    })
}
