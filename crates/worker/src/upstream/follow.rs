//! Polling of a job until it ends, at intervals that depend on its provider's wishes and its
//! model's usual duration.

use std::time::Duration;

use opentelemetry::trace::SpanKind;
use providers::driver::schedule::{EndDoubt, next_poll};
use providers::driver::{OrderAcceptance, PollOutcome, ProgressWatch};
use providers::{ErrorClass, JobHandle, JobOutput, ProviderError};
use spans::TraceSpan;
use tokio::time::Instant;

use super::hosted_task::{AcceptedJob, HostedTask, RunEnding};
use super::job_end::JobEnd;
use super::result_error::{ResultError, StoreFailure};
use super::results;
use crate::finish::{RunOutcome, SubmissionClose};
use crate::random;
use crate::run_output::RunOutput;
use mediagate_core::domain::{routes, tasks};
use mediagate_model::submission::SubmissionState;

/// Upper bound of the progress that is guessed for providers that report none.
const MAX_GUESS: f64 = 90.0;
/// Pauses before results are fetched again.
const FETCH_PAUSES: &[Duration] = &[
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(15),
    Duration::from_secs(30),
    Duration::from_mins(1),
    Duration::from_mins(2),
    Duration::from_mins(2),
];
/// The number of these pauses, a minute in total, for a result that arrives incompletely, if its job
/// can be polled for a fresh URL.
const JOB_FETCH_RETRIES: usize = 7;
/// Maximum number of requests to a host that does not answer, or does not have the file yet, which
/// take more than an hour: a result that was paid for is not lost because of an outage.
const MAX_HOST_RETRIES: usize = 40;
/// The number of these requests that are left for the other files after one was given up.
const LAST_HOST_RETRIES: usize = 3;
/// Maximum number of downloads of a file that arrives completely but is broken, all within a
/// minute.
const MAX_CORRUPT_FETCHES: usize = 8;
/// Pause before another attempt to store results that could not be written here.
const STORE_RETRY_PAUSE: Duration = Duration::from_secs(2);

