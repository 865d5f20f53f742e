//! Host patterns: the hosts that belong to a provider and may receive its credential.

use url::Url;

/// `host`, `*.host` (any subdomain) or either with `:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPattern {
    name: String,
    subdomains: bool,
    port: Option<u16>,
}

impl HostPattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let error = || format!("{text:?} is not a host, *.host or host:port");
        let (name, subdomains) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        // Parsed twice. The parser drops a scheme's usual port, so an unknown scheme is used to see
        // whether a port was written. It normalises a name only for schemes that it knows.
        let url = Url::parse(&format!("other://{name}")).map_err(|_| error())?;
        let https_url = Url::parse(&format!("https://{name}")).map_err(|_| error())?;
        let is_bare_host =
            url.path().is_empty() && url.query().is_none() && url.username().is_empty();
        let name = https_url
            .host_str()
            .filter(|_| is_bare_host && !name.contains('*'));
        Ok(Self {
            name: name.ok_or_else(error)?.to_owned(),
            subdomains,
            port: url.port(),
        })
    }

    pub(super) fn matches(&self, url: &Url) -> bool {
        let port_matches = match self.port {
            Some(port) => url.port_or_known_default() == Some(port),
            // Another port is another service, which must not see the credential.
            None => url.port().is_none(),
        };
        let is_usable = matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none();
        let Some(host) = url.host_str().filter(|_| port_matches && is_usable) else {
            return false;
        };
        if self.subdomains {
            let subdomain = host.strip_suffix(self.name.as_str());
            // The dot must match: `evilhost.com` ends with `host.com` too.
            subdomain.is_some_and(|subdomain| subdomain.ends_with('.') && subdomain.len() > 1)
        } else {
            host == self.name
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
