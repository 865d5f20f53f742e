//! Outbound connections to URLs from others: from a caller, or from a provider's answer. They share
//! one set of rules, so that none of them gives access to the operator's network.
//!
//! The connection goes to exactly the addresses that were checked: literal ones before it is opened
//! ([`AddressGuard::check_url`]), names in the client's own look-up ([`CheckedResolver`]), so that
//! a name that resolves differently a moment later has no effect. Redirects are followed only by
//! [`next_hop`]'s callers, each of which checks again.
//!
//! This crate knows neither what is fetched, nor which hosts may receive a credential. Begin with
//! [`OutboundClient`].

mod address;
mod client;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use ipnet::IpNet;
use reqwest::header::LOCATION;
use url::{Host, Url};

use address::{embedded_v4, is_public};

pub use client::{CheckedResolver, OutboundClient, client, preload_certificates};

/// Redirects followed at most.
pub const REDIRECTS: usize = 3;
/// Timeout for resolving the name of a URL that is only passed on.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);

/// The operator's rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutboundRules {
    /// Networks that are allowed although they are not public, on any port.
    pub allow_networks: Vec<IpNet>,
    /// Ports that public addresses may use; any if `None`.
    pub allow_ports: Option<Vec<u16>>,
}

/// Why a URL is refused. The messages are for whoever provided the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressRefusal {
    /// It is neither http nor https.
    #[error("only http and https URLs are allowed")]
    Scheme,
    /// It contains a user or a password.
    #[error("a URL with credentials is not allowed")]
    Credential,
    /// It has no host.
    #[error("the URL has no host")]
    NoHost,
    /// One of the host's addresses is not public.
    #[error("the URL does not point to a public host")]
    NotPublic,
    /// The port is not allowed.
    #[error("the URL's port is not allowed")]
    Port,
}

/// Checks URLs and addresses against the rules.
#[derive(Debug, Clone, Copy)]
pub struct AddressGuard<'a> {
    rules: &'a OutboundRules,
}

impl<'a> AddressGuard<'a> {
    /// A guard that applies these rules.
    pub const fn new(rules: &'a OutboundRules) -> Self {
        Self { rules }
    }

    /// Checks a URL as far as possible without resolving its name.
    pub fn check_url(&self, url: &Url) -> Result<(), AddressRefusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(AddressRefusal::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressRefusal::Credential);
        }
        let address = match url.host() {
            None => return Err(AddressRefusal::NoHost),
            // The resolver checks each of its addresses.
            Some(Host::Domain(_)) => return Ok(()),
            Some(Host::Ipv4(ip)) => IpAddr::V4(ip),
            Some(Host::Ipv6(ip)) => IpAddr::V6(ip),
        };
        self.check_address(address, self.is_usual_port(url))
    }

    /// Like [`Self::check_url`], but also refuses a name that no resolution could make acceptable: a
    /// loopback one, or one with a port that only the operator's networks may use if
    /// there are none.
    pub fn check_name(&self, url: &Url) -> Result<(), AddressRefusal> {
        const LOOPBACK: &[IpAddr] = &[
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        self.check_url(url)?;
        let Some(Host::Domain(name)) = url.host() else {
            return Ok(());
        };
        if is_loopback_name(name) {
            let usual_port = self.is_usual_port(url);
            let mut addresses = LOOPBACK.iter().copied();
            let is_allowed = |address| self.check_address(address, usual_port).is_ok();
            return if addresses.any(is_allowed) {
                Ok(())
            } else {
                Err(AddressRefusal::NotPublic)
            };
        }
        if self.rules.allow_networks.is_empty() && !self.is_usual_port(url) {
            return Err(AddressRefusal::Port);
        }
        Ok(())
    }

    /// Like [`Self::check_name`], for a URL that is passed on without a connection: a name of a
    /// local network is refused unless the operator allows networks. Such a name may not resolve
    /// here, so its addresses could not tell.
    pub fn check_link(&self, url: &Url) -> Result<(), AddressRefusal> {
        self.check_name(url)?;
        let is_local = matches!(url.host(), Some(Host::Domain(name)) if is_local_name(name));
        if is_local && self.rules.allow_networks.is_empty() {
            return Err(AddressRefusal::NotPublic);
        }
        Ok(())
    }

    /// Like [`Self::check_url`], but also checks the addresses that its name resolves to now. A
    /// public name that cannot be resolved here passes, because it cannot be reached from here. One
    /// of a local network has to resolve.
    pub async fn check_host(self, url: &Url) -> Result<(), AddressRefusal> {
        self.check_url(url)?;
        let Some(Host::Domain(name)) = url.host() else {
            return Ok(());
        };
        let addresses =
            tokio::time::timeout(LOOKUP_TIMEOUT, tokio::net::lookup_host((name, 0))).await;
        let usual_port = self.is_usual_port(url);
        let mut addresses = addresses.into_iter().flatten().flatten().peekable();
        if addresses.peek().is_none() && is_local_name(name) {
            return Err(AddressRefusal::NotPublic);
        }
        addresses.try_for_each(|address| self.check_address(address.ip(), usual_port))
    }

    /// Whether this port is allowed at any public host.
    fn is_usual_port(self, url: &Url) -> bool {
        let port = url.port_or_known_default().unwrap_or(0);
        let allowed = self.rules.allow_ports.as_ref();
        allowed.is_none_or(|ports| ports.contains(&port))
    }

    /// Checks whether a connection to this address is allowed; `usual_port` if its port is an
    /// allowed one.
    fn check_address(self, address: IpAddr, usual_port: bool) -> Result<(), AddressRefusal> {
        let address = embedded_v4(address);
        let mut networks = self.rules.allow_networks.iter();
        // Before the check of the port: in a network that the operator allows, every port is
        // allowed.
        if networks.any(|network| network.contains(&address)) {
            Ok(())
        } else if !is_public(address) {
            Err(AddressRefusal::NotPublic)
        } else if !usual_port {
            Err(AddressRefusal::Port)
        } else {
            Ok(())
        }
    }
}

