//! Runs tasks: a few at a time in embedded engines, and as many at hosted providers as these
//! accept. Also delivers webhooks (`deliver`) and runs periodic jobs (`upkeep`).
//!
//! A worker process holds its tasks by one lease, a row that its heartbeat extends. When the
//! process dies, the row expires and others free its tasks (`heartbeat`). A task is ended by
//! compare-and-set (`finish`). Begin reading at [`WorkerPool::start`]; hosted jobs are in
//! `upstream`.
//!
//! This crate must not know HTTP requests or who is calling. The protocols of providers are in
//! `providers`.

mod deliver;
mod embedded;
mod finish;
mod heartbeat;
mod model_offers;
mod progress;
mod run_output;
mod runs;
mod surplus;
mod upkeep;
mod upstream;
mod watch_times;
mod work_poll;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::context::FutureExt as _;
use opentelemetry::trace::SpanKind;
use spans::TraceSpan;
use tokio::sync::Semaphore;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::heartbeat::{HEARTBEAT, HeartbeatStreak, heartbeat, try_heartbeat, watch_tasks};
use crate::runs::{RunGuard, RunRegistry, TaskRun};
use crate::watch_times::WatchTimes;
use mediagate_core::app::App;
use mediagate_core::domain::{keys, restored_backup, settings_drift, tasks};
use mediagate_model::bounds;
use mediagate_model::error::Error;
use mediagate_model::ids::TaskId;
use mediagate_model::task::Task;
use mediagate_store::{self as store, ProcessLock, StoreError};
use mediagate_telemetry::traces;

pub use upkeep::{remove_expired_media, sweep_orphans, sweep_spool};

/// How often providers are probed. A provider that is down is noticed within 5 s: this plus the
/// longest probe.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// How long disconnects of callers are collected before they are written together.
const DISCONNECT_BATCH_DELAY: Duration = Duration::from_millis(100);
/// How long a stopping process tries to record that it stops. A commit with an unknown outcome
/// would otherwise delay it for as long as the database's standby is unavailable.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest pause before an outcome is written again.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The handle to the workers of one process.
pub struct WorkerPool {
    tracker: TaskTracker,
    context: Arc<WorkerContext>,
}

/// State shared by the workers of one process.
struct WorkerContext {
    app: App,
    runs: Arc<RunRegistry>,
    streak: HeartbeatStreak,
    watch_times: WatchTimes,
    /// One permit, for the task that runs alone.
    exclusive_slot: Arc<Semaphore>,
    stop: CancellationToken,
    /// The process lock of the callers' lease, see [`store::Store::lock_process`].
    callers_lock: OnceLock<Option<ProcessLock>>,
}

impl WorkerPool {
    /// Starts everything: slots, dispatcher, heartbeat, upkeep. The first heartbeat comes before
    /// everything else: without it other processes would mistake this one's callers for those of a
    /// dead process.
    pub async fn start(app: &App) -> Self {
        let context = Arc::new(WorkerContext {
            app: app.clone(),
            runs: RunRegistry::new(),
            streak: HeartbeatStreak::default(),
            watch_times: WatchTimes::default(),
            exclusive_slot: Arc::new(Semaphore::new(bounds::CRASHED_TASKS.total.count())),
            stop: CancellationToken::new(),
            callers_lock: OnceLock::new(),
        });
        try_heartbeat(&context).await;
        // This process may replace one that was just killed, whose tasks are then resumed at once.
        heartbeat::declare_dead(&context).await;
        // Read before the first order is sent, because a paused route must not get any.
        upkeep::refresh_routes(app).await;
        let tracker = TaskTracker::new();
        for _ in 0..app.config.workers {
            tracker.spawn(work(context.clone()));
        }
        tracker.spawn(upstream::dispatch(context.clone(), tracker.clone()));
        tracker.spawn(deliver::deliver(context.clone(), tracker.clone()));
        tracker.spawn(work_poll::poll(context.clone()));
        tracker.spawn(stop_cancelled(context.clone(), app.bell.cancellations()));
        let (bell, stop) = (app.bell.clone(), context.stop.clone());
        tracker.spawn(async move { bell.exchange(&stop).await });
        tracker.spawn(heartbeat(context.clone()));
        tracker.spawn(watch_tasks(context.clone()));
        tracker.spawn(progress::write_regularly(context.clone()));
        tracker.spawn(model_offers::fail_stranded(context.clone()));
        tracker.spawn(record_disconnects(context.clone()));
        tracker.spawn(probe(context.clone()));
        tracker.spawn(restored_backup::keep_mark(
            app.clone(),
            context.stop.clone(),
        ));
        upkeep::start(app, &tracker, &context.stop);
        tracker.close();
        Self { tracker, context }
    }

