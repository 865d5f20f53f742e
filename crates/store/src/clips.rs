//! Music clips. A stem has its task's state, read by a join, so that the two cannot disagree.

use crate::conn::to_json;
use crate::tasks::Page;
use crate::{Conn, Row, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, AssetId, ClipId, TaskId};
use mediagate_model::media::MediaType;
use mediagate_model::music::{Clip, ClipMedia, ClipOrigin, ClipState, ClipUpstream};
use mediagate_model::provenance::Provenance;
use mediagate_model::task::{StemTarget, TaskState};

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT c.id, c.account_id, COALESCE(c.task_id, c.past_task_id), c.source_id, c.target, c.title, c.model, c.asked_model, c.audio,
                    c.image, c.image_large, c.milliseconds, c.is_trashed, c.created_at,
                    t.state, t.error_code, t.error_message, a.removed_at, a.expires_at, c.upstream, c.past_payload, a.media, c.provenance
             FROM clips c LEFT JOIN tasks t ON t.id = c.task_id LEFT JOIN assets a ON a.id = c.audio ",
            $rest
        )
    };
}

/// `position` orders the clips of a task.
pub fn insert(conn: &mut Conn<'_>, clip: &Clip, position: i64) -> Result<(), StoreError> {
    let (task, source, target) = match &clip.origin {
        ClipOrigin::Upload => (None, None, None),
        ClipOrigin::Song { task } => (Some(task.to_string()), None, None),
        ClipOrigin::Stem {
            task,
            source,
            target,
        } => (
            Some(task.to_string()),
            Some(source.to_string()),
            Some(to_json(target)?),
        ),
    };
    conn.execute(
        "INSERT INTO clips (id, account_id, task_id, position, source_id, target, title, model, asked_model, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        &[
            (&clip.id.to_string()).into(),
            (&clip.account.to_string()).into(),
            task.as_ref().into(),
            position.into(),
            source.as_ref().into(),
            target.as_ref().into(),
            (&clip.title).into(),
            (&clip.model).into(),
            (&clip.asked_model).into(),
            clip.created_at.micros().into(),
        ],
    )?;
    if let Some(media) = &clip.media {
        complete(conn, clip.id, media)?;
    }
    if let Some(provenance) = &clip.provenance {
        set_provenance(conn, clip.id, provenance)?;
    }
    Ok(())
}

/// Adds the files of a clip.
pub fn complete(conn: &mut Conn<'_>, id: ClipId, media: &ClipMedia) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE clips SET audio = ?2, image = ?3, image_large = ?4, milliseconds = ?5 WHERE id = ?1",
        &[
            (&id.to_string()).into(),
            (&media.audio.to_string()).into(),
            (&media.image.to_string()).into(),
            (&media.image_large.to_string()).into(),
            i64::try_from(media.milliseconds).unwrap_or(i64::MAX).into(),
        ],
    )?;
    Ok(())
}

/// Records what a provider reports about a clip that it made.
pub fn set_upstream(
    conn: &mut Conn<'_>,
    id: ClipId,
    title: &str,
    upstream: &ClipUpstream,
) -> Result<(), StoreError> {
    let upstream = to_json(upstream)?;
    conn.execute(
        "UPDATE clips SET upstream = ?2, title = CASE ?3 WHEN '' THEN title ELSE ?3 END WHERE id = ?1",
        &[
            (&id.to_string()).into(),
            (&upstream).into(),
            title.into(),
        ],
    )?;
    Ok(())
}

/// Records what a clip's file says of its origin.
pub fn set_provenance(
    conn: &mut Conn<'_>,
    id: ClipId,
    provenance: &Provenance,
) -> Result<(), StoreError> {
    let provenance = to_json(provenance)?;
    conn.execute(
        "UPDATE clips SET provenance = ?2 WHERE id = ?1",
        &[(&id.to_string()).into(), (&provenance).into()],
    )?;
    Ok(())
}

/// Deletes a clip that was never filled.
pub fn remove_empty(conn: &mut Conn<'_>, id: ClipId) -> Result<(), StoreError> {
    conn.execute(
        "DELETE FROM clips WHERE id = ?1 AND audio IS NULL",
        &[(&id.to_string()).into()],
    )?;
    Ok(())
}

/// The account's clip with this id.
pub fn by_id(
    conn: &mut Conn<'_>,
    id: ClipId,
    account: AccountId,
) -> Result<Option<Clip>, StoreError> {
    conn.one(
        select!("WHERE c.id = ?1 AND c.account_id = ?2"),
        &[(&id.to_string()).into(), (&account.to_string()).into()],
        clip,
    )
}

/// The clips of a task, by position.
pub fn of_task(
    conn: &mut Conn<'_>,
    task: TaskId,
    account: AccountId,
) -> Result<Vec<Clip>, StoreError> {
    conn.all(
        select!("WHERE c.task_id = ?1 AND c.account_id = ?2 ORDER BY c.position"),
        &[(&task.to_string()).into(), (&account.to_string()).into()],
        clip,
    )
}

/// What a recording is called by.
#[derive(Debug, Clone)]
pub struct Named {
    pub title: String,
    /// Of a stem.
    pub target: Option<StemTarget>,
    /// The title of the clip that a stem is separated from.
    pub song: Option<String>,
}

/// What the clip with this recording is called.
pub fn named(conn: &mut Conn<'_>, recording: AssetId) -> Result<Option<Named>, StoreError> {
    conn.one(
        "SELECT c.title, c.target, s.title FROM clips c LEFT JOIN clips s ON s.id = c.source_id WHERE c.audio = ?1 LIMIT 1",
        &[(&recording.to_string()).into()],
        |row| {
            let target = row.text_or_null(1)?;
            Ok(Named {
                title: row.text(0)?,
                target: target.map(|_| row.json(1, "clips.target")).transpose()?,
                song: row.text_or_null(2)?,
            })
        },
    )
}

