//! Submission records: written before and after the one request that costs money.
//!
//! An order is sent only by the process that holds its task at the instant of the intent, which a
//! lock on the task's row ensures, and only while that process can prove that it still holds the
//! task. The outcome is written only if no other process has written one.
//!
//! No other process knows the outcome, so this one waits if the database is unavailable; and if a
//! commit is in doubt, it reads whether the commit took effect.

use std::sync::Arc;
use std::time::Duration;

use providers::ProviderError;
use providers::driver::SendDeadline;

use super::capacity;
use super::hosted_task::{
    DeclineReason, HostedTask, RouteAttempt, RunEnding, internal_ending, unconfirmed_ending,
};
use crate::finish::RunOutcome;
use mediagate_core::crash;
use mediagate_core::domain::{keys, task_acceptance};
use mediagate_core::upstream::{ProviderCredential, ProviderSite};
use mediagate_model::catalog::Route;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::ids::SubmissionId;
use mediagate_model::submission::{Submission, SubmissionState};
use mediagate_store::submissions::{AcceptanceResult, JobAcceptance};
use mediagate_store::tasks::SendPermission;
use mediagate_store::{self as store, Conn, StoreError};
use mediagate_telemetry::counters;

/// Pause before a write is repeated.
const WRITE_RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Why nothing was sent.
pub(super) enum IntentError {
    /// The task ended, belongs to another process, or has already been sent.
    Gone,
    /// The key that ordered the task has ended, and the task with it.
    KeyEnded,
    /// The route has no free slot after all.
    Full,
    /// The database failed.
    Internal(Error),
}

impl From<StoreError> for IntentError {
    fn from(error: StoreError) -> Self {
        Self::Internal(error.into())
    }
}

impl IntentError {
    pub(super) fn into_attempt(self) -> Result<RouteAttempt, RunEnding> {
        match self {
            Self::Gone | Self::KeyEnded => Err((RunOutcome::Stopped, None)),
            Self::Full => Ok(RouteAttempt::Declined(DeclineReason::Full)),
            Self::Internal(error) => Err(internal_ending(&error)),
        }
    }
}

/// The result of recording a provider's acceptance.
enum AcceptanceOutcome {
    /// It is recorded, and this run has to follow its job.
    Recorded,
    /// It came too late: the task has ended as unconfirmed.
    RecordedLate,
    /// It names the job of this other submission.
    Taken(SubmissionId),
    /// It came too late, and the submission already has this other state.
    Surplus(SubmissionState),
}

