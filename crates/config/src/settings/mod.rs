//! The settings: each one once, with its flag, its environment variable and its key in the file.
//! The defaults are in `assembly`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ipnet::IpNet;
use merge::Merge;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::byte_size::ByteSize;
use crate::providers::{ModelSettings, ProviderTable, some_dollars};
use crate::settings_file::SettingsFile;
use crate::values::{duration, socket_address, web_url};
use mediagate_model::database::MigrationMode;
use mediagate_model::money::MicroDollars;
use mediagate_model::secret::SecretSource;

mod moderation;
mod tables;

pub use moderation::*;
pub use tables::*;

/// The response to a music submission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmitBody {
    /// The task's record.
    #[default]
    Record,
    /// The id of the task in the envelope of job records, for clients of a Suno-like API.
    Job,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// Lines of text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Who pays if a provider finishes a cancelled task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelPolicy {
    /// The operator pays, up to the allowance; the hold is released.
    Refund,
    /// The caller pays for what was made.
    #[default]
    Charge,
}

/// How much data survives the loss of the database server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Data on the server's own disk; nothing else has a copy.
    #[default]
    Local,
    /// All committed data, because a synchronous standby has it. Without one, the process is not ready.
    Replicated,
    /// All committed data: the operator guarantees it, and nothing is checked.
    Assumed,
}

