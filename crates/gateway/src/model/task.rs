//! Tasks: what a caller asked for, and what became of it.
//!
//! The state machine is here; who moves a task is the worker's business, and
//! the words that each API shows for a state are in `http/wire/words.rs`.

use std::fmt;
use std::str::FromStr;

pub use providers::StemTarget;
pub use providers::order::Message;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::error::{Error, ErrorCode};
use crate::ids::{AccountId, AssetId, ClipId, KeyId, PersonaId, RequestId, TaskId};
use crate::model::money::{Bill, Micros, Money, Tariff};

/// The two families of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskKind {
    /// Makes a video.
    Video,
    /// Works on music.
    Music,
}

impl TaskKind {
    /// The name that callers see and the store keeps.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Video => "video",
            Self::Music => "music",
        }
    }
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TaskKind {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        [Self::Video, Self::Music]
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or(UnknownWord)
    }
}

/// A word that names nothing of the wanted kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown word")]
pub struct UnknownWord;

/// Where a task stands. The last three never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// Accepted, not begun.
    Queued,
    /// A worker has it, or had it when its process died.
    Running,
    /// Made.
    Succeeded,
    /// Could not be made.
    Failed,
    /// Called off.
    Cancelled,
}

impl TaskState {
    /// Every state.
    pub const ALL: [Self; 5] = [
        Self::Queued,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The name that callers see and the store keeps.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing can change any more.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TaskState {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL
            .into_iter()
            .find(|state| state.name() == text)
            .ok_or(UnknownWord)
    }
}

/// What is to be done, complete: a worker needs nothing else. Stored as JSON;
/// a changed shape gets a new variant, so that old rows stay readable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Payload {
    /// Make a video.
    VideoV1(VideoJob),
    /// Separate a clip into stems.
    StemsV1(StemsJob),
    /// Another task of the music dialect, done by a hosted provider.
    SongV1(SongJob),
}

impl Payload {
    /// The family of the work.
    pub const fn kind(&self) -> TaskKind {
        match self {
            Self::VideoV1(_) => TaskKind::Video,
            Self::StemsV1(_) | Self::SongV1(_) => TaskKind::Music,
        }
    }

    /// Whether it is known to have no sound.
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::VideoV1(job) if job.audio == Some(false))
    }
}

/// A video to be made; everything optional has been decided.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VideoJob {
    /// What the caller wrote.
    pub prompt: String,
    /// The first frame, in the gateway's own store.
    pub picture: Option<AssetId>,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Length in milliseconds.
    pub milliseconds: u64,
    /// Frames a second.
    pub fps: u32,
    /// Decides everything that the prompt leaves to chance.
    pub seed: u64,
    /// The caller's own name for its end user.
    pub user: Option<String>,
    /// Whether the caller chose the seed; providers choose their own otherwise.
    #[serde(default)]
    pub seed_is_asked: bool,
    /// What the video shall not show.
    #[serde(default)]
    pub negative_prompt: Option<String>,
    /// Source pictures after the first.
    #[serde(default)]
    pub more_pictures: Vec<AssetId>,
    /// The conversation before the prompt, for providers that speak chat.
    #[serde(default)]
    pub conversation: Vec<Message>,
    /// The last frame, where it was asked for by that name.
    #[serde(default)]
    pub end_picture: Option<AssetId>,
    /// Pictures of what the video is about, asked for by that name.
    #[serde(default)]
    pub references: Vec<AssetId>,
    /// With sound or without, where the model can choose.
    #[serde(default)]
    pub audio: Option<bool>,
    /// Whether the caller chose that; it is what usually comes otherwise.
    #[serde(default)]
    pub audio_is_asked: bool,
    /// Fields for the provider itself.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub provider_options: Map<String, Value>,
}

/// A separation to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StemsJob {
    /// The clip to separate.
    pub source: ClipId,
    /// Its audio.
    pub source_audio: AssetId,
    /// The source's length in milliseconds.
    pub milliseconds: u64,
    /// `two` or `twelve`, as asked.
    pub stem_task: StemTask,
    /// The group as the caller wrote it.
    pub group_name: String,
    /// The clips to fill, in order, and what each is to hold.
    pub outputs: Vec<(ClipId, StemTarget)>,
    /// `generation_type` as sent, kept.
    pub generation_type: String,
    /// `make_instrumental` as sent, kept.
    pub make_instrumental: bool,
    /// The caller's own title for the whole.
    pub title: String,
}

