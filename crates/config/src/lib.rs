//! Settings: flags override the environment, which overrides the file, which overrides defaults.
//!
//! [`Settings`] are what a source sets, [`mod@file`] reads the TOML, `assembly` puts the sources
//! and the defaults together, and [`Config`] is what the rest of the program uses: complete and
//! validated. A part of it, [`Config::models`], can be reloaded while the server is running.
//!
//! This crate must not know what a setting does: it only knows what is set, where, and which
//! settings are invalid. Begin with [`Settings`].

mod assembly;
mod bell;
pub mod byte_size;
pub mod effective;
pub mod extra_fields;
pub mod fault_report;
pub mod file;
pub mod masked_url;
mod media;
mod moderation;
mod process;
mod provenance;
pub mod providers;
mod settings;
mod settings_file;
mod show;
mod telemetry;
mod values;
mod webhooks;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::providers::catalogue::Catalogue;
use ipnet::IpNet;
use serde::Serialize;

pub use bell::BellConfig;
pub use media::{BucketKey, MediaConfig, MediaStore};
pub use moderation::{CheckKind, ModerationCheck, ModerationRules};
pub use process::cores;
pub use provenance::{KeyHolder, ProvenanceRules, SigningIdentity};
pub use settings::{
    BucketEncryption, CancelPolicy, Durability, LogFormat, MediaDelivery, MediaSettings,
    ModerationFallback, NotifyHookBody, Settings, SubmitBody,
};
pub use telemetry::TelemetryConfig;
pub use webhooks::WebhookRules;

use crate::byte_size::ByteSize;
use crate::providers::{ModelSettings, ProviderConfig};
use crate::settings_file::SettingsFile;
use mediagate_model::database::MigrationMode;
use mediagate_model::money::MicroDollars;
use mediagate_model::secret::{Secret, SecretError, SecretSource};

/// A fault of the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("{path}: {reason}")]
    Unreadable { path: String, reason: String },
    /// An error at one place in the file.
    #[error("{path}:{line}: {message}")]
    InFile {
        path: String,
        /// Counts from 1.
        line: usize,
        /// The setting; empty if the line is not TOML.
        key: String,
        /// Includes the key.
        message: String,
    },
    /// An invalid value, wherever it came from.
    #[error("{key}: {message}")]
    Value {
        /// The setting, as written in the file.
        key: String,
        message: String,
    },
    #[error("{key}: {error}")]
    Secret {
        key: &'static str,
        error: SecretError,
    },
}

impl ConfigError {
    /// The setting, as far as it is known.
    fn key(&self) -> Option<&str> {
        match self {
            Self::Unreadable { .. } => None,
            Self::InFile { key, .. } | Self::Value { key, .. } => Some(key),
            Self::Secret { key, .. } => Some(key),
        }
    }

    /// Its line in the file; 0 if it is not in the file.
    const fn line(&self) -> usize {
        match self {
            Self::InFile { line, .. } => *line,
            _ => 0,
        }
    }

