//! Requests to moderation services. The operator names their URLs, so they are trusted like those of
//! providers, also in private networks. Redirects are not followed.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use moderation::UnreadableResponse;
use reqwest::header::HeaderMap;
use url::Url;

/// Largest response.
const MAX_RESPONSE_BYTES: usize = 256 * 1024;

/// Why a service gave no verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceFault {
    #[error("the service did not respond in time")]
    Timeout,
    #[error("the service cannot be reached")]
    Unreachable,
    #[error("the connection to the service broke")]
    Broken,
    #[error("the service responded with status {0}")]
    Status(u16),
    #[error("the response is larger than {MAX_RESPONSE_BYTES} bytes")]
    TooLarge,
    #[error(transparent)]
    Unreadable(#[from] UnreadableResponse),
}

/// Posts to moderation services.
pub struct ModerationClient {
    client: reqwest::Client,
    /// For a whole request and its response.
    timeout: Duration,
}

impl ModerationClient {
    /// Fails with a reason if the client cannot be built.
    pub fn new(timeout: Duration) -> Result<Self, String> {
        let client = outbound::client(&[b"h2", b"http/1.1"], timeout)?
            .pool_idle_timeout(Duration::from_secs(20))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { client, timeout })
    }

    /// Posts JSON, and returns the body of a successful response.
    pub async fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Bytes, ServiceFault> {
        let response = self.send(url, headers, body);
        tokio::time::timeout(self.timeout, response)
            .await
            .unwrap_or(Err(ServiceFault::Timeout))
    }

    async fn send(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Bytes, ServiceFault> {
        let request = self.client.post(url.clone()).headers(headers).body(body);
        let response = request.send().await;
        let mut response = response.map_err(|error| classify_error(&error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(ServiceFault::Status(status.as_u16()));
        }
        let mut received = BytesMut::new();
        loop {
            let chunk = response.chunk().await;
            let Some(chunk) = chunk.map_err(|error| classify_error(&error))? else {
                return Ok(received.freeze());
            };
            if received.len() + chunk.len() > MAX_RESPONSE_BYTES {
                return Err(ServiceFault::TooLarge);
            }
            received.extend_from_slice(&chunk);
        }
    }
}

fn classify_error(error: &reqwest::Error) -> ServiceFault {
    if error.is_timeout() {
        ServiceFault::Timeout
    } else if error.is_connect() {
        ServiceFault::Unreachable
    } else {
        ServiceFault::Broken
    }
}
