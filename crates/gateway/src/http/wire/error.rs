//! The one body of all errors.

use serde::Serialize;
use utoipa::ToSchema;

/// The body of every error.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorObject,
}

/// What went wrong.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorObject {
    /// For people; names all faults that were found.
    pub message: String,
    /// Family of the error, such as `invalid_request_error`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Path of the first field at fault, where one applies.
    #[schema(required = true)]
    pub param: Option<String>,
    /// Stable name of the error.
    pub code: &'static str,
    /// To be quoted when asking for support.
    pub request_id: String,
    /// The task that the error is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
}
