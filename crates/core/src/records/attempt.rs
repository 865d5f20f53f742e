//! Attempts at a task, as `GET /v1/tasks/{id}/attempts` shows them.

use providers::JobHandle;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::records::Links;
use crate::records::links::HIDDEN;
use mediagate_model::clock::Timestamp;
use mediagate_model::submission::{Submission, SubmissionEnd, SubmissionState};

/// One submission of a task to a provider.
#[derive(Debug, Serialize, ToSchema)]
pub struct AttemptView {
    /// The submission's id. It is also the idempotency key for providers that support one.
    pub id: String,
    /// Number of the attempt within the task, starting at 1.
    pub number: u32,
    /// The provider, or `hosted` if the operator does not show providers.
    pub provider: String,
    /// The provider's own model name. Null if the operator does not show providers.
    #[schema(required = true)]
    pub model: Option<String>,
    /// `sending`, `accepted`, `refused`, `unconfirmed`, `found`, `succeeded`, `failed` or
    /// `cancelled`. `found`: it was unconfirmed, but the provider has the job after all.
    pub status: &'static str,
    /// Time of the submission.
    pub sent_at: String,
    /// Time of the provider's response. Null if no response arrived.
    #[schema(required = true)]
    pub answered_at: Option<String>,
    /// Time of the end. Null while the provider may still work on it.
    #[schema(required = true)]
    pub ended_at: Option<String>,
    /// Why the attempt failed.
    #[schema(required = true)]
    pub error: Option<AttemptError>,
    /// The provider's id of the job. Null if there is none or the operator does not show providers.
    #[schema(required = true)]
    pub job_id: Option<String>,
}

/// Why an attempt failed.
#[derive(Debug, Serialize, ToSchema)]
pub struct AttemptError {
    /// Error class: `rate_limited`, `unavailable`, `unclear`, `credentials`, `account`, `rejected`,
    /// `refused`, `failed`, `unfit`, `lost`, `missing` or `held_back`.
    pub class: String,
    /// The provider's message, with secrets removed.
    pub message: String,
}

/// The class with which a submission of a cancelled task ends. It is not an error.
const CANCELLED: &str = "cancelled";

impl AttemptView {
    pub fn new(links: &Links, submission: &Submission, end: &SubmissionEnd) -> Self {
        let is_shown = links.shows_providers();
        let error = end.error.as_ref();
        let is_cancelled = error.is_some_and(|(class, _)| class == CANCELLED);
        let status = match submission.state {
            SubmissionState::Intended => "sending",
            SubmissionState::Accepted => "accepted",
            SubmissionState::Refused => "refused",
            SubmissionState::Found => "found",
            SubmissionState::Unclear => "unconfirmed",
            SubmissionState::Ended if is_cancelled => "cancelled",
            SubmissionState::Ended if error.is_some() => "failed",
            SubmissionState::Ended => "succeeded",
        };
        let error = error.filter(|_| !is_cancelled);
        Self {
            id: submission.id.to_string(),
            number: submission.attempt,
            provider: if is_shown {
                submission.provider.clone()
            } else {
                HIDDEN.to_owned()
            },
            model: is_shown.then(|| submission.route_model.clone()),
            status,
            sent_at: submission.created_at.rfc3339(),
            answered_at: end.answered_at.map(Timestamp::rfc3339),
            ended_at: end.ended_at.map(Timestamp::rfc3339),
            error: error.map(|(class, message)| AttemptError {
                class: class.clone(),
                message: message.clone(),
            }),
            job_id: submission
                .handle
                .as_ref()
                .filter(|_| is_shown)
                .and_then(job_id),
        }
    }
}

/// The job's id in a handle, which an operator can look for in the provider's own console.
fn job_id(handle: &JobHandle) -> Option<String> {
    let names = ["id", "request_id", "task_id", "name"];
    // A handle made by a recipe has its fields one level deeper, in `kept`.
    let objects = [Some(&handle.0), handle.0.get("kept")];
    let values = objects.into_iter().flatten();
    let values = values
        .flat_map(|object| names.iter().map(move |name| object.get(*name)))
        .find_map(|value| value);
    match values? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
