//! Fetches callers' URLs into files, by the rules of [`outbound`].
//!
//! Time and size are limited, and each redirect is checked. Content goes to disk, not into memory.
//! The caller decides what the bytes are.

use std::path::Path;
use std::time::Duration;

use outbound::{AddressRefusal, BadRedirect, OutboundClient, OutboundRules, REDIRECTS, next_hop};
use reqwest::{Method, Response};
use tempfile::{NamedTempFile, TempPath};
use tokio::io::AsyncWriteExt as _;
use url::Url;

use mediagate_config::FetchRules;

/// Timeout for the first byte of each response.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout in total.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a URL could not be fetched. The messages are for the caller.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The rules forbid it.
    #[error("{0}")]
    Blocked(String),
    /// The download failed.
    #[error("{0}")]
    Failed(String),
    /// The response is longer than allowed.
    #[error("the file is larger than {} MB", limit_bytes / 1_000_000)]
    TooLarge { limit_bytes: u64 },
    /// The file could not be written here; not shown to the caller.
    #[error("the file could not be stored")]
    Local(#[source] std::io::Error),
}

impl From<AddressRefusal> for FetchError {
    fn from(refusal: AddressRefusal) -> Self {
        Self::Blocked(refusal.to_string())
    }
}

impl From<BadRedirect> for FetchError {
    fn from(error: BadRedirect) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Fetches for callers, by the operator's rules. Cheap to clone.
#[derive(Clone)]
pub struct UrlFetcher {
    client: OutboundClient,
}

impl UrlFetcher {
    /// Fails with a reason if the rules are invalid.
    pub fn new(rules: &FetchRules) -> Result<Self, String> {
        let rules = OutboundRules {
            allow_networks: rules.allow_networks.clone(),
            allow_ports: Some(rules.allow_ports.clone()),
        };
        let client = OutboundClient::new(rules, FIRST_BYTE_TIMEOUT)?;
        Ok(Self { client })
    }

    /// Downloads `address` to a file in `folder`, at most `limit_bytes`.
    pub async fn fetch(
        &self,
        address: &str,
        limit_bytes: u64,
        folder: &Path,
    ) -> Result<TempPath, FetchError> {
        let overflow = OverflowPolicy::Reject;
        self.fetch_limited(address, limit_bytes, overflow, folder)
            .await
    }

    /// Downloads no more of `address` than its first `bytes`.
    pub async fn fetch_beginning(
        &self,
        address: &str,
        bytes: u64,
        folder: &Path,
    ) -> Result<TempPath, FetchError> {
        let overflow = OverflowPolicy::Truncate;
        self.fetch_limited(address, bytes, overflow, folder).await
    }

    async fn fetch_limited(
        &self,
        address: &str,
        bytes: u64,
        overflow: OverflowPolicy,
        folder: &Path,
    ) -> Result<TempPath, FetchError> {
        let url = Url::parse(address)
            .map_err(|_| FetchError::Blocked("it is not an absolute URL".into()))?;
        let download = async {
            let response = self.follow(url).await?;
            store_response(response, bytes, overflow, folder).await
        };
        let message = "the file did not arrive within 30 seconds";
        tokio::time::timeout(TOTAL_TIMEOUT, download)
            .await
            .unwrap_or_else(|_| Err(FetchError::Failed(message.into())))
    }

    /// The response after all redirects.
    async fn follow(&self, mut url: Url) -> Result<Response, FetchError> {
        for _ in 0..=REDIRECTS {
            // Checked for each redirect, because a public server may redirect into a private
            // network. The client checks a name's addresses when it resolves the name to connect,
            // so that they cannot change in between.
            let request = self.client.request(Method::GET, &url)?;
            let response = tokio::time::timeout(FIRST_BYTE_TIMEOUT, request.send()).await;
            let message = "the server did not respond within 10 seconds";
            let response = response.map_err(|_| FetchError::Failed(message.into()))?;
            let response = response.map_err(|error| describe_failure(&error))?;
            match next_hop(&url, &response)? {
                None => return Ok(response),
                Some(next) => url = next,
            }
        }
        let message = format!("the server redirected more than {REDIRECTS} times");
        Err(FetchError::Failed(message))
    }
}

/// What to do with a file that is longer than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OverflowPolicy {
    Reject,
    /// The rest is not fetched.
    Truncate,
}

async fn store_response(
    mut response: Response,
    limit_bytes: u64,
    overflow: OverflowPolicy,
    folder: &Path,
) -> Result<TempPath, FetchError> {
    if !response.status().is_success() {
        return Err(FetchError::Failed(format!(
            "the server responded with status {}",
            response.status().as_u16()
        )));
    }
    let is_longer = |length| length > limit_bytes;
    // Saves a useless download. The length may be missing or wrong, so bytes are counted too.
    if overflow == OverflowPolicy::Reject && response.content_length().is_some_and(is_longer) {
        return Err(FetchError::TooLarge { limit_bytes });
    }
    let file = NamedTempFile::new_in(folder).map_err(FetchError::Local)?;
    let (file, path) = file.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    let mut size = 0;
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| describe_failure(&error))?
    {
        size += chunk.len() as u64;
        if size > limit_bytes && overflow == OverflowPolicy::Reject {
            return Err(FetchError::TooLarge { limit_bytes });
        }
        file.write_all(&chunk).await.map_err(FetchError::Local)?;
        if size >= limit_bytes && overflow == OverflowPolicy::Truncate {
            break;
        }
    }
    file.flush().await.map_err(FetchError::Local)?;
    Ok(path)
}

/// The part of a client error that a caller may know: its kind, no URLs.
fn describe_failure(error: &reqwest::Error) -> FetchError {
    if let Some(refusal) = AddressRefusal::cause_of(error) {
        return refusal.into();
    }
    let message = if error.is_connect() {
        "the server cannot be reached"
    } else if error.is_timeout() {
        "the server took too long"
    } else if error.is_body() || error.is_decode() {
        "the connection was lost before the file was complete"
    } else {
        "the request failed"
    };
    FetchError::Failed(message.to_owned())
}
