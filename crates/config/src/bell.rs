//! `[bell]`: notification between processes.
//!
//! Its secrets are read when a server or worker starts; other commands do not need them.

use serde::Serialize;

use crate::settings::BellSettings;
use crate::{Config, ConfigError, wrong};
use mediagate_model::secret::{Secret, SecretSource};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BellConfig {
    /// Direct address of the database for notifications; `database` if `None`.
    database: Option<SecretSource>,
}

impl BellConfig {
    pub(super) fn of(settings: BellSettings) -> Self {
        Self {
            database: settings.database,
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
        self.database().map(|_| ())
    }
}

impl Config {
    /// The first API key, if it is set.
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

    fn bell(database: &str) -> BellConfig {
        BellConfig {
            database: Some(SecretSource::from(database.to_owned())),
        }
    }

    #[test]
    fn the_address_is_checked_and_masked() {
        let result = bell("sqlite").check();
        assert_eq!(
            result.unwrap_err().to_string(),
            "bell.database: must be a postgres:// URL"
        );
        let result = bell("file:/no/such").check();
        assert!(
            result
                .unwrap_err()
                .to_string()
                .starts_with("bell.database: ")
        );
        let right = bell("postgres://user:hunter2@a/b");
        right.check().unwrap();
        let shown = toml::to_string(&right).unwrap();
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
