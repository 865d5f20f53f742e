//! The HTTP clients of a provider, one for each kind of connection.

use std::sync::Arc;
use std::time::Duration;

use super::provider::ProviderRules;
use crate::outbound::{CheckedResolver, client};

/// A client for each kind of connection. None follows redirects by itself or
/// takes a proxy from the environment: the connection goes where it was checked
/// to go.
pub(super) struct ProviderClients {
    /// To trusted hosts; connections are kept and used again.
    pub(super) calls: reqwest::Client,
    /// To trusted hosts, a new HTTP/1.1 connection for each submission, unless the provider makes one
    /// job of two with the same key (docs/decisions/0015): then `calls` will do. A kept
    /// connection may have died unnoticed: then either nobody can tell whether
    /// the request arrived, or hyper-util sends it again on another
    /// (`retry_canceled_requests`, which reqwest cannot switch off). On a
    /// connection that nobody used before it never does, and without HTTP/2
    /// there are no refused streams for reqwest to repeat either.
    pub(super) submissions: reqwest::Client,
    /// To all other hosts, which must be public. As careful as `submissions`.
    pub(super) untrusted: reqwest::Client,
}

impl ProviderClients {
    /// Clients that keep these rules; says why there can be none.
    pub(super) fn new(rules: &ProviderRules) -> Result<Self, String> {
        let usual = |protocols: &[&[u8]]| client(protocols, rules.connect_timeout);
        let once = || {
            let client = usual(&[b"http/1.1"])?.http1_only();
            let client = client.retry(reqwest::retry::never());
            Ok::<_, String>(client.pool_max_idle_per_host(0))
        };
        let calls = usual(&[b"h2", b"http/1.1"])?
            // A kept connection may die unnoticed. A ping finds that before a poll waits its whole
            // time limit for it.
            .http2_keep_alive_interval(Duration::from_secs(20))
            .http2_keep_alive_timeout(Duration::from_secs(10))
            .pool_idle_timeout(Duration::from_secs(20))
            .pool_max_idle_per_host(rules.calls_at_once);
        // Only for hosts that answers name. The operator named the trusted ones, and they may be in
        // private networks.
        let resolver = CheckedResolver::new(Arc::new(rules.outbound()), true);
        let made = |client: reqwest::ClientBuilder| client.build().map_err(|why| why.to_string());
        Ok(Self {
            calls: made(calls)?,
            submissions: made(once()?)?,
            untrusted: made(once()?.dns_resolver(resolver))?,
        })
    }
}
