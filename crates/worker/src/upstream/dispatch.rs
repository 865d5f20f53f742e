//! Dispatcher of tasks for hosted providers: takes those that wait, as many as there is room
//! for, and new ones in the transaction that accepts them.

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

/// Most tasks of one model that are taken up again at once.
const BATCH: u32 = 200;
/// Time between two looks, at least. Each order for a model with limits rings, at every process; a look costs
/// a commit, and one sees what all of them ordered.
const SPACING: Duration = Duration::from_millis(20);
/// Pause after the database did not answer.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Takes tasks for as long as the process runs.
pub(crate) async fn dispatch(crew: Arc<WorkerContext>, tracker: TaskTracker) {
    if crew.until_registered().await.is_none() {
        return;
    }
    let places = SubmitSlots::new(crew.app.config.max_submitting);
    let desk = Arc::new(Dispatcher {
        crew: crew.clone(),
        tracker,
        places,
    });
    // Weak, because the app owns this closure and the desk holds the app.
    let weak = Arc::downgrade(&desk);
    crew.app
        .process
        .local_dispatch
        .open(move |tasks| weak.upgrade()?.claim(tasks));
    while !crew.stop.is_cancelled() {
        let next = Instant::now() + SPACING;
        match desk.take_all().await {
            Ok(true) => {}
            Ok(false) => {
                tokio::select! {
                    () = crew.app.bell.wait_for_upstream(next) => {}
                    () = crew.stop.cancelled() => {}
                }
            }
            Err(error) => {
                // The queues were marked as empty before the look failed.
                desk.places.assume_queued();
                tracing::error!(inside = ?error.internal_cause(), "cannot claim tasks for providers");
                crew.pause(RETRY_PAUSE).await;
            }
        }
    }
    crew.app.process.local_dispatch.close();
}

/// A model with tasks that are due.
struct DueModel {
    model: String,
    routes: LocalRoutes,
    /// Whether any of them has begun.
    has_begun: bool,
}

struct Dispatcher {
    crew: Arc<WorkerContext>,
    tracker: TaskTracker,
    places: SubmitSlots,
}

/// How a task comes to be run here.
struct RunStart {
    lease: Arc<Lease>,
    /// Until a provider has taken it; those that one has need none.
    place: Option<OwnedSemaphorePermit>,
    /// Whether nothing was ever submitted for it.
    is_new: bool,
}

impl Dispatcher {
    /// Claims tasks that are about to be accepted, if they would be started at once: where only a
    /// look at the database tells whether there is room, they wait for that.
    fn claim(self: Arc<Self>, tasks: &[Task]) -> Option<TaskClaim> {
        let WorkerContext {
            app, runs, stop, ..
        } = &*self.crew;
        let model = &tasks.first()?.model;
        let lease = runs.lease();
        // Without a proved lease nothing may be sent, and another process would have to free these.
        if stop.is_cancelled() || !runs.is_registered() || !lease.is_valid() {
            return None;
        }
        let places = self.places.for_model(model);
        if !capacity::is_unlimited(app, model) {
            places.queue();
            return None;
        }
        let mut reserved = places.reserve(tasks.len())?;
        // Before the tasks are in the database, so that `compare` does not take them for forgotten.
        let expected = runs.expect(tasks);
        let owner = lease.name.clone();
        Some(TaskClaim::new(owner, move |tasks| {
            for task in tasks {
                let start = RunStart {
                    lease: lease.clone(),
                    place: reserved.split(1),
                    is_new: true,
                };
                self.start(task, start);
            }
            drop(expected);
        }))
    }

    /// Takes what there is room for; whether there may be more at once.
    async fn take_all(&self) -> Result<bool, Error> {
        let crew = &self.crew;
        let now = crew.app.clock.now();
        // Before the database is read: a task that is accepted meanwhile marks its queue again, and
        // this must not undo it.
        self.places.clear_queued();
        let models = crew
            .app
            .store
            .long_read(move |conn| store::tasks::models_due(conn, now))
            .await?;
        let mut more = stray::take_all(crew, &self.tracker).await?;
        let mut queues: BTreeMap<String, (FairQueue, Vec<DueModel>)> = BTreeMap::new();
        for (model, has_begun) in models {
            let routes = LocalRoutes::for_model(&crew.app, &model);
            if !routes.can_run() && !has_begun {
                // Another process may have the model. Tasks that nobody can run fail after ten
                // minutes.
                continue;
            }
            let queue = capacity::queue_of(&crew.app, &model);
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
            more |= self.take(queue, due, now).await?;
        }
        Ok(more)
    }

