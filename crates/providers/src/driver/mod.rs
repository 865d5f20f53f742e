//! All the I/O for all protocols: sends what adapters describe.
//!
//! ```text
//! provider   a configured provider: adapter, base URL, trusted hosts
//! clients    its HTTP clients
//! send       sends one call; what a broken connection proves
//! answer     its answer, until it was read
//! step       sends a repeatable call until its answer was read
//! auth       credentials, and those that are exchanged for others
//! submit     an order, up to the one call that costs, which is sent once
//! fence      the deadline for sending that call
//! poll       the state of a job          batch      … of many jobs in one call
//! find       the job of a submission whose answer was lost
//! download   a result into a file        sink       … that file
//! redact     removes secrets from texts  schedule   when to poll again
//! ```
//!
//! It never sends a paid submission a second time (except if the provider deduplicates), never
//! sends a credential to a host that is not the provider's, and never connects to a private address
//! from an answer. It keeps no state of a job between two calls; that is in the [`JobHandle`].

mod answer;
mod auth;
mod batch;
mod clients;
mod download;
mod fence;
mod find;
mod poll;
mod provider;
pub mod redact;
pub mod schedule;
mod send;
mod sink;
mod step;
mod submit;

use std::time::Duration;

pub use download::{DownloadError, DownloadedFile, may_come_back};
pub use fence::SendDeadline;
pub use find::LookupResult;
pub use poll::PollOutcome;
pub use provider::{Provider, ProviderRules};
pub use submit::{OrderAcceptance, ProgressWatch, SubmitError};

use crate::error::{ErrorDescription, ProviderError};
use crate::port::{JobHandle, JobSettlement};
use crate::response::ProviderResponse;
use crate::secret::Secret;

/// Sends calls. It has no state of its own: what is in flight is counted by each [`Provider`], and
/// downloads by whoever asks for them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Driver;

impl Driver {
    /// A driver.
    pub fn new() -> Self {
        Self
    }

    /// Cancels a job; returns whether it is provably cancelled. `Ok(false)` also if the provider
    /// cannot cancel jobs.
    pub async fn cancel(
        &self,
        provider: &Provider,
        secret: &Secret,
        handle: &JobHandle,
    ) -> Result<bool, ProviderError> {
        let adapter = provider.adapter();
        let mut next_call = adapter.cancel(handle);
        for is_first in [true, false] {
            let Some(call) = next_call.take() else {
                break;
            };
            let read = |_: &_, answer: &ProviderResponse| {
                // A 429 or a 5xx is retried. Any other answer is evaluated by the adapter.
                let status = answer.status.as_u16();
                if status == 429 || status >= 500 {
                    return Err(answer.failure(|_| ErrorDescription::default()));
                }
                let other = adapter.cancel_otherwise(handle, answer);
                let other = other.filter(|_| is_first);
                Ok((adapter.confirms_cancellation(handle, answer), other))
            };
            let result = provider
                .call_with_retries(secret, &call, step::FREE_CALL_RETRIES, read)
                .await;
            let (is_confirmed, other) = result.map_err(|error| redact::error(error, secret))?;
            if is_confirmed {
                return Ok(true);
            }
            next_call = other;
        }
        Ok(false)
    }

    /// What became of the money of a cancelled job; `None` if the provider does not say that.
    pub async fn settlement(
        &self,
        provider: &Provider,
        secret: &Secret,
        handle: &JobHandle,
    ) -> Result<Option<JobSettlement>, ProviderError> {
        let adapter = provider.adapter();
        let Some(call) = adapter.settlement(handle) else {
            return Ok(None);
        };
        let read = |_: &_, answer: &ProviderResponse| adapter.read_settlement(handle, answer);
        let settlement = provider
            .call_with_retries(secret, &call, step::POLL_RETRIES, read)
            .await;
        settlement
            .map(Some)
            .map_err(|error| redact::error(error, secret))
    }

    /// Whether the provider answers now: to a call that orders nothing, or to a poll of a job that
    /// it made. `None` if there is neither. An error of the provider itself is an answer, unless it
    /// says that it cannot work.
    pub async fn try_provider(
        &self,
        provider: &Provider,
        secret: &Secret,
        known_job: Option<&JobHandle>,
    ) -> Option<Result<(), ProviderError>> {
        let adapter = provider.adapter();
        let poll = || known_job.and_then(|job| adapter.poll(job).ok());
        let call = adapter.trial().or_else(poll)?;
        let read = |_: &_, answer: &ProviderResponse| {
            let status = answer.status.as_u16();
            let is_unable = status >= 500 || matches!(status, 401..=403 | 408 | 425 | 429 | 499);
            // A proxy answers with pages.
            answer.json()?;
            if is_unable {
                return Err(answer.failure(|_| ErrorDescription::default()));
            }
            Ok(())
        };
        // Not repeated: the next trial comes after a pause.
        let result = provider
            .call_with_retries(secret, &call, step::SINGLE_TRY, read)
            .await;
        Some(result.map_err(|error| redact::error(error, secret)))
    }

    /// Whether the provider's host accepts connections now. No request is sent.
    pub async fn reachable(&self, provider: &Provider) -> bool {
        let url = provider.base_url();
        let port = url.port_or_known_default().unwrap_or(443);
        let connect = async {
            match url.host()? {
                url::Host::Domain(name) => tokio::net::TcpStream::connect((name, port)).await.ok(),
                url::Host::Ipv4(ip) => tokio::net::TcpStream::connect((ip, port)).await.ok(),
                url::Host::Ipv6(ip) => tokio::net::TcpStream::connect((ip, port)).await.ok(),
            }
        };
        let connected = tokio::time::timeout(Duration::from_secs(2), connect).await;
        matches!(connected, Ok(Some(_)))
    }
}
