//! The origins that belong to a provider: each a scheme, a host and a port. Only they receive its
//! credential.

use url::Url;

/// The origins of a provider: its base URL's, and those that are listed.
#[derive(Debug)]
pub(crate) struct TrustedHosts {
    base_url: Url,
    listed: Vec<HostPattern>,
}

impl TrustedHosts {
    /// The error says which text is no host.
    pub(crate) fn new(
        base_url: &Url,
        listed: impl IntoIterator<Item = String>,
    ) -> Result<Self, String> {
        let listed = listed.into_iter();
        let listed = listed.map(|text| HostPattern::parse(&text, base_url.scheme()));
        Ok(Self {
            base_url: base_url.clone(),
            listed: listed.collect::<Result<_, _>>()?,
        })
    }

    /// Whether a request to this URL may carry the credential.
    pub(crate) fn contain(&self, url: &Url) -> bool {
        // A listed host over plain http gets no credential if the provider itself is reached over
        // https.
        let is_secure_enough = url.scheme() == "https" || self.base_url.scheme() == "http";
        url.origin() == self.base_url.origin()
            || is_secure_enough && self.listed.iter().any(|pattern| pattern.matches(url))
    }
}

/// `host` or `*.host` (any subdomain), with `:port` and `https://` or `http://` before it where it
/// has them. Without a scheme it is https, or with a port the scheme of the base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostPattern {
    scheme: String,
    name: String,
    subdomains: bool,
    port: u16,
}

impl HostPattern {
    fn parse(text: &str, base_scheme: &str) -> Result<Self, String> {
        let error = || format!("{text:?} is not a host, *.host, host:port or http://host:port");
        let (scheme, host) = match text.split_once("://") {
            Some((scheme @ ("http" | "https"), host)) => (Some(scheme), host),
            Some(_) => return Err(error()),
            None => (None, text),
        };
        let (name, subdomains) = match host.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (host, false),
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
        let scheme = match (scheme, url.port()) {
            (Some(scheme), _) => scheme,
            (None, Some(_)) => base_scheme,
            (None, None) => "https",
        };
        let usual_port = if scheme == "http" { 80 } else { 443 };
        Ok(Self {
            scheme: scheme.to_owned(),
            name: name.ok_or_else(error)?.to_owned(),
            subdomains,
            port: url.port().unwrap_or(usual_port),
        })
    }

    fn matches(&self, url: &Url) -> bool {
        // Another port, or another scheme, is another service.
        let is_service =
            url.scheme() == self.scheme && url.port_or_known_default() == Some(self.port);
        let has_credential = !url.username().is_empty() || url.password().is_some();
        let Some(host) = url.host_str().filter(|_| is_service && !has_credential) else {
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

    fn trusts(base_url: &str, listed: &str, url: &str) -> bool {
        let base_url = Url::parse(base_url).unwrap();
        let hosts = TrustedHosts::new(&base_url, [listed.to_owned()]).unwrap();
        hosts.contain(&Url::parse(url).unwrap())
    }

    #[test]
    fn hosts_match_whole_labels() {
        let matches = |listed: &str, url: &str| trusts("https://api.example", listed, url);
        assert!(matches("rest.fal.ai", "https://rest.fal.ai/x"));
        assert!(matches("REST.fal.ai", "https://rest.fal.ai/x"));
        assert!(matches("*.fal.run", "https://queue.fal.run/x"));
        assert!(matches("*.fal.run", "https://a.b.fal.run/x"));
        assert!(matches("a.com:443", "https://a.com/"));
        assert!(matches("https://a.com", "https://a.com/"));
        assert!(matches("https://*.a.com:8443", "https://b.a.com:8443/"));
        for (listed, url) in [
            ("*.fal.run", "https://fal.run/x"),
            ("*.fal.run", "https://evilfal.run/x"),
            ("fal.run", "https://queue.fal.run/x"),
            ("fal.run", "https://fal.run.evil.com/x"),
            ("fal.run", "https://fal.run:8443/x"),
            ("fal.run", "https://user@fal.run/x"),
            ("fal.run", "ftp://fal.run/x"),
            ("http://fal.run", "http://fal.run/x"),
        ] {
            assert!(!matches(listed, url), "{listed} {url}");
        }
        let base_url = Url::parse("https://api.example").unwrap();
        for wrong in [
            "",
            "*",
            "*.",
            "a/b",
            "https://a.com/",
            "ftp://a.com",
            "https://",
            "u@a.com",
            "a.*.com",
        ] {
            let hosts = TrustedHosts::new(&base_url, [wrong.to_owned()]);
            assert!(hosts.is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn another_port_or_scheme_is_another_service() {
        let base = "http://10.0.0.5:9000/fal";
        for (listed, url, is_trusted) in [
            ("cdn.example", "http://10.0.0.5:9000/x", true),
            ("cdn.example", "http://10.0.0.5/x", false),
            ("cdn.example", "https://10.0.0.5:9000/x", false),
            ("cdn.example", "https://cdn.example/x", true),
            ("cdn.example", "http://cdn.example/x", false),
            ("10.0.0.5", "http://10.0.0.5/x", false),
            ("10.0.0.6:9000", "http://10.0.0.6:9000/x", true),
            ("10.0.0.6:9000", "https://10.0.0.6:9000/x", false),
            ("https://10.0.0.6:9000", "https://10.0.0.6:9000/x", true),
            ("http://10.0.0.6", "http://10.0.0.6/x", true),
            ("http://10.0.0.6", "http://10.0.0.6:9000/x", false),
            ("http://[fd00::6]:90", "http://[fd00::6]:90/x", true),
        ] {
            assert_eq!(trusts(base, listed, url), is_trusted, "{listed} {url}");
        }
    }
}
