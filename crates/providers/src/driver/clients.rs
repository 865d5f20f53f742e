//! The HTTP clients of a provider, one for each kind of connection.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::redirect::Policy;
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;

use super::guard::PublicResolver;
use super::provider::{IN_FLIGHT, Rules};

/// A client for each kind of connection. None follows redirects by itself or
/// takes a proxy from the environment: the connection goes where it was checked
/// to go.
pub(super) struct Clients {
    /// To trusted hosts; connections are kept and used again.
    pub(super) calls: reqwest::Client,
    /// To trusted hosts, a new HTTP/1.1 connection for each submission. A kept
    /// connection may have died unnoticed: then either nobody can tell whether
    /// the request arrived, or hyper-util sends it again on another
    /// (`retry_canceled_requests`, which reqwest cannot switch off). On a
    /// connection that nobody used before it never does, and without HTTP/2
    /// there are no refused streams for reqwest to repeat either.
    pub(super) submissions: reqwest::Client,
    /// To all other hosts, which must be public. As careful as `submissions`.
    pub(super) elsewhere: reqwest::Client,
}

impl Clients {
    /// Clients that keep these rules; says why there can be none.
    pub(super) fn new(rules: &Rules) -> Result<Self, String> {
        let usual = |protocols: &[&[u8]]| {
            Ok::<_, String>(
                reqwest::Client::builder()
                    .tls_backend_preconfigured(tls(protocols)?)
                    .redirect(Policy::none())
                    .no_proxy()
                    .connect_timeout(rules.connect_timeout)
                    .tcp_keepalive(Duration::from_secs(30))
                    .user_agent(concat!("mediagate/", env!("CARGO_PKG_VERSION"))),
            )
        };
        let once = || {
            let client = usual(&[b"http/1.1"])?.http1_only();
            let client = client.retry(reqwest::retry::never());
            Ok::<_, String>(client.pool_max_idle_per_host(0))
        };
        let calls = usual(&[b"h2", b"http/1.1"])?
            .http2_keep_alive_interval(Duration::from_secs(20))
            .http2_keep_alive_timeout(Duration::from_secs(10))
            .pool_idle_timeout(Duration::from_secs(20))
            .pool_max_idle_per_host(IN_FLIGHT);
        let resolver = PublicResolver::new(&rules.allow_networks);
        let made = |client: reqwest::ClientBuilder| client.build().map_err(|why| why.to_string());
        Ok(Self {
            calls: made(calls)?,
            submissions: made(once()?)?,
            elsewhere: made(once()?.dns_resolver(resolver))?,
        })
    }
}

/// TLS as the platform trusts. Reading its roots takes long, so they are read
/// once for the process.
fn tls(protocols: &[&[u8]]) -> Result<ClientConfig, String> {
    static SHARED: OnceLock<Result<ClientConfig, String>> = OnceLock::new();
    let mut config = SHARED.get_or_init(platform_tls).clone()?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

fn platform_tls() -> Result<ClientConfig, String> {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier);
    let config = config.map_err(|error| error.to_string())?;
    Ok(config.with_no_client_auth())
}
