//! Download of a result into a file: within limits, complete, and resumed after a broken connection
//! if the server supports it.

use std::time::Duration;

use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use outbound::{AddressRefusal, REDIRECTS, next_hop};
use tokio::fs::File;
use tokio::time::Instant;

use super::provider::{Provider, blocked_error};
use super::sink::DownloadSink;
use super::step::{backoff, is_blocked};
use super::{Driver, redact};
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::port::{Call, CallTarget, OutputSource};
use crate::response::ProviderResponse;
use crate::secret::Secret;

/// Maximum number of tries without new data.
const MAX_FRUITLESS_TRIES: u32 = 3;
/// Maximum number of tries in total.
const MAX_TRIES: u32 = 20;
/// Timeout for the beginning of the answer.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_mins(1);
/// Timeout of one download.
const TOTAL_TIMEOUT: Duration = Duration::from_hours(1);
/// The longest wait for a server that asks for one.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// A downloaded result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownloadedFile {
    /// The file's size.
    pub size_bytes: u64,
    /// SHA-256 of it, in hexadecimal.
    pub sha256: String,
    /// The media type reported by the server, without parameters.
    pub mime: Option<String>,
}

/// Why a result could not be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The URL has expired (401, 403, 404, 410): poll the job again.
    #[error("the result is no longer available at its URL")]
    Expired,
    /// Its URL is never used: it is not on a public host, or not a valid URL.
    #[error("{0}")]
    Refused(String),
    /// It is larger than allowed.
    #[error("the result is larger than {} MB", limit_bytes / 1_000_000)]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// It arrives more slowly than [`ProviderRules::least_download`](super::ProviderRules) demands.
    #[error("the result arrives too slowly")]
    TooSlow,
    /// It did not arrive completely.
    #[error("{0}")]
    Failed(ProviderError),
    /// The file could not be written here.
    #[error("the result cannot be stored: {0}")]
    Local(std::io::Error),
}

impl Driver {
    /// Writes a result to `file`, which is empty. An interrupted download is resumed or restarted.
    pub async fn download(
        &self,
        provider: &Provider,
        secret: &Secret,
        source: &OutputSource,
        file: &mut File,
    ) -> Result<DownloadedFile, DownloadError> {
        let no_result = || ProviderError::new(ErrorClass::Failed, "there is no result to fetch");
        let call = match source {
            OutputSource::Address(url) => Call::get("download", "")
                .with_target(CallTarget::Address(url.clone()))
                .without_credential(),
            OutputSource::Call(call) => (**call).clone(),
            OutputSource::Bytes(bytes) => {
                let mut sink = DownloadSink::new(file, provider.rules().max_result_bytes);
                sink.restart(None).await?;
                sink.write(bytes).await?;
                return sink.finish().await;
            }
            OutputSource::Nothing => return Err(DownloadError::Failed(no_result())),
        };
        let mut sink = DownloadSink::new(file, provider.rules().max_result_bytes);
        let result = fetch(provider, secret, &call, &mut sink);
        let result = tokio::time::timeout(TOTAL_TIMEOUT, result).await;
        let timed_out = || broken_download("the result did not arrive within an hour");
        result
            .unwrap_or_else(|_| Err(timed_out()))
            .map_err(|error| {
                if let DownloadError::Failed(error) = error {
                    return DownloadError::Failed(redact::error(error, secret));
                }
                error
            })?;
        sink.finish().await
    }
}

/// Whether a result that failed with this error may be available later.
pub fn may_come_back(error: &ProviderError) -> bool {
    error.class.is_transient() && !is_blocked(error)
}

/// Retries until the result is complete.
async fn fetch(
    provider: &Provider,
    secret: &Secret,
    call: &Call,
    sink: &mut DownloadSink<'_>,
) -> Result<(), DownloadError> {
    let mut fruitless_tries = 0;
    for _ in 0..MAX_TRIES {
        let size_before = sink.size();
        let ongoing = provider.begin("download");
        let result = ongoing
            .span
            .around(attempt(provider, secret, call, sink))
            .await;
        let error_to_record = match &result {
            Err(DownloadError::Failed(error)) => Some(error.clone()),
            Err(DownloadError::Expired) => Some(ProviderError::new(ErrorClass::Lost, "")),
            Err(DownloadError::Refused(reason)) => Some(blocked_error(reason.as_str())),
            Err(error @ DownloadError::TooSlow) => Some(ProviderError::new(
                ErrorClass::Unavailable,
                error.to_string(),
            )),
            Ok(()) | Err(_) => None,
        };
        provider.finish_call(&ongoing, error_to_record.as_ref());
        let Err(DownloadError::Failed(error)) = result else {
            return result;
        };
        // Over a bad connection, a large file arrives in many parts. Only tries without new data
        // count.
        fruitless_tries = if sink.has_resumed_past(size_before) {
            0
        } else {
            fruitless_tries + 1
        };
        let wait = backoff(fruitless_tries).max(error.retry_after.unwrap_or_default());
        if !may_come_back(&error) || fruitless_tries >= MAX_FRUITLESS_TRIES || wait > LONGEST_WAIT {
            return Err(DownloadError::Failed(error));
        }
        tokio::time::sleep(wait).await;
    }
    Err(broken_download("the result arrives in too many parts"))
}

