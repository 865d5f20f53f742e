//! A provider as configured: its adapter, its URL, and which hosts are
//! trusted.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use orders::bounds::LARGE_ANSWERS_OF_PROVIDER;
use orders::model_names::is_plain_path;
use outbound::{AddressGuard, is_loopback_name};
use tokio::sync::Semaphore;
use url::Url;

use super::auth::TokenCache;
use super::batch::BatchQueues;
use super::clients::ProviderClients;
use crate::adapters::{Protocol, base_url};
use crate::error::{ErrorClass, ProviderError};
use crate::hosts::TrustedHosts;
use crate::port::{Adapter, Call, CallTarget};
use crate::settings::{ProviderSettings, SettingsError};

/// Longest URL of a result that is passed on, in characters.
const LONGEST_LINK: usize = 2_000;
/// Longest URL of a call, in bytes, as accepted by servers.
const LONGEST_ADDRESS: usize = 8_000;

/// The operator's rules for a provider's connections.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderRules {
    /// Hosts besides the provider's own that may be sent the credential and may be in private
    /// networks: `host`, `*.host` or `host:port`. Without a port, the scheme's default port is
    /// meant.
    pub hosts: Vec<String>,
    /// Non-public networks that URLs in answers may point to.
    pub allow_networks: Vec<IpNet>,
    /// Maximum size of a result, in bytes.
    pub max_result_bytes: u64,
    /// Timeout of connecting, including name lookup and TLS.
    pub connect_timeout: Duration,
    /// Timeout of a call that is answered at once; large bodies get more.
    pub short_timeout: Duration,
    /// Timeout of a call that is answered when the work is done.
    pub work_timeout: Duration,
    /// Timeout between two chunks of an answer.
    pub idle_timeout: Duration,
    /// The least progress of a download: this many bytes, each time this time has passed.
    pub least_download: (u64, Duration),
    /// Maximum number of submissions in flight.
    pub submissions_at_once: usize,
    /// Maximum number of polls and all other calls in flight. Submissions do not wait for them, nor
    /// they for submissions, which may take as long as the work.
    pub calls_at_once: usize,
    /// The folder for large answers while they arrive.
    pub spool: PathBuf,
}

impl Default for ProviderRules {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            allow_networks: Vec::new(),
            max_result_bytes: crate::port::MAX_RESULT_BYTES,
            connect_timeout: Duration::from_secs(10),
            short_timeout: Duration::from_secs(30),
            work_timeout: Duration::from_mins(15),
            idle_timeout: Duration::from_mins(2),
            least_download: (1 << 20, Duration::from_mins(2)),
            submissions_at_once: 256,
            calls_at_once: 256,
            spool: std::env::temp_dir(),
        }
    }
}

impl ProviderRules {
    /// The rules for URLs in answers.
    pub(super) fn outbound(&self) -> outbound::OutboundRules {
        outbound::OutboundRules {
            allow_networks: self.allow_networks.clone(),
            allow_ports: None,
        }
    }
}

/// A provider as configured. Cheap to clone.
#[derive(Clone)]
pub struct Provider(Arc<ProviderInner>);

struct ProviderInner {
    name: String,
    adapter: Arc<dyn Adapter>,
    base_url: Url,
    trusted: TrustedHosts,
    rules: ProviderRules,
    outbound: outbound::OutboundRules,
    clients: ProviderClients,
    submissions: Semaphore,
    calls: Semaphore,
    large_answers: Semaphore,
    tokens: TokenCache,
    batches: BatchQueues,
}

/// The checked destination of a call.
#[derive(Debug)]
pub(super) struct CallDestination {
    pub(super) url: Url,
    /// Whether the host is the provider's own, or listed.
    pub(super) trusted: bool,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.0.name, self.0.adapter)
    }
}