    /// Takes tasks of a queue: what a provider has, whatever room is left, and what there is room for of the rest. Whether
    /// there may be more of the former.
    async fn take(
        &self,
        queue: FairQueue,
        due: Vec<DueModel>,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let crew = &self.crew;
        let mut held = HashMap::new();
        let mut begun = Vec::new();
        let mut wanted = Vec::new();
        for DueModel {
            model,
            routes,
            has_begun,
        } in due
        {
            if has_begun {
                begun.push((model.clone(), routes.can_run()));
            }
            if routes.can_run() {
                // Held before the claim, so that new tasks do not take these slots meanwhile.
                // Whoever gives one back rings.
                let places = self.places.for_model(&model).hold(u32::MAX);
                let most = places.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
                let most = u32::try_from(most).unwrap_or(u32::MAX);
                held.insert(model.clone(), places);
                wanted.push(ModelDemand {
                    model,
                    routes,
                    max_tasks: most,
                });
            }
        }
        let _claiming = crew.runs.begin_claim();
        let lease = crew.runs.lease();
        let by = lease.name.clone();
        let wanted = Arc::new(wanted);
        let claims = wanted.clone();
        let (sent, new) = crew
            .app
            .store
            .write(move |conn| -> Result<_, Error> {
                let mut sent = Vec::new();
                // What a provider may have comes first and needs no free place: its job goes on and
                // costs money whether or not somebody follows it.
                for (model, has_route) in &begun {
                    // Tasks without a route are claimed too, so that they come to an end.
                    sent.extend(if *has_route {
                        store::tasks::claim_sent(conn, &by, model, BATCH, now)?
                    } else {
                        let state = TaskState::Running;
                        store::tasks::claim_upstream(conn, &by, model, state, BATCH, now)?
                    });
                }
                let new = capacity::claim(conn, &by, &queue, &claims, now)?;
                Ok((sent, new))
            })
            .await?;
        let more = sent.len() >= BATCH as usize;
        for ModelDemand {
            model,
            max_tasks: most,
            ..
        } in wanted.iter()
        {
            let of_model = new.iter().filter(|task| task.model == *model).count();
            // All slots were used, so more may be waiting. New tasks must not pass them.
            if u32::try_from(of_model).is_ok_and(|count| count >= *most) {
                self.places.for_model(model).queue();
            }
        }
        let places = new.into_iter().map(|task| {
            let held = held.get_mut(&task.model).and_then(Option::as_mut);
            let place = held.and_then(|held| held.split(1));
            (task, place)
        });
        let started: Vec<_> = sent
            .into_iter()
            .map(|task| (task, None))
            .chain(places)
            .collect();
        for (task, place) in started {
            let start = RunStart {
                lease: lease.clone(),
                place,
                is_new: false,
            };
            self.start(task, start);
        }
        Ok(more)
    }

    fn start(&self, task: Task, start: RunStart) {
        let (line, traced) = crate::task_span(&task);
        let RunStart {
            lease,
            place,
            is_new,
        } = start;
        let run = self.crew.runs.start_run(&task, lease);
        let crew = self.crew.clone();
        let run = async move {
            let job = HostedTask {
                crew: &crew,
                task: &task,
                run: &run,
                is_new,
                end_seen_at: OnceLock::new(),
                pending_acceptance: OnceLock::new(),
            };
            let (outcome, closing) = job.run(place).await;
            if !Box::pin(crew.end(&task, &run, outcome, closing)).await {
                // The acceptance was to be written with the end of the task, which did not happen
                // here.
                job.write_pending_acceptance().await;
            }
            if let Some(shown) = job.end_seen_at.get() {
                metrics::histogram!("mediagate_upstream_settle_seconds", "model" => task.model.clone())
                    .record(shown.elapsed());
            }
            // The provider has room for another job.
            crew.app.bell.ring_for_upstream();
        };
        self.tracker
            .spawn(run.with_context(traced).instrument(line));
    }
}
