//! Jobs that continue at a provider although their task was cancelled: they are cancelled there if
//! the provider can, else followed to their end, and their money is settled by the operator's
//! policy. None is forgotten, regardless of who cancelled it and which process dies in between.

use std::sync::Arc;
use std::time::Duration;

use providers::driver::schedule::{EndDoubt, next_poll};
use providers::driver::{PollOutcome, ProgressWatch};
use providers::{ErrorClass, JobHandle, JobOutput, JobSettlement, ProviderCost, ProviderError};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::unfetched::listed_work;
use crate::{WorkerContext, random};
use mediagate_core::app::App;
use mediagate_core::crash;
use mediagate_core::domain::tasks::JobOutcome;
use mediagate_core::domain::{costs, ledger, tasks};
use mediagate_core::pricing::{DeliveredQuantity, DeliveredWork};
use mediagate_core::upstream::{ProviderCredential, ProviderSite};
use mediagate_model::error::Error;
use mediagate_model::submission::{Submission, SubmissionState};
use mediagate_model::task::Task;
use mediagate_store as store;

/// Maximum number of strays that are claimed at once.
const BATCH: u32 = 100;
/// Pause before a stray is examined again after an error, or if its provider is not in the
/// settings.
const RETRY_PAUSE: Duration = Duration::from_secs(30);

/// The outcome of a cancelled task's job.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StrayOutcome {
    /// The provider cancelled the job.
    CalledOff,
    /// The provider completed the job nevertheless, and made this; `None` if it does not list that.
    Completed(Option<DeliveredWork>),
    /// The job failed, or did not make what was ordered.
    Failed,
    /// It is unknown how the job ended. A job that is gone, perhaps because of its cancellation, may
    /// have been completed.
    Unknown,
}

impl StrayOutcome {
    const fn name(&self) -> &'static str {
        match self {
            Self::CalledOff => "called_off",
            Self::Completed(_) => "made",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// Claims strays that no process follows. Returns whether there may be more.
pub(super) async fn claim_all(
    context: &Arc<WorkerContext>,
    tracker: &TaskTracker,
) -> Result<bool, Error> {
    let now = context.app.clock.now();
    // Read first, so that an idle process does not write.
    let has_stray = context
        .app
        .store
        .read(move |conn| store::submissions::any_stray(conn, now));
    if !has_stray.await? {
        return Ok(false);
    }
    // Until all of them are registered, `compare` in the heartbeat must not release them.
    let _claiming = context.runs.begin_claim();
    let lease = context.runs.lease();
    let name = lease.name.clone();
    let submissions = context
        .app
        .store
        .write(move |conn| store::submissions::claim_strays(conn, &name, BATCH, now))
        .await?;
    let has_more = submissions.len() >= BATCH as usize;
    for submission in submissions {
        let span = tracing::info_span!("stray", task_id = %submission.task, submission_id = %submission.id);
        let guard = context.runs.follow(submission.id);
        let (context, lease) = (context.clone(), lease.clone());
        let run = async move {
            let pause = match follow(&context, &submission).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::error!(inside = ?error.internal_cause(), "cannot follow the job of a cancelled task");
                    Some(RETRY_PAUSE)
                }
            };
            if let Some(pause) = pause {
                release_stray(&context, &lease.name, &submission, pause).await;
            }
            drop(guard);
        };
        tracker.spawn(run.instrument(span));
    }
    Ok(has_more)
}

async fn release_stray(
    context: &WorkerContext,
    follower: &Arc<str>,
    submission: &Submission,
    pause: Duration,
) {
    let (id, due) = (submission.id, context.app.clock.now().plus(pause));
    let follower = follower.clone();
    let result = context
        .app
        .store
        .write(move |conn| store::submissions::release_from_follower(conn, id, &follower, due))
        .await;
    if let Err(error) = result {
        tracing::warn!(%error, "cannot release a submission; the heartbeat will release it");
    }
}