async fn attempt(
    provider: &Provider,
    secret: &Secret,
    call: &Call,
    sink: &mut DownloadSink<'_>,
) -> Result<(), DownloadError> {
    let mut answer = open(provider, secret, call, sink.resumption()).await?;
    let status = answer.status();
    match status.as_u16() {
        200..=299 => {}
        // Storage services answer an expired signed URL with any of these.
        401 | 403 | 404 | 410 => return Err(DownloadError::Expired),
        // The data received so far belongs to another version of the file, so the next try starts
        // over.
        412 | 416 => {
            sink.forget();
            return Err(broken_download("the result changed during the download"));
        }
        _ => {
            // The body is not read: it may be a large page, and the status decides.
            let answer = ProviderResponse {
                status,
                headers: answer.headers().clone(),
                body: bytes::Bytes::new(),
            };
            return Err(DownloadError::Failed(
                answer.failure(|_| ErrorDescription::default()),
            ));
        }
    }
    let headers = answer.headers().clone();
    let length = answer.content_length();
    if status == StatusCode::PARTIAL_CONTENT {
        sink.resume(&headers, length)?;
    } else {
        sink.restart(Some((&headers, length))).await?;
    }
    let idle = provider.rules().idle_timeout;
    let (least_bytes, time) = provider.rules().least_download;
    let (mut since, mut size_then) = (Instant::now(), sink.size());
    loop {
        let chunk = tokio::time::timeout(idle, answer.chunk()).await;
        let chunk = chunk.map_err(|_| broken_download("the download of the result stalled"))?;
        let chunk = chunk.map_err(|_| {
            broken_download("the connection was lost before the download was complete")
        })?;
        let Some(chunk) = chunk else { break };
        sink.write(&chunk).await?;
        // Otherwise a server that sends a byte now and then would hold its slot for an hour.
        if since.elapsed() >= time {
            if sink.size() - size_then < least_bytes {
                return Err(DownloadError::TooSlow);
            }
            (since, size_then) = (Instant::now(), sink.size());
        }
    }
    sink.check_whole()
}

/// The answer after redirects. Each redirect is checked; the credential and the call's own headers
/// stay with trusted hosts.
async fn open(
    provider: &Provider,
    secret: &Secret,
    call: &Call,
    resumption: HeaderMap,
) -> Result<reqwest::Response, DownloadError> {
    let mut destination = provider.destination(call).map_err(|error| {
        // The URL itself is refused permanently. A host name or a redirect may point elsewhere the
        // next time, so those refusals are `Failed`, and the job is polled for a new URL.
        if is_blocked(&error) {
            return DownloadError::Refused(error.message);
        }
        DownloadError::Failed(error)
    })?;
    let mut call = call.clone();
    for _ in 0..=REDIRECTS {
        let sends_credential = call.with_credential && destination.trusted;
        let current_url = destination.url.clone();
        let credential = provider
            .credential(secret, sends_credential)
            .await
            .map_err(DownloadError::Failed)?;
        let request = provider
            .prepare(&call, destination, &credential)
            .map_err(DownloadError::Failed)?
            .into_request()
            .headers(resumption.clone())
            // Lengths and ranges count bytes as they are stored, so nothing may compress them.
            .header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let answer = tokio::time::timeout(FIRST_BYTE_TIMEOUT, request.send()).await;
        let answer =
            answer.map_err(|_| broken_download("the server did not respond within a minute"))?;
        let answer = answer.map_err(|error| connection_error(&error))?;
        let bad_redirect = "the server redirects to an invalid URL";
        let next_url =
            next_hop(&current_url, &answer).map_err(|_| broken_download(bad_redirect))?;
        let Some(next_url) = next_url else {
            return Ok(answer);
        };
        // Any other call would be repeated with its body at a URL that it was not meant for.
        if call.method != Method::GET {
            return Err(broken_download(bad_redirect));
        }
        destination = provider.check(next_url).map_err(DownloadError::Failed)?;
        if !destination.trusted {
            call.headers.clear();
        }
    }
    Err(broken_download("the server redirected more than 3 times"))
}

fn connection_error(error: &reqwest::Error) -> DownloadError {
    if let Some(refusal) = AddressRefusal::cause_of(error) {
        return DownloadError::Failed(blocked_error(refusal.to_string()));
    }
    let message = if error.is_connect() {
        "the server that holds the result cannot be reached"
    } else {
        "the connection was lost before the download was complete"
    };
    broken_download(message)
}

pub(super) fn broken_download(message: &str) -> DownloadError {
    DownloadError::Failed(ProviderError::new(ErrorClass::Unavailable, message))
}
