//! Tasks for hosted providers: from waiting for room, over one submission, to
//! files in the store.
//!
//! ```text
//! dispatch  takes waiting tasks, as many as there is room for
//! room      how many jobs a route and a credential take
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
mod order;
mod resolve;
mod results;
mod room;
mod stray;
mod submit;

pub(super) use resolve::look_again;
pub(super) use stray::release_left_over;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use providers::{Cost, Handle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::clock::Timestamp;
use crate::config::providers::JOB_LIMIT;
use crate::error::{Error, ErrorCode};
use crate::ids::SubmissionId;
use crate::model::catalog::Route;
use crate::model::submission::{Submission, SubmissionState};
use crate::model::task::{Task, TaskState};
use crate::store;
use crate::upstream::{Credential, OpenJob, Site, Upstream};
use crate::worker::finish::{Closing, Outcome};
use crate::worker::hold::Hold;
use crate::worker::{Crew, ability};

/// Most tasks of one model that are taken up again at once.
const BATCH: u32 = 200;
/// Tasks of one model that look for a provider at once: each holds its whole
/// order in memory until it is taken.
const SUBMITTING: usize = 256;

/// A task that this process holds, and what it takes to work on it.
struct Job<'a> {
    crew: &'a Crew,
    task: &'a Task,
    hold: &'a Hold,
    /// When a poll first showed that the job has ended.
    shown: OnceLock<Instant>,
}

/// A submission that a provider took.
struct Taken {
    submission: SubmissionId,
    site: Arc<Site>,
    credential: Arc<Credential>,
    /// As it was called when the job was made.
    made_with: String,
    route_model: String,
    accepted_at: crate::clock::Timestamp,
    result: Result<Handle, Vec<providers::Output>>,
    /// Whether that is on disk.
    is_kept: bool,
    /// What the provider says that the job cost.
    cost: Option<Cost>,
    /// When the provider wants to be asked first.
    poll_after: Option<std::time::Duration>,
    _open: OpenJob,
}

/// How working on a task ended.
type Ended = (Outcome, Option<Closing>);

