//! Submission of an order: the free calls before, the paid call, which is sent once, and the calls
//! after it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::auth::CallCredential;
use super::fence::{SendDeadline, is_too_late};
use super::provider::Provider;
use super::send::{PreparedRequest, SendError};
use super::step::{CallChain, FREE_CALL_RETRIES, backoff, delay, with_default_basis};
use super::{Driver, redact};
use crate::cost::ProviderCost;
use crate::error::{ErrorBasis, ErrorClass, ProviderError};
use crate::order::Order;
use crate::port::{Adapter, AdapterStep, Call, CallContext, CallEffect, JobHandle, JobOutput};
use crate::response::ProviderResponse;
use crate::secret::Secret;

/// How often a submission is repeated if the provider deduplicates.
const REPEATS: u32 = 3;
/// The longest wait for a provider that asks for one.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// The provider accepted the order.
#[derive(Debug, Clone)]
pub enum OrderAcceptance {
    /// The provider works on it.
    Job {
        /// Names the job.
        handle: JobHandle,
        /// When the provider asks to be polled first.
        poll_after: Option<Duration>,
    },
    /// The order is already done.
    Done(Vec<JobOutput>),
}

/// Why an order was not accepted, or its outcome is unknown.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError<E> {
    /// The intent could not be stored, so nothing was sent.
    #[error("the intent to submit was not recorded")]
    Intent(E),
    /// A call before the submission failed, or the order cannot be expressed as a call: nothing was
    /// submitted.
    #[error("before the submission: {0}")]
    BeforeSubmission(ProviderError),
    /// Not sent: when it was ready, its deadline had passed.
    #[error("not sent: the time limit had passed")]
    TooLate,
    /// Provably not accepted: the provider rejected it, or was not reached.
    #[error("rejected: {0}")]
    Refused(ProviderError),
    /// Accepted, and it failed.
    #[error("accepted, then failed: {0}")]
    Failed(ProviderError),
    /// Sent, and it is unknown whether it was accepted.
    #[error("it is unknown whether it was accepted: {0}")]
    Unclear(ProviderError),
}

/// Facts besides the outcome: the progress of a streamed submission, and the cost of the job. The
/// driver writes them, and the caller reads them.
#[derive(Debug, Clone, Default)]
pub struct ProgressWatch(Arc<WatchState>);

#[derive(Debug, Default)]
struct WatchState {
    progress: AtomicU8,
    cost: OnceLock<ProviderCost>,
}

impl ProgressWatch {
    /// A watch without progress or cost.
    pub fn new() -> Self {
        Self::default()
    }

    /// The progress, 0–100; it never decreases.
    pub fn progress(&self) -> Option<u8> {
        self.0.progress.load(Ordering::Relaxed).checked_sub(1)
    }

    fn set_progress(&self, progress: u8) {
        // Stored plus one, so that the 0 of a new watch means that nothing is known.
        self.0
            .progress
            .fetch_max(progress.min(100) + 1, Ordering::Relaxed);
    }

    /// Runs the work, and shows the progress each time that the work is polled. Progress changes
    /// only while an answer is read, so no timer is needed.
    pub async fn run_with_progress<T>(
        &self,
        work: impl Future<Output = T>,
        show: impl Fn(u8),
    ) -> T {
        let mut work = pin!(work);
        let watched = poll_fn(|context| {
            let done = work.as_mut().poll(context);
            if let Some(progress) = self.progress() {
                show(progress);
            }
            done
        });
        watched.await
    }

    /// The cost that the provider reported, once the job has ended.
    pub fn cost(&self) -> Option<ProviderCost> {
        self.0.cost.get().copied()
    }

    /// Reads the cost from an answer if that answer ended the job.
    pub(super) fn record_cost(
        &self,
        adapter: &dyn Adapter,
        answer: &ProviderResponse,
        step: &Result<AdapterStep, ProviderError>,
    ) {
        let has_ended = match step {
            Ok(step) => matches!(step, AdapterStep::Done { .. }),
            Err(error) => error.ends_job(),
        };
        // A figure in an earlier answer may be an estimate.
        if let Some(cost) = has_ended.then(|| adapter.cost(answer)).flatten() {
            // The first value is kept, because a job ends once.
            let _ = self.0.cost.set(cost);
        }
    }
}

