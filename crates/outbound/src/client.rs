//! Clients that connect to checked addresses only, and reuse their connections.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;
use url::Url;

use super::{AddressGuard, AddressRefusal, OutboundRules};

/// An HTTP client for outbound connections under the rules. Cheap to clone; its connections are
/// reused.
#[derive(Debug, Clone)]
pub struct OutboundClient {
    rules: Arc<OutboundRules>,
    /// The client for ports that are allowed at any public host.
    usual_ports: reqwest::Client,
    /// The client for all other ports: only to the allowed networks.
    other_ports: reqwest::Client,
}

impl OutboundClient {
    /// Builds a client for these rules, or returns why that is impossible.
    pub fn new(rules: OutboundRules, connect_timeout: Duration) -> Result<Self, String> {
        let rules = Arc::new(rules);
        // A resolver gets only the name. So there is one client for allowed ports and one for all
        // others.
        let build = |usual_port| {
            let resolver = CheckedResolver::new(rules.clone(), usual_port);
            client(&[b"h2", b"http/1.1"], connect_timeout)?
                .pool_idle_timeout(Duration::from_secs(20))
                .dns_resolver(resolver)
                .build()
                .map_err(|error| error.to_string())
        };
        Ok(Self {
            usual_ports: build(true)?,
            other_ports: build(false)?,
            rules,
        })
    }

    /// A client through a proxy that resolves names itself, and must apply the same rules to them;
    /// literal addresses are still checked here.
    pub fn through_proxy(
        proxy_url: &Url,
        rules: OutboundRules,
        connect_timeout: Duration,
    ) -> Result<Self, String> {
        let proxy = reqwest::Proxy::all(proxy_url.as_str())
            .map_err(|error| error.without_url().to_string())?;
        let client = client(&[b"h2", b"http/1.1"], connect_timeout)?
            .pool_idle_timeout(Duration::from_secs(20))
            .proxy(proxy)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            usual_ports: client.clone(),
            other_ports: client,
            rules: Arc::new(rules),
        })
    }

    /// Checks a URL that is stored for later, as far as possible without resolving its name.
    pub fn check(&self, url: &Url) -> Result<(), AddressRefusal> {
        AddressGuard::new(&self.rules).check_name(url)
    }

    /// A request to a URL, which is checked as far as possible before its name is resolved.
    pub fn request(
        &self,
        method: reqwest::Method,
        url: &Url,
    ) -> Result<reqwest::RequestBuilder, AddressRefusal> {
        let guard = AddressGuard::new(&self.rules);
        guard.check_url(url)?;
        let client = if guard.is_usual_port(url) {
            &self.usual_ports
        } else {
            &self.other_ports
        };
        Ok(client.request(method, url.clone()))
    }
}

/// A client for these protocols. It trusts the platform's TLS roots, follows no redirects and
/// ignores proxies in the environment.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where clients come from"
)]
pub fn client(
    protocols: &[&[u8]],
    connect_timeout: Duration,
) -> Result<reqwest::ClientBuilder, String> {
    Ok(reqwest::Client::builder()
        .tls_backend_preconfigured(tls(protocols)?)
        .redirect(Policy::none())
        // A proxy of the environment would resolve names itself, bypassing the checked resolver.
        .no_proxy()
        .connect_timeout(connect_timeout)
        .tcp_keepalive(Duration::from_secs(30))
        .user_agent(concat!("mediagate/", env!("CARGO_PKG_VERSION"))))
}

/// Resolves names, and returns addresses only if all addresses of the name are allowed.
#[derive(Debug, Clone)]
pub struct CheckedResolver {
    rules: Arc<OutboundRules>,
    usual_port: bool,
}

impl CheckedResolver {
    /// A resolver for these rules, for ports that they allow or for all others.
    pub fn new(rules: Arc<OutboundRules>, usual_port: bool) -> Self {
        Self { rules, usual_port }
    }

    pub(super) fn check(
        &self,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<Vec<SocketAddr>, AddressRefusal> {
        let guard = AddressGuard::new(&self.rules);
        // One private address is enough to refuse the name, because the choice among the addresses
        // cannot be controlled here.
        let checked = addresses.into_iter().map(|address| {
            guard.check_address(address.ip(), self.usual_port)?;
            Ok(address)
        });
        checked.collect()
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let addresses: Addrs = Box::new(resolver.check(addresses)?.into_iter());
            Ok(addresses)
        })
    }
}

/// Reading the platform's roots takes long, so they are read once for the process.
static TLS_CONFIG: OnceLock<Result<ClientConfig, String>> = OnceLock::new();

fn tls(protocols: &[&[u8]]) -> Result<ClientConfig, String> {
    let mut config = TLS_CONFIG.get_or_init(platform_tls).clone()?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// Reads the certificates of this machine, so that the first client need not wait for them.
pub fn preload_certificates() {
    // An error is reported by the first client.
    let _ = TLS_CONFIG.get_or_init(platform_tls);
}

fn platform_tls() -> Result<ClientConfig, String> {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier);
    let config = config.map_err(|error| error.to_string())?;
    Ok(config.with_no_client_auth())
}
