//! The music records: tasks, clips, jobs. Every field of a record is present, typed, and never
//! null.

use serde::Serialize;
use utoipa::ToSchema;

use crate::records::Links;
use crate::records::clip::ClipRecord;
use crate::records::provenance::ProvenanceView;
use crate::records::status_words;
use mediagate_model::account::Account;
use mediagate_model::ids::ClipId;
use mediagate_model::music::{Clip, ClipOrigin};
use mediagate_model::task::{SongJob, StemsJob, Task, TaskPayload, TaskState};

/// The only value of `stem_type_id` in the music API.
pub const STEM_TYPE: i64 = 91;
/// The music task that separates a clip into stems.
pub const GEN_STEM: &str = "gen_stem";
/// The music task that replaces a section of a clip.
const INFILL: &str = "infill";

/// Model version in records, in the form that the music API uses.
pub(super) const VERSION: &str = "v1";

/// A music task.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskRecord {
    /// The task's id.
    pub id: String,
    /// The clips.
    pub clips: Vec<ClipRecord>,
    /// The request.
    pub metadata: RecordMetadata,
    /// Version of the model.
    pub major_model_version: String,
    /// `queued`, `streaming`, `complete` or `error`.
    pub status: &'static str,
    /// Time of creation, RFC 3339.
    pub created_at: String,
    /// Number of clips.
    pub batch_size: usize,
}

/// A clip in a task's output.
#[derive(Debug, Serialize, ToSchema)]
pub struct ClipView {
    /// The clip's id.
    pub id: String,
    /// Title.
    pub title: String,
    /// The stem group, for example `Vocals`.
    pub group: String,
    /// URL of the audio as 24-bit FLAC. Empty after the file was removed.
    pub audio_url: String,
    /// URL of the cover. Empty after the file was removed.
    pub image_url: String,
    /// Measured length, in seconds.
    pub seconds: f64,
    /// Whether the files have been removed.
    pub removed: bool,
    /// Provenance information in the audio file; for a song, as received from the provider. Null
    /// until the clip is complete.
    #[schema(required = true)]
    pub provenance: Option<ProvenanceView>,
}

/// What a task or clip is and how it was made.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the documented fields")]
pub struct RecordMetadata {
    /// Lyrics or prompt. Empty for uploads and stems.
    pub prompt: String,
    /// Style, if a hosted provider made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<String>,
    /// The source clips.
    pub history: Vec<HistoryEntry>,
    /// The clip that a stem is separated from. Empty for an upload.
    pub stem_from_id: String,
    /// Kind of separation: `two` or `twelve`. Empty for an upload.
    pub stem_task: String,
    /// Always 91.
    pub stem_type_id: i64,
    /// The clip's stem group; in a task, the requested one.
    pub stem_type_group_name: String,
    /// The clip that was processed. Empty for an upload and for a song from no other clip.
    pub edited_clip_id: String,
    /// `gen` or `upload`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Always false.
    pub stream: bool,
    /// Whether the music task is `infill`, which replaces a section of a clip.
    pub infill: bool,
    /// `gen_stem` or another music task. Empty for an upload.
    pub task: String,
    /// Always true.
    pub can_remix: bool,
    /// Whether the clip was made from another clip.
    pub is_remix: bool,
    /// Always 0.
    pub priority: i64,
    /// Measured length, in seconds. 0 until it is known.
    pub duration: f64,
    /// By how much the recording was made quieter, in decibels, because it was louder than full
    /// scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain_db: Option<f64>,
    /// Parts of the recording that could not be read and are silent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<DamageEntry>,
    /// `generation_type` from the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation_type: Option<String>,
    /// `make_instrumental` from the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub make_instrumental: Option<bool>,
    /// Stable error code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// Error message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// A part of a recording that could not be read and is silent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct DamageEntry {
    /// In seconds.
    pub start_s: f64,
    /// In seconds. Equal to the start if the file ends there before the recording does.
    pub end_s: f64,
}

/// A source clip.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct HistoryEntry {
    /// The clip's id.
    pub id: String,
    /// Always `gen`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Always `web`.
    pub source: &'static str,
    /// Always false.
    pub infill: bool,
    /// Always 91.
    pub stem_type_id: i64,
    /// The stem that was separated.
    pub stem_type_group_name: String,
    /// Kind of separation: `two` or `twelve`.
    pub stem_task: String,
    /// The clip that was separated.
    pub stem_from_id: String,
}

/// The envelope around a job record.
#[derive(Debug, Serialize, ToSchema)]
pub struct Envelope<T: ToSchema> {
    /// Always `success`.
    pub code: &'static str,
    /// Empty.
    pub message: String,
    /// The record or records.
    pub data: T,
}

impl<T: ToSchema> Envelope<T> {
    pub fn success(data: T) -> Self {
        Self {
            code: "success",
            message: String::new(),
            data,
        }
    }
}

