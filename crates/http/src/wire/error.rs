//! The body of all errors.

use serde::Serialize;
use utoipa::ToSchema;

/// The body of every error.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorObject,
}

/// An error.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ErrorObject {
    /// Human-readable message. Lists every mistake found in the request.
    pub message: String,
    /// Error type, for example `invalid_request_error`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Path of the first invalid field. Null if no field applies.
    #[schema(required = true)]
    pub param: Option<String>,
    /// Stable error code.
    pub code: &'static str,
    /// Id of the request. Include it in support requests.
    pub request_id: String,
    /// Id of the task, if the error concerns a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
}
