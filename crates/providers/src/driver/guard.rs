//! Which addresses are public: what keeps an address that somebody else named
//! from becoming a way into the operator's network.
//!
//! The connection goes to exactly the addresses that were checked: names are
//! checked in the client's own lookup ([`PublicResolver`]), literal addresses
//! before ([`Guard::check_url`]).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// The rules for one address.
#[derive(Debug, Clone, Copy)]
pub struct Guard<'a> {
    allow_networks: &'a [IpNet],
}

/// Said of a name or an address that is not public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the address does not lead to a public host")]
pub struct NotPublic;

impl<'a> Guard<'a> {
    /// Public addresses, and those in these networks.
    pub const fn new(allow_networks: &'a [IpNet]) -> Self {
        Self { allow_networks }
    }

    /// Whether a connection may go there.
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = embedded_v4(address);
        is_public(address)
            || self
                .allow_networks
                .iter()
                .any(|network| network.contains(&address))
    }

    /// What can be told without a lookup; says what is wrong.
    pub fn check_url(&self, url: &Url) -> Result<(), String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err("only http and https addresses are followed".into());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("an address with a credential in it is not followed".into());
        }
        let literal = match url.host() {
            None => return Err("the address names no host".into()),
            Some(Host::Domain(_)) => None,
            Some(Host::Ipv4(ip)) => Some(IpAddr::V4(ip)),
            Some(Host::Ipv6(ip)) => Some(IpAddr::V6(ip)),
        };
        if literal.is_some_and(|address| !self.allows(address)) {
            return Err(NotPublic.to_string());
        }
        Ok(())
    }
}

/// Looks names up and gives an address only when all of the name's are allowed.
#[derive(Debug, Clone)]
pub struct PublicResolver {
    allow_networks: Arc<[IpNet]>,
}

impl PublicResolver {
    /// Allows public addresses, and those in these networks.
    pub fn new(allow_networks: &[IpNet]) -> Self {
        Self {
            allow_networks: allow_networks.into(),
        }
    }
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_networks = self.allow_networks.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let guard = Guard::new(&allow_networks);
            if !found.iter().all(|address| guard.allows(address.ip())) {
                return Err(NotPublic.into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

/// Whether an error was caused by a name that leads to no public host.
pub(super) fn is_not_public(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(<dyn std::error::Error>::is::<NotPublic>)
}

/// `host`, `*.host` (any subdomain) or either with `:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPattern {
    name: String,
    subdomains: bool,
    port: Option<u16>,
}

impl HostPattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is none of host, *.host and host:port");
        let (name, subdomains) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        // The parser of addresses also brings the name into its one form.
        let url = Url::parse(&format!("other://{name}")).map_err(|_| wrong())?;
        let usual = Url::parse(&format!("https://{name}")).map_err(|_| wrong())?;
        let bare = url.path().is_empty() && url.query().is_none() && url.username().is_empty();
        let name = usual.host_str().filter(|_| bare && !name.contains('*'));
        Ok(Self {
            name: name.ok_or_else(wrong)?.to_owned(),
            subdomains,
            port: url.port(),
        })
    }

    pub(super) fn matches(&self, url: &Url) -> bool {
        let port = match self.port {
            Some(port) => url.port_or_known_default() == Some(port),
            None => url.port().is_none(),
        };
        let usable = matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none();
        let Some(host) = url.host_str().filter(|_| port && usable) else {
            return false;
        };
        if self.subdomains {
            let before = host.strip_suffix(self.name.as_str());
            before.is_some_and(|before| before.ends_with('.') && before.len() > 1)
        } else {
            host == self.name
        }
    }
}

/// The IPv4 address inside an IPv6 one that merely wraps it.
pub fn embedded_v4(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => {
            let wrapped = |high: u16, low: u16| {
                IpAddr::V4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
            };
            match v6.segments() {
                // Mapped, compatible, NAT64 (RFC 6052) and 6to4 (RFC 3056).
                [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                    wrapped(high, low)
                }
                [0, 0, 0, 0, 0, 0, high, low] if high != 0 => wrapped(high, low),
                [0x2002, high, low, ..] => wrapped(high, low),
                _ => address,
            }
        }
    }
}

