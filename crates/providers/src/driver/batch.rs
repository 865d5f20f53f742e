//! Polls of many jobs in one call, for providers that support it.
//!
//! The first poll opens a batch; polls with the same credential that come before it is sent join
//! it. The batch is a future that all of them drive, so that it continues if one of them is
//! dropped, and ends if all are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use locks::lock;
use opentelemetry::context::FutureExt as _;
use opentelemetry::trace::SpanContext;
use spans::TraceSpan;
use tokio::time::Instant;

use super::provider::Provider;
use super::step::{POLL_RETRIES, RetryPolicy, with_default_basis};
use crate::error::{ErrorClass, ProviderError};
use crate::port::{AdapterStep, JobHandle, MAX_ANSWER_BYTES, MAX_STATUS_BYTES};
use crate::secret::Secret;

/// How long a batch waits for further polls.
const JOIN_WINDOW: Duration = Duration::from_millis(200);

type BatchResults = Option<Arc<Vec<Result<AdapterStep, ProviderError>>>>;

/// The open batch of each credential.
#[derive(Default)]
pub(super) struct BatchQueues(Mutex<HashMap<Secret, Arc<BatchQueue>>>);

#[derive(Default)]
struct BatchQueue {
    open: Mutex<Option<OpenBatch>>,
    /// When the next call may be sent.
    next_at: Mutex<Option<Instant>>,
}

type BatchFuture = BoxFuture<'static, BatchResults>;

/// Jobs, each with the span context of its poll.
type BatchJobs = Arc<Mutex<Vec<(JobHandle, SpanContext)>>>;

struct OpenBatch {
    /// Empty as soon as the call is sent.
    jobs: BatchJobs,
    /// Dropped when no caller waits for it any more.
    call: WeakShared<BatchFuture>,
}

impl BatchQueues {
    fn queue(&self, secret: &Secret) -> Arc<BatchQueue> {
        lock(&self.0).entry(secret.clone()).or_default().clone()
    }
}

impl Provider {
    /// Polls together with others; `None` if the adapter has no batch call for these jobs.
    pub(super) async fn poll_with_others(
        &self,
        secret: &Secret,
        handle: &JobHandle,
        due: Instant,
    ) -> Option<Result<AdapterStep, ProviderError>> {
        let queue = self.batches().queue(secret);
        let (index, call) = self.join(&queue, secret, handle, due);
        let results = call.await?;
        Some(results.get(index).cloned().unwrap_or_else(|| {
            Err(ProviderError::unreadable(
                "the provider's response does not mention this job",
            ))
        }))
    }

    /// Adds a job to the open batch, or to a new one.
    fn join(
        &self,
        queue: &Arc<BatchQueue>,
        secret: &Secret,
        handle: &JobHandle,
        due: Instant,
    ) -> (usize, Shared<BatchFuture>) {
        let max_jobs = self.adapter().pace().batch;
        let mut open = lock(&queue.open);
        if let Some((batch, call)) = open
            .as_ref()
            // `None` once all of its polls were dropped: its future would not be driven.
            .and_then(|batch| Some((batch, batch.call.upgrade()?)))
        {
            let mut jobs = lock(&batch.jobs);
            if !jobs.is_empty() && jobs.len() < max_jobs {
                jobs.push((handle.clone(), spans::current()));
                return (jobs.len() - 1, call);
            }
        }
        // The batch's span is a child of this poll's, and needs no link to it.
        let first = (handle.clone(), SpanContext::empty_context());
        let jobs: BatchJobs = Arc::new(Mutex::new(vec![first]));
        let (provider, secret) = (self.clone(), secret.clone());
        let (batch_jobs, own_queue) = (jobs.clone(), queue.clone());
        let call = async move {
            provider
                .send_batch(&own_queue, &secret, &batch_jobs, due)
                .await
        };
        // Whichever poll drives the batch, the batch's span belongs to the poll that opened it.
        let call = call.with_current_context().boxed().shared();
        *open = call.downgrade().map(|call| OpenBatch { jobs, call });
        (0, call)
    }

    /// Sends the batch. `due` is when its first job should have been polled.
    async fn send_batch(
        &self,
        queue: &BatchQueue,
        secret: &Secret,
        jobs: &Mutex<Vec<(JobHandle, SpanContext)>>,
        due: Instant,
    ) -> BatchResults {
        tokio::time::sleep(JOIN_WINDOW).await;
        let gap = self.adapter().pace().gap;
        // A loop, because another batch may take the time for which this one waited.
        while let Some(at) = reserve(&queue.next_at, gap) {
            tokio::time::sleep_until(at).await;
        }
        // Taken only now, so that the batch includes polls that came during the waits.
        let jobs = std::mem::take(&mut *lock(jobs));
        let (handles, others): (Vec<JobHandle>, Vec<SpanContext>) = jobs.into_iter().unzip();
        let handles: Vec<&JobHandle> = handles.iter().collect();
        let adapter = self.adapter();
        let mut call = adapter.poll_many(&handles)?;
        // Each job has the room of a poll of its own.
        let limit = MAX_STATUS_BYTES.saturating_mul(handles.len() as u64);
        call.limit_bytes = call.limit_bytes.max(limit.min(MAX_ANSWER_BYTES));
        // If there is a gap, a second try would be sent before it is over.
        let policy = RetryPolicy {
            max_tries: if gap.is_zero() {
                POLL_RETRIES.max_tries
            } else {
                1
            },
            ..POLL_RETRIES.due(due)
        };
        let polls = self.call_with_retries(secret, &call, policy, |context, answer| {
            let results = adapter
                .read_poll_many(&handles, context, answer)
                .into_iter();
            let results =
                results.map(|result| result.map_err(|error| with_default_basis(answer, error)));
            split_common_error(results.collect())
        });
        let span = TraceSpan::begin_for("polls", others);
        let results = span.around(polls).await;
        let results = results.unwrap_or_else(|error| vec![Err(error); handles.len()]);
        Some(Arc::new(results))
    }
}

/// Returns the error of the call itself, if every job got it and a retry may fix it.
fn split_common_error(
    results: Vec<Result<AdapterStep, ProviderError>>,
) -> Result<Vec<Result<AdapterStep, ProviderError>>, ProviderError> {
    let concerns_call = |result: &Result<AdapterStep, ProviderError>| {
        let class = result.as_ref().err().map(|error| error.class);
        class.is_some_and(|class| class.is_transient() || class == ErrorClass::Credentials)
    };
    match results.first() {
        Some(Err(error)) if results.iter().all(concerns_call) => Err(error.clone()),
        _ => Ok(results),
    }
}

/// Reserves the next call if it may be sent now; otherwise returns when it may.
fn reserve(next_at: &Mutex<Option<Instant>>, gap: Duration) -> Option<Instant> {
    let mut next_at = lock(next_at);
    let now = Instant::now();
    if let Some(at) = next_at.filter(|at| *at > now) {
        return Some(at);
    }
    *next_at = Some(now + gap);
    None
}
