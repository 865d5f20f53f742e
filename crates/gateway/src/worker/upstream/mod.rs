//! Tasks for hosted providers: from waiting for room, over one submission, to
//! files in the store.
//!
//! ```text
//! dispatch  takes waiting tasks, as many as there is room for
//! room      how many jobs a route and a credential take
//! job       a task while it is worked on; what the steps hand to each other
//! recover   goes on where an earlier run left off
//! submit    routes in order, one submission, never a second
//! intent    what is written before and after it
//! resolve   what became of one whose answer nobody saw
//! follow    polls until the job ends
//! stray     jobs that go on although their task was cancelled
//! order     a task as the provider's order
//! results   what was made: fetched, checked, stored
//! ```
//!
//! What a crash may interrupt is on disk before it happens: a submission's row
//! before its request leaves, the job's handle before it is polled.

mod follow;
mod intent;
mod job;
mod links;
mod order;
mod recover;
mod resolve;
mod results;
mod room;
mod stray;
mod submit;

pub(super) use resolve::look_again;
pub(super) use stray::release_left_over;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use opentelemetry::context::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::error::Error;
use crate::model::task::TaskState;
use crate::store;
use crate::worker::{Crew, ability};
use job::{Ended, Job};

/// Most tasks of one model that are taken up again at once.
const BATCH: u32 = 200;

/// Takes waiting tasks for as long as the process runs.
pub(super) async fn dispatch(crew: Arc<Crew>, tracker: TaskTracker) {
    if crew.until_entered().await.is_none() {
        return;
    }
    let mut places = HashMap::new();
    while !crew.stop.is_cancelled() {
        match take_all(&crew, &tracker, &mut places).await {
            Ok(true) => {}
            Ok(false) => {
                tokio::select! {
                    () = crew.app.bell.wait_for_upstream() => {}
                    () = crew.stop.cancelled() => {}
                }
            }
            Err(error) => {
                tracing::error!(inside = ?error.inside(), "cannot take tasks for providers");
                crew.pause(std::time::Duration::from_secs(1)).await;
            }
        }
    }
}

/// Takes what there is room for; whether there may be more at once.
async fn take_all(
    crew: &Arc<Crew>,
    tracker: &TaskTracker,
    places: &mut HashMap<String, Arc<Semaphore>>,
) -> Result<bool, Error> {
    let now = crew.app.clock.now();
    let models = crew
        .app
        .store
        .examine(move |conn| store::tasks::models_due(conn, now))
        .await?;
    let mut more = stray::take_all(crew, tracker).await?;
    for (model, has_begun) in models {
        let has_route = ability::has_route(&crew.app, &model);
        if !has_route && !has_begun {
            // Another process may have it; what none has is failed in the end.
            continue;
        }
        let places = places
            .entry(model.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(crew.app.config.max_submitting)))
            .clone();
        // Whoever leaves a place rings.
        let free = u32::try_from(places.available_permits()).unwrap_or(u32::MAX);
        let room = if has_route {
            room::for_model(&crew.app, &model).await?.min(free)
        } else {
            0
        };
        let _claiming = crew.runs.claiming();
        let lease = crew.runs.lease();
        let by = lease.name.clone();
        let taken = crew
            .app
            .store
            .write(move |conn| -> Result<_, Error> {
                // What has begun has its place already, whatever room is left.
                let mut taken = Vec::new();
                for (state, most) in [(TaskState::Running, BATCH), (TaskState::Queued, room)] {
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
        for task in taken {
            let (line, traced) = crate::worker::begin(&task);
            let run = crew.runs.take(&task, lease.clone());
            let crew = crew.clone();
            let is_new = task.state == TaskState::Queued;
            let place = is_new.then(|| places.clone().try_acquire_owned().ok());
            let run = async move {
                let job = Job {
                    crew: &crew,
                    task: &task,
                    run: &run,
                    shown: OnceLock::new(),
                };
                let (outcome, closing) = job.run(place.flatten()).await;
                Box::pin(crew.end(&task, &run, outcome, closing)).await;
                if let Some(shown) = job.shown.get() {
                    metrics::histogram!("mediagate_upstream_settle_seconds", "model" => task.model.clone())
                        .record(shown.elapsed());
                }
                // Its place is free.
                crew.app.bell.ring_for_upstream();
            };
            tracker.spawn(run.with_context(traced).instrument(line));
        }
    }
    Ok(more)
}

impl Job<'_> {
    async fn run(&self, place: Option<OwnedSemaphorePermit>) -> Ended {
        // In a box, for most of a job's life comes after it.
        let taken = Box::pin(self.take()).await;
        drop(place);
        self.crew.app.bell.ring_for_upstream();
        match taken {
            Ok(taken) => self.follow(taken).await,
            Err(ended) => ended,
        }
    }
}