impl Provider {
    /// A provider of this protocol with these settings.
    pub fn new(
        protocol: &Protocol,
        settings: &ProviderSettings,
        rules: ProviderRules,
    ) -> Result<Self, SettingsError> {
        let adapter = (protocol.build)(settings)?;
        let base_url = checked_base(base_url(protocol, settings)?)?;
        let listed = adapter.hosts().into_iter().chain(rules.hosts.clone());
        let trusted = TrustedHosts::new(&base_url, listed)
            .map_err(|message| SettingsError::at("hosts", message))?;
        let clients = ProviderClients::new(&rules).map_err(|error| SettingsError {
            key: None,
            line: None,
            message: format!("the HTTP client cannot be created: {error}"),
        })?;
        Ok(Self(Arc::new(ProviderInner {
            name: settings.name.clone(),
            adapter,
            base_url,
            trusted,
            outbound: rules.outbound(),
            submissions: Semaphore::new(rules.submissions_at_once),
            calls: Semaphore::new(rules.calls_at_once),
            large_answers: Semaphore::new(LARGE_ANSWERS_OF_PROVIDER),
            rules,
            clients,
            tokens: TokenCache::default(),
            batches: BatchQueues::default(),
        })))
    }

    /// The operator's name for it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The provider's protocol.
    pub fn adapter(&self) -> &dyn Adapter {
        self.0.adapter.as_ref()
    }

    /// The base URL of its paths.
    pub fn base_url(&self) -> &Url {
        &self.0.base_url
    }

    pub(super) fn rules(&self) -> &ProviderRules {
        &self.0.rules
    }

    /// Permits for submissions.
    pub(super) fn submissions(&self) -> &Semaphore {
        &self.0.submissions
    }

    /// Permits for all other calls.
    pub(super) fn calls(&self) -> &Semaphore {
        &self.0.calls
    }

    /// Permits for reading large answers.
    pub(super) fn large_answers(&self) -> &Semaphore {
        &self.0.large_answers
    }

    pub(super) fn tokens(&self) -> &TokenCache {
        &self.0.tokens
    }

    pub(super) fn batches(&self) -> &BatchQueues {
        &self.0.batches
    }

    /// The client for calls that may be repeated.
    pub(super) fn client(&self, trusted: bool) -> &reqwest::Client {
        if trusted {
            &self.0.clients.calls
        } else {
            &self.0.clients.untrusted
        }
    }

    /// The client for submissions, which are sent only once unless the provider deduplicates by
    /// key.
    pub(super) fn submission_client(&self, trusted: bool) -> &reqwest::Client {
        if trusted && self.0.adapter.deduplicates() {
            &self.0.clients.calls
        } else if trusted {
            &self.0.clients.submissions
        } else {
            &self.0.clients.untrusted
        }
    }

    /// The URL of a call, with its query.
    pub(super) fn destination(&self, call: &Call) -> Result<CallDestination, ProviderError> {
        let mut url = self.address(&call.target)?;
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        self.check(url)
    }

    /// Checks that a URL is trusted, or at least may be public.
    pub(super) fn check(&self, url: Url) -> Result<CallDestination, ProviderError> {
        let is_trusted = self.0.trusted.contain(&url);
        if !is_trusted {
            // The addresses of a name are checked by the client's resolver when it connects.
            AddressGuard::new(&self.0.outbound)
                .check_url(&resolve_localhost(&url))
                .map_err(|refusal| blocked_error(refusal.to_string()))?;
        }
        Ok(CallDestination {
            url,
            trusted: is_trusted,
        })
    }

    /// The URL of a result as it may be passed to a caller: absolute, and public as far as that
    /// can be known without resolving its name, so a name of a local network is refused. The error gives the reason why it may not. Being
    /// the provider's own host is not enough: how this gateway reaches its provider is no business
    /// of callers, who may not even be able to.
    pub fn link(&self, address: &str) -> Result<Url, String> {
        let url = self.address(&CallTarget::Address(address.to_owned()));
        let url = url.map_err(|error| error.message)?;
        // A relative text would become a URL at `base_url`. `https:a.mp4` is relative too, if that
        // has the same scheme.
        if Url::parse(address).as_ref() != Ok(&url) {
            return Err("its URL is not absolute".to_owned());
        }
        if url.as_str().chars().count() > LONGEST_LINK {
            return Err(format!("its URL is longer than {LONGEST_LINK} characters"));
        }
        let guard = AddressGuard::new(&self.0.outbound);
        let checked = guard.check_link(&url);
        checked.map_err(|refusal| refusal.to_string())?;
        Ok(url)
    }

    /// Like [`Self::link`], but also checks the IP addresses to which its host resolves now. No
    /// connection is made whose resolver would check them.
    pub async fn known_link(&self, address: &str) -> Result<Url, String> {
        let url = self.link(address)?;
        let guard = AddressGuard::new(&self.0.outbound);
        let checked = guard.check_host(&url).await;
        checked.map_err(|refusal| refusal.to_string())?;
        Ok(url)
    }

