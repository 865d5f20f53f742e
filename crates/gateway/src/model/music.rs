//! Music: clips, stem groups and personas.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::ids::{AccountId, AssetId, ClipId, PersonaId, TaskId};
use crate::model::task::{Payload, StemTarget};

pub use providers::StemGroup;
pub use providers::order::plain;

/// Where a clip came from.
#[derive(Debug, Clone, PartialEq)]
pub enum ClipOrigin {
    /// The caller uploaded it.
    Upload,
    /// A task separates it from another clip.
    Stem {
        /// The task.
        task: TaskId,
        /// The clip it is taken from.
        source: ClipId,
        /// What it holds.
        target: StemTarget,
    },
    /// A task makes it anew.
    Song {
        /// The task.
        task: TaskId,
    },
}

impl ClipOrigin {
    /// The task that makes it.
    pub const fn task(&self) -> Option<TaskId> {
        match self {
            Self::Upload => None,
            Self::Stem { task, .. } | Self::Song { task } => Some(*task),
        }
    }
}

/// What the provider that made a clip calls it and says of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClipUpstream {
    /// The provider, by the operator's name for it.
    pub provider: String,
    /// The credential that it was made with.
    pub credential: String,
    /// The clip there.
    pub clip_id: String,
    /// The task there.
    pub task_id: Option<String>,
    /// Style.
    pub tags: String,
    /// Lyrics or prompt.
    pub prompt: String,
    /// The provider's own video of it; empty when there is none.
    pub video_url: String,
    /// The provider's name for the model.
    pub model_name: String,
}

/// What a provider calls a persona.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonaUpstream {
    /// The provider, by the operator's name for it.
    pub provider: String,
    /// The credential that it was made with.
    pub credential: String,
    /// The persona there.
    pub persona_id: String,
}

/// Where a clip stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClipState {
    /// Its task has not begun.
    Queued,
    /// Its task is at work.
    Running,
    /// It can be played.
    Complete,
    /// Its task failed or was cancelled.
    Failed,
}

/// The files of a complete clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClipMedia {
    /// 24-bit FLAC.
    pub audio: AssetId,
    /// Cover, small.
    pub image: AssetId,
    /// Cover, large.
    pub image_large: AssetId,
    /// Measured length in milliseconds.
    pub milliseconds: u64,
    /// When the files are removed.
    pub expires_at: Option<Timestamp>,
}

/// A piece of music.
#[derive(Debug, Clone, PartialEq)]
pub struct Clip {
    /// Names it.
    pub id: ClipId,
    /// Whose it is.
    pub account: AccountId,
    /// Where it came from.
    pub origin: ClipOrigin,
    /// What was asked for, where the task that made it is no longer kept.
    pub past_payload: Option<Payload>,
    /// Name for people.
    pub title: String,
    /// The model that made it; empty for an upload.
    pub model: String,
    /// The model's name as the caller wrote it.
    pub asked_model: String,
    /// Where it stands.
    pub state: ClipState,
    /// Its files, once complete.
    pub media: Option<ClipMedia>,
    /// Whether the files were removed when their time was over.
    pub media_removed: bool,
    /// Whether it is in the trash.
    pub is_trashed: bool,
    /// Why its task failed.
    pub failure: Option<(String, String)>,
    /// What its provider calls it and says of it.
    pub upstream: Option<ClipUpstream>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A voice or style made of clips.
#[derive(Debug, Clone, PartialEq)]
pub struct Persona {
    /// Names it.
    pub id: PersonaId,
    /// Whose it is.
    pub account: AccountId,
    /// Name for people.
    pub name: String,
    /// What it is like.
    pub description: String,
    /// Its drawn picture.
    pub image: AssetId,
    /// The clip that it is made from.
    pub root_clip: ClipId,
    /// All its clips, the root first.
    pub clips: Vec<ClipId>,
    /// Whether its owner wants it public.
    pub is_public: bool,
    /// Whether the operator agreed.
    pub is_public_approved: bool,
    /// What its provider calls it.
    pub upstream: Option<PersonaUpstream>,
    /// When it was made.
    pub created_at: Timestamp,
}
