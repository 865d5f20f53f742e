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
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorObject {
    /// Human-readable; lists every mistake found.
    pub message: String,
    /// Family of the error, for example `invalid_request_error`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Path of the first invalid field, if one applies.
    #[schema(required = true)]
    pub param: Option<String>,
    /// Stable error code.
    pub code: &'static str,
    /// Quote this when asking for support.
    pub request_id: String,
    /// The task that the error is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
}
