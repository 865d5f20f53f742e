//! The way out to addresses that somebody else named: a caller, or a provider's
//! answer. One set of rules, so that none of them becomes a way into the
//! operator's network.
//!
//! The connection goes to exactly the addresses that were checked: literal ones
//! before it is opened ([`AddressGuard::check_url`]), names in the client's own look-up
//! ([`CheckedResolver`]), so that a name that means something else a moment later
//! leads nowhere else. Nobody follows redirects but [`next_hop`]'s callers, each
//! of whom checks again.
//!
//! Knows nothing of what is fetched, or of who may be shown a credential.

mod address;
mod client;

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use reqwest::header::LOCATION;
use url::{Host, Url};

use address::{embedded_v4, is_public};

pub use client::{CheckedResolver, OutboundClient, client};

/// Redirects followed at most.
pub const REDIRECTS: usize = 3;
/// For one look-up of a name that is only handed on.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);

/// What the operator allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutboundRules {
    /// Networks that are allowed although they are not public, any port.
    pub allow_networks: Vec<IpNet>,
    /// Ports that public addresses may name; any when `None`.
    pub allow_ports: Option<Vec<u16>>,
}

/// Why nothing is sent to an address. The texts are for whoever named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressRefusal {
    /// It is no http or https.
    #[error("only http and https URLs are allowed")]
    Scheme,
    /// It holds a user or a password.
    #[error("a URL with credentials is not allowed")]
    Credential,
    /// It names no host.
    #[error("the URL has no host")]
    NoHost,
    /// One of the host's addresses is not public.
    #[error("the URL does not point to a public host")]
    NotPublic,
    /// The port is not allowed.
    #[error("the URL's port is not allowed")]
    Port,
}

/// The rules for addresses.
#[derive(Debug, Clone, Copy)]
pub struct AddressGuard<'a> {
    rules: &'a OutboundRules,
}

impl<'a> AddressGuard<'a> {
    /// Keeps these rules.
    pub const fn new(rules: &'a OutboundRules) -> Self {
        Self { rules }
    }

    /// What can be told without a look-up.
    pub fn check_url(&self, url: &Url) -> Result<(), AddressRefusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(AddressRefusal::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressRefusal::Credential);
        }
        let address = match url.host() {
            None => return Err(AddressRefusal::NoHost),
            // The resolver asks about each of its addresses.
            Some(Host::Domain(_)) => return Ok(()),
            Some(Host::Ipv4(ip)) => IpAddr::V4(ip),
            Some(Host::Ipv6(ip)) => IpAddr::V6(ip),
        };
        self.check_address(address, self.is_usual_port(url))
    }

    /// The same, with what its name means now. A name that nobody knows here leads nowhere from here,
    /// and passes.
    pub async fn check_host(self, url: &Url) -> Result<(), AddressRefusal> {
        self.check_url(url)?;
        let Some(Host::Domain(name)) = url.host() else {
            return Ok(());
        };
        let found = tokio::time::timeout(LOOKUP_TIMEOUT, tokio::net::lookup_host((name, 0))).await;
        let usual_port = self.is_usual_port(url);
        let mut found = found.into_iter().flatten().flatten();
        found.try_for_each(|address| self.check_address(address.ip(), usual_port))
    }

    /// Whether any public host may be asked at this port.
    fn is_usual_port(self, url: &Url) -> bool {
        let port = url.port_or_known_default().unwrap_or(0);
        let allowed = self.rules.allow_ports.as_ref();
        allowed.is_none_or(|ports| ports.contains(&port))
    }

    /// Whether a connection may go there, to a port that is usual or not.
    fn check_address(self, address: IpAddr, usual_port: bool) -> Result<(), AddressRefusal> {
        let address = embedded_v4(address);
        let mut networks = self.rules.allow_networks.iter();
        // Before the check of the port: in a network that the operator names, any port may be
        // meant.
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

impl AddressRefusal {
    /// The refusal at the bottom of a client's error, where there is one.
    pub fn cause_of(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let mut causes = std::iter::successors(Some(error), |error| error.source());
        causes.find_map(|cause| cause.downcast_ref::<Self>().copied())
    }
}

/// Said of an answer that redirects to nothing that is an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server redirects to an invalid URL")]
pub struct BadRedirect;

/// Where an answer from `here` redirects to, not checked yet; `None` when it is
/// an answer.
pub fn next_hop(here: &Url, answer: &reqwest::Response) -> Result<Option<Url>, BadRedirect> {
    if !answer.status().is_redirection() {
        return Ok(None);
    }
    let location = answer.headers().get(LOCATION).ok_or(BadRedirect)?;
    let location = location.to_str().map_err(|_| BadRedirect)?;
    here.join(location).map(Some).map_err(|_| BadRedirect)
}

#[cfg(test)]
mod tests;