    /// Stops: running tasks are released, to be resumed at the next start. Waits up to
    /// `shutdown_grace` for submissions in flight, and briefly for the database.
    pub async fn stop(self) {
        self.context.stop.cancel();
        let grace = self.context.app.config.shutdown_grace;
        if tokio::time::timeout(grace, self.tracker.wait())
            .await
            .is_err()
        {
            tracing::warn!("stopping with unanswered submissions");
        }
        if tokio::time::timeout(LEAVE_TIMEOUT, deregister(&self.context))
            .await
            .is_err()
        {
            tracing::warn!("the database is unavailable; the lease will expire");
        }
    }
}

/// Records that this process has stopped, so that others need not wait for its lease to expire.
async fn deregister(context: &WorkerContext) {
    let app = &context.app;
    if let Err(error) = app.intents.flush_client_events().await {
        tracing::warn!(inside = ?error.internal_cause(), "cannot record disconnected callers");
    }
    if let Err(error) = settings_drift::leave(app).await {
        tracing::warn!(inside = ?error.internal_cause(), "cannot withdraw this process's settings; other processes still compare with them");
    }
    let (lease, callers) = (context.runs.lease(), app.server.name().to_owned());
    let deregistration = app.store.write(move |conn| -> Result<(), StoreError> {
        store::workers::deregister(conn, &callers)?;
        store::workers::deregister(conn, &lease.name)
    });
    if let Err(error) = deregistration.await {
        tracing::warn!(%error, "cannot release the lease; it will expire");
    }
}

/// A slot: claims a task for an engine, runs it, and repeats.
async fn work(context: Arc<WorkerContext>) {
    if context.until_registered().await.is_none() {
        return;
    }
    while !context.stop.is_cancelled() {
        match claim(&context).await {
            Ok(Some((task, run))) => {
                // There may be more tasks, for other slots.
                context.app.bell.ring_for_work();
                let (log_span, trace_context) = task_span(&task);
                run_embedded(&context, task, run)
                    .with_context(trace_context)
                    .instrument(log_span)
                    .await;
            }
            Ok(None) => {
                tokio::select! {
                    () = context.app.bell.wait_for_work() => {}
                    () = context.stop.cancelled() => {}
                }
            }
            Err(error) => {
                tracing::error!(inside = ?error.internal_cause(), "cannot claim a task");
                context.pause(Duration::from_secs(1)).await;
            }
        }
    }
}

/// The log span of a claimed task, with the ids for its log lines, and the trace span of its run.
fn task_span(task: &Task) -> (tracing::Span, Context) {
    let trace_span = traces::run_span(task);
    let log_span = tracing::info_span!(
        "task",
        task_id = %task.id,
        request_id = %task.request.id,
        trace_id = tracing::field::Empty
    );
    traces::record_trace_id(&log_span, &trace_span);
    (log_span, trace_span.into_context())
}

async fn claim(context: &WorkerContext) -> Result<Option<(Task, RunGuard)>, Error> {
    let now = context.app.clock.now();
    let models: Arc<str> = model_offers::embedded_models_json(&context.app).into();
    let checked_models = models.clone();
    // Read first, so that an idle process does not write.
    let has_due = context
        .app
        .store
        .read(move |conn| store::tasks::any_due(conn, &checked_models, now));
    if !has_due.await? {
        return Ok(None);
    }
    // Until the task is registered, `compare` in the heartbeat must not release it.
    let _claiming = context.runs.begin_claim();
    let lease = context.runs.lease();
    let owner = lease.name.clone();
    let claimed = context
        .app
        .store
        .write(move |conn| store::tasks::claim(conn, &owner, &models, now))
        .await?;
    Ok(claimed.map(|task| {
        let run = context.runs.start_run(&task, lease);
        (task, run)
    }))
}

async fn run_embedded(context: &WorkerContext, task: Task, run: RunGuard) {
    // A task that was claimed before has begun, and continues after its key has ended.
    let has_begun = task.attempts > 1;
    if !has_begun && context.cancel_with_key(&task, Some(false)).await {
        return;
    }
    context.app.bell.ring_underway(task.id);
    let outcome = tokio::select! {
        outcome = embedded::run(&context.app, &task, &run, &context.exclusive_slot) => outcome,
        () = run.cancel_token.cancelled() => finish::RunOutcome::Stopped,
        () = context.stop.cancelled() => {
            // The engine runs on another thread, which dropping the future does not stop.
            run.stop();
            finish::RunOutcome::Stopped
        }
    };
    context.end(&task, &run, outcome, None).await;
}