/// Settings from one source: the command line with the environment, or the file. What a source
/// does not set is `None`.
#[derive(Debug, Clone, Default, Args, Deserialize, Merge)]
#[serde(deny_unknown_fields, default)]
#[merge(strategy = merge::option::overwrite_none)]
#[command(next_help_heading = "Settings (also in the configuration file)")]
pub struct Settings {
    /// Configuration file (TOML) [default: none]
    #[arg(long, env = "MEDIAGATE_CONFIG", value_name = "FILE", global = true)]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:8080]
    #[arg(long, env = "MEDIAGATE_LISTEN", value_name = "ADDRESS", global = true)]
    #[serde(deserialize_with = "socket_address")]
    pub listen: Option<SocketAddr>,
    /// Folder for the database, media and the signing key [default: ./mediagate-data]
    #[arg(long, env = "MEDIAGATE_DATA", value_name = "FOLDER", global = true)]
    pub data: Option<PathBuf>,
    /// Folder of your own separation models (docs/models/onnx.md) [default: models in the data folder]
    #[arg(
        long,
        env = "MEDIAGATE_MODELS_FOLDER",
        value_name = "FOLDER",
        global = true
    )]
    pub models_folder: Option<PathBuf>,
    /// Folder with an updated list of hosted models (docs/models/hosted.md) [default: the built-in list]
    #[arg(long, env = "MEDIAGATE_CATALOG", value_name = "FOLDER", global = true)]
    pub catalog: Option<PathBuf>,
    /// ONNX Runtime library for your own models [default: `ORT_DYLIB_PATH`, or the system's]
    #[arg(
        long,
        env = "MEDIAGATE_ONNX_LIBRARY",
        value_name = "FILE",
        global = true
    )]
    pub onnx_library: Option<PathBuf>,
    /// Client of Python packages, for `mediagate models install` [default: pip3]
    #[arg(long, env = "MEDIAGATE_PIP", value_name = "PROGRAM", global = true)]
    pub pip: Option<PathBuf>,
    /// URL at which callers reach this service [default: the host of each request]
    #[arg(long, env = "MEDIAGATE_PUBLIC_URL", value_name = "URL", global = true)]
    #[serde(deserialize_with = "web_url")]
    pub public_url: Option<Url>,
    /// "sqlite" (in the data folder) or "<postgres://user@host/db>"; also env:NAME or <file:PATH> [default: sqlite]
    #[arg(
        long,
        env = "MEDIAGATE_DATABASE",
        value_name = "DATABASE",
        hide_env_values = true,
        global = true
    )]
    pub database: Option<SecretSource>,
    /// Number of Postgres connections of this process [default: 8]
    #[arg(
        long,
        env = "MEDIAGATE_DATABASE_CONNECTIONS",
        value_name = "N",
        global = true
    )]
    pub database_connections: Option<usize>,
    /// How much data survives the loss of the database server [default: local]
    #[arg(
        long,
        env = "MEDIAGATE_DURABILITY",
        value_name = "DURABILITY",
        global = true
    )]
    pub durability: Option<Durability>,
    /// Whether to migrate the schema at startup [default: auto]
    #[arg(long, env = "MEDIAGATE_MIGRATE", value_name = "WHEN", global = true)]
    pub migrate: Option<MigrationMode>,
    /// How long a request waits for its task [default: 15m]
    #[arg(long, env = "MEDIAGATE_WAIT_LIMIT", value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    #[serde(deserialize_with = "duration")]
    pub wait_limit: Option<Duration>,
    /// How long requests are still accepted after SIGTERM, while /readyz fails [default: 0s]
    #[arg(long, env = "MEDIAGATE_DRAIN_DELAY", value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    #[serde(deserialize_with = "duration")]
    pub drain_delay: Option<Duration>,
    /// How long media is kept [default: 30d]
    #[arg(long, env = "MEDIAGATE_MEDIA_TTL", value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    #[serde(deserialize_with = "duration")]
    pub media_ttl: Option<Duration>,
    /// Maximum size of the files that an account may store, for example "20GB" [default: 20GB]
    #[arg(
        long,
        env = "MEDIAGATE_STORAGE_LIMIT",
        value_name = "SIZE",
        global = true
    )]
    pub storage_limit: Option<ByteSize>,
    /// Free disk space below which orders and uploads are rejected [default: 500MB]
    #[arg(long, env = "MEDIAGATE_DISK_FLOOR", value_name = "SIZE", global = true)]
    pub disk_floor: Option<ByteSize>,
    /// How long finished tasks are kept [default: forever]
    #[arg(long, env = "MEDIAGATE_RECORD_TTL", value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    #[serde(deserialize_with = "duration")]
    pub record_ttl: Option<Duration>,
    /// How long the log of what an account's keys did is kept [default: 90d]
    #[arg(long, env = "MEDIAGATE_AUDIT_TTL", value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    #[serde(deserialize_with = "duration")]
    pub audit_ttl: Option<Duration>,
    /// How long the log of requests is kept [default: 7d]
    #[arg(long, env = "MEDIAGATE_REQUESTS_TTL", value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    #[serde(deserialize_with = "duration")]
    pub requests_ttl: Option<Duration>,
    /// Share of successful reads that are logged, 0 to 1; other requests always are [default: 0]
    #[arg(
        long,
        env = "MEDIAGATE_REQUESTS_SAMPLE",
        value_name = "SHARE",
        global = true
    )]
    pub requests_sample: Option<f64>,
    /// How long requests in flight may continue after the drain delay [default: 30s]
    #[arg(long, env = "MEDIAGATE_SHUTDOWN_GRACE", value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    #[serde(deserialize_with = "duration")]
    pub shutdown_grace: Option<Duration>,
    /// First path segment of the music endpoints [default: musicgen]
    #[arg(long, env = "MEDIAGATE_BRAND", value_name = "WORD", global = true)]
    pub brand: Option<String>,
    /// Name of the persona field that clients of a Suno-like API expect [default: `is_service_persona`]
    #[arg(
        long,
        env = "MEDIAGATE_PERSONA_BRAND_FIELD",
        value_name = "NAME",
        global = true
    )]
    pub persona_brand_field: Option<String>,
    /// Response to a music submission [default: record]
    #[arg(
        long,
        env = "MEDIAGATE_SUBMIT_BODY",
        value_name = "BODY",
        global = true
    )]
    pub submit_body: Option<SubmitBody>,
    /// Tasks that run at once in this process [default: the number of cores]
    #[arg(long, env = "MEDIAGATE_WORKERS", value_name = "N", global = true)]
    pub workers: Option<usize>,
    /// Total memory for decoding callers' media, in megabytes [default: 1024]
    #[arg(
        long,
        env = "MEDIAGATE_DECODING_MEMORY_MB",
        value_name = "N",
        global = true
    )]
    pub decoding_memory_mb: Option<usize>,
    /// Secret that signs media URLs; replicas share one [default: generated in the data folder]
    #[arg(
        long,
        env = "MEDIAGATE_SIGNING_SECRET",
        value_name = "SECRET",
        hide_env_values = true,
        global = true
    )]
    pub signing_secret: Option<SecretSource>,
    /// Several signing secrets, to replace one: the first signs, all are accepted
    #[arg(
        long,
        env = "MEDIAGATE_SIGNING_SECRETS",
        value_name = "SECRET",
        value_delimiter = ',',
        hide_env_values = true,
        global = true
    )]
    pub signing_secrets: Option<Vec<SecretSource>>,
    /// Video model for requests that name none [default: animatic-1]
    #[arg(
        long,
        env = "MEDIAGATE_DEFAULT_MODEL",
        value_name = "MODEL",
        global = true
    )]
    pub default_model: Option<String>,
    /// Music model for requests that name none [default: stems-net-1 if it is installed, or stems-dsp-1]
    #[arg(
        long,
        env = "MEDIAGATE_DEFAULT_MUSIC_MODEL",
        value_name = "MODEL",
        global = true
    )]
    pub default_music_model: Option<String>,
    /// Web origins whose pages may call the API; repeat, or separate with commas [default: none]
    #[arg(
        long,
        env = "MEDIAGATE_CORS_ORIGINS",
        value_name = "ORIGIN",
        value_delimiter = ',',
        global = true
    )]
    pub cors_origins: Option<Vec<String>>,
    /// Networks whose X-Forwarded-For and -Proto are trusted [default: none]
    #[arg(
        long,
        env = "MEDIAGATE_TRUSTED_PROXIES",
        value_name = "CIDR",
        value_delimiter = ',',
        global = true
    )]
    pub trusted_proxies: Option<Vec<IpNet>>,
    /// Maximum number of connections; lower if the limit of open files is low [default: 8192]
    #[arg(
        long,
        env = "MEDIAGATE_MAX_CONNECTIONS",
        value_name = "N",
        global = true
    )]
    pub max_connections: Option<usize>,
    /// Maximum number of connections from one address, except trusted proxies [default: 1024]
    #[arg(
        long,
        env = "MEDIAGATE_MAX_CONNECTIONS_PER_PEER",
        value_name = "N",
        global = true
    )]
    pub max_connections_per_peer: Option<usize>,
    /// Maximum number of tasks of one hosted model that are submitted at once [default: 256]
    #[arg(
        long,
        env = "MEDIAGATE_MAX_SUBMITTING",
        value_name = "N",
        global = true
    )]
    pub max_submitting: Option<usize>,
    /// Address that serves probes and metrics without a key, for servers and workers [default: none]
    #[arg(
        long,
        env = "MEDIAGATE_METRICS_LISTEN",
        value_name = "ADDRESS",
        global = true
    )]
    #[serde(deserialize_with = "socket_address")]
    pub metrics_listen: Option<SocketAddr>,
    /// The first API key, instead of a generated one; also env:NAME or <file:PATH>
    #[arg(
        long,
        env = "MEDIAGATE_FIRST_KEY",
        value_name = "KEY",
        hide_env_values = true,
        global = true
    )]
    pub first_key: Option<SecretSource>,
    /// Show callers which provider made a result [default: false]
    #[arg(
        long,
        env = "MEDIAGATE_SHOW_PROVIDERS",
        value_name = "BOOL",
        global = true
    )]
    pub show_providers: Option<bool>,
    /// Whether callers pay if a provider finishes a cancelled task [default: charge]
    #[arg(
        long,
        env = "MEDIAGATE_CANCEL_POLICY",
        value_name = "POLICY",
        global = true
    )]
    pub cancel_policy: Option<CancelPolicy>,
    /// With "refund": maximum refund per account and day for such tasks, in USD [default: 1.00]
    #[arg(
        long,
        env = "MEDIAGATE_CANCEL_ALLOWANCE",
        value_name = "USD",
        global = true
    )]
    #[serde(deserialize_with = "some_dollars")]
    pub cancel_allowance: Option<MicroDollars>,
    /// How long an order waits for approval [default: 24h]
    #[arg(long, env = "MEDIAGATE_APPROVAL_TTL", value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    #[serde(deserialize_with = "duration")]
    pub approval_ttl: Option<Duration>,
    /// Whether a key may not approve the orders that it placed [default: false]
    #[arg(
        long,
        env = "MEDIAGATE_APPROVAL_BY_OTHERS",
        value_name = "BOOL",
        global = true
    )]
    pub approval_by_others: Option<bool>,
    /// Log format [default: auto]
    #[arg(
        long,
        env = "MEDIAGATE_LOG_FORMAT",
        value_name = "FORMAT",
        global = true
    )]
    pub log_format: Option<LogFormat>,
    /// Log filter, for example "info" or "mediagate=debug" [default: info]
    #[arg(long, env = "MEDIAGATE_LOG", value_name = "FILTER", global = true)]
    pub log: Option<String>,
    #[command(flatten)]
    #[merge(strategy = Merge::merge)]
    pub fetch: FetchSettings,
    #[command(flatten)]
    #[merge(strategy = Merge::merge)]
    pub webhooks: WebhooksSettings,
    #[command(flatten)]
    #[merge(strategy = Merge::merge)]
    pub provenance: ProvenanceSettings,
    #[command(flatten)]
    #[merge(strategy = Merge::merge)]
    pub moderation: ModerationSettings,
    #[command(flatten)]
    #[merge(strategy = Merge::merge)]
    pub personas: PersonasSettings,
    #[command(flatten)]
    #[merge(strategy = Merge::merge)]
    pub bell: BellSettings,
    #[command(flatten)]
    #[merge(strategy = Merge::merge)]
    pub media: MediaSettings,
    #[command(flatten)]
    #[merge(strategy = Merge::merge)]
    pub telemetry: TelemetrySettings,
    #[arg(skip)]
    #[merge(strategy = file_only)]
    pub providers: BTreeMap<String, ProviderTable>,
    #[arg(skip)]
    #[merge(strategy = file_only)]
    pub models: BTreeMap<String, ModelSettings>,
    /// The file itself, for errors found later.
    #[arg(skip)]
    #[serde(skip)]
    pub source: Option<SettingsFile>,
}

/// Takes a setting that only the file can have.
fn file_only<T>(flags: &mut T, file: T) {
    *flags = file;
}
