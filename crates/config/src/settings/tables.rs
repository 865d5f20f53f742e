//! The tables of the file: `[fetch]`, `[webhooks]`, `[provenance]`, `[personas]`, `[bell]`,
//! `[media]`, `[telemetry]`. `[moderation]` is in `moderation`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use ipnet::IpNet;
use merge::Merge;
use serde::{Deserialize, Serialize};

use crate::values::duration;
use mediagate_model::secret::SecretSource;

/// Body of the callback of a music task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotifyHookBody {
    /// The event, as for every webhook.
    #[default]
    Event,
    /// The job record of the music API, for its clients.
    Job,
}

/// How callers get files that are in a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaDelivery {
    /// Through the gateway.
    #[default]
    Proxy,
    /// Directly from the bucket, with a signed URL that is valid for minutes.
    Redirect,
}

/// Server-side encryption of the files in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BucketEncryption {
    /// Encrypted with the store's own key.
    #[value(alias = "AES256")]
    #[serde(alias = "AES256")]
    S3,
    /// Encrypted with a key of the key management service.
    #[value(alias = "aws:kms")]
    #[serde(alias = "aws:kms")]
    Kms,
}

/// `[fetch]`: rules for callers' URLs.
#[derive(Debug, Clone, Default, Args, Deserialize, Merge)]
#[serde(deny_unknown_fields, default)]
#[merge(strategy = merge::option::overwrite_none)]
pub struct FetchSettings {
    /// Private networks that callers' URLs may point to [default: none]
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

/// `[webhooks]`: delivery of events to callers.
#[derive(Debug, Clone, Default, Args, Deserialize, Merge)]
#[serde(deny_unknown_fields, default)]
#[merge(strategy = merge::option::overwrite_none)]
pub struct WebhooksSettings {
    /// Allow webhooks to http URLs [default: false]
    #[arg(
        id = "webhooks_allow_http",
        long = "webhooks-allow-http",
        env = "MEDIAGATE_WEBHOOKS_ALLOW_HTTP",
        value_name = "BOOL",
        global = true
    )]
    pub allow_http: Option<bool>,
    /// How long the receiver of a webhook may take to respond [default: 15s]
    #[arg(id = "webhooks_timeout", long = "webhooks-timeout", env = "MEDIAGATE_WEBHOOKS_TIMEOUT", value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    #[serde(deserialize_with = "duration")]
    pub timeout: Option<Duration>,
    /// How long failed and held webhook deliveries are kept [default: 30days]
    #[arg(id = "webhooks_log_ttl", long = "webhooks-log-ttl", env = "MEDIAGATE_WEBHOOKS_LOG_TTL", value_name = "TIME", value_parser = humantime::parse_duration, global = true)]
    #[serde(deserialize_with = "duration")]
    pub log_ttl: Option<Duration>,
    /// Body of the callback of a music task [default: event]
    #[arg(
        id = "webhooks_notify_hook_body",
        long = "webhooks-notify-hook-body",
        env = "MEDIAGATE_WEBHOOKS_NOTIFY_HOOK_BODY",
        value_name = "BODY",
        global = true
    )]
    pub notify_hook_body: Option<NotifyHookBody>,
    /// Egress proxy for webhooks; it must reject private networks itself; also env:NAME or <file:PATH> [default: none]
    #[arg(
        id = "webhooks_proxy",
        long = "webhooks-proxy",
        env = "MEDIAGATE_WEBHOOKS_PROXY",
        value_name = "URL",
        hide_env_values = true,
        global = true
    )]
    pub proxy: Option<SecretSource>,
}

/// `[provenance]`: signatures and watermarks of results.
#[derive(Debug, Clone, Default, Args, Deserialize, Merge)]
#[serde(deny_unknown_fields, default)]
#[merge(strategy = merge::option::overwrite_none)]
pub struct ProvenanceSettings {
    /// Certificates that sign results, in PEM, the signer's first: a path, <file:PATH> or env:NAME
    /// [default: generated]
    #[arg(
        id = "provenance_certificate",
        long = "provenance-certificate",
        env = "MEDIAGATE_PROVENANCE_CERTIFICATE",
        value_name = "SOURCE",
        hide_env_values = true,
        global = true
    )]
    pub certificate: Option<SecretSource>,
    /// The certificate's key, PKCS #8 in PEM: a path, <file:PATH> or env:NAME
    #[arg(
        id = "provenance_key",
        long = "provenance-key",
        env = "MEDIAGATE_PROVENANCE_KEY",
        value_name = "SOURCE",
        hide_env_values = true,
        global = true
    )]
    pub key: Option<SecretSource>,
    /// Signing service that holds the certificate's key, instead of a key; also env:NAME or <file:PATH>
    #[arg(
        id = "provenance_signer",
        long = "provenance-signer",
        env = "MEDIAGATE_PROVENANCE_SIGNER",
        value_name = "URL",
        hide_env_values = true,
        global = true
    )]
    pub signer: Option<SecretSource>,
    /// RFC 3161 timestamp authority for signatures; also env:NAME or <file:PATH>
    #[arg(
        id = "provenance_timestamp",
        long = "provenance-timestamp",
        env = "MEDIAGATE_PROVENANCE_TIMESTAMP",
        value_name = "URL",
        hide_env_values = true,
        global = true
    )]
    pub timestamp: Option<SecretSource>,
    /// Watermark films of the embedded model [default: true]
    #[arg(
        id = "provenance_watermark",
        long = "provenance-watermark",
        env = "MEDIAGATE_PROVENANCE_WATERMARK",
        value_name = "BOOL",
        global = true
    )]
    pub watermark: Option<bool>,
    /// Watermark stems that are separated here; they then sum to the watermarked mix
    /// [default: false]
    #[arg(
        id = "provenance_watermark_audio",
        long = "provenance-watermark-audio",
        env = "MEDIAGATE_PROVENANCE_WATERMARK_AUDIO",
        value_name = "BOOL",
        global = true
    )]
    pub watermark_audio: Option<bool>,
    /// Allow anyone to check files without a key [default: false]
    #[arg(
        id = "provenance_public",
        long = "provenance-public",
        env = "MEDIAGATE_PROVENANCE_PUBLIC",
        value_name = "BOOL",
        global = true
    )]
    pub public: Option<bool>,
    /// Include the prompt in the Content Credentials of results [default: false]
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

