//! Recovery of submissions: continues where another process, or an earlier run, stopped.

use std::time::Duration;

use providers::Order;
use providers::driver::OrderAcceptance;

use super::hosted_task::{
    AcceptedJob, DeclineReason, HostedTask, OutgoingOrder, RouteAttempt, RunEnding,
    internal_ending, unconfirmed_ending,
};
use super::order::{self, OrderError};
use super::resolve::REPEAT_WINDOW;
use crate::finish::RunOutcome;
use mediagate_model::catalog::Route;
use mediagate_model::error::Error;
use mediagate_model::submission::{Submission, SubmissionState};
use mediagate_store as store;

/// After this age no request is repeated with its key: providers remember keys for a day. While
/// only the clock says that so much time has passed, the request waits.
const MAX_REPEAT_AGE: Duration = Duration::from_hours(12);
/// Shortest and longest pause before a task is examined again if its provider is not in the
/// settings.
const MIN_PAUSE: Duration = Duration::from_secs(5);
const MAX_PAUSE: Duration = Duration::from_mins(1);
/// Pause before a request is repeated after a temporary error.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

impl HostedTask<'_> {
    /// Makes sure that a provider has accepted the task: submits it, unless one already did.
    pub(super) async fn ensure_accepted(&self) -> Result<AcceptedJob, RunEnding> {
        // The task was accepted and claimed by this process in one transaction, so a lookup would
        // find nothing.
        if self.is_new {
            return self.submit().await;
        }
        match self.last_submission().await {
            Ok(None) => self.submit().await,
            Ok(Some(submission)) => Box::pin(self.resume(submission)).await,
            Err(error) => Err(internal_ending(&error)),
        }
    }

    async fn last_submission(&self) -> Result<Option<Submission>, Error> {
        let task = self.task.id;
        let store = &self.context.app.store;
        Ok(store
            .read(move |conn| store::submissions::latest(conn, task))
            .await?)
    }

    /// Continues where another process, or an earlier run, stopped.
    async fn resume(&self, submission: Submission) -> Result<AcceptedJob, RunEnding> {
        match submission.state {
            SubmissionState::Refused => self.submit().await,
            SubmissionState::Accepted => match recorded_acceptance(&submission) {
                Some(acceptance) => self.resume_job(submission, acceptance),
                // The provider's answer was the result itself and is lost. A second order would
                // have to be paid for again.
                None => Err(unconfirmed_ending(
                    &submission,
                    "the process ended before the result was stored",
                    None,
                )),
            },
            SubmissionState::Intended => Box::pin(self.recover(submission)).await,
            SubmissionState::Unclear | SubmissionState::Found | SubmissionState::Ended => {
                Err(unconfirmed_ending(
                    &submission,
                    "the outcome is unknown since an earlier run",
                    None,
                ))
            }
        }
    }

    fn resume_job(
        &self,
        submission: Submission,
        acceptance: OrderAcceptance,
    ) -> Result<AcceptedJob, RunEnding> {
        let Some((site, credential)) = self.context.app.models.upstream.find_submitter(&submission)
        else {
            // A job is polled only at the URL, with the credential and with the options of its
            // submission. The task waits until the settings contain these again, or until the
            // operator gives it up.
            return Err((RunOutcome::RetryLater(self.pause_of(&submission)), None));
        };
        tracing::info!(provider = %submission.provider, "job resumed");
        Ok(AcceptedJob {
            accepted_at: submission.accepted_at.unwrap_or(submission.created_at),
            route_model: submission.route_model.clone(),
            _open: credential.open(),
            submission,
            site,
            credential,
            acceptance,
            is_persisted: true,
            state: SubmissionState::Accepted,
            cost: None,
            is_resumed: true,
        })
    }

    /// Continues with a submission whose outcome is unknown because the process died.
    async fn recover(&self, submission: Submission) -> Result<AcceptedJob, RunEnding> {
        const REASON: &str = "the process ended while it was being sent";
        let upstream = &self.context.app.models.upstream;
        let route = self.route(&submission.provider, &submission.route_model);
        let submitter = route.as_ref().and_then(|route| {
            upstream.find_order_submitter(&submission, &order::extra(self.task, route))
        });
        let (Some((site, credential)), Some(route)) = (submitter, route) else {
            // That provider may have accepted the order, so it is not sent to another one, nor in
            // another way.
            return Err((RunOutcome::RetryLater(self.pause_of(&submission)), None));
        };
        let watched = self.context.watch_times.watch(submission.id);
        let prepared = order::build(&self.context.app, self.task, &route, &site).await;
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(OrderError::Gone(_)) => {
                let reason = "its source file was removed";
                return Err(unconfirmed_ending(&submission, reason, None));
            }
            Err(OrderError::UnknownName) => {
                let reason = "its route no longer accepts the model name of the request";
                return Err(unconfirmed_ending(&submission, reason, None));
            }
            // The database or the files may be back soon, and the order is sent again then.
            Err(OrderError::Internal(error)) => return Err(internal_ending(&error)),
        };
        let order = Order {
            idempotency_key: submission.id.to_string(),
            ..prepared.order
        };
        let sent = OutgoingOrder {
            site: &site,
            credential: &credential,
            order: &order,
            submission: &submission,
            is_new: false,
        };
        if !sent.may_be_repeated() {
            return self.resolve(sent, REASON).await;
        }
        let clock = &self.context.app.clock;
        match clock.has_passed(submission.created_at.plus(MAX_REPEAT_AGE)) {
            Some(false) => {}
            // The provider may have forgotten the key and would start a second job.
            Some(true) => {
                let reason = "it is too old to be sent again";
                return Err(unconfirmed_ending(&submission, reason, None));
            }
            None => {
                tracing::warn!(submission_id = %submission.id, "the clock may be wrong: a submission waits to be sent again");
                return Err((RunOutcome::RetryLater(self.pause_of(&submission)), None));
            }
        }
        // Repeating is safe here: the provider deduplicates requests with the same key.
        match self.send_or_find(&route, sent).await? {
            RouteAttempt::Accepted(job) => Ok(*job),
            // A temporary error proves nothing. The row is left unchanged, and the next run repeats
            // the request.
            RouteAttempt::Declined(DeclineReason::Refused(error))
                if error.class.is_transient() && watched < REPEAT_WINDOW =>
            {
                Err((RunOutcome::RetryLater(RETRY_PAUSE), None))
            }
            // A refusal now does not show what the provider did with the first request.
            RouteAttempt::Declined(_) => Err(unconfirmed_ending(
                &submission,
                "the provider rejected the repeated request",
                None,
            )),
        }
    }

    /// How long a task is postponed if the settings do not match its submission.
    fn pause_of(&self, submission: &Submission) -> Duration {
        pause(self.context.watch_times.watch(submission.id))
    }

    /// The route by which the task was submitted, if it is still in the settings.
    pub(super) fn route(&self, provider: &str, route_model: &str) -> Option<Route> {
        let catalog = self.context.app.models.catalog.load();
        let model = catalog.with_id(&self.task.model)?;
        model.route(provider, route_model).cloned()
    }
}

/// How long a task is postponed if its provider is not in the settings: a tenth of the time for
/// which this process has watched it. A task that another process may soon be able to run is
/// examined soon, and thousands of tasks that wait for an operator cost little.
fn pause(watched: Duration) -> Duration {
    (watched / 10).clamp(MIN_PAUSE, MAX_PAUSE)
}

/// Where the result of an accepted submission can be obtained: from a job, or directly. `None` if
/// neither was recorded.
fn recorded_acceptance(submission: &Submission) -> Option<OrderAcceptance> {
    if let Some(handle) = &submission.handle {
        return Some(OrderAcceptance::Job {
            handle: handle.clone(),
            poll_after: None,
        });
    }
    let results = submission.results.clone()?;
    serde_json::from_value(results)
        .ok()
        .map(OrderAcceptance::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_with_the_time_that_a_provider_is_missing() {
        let pauses = [0, 49, 51, 300, 599, 601, 86_400].map(|age| pause(Duration::from_secs(age)));
        let expected = [5000, 5000, 5100, 30_000, 59_900, 60_000, 60_000];
        assert_eq!(pauses, expected.map(Duration::from_millis));
    }
}
