//! What can be set: each setting once, with its flag, its environment variable and its key in the
//! file. Defaults are [`Config`](super::Config)'s.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ipnet::IpNet;
use merge::Merge;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::config::file::{Source, duration};
use crate::config::providers::{ModelSettings, ProviderTable};
use crate::config::size::ByteSize;
use crate::secret::SecretSource;
use crate::store::Migrate;

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
    /// The operator: the hold is released.
    #[default]
    Refund,
    /// The caller pays for what was made.
    Charge,
}

/// What survives the loss of the database's machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// What is on its own disk.
    #[default]
    Local,
    /// Everything, because a synchronous standby has it too. Without one the process is not ready.
    Replicated,
    /// Everything, which the operator guarantees: nothing is checked.
    Assumed,
}

/// What a music task's callback is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotifyHookBody {
    /// The event, as every webhook.
    #[default]
    Event,
    /// The job record of the music dialect, for its clients.
    Job,
}

/// How callers get files that are in a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Through the gateway.
    #[default]
    Proxy,
    /// From the bucket, by a signed URL of minutes.
    Redirect,
}

/// Who encrypts what is in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Encryption {
    /// The store, with its own key.
    #[value(alias = "AES256")]
    #[serde(alias = "AES256")]
    S3,
    /// The store, with a key of the key service.
    #[value(alias = "aws:kms")]
    #[serde(alias = "aws:kms")]
    Kms,
}

