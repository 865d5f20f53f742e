//! `[media]`: storage of files, and their delivery to callers.
//!
//! The credentials are read when the store is opened.

use serde::{Serialize, Serializer};
use url::Url;

use crate::masked_url::MaskedUrl;
use crate::settings::MediaSettings;
use crate::{BucketEncryption, ConfigError, MediaDelivery, wrong};
use mediagate_model::secret::{Secret, SecretSource};

/// Where files are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MediaStore {
    /// In the data folder.
    #[default]
    Folder,
    /// In a bucket, under a prefix without slashes at its ends, which may be empty.
    S3 { bucket: String, prefix: String },
}

/// How a bucket is reached, and with which credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MediaConfig {
    pub store: MediaStore,
    /// The endpoint; AWS if `None`.
    pub endpoint: Option<MaskedUrl>,
    pub region: Option<String>,
    /// Whether the bucket is in the path, not in the host.
    pub path_style: bool,
    access_key: Option<SecretSource>,
    secret_key: Option<SecretSource>,
    pub sse: Option<BucketEncryption>,
    pub kms_key: Option<String>,
    pub delivery: MediaDelivery,
    host: Option<String>,
}

/// What signs requests to a bucket.
#[derive(Clone)]
pub struct BucketKey {
    pub id: Secret,
    pub secret: Secret,
}

impl MediaConfig {
    pub(super) fn of(settings: MediaSettings) -> Result<Self, ConfigError> {
        let store = settings
            .store
            .as_deref()
            .map_or(Ok(MediaStore::Folder), read)?;
        Ok(Self {
            store,
            // AWS wants the bucket in the host. Other stores rarely have a host name for each
            // bucket.
            path_style: settings.path_style.unwrap_or(settings.endpoint.is_some()),
            endpoint: MaskedUrl::read_if_set("media.endpoint", settings.endpoint.as_ref())?,
            region: settings.region,
            access_key: settings.access_key,
            secret_key: settings.secret_key,
            sse: settings.sse,
            kms_key: settings.kms_key,
            delivery: settings.delivery.unwrap_or_default(),
            host: settings.host,
        })
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        // The other settings are allowed with a folder: they may describe the bucket to which its
        // files are copied.
        if self.store == MediaStore::Folder && self.delivery == MediaDelivery::Redirect {
            let message = "requires `media.store = \"s3://bucket/prefix\"`";
            return Err(wrong("media.delivery", message));
        }
        if let Some(endpoint) = &self.endpoint {
            let url = endpoint.url();
            let is_plain = endpoint.is_http()
                && url.host().is_some()
                && url.path() == "/"
                && url.query().is_none()
                && !endpoint.has_user();
            if !is_plain {
                let message = "must be an http or https URL without a path";
                return Err(wrong("media.endpoint", message));
            }
        }
        if self
            .region
            .as_deref()
            .is_some_and(|region| !is_word(region))
        {
            let message = "must be 1 to 64 letters, digits or -";
            return Err(wrong("media.region", message));
        }
        match (&self.access_key, &self.secret_key) {
            (Some(_), None) => {
                return Err(wrong("media.access_key", "requires `media.secret_key`"));
            }
            (None, Some(_)) => {
                return Err(wrong("media.secret_key", "requires `media.access_key`"));
            }
            _ => {}
        }
        match (self.sse, &self.kms_key) {
            (Some(BucketEncryption::Kms), None) => {
                return Err(wrong("media.sse", "requires `media.kms_key` for \"kms\""));
            }
            (None | Some(BucketEncryption::S3), Some(_)) => {
                return Err(wrong("media.kms_key", "requires `media.sse = \"kms\"`"));
            }
            _ => {}
        }
        if let Some(host) = &self.host
            && origin_of(host, "https://host").is_none()
        {
            let message = "must be a host such as \"media.example.com\", or an http or https URL without a query";
            return Err(wrong("media.host", message));
        }
        Ok(())
    }

    /// The credentials; `None` leaves them to the environment. Both are given, or none.
    pub fn key(&self) -> Result<Option<BucketKey>, ConfigError> {
        let read = |key: &'static str, source: &Option<SecretSource>| {
            let secret = source.as_ref().map(SecretSource::read).transpose();
            secret.map_err(|error| ConfigError::Secret { key, error })
        };
        let id = read("media.access_key", &self.access_key)?;
        let secret = read("media.secret_key", &self.secret_key)?;
        Ok(id.zip(secret).map(|(id, secret)| BucketKey { id, secret }))
    }

    /// This configuration with its files in another store.
    pub fn moved_to(&self, store: &str) -> Result<Self, ConfigError> {
        Ok(Self {
            store: read(store)?,
            ..self.clone()
        })
    }

    /// The origin of media URLs, for a gateway that is reached at `origin`.
    pub fn origin(&self, origin: &str) -> String {
        let host = self.host.as_deref();
        host.and_then(|host| origin_of(host, origin))
            .unwrap_or_else(|| origin.to_owned())
    }
}

/// An origin with another host; all of it is replaced if `host` is a URL itself.
fn origin_of(host: &str, origin: &str) -> Option<String> {
    let url = if host.contains("://") {
        Url::parse(host).ok()?
    } else {
        // Put into a URL, text with these characters would become a path, a user or a query.
        if host.contains(['/', '@', '?', '#', '\\', ' ']) {
            return None;
        }
        let (scheme, rest) = origin.split_once("://")?;
        let path = rest.split_once('/').map_or("", |(_, path)| path);
        Url::parse(&format!("{scheme}://{host}/{path}")).ok()?
    };
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.host().is_some()
        && url.query().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    is_plain.then(|| url.as_str().trim_end_matches('/').to_owned())
}

