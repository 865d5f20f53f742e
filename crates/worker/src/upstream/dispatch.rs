//! Dispatcher of tasks for hosted providers: claims waiting tasks, as many as there are slots for,
//! and new ones in the transaction that accepts them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::context::FutureExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::capacity::{LocalRoutes, ModelDemand};
use super::hosted_task::HostedTask;
use super::submit_slots::SubmitSlots;
use super::{capacity, stray};
use crate::WorkerContext;
use crate::runs::Lease;
use mediagate_core::local_dispatch::TaskClaim;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::task::{Task, TaskState};
use mediagate_store as store;
use mediagate_store::tasks::FairQueue;

/// Maximum number of tasks of one model that are resumed at once.
const BATCH: u32 = 200;
/// Minimum time between two polls of the queues. Each order for a model with limits rings the bell
/// of every process. A poll costs a commit, and one poll finds the tasks of many orders.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Pause after the database failed to answer.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Claims tasks for as long as the process runs.
pub(crate) async fn dispatch(context: Arc<WorkerContext>, tracker: TaskTracker) {
    if context.until_registered().await.is_none() {
        return;
    }
    let slots = SubmitSlots::new(context.app.config.max_submitting);
    let dispatcher = Arc::new(Dispatcher {
        context: context.clone(),
        tracker,
        slots,
    });
    // Weak, because the app owns this closure and the dispatcher holds the app.
    let weak = Arc::downgrade(&dispatcher);
    context
        .app
        .process
        .local_dispatch
        .open(move |tasks| weak.upgrade()?.claim(tasks));
    while !context.stop.is_cancelled() {
        let next = Instant::now() + MIN_POLL_INTERVAL;
        match dispatcher.claim_all().await {
            Ok(true) => {}
            Ok(false) => {
                tokio::select! {
                    () = context.app.bell.wait_for_upstream(next) => {}
                    () = context.stop.cancelled() => {}
                }
            }
            Err(error) => {
                // The queues were marked as empty before the poll failed.
                dispatcher.slots.assume_queued();
                tracing::error!(inside = ?error.internal_cause(), "cannot claim tasks for providers");
                context.pause(RETRY_PAUSE).await;
            }
        }
    }
    context.app.process.local_dispatch.close();
}

/// A model with tasks that are due.
struct DueModel {
    model: String,
    routes: LocalRoutes,
    /// Whether any of them has begun.
    has_begun: bool,
}

struct Dispatcher {
    context: Arc<WorkerContext>,
    tracker: TaskTracker,
    slots: SubmitSlots,
}

/// The circumstances under which a task is started here.
struct RunStart {
    lease: Arc<Lease>,
    /// The submission slot, held until a provider has accepted the task; a task that a provider
    /// already has needs none.
    slot: Option<OwnedSemaphorePermit>,
    /// Whether nothing was ever submitted for it.
    is_new: bool,
}

impl Dispatcher {
    /// Claims tasks that are about to be accepted, if they can be started at once. If only the
    /// database can show whether there is a slot, they wait for the next poll.
    fn claim(self: Arc<Self>, tasks: &[Task]) -> Option<TaskClaim> {
        let WorkerContext {
            app, runs, stop, ..
        } = &*self.context;
        let model = &tasks.first()?.model;
        let lease = runs.lease();
        // Without a confirmed lease nothing may be sent, and another process would have to free
        // these tasks.
        if stop.is_cancelled() || !runs.is_registered() || !lease.is_valid() {
            return None;
        }
        let slots = self.slots.for_model(model);
        if !capacity::is_unlimited(app, model) {
            slots.queue();
            return None;
        }
        let mut permits = slots.reserve(tasks.len())?;
        // Announced before the tasks are in the database, so that `compare` does not treat them as
        // forgotten.
        let expected = runs.expect(tasks);
        let owner = lease.name.clone();
        Some(TaskClaim::new(owner, move |tasks| {
            for task in tasks {
                let start = RunStart {
                    lease: lease.clone(),
                    slot: permits.split(1),
                    is_new: true,
                };
                self.start(task, start);
            }
            drop(expected);
        }))
    }

    /// Claims as many tasks as there are slots for. Returns whether there may be more.
    async fn claim_all(&self) -> Result<bool, Error> {
        let context = &self.context;
        let now = context.app.clock.now();
        // The marks are cleared before the database is read: a task that is accepted meanwhile
        // marks its queue as non-empty again, and that must not be undone.
        self.slots.clear_queued();
        let models = context
            .app
            .store
            .long_read(move |conn| store::tasks::models_due(conn, now))
            .await?;
        let mut has_more = stray::claim_all(context, &self.tracker).await?;
        let mut queues: BTreeMap<String, (FairQueue, Vec<DueModel>)> = BTreeMap::new();
        for (model, has_begun) in models {
            let routes = LocalRoutes::for_model(&context.app, &model);
            if !routes.can_run() && !has_begun {
                // Another process may have the model. Tasks that no process can run fail after ten
                // minutes.
                continue;
            }
            let queue = capacity::queue_of(&context.app, &model);
            let (_, due) = queues
                .entry(queue.name.clone())
                .or_insert_with(|| (queue, Vec::new()));
            due.push(DueModel {
                model,
                routes,
                has_begun,
            });
        }
        for (queue, due) in queues.into_values() {
            has_more |= self.claim_queue(queue, due, now).await?;
        }
        Ok(has_more)
    }

