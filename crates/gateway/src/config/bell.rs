//! `[bell]`: how processes tell each other of changes.
//!
//! Its secrets are read when a server or worker starts; other commands do not need them.

use serde::Serialize;
use url::Url;

use crate::config::settings::BellSettings;
use crate::config::{Config, ConfigError, wrong};
use crate::secret::{Secret, SecretSource};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BellConfig {
    /// NATS server that carries rings to other processes; Postgres does if `None`.
    nats: Option<SecretSource>,
    /// Direct address of the database for rings; `database` if `None`.
    database: Option<SecretSource>,
}

impl BellConfig {
    pub(super) fn of(set: BellSettings) -> Self {
        Self {
            nats: set.nats,
            database: set.database,
        }
    }

    /// The address of the NATS server.
    pub fn nats(&self) -> Result<Option<Secret>, ConfigError> {
        let nats = read("bell.nats", self.nats.as_ref())?;
        let is_address =
            |text: &str| Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "nats" | "tls"));
        match nats {
            Some(nats) if !nats.expose().split(',').all(is_address) => {
                Err(wrong("bell.nats", "must be a nats:// or tls:// URL"))
            }
            nats => Ok(nats),
        }
    }

    /// The direct address of the database.
    pub fn database(&self) -> Result<Option<Secret>, ConfigError> {
        let database = read("bell.database", self.database.as_ref())?;
        let is_postgres =
            |url: &str| url.starts_with("postgres://") || url.starts_with("postgresql://");
        match database {
            Some(database) if !is_postgres(database.expose()) => {
                Err(wrong("bell.database", "must be a postgres:// URL"))
            }
            database => Ok(database),
        }
    }

    /// Whether everything can be read.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.nats()?;
        self.database()?;
        Ok(())
    }
}

impl Config {
    /// The first API key that was given.
    pub fn given_key(&self) -> Result<Option<Secret>, ConfigError> {
        read("first_key", self.first_key.as_ref())
    }
}

fn read(key: &'static str, source: Option<&SecretSource>) -> Result<Option<Secret>, ConfigError> {
    let read = source.map(SecretSource::read).transpose();
    read.map_err(|error| ConfigError::Secret { key, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bell(nats: Option<&str>, database: Option<&str>) -> BellConfig {
        let source = |text: &str| SecretSource::from(text.to_owned());
        BellConfig {
            nats: nats.map(source),
            database: database.map(source),
        }
    }

    #[test]
    fn addresses_are_checked_and_masked() {
        let wrong = bell(Some("http://user:hunter2@host"), None).check();
        assert_eq!(
            wrong.unwrap_err().to_string(),
            "bell.nats: must be a nats:// or tls:// URL"
        );
        let wrong = bell(None, Some("sqlite")).check();
        assert_eq!(
            wrong.unwrap_err().to_string(),
            "bell.database: must be a postgres:// URL"
        );
        let wrong = bell(Some("file:/no/such"), None).check();
        assert!(wrong.unwrap_err().to_string().starts_with("bell.nats: "));
        let right = bell(Some("nats://user:hunter2@a:4222,nats://b:4222"), None);
        right.check().unwrap();
        let shown = toml::to_string(&right).unwrap();
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
