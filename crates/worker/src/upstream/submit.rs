//! One task, one submission: routes are tried in order until one accepts it, and the next one is
//! tried only if it is certain that no earlier one did.

use std::sync::Arc;
use std::time::Duration;

use providers::driver::{OrderAcceptance, ProgressWatch, SubmitError};
use providers::{ErrorClass, JobOutput, Order, ProviderCost, ProviderError};

use super::hosted_task::{
    AcceptedJob, DeclineReason, HostedTask, OutgoingOrder, PendingAcceptance, RouteAttempt,
    RunEnding, SendFailure, internal_ending,
};
use super::intent::IntentError;
use super::job_end::{JobEnd, failure};
use super::{order, results};
use crate::finish::RunOutcome;
use mediagate_core::crash;
use mediagate_core::domain::{routes, routing};
use mediagate_core::upstream::breaker::{CircuitBreaker, RouteUse};
use mediagate_core::upstream::{ProviderSite, route_order};
use mediagate_model::catalog::{Model, Route};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::SubmissionId;
use mediagate_model::submission::{Submission, SubmissionState};
use mediagate_store::submissions::JobAcceptance;

/// Pauses between rounds over all routes, while none accepts the task.
const ROUND_PAUSES: &[Duration] = &[
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];
/// How long a task waits for providers that report overload.
const BUSY_TIMEOUT: Duration = Duration::from_mins(10);
/// Pause before a full route is tried again.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// How a provider's acceptance was recorded in the database.
struct PersistedAcceptance {
    at: Timestamp,
    /// Whether its handle or results are in the database.
    is_persisted: bool,
    /// The submission's state.
    state: SubmissionState,
}

