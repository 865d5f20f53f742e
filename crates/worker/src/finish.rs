//! End of a run: task, cost, file records and clips change in one transaction, and only for the
//! lease holder.

use std::time::Duration;

use providers::ProviderCost;

use crate::run_output::RunOutput;
use crate::surplus;
use mediagate_core::app::App;
use mediagate_core::crash;
use mediagate_core::domain::tasks::JobOutcome;
use mediagate_core::domain::{assets, costs, endings, tasks};
use mediagate_core::pricing::DeliveredQuantity;
use mediagate_model::catalog::EMBEDDED;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::SubmissionId;
use mediagate_model::money::MicroDollars;
use mediagate_model::submission::{ClosedSubmission, SubmissionState};
use mediagate_model::task::{Task, TaskFailure, TaskState};
use mediagate_store::tasks::TaskEnding;
use mediagate_store::{self as store, Conn, StoreError};
use mediagate_telemetry::counters;

/// The outcome of a run.
pub(super) enum RunOutcome {
    /// The run produced a result.
    Succeeded(Box<RunOutput>),
    /// The run failed.
    Failed(TaskFailure),
    /// The run was interrupted: its task was cancelled or will be resumed.
    Stopped,
    /// There is no capacity for the task now; it is due again after this time.
    RetryLater(Duration),
    /// The task has crashed this many children so far; it is due again after this time.
    Died(u32, Duration),
}

impl RunOutcome {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Succeeded(_) => "made",
            Self::Failed(_) => "failed",
            Self::Stopped => "stopped",
            Self::RetryLater(_) => "later",
            Self::Died(..) => "died",
        }
    }

    /// A failure with this code and message.
    pub(super) fn failed(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Failed(TaskFailure {
            code,
            message: message.into(),
        })
    }
}

/// How to close the submission when its task ends.
#[derive(Debug, Clone)]
pub(super) struct SubmissionClose {
    pub(super) id: SubmissionId,
    /// The state in which this run read it.
    pub(super) from: SubmissionState,
    pub(super) state: SubmissionState,
    /// The error's class and message.
    pub(super) error: Option<(&'static str, String)>,
    /// The cost that the provider reports. Boxed, because runs return this by value.
    pub(super) cost: Option<Box<ProviderCost>>,
    /// When to look for an unclear submission again.
    pub(super) recheck_at: Option<Timestamp>,
}

impl SubmissionClose {
    /// Closes the submission. Does nothing if another process has closed it.
    fn write(
        &self,
        conn: &mut Conn<'_>,
        now: Timestamp,
    ) -> Result<Option<ClosedSubmission>, StoreError> {
        let error = self.error.as_ref();
        let error = error.map(|(class, message)| (*class, message.as_str()));
        let closed = store::submissions::close(conn, self.id, self.from, self.state, error, now)?;
        if let Some(cost) = self.cost.as_ref().filter(|_| closed.is_some()) {
            store::submissions::set_cost(conn, self.id, **cost)?;
        }
        if closed.is_some() && self.recheck_at.is_some() {
            store::submissions::schedule_lookup(conn, self.id, self.recheck_at)?;
        }
        Ok(closed)
    }

    /// Records the job's cost, after the task's own money was settled.
    fn record_cost(
        &self,
        conn: &mut Conn<'_>,
        task: &Task,
        closed: ClosedSubmission,
        output: Option<&RunOutput>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let cost = self.cost.as_ref().map(|cost| **cost);
        let delivered = output.map(|output| DeliveredQuantity::of(task, Some(&output.delivered)));
        costs::record_job_cost(conn, task, closed, cost, delivered, now)
    }
}

/// The run that ended.
#[derive(Clone, Copy)]
pub(super) struct EndedRun<'a> {
    pub(super) task: &'a Task,
    /// The lease under which the task ran.
    pub(super) owner: &'a str,
    /// The progress in percent, and whether it is a guess.
    pub(super) progress: (u8, bool),
}

