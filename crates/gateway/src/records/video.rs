//! The file of a video, as every API shows it.

use serde::Serialize;
use utoipa::ToSchema;

use crate::clock::Timestamp;
use crate::engines::label;
use crate::model::media::MediaType;
use crate::model::task::{Output, Payload, Task};
use crate::records::Base;
use crate::records::provenance::ProvenanceView;

/// A finished video.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct VideoFile {
    /// `video_` and the task's id without dashes.
    pub id: String,
    /// Plays in a browser and needs no header; empty once removed.
    pub url: String,
    /// Always `video/mp4`.
    pub mime_type: &'static str,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Measured length in seconds.
    pub seconds: f64,
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the file, in lower-case hex.
    pub sha256: String,
    /// When the file is removed.
    pub expires_at: String,
    /// Whether it has been removed.
    pub removed: bool,
    /// What the file says of its origin; null if it was made before that was looked at.
    #[schema(required = true)]
    pub provenance: Option<ProvenanceView>,
    /// What a screen reader says of the visible label, if the film has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_text: Option<&'static str>,
    /// URL of the first frame, if there is one; empty once removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poster_url: Option<String>,
}

impl VideoFile {
    /// The file of a finished video task; `None` for any other.
    pub fn of(base: &Base, task: &Task) -> Option<Self> {
        let Some(Output::VideoV1(video)) = &task.output else {
            return None;
        };
        let is_labelled = matches!(&task.payload, Payload::VideoV1(job) if job.label);
        let expires_at = Timestamp::from_micros(video.expires_at_micros);
        let removed = base.is_past(expires_at);
        let address = |id, media| {
            if removed {
                String::new()
            } else {
                base.media(id, media, Some(expires_at))
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "a video's length is small")]
        let seconds = video.milliseconds as f64 / 1000.0;
        Some(Self {
            id: task.id.video(),
            url: address(video.video, MediaType::Mp4),
            mime_type: MediaType::Mp4.mime(),
            width: video.width,
            height: video.height,
            seconds,
            bytes: video.size_bytes,
            sha256: video.sha256.clone(),
            expires_at: expires_at.rfc3339(),
            removed,
            provenance: video.provenance.as_ref().map(ProvenanceView::new),
            label_text: is_labelled.then_some(label::TEXT),
            poster_url: video.poster.map(|poster| address(poster, MediaType::Jpeg)),
        })
    }
}
