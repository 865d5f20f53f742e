//! Repeatable calls with retries, and chains of such calls, of which polls consist.

use std::time::Duration;

use opentelemetry::trace::SpanKind;
use spans::TraceSpan;
use tokio::time::Instant;

use super::answer::ReceivedAnswer;
use super::provider::Provider;
use super::send::SendError;
use crate::error::{ErrorBasis, ErrorClass, ProviderError};
use crate::port::{AdapterStep, Call, CallContext};
use crate::response::ProviderResponse;
use crate::secret::Secret;

/// How often a call is sent, and the waits in between.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryPolicy {
    pub(super) max_tries: u32,
    /// If a provider asks for a longer wait, there is no retry, and its answer is final.
    pub(super) longest_wait: Duration,
    /// Whether a call that was refused as one too many is sent again here. A poll is not: whoever
    /// paces the polls must learn of the refusal first.
    pub(super) repeats_rate_limited: bool,
    /// When the first call should be sent; its delay is recorded.
    pub(super) due: Option<Instant>,
}

impl RetryPolicy {
    /// Sets the time at which the first call should be sent.
    pub(super) const fn due(self, at: Instant) -> Self {
        Self {
            due: Some(at),
            ..self
        }
    }
}

/// For calls whose outcome a caller waits for.
pub(super) const FREE_CALL_RETRIES: RetryPolicy = RetryPolicy {
    max_tries: 3,
    longest_wait: Duration::from_mins(1),
    repeats_rate_limited: true,
    due: None,
};

/// For polls: the next one follows anyway.
pub(super) const POLL_RETRIES: RetryPolicy = RetryPolicy {
    max_tries: 2,
    longest_wait: Duration::from_secs(2),
    repeats_rate_limited: false,
    due: None,
};

/// For look-ups of a job: few tries, as for a poll, because a look-up is repeated later anyway.
pub(super) const LOOKUP_RETRIES: RetryPolicy = RetryPolicy {
    repeats_rate_limited: true,
    ..POLL_RETRIES
};

/// For calls that are not repeated here.
pub(super) const SINGLE_TRY: RetryPolicy = RetryPolicy {
    max_tries: 1,
    ..POLL_RETRIES
};

/// Maximum number of calls in the chain of one poll, or before or after the paid call of a
/// submission.
const MAX_CHAIN_CALLS: usize = 100;
/// Maximum duration of such a chain.
const MAX_CHAIN_DURATION: Duration = Duration::from_mins(10);

impl Provider {
    /// Sends a free call, retries it if that may help, and reads its answer.
    pub(super) async fn call_with_retries<T>(
        &self,
        secret: &Secret,
        call: &Call,
        policy: RetryPolicy,
        read: impl Fn(&CallContext, &ProviderResponse) -> Result<T, ProviderError>,
    ) -> Result<T, ProviderError> {
        // Once, not before each try: the delay paces a chain of calls, and tries have their own
        // backoff.
        delay(call).await;
        let context = call.context();
        let mut token_renewed = false;
        let mut tries_made = 0;
        loop {
            tries_made += 1;
            // A retry is late on purpose. Counted, it would look like a poll that lagged.
            let due = policy.due.filter(|_| tries_made == 1);
            let ongoing = self.begin(&call.stage);
            let result = match ongoing.span.around(self.call_once(secret, call, due)).await {
                Ok(answer) => answer.read(self, |answer| read(&context, answer)).await,
                Err(send_error) => Err(send_error.error),
            };
            self.finish_call(&ongoing, result.as_ref().err());
            let Err(error) = result else {
                return result;
            };
            // An exchanged credential may be revoked before its time. One new exchange
            // distinguishes that from a wrong secret, and does not count as a try. If there was no
            // exchanged credential, `forget` returns false.
            if error.class == ErrorClass::Credentials
                && !token_renewed
                && self.tokens().forget(secret)
            {
                token_renewed = true;
                tries_made -= 1;
                continue;
            }
            let wait = backoff(tries_made).max(error.retry_after.unwrap_or_default());
            // A wait that is too long is not cut short: the provider would only refuse again. The
            // caller gets the error with its `retry_after` and decides.
            let is_final = !error.class.is_transient()
                || is_blocked(&error)
                || (error.class == ErrorClass::RateLimited && !policy.repeats_rate_limited);
            if is_final || tries_made >= policy.max_tries || wait > policy.longest_wait {
                return Err(error);
            }
            tokio::time::sleep(wait).await;
        }
    }

    async fn call_once(
        &self,
        secret: &Secret,
        call: &Call,
        due: Option<Instant>,
    ) -> Result<ReceivedAnswer, SendError> {
        let destination = self.destination(call).map_err(SendError::unsent)?;
        let credential = self
            .credential(secret, call.with_credential && destination.trusted)
            .await
            .map_err(SendError::unsent)?;
        let prepared = self
            .prepare(call, destination, &credential)
            .map_err(SendError::unsent)?;
        // After the credential, because an exchange is a call too and takes its own permit. Calls
        // that hold permits while they wait for an exchange could keep all permits from it.
        let _permit = self.calls().acquire().await;
        if let Some(due) = due {
            metrics::histogram!("mediagate_upstream_poll_lag_seconds", "provider" => self.name().to_owned())
                .record(due.elapsed());
        }
        self.send(prepared, call.limit_bytes, None).await
    }