impl HostedTask<'_> {
    /// Finds a route that accepts the task.
    pub(super) async fn submit(&self) -> Result<AcceptedJob, RunEnding> {
        let upstream = &self.context.app.models.upstream;
        let (app, account) = (&self.context.app, self.task.account);
        // A task that waited is checked before its pictures are sent anywhere. Whether it may be
        // sent is decided with the record of its submission.
        if !self.is_new && self.context.cancel_with_key(self.task, None).await {
            return Err((RunOutcome::Stopped, None));
        }
        // A provider that already has the sources comes first, and a persona is known only to one
        // provider: without this look-up the task would have no route at all.
        let source_provider = routing::source_provider(app, account, &self.task.payload)
            .await
            .map_err(|error| internal_ending(&error))?;
        for round in 0..=ROUND_PAUSES.len() {
            // Read again in each round: the settings may have been reloaded during the pause.
            let routes = self.routes(source_provider.as_deref())?;
            let mut is_any_full = false;
            for (route, site) in &routes {
                // On the heap: a try holds the whole order, and every run of a task contains it.
                let attempt = Box::pin(self.try_route(route, site, RouteUse::Usual));
                match attempt.await? {
                    RouteAttempt::Accepted(job) => return Ok(*job),
                    RouteAttempt::Declined(DeclineReason::Full) => is_any_full = true,
                    RouteAttempt::Declined(DeclineReason::Closed | DeclineReason::Refused(_)) => {}
                }
            }
            // It may take minutes until a slot is free. The task waits in the queue, so that
            // accounts keep taking turns and no submission slot is held.
            if is_any_full {
                return Err((RunOutcome::RetryLater(FULL_PAUSE), None));
            }
            let now = self.context.app.clock.now();
            let busy_times = routes.iter().filter_map(|(route, _)| {
                upstream.breaker(route, |breaker| breaker.busy_until(now))
            });
            // A provider that asked for a pause has not failed. The task waits in the queue for it.
            let started_at = self.task.started_at.unwrap_or(now);
            let clock = &self.context.app.clock;
            let is_over = clock.has_passed(started_at.plus(BUSY_TIMEOUT)) == Some(true);
            if let Some(until) = busy_times.min().filter(|_| !is_over) {
                return Err((RunOutcome::RetryLater(until.since(now)), None));
            }
            // No route works. One that waits for a trial may be tried with this order.
            for (route, site) in &routes {
                let awaits_trial = |breaker: &mut CircuitBreaker| breaker.awaits_trial_call(now);
                if upstream.breaker(route, awaits_trial)
                    && let RouteAttempt::Accepted(job) =
                        Box::pin(self.try_route(route, site, RouteUse::LastResort)).await?
                {
                    return Ok(*job);
                }
            }
            let Some(pause) = ROUND_PAUSES.get(round) else {
                break;
            };
            tokio::select! {
                () = self.context.pause(*pause) => {}
                () = self.run.cancel_token.cancelled() => {}
            }
            // Every submission so far is known to be refused, so another process may start over.
            if self.context.stop.is_cancelled() || self.run.cancel_token.is_cancelled() {
                return Err((RunOutcome::Stopped, None));
            }
        }
        let message = "No provider of this model accepted the task. Nothing was charged.";
        Err((
            RunOutcome::failed(ErrorCode::ProviderUnavailable, message),
            None,
        ))
    }

    /// The routes that can do the task, in the order in which they are tried.
    fn routes(
        &self,
        source_provider: Option<&str>,
    ) -> Result<Vec<(Route, Arc<ProviderSite>)>, RunEnding> {
        let app = &self.context.app;
        let catalog = app.models.catalog.load();
        let sites = app.models.upstream.sites();
        let model = catalog.with_id(&self.task.model);
        let routes = model
            .map(mediagate_model::catalog::Model::routes)
            .unwrap_or_default();
        let ordered_routes = route_order::weighted_order(routes, crate::random);
        let capable_routes: Vec<_> =
            routing::capable_routes(app, ordered_routes, &self.task.payload, source_provider)
                .into_iter()
                .filter_map(|route| Some((route.clone(), sites.get(&route.provider)?.clone())))
                .collect();
        if capable_routes.is_empty() {
            let message =
                "The model's providers no longer support this request. Nothing was charged.";
            return Err((
                RunOutcome::failed(ErrorCode::ProviderUnavailable, message),
                None,
            ));
        }
        Ok(capable_routes)
    }

    /// Tries one route, beginning with the credential that has the fewest open jobs.
    async fn try_route(
        &self,
        route: &Route,
        site: &Arc<ProviderSite>,
        route_use: RouteUse,
    ) -> Result<RouteAttempt, RunEnding> {
        let upstream = &self.context.app.models.upstream;
        if !upstream.enter(route, route_use, self.context.app.clock.now()) {
            return Ok(RouteAttempt::Declined(DeclineReason::Closed));
        }
        let mut decline = DeclineReason::Full;
        // From here on every outcome is reported to the breaker. An unreported trial would block
        // the route until the trial times out.
        let order = order::build(&self.context.app, self.task, route, site).await;
        let prepared = match order {
            Ok(prepared) => prepared,
            Err(order::OrderError::Gone(source)) => {
                upstream.breaker(route, CircuitBreaker::end_trial);
                let message =
                    format!("{source} was removed before the task began. Nothing was charged.");
                return Err((
                    RunOutcome::failed(ErrorCode::GenerationFailed, message),
                    None,
                ));
            }
            Err(order::OrderError::UnknownName) => {
                upstream.breaker(route, CircuitBreaker::end_trial);
                let message = "There is no model with this name. Nothing was charged.";
                return Err((RunOutcome::failed(ErrorCode::ModelNotFound, message), None));
            }
            Err(order::OrderError::Internal(error)) => {
                upstream.breaker(route, CircuitBreaker::end_trial);
                return Err(internal_ending(&error));
            }
        };
        // A clip or a persona is known only to the provider's account that made it.
        let credentials = match &prepared.credential {
            Some(pinned) => vec![pinned.clone()],
            None => route_order::by_load(site),
        };
        for credential in credentials {
            let submission = Submission {
                id: SubmissionId::new(),
                task: self.task.id,
                // Counted in the transaction that writes the row.
                attempt: 0,
                provider: route.provider.clone(),
                route_model: prepared.order.model.clone(),
                endpoint: site.endpoint.clone(),
                credential: credential.id.clone(),
                state: SubmissionState::Intended,
                handle: None,
                results: None,
                created_at: self.context.app.clock.now(),
                accepted_at: None,
                likeness: prepared.order.likeness(),
                has_key: Some(site.provider.adapter().deduplicates()),
                job_settings: Some(site.job_settings.clone()),
                order_settings: Some(
                    site.order_settings(&prepared.order.model, &prepared.order.extra),
                ),
            };
            let order = Order {
                // The id of the row is used as the idempotency key at the provider. After a crash
                // another process can repeat the request under the same key.
                idempotency_key: submission.id.to_string(),
                ..prepared.order.clone()
            };
            let sent = OutgoingOrder {
                site,
                credential: &credential,
                order: &order,
                submission: &submission,
                is_new: true,
            };
            match self.send_or_find(route, sent).await? {
                attempt @ RouteAttempt::Accepted(_) => return Ok(attempt),
                RouteAttempt::Declined(DeclineReason::Full | DeclineReason::Closed) => {}
                RouteAttempt::Declined(DeclineReason::Refused(error)) => {
                    // Another key or another account at the provider may still work.
                    let is_credential_error = matches!(
                        error.class,
                        ErrorClass::Credentials | ErrorClass::Account | ErrorClass::RateLimited
                    );
                    decline = DeclineReason::Refused(error);
                    if !is_credential_error {
                        break;
                    }
                }
            }
        }
        // Reported once, after all credentials were tried: one bad key among several is not a
        // failure of the route.
        if let DeclineReason::Refused(error) = &decline {
            let now = self.context.app.clock.now();
            // The next order would fail for the same reason, so one failure is enough.
            let is_permanent = matches!(error.class, ErrorClass::Credentials | ErrorClass::Account);
            let pause = error.retry_after;
            upstream.breaker(route, |breaker| match error.class {
                ErrorClass::RateLimited => breaker.record_busy(now, pause),
                _ => breaker.record_failure(now, is_permanent, pause),
            });
            routes::record_failure(&self.context.app, route, error).await;
        }
        Ok(RouteAttempt::Declined(decline))
    }

    /// Sends the order, and finds out its outcome if that is unclear.
    pub(super) async fn send_or_find(
        &self,
        route: &Route,
        sent: OutgoingOrder<'_>,
    ) -> Result<RouteAttempt, RunEnding> {
        match Box::pin(self.send(route, sent)).await {
            Ok(attempt) => Ok(attempt),
            Err(SendFailure::Unclear(reason)) => {
                let job = self.resolve(sent, &reason).await?;
                Ok(RouteAttempt::Accepted(Box::new(job)))
            }
            Err(SendFailure::Ended(ending)) => Err(ending),
        }
    }

    /// Handles an order if it is unknown whether the provider accepted it.
    async fn unclear(&self, route: &Route, error: ProviderError) -> SendFailure {
        let app = &self.context.app;
        // Such an order may be paid for and lost. It counts as a failure, so that the breaker opens
        // before many more orders are lost.
        let catalog = app.models.catalog.load();
        let model = catalog.with_id(&self.task.model);
        let routes = model.map(Model::routes).unwrap_or_default();
        let (upstream, now) = (&app.models.upstream, app.clock.now());
        upstream.record_lost_order(route, routes, now);
        drop(catalog);
        tracing::error!(provider = %route.provider, class = error.class.name(), message = %error.message, "unknown whether the provider accepted the submission");
        routes::record_order_error(app, route, &error).await;
        SendFailure::Unclear(error.message)
    }

    /// Sends the order; one that this run did not create is repeated with its key. Once the request
    /// has been sent, nothing interrupts this.
    async fn send(
        &self,
        route: &Route,
        sent: OutgoingOrder<'_>,
    ) -> Result<RouteAttempt, SendFailure> {
        let app = &self.context.app;
        let OutgoingOrder {
            site,
            credential,
            order,
            submission,
            is_new,
        } = sent;
        // Counted before the request is sent, so that orders sent at the same time choose different
        // credentials.
        let (open, id) = (credential.open(), submission.id);
        // The driver awaits this after everything that can fail without a connection, and before
        // the request that costs money. The row is then on disk before any cost can arise.
        let intent = async || {
            if is_new {
                self.intend(route, site, credential, submission.clone())
                    .await
            } else {
                self.confirm_held().await
            }
        };
        let watch = ProgressWatch::default();
        let driver = &app.models.upstream.driver;
        let answer = driver.submit(&site.provider, &credential.secret, order, &watch, intent);
        let report_progress = |progress| self.run.control.raise_progress(progress);
        let answer = watch.run_with_progress(answer, report_progress).await;
        let acceptance = match answer {
            Ok(acceptance) => acceptance,
            Err(SubmitError::Intent(error)) => {
                app.models
                    .upstream
                    .breaker(route, CircuitBreaker::end_trial);
                if matches!(error, IntentError::KeyEnded) {
                    self.context.cancel_with_key(self.task, None).await;
                }
                return Ok(error.into_attempt()?);
            }
            Err(SubmitError::TooLate) => {
                app.models
                    .upstream
                    .breaker(route, CircuitBreaker::end_trial);
                return Err(self.close_held_back(site, id, is_new).await.into());
            }
            // A repetition that was refused, or was not even sent, does not prove that the first
            // request was refused, so the submission stays as it is.
            Err(SubmitError::BeforeSubmission(error) | SubmitError::Refused(error)) if !is_new => {
                routes::record_order_error(app, route, &error).await;
                return Ok(RouteAttempt::Declined(DeclineReason::Refused(error)));
            }
            Err(SubmitError::BeforeSubmission(error)) => {
                // The intent comes later, so there is no row yet. This row only documents the
                // attempt.
                self.note_refused(submission, &error).await;
                return Ok(self.handle_refusal(route, error).await?);
            }
            Err(SubmitError::Refused(error)) => {
                // The refusal is on disk before another route is tried: `intend` allows nothing to
                // be sent unless all earlier submissions are known to be refused.
                return match self.write_refused(id, &error).await {
                    Ok(true) => Ok(self.handle_refusal(route, error).await?),
                    Ok(false) => Err((RunOutcome::Stopped, None).into()),
                    Err(error) => Ok(error.into_attempt()?),
                };
            }
            // The provider accepted the order and may charge for it, so no other route is tried.
            // The route itself works.
            Err(SubmitError::Failed(error)) => {
                app.models
                    .upstream
                    .breaker(route, CircuitBreaker::record_success);
                routes::record_order_error(app, route, &error).await;
                let intended = SubmissionState::Intended;
                let end = JobEnd::Told(error);
                return Err(end.into_ending(submission, intended, watch.cost()).into());
            }
            Err(SubmitError::Unclear(error)) => {
                return Err(self.unclear(route, error).await);
            }
        };
        crash::point("submission-sent");
        app.models
            .upstream
            .breaker(route, CircuitBreaker::record_success);
        let persisted = self
            .record_acceptance(sent, &acceptance, watch.cost())
            .await?;
        routes::record_acceptance(app, route).await;
        tracing::info!(provider = %route.provider, submission_id = %id, "provider accepted the task");
        Ok(RouteAttempt::Accepted(Box::new(AcceptedJob {
            submission: submission.clone(),
            site: site.clone(),
            credential: credential.clone(),
            route_model: order.model.clone(),
            accepted_at: persisted.at,
            acceptance,
            is_persisted: persisted.is_persisted,
            state: persisted.state,
            cost: watch.cost(),
            is_resumed: false,
            _open: open,
        })))
    }

    /// Records that the provider accepted the submission, with its handle or results. If the result
    /// is a link, the acceptance is written together with the end of the task.
    async fn record_acceptance(
        &self,
        sent: OutgoingOrder<'_>,
        accepted: &OrderAcceptance,
        cost: Option<ProviderCost>,
    ) -> Result<PersistedAcceptance, RunEnding> {
        let (handle, outputs) = match accepted {
            OrderAcceptance::Job { handle, .. } => (Some(handle.clone()), None),
            OrderAcceptance::Done(outputs) => (None, Some(outputs)),
        };
        let acceptance = JobAcceptance {
            handle,
            // Results that came as bytes in the answer cannot be serialised and recorded.
            results: outputs.and_then(|outputs| serde_json::to_value(outputs).ok()),
            cost,
        };
        // A link that callers may not get is recorded in the usual way. Storing it then fails the
        // task.
        let is_link = |outputs: &Vec<JobOutput>| {
            let link = results::link_of(sent.site, self.task, outputs);
            link.is_some_and(|(_, url)| sent.site.provider.link(url).is_ok())
        };
        if outputs.is_some_and(is_link) {
            // Only the link remains to be written, so the acceptance is written with the end of the
            // task: one commit instead of two. After a crash in between the outcome counts as
            // unknown.
            let pending = PendingAcceptance {
                submission: sent.submission.clone(),
                acceptance,
            };
            // It is not set before: once a provider has accepted, this run submits nothing else.
            let _ = self.pending_acceptance.set(pending);
            return Ok(PersistedAcceptance {
                at: self.context.app.clock.now(),
                is_persisted: false,
                state: SubmissionState::Intended,
            });
        }
        let is_persisted = acceptance.handle.is_some() || acceptance.results.is_some();
        let at = self.write_accepted(sent.submission, acceptance).await?;
        crash::point("submission-accepted");
        Ok(PersistedAcceptance {
            at,
            is_persisted,
            state: SubmissionState::Accepted,
        })
    }

    /// Handles a refusal: another route is tried, or the error is reported to the caller.
    async fn handle_refusal(
        &self,
        route: &Route,
        error: ProviderError,
    ) -> Result<RouteAttempt, RunEnding> {
        tracing::warn!(provider = %route.provider, class = error.class.name(), message = %error.message, "provider rejected the submission");
        // `Unclear` gets here only from a call before the submission, so another route may try.
        if error.class.allows_fail_over() || error.class == ErrorClass::Unclear {
            return Ok(RouteAttempt::Declined(DeclineReason::Refused(error)));
        }
        // The provider works; it refuses this particular request.
        let app = &self.context.app;
        app.models
            .upstream
            .breaker(route, CircuitBreaker::record_success);
        routes::record_order_error(app, route, &error).await;
        Err((failure(&error), None))
    }
}