impl Taken {
    /// The provider and the credential as the settings have them now: a key
    /// that was rotated while the job runs must not be asked with any more.
    fn refresh(&mut self, upstream: &Upstream) {
        let sites = upstream.sites();
        let site = sites.get(self.site.provider.name());
        let credential = site.and_then(|site| site.credential(&self.made_with));
        if let (Some(site), Some(credential)) = (site, credential) {
            (self.site, self.credential) = (site.clone(), credential.clone());
        }
    }
}

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
        .examine(move |conn| store::tasks::models_due(conn, now).map_err(Error::from))
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
            .or_insert_with(|| Arc::new(Semaphore::new(SUBMITTING)))
            .clone();
        // Whoever leaves a place rings.
        let free = u32::try_from(places.available_permits()).unwrap_or(u32::MAX);
        let room = if has_route {
            room::for_model(&crew.app, &model).await?.min(free)
        } else {
            0
        };
        let _claiming = crew.holds.claiming();
        let lease = crew.holds.lease();
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
            let span =
                tracing::info_span!("task", task_id = %task.id, request_id = %task.request_id);
            let hold = crew.holds.take(task.id, lease.clone());
            let crew = crew.clone();
            let is_new = task.state == TaskState::Queued;
            let place = is_new.then(|| places.clone().try_acquire_owned().ok());
            let run = async move {
                let job = Job {
                    crew: &crew,
                    task: &task,
                    hold: &hold,
                    shown: OnceLock::new(),
                };
                let (outcome, closing) = job.run(place.flatten()).await;
                Box::pin(crew.end(&task, &hold, outcome, closing)).await;
                if let Some(shown) = job.shown.get() {
                    metrics::histogram!("mediagate_upstream_settle_seconds", "model" => task.model.clone())
                        .record(shown.elapsed());
                }
                // Its place is free.
                crew.app.bell.ring_for_upstream();
            };
            tracker.spawn(run.instrument(span));
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

    /// Has a provider take the task, or finds that one did.
    async fn take(&self) -> Result<Taken, Ended> {
        match self.last_submission().await {
            Ok(None) => self.submit().await,
            Ok(Some(submission)) => self.resume(submission).await,
            Err(error) => Err(inside(&error)),
        }
    }

    async fn last_submission(&self) -> Result<Option<Submission>, Error> {
        let task = self.task.id;
        self.crew
            .app
            .store
            .read(move |conn| store::submissions::latest(conn, task).map_err(Error::from))
            .await
    }

    /// Goes on where another process, or an earlier run, left off.
    async fn resume(&self, submission: Submission) -> Result<Taken, Ended> {
        match submission.state {
            SubmissionState::Refused => self.submit().await,
            SubmissionState::Accepted => match result_of(&submission) {
                Some(result) => self.take_up(submission, result),
                // The answer was the result itself, and was lost with the process.
                None => Err(unconfirmed(
                    &submission,
                    "the process ended before the result was stored",
                    None,
                )),
            },
            SubmissionState::Intended => self.recover(submission).await,
            SubmissionState::Unclear | SubmissionState::Found | SubmissionState::Ended => Err(
                unconfirmed(&submission, "an earlier run could not find out", None),
            ),
        }
    }

    fn take_up(
        &self,
        submission: Submission,
        result: Result<Handle, Vec<providers::Output>>,
    ) -> Result<Taken, Ended> {
        let sites = self.crew.app.upstream.sites();
        let site = sites.get(&submission.provider);
        let credential = site.and_then(|site| site.credential(&submission.credential));
        let (Some(site), Some(credential)) = (site, credential) else {
            let since = submission.accepted_at.unwrap_or(submission.created_at);
            if self.crew.app.clock.now().since(since) > JOB_LIMIT {
                let message = "The gateway no longer has the provider that worked on the task. Nothing was charged.";
                let outcome = Outcome::failed(ErrorCode::GenerationFailed, message);
                let closing = Closing {
                    id: submission.id,
                    from: submission.state,
                    state: SubmissionState::Ended,
                    error: Some(("lost", "the settings no longer have the provider".into())),
                    cost: None,
                    look_again: None,
                };
                return Err((outcome, Some(closing)));
            }
            tracing::error!(provider = %submission.provider, "the settings no longer have the provider that works on this task");
            // The job may yet be looked after when the settings are mended.
            return Err((Outcome::Later(std::time::Duration::from_secs(5)), None));
        };
        tracing::info!(provider = %submission.provider, "job taken up again");
        // After a restart all are taken up at once, and should not be asked for so.
        let pace = site.provider.adapter().pace();
        let poll_after = pace.ceiling.mul_f64(follow::random());
        Ok(Taken {
            submission: submission.id,
            accepted_at: submission.accepted_at.unwrap_or(submission.created_at),
            route_model: submission.route_model,
            made_with: submission.credential,
            _open: credential.open(),
            site: site.clone(),
            credential: credential.clone(),
            result,
            is_kept: true,
            cost: None,
            poll_after: Some(poll_after),
        })
    }

    /// The route of the task's model that was taken, while the settings have it.
    fn route(&self, provider: &str, route_model: &str) -> Option<Route> {
        let catalog = self.crew.app.catalog.load();
        let model = catalog.with_id(&self.task.model)?;
        model.route(provider, route_model).cloned()
    }
}

/// Where the result of an accepted submission is to be had: from a job, or at
/// once. `None` when nothing of it was written down.
fn result_of(submission: &Submission) -> Option<Result<Handle, Vec<providers::Output>>> {
    if let Some(handle) = &submission.handle {
        return Some(Ok(handle.clone()));
    }
    let results = submission.results.clone()?;
    serde_json::from_value(results).ok().map(Err)
}

fn inside(error: &Error) -> Ended {
    tracing::error!(inside = ?error.inside(), "cannot work on a task");
    (Outcome::Later(std::time::Duration::from_secs(2)), None)
}

/// Nobody can tell whether the provider took it: nothing is charged, and
/// nothing is sent again. It may be looked for at the provider later.
fn unconfirmed(submission: &Submission, why: &str, look_again: Option<Timestamp>) -> Ended {
    metrics::counter!("mediagate_submissions_unconfirmed_total").increment(1);
    tracing::error!(submission_id = %submission.id, why, "submission unconfirmed");
    let message = "Whether the provider took the order cannot be found out, so it was not sent again. Nothing was charged.";
    let closing = submission.state.is_open().then(|| Closing {
        id: submission.id,
        from: submission.state,
        state: SubmissionState::Unclear,
        error: Some(("unclear", why.to_owned())),
        cost: None,
        look_again,
    });
    (
        Outcome::failed(ErrorCode::SubmissionUnconfirmed, message),
        closing,
    )
}