/// Follows a stray to its end. If the end is not reached, returns when to examine it again.
async fn follow(
    context: &Arc<WorkerContext>,
    submission: &Submission,
) -> Result<Option<Duration>, Error> {
    let app = &context.app;
    let id = submission.task;
    let task = app
        .store
        .read(move |conn| store::tasks::by_id_any_account(conn, id))
        .await?
        .ok_or_else(|| Error::internal("a submission without a task"))?;
    let Some(handle) = &submission.handle else {
        // The answer was lost, or was the result itself: there is no job to poll.
        let results = submission.results.clone();
        let outputs: Option<Vec<JobOutput>> =
            results.and_then(|results| serde_json::from_value(results).ok());
        let outcome = outputs.map_or(StrayOutcome::Unknown, |outputs| {
            outcome_of(app, &task, submission, &outputs)
        });
        close(context, submission, &task, outcome, None).await?;
        return Ok(None);
    };
    let Some((site, credential)) = app.models.upstream.find_submitter(submission) else {
        // A job is polled only at the URL and with the credential with which it was ordered. It
        // waits until the settings contain these again, or until the operator gives it up.
        return Ok(Some(RETRY_PAUSE));
    };
    let driver = &app.models.upstream.driver;
    let cancellation = driver
        .cancel(&site.provider, &credential.secret, handle)
        .await;
    // Without a confirmation it is unknown whether the job continues.
    if matches!(cancellation, Ok(true)) {
        crash::point("job-cancelled");
        close(context, submission, &task, StrayOutcome::CalledOff, None).await?;
        return Ok(None);
    }
    tracing::info!(
        provider = %submission.provider,
        "the provider did not confirm the cancellation; following the job to its end"
    );
    let watch = ProgressWatch::new();
    let polling = poll(
        context,
        &task,
        submission,
        &site,
        &credential,
        handle,
        &watch,
    );
    if let Some((outcome, cost)) = polling.await {
        close(context, submission, &task, outcome, cost.or(watch.cost())).await?;
        return Ok(None);
    }
    // This process is stopping. Another one may claim the job at once.
    Ok(Some(Duration::ZERO))
}

/// Polls until the job ends; returns its cost if the provider's record of the cancellation says it,
/// and `None` if this process stops before.
async fn poll(
    context: &WorkerContext,
    task: &Task,
    submission: &Submission,
    site: &ProviderSite,
    credential: &ProviderCredential,
    handle: &JobHandle,
    watch: &ProgressWatch,
) -> Option<(StrayOutcome, Option<ProviderCost>)> {
    let app = &context.app;
    let pace = site.provider.adapter().pace();
    let since = submission.accepted_at.unwrap_or(submission.created_at);
    let (mut failures, mut requested_pause, mut doubt) = (0, None, EndDoubt::default());
    // As in the polling of tasks, only the time during which this process followed the job counts,
    // by the monotonic clock.
    let (follow_start, mut has_polled) = (Instant::now(), false);
    loop {
        let elapsed = app.clock.now().since(since);
        if has_polled && follow_start.elapsed() > site.config.job_limit {
            return Some((StrayOutcome::Unknown, None));
        }
        let pause = next_poll(
            &pace,
            elapsed,
            None,
            requested_pause.take(),
            failures,
            random(),
        );
        let pause = app.models.upstream.shortened(pause);
        let due = Instant::now() + pause;
        let pacer = &credential.poll_pacer;
        tokio::select! {
            () = pacer.wait_turn(due, pause, pace.share()) => {}
            () = context.stop.cancelled() => return None,
        }
        let driver = &app.models.upstream.driver;
        let poll = driver.poll_due(&site.provider, &credential.secret, handle, due, watch);
        let poll_result = Box::pin(poll).await;
        has_polled = true;
        pacer.note_result(&poll_result, pace.share());
        // Some providers forget a cancelled job, and then report that it does not exist. That does
        // not tell whether they completed it.
        let followed = app.models.upstream.lengthened(follow_start.elapsed());
        let is_gone = doubt.note(followed, poll_result.as_ref().err());
        match poll_result {
            Ok(PollOutcome::Running { poll_after, .. }) => {
                (failures, requested_pause) = (0, poll_after);
            }
            Ok(PollOutcome::Done(outputs)) => {
                return Some((outcome_of(app, task, submission, &outputs), None));
            }
            Err(error) if error.ends_job() => {
                let settlement = driver.settlement(&site.provider, &credential.secret, handle);
                match Box::pin(settlement).await {
                    Ok(Some(JobSettlement::Open)) => failures = 0,
                    Ok(settlement) => return Some(outcome_of_end(&error, settlement)),
                    Err(error) if error.class.is_transient() => failures += 1,
                    Err(_) => return Some((StrayOutcome::Unknown, None)),
                }
            }
            Err(_) if is_gone => return Some((StrayOutcome::Unknown, None)),
            Err(error) => {
                failures += 1;
                requested_pause = error.retry_after;
            }
        }
    }
}

