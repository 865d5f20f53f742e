//! Tasks: the order, its life cycle and its result.
//!
//! The state machine is here. The worker moves tasks through it, and `core/records/status_words.rs`
//! has each API's words for its states.

mod approval;
mod video_job;

use std::fmt;

pub use orders::order::{Choice, ConversationMessage, PictureRole, VideoOptions};
pub use orders::{MediaKind, StemTarget};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use approval::{ApprovalState, TaskApproval};
pub use video_job::{JobPicture, VideoJob};

use crate::attribution::Attribution;
use crate::clock::Timestamp;
use crate::error::{Error, ErrorCode};
use crate::ids::{AccountId, AssetId, ClipId, KeyId, PersonaId, RequestId, TaskId};
use crate::media::MediaType;
use crate::money::{ChargeState, MicroDollars};
use crate::price::{Bill, Tariff};
use crate::provenance::Provenance;

/// The state of a task. The last three are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::EnumString, strum::IntoStaticStr)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum TaskState {
    /// Accepted, not started.
    Queued,
    /// A worker runs it, or did so when its process died.
    Running,
    /// Done.
    Succeeded,
    /// It ended with a [`TaskFailure`].
    Failed,
    /// Cancelled by the caller.
    Cancelled,
}

impl TaskState {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }

    /// Whether the state is final.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Expected size of a clip's two covers: as large as they are measured for noise, the picture that
/// compresses worst.
const COVER_BYTES: u64 = 1_500_000;
/// Expected size of a stem's recording: FLAC of 24 bits, stereo, 44.1 kHz.
const STEM_BYTES_PER_SECOND: u64 = 150_000;
/// Expected size of a song's recording: FLAC of four minutes.
const SONG_BYTES: u64 = 30_000_000;

/// Everything that a worker needs to do the task. Stored as JSON; a changed shape gets a new
/// variant, so that old rows stay readable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TaskPayload {
    /// Make a video.
    VideoV1(VideoJob),
    /// Separate a clip into stems.
    StemsV1(StemsJob),
    /// Any other music task, done by a hosted provider.
    SongV1(SongJob),
}

impl TaskPayload {
    /// The kind of media that it makes.
    pub const fn kind(&self) -> MediaKind {
        match self {
            Self::VideoV1(_) => MediaKind::Video,
            Self::StemsV1(_) | Self::SongV1(_) => MediaKind::Music,
        }
    }

    /// An estimate of the size of its results, in bytes. It counts against the account's storage
    /// while the task is open.
    pub fn expected_bytes(&self) -> u64 {
        match self {
            // A byte for each pixel and second: 720p with 7 Mbit/s.
            Self::VideoV1(job) => {
                let pixels = u64::from(job.width) * u64::from(job.height);
                pixels.saturating_mul(job.milliseconds) / 1000
            }
            Self::StemsV1(job) => {
                let sound = job.milliseconds.saturating_mul(STEM_BYTES_PER_SECOND) / 1000;
                let stems = job.outputs.len() as u64;
                stems.saturating_mul(sound.saturating_add(COVER_BYTES))
            }
            // Only the provider knows how long a song will be.
            Self::SongV1(job) => job.outputs.len() as u64 * (SONG_BYTES + COVER_BYTES),
        }
    }

    /// Whether the result is known to have no sound.
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::VideoV1(job) if job.options.audio.is_some_and(|audio| !audio.value()))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StemsJob {
    pub source: ClipId,
    /// The source's file.
    pub source_audio: AssetId,
    pub milliseconds: u64,
    pub stem_task: SeparationMode,
    /// The group as the caller wrote it.
    pub group_name: String,
    /// The clips to fill, in order, each with its stem.
    pub outputs: Vec<(ClipId, StemTarget)>,
    /// `generation_type` as sent; stored only.
    pub generation_type: String,
    /// `make_instrumental` as sent; stored only.
    pub make_instrumental: bool,
    /// The caller's title for the task.
    pub title: String,
}

/// A music task for a hosted provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SongJob {
    /// The operation, for example `extend`.
    pub task: String,
    /// The other fields as the caller sent them; ids in them are ours.
    pub fields: Map<String, Value>,
    /// Whether unknown ones among the fields say what is made. Only a provider that gets all fields
    /// can then do the task.
    #[serde(default)]
    pub has_unknown_fields: bool,
    /// Fields that name clips, with those clips.
    pub clips: Vec<(String, ClipId)>,
    /// From `persona_id`.
    pub persona: Option<PersonaId>,
    /// The clips to fill, in order.
    pub outputs: Vec<ClipId>,
    /// `generation_type` as sent; stored only.
    pub generation_type: String,
    /// `make_instrumental` as sent; stored only.
    pub make_instrumental: bool,
    /// The caller's title.
    pub title: String,
}

/// How many stems a separation makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeparationMode {
    /// The requested stem and the rest.
    Two,
    /// Every stem that the model can separate.
    Twelve,
}

impl SeparationMode {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Two => "two",
            Self::Twelve => "twelve",
        }
    }
}

/// The result of a successful task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "most results are videos, and each belongs to one task"
)]
pub enum TaskResult {
    VideoV1(VideoOutput),
    LinkV1(LinkOutput),
    /// Filled clips, in order.
    ClipsV1 {
        /// Their ids; everything else is in the clips.
        clips: Vec<ClipId>,
    },
}