    /// Claims tasks of a queue: all that a provider may have, regardless of free slots, and as many
    /// of the others as there are slots for. Returns whether there may be more of the former.
    async fn claim_queue(
        &self,
        queue: FairQueue,
        due: Vec<DueModel>,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let context = &self.context;
        let mut permits = HashMap::new();
        let mut begun_models = Vec::new();
        let mut demands = Vec::new();
        for DueModel {
            model,
            routes,
            has_begun,
        } in due
        {
            if has_begun {
                begun_models.push((model.clone(), routes.can_run()));
            }
            if routes.can_run() {
                // Reserved before the claim, so that new tasks do not take these slots meanwhile.
                // Freeing a slot rings the bell.
                let permit = self.slots.for_model(&model).hold(u32::MAX);
                let max_tasks = permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
                let max_tasks = u32::try_from(max_tasks).unwrap_or(u32::MAX);
                permits.insert(model.clone(), permit);
                demands.push(ModelDemand {
                    model,
                    routes,
                    max_tasks,
                });
            }
        }
        let _claiming = context.runs.begin_claim();
        let lease = context.runs.lease();
        let owner = lease.name.clone();
        let demands = Arc::new(demands);
        let claim_demands = demands.clone();
        let (begun_tasks, new_tasks) = context
            .app
            .store
            .write(move |conn| -> Result<_, Error> {
                let mut begun_tasks = Vec::new();
                // Tasks that a provider may have come first and need no free slot: their jobs
                // continue and cost money whether or not they are followed.
                for (model, has_route) in &begun_models {
                    // Tasks without a route are claimed too, so that they end.
                    begun_tasks.extend(if *has_route {
                        store::tasks::claim_sent(conn, &owner, model, BATCH, now)?
                    } else {
                        let state = TaskState::Running;
                        store::tasks::claim_upstream(conn, &owner, model, state, BATCH, now)?
                    });
                }
                let new_tasks = capacity::claim(conn, &owner, &queue, &claim_demands, now)?;
                Ok((begun_tasks, new_tasks))
            })
            .await?;
        let has_more = begun_tasks.len() >= BATCH as usize;
        for ModelDemand {
            model, max_tasks, ..
        } in demands.iter()
        {
            let count = new_tasks.iter().filter(|task| task.model == *model).count();
            // All slots were used, so more may be waiting. New tasks must not overtake them.
            if u32::try_from(count).is_ok_and(|count| count >= *max_tasks) {
                self.slots.for_model(model).queue();
            }
        }
        let new_with_slots = new_tasks.into_iter().map(|task| {
            let permits = permits.get_mut(&task.model).and_then(Option::as_mut);
            let slot = permits.and_then(|permits| permits.split(1));
            (task, slot)
        });
        let started: Vec<_> = begun_tasks
            .into_iter()
            .map(|task| (task, None))
            .chain(new_with_slots)
            .collect();
        for (task, slot) in started {
            let start = RunStart {
                lease: lease.clone(),
                slot,
                is_new: false,
            };
            self.start(task, start);
        }
        Ok(has_more)
    }

    fn start(&self, task: Task, start: RunStart) {
        let (log_span, trace_context) = crate::task_span(&task);
        let RunStart {
            lease,
            slot,
            is_new,
        } = start;
        let run = self.context.runs.start_run(&task, lease);
        let context = self.context.clone();
        let run = async move {
            let hosted_task = HostedTask {
                context: &context,
                task: &task,
                run: &run,
                is_new,
                end_seen_at: OnceLock::new(),
                pending_acceptance: OnceLock::new(),
            };
            let (outcome, closing) = hosted_task.run(slot).await;
            if !Box::pin(context.end(&task, &run, outcome, closing)).await {
                // The acceptance should have been written with the end of the task, but this
                // process did not end it.
                hosted_task.write_pending_acceptance().await;
            }
            if let Some(end_seen_at) = hosted_task.end_seen_at.get() {
                metrics::histogram!("mediagate_upstream_settle_seconds", "model" => task.model.clone())
                    .record(end_seen_at.elapsed());
            }
            // The provider has a free slot for another job.
            context.app.bell.ring_for_upstream();
        };
        self.tracker
            .spawn(run.with_context(trace_context).instrument(log_span));
    }
}