    fn is_unknown_key(&self) -> bool {
        let (Self::InFile { message, .. } | Self::Value { message, .. }) = self else {
            return false;
        };
        message.contains("unknown key")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseTarget {
    /// A file in the data folder.
    Sqlite,
    /// The URL of a server.
    Postgres(Secret),
}

/// Every setting, complete and validated.
#[derive(Debug, Clone, Serialize)]
pub struct Config {
    /// The configuration file, if there is one.
    #[serde(skip)]
    pub path: Option<PathBuf>,
    pub listen: SocketAddr,
    /// Folder for all data.
    pub data: PathBuf,
    /// Folder of the operator's own separation models.
    pub models_folder: PathBuf,
    /// The ONNX Runtime library, if not the default one.
    pub onnx_library: Option<PathBuf>,
    /// The client of Python packages that `mediagate models install` runs.
    pub pip: PathBuf,
    /// URL under which callers reach this service, without a trailing slash.
    pub public_url: Option<String>,
    #[serde(serialize_with = "values::database")]
    pub database: DatabaseTarget,
    /// Postgres connections of this process.
    pub database_connections: usize,
    /// What survives the loss of the database's machine.
    pub durability: Durability,
    /// Whether to migrate the schema at startup.
    pub migrate: MigrationMode,
    /// How long a request waits for its task.
    #[serde(serialize_with = "values::time")]
    pub wait_limit: Duration,
    /// How long media is kept.
    #[serde(serialize_with = "values::time")]
    pub media_ttl: Duration,
    /// Bytes of files that an account may store.
    pub storage_limit: ByteSize,
    /// Free disk space below which orders and uploads are refused.
    pub disk_floor: ByteSize,
    /// How long finished tasks are kept; forever if `None`.
    #[serde(
        serialize_with = "values::time_if_set",
        skip_serializing_if = "Option::is_none"
    )]
    pub record_ttl: Option<Duration>,
    /// How long the accounts' audit logs are kept.
    #[serde(serialize_with = "values::time")]
    pub audit_ttl: Duration,
    /// How long the log of requests is kept.
    #[serde(serialize_with = "values::time")]
    pub requests_ttl: Duration,
    /// The share of successful reads that are logged, 0 to 1.
    pub requests_sample: f64,
    /// How long requests are still accepted during shutdown.
    #[serde(serialize_with = "values::time")]
    pub drain_delay: Duration,
    /// How long requests in flight may take after that.
    #[serde(serialize_with = "values::time")]
    pub shutdown_grace: Duration,
    /// First path segment of the music endpoints.
    pub brand: String,
    /// Name of the persona field that carries the brand.
    pub persona_brand_field: String,
    /// Response to a music submission.
    pub submit_body: SubmitBody,
    /// Tasks that run at once in this process.
    pub workers: usize,
    /// Total memory for decoding callers' media, in MiB.
    pub decoding_memory_mb: usize,
    /// Sign media URLs and encrypt secrets, the newest first; one is generated if there are none.
    #[serde(
        serialize_with = "values::mask_secrets",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub signing_secrets: Vec<Secret>,
    /// Web origins that may call from a page.
    pub cors_origins: Vec<String>,
    /// Networks whose forwarding headers are trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Maximum number of connections.
    pub max_connections: usize,
    /// Maximum number of connections per address.
    pub max_connections_per_peer: usize,
    /// Tasks of one model that are being submitted at the same time, each with its whole order in
    /// memory.
    pub max_submitting: usize,
    /// Rules for fetching callers' URLs.
    pub fetch: FetchRules,
    /// Rules for calling callers' URLs.
    pub webhooks: WebhookRules,
    /// What results state about their origin.
    pub provenance: ProvenanceRules,
    /// Which orders are refused for their content.
    pub moderation: ModerationRules,
    pub personas: PersonaRules,
    /// Where probes and metrics are served without a key.
    pub metrics_listen: Option<SocketAddr>,
    /// The first API key; one is generated and printed if `None`.
    first_key: Option<SecretSource>,
    pub bell: BellConfig,
    /// Where files are kept.
    pub media: MediaConfig,
    /// What is exported to a collector.
    pub telemetry: TelemetryConfig,
    /// Who pays if a provider finishes a cancelled task.
    pub cancel_policy: CancelPolicy,
    /// The most that is refunded to an account per day for cancelled tasks that continue at their
    /// provider.
    #[serde(serialize_with = "values::dollars")]
    pub cancel_allowance: MicroDollars,
    /// How long an order waits for approval.
    #[serde(serialize_with = "values::time")]
    pub approval_ttl: Duration,
    /// Whether a key may not approve the orders that it placed.
    pub approval_by_others: bool,
    pub log_format: LogFormat,
    /// The log filter.
    pub log: String,
    /// This program's executable, to start child processes.
    #[serde(skip)]
    pub program: PathBuf,
    /// Models and providers.
    #[serde(flatten)]
    pub models: ModelConfig,
}

/// The settings that can be reloaded while the server is running.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelConfig {
    /// Video model for requests that name none.
    pub default_model: String,
    /// Music model for requests that name none, if the settings name one.
    pub default_music_model: Option<String>,
    /// Whether callers see which provider made something.
    pub show_providers: bool,
    /// Folder of newer files about hosted models.
    pub catalog: Option<PathBuf>,
    /// Known hosted models, including those of `catalog`.
    #[serde(skip)]
    pub catalogue: Arc<Catalogue>,
    /// Providers by name.
    #[serde(skip)]
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Settings by model name.
    #[serde(skip)]
    pub models: BTreeMap<String, ModelSettings>,
    /// The file, for errors with line numbers.
    #[serde(skip)]
    pub source: Option<SettingsFile>,
}

impl ModelConfig {
    /// Adds the line in the file to an error, if it has one.
    pub fn locate(&self, error: ConfigError) -> ConfigError {
        match &self.source {
            Some(source) => source.locate(error),
            None => error,
        }
    }
}

/// Where callers' URLs may point; `fetch.rs` applies the rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FetchRules {
    /// Networks that are allowed although they are not public, at any port.
    pub allow_networks: Vec<IpNet>,
    /// Ports that public addresses may use.
    pub allow_ports: Vec<u16>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PersonaRules {
    /// Whether public ones are approved automatically.
    pub auto_approve: bool,
}

impl Default for FetchRules {
    fn default() -> Self {
        Self {
            allow_networks: Vec::new(),
            allow_ports: vec![80, 443],
        }
    }
}

impl Config {
    pub fn sqlite_path(&self) -> PathBuf {
        self.data.join("mediagate.db")
    }

    pub fn media_path(&self) -> PathBuf {
        self.data.join("media")
    }

    /// The mark that detects a restored database.
    pub fn mark_path(&self) -> PathBuf {
        self.data.join("mark")
    }

    /// The folder of temporary files, such as uploads in progress.
    pub fn spool_path(&self) -> PathBuf {
        self.data.join("spool")
    }

    /// The file of the generated signing key.
    pub fn signing_key_path(&self) -> PathBuf {
        self.data.join("signing.key")
    }

    /// The settings as TOML, secrets masked.
    pub fn show(&self) -> String {
        show::toml(self)
    }
}

/// Modification time and size of the file, by which a change of it is noticed.
pub fn file_mark(path: &Path) -> Option<(std::time::SystemTime, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

fn wrong(key: &str, message: &str) -> ConfigError {
    ConfigError::Value {
        key: key.into(),
        message: message.into(),
    }
}