/// A finished video.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VideoOutput {
    pub video: AssetId,
    /// The container of the film.
    #[serde(default = "mp4")]
    pub media: MediaType,
    /// Name of the codec, if it is known. Videos that were stored before it was recorded have none.
    #[serde(default)]
    pub codec: Option<Box<str>>,
    /// Its first frame, if one was drawn.
    pub poster: Option<AssetId>,
    /// A contact sheet, if one was drawn.
    pub sheet: Option<AssetId>,
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Measured length.
    pub milliseconds: u64,
    /// Size of the file.
    pub size_bytes: u64,
    /// SHA-256 of the file, in lower-case hex.
    pub sha256: String,
    pub expires_at_micros: i64,
    /// How the prompt was understood.
    pub direction: Vec<String>,
    /// The words of the prompt that have no effect.
    #[serde(default)]
    pub not_understood: Box<[String]>,
    /// The provenance of the file; `None` if it was not examined.
    #[serde(default)]
    pub provenance: Option<Provenance>,
}

/// The container of all films that were stored before it was recorded.
const fn mp4() -> MediaType {
    MediaType::Mp4
}

/// A finished video at its provider's own URL. No copy of it is stored, so nothing was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkOutput {
    pub url: String,
    /// As ordered, in pixels.
    pub width: u32,
    /// As ordered, in pixels.
    pub height: u32,
    /// The length as ordered.
    pub milliseconds: u64,
    /// When the URL expires, if it states that, or when the video was deleted.
    pub expires_at_micros: Option<i64>,
}

/// Why a task failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFailure {
    pub code: ErrorCode,
    /// Shown to the caller.
    pub message: String,
}

impl TaskFailure {
    /// The error for a caller who waited for the task.
    pub fn to_error(&self) -> Error {
        if self.code.retryable() {
            Error::retry_later(self.code, &self.message, 2)
        } else {
            Error::plain(self.code, &self.message)
        }
    }

    /// The error for a caller who asks for the result that there is not.
    pub fn to_missing_result_error(&self) -> Error {
        Error::NotMade {
            code: self.code,
            message: self.message.clone(),
        }
    }
}

/// What a task records of the request that created it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRequest {
    pub id: RequestId,
    /// The URL under which it reached the gateway, unless `public_url` is set.
    pub origin: Option<String>,
}

impl From<RequestId> for TaskRequest {
    /// A request of which only the id is known.
    fn from(id: RequestId) -> Self {
        Self { id, origin: None }
    }
}

/// A task as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub id: TaskId,
    pub account: AccountId,
    /// The key that ordered it.
    pub key: KeyId,
    /// The model's canonical name.
    pub model: String,
    /// The model's name as the caller wrote it.
    pub asked_model: String,
    /// The operator's name for the provider; [`EMBEDDED`](super::catalog::EMBEDDED) in this
    /// process.
    pub provider: String,
    /// Fingerprint of the route's configuration, for `system_fingerprint`.
    pub fingerprint: String,
    /// The work.
    pub payload: TaskPayload,
    /// Where the task is in its life cycle.
    pub state: TaskState,
    /// 0–100, never decreasing.
    pub progress: u8,
    /// Whether the progress is guessed because the provider reports none.
    pub progress_is_guess: bool,
    /// The reservation while it is held, then the amount charged.
    pub cost: MicroDollars,
    /// The amount reserved.
    pub reserved: MicroDollars,
    /// Whether it is held, charged or released.
    pub money: ChargeState,
    /// The prices it was accepted at; `None` if free.
    pub tariff: Option<Tariff>,
    /// What was charged, once settled.
    pub bill: Option<Bill>,
    /// The approval that it needs, or needed; `None` if it needs none.
    pub approval: Option<TaskApproval>,
    /// The end user and the metadata of the order.
    pub attribution: Attribution,
    /// The request that created it.
    pub request: TaskRequest,
    /// An earlier task of the same API key with the same order, within 24 hours.
    pub identical_task: Option<TaskId>,
    /// URL that is called when it ends, encrypted.
    pub callback: Option<String>,
    /// The trace that it belongs to, as in the header `traceparent`.
    pub trace: Option<String>,
    /// How often a worker has started it.
    pub attempts: u32,
    /// How often the child process that ran it has died; `None` if it never did.
    pub deaths: Option<u32>,
    /// What it is expected to add to the account's storage; `None` if it stores no file.
    pub expected_bytes: Option<u64>,
    pub created_at: Timestamp,
    /// When a worker first started it.
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// Also set if it was cancelled.
    pub failure: Option<TaskFailure>,
    /// The result, if it succeeded.
    pub output: Option<TaskResult>,
    /// Number of its latest event.
    pub event_seq: u32,
}

impl Task {
    /// The kind of media that it makes.
    pub const fn kind(&self) -> MediaKind {
        self.payload.kind()
    }

    /// Whether it waits for approval: until then nothing of it is begun or sent.
    pub fn awaits_approval(&self) -> bool {
        self.approval
            .is_some_and(|approval| approval.state == ApprovalState::Pending)
    }

    /// The reservation while the task is open, then what was charged. A cancelled task whose
    /// provider's job continues is not charged yet: whether it will be is decided when the job
    /// ends.
    pub fn charged_or_reserved(&self) -> MicroDollars {
        if self.state.is_terminal() && self.money == ChargeState::Held {
            MicroDollars::ZERO
        } else {
            self.cost
        }
    }
}

/// One change of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskEvent {
    /// Counts from 1 within the task.
    pub seq: u32,
    /// The state after the change.
    pub state: TaskState,
    /// The progress after the change.
    pub progress: u8,
}
