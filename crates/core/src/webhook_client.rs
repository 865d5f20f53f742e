//! Sends webhooks, by the rules of [`outbound`]: what is posted, and how much of the
//! response is kept. `domain/webhooks` decides who is notified of what, and what a response means.

use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use outbound::{AddressRefusal, OutboundClient, OutboundRules};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response};
use url::{Host, Url};

use mediagate_config::{FetchRules, WebhookRules};
use mediagate_model::clock::Timestamp;
use mediagate_model::webhook::AttemptError;

/// Maximum number of bytes of a response that are read.
const MAX_READ_BYTES: usize = 64 * 1024;
/// How much of it is kept.
const MAX_KEPT_BYTES: usize = 1024;
/// Longest URL in characters.
pub const LONGEST_URL: usize = 2000;

/// Why a URL is not called. The messages are for the caller that gave it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlRefusal {
    #[error("Must be an absolute https URL.")]
    Malformed,
    #[error("Must be an https URL.")]
    NotHttps,
    #[error("Must have at most {LONGEST_URL} characters.")]
    TooLong,
    #[error("This URL is not allowed: {0}.")]
    Blocked(#[from] AddressRefusal),
}

/// Posts webhooks. Cheap to clone.
#[derive(Clone)]
pub struct WebhookClient {
    client: OutboundClient,
    rules: WebhookRules,
    fetch: FetchRules,
}

/// A receiver's response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookResponse {
    pub status: u16,
    /// How long it asks to wait.
    pub retry_after: Option<Duration>,
    /// The beginning of its body, as text.
    pub text: String,
}

impl WebhookClient {
    /// Fails with a reason if the rules are invalid.
    pub fn new(rules: &WebhookRules, fetch: &FetchRules) -> Result<Self, String> {
        let outbound_rules = OutboundRules {
            allow_networks: fetch.allow_networks.clone(),
            allow_ports: Some(fetch.allow_ports.clone()),
        };
        let client = match &rules.proxy {
            None => OutboundClient::new(outbound_rules, rules.timeout)?,
            Some(proxy) => {
                OutboundClient::through_proxy(proxy.url(), outbound_rules, rules.timeout)?
            }
        };
        Ok(Self {
            client,
            rules: rules.clone(),
            fetch: fetch.clone(),
        })
    }

    /// Checks a URL as far as possible without resolving its host name.
    pub fn check(&self, text: &str) -> Result<Url, UrlRefusal> {
        if text.chars().count() > LONGEST_URL {
            return Err(UrlRefusal::TooLong);
        }
        let url = Url::parse(text).map_err(|_| UrlRefusal::Malformed)?;
        match url.scheme() {
            "https" => {}
            "http" if self.allows_http(&url) => {}
            "http" => return Err(UrlRefusal::NotHttps),
            _ => return Err(UrlRefusal::Malformed),
        }
        // Checks only the text. The host name is resolved and checked at each attempt, because it
        // may point to another address by then.
        self.client.check(&url)?;
        Ok(url)
    }

    /// Whether the URL is in one of the operator's own networks, where http is allowed.
    fn allows_http(&self, url: &Url) -> bool {
        let address = match url.host() {
            Some(Host::Ipv4(ip)) => Some(std::net::IpAddr::V4(ip)),
            Some(Host::Ipv6(ip)) => Some(std::net::IpAddr::V6(ip)),
            Some(Host::Domain(_)) | None => None,
        };
        let networks = &self.fetch.allow_networks;
        let is_own = |ip| networks.iter().any(|network| network.contains(&ip));
        self.rules.allow_http || address.is_some_and(is_own)
    }

