//! Music clips. A clip without files gets its state from its task by a join, so that the two cannot
//! disagree.

use crate::columns::{TableRecord as _, insert, record};
use crate::conn::to_json;
use crate::statement::sql;
use crate::tasks::PageQuery;
use crate::{Conn, Row, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{AccountId, AssetId, ClipId, TaskId};
use mediagate_model::media::MediaType;
use mediagate_model::music::{
    Clip, ClipMedia, ClipOrigin, ClipState, ClipUpstream, RecordingNotes,
};
use mediagate_model::provenance::Provenance;
use mediagate_model::task::{StemTarget, TaskPayload, TaskState};

/// A clip with columns of its task and of its file.
struct ClipRow {
    id: ClipId,
    account: AccountId,
    task: Option<TaskId>,
    source: Option<ClipId>,
    target: Option<StemTarget>,
    title: String,
    model: String,
    asked_model: String,
    audio: Option<AssetId>,
    image: Option<AssetId>,
    image_large: Option<AssetId>,
    milliseconds: i64,
    is_trashed: bool,
    created_at: Timestamp,
    upstream: Option<ClipUpstream>,
    past_payload: Option<TaskPayload>,
    provenance: Option<Provenance>,
    notes: Option<RecordingNotes>,
    task_state: Option<TaskState>,
    error_code: Option<String>,
    error_message: Option<String>,
    removed_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    audio_type: Option<MediaType>,
}

record! {
    columns for ClipRow of "clips" {
        id: "c.id",
        account: "c.account_id",
        task: "COALESCE(c.task_id, c.past_task_id)",
        source: "c.source_id",
        target: "c.target",
        title: "c.title",
        model: "c.model",
        asked_model: "c.asked_model",
        audio: "c.audio",
        image: "c.image",
        image_large: "c.image_large",
        milliseconds: "c.milliseconds",
        is_trashed: "c.is_trashed",
        created_at: "c.created_at",
        upstream: "c.upstream",
        past_payload: "c.past_payload",
        provenance: "c.provenance",
        notes: "c.notes",
        task_state: "t.state",
        error_code: "t.error_code",
        error_message: "t.error_message",
        removed_at: "a.removed_at",
        expires_at: "a.expires_at",
        audio_type: "a.media",
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM clips c LEFT JOIN tasks t ON t.id = c.task_id LEFT JOIN assets a ON a.id = c.audio ",
            $rest
        )
    };
}

/// Adds a clip; `position` orders the clips of a task.
pub fn insert(conn: &mut Conn<'_>, clip: &Clip, position: i64) -> Result<(), StoreError> {
    let (source, target) = match &clip.origin {
        ClipOrigin::Upload | ClipOrigin::Song { .. } => (None, None),
        ClipOrigin::Stem { source, target, .. } => (Some(source), Some(target)),
    };
    insert!(conn, "clips" {
        "id": clip.id,
        "account_id": clip.account,
        "task_id": clip.origin.task(),
        "position": position,
        "source_id": source,
        "target": target,
        "title": clip.title,
        "model": clip.model,
        "asked_model": clip.asked_model,
        "created_at": clip.created_at,
    })?;
    if let Some(media) = &clip.media {
        complete(conn, clip.id, media)?;
    }
    if let Some(provenance) = &clip.provenance {
        set_provenance(conn, clip.id, provenance)?;
    }
    if let Some(notes) = &clip.notes {
        set_notes(conn, clip.id, notes)?;
    }
    Ok(())
}

/// Adds the files of a clip.
pub fn complete(conn: &mut Conn<'_>, id: ClipId, media: &ClipMedia) -> Result<(), StoreError> {
    sql!(
        "UPDATE clips SET audio = :audio, image = :image, image_large = :image_large,
         milliseconds = :milliseconds WHERE id = :id",
        id,
        audio = media.audio,
        image = media.image,
        image_large = media.image_large,
        milliseconds = media.milliseconds
    )
    .execute(conn)?;
    Ok(())
}

