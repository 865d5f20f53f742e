//! Submissions with an unknown outcome: the process died, or the answer was lost.
//!
//! If the provider deduplicates by key, the submission is sent again. Else, if the provider offers
//! a way to search for it, it is looked up there: by its key, or by its content as long as no other
//! submission looks the same. Otherwise, and if it is not found, the task ends: nothing is charged,
//! and nothing is sent again.

use std::time::{Duration, SystemTime};

use providers::driver::OrderAcceptance;
use providers::{JobHandle, Order, ProviderError};

use super::hosted_task::{
    AcceptedJob, HostedTask, OutgoingOrder, RunEnding, internal_ending, unconfirmed_ending,
};
use super::order;
use crate::finish::RunOutcome;
use mediagate_core::app::App;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::submission::{Submission, SubmissionState};
use mediagate_store as store;
use mediagate_store::submissions::{AcceptanceResult, JobAcceptance};

/// How long a process repeats a submission if the provider deduplicates, or has failed at it.
pub(super) const REPEAT_WINDOW: Duration = Duration::from_hours(1);
/// Pause before the next repetition.
const REPEAT_PAUSE: Duration = Duration::from_secs(2);
/// Pauses before each look-up at the provider: its lists may lag behind.
const LOOKUP_PAUSES: &[Duration] = &[
    Duration::from_millis(500),
    Duration::from_millis(1500),
    Duration::from_secs(3),
    Duration::from_secs(5),
];
/// How long the job of a similar submission with an unknown outcome may still be in a list.
const MATCH_WINDOW: Duration = Duration::from_mins(10);
/// Pause before an unclear submission is first looked up again.
const FIRST_RECHECK: Duration = Duration::from_mins(1);

/// The result of a look-up at the provider.
pub(super) enum JobLookup {
    /// This job is the submission's.
    Found(JobHandle),
    /// No job that is certainly not another submission's, so far.
    Unknown,
    /// The provider has no way to look up jobs.
    Unsupported,
}

impl HostedTask<'_> {
    /// Finds the outcome of a submission: its job, or that it cannot be determined.
    pub(super) async fn resolve(
        &self,
        sent: OutgoingOrder<'_>,
        reason: &str,
    ) -> Result<AcceptedJob, RunEnding> {
        let app = &self.context.app;
        let id = sent.submission.id;
        // No search is needed: `recover` repeats the request under its key, which returns the job
        // if there is one.
        if sent.may_be_repeated() {
            return Err(if self.context.watch_times.watch(id) < REPEAT_WINDOW {
                (RunOutcome::RetryLater(REPEAT_PAUSE), None)
            } else {
                unconfirmed_ending(sent.submission, reason, None)
            });
        }
        for &pause in LOOKUP_PAUSES {
            tokio::select! {
                () = self.context.pause(pause) => {}
                () = self.run.cancel_token.cancelled() => {}
            }
            if self.context.stop.is_cancelled() || self.run.cancel_token.is_cancelled() {
                return Err((RunOutcome::Stopped, None));
            }
            match look_up(app, sent).await {
                Ok(JobLookup::Found(handle)) => {
                    let accepted_at = app.clock.now();
                    // False if another submission got this job first. The search continues then.
                    if self.accept_found(sent, handle.clone()).await? {
                        tracing::warn!(submission_id = %id, "the provider had accepted the submission: its job was found");
                        return Ok(AcceptedJob {
                            submission: sent.submission.clone(),
                            site: sent.site.clone(),
                            credential: sent.credential.clone(),
                            route_model: sent.order.model.clone(),
                            accepted_at,
                            acceptance: OrderAcceptance::Job {
                                handle,
                                poll_after: None,
                            },
                            is_persisted: true,
                            state: SubmissionState::Accepted,
                            cost: None,
                            is_resumed: false,
                            _open: sent.credential.open(),
                        });
                    }
                }
                Ok(JobLookup::Unsupported) => {
                    return Err(unconfirmed_ending(sent.submission, reason, None));
                }
                Ok(JobLookup::Unknown) => {}
                Err(error) => {
                    tracing::warn!(submission_id = %id, class = error.class.name(), message = %error.message, "cannot search for a job");
                    // The provider refuses the search itself, and would refuse it again.
                    if !error.class.is_transient() {
                        return Err(unconfirmed_ending(sent.submission, reason, None));
                    }
                }
            }
        }
        Err(unconfirmed_ending(
            sent.submission,
            reason,
            // The caller gets an answer now. The search continues for the operator, who may be
            // charged.
            Some(app.clock.now().plus(FIRST_RECHECK)),
        ))
    }

    /// Records that the submission has this job. Returns false if another submission got it first.
    async fn accept_found(
        &self,
        sent: OutgoingOrder<'_>,
        handle: JobHandle,
    ) -> Result<bool, RunEnding> {
        let app = &self.context.app;
        let (id, now) = (sent.submission.id, app.clock.now());
        let acceptance = JobAcceptance {
            handle: Some(handle),
            results: None,
            cost: None,
        };
        let accepted = app
            .store
            .write(move |conn| -> Result<_, Error> {
                Ok(store::submissions::accept(conn, id, &acceptance, now)?)
            })
            .await;
        let accepted = accepted.map_err(|error| internal_ending(&error))?;
        Ok(accepted == AcceptanceResult::Accepted)
    }
}