/// Records the outcome. Returns whether that ended the task. May be called again with the same
/// outcome if the commit is in doubt. If the task has ended in another way, the files of this run
/// are removed.
pub(super) async fn finish(
    app: &App,
    run: &EndedRun<'_>,
    outcome: &RunOutcome,
    closing: Option<&SubmissionClose>,
) -> Result<bool, Error> {
    let task = run.task;
    match outcome {
        RunOutcome::Stopped => {
            // The task becomes due as of its acceptance, so it returns to the front of its
            // account's queue.
            give_back(app, run, task.created_at, None).await?;
            tracing::info!("task stopped");
        }
        RunOutcome::RetryLater(pause) => {
            let due = app.clock.now().plus(*pause);
            give_back(app, run, due, None).await?;
        }
        RunOutcome::Died(deaths, pause) => {
            let due = app.clock.now().plus(*pause);
            give_back(app, run, due, Some(*deaths)).await?;
        }
        RunOutcome::Failed(failure) => {
            let ending = endings::failed_ending(task, failure.clone());
            let ended = end(app, run, ending, None, closing).await?;
            if ended {
                tracing::warn!(code = %failure.code, "task failed");
            }
            return Ok(ended);
        }
        RunOutcome::Succeeded(output) => {
            crash::point("results-stored");
            let (result, route) = (output.result.clone(), output.route());
            let ending = endings::succeeded_ending(task, result, &output.delivered, route);
            let ended = end(app, run, ending, Some(output), closing).await?;
            if ended {
                tracing::info!("task succeeded");
                surplus::report(task, output);
            } else {
                // The transaction that would have recorded these files ended nothing.
                for asset in &output.assets {
                    assets::remove(app, asset).await;
                }
            }
            return Ok(ended);
        }
    }
    Ok(false)
}

/// Returns the task to the queue; `deaths` is the new count if its child died.
async fn give_back(
    app: &App,
    run: &EndedRun<'_>,
    due: Timestamp,
    deaths: Option<u32>,
) -> Result<(), Error> {
    let (id, owner, progress) = (run.task.id, run.owner.to_owned(), run.progress);
    let (is_hosted, now) = (run.task.provider != EMBEDDED, app.clock.now());
    app.store
        .write(move |conn| -> Result<(), Error> {
            if is_hosted {
                // If the task was cancelled, its job continues and another process has to follow
                // it.
                store::submissions::release_strays_of_task(conn, id, &owner, now)?;
            }
            // These come before the release, because they need the lease.
            store::tasks::raise_progress(conn, id, &owner, progress)?;
            if let Some(deaths) = deaths {
                store::tasks::set_deaths(conn, id, &owner, deaths)?;
            }
            Ok(store::tasks::release(conn, id, &owner, due)?)
        })
        .await
}

/// Why a task was not ended.
enum FinishError {
    /// Another process changed its submission, and may be following its job.
    SubmissionChanged,
    Internal(Error),
}

impl From<StoreError> for FinishError {
    fn from(error: StoreError) -> Self {
        Self::Internal(error.into())
    }
}

impl From<Error> for FinishError {
    fn from(error: Error) -> Self {
        Self::Internal(error)
    }
}