impl HostedTask<'_> {
    /// Follows a job to its end and stores its results.
    pub(super) async fn follow(&self, mut job: AcceptedJob) -> RunEnding {
        let result = match job.acceptance.clone() {
            // The result is only in this process's memory. Neither a cancellation nor a shutdown
            // interrupts its download.
            OrderAcceptance::Done(outputs) if !job.is_persisted => {
                Box::pin(self.fetch(&job, &outputs)).await
            }
            OrderAcceptance::Done(outputs) => {
                tokio::select! {
                    output = Box::pin(self.fetch(&job, &outputs)) => output,
                    () = self.run.cancel_token.cancelled() => return (RunOutcome::Stopped, None),
                    () = self.context.stop.cancelled() => return (RunOutcome::Stopped, None),
                }
            }
            OrderAcceptance::Job { handle, poll_after } => {
                tokio::select! {
                    output = self.poll(&mut job, &handle, poll_after) => output,
                    // After a cancellation the job is followed as a stray. After a takeover it
                    // belongs to the other process.
                    () = self.run.cancel_token.cancelled() => return (RunOutcome::Stopped, None),
                    () = self.context.stop.cancelled() => return (RunOutcome::Stopped, None),
                }
            }
        };
        match result {
            Ok(output) => (
                RunOutcome::Succeeded(Box::new(output)),
                Some(job_close(&job)),
            ),
            Err(end) => {
                let route = self.route(&job.submission.provider, &job.route_model);
                if let (Some(route), Some(error)) = (route, end.provider_error()) {
                    let app = &self.context.app;
                    Box::pin(routes::record_order_error(app, &route, &error)).await;
                }
                end.into_ending(&job.submission, job.state, job.cost)
            }
        }
    }

    /// Fetches results for which there is no job to poll: from their URLs, until the retries are
    /// used up.
    async fn fetch(&self, job: &AcceptedJob, outputs: &[JobOutput]) -> Result<RunOutput, JobEnd> {
        let mut retries = FetchRetries::with_limit(FETCH_PAUSES.len());
        loop {
            let outputs = outputs.to_vec();
            let pause = match self.store_results(job, outputs, &retries.given_up).await {
                Ok(output) => return Ok(output),
                Err(failure) => retries.pause_or_give_up(failure)?,
            };
            tokio::time::sleep(self.context.app.models.upstream.shortened(pause)).await;
        }
    }

    async fn poll(
        &self,
        job: &mut AcceptedJob,
        handle: &JobHandle,
        mut requested_pause: Option<Duration>,
    ) -> Result<RunOutput, JobEnd> {
        let app = &self.context.app;
        let pace = job.site.provider.adapter().pace();
        let (mut failures, mut retries) = (0, FetchRetries::with_limit(JOB_FETCH_RETRIES));
        let mut doubt = EndDoubt::default();
        // The time limit counts only the time during which this process followed the job, by the
        // monotonic clock. The wall clock may be wrong, and the job may have ended well while the
        // gateway was down.
        let follow_start = Instant::now();
        let (mut has_polled, mut is_missing) = (false, false);
        loop {
            let elapsed = app.clock.now().since(job.accepted_at);
            // The job is polled at least once, so that one that ended during a long pause is not
            // given up.
            if has_polled && follow_start.elapsed() > job.site.config.job_limit {
                return Err(JobEnd::OutOfTime { is_missing });
            }
            let lengths = tasks::usual_durations(app, &self.task.model).await;
            // The lengths only determine the intervals between polls, so an error does not matter.
            let lengths = lengths.ok().flatten();
            let mut pause = next_poll(
                &pace,
                elapsed,
                lengths,
                requested_pause.take(),
                failures,
                random(),
            );
            if std::mem::take(&mut job.is_resumed) {
                // After a restart all jobs are resumed at once, and any of them may have ended.
                // Each is polled as soon as the provider's limits allow.
                pause = pace.floor.mul_f64(random());
            }
            let pause = app.models.upstream.shortened(pause);
            let due = Instant::now() + pause;
            let credential = job.credential.clone();
            let pacer = &credential.poll_pacer;
            pacer.wait_turn(due, pause, pace.share()).await;
            // The settings may have been reloaded since the last poll.
            job.refresh(&app.models.upstream);
            let (site, secret) = (&job.site, &job.credential.secret);
            let (driver, watch) = (&app.models.upstream.driver, ProgressWatch::new());
            // Boxed, as are the calls below: thousands of jobs wait here and few poll at the same
            // time, so the sleeping future should be small.
            let poll_result =
                Box::pin(driver.poll_due(&site.provider, secret, handle, due, &watch)).await;
            has_polled = true;
            is_missing = poll_result
                .as_ref()
                .is_err_and(|error| error.class == ErrorClass::Missing);
            let pacer = &job.credential.poll_pacer;
            pacer.note_result(&poll_result, pace.share());
            job.cost = watch.cost().or(job.cost);
            let followed = app.models.upstream.lengthened(follow_start.elapsed());
            let is_end_confirmed = doubt.note(followed, poll_result.as_ref().err());
            let usual_duration = lengths.map_or(pace.usual, |lengths| lengths.median);
            match next_step(poll_result, is_end_confirmed, elapsed, usual_duration) {
                PollStep::Wait {
                    progress,
                    is_guess,
                    poll_after,
                    unknown_status,
                } => {
                    (failures, requested_pause) = (0, poll_after);
                    if let Some(status) = unknown_status {
                        tracing::warn!(
                            provider = site.provider.name(),
                            word = status,
                            "unknown status word"
                        );
                    }
                    if is_guess {
                        self.run.control.raise_guessed_progress(progress);
                    } else {
                        self.run.control.raise_progress(progress);
                    }
                }
                PollStep::Store(outputs) => {
                    self.end_seen_at.get_or_init(Instant::now);
                    let given_up = &retries.given_up;
                    match Box::pin(self.store_results(job, outputs, given_up)).await {
                        Ok(output) => return Ok(output),
                        // The URL has expired or the file is broken. The next poll requests a new
                        // one from the provider.
                        Err(failure) => {
                            requested_pause = Some(retries.pause_or_give_up(failure)?);
                        }
                    }
                }
                PollStep::End(end) => {
                    self.end_seen_at.get_or_init(Instant::now);
                    return Err(end);
                }
                PollStep::Retry(error) => {
                    failures += 1;
                    requested_pause = error.retry_after;
                    tracing::warn!(provider = site.provider.name(), class = error.class.name(), message = %error.message, failures, "poll failed");
                }
            }
        }
    }

    async fn store_results(
        &self,
        job: &AcceptedJob,
        outputs: Vec<JobOutput>,
        given_up: &[usize],
    ) -> Result<RunOutput, StoreFailure> {
        let span = TraceSpan::begin("results", SpanKind::Internal);
        let storing = results::store_all(&self.context.app, self.task, job, outputs, given_up);
        let result = span.around(storing).await;
        if result.is_err() {
            span.fail("not_stored");
        }
        result.inspect_err(|failure| match &failure.error {
            ResultError::Unavailable(reason)
            | ResultError::Missing(reason)
            | ResultError::Incomplete(reason) => {
                tracing::warn!(why = reason, "cannot download a result");
            }
            ResultError::ForbiddenAddress(reason) => {
                tracing::warn!(why = reason, "a result has a forbidden address");
            }
            ResultError::Broken(reason) | ResultError::Useless(reason) => {
                tracing::warn!(why = reason, "a result is damaged or unusable");
            }
            ResultError::Internal(error) => {
                tracing::error!(inside = ?error.internal_cause(), "cannot store a result");
            }
        })
    }
}