/// Whether an address belongs to the public internet (IANA special-purpose
/// registries, RFC 6890).
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = ip.is_unspecified()
        || a == 0
        || ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_broadcast()
        || ip.is_documentation()
        || (a == 100 && (64..128).contains(&b)) // shared by carriers, RFC 6598
        || (a == 192 && b == 0 && c == 0) // protocol assignments
        || (a == 192 && b == 88 && c == 99) // 6to4 relays
        || (a == 198 && (18..20).contains(&b)) // benchmarks
        || a >= 240; // reserved
    !special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [first, second, ..] = ip.segments();
    // Only 2000::/3 is handed out as global unicast; parts of it are special.
    let global = (0x2000..0x4000).contains(&first);
    let special = match first {
        0x2001 => second < 0x0200 || second == 0x0db8, // protocols, Teredo; documentation
        0x2002 => true,                                // 6to4
        0x3fff => second < 0x1000,                     // documentation
        _ => false,
    };
    global && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(guard: Guard<'_>, address: &str) -> bool {
        guard.check_url(&Url::parse(address).unwrap()).is_ok()
    }

    #[test]
    fn only_public_addresses() {
        let guard = Guard::new(&[]);
        for fine in [
            "https://8.8.8.8/a.mp4",
            "http://1.1.1.1/",
            "https://[2606:4700:4700::1111]/",
            "https://cdn.example.com/a.mp4?signature=1",
        ] {
            assert!(verdict(guard, fine), "{fine}");
        }
        for bad in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://10.1.2.3/",
            "http://192.168.0.1/",
            "http://172.16.0.1/",
            "http://169.254.169.254/latest/meta-data",
            "http://100.64.0.1/",
            "http://0.0.0.0/",
            "http://224.0.0.1/",
            "http://255.255.255.255/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://[fe80::1]/",
            "http://[fc00::1]/",
            "http://[ff02::1]/",
            "http://[::]/",
            "ftp://8.8.8.8/",
            "file:///etc/passwd",
            "http://user@8.8.8.8/",
            "http://user:pw@8.8.8.8/",
            "http://192.0.2.1/",
            "http://198.18.0.1/",
            "http://240.0.0.1/",
        ] {
            assert!(!verdict(guard, bad), "{bad}");
        }
    }

    #[test]
    fn an_allowed_network_is_as_good_as_public() {
        let networks = ["127.0.0.0/8".parse().unwrap()];
        let guard = Guard::new(&networks);
        assert!(verdict(guard, "http://127.0.0.1:9999/"));
        assert!(verdict(guard, "http://[::ffff:127.0.0.1]:9999/"));
        assert!(!verdict(guard, "http://10.0.0.1/"));
    }

    #[tokio::test]
    async fn a_name_is_as_good_as_the_worst_of_its_addresses() {
        let looked_up = |networks: &[IpNet]| {
            PublicResolver::new(networks).resolve("localhost".parse().unwrap())
        };
        let error = looked_up(&[]).await.err().unwrap();
        assert!(is_not_public(error.as_ref()));
        let loopback = ["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        assert!(looked_up(&loopback).await.is_ok());
    }

    #[test]
    fn hosts_match_whole_labels() {
        let matches = |pattern: &str, url: &str| {
            HostPattern::parse(pattern)
                .unwrap()
                .matches(&Url::parse(url).unwrap())
        };
        assert!(matches("rest.fal.ai", "https://rest.fal.ai/x"));
        assert!(matches("REST.fal.ai", "https://rest.fal.ai/x"));
        assert!(matches("*.fal.run", "https://queue.fal.run/x"));
        assert!(matches("*.fal.run", "https://a.b.fal.run/x"));
        assert!(matches("10.0.0.5:9000", "http://10.0.0.5:9000/x"));
        assert!(matches("a.com:443", "https://a.com/"));
        for (pattern, url) in [
            ("*.fal.run", "https://fal.run/x"),
            ("*.fal.run", "https://evilfal.run/x"),
            ("fal.run", "https://queue.fal.run/x"),
            ("fal.run", "https://fal.run.evil.com/x"),
            ("fal.run", "https://fal.run:8443/x"),
            ("fal.run", "https://user@fal.run/x"),
            ("fal.run", "ftp://fal.run/x"),
        ] {
            assert!(!matches(pattern, url), "{pattern} {url}");
        }
        for wrong in ["", "*", "*.", "a/b", "https://a.com", "u@a.com", "a.*.com"] {
            assert!(HostPattern::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