fn is_word(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn read(store: &str) -> Result<MediaStore, ConfigError> {
    if store == "folder" {
        return Ok(MediaStore::Folder);
    }
    let Some(location) = store.strip_prefix("s3://") else {
        let message = "must be \"folder\" or s3://bucket/prefix";
        return Err(wrong("media.store", message));
    };
    let (bucket, prefix) = location.split_once('/').unwrap_or((location, ""));
    let prefix = prefix.trim_end_matches('/');
    // S3's own rules for names of buckets.
    let is_bucket = (3..=63).contains(&bucket.len())
        && bucket
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.'))
        && bucket.starts_with(|c: char| c.is_ascii_alphanumeric())
        && bucket.ends_with(|c: char| c.is_ascii_alphanumeric())
        && !bucket.contains("..");
    if !is_bucket {
        let message = "must name a bucket: 3 to 63 lower-case letters, digits, - or .";
        return Err(wrong("media.store", message));
    }
    let is_part = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    if prefix.len() > 200 || !(prefix.is_empty() || prefix.split('/').all(is_part)) {
        let message =
            "must have no prefix, or a prefix of letters, digits, -, _, . and single slashes";
        return Err(wrong("media.store", message));
    }
    Ok(MediaStore::S3 {
        bucket: bucket.to_owned(),
        prefix: prefix.to_owned(),
    })
}

impl std::fmt::Display for MediaStore {
    /// Writes the form that the settings use.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder => f.write_str("folder"),
            Self::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

impl Serialize for MediaStore {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(settings: MediaSettings) -> Result<MediaConfig, ConfigError> {
        let config = MediaConfig::of(settings)?;
        config.check()?;
        Ok(config)
    }

    fn in_store(store: &str) -> MediaSettings {
        MediaSettings {
            store: Some(store.into()),
            ..MediaSettings::default()
        }
    }

    #[test]
    fn stores_are_read_and_shown() {
        for (text, shown) in [
            ("folder", "folder"),
            ("s3://films", "s3://films"),
            ("s3://films/", "s3://films"),
            ("s3://films.example/a/b-c_d/", "s3://films.example/a/b-c_d"),
        ] {
            assert_eq!(load(in_store(text)).unwrap().store.to_string(), shown);
        }
        for text in [
            "",
            "s3",
            "s3://",
            "s3://ab",
            "s3://Films",
            "s3://a..b",
            "s3://films/a//b",
            "s3://films/../b",
            "s3://films/a?b",
            "gs://films",
        ] {
            let message = load(in_store(text)).unwrap_err().to_string();
            assert!(
                message.starts_with("media.store: must "),
                "{text}: {message}"
            );
        }
    }

    #[test]
    fn conflicting_and_invalid_settings_are_named() {
        let url = |text: &str| Some(text.parse().unwrap());
        let secret = || Some(SecretSource::from("hunter2".to_owned()));
        let bucket = || in_store("s3://films");
        for (settings, key) in [
            (
                MediaSettings {
                    delivery: Some(MediaDelivery::Redirect),
                    ..MediaSettings::default()
                },
                "media.delivery",
            ),
            (
                MediaSettings {
                    endpoint: url("http://a/b"),
                    ..bucket()
                },
                "media.endpoint",
            ),
            (
                MediaSettings {
                    endpoint: url("ftp://a"),
                    ..bucket()
                },
                "media.endpoint",
            ),
            (
                MediaSettings {
                    region: Some("a/b".into()),
                    ..bucket()
                },
                "media.region",
            ),
            (
                MediaSettings {
                    access_key: secret(),
                    ..bucket()
                },
                "media.access_key",
            ),
            (
                MediaSettings {
                    secret_key: secret(),
                    ..bucket()
                },
                "media.secret_key",
            ),
            (
                MediaSettings {
                    sse: Some(BucketEncryption::Kms),
                    ..bucket()
                },
                "media.sse",
            ),
            (
                MediaSettings {
                    kms_key: Some("a".into()),
                    ..bucket()
                },
                "media.kms_key",
            ),
            (
                MediaSettings {
                    host: Some("a/b".into()),
                    ..bucket()
                },
                "media.host",
            ),
            (
                MediaSettings {
                    host: Some("ftp://a".into()),
                    ..bucket()
                },
                "media.host",
            ),
        ] {
            let message = load(settings).unwrap_err().to_string();
            assert!(message.starts_with(&format!("{key}: ")), "{key}: {message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
        let config = load(MediaSettings {
            access_key: secret(),
            secret_key: secret(),
            ..bucket()
        });
        let shown = toml::to_string(&config.unwrap()).unwrap();
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn the_bucket_is_in_the_path_unless_it_is_at_aws() {
        assert!(!load(in_store("s3://films")).unwrap().path_style);
        let with_endpoint = MediaSettings {
            endpoint: Some("http://a".parse().unwrap()),
            ..in_store("s3://films")
        };
        assert!(load(with_endpoint.clone()).unwrap().path_style);
        let virtual_hosted = MediaSettings {
            path_style: Some(false),
            ..with_endpoint
        };
        assert!(!load(virtual_hosted).unwrap().path_style);
    }

    #[test]
    fn media_has_another_host_where_one_is_set() {
        let with_host = |host: Option<&str>| MediaConfig {
            host: host.map(Into::into),
            ..MediaConfig::default()
        };
        let gateway = "https://gateway.example/base";
        assert_eq!(with_host(None).origin(gateway), gateway);
        assert_eq!(
            with_host(Some("media.example:81")).origin(gateway),
            "https://media.example:81/base"
        );
        assert_eq!(
            with_host(Some("media.example")).origin("http://a:1"),
            "http://media.example"
        );
        assert_eq!(
            with_host(Some("https://media.example/")).origin("http://a:1"),
            "https://media.example"
        );
    }
}
