//! Polls of many jobs in one call, for providers that support it.
//!
//! The first poll opens a batch; polls with the same credential that come before it is sent join
//! it. The batch is a future that all of them drive, so that it continues if one of them is
//! dropped, and ends if all are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use opentelemetry::context::FutureExt as _;
use opentelemetry::trace::SpanContext;
use tokio::time::Instant;

use super::provider::Provider;
use super::step::{POLL_RETRIES, RetryPolicy, with_default_basis};
use crate::error::{ErrorClass, ProviderError};
use crate::port::{AdapterStep, JobHandle};
use crate::secret::Secret;
use crate::trace::{self, TraceSpan};

/// How long a batch waits for further polls.
const WINDOW: Duration = Duration::from_millis(200);

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
    places: BatchJobs,
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
        let (place, call) = self.join(&queue, secret, handle, due);
        let told = call.await?;
        Some(told.get(place).cloned().unwrap_or_else(|| {
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
        let most = self.adapter().pace().batch;
        let mut open = lock(&queue.open);
        if let Some((batch, call)) = open
            .as_ref()
            // `None` once all of its polls were dropped: its future would not be driven.
            .and_then(|batch| Some((batch, batch.call.upgrade()?)))
        {
            let mut places = lock(&batch.places);
            if !places.is_empty() && places.len() < most {
                places.push((handle.clone(), trace::current()));
                return (places.len() - 1, call);
            }
        }
        // The batch's span is a child of this poll's, and needs no link to it.
        let first = (handle.clone(), SpanContext::empty_context());
        let places: BatchJobs = Arc::new(Mutex::new(vec![first]));
        let (provider, secret) = (self.clone(), secret.clone());
        let (theirs, own_queue) = (places.clone(), queue.clone());
        let call = async move { provider.send_batch(&own_queue, &secret, &theirs, due).await };
        // Whichever poll drives it, its span belongs to the poll that opened it.
        let call = call.with_current_context().boxed().shared();
        *open = call.downgrade().map(|call| OpenBatch { places, call });
        (0, call)
    }

    /// `due` is when the first of them should have been polled.
    async fn send_batch(
        &self,
        queue: &BatchQueue,
        secret: &Secret,
        places: &Mutex<Vec<(JobHandle, SpanContext)>>,
        due: Instant,
    ) -> BatchResults {
        tokio::time::sleep(WINDOW).await;
        let gap = self.adapter().pace().gap;
        // A loop, because a batch that was opened when this one was full may take the reserved
        // time.
        while let Some(at) = reserve(&queue.next_at, gap) {
            tokio::time::sleep_until(at).await;
        }
        // Taken only now, so that polls that came during the waits are in it.
        let places = std::mem::take(&mut *lock(places));
        let (handles, others): (Vec<JobHandle>, Vec<SpanContext>) = places.into_iter().unzip();
        let handles: Vec<&JobHandle> = handles.iter().collect();
        let adapter = self.adapter();
        let call = adapter.poll_many(&handles)?;
        // A second try would be sent before the gap is over.
        let tries = RetryPolicy {
            max_tries: if gap.is_zero() {
                POLL_RETRIES.max_tries
            } else {
                1
            },
            ..POLL_RETRIES.due(due)
        };
        let told = self.call_with_retries(secret, &call, tries, |context, answer| {
            let told = adapter.read_poll_many(&handles, context, answer).into_iter();
            let told = told.map(|one| one.map_err(|error| with_default_basis(answer, error)));
            split_common_error(told.collect())
        });
        let together = TraceSpan::begin_for("polls", others);
        let told = together.around(told).await;
        let told = told.unwrap_or_else(|error| vec![Err(error); handles.len()]);
        Some(Arc::new(told))
    }
}

/// The error of the call itself, which every job got and which a retry may fix.
fn split_common_error(
    told: Vec<Result<AdapterStep, ProviderError>>,
) -> Result<Vec<Result<AdapterStep, ProviderError>>, ProviderError> {
    let of_the_call = |told: &Result<AdapterStep, ProviderError>| {
        let class = told.as_ref().err().map(|error| error.class);
        class.is_some_and(|class| class.is_transient() || class == ErrorClass::Credentials)
    };
    match told.first() {
        Some(Err(error)) if told.iter().all(of_the_call) => Err(error.clone()),
        _ => Ok(told),
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