/// A music task as a job record.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobRecord {
    /// The task's id.
    pub task_id: String,
    /// Callback URL. Empty if there is none.
    pub notify_hook: String,
    /// Always `MUSIC`.
    pub action: &'static str,
    /// `QUEUED`, `IN_PROGRESS`, `SUCCESS` or `FAILURE`.
    pub status: &'static str,
    /// Why the task failed, or that it was cancelled. Otherwise empty.
    pub fail_reason: String,
    /// Time of submission, in Unix seconds.
    pub submit_time: i64,
    /// Time of the start, in Unix seconds. 0 until the task starts.
    pub start_time: i64,
    /// Time of the end, in Unix seconds. 0 until the task ends.
    pub finish_time: i64,
    /// `0%` to `100%`.
    pub progress: String,
    /// The clips.
    pub data: Vec<ClipRecord>,
}

impl TaskRecord {
    /// A task with its clips; `None` for a task of another kind.
    pub fn new(task: &Task, clips: &[Clip], account: &Account, links: &Links) -> Option<Self> {
        let (metadata, operation) = match &task.payload {
            TaskPayload::StemsV1(job) => {
                let metadata = RecordMetadata::of_separation(task, job);
                (metadata, ClipOperation::separation(job))
            }
            TaskPayload::SongV1(job) => {
                (RecordMetadata::of_song(task, job), ClipOperation::song(job))
            }
            TaskPayload::VideoV1(_) => return None,
        };
        let clips: Vec<ClipRecord> = clips
            .iter()
            .map(|clip| ClipRecord::new(clip, operation, account, links))
            .collect();
        Some(Self {
            id: task.id.to_string(),
            metadata,
            major_model_version: VERSION.into(),
            status: status_words::music(task.state),
            created_at: task.created_at.rfc3339(),
            batch_size: clips.len(),
            clips,
        })
    }
}

/// The part of a clip's record that comes from the task that made it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClipOperation<'a> {
    /// The operation; empty for an upload.
    pub task: &'a str,
    /// `two` or `twelve` for a separation.
    pub stem_task: &'a str,
    /// The clip that was processed, if there is one.
    pub source: Option<ClipId>,
}

impl<'a> ClipOperation<'a> {
    /// The operation that this order asked for; `None` if the clip was not ordered.
    pub fn ordered(payload: Option<&'a TaskPayload>) -> Self {
        match payload {
            Some(TaskPayload::StemsV1(job)) => Self::separation(job),
            Some(TaskPayload::SongV1(job)) => Self::song(job),
            Some(TaskPayload::VideoV1(_)) | None => Self::default(),
        }
    }

    fn separation(job: &StemsJob) -> Self {
        Self {
            task: GEN_STEM,
            stem_task: job.stem_task.name(),
            source: Some(job.source),
        }
    }

    /// The operation of any other music task.
    fn song(job: &'a SongJob) -> Self {
        Self {
            task: &job.task,
            stem_task: "",
            source: job.clips.first().map(|(_, clip)| *clip),
        }
    }

    fn is_infill(self) -> bool {
        self.task == INFILL
    }

    /// The clip from which this one was made.
    fn source_of(self, clip: &Clip) -> Option<ClipId> {
        match &clip.origin {
            ClipOrigin::Upload => None,
            ClipOrigin::Stem { source, .. } => Some(*source),
            ClipOrigin::Song { .. } => self.source,
        }
    }

    /// Whether a clip was made from another one.
    pub(super) fn is_remix(self, clip: &Clip) -> bool {
        self.source_of(clip).is_some()
    }
}

impl ClipView {
    /// A clip in a task's output.
    pub fn new(clip: &Clip, links: &Links) -> Self {
        let [audio_url, image_url, _] = links.made_clip_urls(clip);
        Self {
            id: clip.id.to_string(),
            title: links.made_title(clip),
            group: group(clip),
            audio_url,
            image_url,
            seconds: seconds(clip),
            removed: clip.media_removed,
            provenance: clip.provenance.as_ref().map(ProvenanceView::new),
        }
    }
}