/// The next step after a poll.
#[derive(Debug)]
enum PollStep {
    /// The job continues.
    Wait {
        /// In percent, at most 99; guessed if the provider reports none.
        progress: u8,
        is_guess: bool,
        /// The pause that the provider wants before the next poll.
        poll_after: Option<Duration>,
        unknown_status: Option<String>,
    },
    /// The job has these results.
    Store(Vec<JobOutput>),
    /// The job ended without results.
    End(JobEnd),
    /// The provider could not be polled.
    Retry(ProviderError),
}

/// Determines the next step. `is_end_confirmed` if the provider has reported for long enough,
/// without exception, that there is no such job or that it failed; `usual_duration` is that of the
/// model's jobs.
///
/// A job that is not found is polled for as long as one whose provider is down: absence does not
/// prove that it was not made.
fn next_step(
    poll_result: Result<PollOutcome, ProviderError>,
    is_end_confirmed: bool,
    elapsed: Duration,
    usual_duration: Duration,
) -> PollStep {
    match poll_result {
        Ok(PollOutcome::Running {
            progress,
            poll_after,
            unknown_status,
        }) => PollStep::Wait {
            is_guess: progress.is_none(),
            // Only a task that has ended is at 100.
            progress: progress
                .unwrap_or_else(|| guess(elapsed, usual_duration))
                .min(99),
            poll_after,
            unknown_status,
        },
        Ok(PollOutcome::Done(outputs)) => PollStep::Store(outputs),
        Err(error) if error.ends_job() => PollStep::End(JobEnd::Told(error)),
        // Any other error may come from a proxy, or from a machine of the provider that does not
        // know the job. Such an error does not end a job that has been paid for.
        Err(error) if is_end_confirmed && error.class.ends_job() => {
            PollStep::End(JobEnd::Persistent(error))
        }
        Err(error) => PollStep::Retry(error),
    }
}

/// The failed attempts to fetch results.
struct FetchRetries {
    max_failures: usize,
    failures: usize,
    unavailable: usize,
    broken: usize,
    /// The places of the files that are given up: the others are stored without them.
    given_up: Vec<usize>,
    /// Why the first of these files was given up.
    reason: Option<ResultError>,
}

impl FetchRetries {
    const fn with_limit(max_failures: usize) -> Self {
        Self {
            max_failures,
            failures: 0,
            unavailable: 0,
            broken: 0,
            given_up: Vec::new(),
            reason: None,
        }
    }

    /// The pause before the next attempt. A file for which there should be none is given up, so
    /// that the rest of a result is not lost with it; an error if there is no rest.
    fn pause_or_give_up(&mut self, failure: StoreFailure) -> Result<Duration, JobEnd> {
        if let Some(pause) = self.pause_after(&failure.error) {
            return Ok(pause);
        }
        if failure.files.is_empty() {
            let reason = self.reason.take().unwrap_or(failure.error);
            return Err(JobEnd::Unusable(reason));
        }
        tracing::warn!(files = ?failure.files, "a part of the result is given up");
        self.given_up.extend(failure.files);
        self.reason = self.reason.take().or(Some(failure.error));
        (self.failures, self.broken) = (0, 0);
        // A host that did not answer for an hour does not get another hour for each file.
        self.unavailable = self.unavailable.min(MAX_HOST_RETRIES - LAST_HOST_RETRIES);
        Ok(FETCH_PAUSES[0])
    }

    /// The pause before the next attempt; `None` if there should be none.
    fn pause_after(&mut self, error: &ResultError) -> Option<Duration> {
        match error {
            // The error is in this gateway. A result that was paid for is not given up because of
            // it.
            ResultError::Internal(_) => return Some(STORE_RETRY_PAUSE),
            ResultError::Useless(_) | ResultError::ForbiddenAddress(_) => return None,
            // Counted separately: an outage of the host says nothing about the result, and a host
            // that copies files from elsewhere may get them late.
            ResultError::Unavailable(_) | ResultError::Missing(_) => {
                let pause = FETCH_PAUSES[self.unavailable.min(FETCH_PAUSES.len() - 1)];
                self.unavailable += 1;
                return (self.unavailable < MAX_HOST_RETRIES).then_some(pause);
            }
            ResultError::Broken(_) => self.broken += 1,
            ResultError::Incomplete(_) => {}
        }
        let pause = FETCH_PAUSES.get(self.failures).copied();
        self.failures += 1;
        pause.filter(|_| self.failures <= self.max_failures && self.broken < MAX_CORRUPT_FETCHES)
    }
}