impl WorkerContext {
    /// Ends the run of a task here. Retries until the outcome is written or the task belongs to
    /// another process. Returns whether this run ended the task.
    async fn end(
        &self,
        task: &Task,
        run: &TaskRun,
        outcome: finish::RunOutcome,
        closing: Option<finish::SubmissionClose>,
    ) -> bool {
        let mut pause = Duration::from_millis(250);
        spans::set_attribute("mediagate.outcome", outcome.name());
        if let finish::RunOutcome::Failed(failure) = &outcome {
            spans::mark_failed(failure.code.name());
        }
        let settle_span = TraceSpan::begin("settle", SpanKind::Internal);
        let ended_run = finish::EndedRun {
            task,
            owner: run.owner(),
            progress: run.control.progress_and_guess(),
        };
        let ended = loop {
            let write = finish::finish(&self.app, &ended_run, &outcome, closing.as_ref());
            let error = match settle_span.around(write).await {
                Ok(ended) => break ended,
                Err(error) => error,
            };
            tracing::error!(inside = ?error.internal_cause(), "cannot write a task's outcome; trying again");
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // The task now belongs to another process, which also determines its outcome.
                () = run.lease.wait_lost() => break false,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        self.app.bell.ring(task.id);
        ended
    }

    /// Cancels a task whose key has ended; for `is_begun` see [`tasks::cancel_with_key`]. Returns
    /// whether it was cancelled.
    async fn cancel_with_key(&self, task: &Task, is_begun: Option<bool>) -> bool {
        let (key, expired) = (task.key, keys::expiry_cutoff(&self.app));
        // Read first: nearly every key is valid, and a cancellation costs a commit.
        let read = self
            .app
            .store
            .read(move |conn| store::accounts::key_end(conn, key, expired));
        let cancelled = match read.await {
            Ok(None) => Ok(false),
            Ok(Some(_)) => tasks::cancel_with_key(&self.app, task.id, is_begun).await,
            Err(error) => Err(error.into()),
        };
        cancelled.unwrap_or_else(|error: Error| {
            tracing::warn!(inside = ?error.internal_cause(), "cannot check the key of a task");
            false
        })
    }

    /// Sleeps; returns early when the process stops.
    async fn pause(&self, time: Duration) {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// Waits until this process has its lease; `None` if it stops before.
    async fn until_registered(&self) -> Option<()> {
        tokio::select! {
            () = self.runs.wait_registered() => Some(()),
            () = self.stop.cancelled() => None,
        }
    }
}

/// Stops tasks that are cancelled in this process; the heartbeat finds those that are missed here.
async fn stop_cancelled(
    context: Arc<WorkerContext>,
    mut cancellations: broadcast::Receiver<TaskId>,
) {
    loop {
        tokio::select! {
            cancelled = cancellations.recv() => match cancelled {
                Ok(task) => context.runs.stop_all(&[task]),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            },
            () = context.stop.cancelled() => return,
        }
    }
}

/// Tracks which providers accept connections, and tries suspended routes.
async fn probe(context: Arc<WorkerContext>) {
    while !context.stop.is_cancelled() {
        tokio::select! {
            () = async {
                context.app.models.upstream.probe().await;
                upstream::try_suspended_routes(&context.app).await;
            } => {}
            () = context.stop.cancelled() => {}
        }
        context.pause(PROBE_INTERVAL).await;
    }
}

/// Records disconnected callers, after a short delay, so that several are written together.
async fn record_disconnects(context: Arc<WorkerContext>) {
    while !context.stop.is_cancelled() {
        tokio::select! {
            () = context.app.intents.wait_for_client_events() => {}
            () = context.stop.cancelled() => return,
        }
        context.pause(DISCONNECT_BATCH_DELAY).await;
        if let Err(error) = context.app.intents.flush_client_events().await {
            tracing::warn!(inside = ?error.internal_cause(), "cannot record disconnected callers");
            context.pause(HEARTBEAT).await;
        }
    }
}

/// A random number from 0 to below 1.
fn random() -> f64 {
    let mut bytes = [0_u8; 4];
    // Without randomness jobs are polled at the same time and the first route is always tried
    // first, which is acceptable.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
}