/// The outcome of a job whose record says that it ended without a result, and its cost if the
/// record of its money says that it was completed.
fn outcome_of_end(
    error: &ProviderError,
    settlement: Option<JobSettlement>,
) -> (StrayOutcome, Option<ProviderCost>) {
    match (settlement, error.class) {
        (Some(JobSettlement::Paid(cost)), _) => (StrayOutcome::Completed(None), Some(cost)),
        (_, ErrorClass::Unconfirmed) => (StrayOutcome::Unknown, None),
        (_, ErrorClass::Lost) => (StrayOutcome::CalledOff, None),
        _ => (StrayOutcome::Failed, None),
    }
}

/// The outcome of a job that is done.
fn outcome_of(
    app: &App,
    task: &Task,
    submission: &Submission,
    outputs: &[JobOutput],
) -> StrayOutcome {
    let work = listed_work(app, task, submission, outputs);
    work.map_or(StrayOutcome::Failed, |work| {
        StrayOutcome::Completed(Some(work))
    })
}

/// Closes the submission of an ended job, and settles the money of its task.
async fn close(
    context: &WorkerContext,
    submission: &Submission,
    task: &Task,
    outcome: StrayOutcome,
    cost: Option<ProviderCost>,
) -> Result<(), Error> {
    let app = &context.app;
    let allowance = app.config.cancel_allowance;
    let (id, task, now) = (submission.id, task.clone(), app.clock.now());
    let (from, name) = (submission.state, outcome.name());
    let state = match outcome {
        StrayOutcome::Unknown => SubmissionState::Unclear,
        _ => SubmissionState::Ended,
    };
    // In one transaction, so that the submission is closed once, together with the money.
    let money_closed = app
        .store
        .write(move |conn| -> Result<bool, Error> {
            let error = Some(("cancelled", name));
            let Some(closed) = store::submissions::close(conn, id, from, state, error, now)? else {
                return Ok(false);
            };
            if let Some(cost) = cost {
                store::submissions::set_cost(conn, id, cost)?;
            }
            let job = match &outcome {
                StrayOutcome::Completed(work) => JobOutcome::Made(work.as_ref()),
                StrayOutcome::CalledOff | StrayOutcome::Failed => JobOutcome::NotMade,
                StrayOutcome::Unknown => JobOutcome::Unknown,
            };
            let route = (closed.provider.as_str(), closed.route_model.as_str());
            let is_closed = tasks::settle_job(conn, &task, route, job, allowance, now)?;
            let delivered = match job {
                // Without a bill the record does not keep what was made, so the order counts.
                JobOutcome::Made(work) => {
                    Some(DeliveredQuantity::of(&task, work.filter(|_| is_closed)))
                }
                _ => None,
            };
            costs::record_job_cost(conn, &task, closed, cost, delivered, now)?;
            Ok(is_closed)
        })
        .await?;
    metrics::counter!("mediagate_cancelled_jobs_total", "outcome" => name).increment(1);
    tracing::info!(
        outcome = name,
        money_closed,
        "the job of a cancelled task has ended"
    );
    Ok(())
}

/// Releases money that is still reserved for cancelled tasks on which no provider works: the
/// process died, or the provider refused, after the caller had cancelled.
pub(crate) async fn release_left_over(app: &App) -> Result<(), Error> {
    let tasks = app.store.read(store::tasks::cancelled_and_held).await?;
    let now = app.clock.now();
    for task in tasks {
        app.store
            .write(move |conn| -> Result<(), Error> {
                let last = store::submissions::latest(conn, task.id)?;
                // If the submission is open, the money is settled when its job ends.
                if last.is_none_or(|last| !last.state.is_open()) {
                    ledger::close(conn, &task, None, now)?;
                }
                Ok(())
            })
            .await?;
    }
    Ok(())
}
