//! Responses of the chat-completions API: complete, and in chunks.

use serde::Serialize;
use utoipa::ToSchema;

use super::error::ErrorObject;
use super::openrouter::OpenRouterErrorObject;
use mediagate_core::records::video::VideoFile;

/// Response to a request without `stream`.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChatCompletion {
    /// `chatcmpl-` and the id of the first task; another id if no video was made.
    pub id: String,
    /// Always `chat.completion`.
    pub object: &'static str,
    /// Time of creation, in Unix seconds.
    pub created: i64,
    /// The model name from the request.
    pub model: String,
    /// Changes only if the route, its version or its settings change.
    pub system_fingerprint: String,
    /// One choice per video, or per text reply if no video was made.
    pub choices: Vec<ChatChoice>,
    /// Token usage and cost.
    pub usage: ChatUsage,
    /// Requested videos that are missing from `choices`. Failed videos are not charged.
    /// `link_expired` means that the video was made but is no longer stored. Absent if none are
    /// missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<Vec<MissingChoice>>,
}

/// A requested video that cannot be delivered.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct MissingChoice {
    /// Index of the choice, starting at 0.
    pub index: u32,
    /// The id of its task.
    pub task_id: String,
    /// Stable error code.
    pub code: &'static str,
    /// Human-readable message.
    pub message: String,
}

/// One video or one text reply.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChatChoice {
    /// Index of the choice, starting at 0.
    pub index: u32,
    /// The message.
    pub message: ChatAnswer,
    /// `stop`, or `length` if a text reply was truncated because the token limit is too small for a
    /// video URL.
    pub finish_reason: &'static str,
}

/// The assistant's message.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChatAnswer {
    /// Always `assistant`.
    pub role: &'static str,
    /// The video's URL only, or a text reply if no video was made.
    pub content: String,
    /// The video file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoFile>,
}

/// Token usage and cost.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ChatUsage {
    /// Number of tokens in the prompt (`o200k_base`).
    pub prompt_tokens: u64,
    /// Number of tokens in the messages' `content`.
    pub completion_tokens: u64,
    /// Sum of prompt and completion tokens.
    pub total_tokens: u64,
    /// Details of the prompt tokens.
    pub prompt_tokens_details: PromptDetails,
    /// Details of the completion tokens.
    pub completion_tokens_details: CompletionDetails,
    /// Amount charged, in US dollars. A cancelled task whose provider may still complete the job
    /// is not charged yet, so it counts 0.
    pub cost: f64,
}

/// Details of the prompt tokens.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PromptDetails {
    /// Always 0.
    pub cached_tokens: u64,
}

/// Details of the completion tokens.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct CompletionDetails {
    /// Always 0.
    pub reasoning_tokens: u64,
    /// Total length of the videos, in seconds.
    pub video_seconds: f64,
}

/// A chunk of a streamed response.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ChatChunk {
    /// `chatcmpl-` and the id of the first task.
    pub id: String,
    /// Always `chat.completion.chunk`.
    pub object: &'static str,
    /// Time of creation, in Unix seconds.
    pub created: i64,
    /// The model name from the request.
    pub model: String,
    /// Changes only if the route, its version or its settings change.
    pub system_fingerprint: String,
    /// One choice. Empty in the usage chunk.
    pub choices: Vec<ChunkChoice>,
    /// The task's status and progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<ChunkTask>,
    /// Requested videos that cannot be delivered, in the last chunk of the choice that ends last.
    /// The same as in a response without `stream`. Absent if none are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<Vec<MissingChoice>>,
    /// Token usage and cost, in the usage chunk. Null in the other chunks if usage was requested at
    /// `/v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ChatUsage>)]
    pub usage: Option<Option<ChatUsage>>,
    /// Why the stream cannot continue, in its last chunk. Only at `/api/v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<OpenRouterErrorObject>,
}

/// A part of one choice's message.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ChunkChoice {
    /// Index of the choice, starting at 0.
    pub index: u32,
    /// New content.
    pub delta: ChunkDelta,
    /// In the last chunk of the choice: `stop` for a video, `error` if the video cannot be
    /// delivered, `length` for a truncated text reply.
    #[schema(required = true)]
    pub finish_reason: Option<&'static str>,
}

/// New content.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct ChunkDelta {
    /// Always `assistant`; only in the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// The video's URL, complete in one chunk; a text reply if no video is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The video file, in the same chunk as the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoFile>,
}

/// A task's status and progress.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ChunkTask {
    /// The id of the task.
    pub id: String,
    /// The task's status.
    pub status: &'static str,
    /// Progress in percent, 0–100.
    pub progress: u8,
    /// Why the choice has no video. Only with `finish_reason` `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorObject>,
}