/// Settings from one source: the command line with the environment, or the file. What a source
/// does not set is `None`.
#[derive(Debug, Clone, Default, Args, Deserialize, Merge)]
#[serde(deny_unknown_fields, default)]
#[merge(strategy = merge::option::overwrite_none)]
#[command(next_help_heading = "Settings (also in the configuration file)")]
pub struct Settings {
    /// The configuration file (TOML); none by default
    #[arg(long, env = "MEDIAGATE_CONFIG", value_name = "FILE", global = true)]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:8080]
    #[arg(long, env = "MEDIAGATE_LISTEN", value_name = "ADDRESS", global = true)]
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
    /// Folder of newer files about hosted models (docs/models/hosted.md) [default: the built-in list]
    #[arg(long, env = "MEDIAGATE_CATALOG", value_name = "FOLDER", global = true)]
    pub catalog: Option<PathBuf>,
    /// ONNX Runtime library for these models [default: `ORT_DYLIB_PATH`, or the system's]
    #[arg(
        long,
        env = "MEDIAGATE_ONNX_LIBRARY",
        value_name = "FILE",
        global = true
    )]
    pub onnx_library: Option<PathBuf>,
    /// URL under which callers reach this service [default: each request's own host]
    #[arg(long, env = "MEDIAGATE_PUBLIC_URL", value_name = "URL", global = true)]
    pub public_url: Option<Url>,
    /// "sqlite" (in the data folder) or "<postgres://user@host/db>"; also env:NAME or <file:PATH> [default: sqlite]
    #[arg(
        long,
        env = "MEDIAGATE_DATABASE",
        value_name = "DATABASE",
        global = true
    )]
    pub database: Option<SecretSource>,
    /// Postgres connections of this process [default: 8]
    #[arg(
        long,
        env = "MEDIAGATE_DATABASE_CONNECTIONS",
        value_name = "N",
        global = true
    )]
    pub database_connections: Option<usize>,
    /// What survives the loss of the database's machine [default: local]
    #[arg(
        long,
        env = "MEDIAGATE_DURABILITY",
        value_name = "DURABILITY",
        global = true
    )]
    pub durability: Option<Durability>,
    /// Whether to migrate the schema at startup [default: auto]
    #[arg(long, env = "MEDIAGATE_MIGRATE", value_name = "WHEN", global = true)]
    pub migrate: Option<Migrate>,
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
    /// Bytes of files that an account may store, for example "20GB" [default: 20GB]
    #[arg(
        long,
        env = "MEDIAGATE_STORAGE_LIMIT",
        value_name = "SIZE",
        global = true
    )]
    pub storage_limit: Option<ByteSize>,
    /// Free disk space below which uploads and pictures are refused [default: 500MB]
    #[arg(long, env = "MEDIAGATE_DISK_FLOOR", value_name = "SIZE", global = true)]
    pub disk_floor: Option<ByteSize>,
    /// How long finished tasks are kept [default: forever]
    #[arg(long, env = "MEDIAGATE_RECORD_TTL", value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    #[serde(deserialize_with = "duration")]
    pub record_ttl: Option<Duration>,
    /// How long requests in flight may take after SIGTERM [default: 30s]
    #[arg(long, env = "MEDIAGATE_SHUTDOWN_GRACE", value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    #[serde(deserialize_with = "duration")]
    pub shutdown_grace: Option<Duration>,
    /// First path segment of the music endpoints [default: musicgen]
    #[arg(long, env = "MEDIAGATE_BRAND", value_name = "WORD", global = true)]
    pub brand: Option<String>,
    /// Name of the persona field that carries the brand [default: `is_service_persona`]
    #[arg(
        long,
        env = "MEDIAGATE_PERSONA_BRAND_FIELD",
        value_name = "NAME",
        global = true
    )]
    pub persona_brand_field: Option<String>,
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
    /// Several of them, to replace one: the first signs, all are accepted
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
    /// Music model for requests that name none [default: stems-dsp-1]
    #[arg(
        long,
        env = "MEDIAGATE_DEFAULT_MUSIC_MODEL",
        value_name = "MODEL",
        global = true
    )]
    pub default_music_model: Option<String>,
    /// Web origins that may call from a page; repeat, or separate by commas [default: none]
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
    /// Most connections, reduced if the limit of open files is low [default: 8192]
    #[arg(
        long,
        env = "MEDIAGATE_MAX_CONNECTIONS",
        value_name = "N",
        global = true
    )]
    pub max_connections: Option<usize>,
    /// Most connections from one address, except trusted proxies [default: 1024]
    #[arg(
        long,
        env = "MEDIAGATE_MAX_CONNECTIONS_PER_PEER",
        value_name = "N",
        global = true
    )]
    pub max_connections_per_peer: Option<usize>,
    /// Most tasks of one hosted model that are being submitted at once [default: 256]
    #[arg(
        long,
        env = "MEDIAGATE_MAX_SUBMITTING",
        value_name = "N",
        global = true
    )]
    pub max_submitting: Option<usize>,
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
    /// Show callers which provider made something [default: false]
    #[arg(
        long,
        env = "MEDIAGATE_SHOW_PROVIDERS",
        value_name = "BOOL",
        global = true
    )]
    pub show_providers: Option<bool>,
    /// Whether callers pay if a provider finishes a cancelled task [default: refund]
    #[arg(
        long,
        env = "MEDIAGATE_CANCEL_POLICY",
        value_name = "POLICY",
        global = true
    )]
    pub cancel_policy: Option<CancelPolicy>,
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
    pub personas: PersonasSettings,
    #[command(flatten)]
    #[merge(strategy = Merge::merge)]
    pub bell: BellSettings,
    #[command(flatten)]
    #[merge(strategy = Merge::merge)]
    pub media: MediaSettings,
    #[arg(skip)]
    #[merge(strategy = of_file)]
    pub providers: BTreeMap<String, ProviderTable>,
    #[arg(skip)]
    #[merge(strategy = of_file)]
    pub models: BTreeMap<String, ModelSettings>,
    /// The file itself, for errors found later.
    #[arg(skip)]
    #[serde(skip)]
    pub source: Option<Source>,
}

/// Only the file has these.
fn of_file<T>(flags: &mut T, file: T) {
    *flags = file;
}

/// `[fetch]`: rules for callers' URLs.
#[derive(Debug, Clone, Default, Args, Deserialize, Merge)]
#[serde(deny_unknown_fields, default)]
#[merge(strategy = merge::option::overwrite_none)]
pub struct FetchSettings {
    /// Networks that callers' URLs may point to although they are not public [default: none]
    #[arg(
        id = "fetch_allow_networks",
        long = "fetch-allow-networks",
        env = "MEDIAGATE_FETCH_ALLOW_NETWORKS",
        value_name = "CIDR",
        value_delimiter = ',',
        global = true
    )]
    pub allow_networks: Option<Vec<IpNet>>,
    /// Ports that callers' URLs may use [default: 80,443]
    #[arg(
        id = "fetch_allow_ports",
        long = "fetch-allow-ports",
        env = "MEDIAGATE_FETCH_ALLOW_PORTS",
        value_name = "PORT",
        value_delimiter = ',',
        global = true
    )]
    pub allow_ports: Option<Vec<u16>>,
}

