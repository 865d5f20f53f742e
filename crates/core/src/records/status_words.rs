//! Status words of each API for a task's state, in one table.

use mediagate_model::music::ClipState;
use mediagate_model::task::TaskState;

/// A task's state in the `OpenAI` Videos API. Cancelled is `failed`, with the reason in
/// `error.code`.
pub const fn video(state: TaskState) -> &'static str {
    match state {
        TaskState::Queued => "queued",
        TaskState::Running => "in_progress",
        TaskState::Succeeded => "completed",
        TaskState::Failed | TaskState::Cancelled => "failed",
    }
}

/// A task's state in `OpenRouter`'s video API.
pub const fn openrouter(state: TaskState) -> &'static str {
    match state {
        TaskState::Queued => "pending",
        TaskState::Running => "in_progress",
        TaskState::Succeeded => "completed",
        TaskState::Failed => "failed",
        TaskState::Cancelled => "cancelled",
    }
}

/// A clip's state in music records.
pub const fn clip(state: ClipState) -> &'static str {
    match state {
        ClipState::Queued => "queued",
        ClipState::Running => "streaming",
        ClipState::Complete => "complete",
        ClipState::Failed => "error",
    }
}

/// A task's state in music records.
pub const fn music(state: TaskState) -> &'static str {
    match state {
        TaskState::Queued => "queued",
        TaskState::Running => "streaming",
        TaskState::Succeeded => "complete",
        TaskState::Failed | TaskState::Cancelled => "error",
    }
}

/// A task's state in job records.
pub const fn job(state: TaskState) -> &'static str {
    match state {
        TaskState::Queued => "QUEUED",
        TaskState::Running => "IN_PROGRESS",
        TaskState::Succeeded => "SUCCESS",
        TaskState::Failed | TaskState::Cancelled => "FAILURE",
    }
}
