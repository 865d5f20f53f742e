//! The file of a video, as every API shows it.

use serde::Serialize;
use utoipa::ToSchema;

use crate::records::Links;
use crate::records::provenance::ProvenanceView;
use mediagate_media::engines::label;
use mediagate_model::clock::Timestamp;
use mediagate_model::media::MediaType;
use mediagate_model::task::{LinkOutput, Task, TaskPayload, TaskResult, VideoOutput};

/// A finished video.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct VideoFile {
    /// `video_` followed by the task's id without dashes.
    pub id: String,
    /// URL of the video. It plays in a browser and needs no authorization. Empty after the file was
    /// removed.
    pub url: String,
    /// True if `url` is the provider's own URL and no copy is stored; otherwise absent. Width,
    /// height and seconds are then the requested values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linked: Option<bool>,
    /// Media type: `video/mp4`, or that of another container if the provider delivered one, such as
    /// `video/webm`.
    pub mime_type: &'static str,
    /// Codec of the pictures: `h264`, `hevc`, `vvc`, `av1`, `vp9`, `vp8`, `mpeg4`, `mpeg2`, `prores`,
    /// `mjpeg`, `theora`, `gif` or `webp`. Null if it is unknown or no copy is stored.
    #[schema(required = true)]
    pub codec: Option<String>,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Measured length, in seconds.
    pub seconds: f64,
    /// Size of the file in bytes. Null if no copy is stored.
    #[schema(required = true)]
    pub bytes: Option<u64>,
    /// SHA-256 hash of the file, in lower-case hex. Null if no copy is stored.
    #[schema(required = true)]
    pub sha256: Option<String>,
    /// Time when the file is removed or the provider's URL expires. Null if the provider's URL
    /// states no expiry.
    #[schema(required = true)]
    pub expires_at: Option<String>,
    /// Whether the file was removed.
    pub removed: bool,
    /// Provenance information in the file. Null if no copy is stored.
    #[schema(required = true)]
    pub provenance: Option<ProvenanceView>,
    /// Alternative text of the visible label, for screen readers. Present if the video has a label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_text: Option<&'static str>,
    /// URL of the first frame, if there is one. Empty after it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poster_url: Option<String>,
}

impl VideoFile {
    /// The file of a finished video task; `None` for any other.
    pub fn of_task(links: &Links, task: &Task) -> Option<Self> {
        match task.output.as_ref()? {
            TaskResult::VideoV1(video) => Some(Self::stored(links, task, video)),
            TaskResult::LinkV1(link) => Some(Self::linked(links, task, link)),
            TaskResult::ClipsV1 { .. } => None,
        }
    }

    fn stored(links: &Links, task: &Task, video: &VideoOutput) -> Self {
        let is_labelled = matches!(&task.payload, TaskPayload::VideoV1(job) if job.options.label);
        let expires_at = Timestamp::from_micros(video.expires_at_micros);
        // Decided by the time and not by the file: upkeep removes the file a little later.
        let removed = links.is_past(expires_at);
        let url = |id, media| {
            if removed {
                String::new()
            } else {
                links.made_media(id, media, Some(expires_at))
            }
        };
        Self {
            id: task.id.video(),
            url: url(video.video, video.media),
            mime_type: video.media.mime(),
            codec: video.codec.as_deref().map(str::to_owned),
            width: video.width,
            height: video.height,
            linked: None,
            seconds: seconds(video.milliseconds),
            bytes: Some(video.size_bytes),
            sha256: Some(video.sha256.clone()),
            expires_at: Some(expires_at.rfc3339()),
            removed,
            provenance: video.provenance.as_ref().map(ProvenanceView::new),
            label_text: is_labelled.then_some(label::TEXT),
            poster_url: video.poster.map(|poster| url(poster, MediaType::Jpeg)),
        }
    }

    fn linked(links: &Links, task: &Task, link: &LinkOutput) -> Self {
        let expires_at = link.expires_at_micros.map(Timestamp::from_micros);
        let removed = expires_at.is_some_and(|at| links.is_past(at));
        Self {
            id: task.id.video(),
            // This URL needs no signature, so it is withheld like a signed one.
            url: if removed || !links.shows_made() {
                String::new()
            } else {
                link.url.clone()
            },
            linked: Some(true),
            mime_type: media_of_url(&link.url).mime(),
            codec: None,
            width: link.width,
            height: link.height,
            seconds: seconds(link.milliseconds),
            bytes: None,
            sha256: None,
            expires_at: expires_at.map(Timestamp::rfc3339),
            removed,
            provenance: None,
            label_text: None,
            poster_url: None,
        }
    }
}

/// The container of a film that is not stored here, by the extension in its URL; MP4 if there is
/// none.
fn media_of_url(url: &str) -> MediaType {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let extension = path.rsplit_once('.').map(|(_, extension)| extension);
    let media = extension.and_then(|extension| extension.to_lowercase().parse().ok());
    media
        .filter(|media: &MediaType| media.mime().starts_with("video/"))
        .unwrap_or(MediaType::Mp4)
}

#[expect(clippy::cast_precision_loss, reason = "a video's length is small")]
fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}
