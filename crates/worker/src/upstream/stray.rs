//! Jobs that go on at a provider although their task was cancelled: called off
//! where the provider can, else followed to their end, and their money settled
//! by the operator's policy. None is forgotten, whoever cancelled it and
//! whatever dies in between.

use std::sync::Arc;
use std::time::Duration;

use providers::driver::schedule::{EndDoubt, next_poll};
use providers::driver::{PollOutcome, ProgressWatch};
use providers::{JobHandle, ProviderCost};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::{WorkerContext, random};
use mediagate_core::app::App;
use mediagate_core::domain::{costs, ledger, tasks};
use mediagate_core::upstream::{ProviderCredential, ProviderSite};
use mediagate_model::crash;
use mediagate_model::error::Error;
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::price::Bill;
use mediagate_model::submission::{Submission, SubmissionState};
use mediagate_model::task::Task;
use mediagate_store as store;

/// Most strays that are taken at once.
const BATCH: u32 = 100;
/// Pause before one is looked at again whose provider the settings do not have.
const RETRY_PAUSE: Duration = Duration::from_secs(30);

/// How the job of a cancelled task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StrayOutcome {
    /// The provider called it off.
    CalledOff,
    /// The provider made it all the same.
    Completed,
    /// The provider failed at it, or lost it.
    Failed,
    /// Nobody can tell.
    Unknown,
}

impl StrayOutcome {
    const fn name(self) -> &'static str {
        match self {
            Self::CalledOff => "called_off",
            Self::Completed => "made",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// Takes the strays that nobody follows; whether there may be more at once.
pub(super) async fn take_all(
    crew: &Arc<WorkerContext>,
    tracker: &TaskTracker,
) -> Result<bool, Error> {
    let now = crew.app.clock.now();
    // Read first, so that an idle process does not write.
    let any = crew
        .app
        .store
        .read(move |conn| store::submissions::any_stray(conn, now));
    if !any.await? {
        return Ok(false);
    }
    // Until all of them are registered, `compare` in the heartbeat must not release them.
    let _claiming = crew.runs.begin_claim();
    let lease = crew.runs.lease();
    let name = lease.name.clone();
    let taken = crew
        .app
        .store
        .write(move |conn| store::submissions::claim_strays(conn, &name, BATCH, now))
        .await?;
    let more = taken.len() >= BATCH as usize;
    for submission in taken {
        let span = tracing::info_span!("stray", task_id = %submission.task, submission_id = %submission.id);
        let followed = crew.runs.follow(submission.id);
        let (crew, lease) = (crew.clone(), lease.clone());
        let run = async move {
            let pause = match follow(&crew, &submission).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::error!(inside = ?error.internal_cause(), "cannot follow the job of a cancelled task");
                    Some(RETRY_PAUSE)
                }
            };
            if let Some(pause) = pause {
                release_stray(&crew, &lease.name, &submission, pause).await;
            }
            drop(followed);
        };
        tracker.spawn(run.instrument(span));
    }
    Ok(more)
}

async fn release_stray(
    crew: &WorkerContext,
    follower: &Arc<str>,
    submission: &Submission,
    pause: Duration,
) {
    let (id, due) = (submission.id, crew.app.clock.now().plus(pause));
    let follower = follower.clone();
    let gone = crew
        .app
        .store
        .write(move |conn| store::submissions::release_from_follower(conn, id, &follower, due))
        .await;
    if let Err(error) = gone {
        tracing::warn!(%error, "cannot release a submission; the heartbeat will release it");
    }
}

/// Follows a stray to its end; when it is to be looked at again, where that is
/// not reached.
async fn follow(
    crew: &Arc<WorkerContext>,
    submission: &Submission,
) -> Result<Option<Duration>, Error> {
    let app = &crew.app;
    let id = submission.task;
    let task = app
        .store
        .read(move |conn| store::tasks::by_id_any_account(conn, id))
        .await?
        .ok_or_else(|| Error::internal("a submission without a task"))?;
    let Some(handle) = &submission.handle else {
        if submission.results.is_some() {
            close(crew, submission, &task, StrayOutcome::Completed, None).await?;
            return Ok(None);
        }
        // The answer was lost, or was the result itself: there is no job to ask for.
        close(crew, submission, &task, StrayOutcome::Unknown, None).await?;
        return Ok(None);
    };
    let Some((site, credential)) = app.models.upstream.find_maker(submission) else {
        // A job is asked for only where and with what it was ordered. It waits until the settings
        // have that again, or until the operator gives it up.
        return Ok(Some(RETRY_PAUSE));
    };
    let driver = &app.models.upstream.driver;
    let off = driver
        .cancel(&site.provider, &credential.secret, handle)
        .await;
    // Anything but a confirmation leaves open whether the job goes on.
    if matches!(off, Ok(true)) {
        crash::point("job-called-off");
        close(crew, submission, &task, StrayOutcome::CalledOff, None).await?;
        return Ok(None);
    }
    tracing::info!(
        provider = %submission.provider,
        "the provider did not confirm the cancellation; following the job to its end"
    );
    let watch = ProgressWatch::new();
    if let Some(end) = poll(crew, submission, &site, &credential, handle, &watch).await {
        close(crew, submission, &task, end, watch.cost()).await?;
        return Ok(None);
    }
    // This process stops. Another one may take the job at once.
    Ok(Some(Duration::ZERO))
}

