//! Jobs at providers: their handles, the kinds of their outputs, and how long they were watched.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::order::{SongSpec, StemTarget};

/// Identifies a job at its provider; stored with the task, so that work continues after a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobHandle(pub Value);

impl JobHandle {
    /// The text in a field of the handle; empty if there is none.
    pub fn text(&self, field: &str) -> &str {
        self.0
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// What identifies the job itself: the handle without what it repeats of the order (`song`,
    /// `stems`).
    pub fn identity(&self) -> Value {
        let mut identity = self.0.clone();
        if let Some(fields) = identity.as_object_mut() {
            fields.retain(|name, _| !["song", "stems"].contains(&name.as_str()));
        }
        identity
    }

    /// The kind of the job's output, if there is one output: the song whose facts are in the field
    /// `song`, otherwise a video.
    pub fn output_kind(&self) -> OutputKind {
        let facts = self.0.get("song").cloned();
        let facts = facts.and_then(|facts| serde_json::from_value(facts).ok());
        facts.map_or(OutputKind::Video, OutputKind::Clip)
    }
}

/// The kinds of outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputKind {
    /// The video.
    Video,
    /// A part of the recording.
    Stem(StemTarget),
    /// A clip of the music API: the provider's own record of it.
    Clip(Box<ClipFacts>),
    /// A clip of the music API that the provider failed to make, while it made others.
    FailedClip {
        /// Its stem, if it should have been one.
        stem: Option<StemTarget>,
        /// Why, in the provider's words.
        reason: String,
    },
    /// A persona: the provider's id and its own record.
    Persona {
        /// Its id at the provider.
        id: String,
        /// The unchanged record.
        record: Value,
    },
}

/// A clip of the music API as its provider describes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClipFacts {
    /// Its id at the provider.
    pub id: String,
    /// The provider's task that made it.
    pub task_id: Option<String>,
    /// Display name.
    pub title: String,
    /// Its stem, if it is one.
    pub stem: Option<StemTarget>,
    /// Style, as `metadata.tags`.
    pub tags: String,
    /// Lyrics or prompt, as `metadata.prompt`.
    pub prompt: String,
    /// URL of the provider's own video; empty if there is none.
    pub video_url: String,
    /// The provider's name for the model that made it.
    pub model_name: String,
}

impl ClipFacts {
    /// The facts of a song without a record at its provider.
    pub fn from_song(song: &SongSpec, model: &str) -> Self {
        let text = |field| song.text(field).unwrap_or_default().to_owned();
        Self {
            title: text("title"),
            tags: text("tags"),
            prompt: song
                .lyrics()
                .map_or_else(|| song.description(), str::to_owned),
            model_name: model.to_owned(),
            ..Self::default()
        }
    }
}

/// The observation of a job during a time window.
#[derive(Debug, Clone, Copy)]
pub struct DurationSample {
    /// Its age when the window began, or zero.
    pub from: Duration,
    /// Its age when it ended or was last seen.
    pub until: Duration,
    pub has_ended: bool,
}