impl Driver {
    /// Sends the order's calls. Before the one marked [`CallEffect::Submission`] is sent, `intent`
    /// is awaited; if it fails, or after the deadline that it returns, that call is not sent. It is
    /// sent once. Only if the provider deduplicates is it repeated after an unclear outcome, with
    /// the order's key.
    pub async fn submit<E>(
        &self,
        provider: &Provider,
        secret: &Secret,
        order: &Order,
        watch: &ProgressWatch,
        intent: impl AsyncFnOnce() -> Result<SendDeadline, E>,
    ) -> Result<OrderAcceptance, SubmitError<E>> {
        let submission = OrderSubmission {
            provider,
            secret,
            order,
            watch,
        };
        // Callers log, store and show these errors, and providers quote requests in them.
        let redacted = |error| redact::error(error, secret);
        submission.run(intent).await.map_err(|error| match error {
            SubmitError::Intent(error) => SubmitError::Intent(error),
            SubmitError::TooLate => SubmitError::TooLate,
            SubmitError::BeforeSubmission(error) => SubmitError::BeforeSubmission(redacted(error)),
            SubmitError::Refused(error) => SubmitError::Refused(redacted(error)),
            SubmitError::Failed(error) => SubmitError::Failed(redacted(error)),
            SubmitError::Unclear(error) => SubmitError::Unclear(redacted(error)),
        })
    }
}

struct OrderSubmission<'a> {
    provider: &'a Provider,
    secret: &'a Secret,
    order: &'a Order,
    watch: &'a ProgressWatch,
}

