//! Submissions to providers as an operator sees them.

use serde::Serialize;
use utoipa::ToSchema;

use super::providers::RouteErrorObject;
use mediagate_model::clock::Timestamp;
use mediagate_model::submission::SubmissionRecord;

/// A submission of a task to a provider.
#[derive(Debug, Serialize, ToSchema)]
pub struct SubmissionObject {
    /// The submission's id. It is also the idempotency key for providers that support one.
    pub id: String,
    /// Always `submission`.
    pub object: &'static str,
    /// The id of the task.
    pub task_id: String,
    /// The handle of the account.
    pub account: String,
    /// Number of the attempt within the task, starting at 1.
    pub attempt: u32,
    /// Name of the provider in the configuration.
    pub provider: String,
    /// The provider's own model name.
    pub model: String,
    /// `intended`, `accepted`, `refused`, `unclear`, `found` or `ended`. `unclear`: it is unknown
    /// whether the provider accepted it. `found`: it was unclear, but the provider has the job
    /// after all.
    pub state: &'static str,
    /// Time of the submission.
    pub sent_at: String,
    /// Time when the provider accepted it.
    #[schema(required = true)]
    pub accepted_at: Option<String>,
    /// The error, if there was one.
    #[schema(required = true)]
    pub error: Option<RouteErrorObject>,
    /// The provider's id of the job, if known: the one that the provider told, or else the one that
    /// an operator found.
    #[schema(required = true)]
    pub job: Option<String>,
    /// Time when an operator resolved it. Null: nobody has.
    #[schema(required = true)]
    pub resolved_at: Option<String>,
    /// The operator's reason.
    #[schema(required = true)]
    pub resolved_note: Option<String>,
    /// The job that the operator named, if any.
    #[schema(required = true)]
    pub resolved_job: Option<String>,
    /// Current status of the task.
    pub task_status: &'static str,
}

impl SubmissionObject {
    pub fn new(record: &SubmissionRecord) -> Self {
        let submission = &record.submission;
        let error = record.error.as_ref();
        let resolution = record.resolution.as_ref();
        let resolved_job = resolution.and_then(|resolution| resolution.job.clone());
        let handle = submission.handle.as_ref();
        let job = handle.and_then(|handle| handle.0["id"].as_str().map(ToOwned::to_owned));
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
            job: job.or_else(|| resolved_job.clone()),
            resolved_at: resolution.map(|resolution| resolution.at.rfc3339()),
            resolved_note: resolution.map(|resolution| resolution.note.clone()),
            resolved_job,
            task_status: record.task_state.name(),
        }
    }
}