/// Ends the task. Returns false if it ended in another way or is no longer ours.
async fn end(
    app: &App,
    run: &EndedRun<'_>,
    ending: TaskEnding,
    output: Option<&RunOutput>,
    closing: Option<&SubmissionClose>,
) -> Result<bool, Error> {
    let (task, progress) = (run.task, run.progress);
    let (ended_task, owner, shared_app) = (task.clone(), run.owner.to_owned(), app.clone());
    let (output, closing) = (output.cloned(), closing.cloned());
    let now = app.clock.now();
    let state = ending.state;
    let ended = app
        .store
        .write_for(task.account, move |conn| -> Result<bool, FinishError> {
            let task = &ended_task;
            // A success sets the progress to 100. Otherwise it is written here, while the lease is
            // still held.
            if ending.state != TaskState::Succeeded {
                store::tasks::raise_progress(conn, task.id, &owner, progress)?;
            }
            let write_results = |conn: &mut Conn<'_>| -> Result<(), FinishError> {
                if let Some(output) = &output {
                    insert_results(conn, output)?;
                }
                let Some(closing) = &closing else {
                    return Ok(());
                };
                // The error rolls the ending back: the process that changed the submission may have
                // found its job.
                let closed = closing
                    .write(conn, now)?
                    .ok_or(FinishError::SubmissionChanged)?;
                Ok(closing.record_cost(conn, task, closed, output.as_ref(), now)?)
            };
            if endings::end(
                conn,
                &shared_app,
                task,
                Some(&owner),
                &ending,
                now,
                write_results,
            )? {
                return Ok(true);
            }
            let allowance = shared_app.config.cancel_allowance;
            let run = (output.as_ref(), closing.as_ref());
            settle_already_ended(conn, task, run, allowance, now)
        })
        .await;
    let ended = match ended {
        Ok(ended) => ended,
        Err(FinishError::Internal(error)) => return Err(error),
        Err(FinishError::SubmissionChanged) => {
            tracing::warn!("the submission has changed; checking the task again");
            give_back(app, run, now, None).await?;
            return Ok(false);
        }
    };
    if ended {
        crash::point("task-ended");
        counters::task_ended(task, state);
        app.bell.ring_for_deliveries();
    } else {
        tracing::info!("the task ended before this run");
    }
    Ok(ended)
}

/// Handles a task that this call did not end. Returns whether the same outcome ended it before, in
/// a commit whose answer was lost.
fn settle_already_ended(
    conn: &mut Conn<'_>,
    task: &Task,
    (output, closing): (Option<&RunOutput>, Option<&SubmissionClose>),
    allowance: MicroDollars,
    now: Timestamp,
) -> Result<bool, FinishError> {
    // Files are recorded only in the transaction that ends the task. If they are there, this
    // outcome was committed.
    if let Some(asset) = output.and_then(|output| output.assets.first())
        && store::assets::by_id(conn, asset.id)?.is_some()
    {
        return Ok(true);
    }
    // If the task has not ended, another process follows the submission, and this one must not
    // close it.
    let ended_task = store::tasks::by_id(conn, task.id, task.account)?;
    let Some(ended_task) = ended_task.filter(|task| task.state.is_terminal()) else {
        return Ok(false);
    };
    let Some(closing) = closing else {
        return Ok(false);
    };
    // The task was ended by another process, for example by a cancellation. Its job has to be paid
    // for nevertheless.
    if let Some(closed) = closing.write(conn, now)? {
        let job = match (output, closing.state) {
            (Some(output), _) => JobOutcome::Made(Some(&output.delivered)),
            (None, SubmissionState::Unclear) => JobOutcome::Unknown,
            (None, _) => JobOutcome::NotMade,
        };
        let route = (closed.provider.as_str(), closed.route_model.as_str());
        tasks::settle_job(conn, &ended_task, route, job, allowance, now)?;
        closing.record_cost(conn, task, closed, output, now)?;
    }
    Ok(false)
}

fn insert_results(conn: &mut Conn<'_>, output: &RunOutput) -> Result<(), Error> {
    for asset in &output.assets {
        store::assets::insert(conn, asset)?;
    }
    // Additional clips come after the ordered ones, whose positions begin at 0.
    for (clip, position) in output.more_clips.iter().zip(100..) {
        store::clips::insert(conn, clip, position)?;
    }
    for (clip, media) in &output.clips {
        store::clips::complete(conn, *clip, media)?;
    }
    for (clip, title, upstream) in &output.clip_facts {
        store::clips::set_upstream(conn, *clip, title, upstream)?;
    }
    for (clip, provenance) in &output.provenance {
        store::clips::set_provenance(conn, *clip, provenance)?;
    }
    for (clip, notes) in &output.notes {
        store::clips::set_notes(conn, *clip, notes)?;
    }
    for fingerprint in &output.fingerprints {
        store::fingerprints::insert(conn, fingerprint)?;
    }
    Ok(())
}
