//! Which tasks for hosted providers this process takes: those that wait, as many as there is room
//! for, and new ones in the transaction that accepts them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::context::FutureExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::job::Job;
use super::places::Places;
use super::{room, stray};
use crate::error::Error;
use crate::handover::Claim;
use crate::model::task::{Task, TaskState};
use crate::store;
use crate::worker::runs::Lease;
use crate::worker::{Crew, ability};

/// Most tasks of one model that are taken up again at once.
const BATCH: u32 = 200;
/// Time between two looks, at least. Each order for a model with limits rings, at every process; a look costs
/// a commit, and one sees what all of them ordered.
const SPACING: Duration = Duration::from_millis(20);
/// Pause after the database did not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// Takes tasks for as long as the process runs.
pub(in crate::worker) async fn dispatch(crew: Arc<Crew>, tracker: TaskTracker) {
    if crew.until_entered().await.is_none() {
        return;
    }
    let places = Places::new(crew.app.config.max_submitting);
    let desk = Arc::new(Desk {
        crew: crew.clone(),
        tracker,
        places,
    });
    let weak = Arc::downgrade(&desk);
    crew.app
        .process
        .handover
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
                desk.places.not_seen();
                tracing::error!(inside = ?error.inside(), "cannot take tasks for providers");
                crew.pause(AGAIN).await;
            }
        }
    }
    crew.app.process.handover.close();
}

struct Desk {
    crew: Arc<Crew>,
    tracker: TaskTracker,
    places: Places,
}

/// How a task comes to be run here.
struct Start {
    lease: Arc<Lease>,
    /// Until a provider has taken it; those that one has need none.
    place: Option<OwnedSemaphorePermit>,
    /// Whether nothing was ever submitted for it.
    is_new: bool,
}

impl Desk {
    /// Claims tasks that are about to be accepted, if they would be started at once: where only a
    /// look at the database tells whether there is room, they wait for that.
    fn claim(self: Arc<Self>, tasks: &[Task]) -> Option<Claim> {
        let Crew {
            app, runs, stop, ..
        } = &*self.crew;
        let model = &tasks.first()?.model;
        let lease = runs.lease();
        if stop.is_cancelled() || !runs.has_entered() || !lease.is_proved() {
            return None;
        }
        let places = self.places.of(model);
        if !room::is_boundless(app, model) {
            places.queue();
            return None;
        }
        let mut reserved = places.reserve(tasks.len())?;
        let expected = runs.expect(tasks);
        let owner = lease.name.clone();
        Some(Claim::new(owner, move |tasks| {
            for task in tasks {
                let start = Start {
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
        self.places.look();
        let models = crew
            .app
            .store
            .examine(move |conn| store::tasks::models_due(conn, now))
            .await?;
        let mut more = stray::take_all(crew, &self.tracker).await?;
        for (model, has_begun) in models {
            let has_route = ability::has_route(&crew.app, &model);
            if !has_route && !has_begun {
                // Another process may have it; what none has is failed in the end.
                continue;
            }
            let places = self.places.of(&model);
            let room = if has_route {
                room::for_model(&crew.app, &model).await?
            } else {
                0
            };
            // Whoever leaves a place rings.
            let mut held = places.hold(room);
            let room = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let most_new = u32::try_from(room).unwrap_or(u32::MAX);
            let _claiming = crew.runs.claiming();
            let lease = crew.runs.lease();
            let by = lease.name.clone();
            let taken = crew
                .app
                .store
                .write(move |conn| -> Result<_, Error> {
                    // What has begun has its place already, whatever room is left.
                    let mut taken = Vec::new();
                    for (state, most) in
                        [(TaskState::Running, BATCH), (TaskState::Queued, most_new)]
                    {
                        if most > 0 {
                            taken.extend(store::tasks::claim_upstream(
                                conn, &by, &model, state, most, now,
                            )?);
                        }
                    }
                    Ok(taken)
                })
                .await?;
            more |= taken.len() >= BATCH as usize;
            let is_new = |task: &Task| task.state == TaskState::Queued;
            if taken.iter().filter(|task| is_new(task)).count() >= room {
                places.queue();
            }
            for task in taken {
                let place = held.as_mut().filter(|_| is_new(&task));
                let start = Start {
                    lease: lease.clone(),
                    place: place.and_then(|held| held.split(1)),
                    is_new: false,
                };
                self.start(task, start);
            }
        }
        Ok(more)
    }

    fn start(&self, task: Task, start: Start) {
        let (line, traced) = crate::worker::begin(&task);
        let Start {
            lease,
            place,
            is_new,
        } = start;
        let run = self.crew.runs.take(&task, lease);
        let crew = self.crew.clone();
        let run = async move {
            let job = Job {
                crew: &crew,
                task: &task,
                run: &run,
                is_new,
                shown: OnceLock::new(),
                untold: OnceLock::new(),
            };
            let (outcome, closing) = job.run(place).await;
            if !Box::pin(crew.end(&task, &run, outcome, closing)).await {
                job.tell_untold().await;
            }
            if let Some(shown) = job.shown.get() {
                metrics::histogram!("mediagate_upstream_settle_seconds", "model" => task.model.clone())
                    .record(shown.elapsed());
            }
            // Its place is free.
            crew.app.bell.ring_for_upstream();
        };
        self.tracker
            .spawn(run.with_context(traced).instrument(line));
    }
}
