//! Settings: flags override the environment, which overrides the file, which overrides defaults.
//!
//! [`Overrides`] are the flags and their environment variables, [`mod@file`] reads the TOML, and
//! [`Config`] is what the rest of the program uses: complete and validated. A part of it,
//! [`Config::models`], can be reloaded while the server is running.

mod cluster;
pub mod file;
mod flags;
mod process;
pub mod providers;
mod show;
pub mod size;
mod webhooks;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::providers::catalogue::Catalogue;
use ipnet::IpNet;
use url::Url;

pub use cluster::{ClusterConfig, ClusterFlags};
pub use flags::{CancelPolicy, Durability, LogFormat, Overrides};
pub use process::cores;
pub use webhooks::{NotifyHookBody, WebhookRules};

use crate::config::file::{ConfigFile, Source};
use crate::config::providers::{ModelSettings, ProviderConfig};
use crate::config::size::ByteSize;
use crate::secret::{Secret, SecretError, SecretSource};
use crate::store::{Migrate, Options};

/// What is wrong with the settings.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{path}: {reason}")]
    Unreadable { path: String, reason: String },
    /// An error at one place in the file.
    #[error("{path}:{line}: {message}")]
    InFile {
        path: String,
        /// Counts from 1.
        line: usize,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// A file in the data folder.
    Sqlite,
    /// The URL of a server.
    Postgres(Secret),
}

/// Every setting, complete and validated.
#[derive(Debug, Clone)]
pub struct Config {
    /// The configuration file, if there is one.
    pub path: Option<PathBuf>,
    pub listen: SocketAddr,
    /// Folder for all data.
    pub data: PathBuf,
    /// Folder of the operator's own separation models.
    pub models_folder: PathBuf,
    /// The ONNX Runtime library, if not the default one.
    pub onnx_library: Option<PathBuf>,
    /// URL under which callers reach this service, without a trailing slash.
    pub public_url: Option<String>,
    pub database: Database,
    /// Postgres connections of this process.
    pub database_connections: usize,
    /// What survives the loss of the database's machine.
    pub durability: Durability,
    /// Whether to migrate the schema at startup.
    pub migrate: Migrate,
    /// How long a request waits for its task.
    pub wait_limit: Duration,
    /// How long media is kept.
    pub media_ttl: Duration,
    /// Bytes of files that an account may store.
    pub storage_limit: ByteSize,
    /// Free disk space below which uploads are refused.
    pub disk_floor: ByteSize,
    /// How long finished tasks are kept; forever if `None`.
    pub record_ttl: Option<Duration>,
    /// How long requests are still accepted during shutdown.
    pub drain_delay: Duration,
    /// How long requests in flight may take after that.
    pub shutdown_grace: Duration,
    /// First path segment of the music endpoints.
    pub brand: String,
    /// Name of the persona field that carries the brand.
    pub persona_brand_field: String,
    /// Tasks that run at once in this process.
    pub workers: usize,
    /// Total memory for decoding callers' media, in MiB.
    pub decoding_memory_mb: usize,
    /// Sign media URLs and encrypt secrets, the newest first; one is generated if there are none.
    pub signing_secrets: Vec<Secret>,
    /// Web origins that may call from a page.
    pub cors_origins: Vec<String>,
    /// Networks whose forwarding headers are trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// In total.
    pub max_connections: usize,
    /// Per address.
    pub max_connections_per_peer: usize,
    /// Tasks of one model that look for a provider at once, each with its whole order in memory.
    pub max_submitting: usize,
    /// Rules for fetching callers' URLs.
    pub fetch: FetchRules,
    /// Rules for calling callers' URLs.
    pub webhooks: WebhookRules,
    /// Whether public personas are approved automatically.
    pub personas_auto_approve: bool,
    /// Settings of processes that work together.
    pub cluster: ClusterConfig,
    /// Who pays if a provider finishes a cancelled task.
    pub cancel_policy: CancelPolicy,
    pub log_format: LogFormat,
    /// The log filter.
    pub log: String,
    /// This program's file, to start children from.
    pub program: PathBuf,
    /// Models and providers.
    pub models: ModelConfig,
}