impl OrderSubmission<'_> {
    fn adapter(&self) -> &dyn Adapter {
        self.provider.adapter()
    }

    async fn run<E>(
        &self,
        intent: impl AsyncFnOnce() -> Result<SendDeadline, E>,
    ) -> Result<OrderAcceptance, SubmitError<E>> {
        let first_call = self.adapter().start(self.order);
        let call = self
            .run_preliminary_calls(first_call.map_err(SubmitError::BeforeSubmission)?)
            .await;
        let call = call.map_err(SubmitError::BeforeSubmission)?;
        // The operator's extra fields are only for the order. Calls before it have other bodies.
        let call = call.with_extra(&self.order.extra);
        // Whatever can fail without a connection fails before the intent is written. With the
        // intent on disk, a crash leaves an order of which it is unknown whether it was sent.
        let ready_submission = self
            .prepare_submission(&call)
            .await
            .map_err(SubmitError::BeforeSubmission)?;
        // The intent is on disk before a byte is sent: after a crash the order is looked up and not
        // sent again.
        let fence = intent().await.map_err(SubmitError::Intent)?;
        let step = self.send_once(&call, ready_submission, &fence).await?;
        self.follow_submission(&call, step).await
    }

    /// Makes the free calls before the paid one.
    async fn run_preliminary_calls(&self, mut call: Call) -> Result<Call, ProviderError> {
        let mut chain = CallChain::default();
        while call.effect == CallEffect::Free {
            let step = self.free_call(&call).await?;
            let next_call = match step {
                AdapterStep::Next(next_call) => *next_call,
                // An upload that the provider still processes. `chain.add` waits before it is
                // polled again.
                AdapterStep::Running { .. } => call.clone(),
                // A bug in the adapter: the call had no intent, so a crash would have lost a paid
                // job.
                AdapterStep::Submitted { .. } | AdapterStep::Done { .. } => {
                    let message = "a free call cannot submit a job";
                    return Err(ProviderError::unreadable(message));
                }
            };
            chain.add(self.provider, &call, &next_call).await?;
            call = next_call;
        }
        Ok(call)
    }

    async fn free_call(&self, call: &Call) -> Result<AdapterStep, ProviderError> {
        self.provider
            .call_with_retries(self.secret, call, FREE_CALL_RETRIES, |context, answer| {
                self.read(context, answer)
            })
            .await
    }

    fn read(
        &self,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let step = self.adapter().read_submission(self.order, context, answer);
        let step = step.map_err(|error| with_default_basis(answer, error));
        self.watch.record_cost(self.adapter(), answer, &step);
        step
    }

    /// The submission, ready to be sent, with its permit.
    async fn prepare_submission(&self, call: &Call) -> Result<ReadySubmission<'_>, ProviderError> {
        delay(call).await;
        let destination = self.provider.destination(call)?;
        let sends_credential = call.with_credential && destination.trusted;
        let credential = self
            .provider
            .credential(self.secret, sends_credential)
            .await?;
        let prepared = self.provider.prepare(call, destination, &credential)?;
        // The permit is acquired here, before the intent is written: the wait for it may be long,
        // and would widen the window in which a crash leaves the outcome unknown.
        Ok(ReadySubmission {
            prepared,
            credential,
            _permit: self.provider.submissions().acquire().await.ok(),
        })
    }

    /// Sends the paid call.
    async fn send_once<E>(
        &self,
        call: &Call,
        submission: ReadySubmission<'_>,
        fence: &SendDeadline,
    ) -> Result<AdapterStep, SubmitError<E>> {
        // `_permit` is held until the outcome is known, repetitions included.
        let ReadySubmission {
            prepared,
            credential,
            _permit,
        } = submission;
        // A repetition is safe only if the provider deduplicates.
        let mut last_error = match self.send(call, prepared, fence).await {
            Err(SubmitError::Unclear(error)) if self.adapter().deduplicates() => error,
            result => return result,
        };
        // A rejection from here on concerns the repetition. It does not say whether the provider
        // accepted the first submission, so the outcome stays unclear.
        for repeat in 1..=REPEATS {
            let wait = backoff(repeat + 1).max(last_error.retry_after.unwrap_or_default());
            // Shortened, unlike other waits: giving up would leave the order unconfirmed, and
            // trying too early costs nothing.
            tokio::time::sleep(wait.min(LONGEST_WAIT)).await;
            // Built again: sending consumes a request, and a signature is made for one moment.
            let retry = self.provider.destination(call);
            let retry =
                retry.and_then(|destination| self.provider.prepare(call, destination, &credential));
            let Ok(retry) = retry else { break };
            match self.send(call, retry, fence).await {
                // The first one was sent in time. `TooLate` would claim that nothing was sent.
                Err(SubmitError::TooLate) => break,
                Err(SubmitError::Unclear(error) | SubmitError::Refused(error)) => {
                    last_error = error.with_class(ErrorClass::Unclear);
                }
                result => return result,
            }
        }
        Err(SubmitError::Unclear(last_error))
    }

    async fn send<E>(
        &self,
        call: &Call,
        prepared: PreparedRequest,
        fence: &SendDeadline,
    ) -> Result<AdapterStep, SubmitError<E>> {
        let progress = |part: &[u8]| {
            if let Some(progress) = self.adapter().progress_of_part(part) {
                self.watch.set_progress(progress);
            }
        };
        let ongoing = self.provider.begin(&call.stage);
        let answer = match prepared.with_deadline(fence) {
            Ok(prepared) => {
                let sent = self
                    .provider
                    .send(prepared, call.limit_bytes, Some(&progress));
                ongoing.span.around(sent).await
            }
            Err(error) => Err(error),
        };
        let (reached, result) = match answer {
            Ok(answer) => {
                let context = call.context();
                let outcome = answer.read(self.provider, |answer| self.outcome(&context, answer));
                (true, outcome.await)
            }
            Err(SendError { error, reached }) => (reached, Err(error)),
        };
        self.provider.finish_call(&ongoing, result.as_ref().err());
        result.map_err(|error| {
            // A free call would be sent again with a fresh token. This one is sent once, so the
            // fresh token is for the next order.
            if error.class == ErrorClass::Credentials {
                self.provider.tokens().forget(self.secret);
            }
            match error.class {
                // Before the next arm: a request that was not sent did not reach the provider
                // either.
                _ if is_too_late(&error) => SubmitError::TooLate,
                // Proof without any answer: no byte of the request was sent.
                _ if !reached => SubmitError::Refused(error),
                ErrorClass::Refused if error.basis == Some(ErrorBasis::Record) => {
                    SubmitError::Failed(error)
                }
                // `outcome` has made every unproved rejection unclear, so this one is proved.
                class if class.is_refusal() => SubmitError::Refused(error),
                ErrorClass::Failed
                | ErrorClass::Unfit
                | ErrorClass::Lost
                | ErrorClass::Unconfirmed => SubmitError::Failed(error),
                _ => SubmitError::Unclear(error),
            }
        })
    }

    /// Evaluates the answer to the submission. An error counts as a rejection only if it is in the
    /// protocol's table, and never if the answer contains a job's id.
    fn outcome(
        &self,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let error = match self.read(context, answer) {
            Err(error) => error,
            accepted => return accepted,
        };
        let adapter = self.adapter();
        let is_final = error.basis == Some(ErrorBasis::Record)
            && matches!(
                error.class,
                ErrorClass::Failed | ErrorClass::Unfit | ErrorClass::Lost | ErrorClass::Unconfirmed
            );
        // An id means that the order was accepted, even together with an error. Only the record of
        // a job that has ended need not be followed.
        if !is_final && let Some(handle) = adapter.named_job(self.order, context, answer) {
            tracing::warn!(
                provider = self.provider.name(),
                status = answer.status.as_u16(),
                class = error.class.name(),
                message = %redact::error(error, self.secret).message,
                "the provider's response is an error but names a job; following the job"
            );
            return Ok(AdapterStep::Submitted {
                handle,
                poll_after: None,
            });
        }
        // The only place where an error becomes proof that nothing was accepted, after which
        // another route may get the order.
        let mut rules = adapter.refusals().into_iter();
        if rules.any(|rule| rule.is_proved_by(answer, &error)) {
            return Err(error.with_basis(ErrorBasis::Answer));
        }
        Err(match error.class {
            // A refusal in a successful response is the result of the order: accepted, nothing
            // made.
            ErrorClass::Refused if answer.status.is_success() => {
                error.with_basis(ErrorBasis::Record)
            }
            // No document proves this rejection, so the order must not be sent elsewhere.
            class if class.is_refusal() => error.with_class(ErrorClass::Unclear),
            _ => error,
        })
    }

    /// The result of the submission, after following all further calls.
    async fn follow_submission<E>(
        &self,
        call: &Call,
        mut step: AdapterStep,
    ) -> Result<OrderAcceptance, SubmitError<E>> {
        let mut chain = CallChain::default();
        let mut call = call.clone();
        loop {
            let next_call = match step {
                AdapterStep::Submitted { handle, poll_after } => {
                    return Ok(OrderAcceptance::Job { handle, poll_after });
                }
                AdapterStep::Done { outputs } => return Ok(OrderAcceptance::Done(outputs)),
                AdapterStep::Next(next_call) if next_call.effect == CallEffect::Free => *next_call,
                // An adapter must not be able to order twice, whatever an answer makes it do.
                AdapterStep::Next(_) => {
                    return Err(unclear("a job must not be submitted twice"));
                }
                AdapterStep::Running { .. } if call.effect == CallEffect::Free => call.clone(),
                // Without an id the job cannot be polled, and it may be paid for.
                AdapterStep::Running { .. } => {
                    return Err(unclear(
                        "the provider accepted the job but returned no job id",
                    ));
                }
            };
            let added = chain.add(self.provider, &call, &next_call).await;
            added.map_err(SubmitError::Unclear)?;
            call = next_call;
            // The order was accepted before this call, so no error of it may count as a rejection.
            step = self.free_call(&call).await.map_err(|error| {
                if error.ends_job() {
                    SubmitError::Failed(error)
                } else {
                    SubmitError::Unclear(error.with_class(ErrorClass::Unclear))
                }
            })?;
        }
    }
}

