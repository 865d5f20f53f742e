//! Polling of a job.

use std::time::Duration;

use tokio::time::Instant;

use super::provider::Provider;
use super::step::{POLL_RETRIES, with_default_basis};
use super::{Driver, ProgressWatch, redact};
use crate::error::ProviderError;
use crate::port::{AdapterStep, JobHandle, JobOutput};
use crate::secret::Secret;

/// Longest status word that is shown.
const MAX_WORD_CHARS: usize = 60;

/// The state of a job.
#[derive(Debug)]
pub enum PollOutcome {
    /// The job is not done.
    Running {
        /// Its progress, 0–100, if the provider reports it.
        progress: Option<u8>,
        /// When the provider asks to be polled next.
        poll_after: Option<Duration>,
        /// A status word that the adapter does not know.
        unknown_status: Option<String>,
    },
    /// The job is done.
    Done(Vec<JobOutput>),
}

impl Driver {
    /// Polls a job. If the provider supports batches, jobs that are polled at about the same time
    /// share a call.
    ///
    /// After an error that is not the job's end ([`ProviderError::ends_job`]) the job's state is
    /// unchanged: poll again.
    pub async fn poll(
        &self,
        provider: &Provider,
        secret: &Secret,
        handle: &JobHandle,
    ) -> Result<PollOutcome, ProviderError> {
        let watch = ProgressWatch::new();
        self.poll_due(provider, secret, handle, Instant::now(), &watch)
            .await
    }

    /// A poll that should be sent at `due`; its delay is recorded. When the job has ended, `watch`
    /// gets its cost, if the provider reports it.
    pub async fn poll_due(
        &self,
        provider: &Provider,
        secret: &Secret,
        handle: &JobHandle,
        due: Instant,
        watch: &ProgressWatch,
    ) -> Result<PollOutcome, ProviderError> {
        let redacted = |error| redact::error(error, secret);
        match poll_job(provider, secret, handle, due, watch)
            .await
            .map_err(redacted)?
        {
            AdapterStep::Done { outputs } => Ok(PollOutcome::Done(outputs)),
            AdapterStep::Running {
                progress,
                poll_after,
                unknown_status,
            } => {
                let unknown_status =
                    unknown_status.map(|raw_word| redact::short(&raw_word, secret, MAX_WORD_CHARS));
                // An unknown word does not end a job, so the operator must be able to notice a
                // final status that the adapter does not know.
                if let Some(raw_word) = &unknown_status {
                    tracing::debug!(provider = provider.name(), raw_word, "unknown status word");
                    metrics::counter!("mediagate_upstream_unknown_words_total", "provider" => provider.name().to_owned())
                        .increment(1);
                }
                Ok(PollOutcome::Running {
                    progress,
                    poll_after,
                    unknown_status,
                })
            }
            // A bug in the adapter. The error is unclear, so the job's state is unchanged.
            AdapterStep::Submitted { .. } | AdapterStep::Next(_) => Err(ProviderError::unreadable(
                "a poll must not lead to another submission",
            )),
        }
    }
}

async fn poll_job(
    provider: &Provider,
    secret: &Secret,
    handle: &JobHandle,
    due: Instant,
    watch: &ProgressWatch,
) -> Result<AdapterStep, ProviderError> {
    let adapter = provider.adapter();
    let batched_result = if adapter.pace().batch > 1 {
        provider.poll_with_others(secret, handle, due).await
    } else {
        None
    };
    let first_call = match batched_result {
        // Further calls for one job, such as fetching its result, are not shared.
        Some(Ok(AdapterStep::Next(next))) => *next,
        Some(result) => return result,
        None => adapter.poll(handle)?,
    };
    provider
        .follow(
            secret,
            first_call,
            POLL_RETRIES.due(due),
            |context, answer| {
                let step = adapter.read_poll(handle, context, answer);
                let step = step.map_err(|error| with_default_basis(answer, error));
                watch.record_cost(adapter, answer, &step);
                step
            },
        )
        .await
}