/// The settings that can be reloaded while the server is running.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Video model for requests that name none.
    pub default_model: String,
    /// Music model for requests that name none.
    pub default_music_model: String,
    /// Whether callers see which provider made something.
    pub show_providers: bool,
    /// Folder of newer files about hosted models.
    pub catalog: Option<PathBuf>,
    /// Known hosted models, including those of `catalog`.
    pub catalogue: Arc<Catalogue>,
    /// Providers by name.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Settings by model name.
    pub models: BTreeMap<String, ModelSettings>,
    /// The file, for errors with line numbers.
    pub source: Option<Source>,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRules {
    /// Networks that are allowed although they are not public, at any port.
    pub allow_networks: Vec<IpNet>,
    /// Ports that public addresses may use.
    pub allow_ports: Vec<u16>,
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
    /// Reads the file named in the overrides and merges all sources.
    pub fn load(overrides: &Overrides) -> Result<Self, ConfigError> {
        let file = match &overrides.config {
            Some(path) => file::read(path)?,
            None => ConfigFile::default(),
        };
        Self::layer(overrides.clone(), file)
    }

    /// Reads only the settings that can be reloaded.
    pub fn reload(overrides: &Overrides) -> Result<ModelConfig, ConfigError> {
        Self::load(overrides).map(|config| config.models)
    }

    /// Known hosted models, without reading any other setting.
    pub fn catalogue(overrides: &Overrides) -> Result<Arc<Catalogue>, ConfigError> {
        let file = match &overrides.config {
            Some(path) => file::read(path)?,
            None => ConfigFile::default(),
        };
        let folder = overrides.catalog.as_deref().or(file.catalog.as_deref());
        providers::known(folder, file.source.as_ref())
    }

    #[expect(clippy::too_many_lines, reason = "a line for each setting")]
    fn layer(flags: Overrides, file: ConfigFile) -> Result<Self, ConfigError> {
        let fetch = FetchRules::default();
        let webhooks = WebhookRules::layer(&flags, file.webhooks);
        let (listen, key) = (file.metrics_listen, file.first_key);
        let cluster = ClusterConfig::layer(flags.cluster, listen, key, file.bell);
        let database = flags.database.or(file.database);
        let signing_secrets = read_signing_secrets(
            flags.signing_secret.or(file.signing_secret),
            flags.signing_secrets.or(file.signing_secrets),
        )?;
        let data = flags.data.or(file.data);
        let data = data.unwrap_or_else(|| PathBuf::from("./mediagate-data"));
        let models_folder = flags.models_folder.or(file.models_folder);
        let catalog = flags.catalog.or(file.catalog);
        let config = Self {
            path: flags.config,
            listen: flags
                .listen
                .or(file.listen)
                .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080))),
            models_folder: models_folder.unwrap_or_else(|| data.join("models")),
            onnx_library: flags.onnx_library.or(file.onnx_library),
            data,
            public_url: flags
                .public_url
                .or(file.public_url)
                .map(|url| check_public_url(&url))
                .transpose()?,
            database: database.map_or(Ok(Database::Sqlite), |source| read_database(&source))?,
            database_connections: flags
                .database_connections
                .or(file.database_connections)
                .unwrap_or(Options::default().connections),
            durability: flags.durability.or(file.durability).unwrap_or_default(),
            migrate: flags.migrate.or(file.migrate).unwrap_or_default(),
            wait_limit: flags
                .wait_limit
                .or(file.wait_limit)
                .unwrap_or(Duration::from_mins(15)),
            media_ttl: flags
                .media_ttl
                .or(file.media_ttl)
                .unwrap_or(Duration::from_hours(30 * 24)),
            storage_limit: flags
                .storage_limit
                .or(file.storage_limit)
                .unwrap_or(ByteSize(20_000_000_000)),
            disk_floor: flags
                .disk_floor
                .or(file.disk_floor)
                .unwrap_or(ByteSize(500_000_000)),
            record_ttl: flags.record_ttl.or(file.record_ttl),
            drain_delay: flags.drain_delay.or(file.drain_delay).unwrap_or_default(),
            shutdown_grace: flags
                .shutdown_grace
                .or(file.shutdown_grace)
                .unwrap_or(Duration::from_secs(30)),
            brand: flags
                .brand
                .or(file.brand)
                .unwrap_or_else(|| "musicgen".into()),
            persona_brand_field: flags
                .persona_brand_field
                .or(file.persona_brand_field)
                .unwrap_or_else(|| "is_service_persona".into()),
            workers: flags.workers.or(file.workers).unwrap_or_else(cores),
            decoding_memory_mb: flags
                .decoding_memory_mb
                .or(file.decoding_memory_mb)
                .unwrap_or(1024),
            signing_secrets,
            webhooks,
            cluster,
            cors_origins: flags.cors_origins.or(file.cors_origins).unwrap_or_default(),
            trusted_proxies: flags
                .trusted_proxies
                .or(file.trusted_proxies)
                .unwrap_or_default(),
            max_connections: flags
                .max_connections
                .or(file.max_connections)
                .unwrap_or(8192),
            max_connections_per_peer: flags
                .max_connections_per_peer
                .or(file.max_connections_per_peer)
                .unwrap_or(1024),
            max_submitting: flags.max_submitting.or(file.max_submitting).unwrap_or(256),
            fetch: FetchRules {
                allow_networks: flags
                    .fetch_allow_networks
                    .or(file.fetch.allow_networks)
                    .unwrap_or(fetch.allow_networks),
                allow_ports: flags
                    .fetch_allow_ports
                    .or(file.fetch.allow_ports)
                    .unwrap_or(fetch.allow_ports),
            },
            personas_auto_approve: flags
                .personas_auto_approve
                .or(file.personas.auto_approve)
                .unwrap_or(false),
            cancel_policy: flags
                .cancel_policy
                .or(file.cancel_policy)
                .unwrap_or_default(),
            log_format: flags
                .log_format
                .or(file.log_format)
                .unwrap_or(LogFormat::Auto),
            log: flags.log.or(file.log).unwrap_or_else(|| "info".into()),
            program: process::this_program(),
            models: ModelConfig {
                default_model: flags
                    .default_model
                    .or(file.default_model)
                    .unwrap_or_else(|| "animatic-1".into()),
                default_music_model: flags
                    .default_music_model
                    .or(file.default_music_model)
                    .unwrap_or_else(|| "stems-dsp-1".into()),
                show_providers: flags
                    .show_providers
                    .or(file.show_providers)
                    .unwrap_or(false),
                catalogue: providers::known(catalog.as_deref(), file.source.as_ref())?,
                catalog,
                providers: complete(file.providers, file.source.as_ref())?,
                models: file.models,
                source: file.source,
            },
        };
        config
            .check()
            .map_err(|error| config.models.locate(error))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        check_path_segment("brand", &self.brand)?;
        if ["v1", "media", "pricing", "docs", "assets", "console"].contains(&self.brand.as_str()) {
            return Err(wrong(
                "brand",
                "is the first segment of another endpoint's path",
            ));
        }
        check_path_segment("persona_brand_field", &self.persona_brand_field)?;
        if self.workers == 0 || self.workers > 1024 {
            return Err(wrong("workers", "must be from 1 to 1024"));
        }
        if self.max_connections == 0 {
            return Err(wrong("max_connections", "must be at least 1"));
        }
        if self.max_connections_per_peer == 0 {
            return Err(wrong("max_connections_per_peer", "must be at least 1"));
        }
        if !(1..=100_000).contains(&self.max_submitting) {
            return Err(wrong("max_submitting", "must be from 1 to 100000"));
        }
        if !(2..=100).contains(&self.database_connections) {
            return Err(wrong("database_connections", "must be from 2 to 100"));
        }
        if self.durability == Durability::Replicated && self.database == Database::Sqlite {
            return Err(wrong("durability", "is \"local\" with SQLite"));
        }
        if !(64..=1_048_576).contains(&self.decoding_memory_mb) {
            return Err(wrong("decoding_memory_mb", "must be from 64 to 1048576"));
        }
        if self.wait_limit.is_zero() {
            return Err(wrong("wait_limit", "must be greater than zero"));
        }
        if self.media_ttl < Duration::from_secs(1) {
            return Err(wrong("media_ttl", "must be at least a second"));
        }
        if self
            .record_ttl
            .is_some_and(|ttl| ttl < Duration::from_secs(1))
        {
            return Err(wrong("record_ttl", "must be at least a second"));
        }
        self.webhooks.check()?;
        if !self.cors_origins.iter().all(|origin| is_origin(origin)) {
            return Err(wrong(
                "cors_origins",
                "must be origins such as https://app.example.com, without a path",
            ));
        }
        Ok(())
    }

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

    /// The folder of uploads in progress.
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

