//! The HTTP clients of a provider, one for each kind of connection.

use std::sync::Arc;
use std::time::Duration;

use outbound::{CheckedResolver, client};

use super::provider::ProviderRules;

/// A client for each kind of connection. None follows redirects on its own or uses a proxy from the
/// environment: connections go only to checked addresses.
pub(super) struct ProviderClients {
    /// To trusted hosts; connections are reused.
    pub(super) calls: reqwest::Client,
    /// To trusted hosts, a new HTTP/1.1 connection for each submission, unless the provider
    /// deduplicates by key (docs/decisions/0015), in which case `calls` is used. A reused
    /// connection may be broken: then either it is unknown whether the request arrived, or
    /// hyper-util sends it again on another one (`retry_canceled_requests`, which reqwest cannot
    /// disable). On a new connection that never happens, and without HTTP/2 there are no refused
    /// streams for reqwest to repeat either.
    pub(super) submissions: reqwest::Client,
    /// To all other hosts, which must be public. With the same precautions as `submissions`.
    pub(super) untrusted: reqwest::Client,
}

impl ProviderClients {
    /// Builds the clients for these rules.
    pub(super) fn new(rules: &ProviderRules) -> Result<Self, String> {
        let builder = |protocols: &[&[u8]]| client(protocols, rules.connect_timeout);
        let single_use = || {
            let client = builder(&[b"http/1.1"])?.http1_only();
            let client = client.retry(reqwest::retry::never());
            Ok::<_, String>(client.pool_max_idle_per_host(0))
        };
        let calls = builder(&[b"h2", b"http/1.1"])?
            // A reused connection may be broken. A ping detects that before a poll waits for its
            // whole timeout.
            .http2_keep_alive_interval(Duration::from_secs(20))
            .http2_keep_alive_timeout(Duration::from_secs(10))
            .pool_idle_timeout(Duration::from_secs(20))
            .pool_max_idle_per_host(rules.calls_at_once);
        // The resolver is only for hosts named in answers. The operator named the trusted ones, and
        // they may be in private networks.
        let resolver = CheckedResolver::new(Arc::new(rules.outbound()), true);
        let build =
            |builder: reqwest::ClientBuilder| builder.build().map_err(|error| error.to_string());
        Ok(Self {
            calls: build(calls)?,
            submissions: build(single_use()?)?,
            untrusted: build(single_use()?.dns_resolver(resolver))?,
        })
    }
}