/// Polls until the job ends; `None` when this process ends before.
async fn poll(
    crew: &WorkerContext,
    submission: &Submission,
    site: &ProviderSite,
    credential: &ProviderCredential,
    handle: &JobHandle,
    watch: &ProgressWatch,
) -> Option<StrayOutcome> {
    let app = &crew.app;
    let pace = site.provider.adapter().pace();
    let since = submission.accepted_at.unwrap_or(submission.created_at);
    let (mut failures, mut asked, mut doubt) = (0, None, EndDoubt::default());
    // Counted as in the polling of tasks: only what this process has watched, by a clock that
    // nobody sets.
    let (watched, mut is_asked) = (Instant::now(), false);
    loop {
        let elapsed = app.clock.now().since(since);
        if is_asked && watched.elapsed() > site.config.job_limit {
            return Some(StrayOutcome::Unknown);
        }
        let pause = next_poll(&pace, elapsed, None, asked.take(), failures, random());
        let due = Instant::now() + pause;
        tokio::select! {
            () = tokio::time::sleep_until(due) => {}
            () = crew.stop.cancelled() => return None,
        }
        let driver = &app.models.upstream.driver;
        let polled = driver.poll_due(&site.provider, &credential.secret, handle, due, watch);
        let polled = Box::pin(polled).await;
        is_asked = true;
        // Some providers forget a job that was called off, and then say that there is none.
        let is_believed = doubt.note(watched.elapsed(), polled.as_ref().err());
        match polled {
            Ok(PollOutcome::Running { poll_after, .. }) => (failures, asked) = (0, poll_after),
            Ok(PollOutcome::Done(_)) => return Some(StrayOutcome::Completed),
            Err(error) if is_believed || error.ends_job() => return Some(StrayOutcome::Failed),
            Err(error) => {
                failures += 1;
                asked = error.retry_after;
            }
        }
    }
}

/// The job is over: so is its submission, and the money of its task.
async fn close(
    crew: &WorkerContext,
    submission: &Submission,
    task: &Task,
    end: StrayOutcome,
    cost: Option<ProviderCost>,
) -> Result<(), Error> {
    let app = &crew.app;
    let bill = (task.money != ChargeState::Free).then(|| bill(task, submission));
    let (id, task, now) = (submission.id, task.clone(), app.clock.now());
    let from = submission.state;
    let state = match end {
        StrayOutcome::Unknown => SubmissionState::Unclear,
        _ => SubmissionState::Ended,
    };
    // One transaction: the submission is closed once, and the money moves with it.
    let closed = app
        .store
        .write(move |conn| -> Result<bool, Error> {
            let why = Some(("cancelled", end.name()));
            let Some(closed) = store::submissions::close(conn, id, from, state, why, now)? else {
                return Ok(false);
            };
            if let Some(cost) = cost {
                store::submissions::set_cost(conn, id, cost)?;
            }
            let job = match end {
                StrayOutcome::Completed => tasks::JobOutcome::Made(bill.as_ref()),
                StrayOutcome::CalledOff | StrayOutcome::Failed => tasks::JobOutcome::NotMade,
                StrayOutcome::Unknown => tasks::JobOutcome::Unknown,
            };
            let is_closed = tasks::settle_job(conn, &task, job, now)?;
            // Nobody fetched the result, so its size is taken from the order.
            let asked = task.tariff.as_ref().map(|tariff| tariff.asked);
            let made = (end == StrayOutcome::Completed).then(|| asked.unwrap_or_default());
            costs::record_job_cost(conn, &task, closed, cost, made, now)?;
            Ok(is_closed)
        })
        .await?;
    metrics::counter!("mediagate_cancelled_jobs_total", "outcome" => end.name()).increment(1);
    tracing::info!(
        outcome = end.name(),
        money_closed = closed,
        "the job of a cancelled task has ended"
    );
    Ok(())
}

/// What a caller pays who cancelled too late, where the operator charges for it:
/// the whole order, as nobody fetches what was made.
fn bill(task: &Task, submission: &Submission) -> Bill {
    let tariff = task.tariff.as_ref();
    let price =
        tariff.and_then(|tariff| tariff.price_by(&submission.provider, &submission.route_model));
    let quantity = tariff.map(|tariff| tariff.asked).unwrap_or_default();
    // A route without a price is free. If no prices are stored with the task, it costs what was
    // reserved, as in `finish`.
    let by_price = |_| price.map_or(MicroDollars::ZERO, |price| price.cost_of(quantity));
    let cost = tariff.map_or(task.reserved, by_price);
    Bill {
        price,
        quantity,
        cost: cost.min(task.reserved),
        delivered: None,
        partial: Some("The task was cancelled, but the provider completed it anyway.".into()),
    }
}

/// Gives back what is still held for cancelled tasks that no provider works on:
/// the process died, or the provider refused, after the caller had cancelled.
pub(crate) async fn release_left_over(app: &App) -> Result<(), Error> {
    let left = app.store.read(store::tasks::cancelled_and_held).await?;
    let now = app.clock.now();
    for task in left {
        app.store
            .write(move |conn| -> Result<(), Error> {
                let last = store::submissions::latest(conn, task.id)?;
                // A submission that is open settles the money when its job ends.
                if last.is_none_or(|last| !last.state.is_open()) {
                    ledger::close(conn, &task, None, now)?;
                }
                Ok(())
            })
            .await?;
    }
    Ok(())
}