impl HostedTask<'_> {
    /// Records durably that a request is about to be sent, if there is a free slot, this process
    /// still holds the task, its key has not ended, and every earlier submission for it was provably
    /// refused. Returns the deadline for sending it.
    pub(super) async fn intend(
        &self,
        route: &Route,
        site: &Arc<ProviderSite>,
        credential: &Arc<ProviderCredential>,
        mut submission: Submission,
    ) -> Result<SendDeadline, IntentError> {
        let app = &self.context.app;
        let (route, site, credential) = (route.clone(), site.clone(), credential.clone());
        let (task, owner) = (self.task.id, self.run.lease.name.clone());
        let model = app.models.catalog.load().with_id(&self.task.model).cloned();
        let (now, expired) = (app.clock.now(), keys::expiry_cutoff(app));
        let intend = move |conn: &mut Conn<'_>| -> Result<(), IntentError> {
            // The lock lasts until the commit. Until then no other process can cancel the task or
            // take it over.
            match store::tasks::lock_to_send(conn, task, &owner, expired)? {
                SendPermission::Granted => {}
                SendPermission::NotHeld => return Err(IntentError::Gone),
                SendPermission::KeyEnded => return Err(IntentError::KeyEnded),
            }
            let previous = store::submissions::latest(conn, task)?;
            if previous
                .as_ref()
                .is_some_and(|previous| previous.id == submission.id)
            {
                // An earlier run of this closure wrote it, in a commit whose answer was lost.
                return Ok(());
            }
            // Anything but a proven refusal may be a job that has to be paid for.
            let is_refused = |previous: &Submission| previous.state == SubmissionState::Refused;
            if !previous.as_ref().is_none_or(is_refused) {
                return Err(IntentError::Gone);
            }
            // The claim counted the slots without this lock, so its count may be out of date.
            if !capacity::fits(conn, &route, &site, &credential, now)? {
                return Err(IntentError::Full);
            }
            submission.attempt = previous.map_or(0, |previous| previous.attempt) + 1;
            store::submissions::intend(conn, &submission, &owner)?;
            let fingerprint = model.map(|model| task_acceptance::fingerprint(&model, Some(&route)));
            let fingerprint = fingerprint.unwrap_or_default();
            if !store::tasks::mark_running(conn, task, &owner, &route.provider, &fingerprint, now)?
            {
                return Err(IntentError::Gone);
            }
            Ok(())
        };
        match app.store.write(intend.clone()).await {
            // The row may be on disk. If this run gave up now, all processes would consider the
            // order as sent, so it finds out what was written.
            Err(IntentError::Internal(error)) if error.outcome_unknown() => {
                self.write_until_certain(intend).await?;
            }
            result => result?,
        }
        crash::point("submission-intended");
        app.bell.ring_underway(task);
        Ok(self.run.lease.send_before())
    }

    /// Tries until the database is back and it is certain what was written.
    async fn write_until_certain<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, IntentError> + Clone + Send + 'static,
    ) -> Result<T, IntentError> {
        loop {
            match self.context.app.store.write(work.clone()).await {
                Err(IntentError::Internal(error @ Error::Unavailable { .. })) => {
                    tracing::error!(inside = ?error.internal_cause(), "cannot record the outcome of a submission");
                    tokio::time::sleep(WRITE_RETRY_PAUSE).await;
                }
                result => return result,
            }
        }
    }

    /// Confirms that this process still holds the task. A request is not repeated if another
    /// process holds it now: that one may be about to learn that the first request was refused.
    pub(super) async fn confirm_held(&self) -> Result<SendDeadline, IntentError> {
        let (task, owner) = (self.task.id, self.run.lease.name.clone());
        // A write transaction, because only a lock prevents the task from being taken over
        // meanwhile.
        let held_check = self
            .context
            .app
            .store
            .write(move |conn| -> Result<bool, IntentError> {
                Ok(store::tasks::lock_held(conn, task, &owner)?)
            });
        if held_check.await? {
            Ok(self.run.lease.send_before())
        } else {
            Err(IntentError::Gone)
        }
    }

    /// Handles a submission whose request was not sent because this process was suspended for too
    /// long. If no other process may have sent it either, the submission is closed and the task
    /// becomes due again.
    pub(super) async fn close_held_back(
        &self,
        site: &ProviderSite,
        id: SubmissionId,
        is_new: bool,
    ) -> RunEnding {
        tracing::warn!(submission_id = %id, "submission not sent: cannot confirm that this process still holds the task");
        // An earlier run wrote the row and may have sent the request.
        if !is_new {
            return (RunOutcome::Stopped, None);
        }
        let (task, owner) = (self.task.id, self.run.lease.name.clone());
        let deduplicates = site.provider.adapter().deduplicates();
        let now = self.context.app.clock.now();
        // Only this process knows that nothing was sent. Unless it records that, the outcome counts
        // as unknown.
        let write = self.write_until_certain(move |conn| {
            // With a provider that deduplicates, a process that took the task over may have sent
            // the request with the same key.
            if !deduplicates || store::tasks::lock_held(conn, task, &owner)? {
                let error = Some(("held_back", "the gateway was suspended before it was sent"));
                let (from, to) = (SubmissionState::Intended, SubmissionState::Refused);
                store::submissions::close(conn, id, from, to, error, now)?;
            }
            Ok(())
        });
        match write.await {
            Err(IntentError::Internal(error)) => internal_ending(&error),
            Ok(()) | Err(IntentError::Gone | IntentError::KeyEnded | IntentError::Full) => {
                (RunOutcome::Stopped, None)
            }
        }
    }

    /// Records that the provider accepted the submission. Retries as long as the database fails:
    /// the job must not be lost. If the job can no longer be followed, that is logged for the
    /// operator.
    ///
    /// If the job belongs to another submission, this one does not get it: it is unknown whether
    /// the provider has a job for it too.
    pub(super) async fn write_accepted(
        &self,
        submission: &Submission,
        acceptance: JobAcceptance,
    ) -> Result<Timestamp, RunEnding> {
        let (id, provider) = (submission.id, submission.provider.as_str());
        // The time of the provider's answer. The commit may be much later if the database is
        // unavailable.
        let now = self.context.app.clock.now();
        // Retried whatever the error is: no other process knows that this job exists.
        let outcome = loop {
            let acceptance = acceptance.clone();
            let write = self
                .context
                .app
                .store
                .write(move |conn| write_acceptance(conn, id, &acceptance, now));
            match write.await {
                Ok(outcome) => break outcome,
                Err(error) => {
                    tracing::error!(provider, submission_id = %id, inside = %error, "cannot record that a provider accepted a task");
                    tokio::time::sleep(WRITE_RETRY_PAUSE).await;
                }
            }
        };
        let state = match outcome {
            AcceptanceOutcome::Recorded => return Ok(now),
            // This run closed it: in a commit whose answer was lost, or together with a task that
            // was cancelled.
            AcceptanceOutcome::Surplus(SubmissionState::Ended)
                if self.pending_acceptance.get().is_some() =>
            {
                return Ok(now);
            }
            AcceptanceOutcome::Taken(other) => {
                counters::submission_taken(provider);
                tracing::error!(
                    submission_id = %id, other = %other, provider, job = ?acceptance.handle,
                    "a provider answered with the job of another submission, which keeps it"
                );
                let reason = format!("the provider answered with the job of submission {other}");
                return Err(unconfirmed_ending(submission, &reason, None));
            }
            AcceptanceOutcome::RecordedLate => SubmissionState::Found,
            AcceptanceOutcome::Surplus(state) => state,
        };
        metrics::counter!("mediagate_submissions_found_total").increment(1);
        tracing::error!(
            submission_id = %id, provider, state = state.name(), job = ?acceptance.handle,
            "a provider accepted a submission after its task was given up; the caller was not charged"
        );
        Err((RunOutcome::Stopped, None))
    }

    /// Records a pending acceptance if this run did not end the task, so that the provider's job is
    /// recorded nevertheless.
    pub(super) async fn write_pending_acceptance(&self) {
        if let Some(pending) = self.pending_acceptance.get() {
            let acceptance = pending.acceptance.clone();
            // An error means that the job can no longer be followed. This was logged for the
            // operator.
            let _ = self.write_accepted(&pending.submission, acceptance).await;
        }
    }

    /// Records that the provider refused the submission. Returns false if this process may no
    /// longer decide that.
    pub(super) async fn write_refused(
        &self,
        id: SubmissionId,
        error: &ProviderError,
    ) -> Result<bool, IntentError> {
        let (class, message) = (error.class.name(), error.message.clone());
        let (task, owner) = (self.task.id, self.run.lease.name.clone());
        let at = self.context.app.clock.now();
        let close = move |conn: &mut Conn<'_>| {
            // A process that took the task over may have repeated the request with the same key and
            // been accepted. Once the task has ended, no process repeats it.
            let is_held = store::tasks::lock_held(conn, task, &owner)?;
            let current_task = store::tasks::by_id_any_account(conn, task)?;
            if !is_held && current_task.is_some_and(|task| !task.state.is_terminal()) {
                return Ok(false);
            }
            let reason = Some((class, message.as_str()));
            let (from, to) = (SubmissionState::Intended, SubmissionState::Refused);
            if store::submissions::close(conn, id, from, to, reason, at)?.is_some() {
                return Ok(true);
            }
            // An earlier run of this closure may have closed it, in a commit whose answer was lost.
            let submission = store::submissions::by_id(conn, id)?;
            Ok(is_held
                && submission
                    .is_some_and(|submission| submission.state == SubmissionState::Refused))
        };
        self.write_until_certain(close).await
    }
}

