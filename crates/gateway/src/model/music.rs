//! Music: clips, stem groups and personas.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::ids::{AccountId, AssetId, ClipId, PersonaId, TaskId};
use crate::model::task::StemTarget;

/// The instrument groups of the music dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum StemGroup {
    Vocals,
    BackingVocals,
    Drums,
    Bass,
    Guitar,
    Keyboard,
    Percussion,
    Strings,
    Synth,
    Fx,
    Brass,
    Woodwinds,
}

impl StemGroup {
    /// Every group, in the order of a full split.
    pub const ALL: [Self; 12] = [
        Self::Vocals,
        Self::BackingVocals,
        Self::Drums,
        Self::Bass,
        Self::Guitar,
        Self::Keyboard,
        Self::Percussion,
        Self::Strings,
        Self::Synth,
        Self::Fx,
        Self::Brass,
        Self::Woodwinds,
    ];

    /// The name that callers see.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vocals => "Vocals",
            Self::BackingVocals => "Backing_Vocals",
            Self::Drums => "Drums",
            Self::Bass => "Bass",
            Self::Guitar => "Guitar",
            Self::Keyboard => "Keyboard",
            Self::Percussion => "Percussion",
            Self::Strings => "Strings",
            Self::Synth => "Synth",
            Self::Fx => "FX",
            Self::Brass => "Brass",
            Self::Woodwinds => "Woodwinds",
        }
    }

    /// Reads a name, without case and with `_`, space and `-` equal.
    pub fn from_name(text: &str) -> Option<Self> {
        let wanted = plain(text);
        Self::ALL
            .into_iter()
            .find(|group| plain(group.name()) == wanted)
    }
}

impl fmt::Display for StemGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name in the form in which names are compared.
pub fn plain(name: &str) -> String {
    name.trim().to_lowercase().replace(['_', '-'], " ")
}

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
    /// When it was made.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_names_are_compared_loosely() {
        for text in ["Backing_Vocals", "backing vocals", " BACKING-VOCALS "] {
            assert_eq!(StemGroup::from_name(text), Some(StemGroup::BackingVocals));
        }
        assert_eq!(StemGroup::from_name("fx"), Some(StemGroup::Fx));
        assert_eq!(StemGroup::from_name("Choir"), None);
    }

    #[test]
    fn the_rest_has_a_name_of_its_own() {
        assert_eq!(
            StemTarget::Without(StemGroup::Vocals).name(),
            "Instrumental"
        );
        assert_eq!(StemTarget::Without(StemGroup::Drums).name(), "No Drums");
    }
}