fn complete(
    tables: BTreeMap<String, providers::ProviderTable>,
    source: Option<&Source>,
) -> Result<BTreeMap<String, ProviderConfig>, ConfigError> {
    let complete = |(name, table): (String, providers::ProviderTable)| {
        let config = table.complete(&name).map_err(|error| match source {
            Some(source) => source.locate(error),
            None => error,
        })?;
        Ok((name, config))
    };
    tables.into_iter().map(complete).collect()
}

fn wrong(key: &str, message: &str) -> ConfigError {
    ConfigError::Value {
        key: key.into(),
        message: message.into(),
    }
}

fn check_public_url(url: &Url) -> Result<String, ConfigError> {
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() || url.query().is_some() {
        return Err(wrong(
            "public_url",
            "must be an http or https URL without a query",
        ));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// One secret, or several of which the first is the newest.
fn read_signing_secrets(
    one: Option<SecretSource>,
    several: Option<Vec<SecretSource>>,
) -> Result<Vec<Secret>, ConfigError> {
    let (key, sources) = match (one, several) {
        (Some(_), Some(_)) => {
            return Err(wrong(
                "signing_secrets",
                "stands in place of signing_secret",
            ));
        }
        (Some(one), None) => ("signing_secret", vec![one]),
        (None, several) => ("signing_secrets", several.unwrap_or_default()),
    };
    let read = |source: SecretSource| {
        let secret = source
            .read()
            .map_err(|error| ConfigError::Secret { key, error })?;
        if secret.expose().len() < 32 {
            return Err(wrong(key, "must have at least 32 characters"));
        }
        Ok(secret)
    };
    sources.into_iter().map(read).collect()
}

fn read_database(source: &SecretSource) -> Result<Database, ConfigError> {
    let secret = source.read().map_err(|error| ConfigError::Secret {
        key: "database",
        error,
    })?;
    match secret.expose() {
        "sqlite" => Ok(Database::Sqlite),
        url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            Ok(Database::Postgres(secret))
        }
        _ => Err(wrong("database", "must be \"sqlite\" or a postgres:// URL")),
    }
}

fn check_path_segment(key: &str, text: &str) -> Result<(), ConfigError> {
    let fits = !text.is_empty()
        && text.len() <= 64
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if fits {
        Ok(())
    } else {
        Err(wrong(key, "must be 1 to 64 letters, digits, - or _"))
    }
}

fn is_origin(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.origin().ascii_serialization() == *text
    })
}