    fn address(&self, target: &CallTarget) -> Result<Url, ProviderError> {
        let base = &self.0.base_url;
        let root = base.origin().ascii_serialization();
        // Models' names come from callers and ids from answers. Neither may change which call is
        // made.
        if let CallTarget::Path(path) | CallTarget::Root(path) = target
            && !is_plain_path(path)
        {
            let message = "a name in the request would change the path of the URL";
            return Err(ProviderError::new(ErrorClass::Rejected, message));
        }
        // The parser drops tabs and line breaks, so the URL would differ from the text. An empty
        // text is no URL, although it could be resolved: to the provider's origin.
        if let CallTarget::Address(address) = target
            && (address.trim().is_empty()
                || address.len() > LONGEST_ADDRESS
                || address.trim().contains(char::is_control))
        {
            return Err(blocked_error("the provider returned an invalid URL"));
        }
        let parsed = match target {
            CallTarget::Path(path) => {
                let base = base.as_str().trim_end_matches('/');
                Url::parse(&format!("{base}{}", with_leading_slash(path)))
            }
            CallTarget::Root(path) => Url::parse(&format!("{root}{}", with_leading_slash(path))),
            // A relative one is resolved from the root.
            CallTarget::Address(address) => Url::parse(&root).and_then(|root| root.join(address)),
        };
        let url = parsed.map_err(|_| blocked_error("the provider returned an invalid URL"))?;
        // Checked on the parsed URL: only the parser knows what the joined text means.
        let is_path = !matches!(target, CallTarget::Address(_));
        if is_path && url.origin() != base.origin() {
            return Err(blocked_error("a path would leave the provider's host"));
        }
        Ok(url)
    }
}

/// Replaces the name `localhost`, which means the same everywhere, by its address.
fn resolve_localhost(url: &Url) -> Cow<'_, Url> {
    let is_loopback = url.host_str().is_some_and(is_loopback_name);
    let mut url = Cow::Borrowed(url);
    if is_loopback {
        // Cannot fail for a URL that has a host.
        let _ = url.to_mut().set_host(Some("127.0.0.1"));
    }
    url
}

/// The error for a URL to which nothing is sent. The operator may still allow it, so a paid job is
/// not given up because of it.
pub(super) fn blocked_error(message: impl Into<String>) -> ProviderError {
    ProviderError::new(ErrorClass::Unavailable, message).with_code("blocked_address")
}

fn with_leading_slash(path: &str) -> String {
    if path.starts_with('/') || path.is_empty() {
        path.to_owned()
    } else {
        format!("/{path}")
    }
}

fn checked_base(url: Url) -> Result<Url, SettingsError> {
    let invalid = |message| Err(SettingsError::at("base_url", message));
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return invalid("must begin with http:// or https:// and contain a host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return invalid("must not contain credentials");
    }
    // Paths are appended to the text of the base, and would become part of the query or fragment.
    if url.query().is_some() || url.fragment().is_some() {
        return invalid("must not have a query or a fragment");
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::PROTOCOLS;

    /// A provider at one port of a machine. At its port 80 somebody else may listen.
    #[test]
    fn no_protocol_trusts_another_port_of_its_host() {
        let mut checked = 0;
        for protocol in PROTOCOLS {
            let settings = ProviderSettings {
                base_url: Some("http://10.0.0.5:9000/x".parse().unwrap()),
                ..ProviderSettings::new(protocol.name, serde_json::Map::new())
            };
            // Some need more settings than a URL.
            let Ok(provider) = Provider::new(protocol, &settings, ProviderRules::default()) else {
                continue;
            };
            checked += 1;
            let is_trusted = |url: &str| provider.0.trusted.contain(&url.parse().unwrap());
            assert!(is_trusted("http://10.0.0.5:9000/y"), "{}", protocol.name);
            for other in [
                "http://10.0.0.5/y",
                "https://10.0.0.5/y",
                "https://10.0.0.5:9000/y",
                "http://10.0.0.5:9001/y",
            ] {
                assert!(!is_trusted(other), "{} trusts {other}", protocol.name);
            }
        }
        assert!(checked > 12, "only {checked} protocols");
    }
}