/// The newest task that separated this clip, and of which a stem is left.
pub fn newest_separation(
    conn: &mut Conn<'_>,
    source: ClipId,
    account: AccountId,
) -> Result<Option<TaskId>, StoreError> {
    let newest = conn.one(
        "SELECT MAX(COALESCE(task_id, past_task_id)) FROM clips
         WHERE source_id = ?1 AND account_id = ?2 AND target IS NOT NULL AND audio IS NOT NULL AND is_trashed = 0",
        &[(&source.to_string()).into(), (&account.to_string()).into()],
        |row| row.parse_or_null(0, "clips.task_id"),
    )?;
    Ok(newest.flatten())
}

/// The complete stems that this task separated from a clip, by position.
pub fn stems_of(
    conn: &mut Conn<'_>,
    source: ClipId,
    account: AccountId,
    task: TaskId,
) -> Result<Vec<Clip>, StoreError> {
    let mut stems = conn.all(
        "SELECT position, id FROM clips WHERE source_id = ?1 AND account_id = ?2 AND target IS NOT NULL
         AND audio IS NOT NULL AND is_trashed = 0 AND COALESCE(task_id, past_task_id) = ?3",
        &[
            (&source.to_string()).into(),
            (&account.to_string()).into(),
            (&task.to_string()).into(),
        ],
        |row| Ok((row.int(0)?, row.parse::<ClipId>(1, "clips.id")?)),
    )?;
    stems.sort_unstable();
    let mut found = Vec::with_capacity(stems.len());
    for (_, id) in stems {
        found.extend(by_id(conn, id, account)?);
    }
    Ok(found)
}

/// A page of the account's clips: either the trashed ones or the others.
pub fn page(
    conn: &mut Conn<'_>,
    account: AccountId,
    is_trashed: bool,
    page: Page<ClipId>,
) -> Result<Vec<Clip>, StoreError> {
    conn.all(
        select!("WHERE c.account_id = ?1 AND c.id < COALESCE(?2, 'g') AND c.is_trashed = ?3 ORDER BY c.id DESC LIMIT ?4"),
        &[
            (&account.to_string()).into(),
            page.after.map(|id| id.to_string()).as_ref().into(),
            is_trashed.into(),
            i64::from(page.limit).into(),
        ],
        clip,
    )
}

/// Moves a clip into the trash or out of it.
pub fn set_trashed(
    conn: &mut Conn<'_>,
    id: ClipId,
    account: AccountId,
    is_trashed: bool,
) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE clips SET is_trashed = ?3 WHERE id = ?1 AND account_id = ?2",
        &[
            (&id.to_string()).into(),
            (&account.to_string()).into(),
            is_trashed.into(),
        ],
    )?;
    Ok(())
}

fn clip(row: &Row<'_>) -> Result<Clip, StoreError> {
    let task: Option<TaskId> = row.parse_or_null(2, "clips.task_id")?;
    let source: Option<ClipId> = row.parse_or_null(3, "clips.source_id")?;
    let target: Option<StemTarget> = row
        .text_or_null(4)?
        .map(|_| row.json(4, "clips.target"))
        .transpose()?;
    let origin = match (task, source, target) {
        (Some(task), Some(source), Some(target)) => ClipOrigin::Stem {
            task,
            source,
            target,
        },
        (Some(task), _, _) => ClipOrigin::Song { task },
        _ => ClipOrigin::Upload,
    };
    let audio = row.parse_or_null(8, "clips.audio")?;
    let image = row.parse_or_null(9, "clips.image")?;
    let image_large = row.parse_or_null(10, "clips.image_large")?;
    let milliseconds = u64::try_from(row.int(11)?).unwrap_or(0);
    let media = match (audio, image, image_large) {
        (Some(audio), Some(image), Some(image_large)) => {
            let expires_at = row.int_or_null(18)?.map(Timestamp::from_micros);
            Some(ClipMedia {
                audio,
                // The row of a file that was removed may be gone, too.
                audio_type: row
                    .parse_or_null(21, "assets.media")?
                    .unwrap_or(MediaType::Flac),
                image,
                image_large,
                milliseconds,
                expires_at,
            })
        }
        _ => None,
    };
    let task_state: Option<TaskState> = row.parse_or_null(14, "tasks.state")?;
    let state = match task_state {
        _ if media.is_some() => ClipState::Complete,
        Some(TaskState::Queued) => ClipState::Queued,
        Some(TaskState::Running) => ClipState::Running,
        Some(TaskState::Succeeded | TaskState::Failed | TaskState::Cancelled) | None => {
            ClipState::Failed
        }
    };
    let failure = match (state, row.text_or_null(15)?) {
        (ClipState::Failed, Some(code)) => Some((code, row.text_or_null(16)?.unwrap_or_default())),
        _ => None,
    };
    Ok(Clip {
        id: row.parse(0, "clips.id")?,
        account: row.parse(1, "clips.account_id")?,
        origin,
        title: row.text(5)?,
        model: row.text(6)?,
        asked_model: row.text(7)?,
        state,
        media,
        media_removed: row.int_or_null(17)?.is_some(),
        is_trashed: row.flag(12)?,
        failure,
        upstream: row
            .text_or_null(19)?
            .map(|_| row.json(19, "clips.upstream"))
            .transpose()?,
        past_payload: row
            .text_or_null(20)?
            .map(|_| row.json(20, "clips.past_payload"))
            .transpose()?,
        provenance: row
            .text_or_null(22)?
            .map(|_| row.json(22, "clips.provenance"))
            .transpose()?,
        created_at: Timestamp::from_micros(row.int(13)?),
    })
}