/// `[webhooks]`: how callers are told what happened.
#[derive(Debug, Clone, Default, Args, Deserialize, Merge)]
#[serde(deny_unknown_fields, default)]
#[merge(strategy = merge::option::overwrite_none)]
pub struct WebhooksSettings {
    /// Let webhooks go to http URLs [default: false]
    #[arg(
        id = "webhooks_allow_http",
        long = "webhooks-allow-http",
        env = "MEDIAGATE_WEBHOOKS_ALLOW_HTTP",
        value_name = "BOOL",
        global = true
    )]
    pub allow_http: Option<bool>,
    /// How long a webhook's receiver may take to answer [default: 15s]
    #[arg(id = "webhooks_timeout", long = "webhooks-timeout", env = "MEDIAGATE_WEBHOOKS_TIMEOUT", value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    #[serde(deserialize_with = "duration")]
    pub timeout: Option<Duration>,
    /// How long webhooks that failed are kept [default: 30days]
    #[arg(id = "webhooks_log_ttl", long = "webhooks-log-ttl", env = "MEDIAGATE_WEBHOOKS_LOG_TTL", value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    #[serde(deserialize_with = "duration")]
    pub log_ttl: Option<Duration>,
    /// What the callback of a music task is sent [default: event]
    #[arg(
        id = "webhooks_notify_hook_body",
        long = "webhooks-notify-hook-body",
        env = "MEDIAGATE_WEBHOOKS_NOTIFY_HOOK_BODY",
        value_name = "BODY",
        global = true
    )]
    pub notify_hook_body: Option<NotifyHookBody>,
    /// Egress proxy for webhooks; it must refuse private networks itself [default: none]
    #[arg(
        id = "webhooks_proxy",
        long = "webhooks-proxy",
        env = "MEDIAGATE_WEBHOOKS_PROXY",
        value_name = "URL",
        global = true
    )]
    pub proxy: Option<Url>,
}

/// `[provenance]`: what results say of their origin.
#[derive(Debug, Clone, Default, Args, Deserialize, Merge)]
#[serde(deny_unknown_fields, default)]
#[merge(strategy = merge::option::overwrite_none)]
pub struct ProvenanceSettings {
    /// Certificates that sign results, PEM, the signer's first: a path, <file:PATH> or env:NAME
    /// [default: self-made]
    #[arg(
        id = "provenance_certificate",
        long = "provenance-certificate",
        env = "MEDIAGATE_PROVENANCE_CERTIFICATE",
        value_name = "SOURCE",
        global = true
    )]
    pub certificate: Option<SecretSource>,
    /// The certificate's key, PKCS #8 in PEM: a path, <file:PATH> or env:NAME
    #[arg(
        id = "provenance_key",
        long = "provenance-key",
        env = "MEDIAGATE_PROVENANCE_KEY",
        value_name = "SOURCE",
        global = true
    )]
    pub key: Option<SecretSource>,
    /// Service that signs with the certificate's key, in place of a key
    #[arg(
        id = "provenance_signer",
        long = "provenance-signer",
        env = "MEDIAGATE_PROVENANCE_SIGNER",
        value_name = "URL",
        global = true
    )]
    pub signer: Option<Url>,
    /// RFC 3161 authority that time-stamps signatures
    #[arg(
        id = "provenance_timestamp",
        long = "provenance-timestamp",
        env = "MEDIAGATE_PROVENANCE_TIMESTAMP",
        value_name = "URL",
        global = true
    )]
    pub timestamp: Option<Url>,
    /// Watermark films of the embedded model; there is no watermark for sound [default: true]
    #[arg(
        id = "provenance_watermark",
        long = "provenance-watermark",
        env = "MEDIAGATE_PROVENANCE_WATERMARK",
        value_name = "BOOL",
        global = true
    )]
    pub watermark: Option<bool>,
    /// Let anyone check files, without a key [default: false]
    #[arg(
        id = "provenance_public",
        long = "provenance-public",
        env = "MEDIAGATE_PROVENANCE_PUBLIC",
        value_name = "BOOL",
        global = true
    )]
    pub public: Option<bool>,
    /// State the prompt in the credentials of results [default: false]
    #[arg(
        id = "provenance_prompt",
        long = "provenance-prompt",
        env = "MEDIAGATE_PROVENANCE_PROMPT",
        value_name = "BOOL",
        global = true
    )]
    pub prompt: Option<bool>,
}

/// `[personas]`.
#[derive(Debug, Clone, Default, Args, Deserialize, Merge)]
#[serde(deny_unknown_fields, default)]
#[merge(strategy = merge::option::overwrite_none)]
pub struct PersonasSettings {
    /// Approve public personas automatically [default: false]
    #[arg(
        id = "personas_auto_approve",
        long = "personas-auto-approve",
        env = "MEDIAGATE_PERSONAS_AUTO_APPROVE",
        value_name = "BOOL",
        global = true
    )]
    pub auto_approve: Option<bool>,
}