    /// Posts JSON with these headers, and waits for the whole response. If it asks to wait until a
    /// date and has no `date` header, the wait is counted from `now`.
    pub async fn post(
        &self,
        url: &str,
        headers: [(&'static str, String); 3],
        body: Bytes,
        now: Timestamp,
    ) -> Result<WebhookResponse, AttemptError> {
        let response = self.send(url, headers, body, now);
        // One limit for all of it, so that a receiver cannot hold a connection by sending single
        // bytes slowly.
        tokio::time::timeout(self.rules.timeout, response)
            .await
            .unwrap_or(Err(AttemptError::Timeout))
    }

    async fn send(
        &self,
        url: &str,
        headers: [(&'static str, String); 3],
        body: Bytes,
        now: Timestamp,
    ) -> Result<WebhookResponse, AttemptError> {
        // Checked again, because the rules may have changed since the URL was accepted.
        let url = self.check(url).map_err(|_| AttemptError::Blocked)?;
        let request = self.client.request(Method::POST, &url);
        let request = request.map_err(|_| AttemptError::Blocked)?;
        let mut header_map = HeaderMap::new();
        header_map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            let value = HeaderValue::try_from(value).map_err(|_| AttemptError::Unsigned)?;
            header_map.insert(HeaderName::from_static(name), value);
        }
        spans::inject_headers(&mut header_map);
        let response = request.headers(header_map).body(body).send().await;
        let response = response.map_err(|error| classify_error(&error))?;
        read(response, now).await
    }
}

/// Reads a response. Its status decides, so a response whose body is cut off still counts.
async fn read(mut response: Response, now: Timestamp) -> Result<WebhookResponse, AttemptError> {
    let status = response.status().as_u16();
    let retry_after = outbound::retry_after(response.headers(), Some(system_time(now)));
    let mut text = BytesMut::new();
    let mut size = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        size += chunk.len();
        let room = MAX_KEPT_BYTES - text.len();
        text.extend_from_slice(&chunk[..room.min(chunk.len())]);
        if size >= MAX_READ_BYTES {
            break;
        }
    }
    Ok(WebhookResponse {
        status,
        retry_after,
        text: printable(&text),
    })
}

fn system_time(at: Timestamp) -> SystemTime {
    let micros = u64::try_from(at.micros()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros)
}

/// The bytes as text that can be shown and stored.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let is_shown = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().filter(is_shown).collect()
}

fn classify_error(error: &reqwest::Error) -> AttemptError {
    // First, because a refused address comes as a connection error.
    if AddressRefusal::cause_of(error).is_some() {
        AttemptError::Blocked
    } else if error.is_timeout() {
        AttemptError::Timeout
    } else if error.is_connect() {
        AttemptError::Unreachable
    } else {
        AttemptError::Broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_with(allow_http: bool, networks: &[&str]) -> WebhookClient {
        let rules = WebhookRules {
            allow_http,
            ..WebhookRules::default()
        };
        let fetch = FetchRules {
            allow_networks: networks.iter().map(|text| text.parse().unwrap()).collect(),
            ..FetchRules::default()
        };
        WebhookClient::new(&rules, &fetch).unwrap()
    }

    #[test]
    fn only_public_https_is_called() {
        let client = client_with(false, &[]);
        assert!(client.check("https://example.com/hook?a=1").is_ok());
        assert!(client.check("https://93.184.215.14/").is_ok());
        for (url, refusal) in [
            ("", UrlRefusal::Malformed),
            ("hook", UrlRefusal::Malformed),
            ("ftp://example.com/", UrlRefusal::Malformed),
            ("http://example.com/", UrlRefusal::NotHttps),
            (
                "https://127.0.0.1/",
                UrlRefusal::Blocked(AddressRefusal::NotPublic),
            ),
            (
                "https://[::1]/",
                UrlRefusal::Blocked(AddressRefusal::NotPublic),
            ),
            (
                "https://169.254.169.254/",
                UrlRefusal::Blocked(AddressRefusal::NotPublic),
            ),
            (
                "https://u:p@example.com/",
                UrlRefusal::Blocked(AddressRefusal::Credential),
            ),
        ] {
            assert_eq!(client.check(url).unwrap_err(), refusal, "{url}");
        }
        let long = format!("https://example.com/{}", "x".repeat(LONGEST_URL));
        assert_eq!(client.check(&long).unwrap_err(), UrlRefusal::TooLong);
    }

    #[test]
    fn http_is_for_the_operators_own_networks_or_where_it_is_allowed() {
        assert!(
            client_with(false, &["127.0.0.0/8"])
                .check("http://127.0.0.1:9/")
                .is_ok()
        );
        assert!(
            client_with(false, &["127.0.0.0/8"])
                .check("http://localhost:9/")
                .is_err()
        );
        assert!(client_with(true, &[]).check("http://example.com/").is_ok());
        assert!(client_with(true, &[]).check("http://127.0.0.1/").is_err());
    }

    #[test]
    fn the_stored_part_of_a_response_is_printable() {
        assert_eq!(printable(b"a\0b\x1b[31m\xff\n"), "ab[31m\u{fffd}\n");
    }
}