fn job_close(job: &AcceptedJob) -> SubmissionClose {
    SubmissionClose {
        id: job.submission.id,
        from: job.state,
        state: SubmissionState::Ended,
        error: None,
        cost: job.cost.map(Box::new),
        recheck_at: None,
    }
}

/// A guess of the progress in percent, which reaches `MAX_GUESS` after the usual duration.
fn guess(elapsed: Duration, usual_duration: Duration) -> u8 {
    let share = elapsed.as_secs_f64() / usual_duration.as_secs_f64().max(0.001);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within 0..=90"
    )]
    let percent = (share * MAX_GUESS).min(MAX_GUESS) as u8;
    percent
}

#[cfg(test)]
mod tests {
    use super::*;
    use providers::ErrorBasis;

    fn pauses(max_failures: usize, error: impl Fn() -> ResultError) -> Vec<Duration> {
        let mut retries = FetchRetries::with_limit(max_failures);
        std::iter::from_fn(|| retries.pause_after(&error()))
            .take(1000)
            .collect()
    }

    #[test]
    fn a_missing_file_is_asked_for_as_long_as_an_unavailable_host() {
        let unavailable = pauses(JOB_FETCH_RETRIES, || ResultError::Unavailable("502".into()));
        let total: Duration = unavailable.iter().sum();
        assert!(total > Duration::from_hours(1), "{total:?}");
        assert!(unavailable.len() < 1000);
        let missing = pauses(JOB_FETCH_RETRIES, || ResultError::Missing("404".into()));
        assert_eq!(missing, unavailable);
        let incomplete = pauses(JOB_FETCH_RETRIES, || ResultError::Incomplete("400".into()));
        assert_eq!(incomplete.len(), JOB_FETCH_RETRIES);
        assert_eq!(
            pauses(9, || ResultError::Broken("torn".into())).len(),
            MAX_CORRUPT_FETCHES - 1
        );
    }

    #[test]
    fn a_file_that_cannot_be_had_is_given_up_and_the_rest_is_not() {
        let mut retries = FetchRetries::with_limit(JOB_FETCH_RETRIES);
        let mut fail = |files: &[usize]| {
            let failure = StoreFailure {
                error: ResultError::Useless(format!("no {files:?}")),
                files: files.to_vec(),
            };
            let is_over = retries.pause_or_give_up(failure).is_err();
            (is_over, retries.given_up.clone())
        };
        assert_eq!(fail(&[1]), (false, vec![1]));
        assert_eq!(fail(&[0]), (false, vec![1, 0]));
        assert_eq!(fail(&[]), (true, vec![1, 0]));
    }

    #[test]
    fn polling_continues_until_the_job_ends() {
        let minute = Duration::from_mins(1);
        let next_step =
            |polled, is_end_confirmed| next_step(polled, is_end_confirmed, minute, 2 * minute);
        let running = |progress| {
            let polled = PollOutcome::Running {
                progress,
                poll_after: None,
                unknown_status: None,
            };
            match next_step(Ok(polled), true) {
                PollStep::Wait { progress, .. } => progress,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((running(Some(7)), running(Some(100))), (7, 99));
        assert_eq!(running(None), 45, "half of the usual time");
        let failed = |class| Err(ProviderError::new(class, "so"));
        assert!(matches!(
            next_step(Ok(PollOutcome::Done(vec![])), false),
            PollStep::Store(_)
        ));
        assert!(matches!(
            next_step(failed(ErrorClass::Failed), false),
            PollStep::End(JobEnd::Told(_))
        ));
        for is_end_confirmed in [false, true] {
            let missing = failed(ErrorClass::Missing);
            let step = next_step(missing, is_end_confirmed);
            assert!(matches!(step, PollStep::Retry(_)), "absence proves nothing");
        }
        let by_answer = || {
            let error = ProviderError::new(ErrorClass::Failed, "so");
            Err(error.with_basis(ErrorBasis::Answer))
        };
        assert!(matches!(next_step(by_answer(), false), PollStep::Retry(_)));
        assert!(matches!(
            next_step(by_answer(), true),
            PollStep::End(JobEnd::Persistent(_))
        ));
    }
}