/// Whether a name means this machine wherever it is resolved (RFC 6761, 6.3).
pub fn is_loopback_name(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether a name belongs to a local network or to this machine: it has a single label, or it ends
/// in a name that no public zone contains (RFC 6761, RFC 6762, RFC 8375, and those that networks
/// use by themselves).
fn is_local_name(name: &str) -> bool {
    const LOCAL_ZONES: [&str; 9] = [
        "internal",
        "local",
        "lan",
        "home.arpa",
        "localhost",
        "localdomain",
        "corp",
        "home",
        "private",
    ];
    let name = name.trim_end_matches('.');
    let is_in = |zone: &str| {
        let parent = name.strip_suffix(zone);
        parent.is_some_and(|parent| parent.is_empty() || parent.ends_with('.'))
    };
    !name.contains('.') || LOCAL_ZONES.into_iter().any(is_in)
}

impl AddressRefusal {
    /// The refusal that caused a client's error, if there is one.
    pub fn cause_of(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let mut causes = std::iter::successors(Some(error), |error| error.source());
        causes.find_map(|cause| cause.downcast_ref::<Self>().copied())
    }
}

/// The error for an answer that redirects to an invalid URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server redirects to an invalid URL")]
pub struct BadRedirect;

/// The URL to which an answer from `here` redirects, not checked yet; `None` if it is not a
/// redirect.
pub fn next_hop(here: &Url, answer: &reqwest::Response) -> Result<Option<Url>, BadRedirect> {
    if !answer.status().is_redirection() {
        return Ok(None);
    }
    let location = answer.headers().get(LOCATION).ok_or(BadRedirect)?;
    let location = location.to_str().map_err(|_| BadRedirect)?;
    here.join(location).map(Some).map_err(|_| BadRedirect)
}

/// The wait that an answer asks for (`retry-after-ms`, or `retry-after` in seconds or as a date,
/// relative to the answer's own `date` or otherwise to `now`).
pub fn retry_after(headers: &HeaderMap, now: Option<SystemTime>) -> Option<Duration> {
    let header_text = |name: &str| headers.get(name)?.to_str().ok();
    if let Some(milliseconds) = header_text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(milliseconds));
    }
    let text = header_text("retry-after")?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let retry_at = httpdate::parse_http_date(text).ok()?;
    let date = header_text("date").and_then(|text| httpdate::parse_http_date(text).ok());
    let now = date.or(now)?;
    Some(retry_at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests;
