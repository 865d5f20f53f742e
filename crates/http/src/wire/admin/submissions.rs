//! Submissions to providers as an operator sees them.

use serde::Serialize;
use utoipa::ToSchema;

use super::providers::RouteErrorObject;
use mediagate_model::clock::Timestamp;
use mediagate_model::submission::SubmissionRecord;

/// What was sent to a provider for a task.
#[derive(Debug, Serialize, ToSchema)]
pub struct SubmissionObject {
    /// The submission's id; also the key by which providers know it again.
    pub id: String,
    /// Always `submission`.
    pub object: &'static str,
    /// The task that it is for.
    pub task_id: String,
    /// The handle of the account.
    pub account: String,
    /// Counts from 1 for each task.
    pub attempt: u32,
    /// The operator's name for the provider.
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    /// `intended`, `accepted`, `refused`, `unclear`: nobody knows whether the provider took it;
    /// `found`: it was unclear, and the provider has the job after all; or `ended`.
    pub state: &'static str,
    /// When it was sent, or about to be.
    pub sent_at: String,
    /// When the provider took it.
    #[schema(required = true)]
    pub accepted_at: Option<String>,
    /// What went wrong.
    #[schema(required = true)]
    pub error: Option<RouteErrorObject>,
    /// The provider's name for the job, as far as it is known.
    #[schema(required = true)]
    pub job: Option<String>,
    /// How the task ended, or what it does now.
    pub task_status: &'static str,
}

impl SubmissionObject {
    pub fn new(record: &SubmissionRecord) -> Self {
        let submission = &record.submission;
        let error = record.error.as_ref();
        let job = submission.handle.as_ref();
        Self {
            id: submission.id.to_string(),
            object: "submission",
            task_id: submission.task.to_string(),
            account: record.account.clone(),
            attempt: submission.attempt,
            provider: submission.provider.clone(),
            model: submission.route_model.clone(),
            state: submission.state.name(),
            sent_at: submission.created_at.rfc3339(),
            accepted_at: submission.accepted_at.map(Timestamp::rfc3339),
            error: error.map(|(class, message)| RouteErrorObject {
                class: class.clone(),
                message: message.clone(),
                at: submission.created_at.rfc3339(),
            }),
            job: job.and_then(|handle| handle.0["id"].as_str().map(ToOwned::to_owned)),
            task_status: record.task_state.name(),
        }
    }
}