/// Records what a provider reports about a clip that it made or failed to make.
pub fn set_upstream(
    conn: &mut Conn<'_>,
    id: ClipId,
    title: &str,
    upstream: &ClipUpstream,
) -> Result<(), StoreError> {
    let upstream = to_json(upstream)?;
    sql!(
        "UPDATE clips SET upstream = :upstream, title = CASE :title WHEN '' THEN title ELSE :title END WHERE id = :id",
        id,
        upstream = &upstream,
        title
    )
    .execute(conn)?;
    Ok(())
}

/// Records the provenance of a clip's file.
pub fn set_provenance(
    conn: &mut Conn<'_>,
    id: ClipId,
    provenance: &Provenance,
) -> Result<(), StoreError> {
    let provenance = to_json(provenance)?;
    sql!(
        "UPDATE clips SET provenance = :provenance WHERE id = :id",
        id,
        provenance = &provenance
    )
    .execute(conn)?;
    Ok(())
}

/// Records how a clip's recording differs from the file that was read.
pub fn set_notes(
    conn: &mut Conn<'_>,
    id: ClipId,
    notes: &RecordingNotes,
) -> Result<(), StoreError> {
    let notes = to_json(notes)?;
    sql!(
        "UPDATE clips SET notes = :notes WHERE id = :id",
        id,
        notes = &notes
    )
    .execute(conn)?;
    Ok(())
}

/// The account's clip with this id.
pub fn by_id(
    conn: &mut Conn<'_>,
    id: ClipId,
    account: AccountId,
) -> Result<Option<Clip>, StoreError> {
    sql!(
        select!("WHERE c.id = :id AND c.account_id = :account"),
        id,
        account
    )
    .one(conn, read_clip)
}

/// The clips of a task, by position.
pub fn of_task(
    conn: &mut Conn<'_>,
    task: TaskId,
    account: AccountId,
) -> Result<Vec<Clip>, StoreError> {
    sql!(
        select!("WHERE c.task_id = :task AND c.account_id = :account ORDER BY c.position"),
        task,
        account
    )
    .all(conn, read_clip)
}

/// The titles from which the file name of a recording is made.
#[derive(Debug, Clone)]
pub struct RecordingName {
    pub title: String,
    /// The stem's target, if the clip is a stem.
    pub target: Option<StemTarget>,
    /// The title of the clip that a stem is separated from.
    pub song: Option<String>,
}

record! {
    named_columns for RecordingName of "clips" {
        title: "c.title",
        target: "c.target",
        song: "s.title",
    }
}

/// The titles for the file name of this recording.
pub fn recording_name(
    conn: &mut Conn<'_>,
    recording: AssetId,
) -> Result<Option<RecordingName>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            named_columns!(),
            " FROM clips c LEFT JOIN clips s ON s.id = c.source_id WHERE c.audio = :recording LIMIT 1"
        ),
        recording
    )
    .one(conn, RecordingName::from_row)
}

/// The newest task that separated this clip and has at least one complete stem that is not in the
/// trash.
pub fn newest_separation(
    conn: &mut Conn<'_>,
    source: ClipId,
    account: AccountId,
) -> Result<Option<TaskId>, StoreError> {
    // Ids begin with their time, so the greatest one is the newest.
    let newest = sql!(
        "SELECT MAX(COALESCE(task_id, past_task_id)) FROM clips
         WHERE source_id = :source AND account_id = :account AND target IS NOT NULL AND audio IS NOT NULL
         AND is_trashed = 0",
        source,
        account
    )
    .value::<Option<_>>(conn)?;
    Ok(newest.flatten())
}

/// The complete stems that this task separated from a clip, by position, without those in the
/// trash.
pub fn stems_of(
    conn: &mut Conn<'_>,
    source: ClipId,
    account: AccountId,
    task: TaskId,
) -> Result<Vec<Clip>, StoreError> {
    let mut stems = sql!(
        "SELECT position, id FROM clips WHERE source_id = :source AND account_id = :account AND target IS NOT NULL
         AND audio IS NOT NULL AND is_trashed = 0 AND COALESCE(task_id, past_task_id) = :task",
        source,
        account,
        task
    )
    .all(conn, |row| Ok((row.field::<i64>("position")?, row.field::<ClipId>("id")?)))?;
    stems.sort_unstable();
    let mut clips = Vec::with_capacity(stems.len());
    for (_, id) in stems {
        clips.extend(by_id(conn, id, account)?);
    }
    Ok(clips)
}