/// `[bell]`: how processes tell each other of changes.
#[derive(Debug, Clone, Default, Args, Deserialize, Merge)]
#[serde(deny_unknown_fields, default)]
#[merge(strategy = merge::option::overwrite_none)]
pub struct BellSettings {
    /// NATS server that tells other processes of changes; also env:NAME or <file:PATH> [default: Postgres does]
    #[arg(
        id = "bell_nats",
        long = "bell-nats",
        env = "MEDIAGATE_BELL_NATS",
        value_name = "URL",
        hide_env_values = true,
        global = true
    )]
    pub nats: Option<SecretSource>,
    /// Direct address of the database when `database` is a pooler's; also env:NAME or <file:PATH>
    #[arg(
        id = "bell_database",
        long = "bell-database",
        env = "MEDIAGATE_BELL_DATABASE",
        value_name = "DATABASE",
        hide_env_values = true,
        global = true
    )]
    pub database: Option<SecretSource>,
}

/// `[media]`: where files are kept, and how callers get them.
#[derive(Debug, Clone, Default, Args, Deserialize, Merge)]
#[serde(deny_unknown_fields, default)]
#[merge(strategy = merge::option::overwrite_none)]
pub struct MediaSettings {
    /// "folder" (in the data folder) or "<s3://bucket/prefix>" [default: folder]
    #[arg(
        id = "media_store",
        long = "media-store",
        env = "MEDIAGATE_MEDIA_STORE",
        value_name = "STORE",
        global = true
    )]
    pub store: Option<String>,
    /// Where the bucket is, if not at AWS
    #[arg(
        id = "media_endpoint",
        long = "media-endpoint",
        env = "MEDIAGATE_MEDIA_ENDPOINT",
        value_name = "URL",
        global = true
    )]
    pub endpoint: Option<Url>,
    /// Region of the bucket [default: `AWS_REGION`, or us-east-1]
    #[arg(
        id = "media_region",
        long = "media-region",
        env = "MEDIAGATE_MEDIA_REGION",
        value_name = "REGION",
        global = true
    )]
    pub region: Option<String>,
    /// Whether the bucket is in the path, not in the host [default: true with an endpoint]
    #[arg(
        id = "media_path_style",
        long = "media-path-style",
        env = "MEDIAGATE_MEDIA_PATH_STYLE",
        value_name = "BOOL",
        global = true
    )]
    pub path_style: Option<bool>,
    /// Id of the access key; also env:NAME or <file:PATH> [default: as the AWS tools find it]
    #[arg(
        id = "media_access_key",
        long = "media-access-key",
        env = "MEDIAGATE_MEDIA_ACCESS_KEY",
        value_name = "KEY",
        hide_env_values = true,
        global = true
    )]
    pub access_key: Option<SecretSource>,
    /// The access key's secret; also env:NAME or <file:PATH>
    #[arg(
        id = "media_secret_key",
        long = "media-secret-key",
        env = "MEDIAGATE_MEDIA_SECRET_KEY",
        value_name = "SECRET",
        hide_env_values = true,
        global = true
    )]
    pub secret_key: Option<SecretSource>,
    /// Who encrypts files: "s3" or "kms" [default: as the bucket is set]
    #[arg(
        id = "media_sse",
        long = "media-sse",
        env = "MEDIAGATE_MEDIA_SSE",
        value_name = "WAY",
        global = true
    )]
    pub sse: Option<Encryption>,
    /// Key of the key service for "kms"
    #[arg(
        id = "media_kms_key",
        long = "media-kms-key",
        env = "MEDIAGATE_MEDIA_KMS_KEY",
        value_name = "KEY",
        global = true
    )]
    pub kms_key: Option<String>,
    /// How callers get files of a bucket [default: proxy]
    #[arg(
        id = "media_delivery",
        long = "media-delivery",
        env = "MEDIAGATE_MEDIA_DELIVERY",
        value_name = "WAY",
        global = true
    )]
    pub delivery: Option<Delivery>,
    /// Host of media URLs, when a cache stands before the gateway [default: as the request's]
    #[arg(
        id = "media_host",
        long = "media-host",
        env = "MEDIAGATE_MEDIA_HOST",
        value_name = "HOST",
        global = true
    )]
    pub host: Option<String>,
}