/// A task of the music dialect that a hosted provider does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SongJob {
    /// The operation, such as `extend`.
    pub task: String,
    /// The other fields as the caller sent them; ids in them are this gateway's.
    pub fields: Map<String, Value>,
    /// Fields that name clips, with the clips.
    pub clips: Vec<(String, ClipId)>,
    /// The persona that `persona_id` names.
    pub persona: Option<PersonaId>,
    /// The clips to fill, in order.
    pub outputs: Vec<ClipId>,
    /// `generation_type` as sent, kept.
    pub generation_type: String,
    /// `make_instrumental` as sent, kept.
    pub make_instrumental: bool,
    /// The caller's own title.
    pub title: String,
}

/// How many parts a separation makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StemTask {
    /// The wanted track and the rest.
    Two,
    /// Every group the model can tell apart.
    Twelve,
}

impl StemTask {
    /// The word of the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Two => "two",
            Self::Twelve => "twelve",
        }
    }
}

/// What a finished task left behind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Output {
    /// A video.
    VideoV1(VideoOutput),
    /// Filled clips, in order.
    ClipsV1 {
        /// Their ids; the clips themselves have the rest.
        clips: Vec<ClipId>,
    },
}

/// A finished video.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VideoOutput {
    /// The MP4.
    pub video: AssetId,
    /// Its first frame, where one was drawn.
    pub poster: Option<AssetId>,
    /// A sheet of frames over time, where one was drawn.
    pub sheet: Option<AssetId>,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Measured length in milliseconds.
    pub milliseconds: u64,
    /// Size of the MP4.
    pub size_bytes: u64,
    /// SHA-256 of the MP4, in lower-case hex.
    pub sha256: String,
    /// When the files are removed, in microseconds since the epoch.
    pub expires_at_micros: i64,
    /// What of the prompt was understood.
    pub direction: Vec<String>,
}

/// Why a task failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFailure {
    /// What went wrong.
    pub code: ErrorCode,
    /// A sentence for the caller.
    pub message: String,
}

impl TaskFailure {
    /// The error that a caller who waited for the task is given.
    pub fn to_error(&self) -> Error {
        if self.code.retryable() {
            Error::later(self.code, &self.message, 2)
        } else {
            Error::plain(self.code, &self.message)
        }
    }
}

/// A task as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Names it.
    pub id: TaskId,
    /// Whose it is.
    pub account: AccountId,
    /// The key that asked for it.
    pub key: KeyId,
    /// The model that makes it, by its canonical name.
    pub model: String,
    /// The model's name as the caller wrote it.
    pub asked_model: String,
    /// Who makes it.
    pub provider: String,
    /// The configuration of the route that makes it, for `system_fingerprint`.
    pub fingerprint: String,
    /// What is to be done.
    pub payload: Payload,
    /// Where it stands.
    pub state: TaskState,
    /// 0–100, never falling.
    pub progress: u8,
    /// What it costs: the reservation while that is held, then what was settled.
    pub cost: Micros,
    /// What was reserved for it.
    pub reserved: Micros,
    /// Where its money stands.
    pub money: Money,
    /// The prices that it was accepted at; `None` when it is free.
    pub tariff: Option<Tariff>,
    /// What was paid for, once that is settled.
    pub bill: Option<Bill>,
    /// The request that made it.
    pub request_id: RequestId,
    /// How often a worker took it.
    pub attempts: u32,
    /// How often its run ended the child that it was run in; `None` as long as no
    /// process that ran it has died.
    pub deaths: Option<u32>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When a worker first took it.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why it failed, or that it was cancelled.
    pub failure: Option<TaskFailure>,
    /// What it made.
    pub output: Option<Output>,
    /// Number of its latest event.
    pub event_seq: u32,
}

impl Task {
    /// The family of the work.
    pub const fn kind(&self) -> TaskKind {
        self.payload.kind()
    }
}

/// One change of a task, numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskEvent {
    /// Its number within the task.
    pub seq: u32,
    /// The state after it.
    pub state: TaskState,
    /// The progress after it.
    pub progress: u8,
}