/// `[bell]`: notifications between processes.
#[derive(Debug, Clone, Default, Args, Deserialize, Merge)]
#[serde(deny_unknown_fields, default)]
#[merge(strategy = merge::option::overwrite_none)]
pub struct BellSettings {
    /// Direct address of the database if `database` is the address of a pooler; also env:NAME or <file:PATH>
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

/// `[telemetry]`: OpenTelemetry export.
#[derive(Debug, Clone, Default, Args, Deserialize, Merge)]
#[serde(deny_unknown_fields, default)]
#[merge(strategy = merge::option::overwrite_none)]
pub struct TelemetrySettings {
    /// Collector that receives traces over OTLP/HTTP, for example "<http://127.0.0.1:4318>"; also env:NAME or <file:PATH> [default: none]
    #[arg(
        id = "telemetry_otlp",
        long = "telemetry-otlp",
        env = "MEDIAGATE_TELEMETRY_OTLP",
        value_name = "URL",
        hide_env_values = true,
        global = true
    )]
    pub otlp: Option<SecretSource>,
    /// Share of traces that are kept, from 0 to 1, including callers' traces [default: 1]
    #[arg(
        id = "telemetry_sample",
        long = "telemetry-sample",
        env = "MEDIAGATE_TELEMETRY_SAMPLE",
        value_name = "SHARE",
        global = true
    )]
    pub sample: Option<f64>,
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
    /// URL of the S3 service, if it is not AWS; also env:NAME or <file:PATH>
    #[arg(
        id = "media_endpoint",
        long = "media-endpoint",
        env = "MEDIAGATE_MEDIA_ENDPOINT",
        value_name = "URL",
        hide_env_values = true,
        global = true
    )]
    pub endpoint: Option<SecretSource>,
    /// Region of the bucket [default: `AWS_REGION`, or us-east-1]
    #[arg(
        id = "media_region",
        long = "media-region",
        env = "MEDIAGATE_MEDIA_REGION",
        value_name = "REGION",
        global = true
    )]
    pub region: Option<String>,
    /// Whether the bucket name is in the path instead of the host [default: true with an endpoint]
    #[arg(
        id = "media_path_style",
        long = "media-path-style",
        env = "MEDIAGATE_MEDIA_PATH_STYLE",
        value_name = "BOOL",
        global = true
    )]
    pub path_style: Option<bool>,
    /// Id of the access key; also env:NAME or <file:PATH> [default: AWS's usual sources]
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
    /// Server-side encryption: "s3" or "kms" [default: the bucket's own setting]
    #[arg(
        id = "media_sse",
        long = "media-sse",
        env = "MEDIAGATE_MEDIA_SSE",
        value_name = "WAY",
        global = true
    )]
    pub sse: Option<BucketEncryption>,
    /// KMS key for "kms"
    #[arg(
        id = "media_kms_key",
        long = "media-kms-key",
        env = "MEDIAGATE_MEDIA_KMS_KEY",
        value_name = "KEY",
        global = true
    )]
    pub kms_key: Option<String>,
    /// How callers get files from a bucket [default: proxy]
    #[arg(
        id = "media_delivery",
        long = "media-delivery",
        env = "MEDIAGATE_MEDIA_DELIVERY",
        value_name = "WAY",
        global = true
    )]
    pub delivery: Option<MediaDelivery>,
    /// Host of media URLs, if a cache is in front of the gateway [default: the request's host]
    #[arg(
        id = "media_host",
        long = "media-host",
        env = "MEDIAGATE_MEDIA_HOST",
        value_name = "HOST",
        global = true
    )]
    pub host: Option<String>,
}
