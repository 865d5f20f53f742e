//! Responses of the `OpenAI` Videos API.

use serde::Serialize;
use utoipa::ToSchema;

use mediagate_core::records::status_words;
use mediagate_core::records::video::VideoFile;
use mediagate_model::task::{Task, TaskPayload, TaskResult, TaskState};

/// A video job, in the form that `OpenAI` SDKs expect.
#[derive(Debug, Serialize, ToSchema)]
pub struct VideoObject {
    /// `video_` followed by the task's id without dashes.
    pub id: String,
    /// Always `video`.
    pub object: &'static str,
    /// The model.
    pub model: String,
    /// `queued`, `in_progress`, `completed` or `failed`.
    pub status: &'static str,
    /// Progress in percent, 0–100.
    pub progress: u8,
    /// Time of creation, in Unix seconds.
    pub created_at: i64,
    /// Time of completion, in Unix seconds.
    #[schema(required = true)]
    pub completed_at: Option<i64>,
    /// Time when the file is removed, in Unix seconds.
    #[schema(required = true)]
    pub expires_at: Option<i64>,
    /// The prompt.
    #[schema(required = true)]
    pub prompt: Option<String>,
    /// Length in seconds, as a string.
    pub seconds: String,
    /// Width and height in pixels, for example `1280x720`.
    pub size: String,
    /// Always null: remixes are not supported.
    #[schema(required = true)]
    pub remixed_from_video_id: Option<String>,
    /// Why the video failed. Null otherwise.
    #[schema(required = true)]
    pub error: Option<VideoError>,
    /// The finished file. An extension of the `OpenAI` API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoFile>,
}

/// Why a video failed.
#[derive(Debug, Serialize, ToSchema)]
pub struct VideoError {
    /// Stable error code.
    pub code: &'static str,
    /// Human-readable message.
    pub message: String,
}

/// A deleted video.
#[derive(Debug, Serialize, ToSchema)]
pub struct VideoDeleted {
    /// The video's id.
    pub id: String,
    /// Always `video.deleted`.
    pub object: &'static str,
    /// Always true.
    pub deleted: bool,
}

impl VideoObject {
    /// `None` for a task of another kind.
    pub fn new(task: &Task, file: Option<VideoFile>) -> Option<Self> {
        let TaskPayload::VideoV1(job) = &task.payload else {
            return None;
        };
        Some(Self {
            id: task.id.video(),
            object: "video",
            model: task.model.clone(),
            status: status_words::video(task.state),
            progress: task.progress,
            created_at: task.created_at.seconds(),
            completed_at: task
                .finished_at
                .filter(|_| task.state == TaskState::Succeeded)
                .map(mediagate_model::clock::Timestamp::seconds),
            expires_at: expiry_seconds(task),
            prompt: Some(job.prompt.clone()),
            seconds: seconds_text(job.milliseconds),
            size: format!("{}x{}", job.width, job.height),
            remixed_from_video_id: None,
            error: task.failure.as_ref().map(|failure| VideoError {
                code: failure.code.name(),
                message: failure.message.clone(),
            }),
            video: file,
        })
    }
}

/// Time when a video's file is removed, in Unix seconds; `None` if there is none or it is not known.
pub(super) fn expiry_seconds(task: &Task) -> Option<i64> {
    let micros = match task.output.as_ref()? {
        TaskResult::VideoV1(output) => Some(output.expires_at_micros),
        TaskResult::LinkV1(output) => output.expires_at_micros,
        TaskResult::ClipsV1 { .. } => None,
    };
    micros.map(|micros| micros.div_euclid(1_000_000))
}

/// The length in seconds: `4` or `4.5`.
fn seconds_text(milliseconds: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a video's length is small")]
    let seconds = milliseconds as f64 / 1000.0;
    seconds.to_string()
}
