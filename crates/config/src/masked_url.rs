//! URLs in the settings that may carry credentials, and their masked form.

use std::fmt;

use serde::{Serialize, Serializer};
use url::Url;

use crate::{ConfigError, wrong};
use mediagate_model::secret::SecretSource;

/// Shown instead of values that may be secret.
pub(super) const MASK: &str = "********";

/// A URL, given as itself, as `env:NAME` or as `file:PATH`. It is shown without user,
/// password, query and fragment; if it is a reference, the reference is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct MaskedUrl {
    url: Url,
    /// `env:NAME` or `file:PATH`.
    reference: Option<String>,
}

impl MaskedUrl {
    /// Reads the setting `key`.
    pub(super) fn read(key: &str, source: &SecretSource) -> Result<Self, ConfigError> {
        let text = source
            .read()
            .map_err(|error| wrong(key, &error.to_string()))?;
        let url = Url::parse(text.expose().trim());
        let url = url.map_err(|error| wrong(key, &format!("is not a URL: {error}")))?;
        let is_reference = !matches!(source, SecretSource::Value(_));
        Ok(Self {
            url,
            reference: is_reference.then(|| source.to_string()),
        })
    }

    /// Like [`Self::read`], for a setting that may be left out.
    pub(super) fn read_if_set(
        key: &str,
        source: Option<&SecretSource>,
    ) -> Result<Option<Self>, ConfigError> {
        source.map(|source| Self::read(key, source)).transpose()
    }

    /// The whole URL, for requests.
    pub const fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn is_http(&self) -> bool {
        matches!(self.url.scheme(), "http" | "https")
    }

    pub(super) fn has_user(&self) -> bool {
        !self.url.username().is_empty() || self.url.password().is_some()
    }
}

impl fmt::Display for MaskedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reference {
            Some(reference) => f.write_str(reference),
            None => f.write_str(&without_credentials(self.url.as_str())),
        }
    }
}

impl fmt::Debug for MaskedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for MaskedUrl {
    /// Serializes the masked URL, which [`Display`](std::fmt::Display) writes.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A URL without user, password, query and fragment; for text that does not parse as expected
/// (several hosts, a password with a slash), only the scheme.
pub(super) fn without_credentials(address: &str) -> String {
    strip_credentials(address).unwrap_or_else(|| {
        let scheme = address.split_once("://").map_or("", |(scheme, _)| scheme);
        // What precedes `://` in malformed text may be part of a secret, unless it looks like a
        // scheme.
        let is_plain = scheme.bytes().all(|b| b.is_ascii_lowercase());
        let scheme = if is_plain { scheme } else { "" };
        format!("{scheme}://{MASK}")
    })
}

fn strip_credentials(address: &str) -> Option<String> {
    let mut url = Url::parse(address).ok()?;
    url.set_query(None);
    url.set_fragment(None);
    if !url.username().is_empty() || url.password().is_some() {
        url.set_username("").ok()?;
        url.set_password(None).ok()?;
    }
    // A password with a slash in it ends the host early, so that user and password are read as
    // host, port and path. The `@` reveals that.
    let is_plain = url.has_host() && !url.path().contains('@');
    is_plain.then(|| url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> MaskedUrl {
        MaskedUrl::read("a", &SecretSource::from(text.to_owned())).unwrap()
    }

    #[test]
    fn an_address_shows_neither_user_nor_password_nor_query() {
        let address = address("https://hunter1:hunter2@a.example:81/b?hunter3=1#hunter4");
        for shown in [
            address.to_string(),
            format!("{address:?}"),
            serde_json::to_value(&address)
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned(),
        ] {
            assert_eq!(shown, "https://a.example:81/b");
        }
        assert!(address.url().as_str().contains("hunter3"));
    }

    #[test]
    fn text_that_does_not_parse_as_expected_shows_no_secret() {
        for text in [
            "postgres://u:hunter2@a:1,b:2/db?password=hunter2",
            "postgres://u:hunter2/x@a/db",
            "postgres://u:5432/hunter2@a/db",
            "hunter2",
            "data:hunter2",
        ] {
            let shown = without_credentials(text);
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        let shown = without_credentials("postgres://u:hunter2@a:5432/db?sslmode=require");
        assert_eq!(shown, "postgres://a:5432/db");
    }

    #[test]
    fn a_reference_is_shown_as_written_and_no_error_reveals_the_address() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "https://u:hunter2@a.example/\n").unwrap();
        let text = format!("file:{}", file.path().display());
        let url = address(&text);
        assert_eq!(url.to_string(), text);
        assert_eq!(url.url().host_str(), Some("a.example"));
        std::fs::write(file.path(), "u:hunter2@a.example:x").unwrap();
        for text in [text.as_str(), "//u:hunter2@a.example"] {
            let result = MaskedUrl::read("a.b", &SecretSource::from(text.to_owned()));
            let result = result.map(|address| address.to_string());
            let message = result.unwrap_or_else(|error| error.to_string());
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
}
