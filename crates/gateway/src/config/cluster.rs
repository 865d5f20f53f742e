//! Settings of processes that work together: `metrics_listen`, `first_key` and `[bell]`.
//!
//! Their secrets are read when a server or worker starts; other commands do not need them.

use std::net::SocketAddr;

use clap::Args;
use serde::Deserialize;
use toml::{Table, Value};
use url::Url;

use crate::config::{ConfigError, wrong};
use crate::secret::{Secret, SecretSource};

/// Flags and environment variables; each corresponds to a key in the file.
#[derive(Debug, Clone, Default, Args)]
pub struct ClusterFlags {
    /// Address for probes and metrics without a key, of servers and workers [default: none]
    #[arg(
        long,
        env = "MEDIAGATE_METRICS_LISTEN",
        value_name = "ADDRESS",
        global = true
    )]
    pub metrics_listen: Option<SocketAddr>,
    /// The first API key, instead of a printed one; also env:NAME or <file:PATH>
    #[arg(
        long,
        env = "MEDIAGATE_FIRST_KEY",
        value_name = "KEY",
        hide_env_values = true,
        global = true
    )]
    pub first_key: Option<SecretSource>,
    /// NATS server that tells other processes of changes; also env:NAME or <file:PATH> [default: Postgres does]
    #[arg(
        long,
        env = "MEDIAGATE_BELL_NATS",
        value_name = "URL",
        hide_env_values = true,
        global = true
    )]
    pub bell_nats: Option<SecretSource>,
    /// Direct address of the database when `database` is a pooler's; also env:NAME or <file:PATH>
    #[arg(
        long,
        env = "MEDIAGATE_BELL_DATABASE",
        value_name = "DATABASE",
        hide_env_values = true,
        global = true
    )]
    pub bell_database: Option<SecretSource>,
}

/// `[bell]` in the file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BellTable {
    pub nats: Option<SecretSource>,
    pub database: Option<SecretSource>,
}

/// The settings, complete.
#[derive(Debug, Clone, Default)]
pub struct ClusterConfig {
    /// Where probes and metrics are served without a key.
    pub metrics_listen: Option<SocketAddr>,
    /// The first API key; one is generated and printed if `None`.
    pub first_key: Option<SecretSource>,
    /// NATS server that carries rings to other processes; Postgres does if `None`.
    pub bell_nats: Option<SecretSource>,
    /// Direct address of the database for rings; `database` if `None`.
    pub bell_database: Option<SecretSource>,
}

impl ClusterConfig {
    pub(super) fn layer(
        flags: ClusterFlags,
        metrics_listen: Option<SocketAddr>,
        first_key: Option<SecretSource>,
        bell: BellTable,
    ) -> Self {
        Self {
            metrics_listen: flags.metrics_listen.or(metrics_listen),
            first_key: flags.first_key.or(first_key),
            bell_nats: flags.bell_nats.or(bell.nats),
            bell_database: flags.bell_database.or(bell.database),
        }
    }

    /// Whether everything that a server or worker needs can be read.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.first_key()?;
        self.nats()?;
        self.direct_database()?;
        Ok(())
    }

    /// The first key, of the usual form.
    pub fn first_key(&self) -> Result<Option<Secret>, ConfigError> {
        read("first_key", self.first_key.as_ref())
    }

    /// The address of the NATS server.
    pub fn nats(&self) -> Result<Option<Secret>, ConfigError> {
        let nats = read("bell.nats", self.bell_nats.as_ref())?;
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
    pub fn direct_database(&self) -> Result<Option<Secret>, ConfigError> {
        let database = read("bell.database", self.bell_database.as_ref())?;
        let is_postgres =
            |url: &str| url.starts_with("postgres://") || url.starts_with("postgresql://");
        match database {
            Some(database) if !is_postgres(database.expose()) => {
                Err(wrong("bell.database", "must be a postgres:// URL"))
            }
            database => Ok(database),
        }
    }

    /// What is set, as in the file, secrets masked.
    pub(super) fn show(&self, top: &mut Table) {
        let text = |value: &dyn ToString| Value::String(value.to_string());
        if let Some(address) = &self.metrics_listen {
            top.insert("metrics_listen".into(), text(address));
        }
        if let Some(key) = &self.first_key {
            top.insert("first_key".into(), text(key));
        }
        let mut bell = Table::new();
        if let Some(nats) = &self.bell_nats {
            bell.insert("nats".into(), text(nats));
        }
        if let Some(database) = &self.bell_database {
            bell.insert("database".into(), text(database));
        }
        if !bell.is_empty() {
            top.insert("bell".into(), Value::Table(bell));
        }
    }
}

fn read(key: &'static str, source: Option<&SecretSource>) -> Result<Option<Secret>, ConfigError> {
    let read = source.map(SecretSource::read).transpose();
    read.map_err(|error| ConfigError::Secret { key, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_needs_is_checked_and_masked() {
        let source = |text: &str| Some(SecretSource::from(text.to_owned()));
        let wrong = ClusterConfig {
            bell_nats: source("http://user:hunter2@host"),
            ..ClusterConfig::default()
        };
        let error = wrong.check().unwrap_err().to_string();
        assert_eq!(error, "bell.nats: must be a nats:// or tls:// URL");
        let wrong = ClusterConfig {
            bell_database: source("sqlite"),
            ..ClusterConfig::default()
        };
        assert!(
            wrong
                .check()
                .unwrap_err()
                .to_string()
                .starts_with("bell.database: ")
        );
        let wrong = ClusterConfig {
            first_key: source("file:/no/such"),
            ..ClusterConfig::default()
        };
        assert!(
            wrong
                .check()
                .unwrap_err()
                .to_string()
                .starts_with("first_key: ")
        );
        let right = ClusterConfig {
            bell_nats: source("nats://user:hunter2@a:4222,nats://b:4222"),
            first_key: source("hunter2"),
            ..ClusterConfig::default()
        };
        right.check().unwrap();
        let mut top = Table::new();
        right.show(&mut top);
        assert!(!top.to_string().contains("hunter2"));
        assert_eq!(top.len(), 2);
    }
}