/// Looks up a submission's job at its provider.
pub(super) async fn look_up(
    app: &App,
    sent: OutgoingOrder<'_>,
) -> Result<JobLookup, ProviderError> {
    let submission = sent.submission;
    let driver = &app.models.upstream.driver;
    let created_at = system_time(submission.created_at);
    let (provider, secret) = (&sent.site.provider, &sent.credential.secret);
    let Some(lookup) = driver
        .find(provider, secret, sent.order, created_at)
        .await?
    else {
        return Ok(JobLookup::Unsupported);
    };
    // The job carries the key of this order, which no other order has used.
    if let Some(job) = lookup.certain() {
        return Ok(JobLookup::Found(job.handle.clone()));
    }
    let jobs: Vec<JobHandle> = lookup.jobs.into_iter().map(|job| job.handle).collect();
    let submission = submission.clone();
    let since = submission.created_at.minus(MATCH_WINDOW);
    // After the list was read, so that every order whose job is in it has its row.
    let comparison = app.store.read(move |conn| -> Result<_, Error> {
        if store::submissions::has_undecided_twin(conn, &submission, since)? {
            return Ok(Vec::new());
        }
        let mut free = Vec::new();
        for handle in jobs {
            if !store::submissions::is_taken(conn, &submission.endpoint, &handle)? {
                free.push(handle);
            }
        }
        Ok(free)
    });
    // Without the database it cannot be determined which of these jobs belong to other orders.
    let mut free = comparison.await.unwrap_or_default();
    // Of several, some were ordered by others with the same account.
    let only = free.pop().filter(|_| free.is_empty());
    Ok(only.map_or(JobLookup::Unknown, JobLookup::Found))
}

fn system_time(at: Timestamp) -> SystemTime {
    let micros = u64::try_from(at.micros()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros)
}

/// Pauses between look-ups of an unclear submission, each up to an age: a job may appear late. The
/// clock alone ends none of them.
const RECHECK_SCHEDULE: [(Duration, Duration); 3] = [
    (Duration::from_hours(1), Duration::from_mins(10)),
    (Duration::from_hours(6), Duration::from_hours(1)),
    (Duration::from_hours(24), Duration::from_hours(6)),
];

/// Looks for unclear submissions whose tasks have ended. If a job turns up, that is logged for the
/// operator, who has to pay for it; the caller does not pay.
pub(crate) async fn recheck_unclear(app: &App) -> Result<(), Error> {
    const BATCH: u32 = 20;
    let now = app.clock.now();
    let due = app
        .store
        .read(move |conn| store::submissions::unclear_due(conn, BATCH, now))
        .await?;
    for submission in due {
        let handle = look_up_late(app, &submission).await?;
        let is_younger =
            |age: Duration| app.clock.has_passed(submission.created_at.plus(age)) != Some(true);
        let mut pauses = RECHECK_SCHEDULE.iter();
        let pause = pauses.find(|(until, _)| is_younger(*until));
        let next_lookup = pause.map(|(_, pause)| now.plus(*pause));
        let id = submission.id;
        let is_found = app
            .store
            .write(move |conn| -> Result<bool, Error> {
                let acceptance = handle.map(|handle| JobAcceptance {
                    handle: Some(handle),
                    results: None,
                    cost: None,
                });
                if let Some(acceptance) = acceptance
                    && store::submissions::mark_found(conn, id, &acceptance, now)?
                {
                    return Ok(true);
                }
                store::submissions::schedule_lookup(conn, id, next_lookup)?;
                Ok(false)
            })
            .await?;
        if is_found {
            metrics::counter!("mediagate_submissions_found_total").increment(1);
            tracing::error!(
                submission_id = %id, task_id = %submission.task, provider = %submission.provider,
                "the provider has a job for an unconfirmed submission; the caller was not charged"
            );
        }
    }
    Ok(())
}

/// The job of an unclear submission, if the provider lists it now.
async fn look_up_late(app: &App, submission: &Submission) -> Result<Option<JobHandle>, Error> {
    let id = submission.task;
    let task = app
        .store
        .read(move |conn| store::tasks::by_id_any_account(conn, id))
        .await?;
    let Some(task) = task else { return Ok(None) };
    let catalog = app.models.catalog.load_full();
    let route = catalog
        .with_id(&task.model)
        .and_then(|model| model.route(&submission.provider, &submission.route_model));
    let Some(route) = route else { return Ok(None) };
    let (upstream, extra) = (&app.models.upstream, order::extra(&task, route));
    let Some((site, credential)) = upstream.find_order_submitter(submission, &extra) else {
        return Ok(None);
    };
    let Ok(prepared) = order::build(app, &task, route, &site).await else {
        return Ok(None);
    };
    let order = Order {
        idempotency_key: submission.id.to_string(),
        ..prepared.order
    };
    let sent = OutgoingOrder {
        site: &site,
        credential: &credential,
        order: &order,
        submission,
        is_new: false,
    };
    match look_up(app, sent).await {
        Ok(JobLookup::Found(handle)) => Ok(Some(handle)),
        Ok(_) => Ok(None),
        // It is looked up again later.
        Err(error) => {
            tracing::debug!(class = error.class.name(), message = %error.message, "cannot search for a job");
            Ok(None)
        }
    }
}