/// The file's current mark, if it is not `seen`.
pub fn file_mark(path: &Path) -> Option<(std::time::SystemTime, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layered(flags: Overrides, toml: &str) -> Result<Config, ConfigError> {
        Config::layer(flags, file::parse("test.toml", toml)?)
    }

    #[test]
    fn flags_beat_the_file_and_the_file_beats_defaults() {
        let flags = Overrides {
            brand: Some("flagged".into()),
            ..Overrides::default()
        };
        let config = layered(flags, "brand = \"filed\"\nwait_limit = \"2m\"").unwrap();
        assert_eq!(config.brand, "flagged");
        assert_eq!(config.wait_limit, Duration::from_mins(2));
        assert_eq!(config.media_ttl, Duration::from_hours(720));
    }

    #[test]
    fn wrong_values_are_named() {
        for (toml, key) in [
            ("brand = \"v1\"", "brand"),
            ("brand = \"a/b\"", "brand"),
            ("workers = 0", "workers"),
            ("database = \"mysql://x\"", "database"),
            ("public_url = \"ftp://x\"", "public_url"),
            ("signing_secret = \"short\"", "signing_secret"),
            (
                "cors_origins = [\"https://a.example/path\"]",
                "cors_origins",
            ),
            ("database = \"env:MEDIAGATE_NO_SUCH\"", "database"),
        ] {
            let message = layered(Overrides::default(), toml).unwrap_err().to_string();
            assert!(message.contains(key), "{toml}: {message}");
        }
    }

    #[test]
    fn secrets_are_masked_when_shown() {
        let toml = "database = \"postgres://user:hunter2@host/db\"\nsigning_secret = \"0123456789abcdef0123456789abcdef\"";
        let shown = layered(Overrides::default(), toml).unwrap().show();
        assert!(
            !shown.contains("hunter2") && !shown.contains("0123456789abcdef"),
            "{shown}"
        );
        assert!(shown.contains("postgres://"), "{shown}");
    }

    #[test]
    fn what_is_shown_reads_back() {
        let toml = "brand = \"x\"\n[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }\n[fetch]\nallow_networks = [\"127.0.0.0/8\"]";
        let first = layered(Overrides::default(), toml).unwrap().show();
        let again = layered(Overrides::default(), &first).unwrap().show();
        assert_eq!(first, again);
    }
}