fn unclear<E>(message: &str) -> SubmitError<E> {
    SubmitError::Unclear(ProviderError::unreadable(message))
}

struct ReadySubmission<'a> {
    prepared: PreparedRequest,
    credential: CallCredential,
    _permit: Option<tokio::sync::SemaphorePermit<'a>>,
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn progress_is_shown_as_it_is_reported_without_extra_polls() {
        let (watch, shown, polls) = (ProgressWatch::new(), Cell::new(0), Cell::new(0));
        let (progress_tx, mut progress_rx) = mpsc::unbounded_channel();
        let mut receiver = pin!(async {
            while let Some(progress) = progress_rx.recv().await {
                watch.set_progress(progress);
            }
        });
        let counting_polls = poll_fn(|context| {
            polls.set(polls.get() + 1);
            receiver.as_mut().poll(context)
        });
        let sender = async {
            for progress in [30, 20, 60] {
                tokio::time::sleep(Duration::from_hours(1)).await;
                progress_tx.send(progress).unwrap();
                tokio::task::yield_now().await;
                assert_eq!(shown.get(), progress.max(30));
            }
            drop(progress_tx);
        };
        tokio::join!(
            watch.run_with_progress(counting_polls, |progress| shown.set(progress)),
            sender
        );
        // Polled at the start, for each part and at the end. `join!` polls both when either wakes.
        assert!(polls.get() <= 8, "{} polls", polls.get());
    }
}
