//! Responses of the chat-completions API: complete, and in chunks.

use serde::Serialize;
use utoipa::ToSchema;

use mediagate_core::records::video::VideoFile;

/// Response to a request without `stream`.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChatCompletion {
    /// `chatcmpl-` and the first task's id; another id if nothing was made.
    pub id: String,
    /// Always `chat.completion`.
    pub object: &'static str,
    /// Unix seconds.
    pub created: i64,
    /// The model as the request named it.
    pub model: String,
    /// Changes only with the route, its version or its settings.
    pub system_fingerprint: String,
    /// One per video, or per sentence if nothing was made.
    pub choices: Vec<ChatChoice>,
    /// What was used.
    pub usage: ChatUsage,
    /// Videos that were ordered and are not here: those that could not be made, which are not
    /// charged, and with `link_expired` those that were made and are no longer kept. Absent if
    /// there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<Vec<MissingChoice>>,
}

/// A video that is not here while others of its request are.
#[derive(Debug, Serialize, ToSchema)]
pub struct MissingChoice {
    /// Counts from 0.
    pub index: u32,
    /// The id of its task.
    pub task_id: String,
    /// Stable error code.
    pub code: &'static str,
    /// Human-readable message.
    pub message: String,
}

/// One video, or a sentence.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChatChoice {
    /// Counts from 0.
    pub index: u32,
    /// The video, or the sentence.
    pub message: ChatAnswer,
    /// `stop`; `length` after a sentence that was cut, because the address of a video has no room.
    pub finish_reason: &'static str,
}

/// A video as a message.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChatAnswer {
    /// Always `assistant`.
    pub role: &'static str,
    /// The video's URL and nothing else; a sentence if no video was made.
    pub content: String,
    /// The video's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoFile>,
}

/// Tokens, and the cost.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ChatUsage {
    /// Tokens of the prompt (`o200k_base`).
    pub prompt_tokens: u64,
    /// Tokens of the contents.
    pub completion_tokens: u64,
    /// Their sum.
    pub total_tokens: u64,
    /// Details of the prompt.
    pub prompt_tokens_details: PromptDetails,
    /// Details of the contents.
    pub completion_tokens_details: CompletionDetails,
    /// Dollars charged.
    pub cost: f64,
}

/// Details of the prompt.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PromptDetails {
    /// Always 0.
    pub cached_tokens: u64,
}

/// Details of the contents.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct CompletionDetails {
    /// Always 0.
    pub reasoning_tokens: u64,
    /// Seconds of video made.
    pub video_seconds: f64,
}

/// A chunk of a streamed answer.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ChatChunk {
    /// `chatcmpl-` and the first task's id.
    pub id: String,
    /// Always `chat.completion.chunk`.
    pub object: &'static str,
    /// Unix seconds.
    pub created: i64,
    /// The model as the request named it.
    pub model: String,
    /// Changes only with the route, its version or its settings.
    pub system_fingerprint: String,
    /// One, or none in the usage chunk.
    pub choices: Vec<ChunkChoice>,
    /// The task's state and progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<ChunkTask>,
    /// In the usage chunk; null in the others if usage was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ChatUsage>)]
    pub usage: Option<Option<ChatUsage>>,
}

/// A piece of one video's message.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ChunkChoice {
    /// Counts from 0.
    pub index: u32,
    /// New content.
    pub delta: ChunkDelta,
    /// `stop` in the last chunk of a video, `length` in that of a sentence.
    #[schema(required = true)]
    pub finish_reason: Option<&'static str>,
}

/// New content of a chunk.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct ChunkDelta {
    /// In the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// The video's URL, in one chunk; a sentence if no video is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The video's file, in the same chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoFile>,
}

/// A task's state and progress.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ChunkTask {
    /// The id of the task.
    pub id: String,
    /// Its state.
    pub status: &'static str,
    /// 0–100.
    pub progress: u8,
    /// Why it failed, if others of its request succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