/// A page of the account's clips: either the trashed ones or the others.
pub fn page(
    conn: &mut Conn<'_>,
    account: AccountId,
    is_trashed: bool,
    page: PageQuery<ClipId>,
) -> Result<Vec<Clip>, StoreError> {
    sql!(
        select!("WHERE c.account_id = :account AND c.id < COALESCE(:after, 'g') AND c.is_trashed = :is_trashed
        ORDER BY c.id DESC LIMIT :limit"),
        account,
        after = page.after,
        is_trashed,
        limit = page.limit
    )
    .all(conn, read_clip)
}

/// Moves a clip into the trash or out of it.
pub fn set_trashed(
    conn: &mut Conn<'_>,
    id: ClipId,
    account: AccountId,
    is_trashed: bool,
) -> Result<(), StoreError> {
    sql!(
        "UPDATE clips SET is_trashed = :is_trashed WHERE id = :id AND account_id = :account",
        id,
        account,
        is_trashed
    )
    .execute(conn)?;
    Ok(())
}

/// The reason of a clip that a successful task did not make, if its provider told none.
const NOT_MADE: &str = "The provider did not make this clip. It was not charged.";

fn read_clip(row: &Row<'_>) -> Result<Clip, StoreError> {
    ClipRow::from_row(row).map(Clip::from)
}

impl From<ClipRow> for Clip {
    fn from(row: ClipRow) -> Self {
        let media = row.media();
        let state = match row.task_state {
            // Checked first, because a complete clip outlives the record of its task.
            _ if media.is_some() => ClipState::Complete,
            Some(TaskState::Queued) => ClipState::Queued,
            Some(TaskState::Running) => ClipState::Running,
            Some(TaskState::Succeeded | TaskState::Failed | TaskState::Cancelled) | None => {
                ClipState::Failed
            }
        };
        let failure = match (state, row.error_code) {
            (ClipState::Failed, Some(code)) => Some((code, row.error_message.unwrap_or_default())),
            // Its id was given out with the order, so it answers as long as the task does.
            (ClipState::Failed, None) if row.task_state == Some(TaskState::Succeeded) => {
                let code = ErrorCode::GenerationFailed.name().to_owned();
                let upstream = row.upstream.as_ref();
                let told = upstream.and_then(|upstream| upstream.failure.clone());
                Some((code, told.unwrap_or_else(|| NOT_MADE.to_owned())))
            }
            _ => None,
        };
        let origin = match (row.task, row.source, row.target) {
            (Some(task), Some(source), Some(target)) => ClipOrigin::Stem {
                task,
                source,
                target,
            },
            (Some(task), _, _) => ClipOrigin::Song { task },
            _ => ClipOrigin::Upload,
        };
        Self {
            id: row.id,
            account: row.account,
            origin,
            title: row.title,
            model: row.model,
            asked_model: row.asked_model,
            state,
            media,
            media_removed: row.removed_at.is_some(),
            is_trashed: row.is_trashed,
            failure,
            upstream: row.upstream,
            past_payload: row.past_payload,
            provenance: row.provenance,
            notes: row.notes,
            created_at: row.created_at,
        }
    }
}

impl ClipRow {
    /// The files of a clip that is complete.
    fn media(&self) -> Option<ClipMedia> {
        Some(ClipMedia {
            audio: self.audio?,
            // The record of a file that was removed may be gone as well.
            audio_type: self.audio_type.unwrap_or(MediaType::Flac),
            image: self.image?,
            image_large: self.image_large?,
            milliseconds: u64::try_from(self.milliseconds).unwrap_or(0),
            expires_at: self.expires_at,
        })
    }
}