    /// Follows a chain of calls until a step is not another call.
    pub(super) async fn follow(
        &self,
        secret: &Secret,
        mut call: Call,
        mut policy: RetryPolicy,
        read: impl Fn(&CallContext, &ProviderResponse) -> Result<AdapterStep, ProviderError>,
    ) -> Result<AdapterStep, ProviderError> {
        let mut chain = CallChain::default();
        loop {
            match self.call_with_retries(secret, &call, policy, &read).await? {
                AdapterStep::Next(next_call) => {
                    chain.add(self, &call, &next_call).await?;
                    call = *next_call;
                    // Only the first call was scheduled, so only it can be late.
                    policy.due = None;
                }
                step => return Ok(step),
            }
        }
    }

    /// Starts the span and the clock of a call.
    pub(super) fn begin(&self, stage: &str) -> OngoingCall {
        let span = TraceSpan::begin(format!("provider {stage}"), SpanKind::Client);
        span.set("mediagate.provider", self.name().to_owned());
        OngoingCall {
            stage: stage.to_owned(),
            started: Instant::now(),
            span,
        }
    }

    /// Counts a call that is over.
    pub(super) fn finish_call(&self, ongoing: &OngoingCall, error: Option<&ProviderError>) {
        let outcome = error.map_or("ok", |error| error.class.name());
        ongoing.span.set("mediagate.outcome", outcome);
        if error.is_some() {
            ongoing.span.fail(outcome);
        }
        let (provider, stage) = (self.name().to_owned(), ongoing.stage.clone());
        let elapsed = ongoing.started.elapsed();
        tracing::debug!(
            provider,
            stage,
            outcome,
            took_ms = elapsed.as_millis(),
            "provider call completed"
        );
        metrics::histogram!("mediagate_upstream_call_seconds", "provider" => provider.clone(), "stage" => stage.clone())
            .record(elapsed);
        metrics::counter!("mediagate_upstream_calls_total", "provider" => provider, "stage" => stage, "outcome" => outcome)
            .increment(1);
    }
}

/// A call that is under way.
pub(super) struct OngoingCall {
    stage: String,
    started: Instant,
    pub(super) span: TraceSpan,
}

/// The length and age of a chain of calls, to limit both.
#[derive(Debug)]
pub(super) struct CallChain {
    length: usize,
    started: Instant,
}

impl Default for CallChain {
    fn default() -> Self {
        Self {
            length: 0,
            started: Instant::now(),
        }
    }
}

impl CallChain {
    /// Adds the next call to the chain. A repetition of the same call means waiting for the
    /// provider, so it waits even if the call sets no delay.
    pub(super) async fn add(
        &mut self,
        provider: &Provider,
        previous: &Call,
        next: &Call,
    ) -> Result<(), ProviderError> {
        self.length += 1;
        // Otherwise circular answers would keep the caller forever. The error is unclear, because
        // it proves nothing about the job.
        if self.length > MAX_CHAIN_CALLS || self.started.elapsed() > MAX_CHAIN_DURATION {
            let message = "the provider requires too many follow-up calls";
            return Err(ProviderError::new(ErrorClass::Unclear, message));
        }
        let is_same_call = (&previous.stage, &previous.target, &previous.carried_data)
            == (&next.stage, &next.target, &next.carried_data);
        if is_same_call && next.delay.is_none() {
            tokio::time::sleep(provider.adapter().pace().floor).await;
        }
        Ok(())
    }
}

/// Sets the basis of an error if the adapter did not: a success status means that it is the job's
/// record.
pub(super) fn with_default_basis(answer: &ProviderResponse, error: ProviderError) -> ProviderError {
    let by_status = if answer.status.is_success() {
        ErrorBasis::Record
    } else {
        ErrorBasis::Answer
    };
    let basis = error.basis.unwrap_or(by_status);
    error.with_basis(basis)
}

/// Waits for a call's delay before it is sent.
pub(super) async fn delay(call: &Call) {
    if let Some(delay) = call.delay {
        tokio::time::sleep(delay).await;
    }
}

/// The wait after a number of tries: 0.25, 0.5, 1 s …, up to half more or less.
pub(super) fn backoff(tries_made: u32) -> Duration {
    let base_wait = Duration::from_millis(125) * 2_u32.saturating_pow(tries_made.min(8));
    base_wait.mul_f64(0.5 + jitter())
}

/// A random number between 0 and 1.
fn jitter() -> f64 {
    getrandom::u32().map_or(0.5, |number| f64::from(number) / f64::from(u32::MAX))
}

/// Whether an error means that the URL is not allowed, which retries do not change.
pub(super) fn is_blocked(error: &ProviderError) -> bool {
    error.code.as_deref() == Some("blocked_address")
}