fn group(clip: &Clip) -> String {
    match &clip.origin {
        ClipOrigin::Upload | ClipOrigin::Song { .. } => String::new(),
        ClipOrigin::Stem { target, .. } => target.name(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a recording's length is small")]
fn seconds(clip: &Clip) -> f64 {
    clip.media
        .map_or(0.0, |media| media.milliseconds as f64 / 1000.0)
}

impl RecordMetadata {
    fn of_separation(task: &Task, job: &StemsJob) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a recording's length is small")]
        let duration = job.milliseconds as f64 / 1000.0;
        let failure = task.failure.as_ref();
        Self {
            prompt: String::new(),
            tags: None,
            history: vec![HistoryEntry::new(
                &job.source.to_string(),
                &job.group_name,
                job.stem_task.name(),
            )],
            stem_from_id: job.source.to_string(),
            stem_task: job.stem_task.name().into(),
            stem_type_id: STEM_TYPE,
            stem_type_group_name: job.group_name.clone(),
            edited_clip_id: job.source.to_string(),
            kind: "gen",
            stream: false,
            infill: false,
            task: GEN_STEM.into(),
            can_remix: true,
            is_remix: true,
            priority: 0,
            duration,
            gain_db: None,
            damage: Vec::new(),
            generation_type: Some(job.generation_type.clone()),
            make_instrumental: Some(job.make_instrumental),
            error_type: failure.map(|failure| failure.code.name().to_owned()),
            error_message: failure.map(|failure| failure.message.clone()),
        }
    }

    fn of_song(task: &Task, job: &SongJob) -> Self {
        let text = |name: &str| {
            let value = job.fields.get(name).and_then(serde_json::Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let operation = ClipOperation::song(job);
        let source = operation.source.map(|clip| clip.to_string());
        let failure = task.failure.as_ref();
        Self {
            prompt: text("prompt"),
            tags: Some(text("tags")),
            history: Vec::new(),
            stem_from_id: String::new(),
            stem_task: String::new(),
            stem_type_id: STEM_TYPE,
            stem_type_group_name: String::new(),
            is_remix: source.is_some(),
            edited_clip_id: source.unwrap_or_default(),
            kind: "gen",
            stream: false,
            infill: operation.is_infill(),
            task: job.task.clone(),
            can_remix: true,
            priority: 0,
            duration: 0.0,
            gain_db: None,
            damage: Vec::new(),
            generation_type: Some(job.generation_type.clone()),
            make_instrumental: Some(job.make_instrumental),
            error_type: failure.map(|failure| failure.code.name().to_owned()),
            error_message: failure.map(|failure| failure.message.clone()),
        }
    }

    pub(super) fn of_clip(clip: &Clip, operation: ClipOperation<'_>) -> Self {
        let is_upload = clip.origin == ClipOrigin::Upload;
        let (stem_source, history) = match &clip.origin {
            ClipOrigin::Upload | ClipOrigin::Song { .. } => (String::new(), Vec::new()),
            ClipOrigin::Stem { source, .. } => {
                let source = source.to_string();
                let entry = HistoryEntry::new(&source, &group(clip), operation.stem_task);
                (source, vec![entry])
            }
        };
        let source = operation.source_of(clip);
        let failure = clip.failure.as_ref();
        let upstream = clip.upstream.as_ref();
        let notes = clip.notes.clone().unwrap_or_default();
        let damage = notes.damage.iter().map(|span| DamageEntry {
            start_s: span.start_s,
            end_s: span.end_s,
        });
        Self {
            prompt: upstream.map_or_else(String::new, |upstream| upstream.prompt.clone()),
            tags: upstream.map(|upstream| upstream.tags.clone()),
            history,
            stem_from_id: stem_source,
            stem_task: operation.stem_task.into(),
            stem_type_id: STEM_TYPE,
            stem_type_group_name: group(clip),
            edited_clip_id: source.map_or_else(String::new, |clip| clip.to_string()),
            kind: if is_upload { "upload" } else { "gen" },
            stream: false,
            infill: operation.is_infill(),
            task: operation.task.into(),
            can_remix: true,
            is_remix: operation.is_remix(clip),
            priority: 0,
            duration: seconds(clip),
            gain_db: notes.gain_db,
            damage: damage.collect(),
            generation_type: None,
            make_instrumental: None,
            error_type: failure.map(|(code, _)| code.clone()),
            error_message: failure.map(|(_, message)| message.clone()),
        }
    }
}

impl HistoryEntry {
    fn new(source: &str, group: &str, stem_task: &str) -> Self {
        Self {
            id: source.into(),
            kind: "gen",
            source: "web",
            infill: false,
            stem_type_id: STEM_TYPE,
            stem_type_group_name: group.into(),
            stem_task: stem_task.into(),
            stem_from_id: source.into(),
        }
    }
}

impl JobRecord {
    /// A task with its clips; `None` for a task of another kind.
    pub fn new(task: &Task, clips: &[Clip], account: &Account, links: &Links) -> Option<Self> {
        let record = TaskRecord::new(task, clips, account, links)?;
        Some(Self {
            task_id: record.id,
            notify_hook: links.callback(task).unwrap_or_default(),
            action: "MUSIC",
            status: status_words::job(task.state),
            fail_reason: task
                .failure
                .as_ref()
                .map_or_else(String::new, |failure| failure.message.clone()),
            submit_time: task.created_at.seconds(),
            start_time: task
                .started_at
                .map_or(0, mediagate_model::clock::Timestamp::seconds),
            finish_time: task
                .finished_at
                .map_or(0, mediagate_model::clock::Timestamp::seconds),
            progress: format!(
                "{}%",
                if task.state == TaskState::Succeeded {
                    100
                } else {
                    task.progress
                }
            ),
            data: record.clips,
        })
    }
}
