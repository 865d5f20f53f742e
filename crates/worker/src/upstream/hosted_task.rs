//! A task of a hosted provider while this process works on it, and what the steps of
//! that hand to each other. Knows none of the steps.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use providers::{ErrorClass, JobHandle, JobOutput, Order, ProviderCost, ProviderError};
use tokio::time::Instant;

use crate::WorkerContext;
use crate::finish::{RunOutcome, SubmissionClose};
use crate::runs::TaskRun;
use mediagate_core::upstream::{OpenJob, ProviderCredential, ProviderSite, Upstream};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::SubmissionId;
use mediagate_model::submission::{Submission, SubmissionState};
use mediagate_model::task::Task;
use mediagate_store::submissions::JobAcceptance;

/// A task that this process holds, and what it takes to work on it.
pub(super) struct HostedTask<'a> {
    pub(super) crew: &'a WorkerContext,
    pub(super) task: &'a Task,
    pub(super) run: &'a TaskRun,
    /// Whether nothing was ever submitted for it, for certain.
    pub(super) is_new: bool,
    /// When a poll first showed that the job has ended.
    pub(super) end_seen_at: OnceLock<Instant>,
    /// A provider's "yes" that is written with the end of the task.
    pub(super) pending_acceptance: OnceLock<PendingAcceptance>,
}

/// A provider took the submission and brought this; the database does not know it yet.
pub(super) struct PendingAcceptance {
    pub(super) submission: SubmissionId,
    pub(super) provider: String,
    pub(super) brought: JobAcceptance,
}

/// A submission that a provider took.
pub(super) struct AcceptedJob {
    /// As it was when it was made or taken up.
    pub(super) submission: Submission,
    pub(super) site: Arc<ProviderSite>,
    pub(super) credential: Arc<ProviderCredential>,
    pub(super) route_model: String,
    pub(super) accepted_at: Timestamp,
    pub(super) result: Result<JobHandle, Vec<JobOutput>>,
    /// Whether that is on disk.
    pub(super) is_persisted: bool,
    /// What the submission is in the database.
    pub(super) state: SubmissionState,
    /// What the provider says that the job cost.
    pub(super) cost: Option<ProviderCost>,
    /// When the provider wants to be asked first.
    pub(super) poll_after: Option<Duration>,
    /// Whether another run had it before: nobody knows when it was asked for last.
    pub(super) is_resumed: bool,
    pub(super) _open: OpenJob,
}

/// How working on a task ended.
pub(super) type RunEnding = (RunOutcome, Option<SubmissionClose>);

impl AcceptedJob {
    /// The provider as the settings have it now, if it is still where and with what the job was made.
    pub(super) fn refresh(&mut self, upstream: &Upstream) {
        let sites = upstream.sites();
        let site = sites.get(self.site.provider.name());
        let credential = site.and_then(|site| site.credential_of(&self.submission));
        // If they are gone from the settings, the job goes on with those that it was made with.
        if let (Some(site), Some(credential)) = (site, credential) {
            (self.site, self.credential) = (site.clone(), credential.clone());
        }
    }
}

/// What came of offering the task to a provider.
pub(super) enum RouteAttempt {
    Accepted(Box<AcceptedJob>),
    Declined(DeclineReason),
}

/// Why sending did not come to an [`RouteAttempt`].
pub(super) enum SendFailure {
    Ended(RunEnding),
    /// Nobody saw whether the provider took it, for this reason.
    Unclear(String),
}

impl From<RunEnding> for SendFailure {
    fn from(ended: RunEnding) -> Self {
        Self::Ended(ended)
    }
}

/// Why a route did not take the task.
pub(super) enum DeclineReason {
    /// It is down, busy, or being tried by another task.
    Closed,
    /// It has no room.
    Full,
    /// Its provider took nothing, and another may.
    Refused(ProviderError),
}

/// A submission and what it was sent with.
#[derive(Clone, Copy)]
pub(super) struct SentOrder<'a> {
    pub(super) site: &'a Arc<ProviderSite>,
    pub(super) credential: &'a Arc<ProviderCredential>,
    pub(super) order: &'a Order,
    pub(super) submission: &'a Submission,
    /// Whether this run makes the submission and has yet to write it down. If
    /// not, its row exists already, and the order is repeated or looked for.
    pub(super) is_own: bool,
}

pub(super) fn internal_ending(error: &Error) -> RunEnding {
    tracing::error!(inside = ?error.internal_cause(), "cannot work on a task");
    // The database or the files are in trouble, not the task.
    (RunOutcome::RetryLater(Duration::from_secs(2)), None)
}

/// Nobody can tell whether the provider took it: nothing is charged, and
/// nothing is sent again. It may be looked for at the provider later.
pub(super) fn unconfirmed(
    submission: &Submission,
    why: &str,
    look_again: Option<Timestamp>,
) -> RunEnding {
    metrics::counter!("mediagate_submissions_unconfirmed_total").increment(1);
    tracing::error!(submission_id = %submission.id, why, "submission unconfirmed");
    let message = "It is unknown whether the provider accepted the task, so it was not sent again. Nothing was charged.";
    // A submission that is closed already keeps its state.
    let closing = submission.state.is_open().then(|| SubmissionClose {
        id: submission.id,
        from: submission.state,
        state: SubmissionState::Unclear,
        error: Some(("unclear", why.to_owned())),
        cost: None,
        look_again,
    });
    (
        RunOutcome::failed(ErrorCode::SubmissionUnconfirmed, message),
        closing,
    )
}

/// A provider's error as the caller is told of it.
pub(super) fn failure(error: &ProviderError) -> RunOutcome {
    let said = error.message.trim_end_matches('.');
    match error.class {
        ErrorClass::Refused => RunOutcome::failed(
            ErrorCode::ContentPolicy,
            format!("The model's provider refuses this content: {said}. Nothing was charged."),
        ),
        // A code that clients do not retry: the same order would fail again.
        ErrorClass::Rejected | ErrorClass::Unfit => RunOutcome::failed(
            ErrorCode::ProviderRejected,
            format!("The model's provider rejected the request: {said}. Nothing was charged."),
        ),
        ErrorClass::Lost | ErrorClass::Missing => RunOutcome::failed(
            ErrorCode::GenerationFailed,
            format!("The model's provider lost the task: {said}. Nothing was charged."),
        ),
        _ => RunOutcome::failed(
            ErrorCode::GenerationFailed,
            format!("The model failed at this task: {said}. Nothing was charged."),
        ),
    }
}
