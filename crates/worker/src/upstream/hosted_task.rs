//! A task for a hosted provider while this process works on it, and the types that the steps of
//! this work share. This module depends on none of the steps.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use providers::driver::OrderAcceptance;
use providers::{Order, ProviderCost, ProviderError};
use tokio::time::Instant;

use crate::WorkerContext;
use crate::finish::{RunOutcome, SubmissionClose};
use crate::runs::TaskRun;
use mediagate_core::upstream::{OpenJob, ProviderCredential, ProviderSite, Upstream};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::submission::{Submission, SubmissionState};
use mediagate_model::task::Task;
use mediagate_store::submissions::JobAcceptance;
use mediagate_telemetry::counters;

/// A task that this process holds, with everything needed to work on it.
pub(super) struct HostedTask<'a> {
    pub(super) context: &'a WorkerContext,
    pub(super) task: &'a Task,
    pub(super) run: &'a TaskRun,
    /// Whether it is certain that nothing was ever submitted for the task.
    pub(super) is_new: bool,
    /// When a poll first showed that the job has ended.
    pub(super) end_seen_at: OnceLock<Instant>,
    /// A provider's acceptance that is written with the end of the task.
    pub(super) pending_acceptance: OnceLock<PendingAcceptance>,
}

/// A provider's acceptance of a submission, with its results, that is not yet in the database.
pub(super) struct PendingAcceptance {
    pub(super) submission: Submission,
    pub(super) acceptance: JobAcceptance,
}

/// A submission that a provider accepted.
pub(super) struct AcceptedJob {
    /// The submission as it was when it was created or resumed.
    pub(super) submission: Submission,
    pub(super) site: Arc<ProviderSite>,
    pub(super) credential: Arc<ProviderCredential>,
    pub(super) route_model: String,
    pub(super) accepted_at: Timestamp,
    pub(super) acceptance: OrderAcceptance,
    /// Whether the acceptance is on disk.
    pub(super) is_persisted: bool,
    /// The submission's state in the database.
    pub(super) state: SubmissionState,
    /// The job's cost as reported by the provider.
    pub(super) cost: Option<ProviderCost>,
    /// Whether another run had it before, so that the time of the last poll is unknown.
    pub(super) is_resumed: bool,
    pub(super) _open: OpenJob,
}

/// The outcome of the work on a task.
pub(super) type RunEnding = (RunOutcome, Option<SubmissionClose>);

impl AcceptedJob {
    /// Updates the provider from the current settings, if it still has the URL and the credential
    /// with which the job was made.
    pub(super) fn refresh(&mut self, upstream: &Upstream) {
        let sites = upstream.sites();
        let site = sites.get(self.site.provider.name());
        let credential = site.and_then(|site| site.credential_of(&self.submission));
        // If they were removed from the settings, the job continues with those with which it was
        // made.
        if let (Some(site), Some(credential)) = (site, credential) {
            (self.site, self.credential) = (site.clone(), credential.clone());
        }
    }
}

/// The outcome of offering the task to a provider.
pub(super) enum RouteAttempt {
    Accepted(Box<AcceptedJob>),
    Declined(DeclineReason),
}

/// Why sending did not result in a [`RouteAttempt`].
pub(super) enum SendFailure {
    Ended(RunEnding),
    /// It is unknown whether the provider accepted the order, for this reason.
    Unclear(String),
}

impl From<RunEnding> for SendFailure {
    fn from(ended: RunEnding) -> Self {
        Self::Ended(ended)
    }
}

/// Why a route did not accept the task.
pub(super) enum DeclineReason {
    /// The route is down, busy, or being tried with another task.
    Closed,
    /// The route has no free slot.
    Full,
    /// Its provider refused, and another one may accept.
    Refused(ProviderError),
}

/// A submission that is about to be sent or may have been sent, with the provider, credential and
/// order of its request.
#[derive(Clone, Copy)]
pub(super) struct OutgoingOrder<'a> {
    pub(super) site: &'a Arc<ProviderSite>,
    pub(super) credential: &'a Arc<ProviderCredential>,
    pub(super) order: &'a Order,
    pub(super) submission: &'a Submission,
    /// Whether this run creates the submission and has not recorded it yet. If not, its row already
    /// exists, and the order is sent again or looked up.
    pub(super) is_new: bool,
}

impl OutgoingOrder<'_> {
    /// Whether the request may be sent again: the provider deduplicates by a key, and one went out
    /// with the first request.
    pub(super) fn may_be_repeated(&self) -> bool {
        self.submission.has_key == Some(true) && self.site.provider.adapter().deduplicates()
    }
}

pub(super) fn internal_ending(error: &Error) -> RunEnding {
    tracing::error!(inside = ?error.internal_cause(), "cannot work on a task");
    // The error is in the database or the files, not in the task.
    (RunOutcome::RetryLater(Duration::from_secs(2)), None)
}

/// The ending of a task if it cannot be determined whether the provider accepted the order: nothing
/// is charged, and nothing is sent again. The order may be looked up at the provider later.
pub(super) fn unconfirmed_ending(
    submission: &Submission,
    reason: &str,
    recheck_at: Option<Timestamp>,
) -> RunEnding {
    counters::submission_unconfirmed();
    tracing::error!(submission_id = %submission.id, why = reason, "submission unconfirmed");
    let message = "It is unknown whether the provider accepted the task, so it was not sent again. Nothing was charged.";
    // A submission that is already closed keeps its state.
    let closing = submission.state.is_open().then(|| SubmissionClose {
        id: submission.id,
        from: submission.state,
        state: SubmissionState::Unclear,
        error: Some(("unclear", reason.to_owned())),
        cost: None,
        recheck_at,
    });
    (
        RunOutcome::failed(ErrorCode::SubmissionUnconfirmed, message),
        closing,
    )
}