impl HostedTask<'_> {
    /// Records that the provider refused before anything was submitted. This only documents the
    /// attempt: nothing depends on it.
    pub(super) async fn note_refused(&self, refused: &Submission, error: &ProviderError) {
        let (class, message) = (error.class.name(), error.message.clone());
        let (refused, owner) = (refused.clone(), self.run.lease.name.clone());
        let now = self.context.app.clock.now();
        let write = self.context.app.store.write(move |conn| {
            if store::tasks::lock_held(conn, refused.task, &owner)? {
                let reason = (class, message.as_str());
                store::submissions::insert_refused(conn, &refused, reason, now)?;
            }
            Ok::<_, StoreError>(())
        });
        if let Err(error) = write.await {
            tracing::warn!(%error, "cannot record a provider's response");
        }
    }
}

fn write_acceptance(
    conn: &mut Conn<'_>,
    id: SubmissionId,
    acceptance: &JobAcceptance,
    now: Timestamp,
) -> Result<AcceptanceOutcome, StoreError> {
    match store::submissions::accept(conn, id, acceptance, now)? {
        AcceptanceResult::Accepted => {
            if let Some(cost) = acceptance.cost {
                store::submissions::set_cost(conn, id, cost)?;
            }
            return Ok(AcceptanceOutcome::Recorded);
        }
        AcceptanceResult::Taken(other) => return Ok(AcceptanceOutcome::Taken(other)),
        AcceptanceResult::Decided => {}
    }
    // The task was meanwhile given up as unconfirmed. Its caller keeps that result, and the job is
    // recorded for the operator.
    if store::submissions::mark_found(conn, id, acceptance, now)? {
        return Ok(AcceptanceOutcome::RecordedLate);
    }
    let submission = store::submissions::by_id(conn, id)?;
    let state = submission
        .as_ref()
        .map_or(SubmissionState::Unclear, |submission| submission.state);
    // Written before by a commit whose answer was lost, or by another process to which the provider
    // reported the same job.
    let is_same_job = submission.is_some_and(|submission| submission.handle == acceptance.handle);
    Ok(match state {
        SubmissionState::Accepted if is_same_job => AcceptanceOutcome::Recorded,
        state => AcceptanceOutcome::Surplus(state),
    })
}
