//! Music: clips, stem groups and personas.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::ids::{AccountId, AssetId, ClipId, PersonaId, TaskId};
use crate::media::MediaType;
use crate::provenance::Provenance;
use crate::task::{StemTarget, TaskPayload};

pub use orders::StemGroup;
pub use orders::order::normalize_name;

#[derive(Debug, Clone, PartialEq)]
pub enum ClipOrigin {
    Upload,
    /// A task separates it from another clip.
    Stem {
        task: TaskId,
        /// The clip it is separated from.
        source: ClipId,
        /// The stem.
        target: StemTarget,
    },
    /// A task generates it.
    Song {
        task: TaskId,
    },
}

impl ClipOrigin {
    /// The task that makes it; `None` for an upload.
    pub const fn task(&self) -> Option<TaskId> {
        match self {
            Self::Upload => None,
            Self::Stem { task, .. } | Self::Song { task } => Some(*task),
        }
    }
}

/// What the provider that made a clip, or failed to, reports about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClipUpstream {
    /// The operator's name for the provider.
    pub provider: String,
    /// Id of the credential it was made with: `upstream::ProviderCredential::id`.
    pub credential: String,
    /// The provider's id of the clip.
    pub clip_id: String,
    /// The provider's id of the task.
    pub task_id: Option<String>,
    pub tags: String,
    /// Lyrics or prompt.
    pub prompt: String,
    /// The provider's own video of it; empty if none.
    pub video_url: String,
    /// The provider's name for the model.
    pub model_name: String,
    /// Why it did not make the clip, as a message for callers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A persona at a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonaUpstream {
    /// The operator's name for the provider.
    pub provider: String,
    /// Id of the credential it was made with: `upstream::ProviderCredential::id`.
    pub credential: String,
    /// The provider's id of the persona.
    pub persona_id: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClipState {
    /// Its task has not started.
    Queued,
    /// Its task is running.
    Running,
    Complete,
    /// Its task failed or was cancelled.
    Failed,
}

/// The files of a complete clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClipMedia {
    pub audio: AssetId,
    pub audio_type: MediaType,
    /// Cover, small.
    pub image: AssetId,
    /// The large cover.
    pub image_large: AssetId,
    /// Measured length.
    pub milliseconds: u64,
    /// When the files are removed.
    pub expires_at: Option<Timestamp>,
}

/// What a stored recording says differently from the file that was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingNotes {
    /// By how much all of it was made quieter, because it was louder than full scale. Negative, in
    /// decibels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_db: Option<f64>,
    /// The parts that could not be read and are silent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<SilentSpan>,
}

impl RecordingNotes {
    /// The notes, if there are any.
    pub fn if_any(self) -> Option<Self> {
        (self.gain_db.is_some() || !self.damage.is_empty()).then_some(self)
    }
}

/// A part of a recording that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SilentSpan {
    /// In seconds.
    pub start_s: f64,
    /// In seconds. Equal to the start if the file ends there before the recording does.
    pub end_s: f64,
}

/// A piece of music.
#[derive(Debug, Clone, PartialEq)]
pub struct Clip {
    pub id: ClipId,
    pub account: AccountId,
    pub origin: ClipOrigin,
    /// The order, if the task that made it has been deleted.
    pub past_payload: Option<TaskPayload>,
    pub title: String,
    /// Empty for an upload.
    pub model: String,
    /// The model's name as the caller wrote it.
    pub asked_model: String,
    pub state: ClipState,
    /// `None` until complete.
    pub media: Option<ClipMedia>,
    /// Whether the files were removed because they expired.
    pub media_removed: bool,
    /// Whether it is in the trash.
    pub is_trashed: bool,
    /// Code and message of its task's failure.
    pub failure: Option<(String, String)>,
    pub upstream: Option<ClipUpstream>,
    /// The provenance of its recording; for an upload or a song, as it came in.
    pub provenance: Option<Provenance>,
    /// How the recording differs from the file that was read.
    pub notes: Option<RecordingNotes>,
    pub created_at: Timestamp,
}

/// A voice or style made from clips.
#[derive(Debug, Clone, PartialEq)]
pub struct Persona {
    pub id: PersonaId,
    pub account: AccountId,
    pub name: String,
    /// The caller's description.
    pub description: String,
    pub image: AssetId,
    /// The clip it is made from.
    pub root_clip: ClipId,
    /// All its clips, including the root, which comes first.
    pub clips: Vec<ClipId>,
    /// Whether its owner asked for it to be public.
    pub is_public: bool,
    /// Whether the operator approved that.
    pub is_public_approved: bool,
    pub upstream: Option<PersonaUpstream>,
    pub created_at: Timestamp,
}
