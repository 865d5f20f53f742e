//! Assembly of the configuration from its sources and the defaults, and its validation.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::providers::catalogue::Catalogue;
use merge::Merge as _;
use url::Url;

use crate::byte_size::ByteSize;
use crate::providers::{ModelSettings, ProviderConfig};
use crate::{
    BellConfig, Config, ConfigError, DatabaseTarget, Durability, FetchRules, LogFormat,
    MediaConfig, ModelConfig, ModerationRules, PersonaRules, ProvenanceRules, Settings,
    TelemetryConfig, WebhookRules, cores, file, process, providers, wrong,
};
use mediagate_model::bounds;
use mediagate_model::database::DatabaseOptions;
use mediagate_model::money::MicroDollars;
use mediagate_model::secret::{Secret, SecretSource};

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
/// A dollar a day.
const CANCEL_ALLOWANCE: MicroDollars = MicroDollars::new(1_000_000);
/// Longest time for which an order can wait for approval: its price is held all the while.
const MAX_APPROVAL_TTL: Duration = Duration::from_hours(30 * 24);
/// Placeholder for a provider's secret, which the command does not need.
const UNREAD_SECRET: &str = "unread";
/// Placeholder for a URL that the command cannot read and does not need.
const UNREAD_URL: &str = "http://unread.invalid/";

impl Settings {
    /// These settings, completed from the file that they name.
    fn with_file(mut self) -> Result<Self, ConfigError> {
        if let Some(path) = &self.config {
            let file = file::read(path)?;
            self.merge(file);
        }
        Ok(self)
    }
}

impl Settings {
    /// Replaces each provider's secrets by placeholders, and removes moderation's checks and the other
    /// references that cannot be read here, in URLs and in additions to providers' requests.
    fn without_provider_secrets(mut self) -> Self {
        // No command places orders, so none needs the secrets and files of the checks.
        self.moderation.checks.clear();
        for table in self.providers.values_mut() {
            for source in table.api_key.iter_mut().chain(&mut table.api_keys) {
                *source = SecretSource::from(UNREAD_SECRET.to_owned());
            }
            table.options.retain_readable();
        }
        let models = self.models.values_mut();
        let routes = models.filter_map(|model| model.routes.as_mut());
        for route in routes.flatten() {
            route.extra.retain_readable();
        }
        let tables = self.providers.values_mut();
        let addresses = tables.filter_map(|table| table.base_url.as_mut());
        let addresses = addresses
            .chain(&mut self.webhooks.proxy)
            .chain(&mut self.provenance.signer)
            .chain(&mut self.provenance.timestamp)
            .chain(&mut self.telemetry.otlp);
        // Only those that cannot be read. The placeholder is under `.invalid`, which never resolves
        // (RFC 2606), in case a command calls it after all.
        for source in addresses.filter(|source| source.read().is_err()) {
            *source = SecretSource::from(UNREAD_URL.to_owned());
        }
        self
    }
}

impl Config {
    /// Reads the file that the flags name, if they name one.
    pub fn load(flags: &Settings) -> Result<Self, ConfigError> {
        Self::of(flags.clone().with_file()?)
    }

    /// Like [`Self::load`], for a command that calls no provider: providers' secrets are not read,
    /// so that an operator without them can still revoke a key.
    pub fn load_for_command(flags: &Settings) -> Result<Self, ConfigError> {
        Self::of(flags.clone().with_file()?.without_provider_secrets())
    }

    /// Reads only the settings that can be reloaded.
    pub fn reload(flags: &Settings) -> Result<ModelConfig, ConfigError> {
        // Everything is read and checked, although only the models are used: a file with a fault
        // is refused as a whole, and the old settings stay.
        Self::load(flags).map(|config| config.models)
    }

    /// Known hosted models, without reading any other setting.
    pub fn catalogue(flags: &Settings) -> Result<Arc<Catalogue>, ConfigError> {
        let settings = flags.clone().with_file()?;
        providers::hosted_catalogue(settings.catalog.as_deref(), settings.source.as_ref())
    }

    pub(super) fn of(settings: Settings) -> Result<Self, ConfigError> {
        let source = settings.source.clone();
        Self::build(settings).map_err(|error| match &source {
            Some(source) => source.locate(error),
            None => error,
        })
    }

    #[expect(clippy::too_many_lines, reason = "a line for each setting")]
    fn build(settings: Settings) -> Result<Self, ConfigError> {
        let defaults = FetchRules::default();
        let signing_secrets =
            read_signing_secrets(settings.signing_secret, settings.signing_secrets)?;
        let provenance = ProvenanceRules::of(settings.provenance)?;
        let moderation = ModerationRules::of(settings.moderation, settings.config.as_deref())?;
        let media = MediaConfig::of(settings.media)?;
        let data = settings
            .data
            .unwrap_or_else(|| PathBuf::from("./mediagate-data"));
        let config = Self {
            path: settings.config,
            listen: settings.listen.unwrap_or(DEFAULT_LISTEN),
            models_folder: settings
                .models_folder
                .unwrap_or_else(|| data.join("models")),
            onnx_library: settings.onnx_library,
            pip: settings.pip.unwrap_or_else(|| PathBuf::from("pip3")),
            data,
            public_url: settings
                .public_url
                .map(|url| check_public_url(&url))
                .transpose()?,
            database: settings
                .database
                .map_or(Ok(DatabaseTarget::Sqlite), |source| read_database(&source))?,
            database_connections: settings
                .database_connections
                .unwrap_or(DatabaseOptions::default().connections),
            durability: settings.durability.unwrap_or_default(),
            migrate: settings.migrate.unwrap_or_default(),
            wait_limit: settings.wait_limit.unwrap_or(Duration::from_mins(15)),
            media_ttl: settings.media_ttl.unwrap_or(Duration::from_hours(30 * 24)),
            storage_limit: settings.storage_limit.unwrap_or(ByteSize(20_000_000_000)),
            disk_floor: settings.disk_floor.unwrap_or(ByteSize(500_000_000)),
            record_ttl: settings.record_ttl,
            audit_ttl: settings.audit_ttl.unwrap_or(Duration::from_hours(90 * 24)),
            requests_ttl: settings
                .requests_ttl
                .unwrap_or(Duration::from_hours(7 * 24)),
            requests_sample: settings.requests_sample.unwrap_or(0.0),
            drain_delay: settings.drain_delay.unwrap_or_default(),
            shutdown_grace: settings.shutdown_grace.unwrap_or(Duration::from_secs(30)),
            brand: settings.brand.unwrap_or_else(|| "musicgen".into()),
            persona_brand_field: settings
                .persona_brand_field
                .unwrap_or_else(|| "is_service_persona".into()),
            submit_body: settings.submit_body.unwrap_or_default(),
            workers: settings.workers.unwrap_or_else(cores),
            decoding_memory_mb: settings
                .decoding_memory_mb
                .unwrap_or(bounds::DECODING_MEMORY.total.count() >> 20),
            signing_secrets,
            webhooks: WebhookRules::of(&settings.webhooks)?,
            provenance,
            moderation,
            media,
            telemetry: TelemetryConfig::of(&settings.telemetry)?,
            metrics_listen: settings.metrics_listen,
            first_key: settings.first_key,
            bell: BellConfig::of(settings.bell),
            cors_origins: settings.cors_origins.unwrap_or_default(),
            trusted_proxies: settings.trusted_proxies.unwrap_or_default(),
            max_connections: settings
                .max_connections
                .unwrap_or(bounds::CONNECTIONS.total.count()),
            max_connections_per_peer: settings
                .max_connections_per_peer
                .unwrap_or(bounds::CONNECTIONS_OF_ADDRESS.total.count()),
            max_submitting: settings
                .max_submitting
                .unwrap_or(bounds::SUBMITTING.total.count()),
            fetch: FetchRules {
                allow_networks: settings
                    .fetch
                    .allow_networks
                    .unwrap_or(defaults.allow_networks),
                allow_ports: settings.fetch.allow_ports.unwrap_or(defaults.allow_ports),
            },
            personas: PersonaRules {
                auto_approve: settings.personas.auto_approve.unwrap_or(false),
            },
            cancel_policy: settings.cancel_policy.unwrap_or_default(),
            cancel_allowance: settings.cancel_allowance.unwrap_or(CANCEL_ALLOWANCE),
            approval_ttl: settings.approval_ttl.unwrap_or(Duration::from_hours(24)),
            approval_by_others: settings.approval_by_others.unwrap_or(false),
            log_format: settings.log_format.unwrap_or(LogFormat::Auto),
            log: settings.log.unwrap_or_else(|| "info".into()),
            program: process::this_program(),
            models: ModelConfig {
                default_model: settings
                    .default_model
                    .unwrap_or_else(|| "animatic-1".into()),
                default_music_model: settings.default_music_model,
                show_providers: settings.show_providers.unwrap_or(false),
                catalogue: providers::hosted_catalogue(
                    settings.catalog.as_deref(),
                    settings.source.as_ref(),
                )?,
                catalog: settings.catalog,
                providers: complete_providers(settings.providers)?,
                models: with_extras(settings.models)?,
                source: settings.source,
            },
        };
        config.check().map(|()| config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        // The music endpoints lie under the brand and would hide these.
        const TAKEN: [&str; 7] = ["v1", "api", "media", "pricing", "docs", "assets", "console"];
        check_path_segment("brand", &self.brand)?;
        if TAKEN.contains(&self.brand.as_str()) {
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
        // At least two, because one belongs to the heartbeat, which must never wait behind other
        // writes.
        if !(2..=100).contains(&self.database_connections) {
            return Err(wrong("database_connections", "must be from 2 to 100"));
        }
        if self.durability == Durability::Replicated && self.database == DatabaseTarget::Sqlite {
            return Err(wrong("durability", "must be \"local\" with SQLite"));
        }
        if !(64..=1_048_576).contains(&self.decoding_memory_mb) {
            return Err(wrong("decoding_memory_mb", "must be from 64 to 1048576"));
        }
        if self.wait_limit.is_zero() {
            return Err(wrong("wait_limit", "must be greater than zero"));
        }
        if !(Duration::from_secs(1)..=MAX_APPROVAL_TTL).contains(&self.approval_ttl) {
            return Err(wrong("approval_ttl", "must be from a second to 30 days"));
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
        if self.requests_ttl < Duration::from_secs(1) {
            return Err(wrong("requests_ttl", "must be at least a second"));
        }
        if !(0.0..=1.0).contains(&self.requests_sample) {
            return Err(wrong("requests_sample", "must be from 0 to 1"));
        }
        self.webhooks.check()?;
        self.provenance.check()?;
        self.media.check()?;
        self.telemetry.check()?;
        if !self.cors_origins.iter().all(|origin| is_origin(origin)) {
            return Err(wrong(
                "cors_origins",
                "must be origins such as https://app.example.com, without a path",
            ));
        }
        Ok(())
    }
}

fn complete_providers(
    tables: BTreeMap<String, providers::ProviderTable>,
) -> Result<BTreeMap<String, ProviderConfig>, ConfigError> {
    let complete = |(name, table): (String, providers::ProviderTable)| {
        let config = table.complete(&name)?;
        Ok((name, config))
    };
    tables.into_iter().map(complete).collect()
}

/// The models, with the references in their routes' `extra` replaced by the values.
fn with_extras(
    mut models: BTreeMap<String, ModelSettings>,
) -> Result<BTreeMap<String, ModelSettings>, ConfigError> {
    for (name, model) in &mut models {
        for route in model.routes.iter_mut().flatten() {
            let result = route.extra.read();
            result.map_err(|error| {
                wrong(&format!("models.{name}.routes"), &format!("extra: {error}"))
            })?;
        }
    }
    Ok(models)
}

fn check_public_url(url: &Url) -> Result<String, ConfigError> {
    // Every media URL begins with it, so a password or a query would be in all of them.
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.host().is_some()
        && url.query().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    if !is_plain {
        return Err(wrong(
            "public_url",
            "must be an http or https URL without a user or query, such as \"https://media.example.com\"",
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
                "cannot be combined with signing_secret",
            ));
        }
        (Some(one), None) => ("signing_secret", vec![one]),
        (None, several) => ("signing_secrets", several.unwrap_or_default()),
    };
    let read = |source: SecretSource| {
        let secret = source
            .read()
            .map_err(|error| ConfigError::Secret { key, error })?;
        // A short secret could be guessed offline by anyone who has a signed URL.
        if secret.expose().len() < 32 {
            return Err(wrong(key, "must have at least 32 characters"));
        }
        Ok(secret)
    };
    sources.into_iter().map(read).collect()
}

fn read_database(source: &SecretSource) -> Result<DatabaseTarget, ConfigError> {
    let secret = source.read().map_err(|error| ConfigError::Secret {
        key: "database",
        error,
    })?;
    match secret.expose() {
        "sqlite" => Ok(DatabaseTarget::Sqlite),
        url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            Ok(DatabaseTarget::Postgres(secret))
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
        // An origin must have exactly the form that browsers send: with a slash or a default port
        // it would never match.
        matches!(url.scheme(), "http" | "https") && url.origin().ascii_serialization() == *text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(mut flags: Settings, toml: &str) -> Result<Config, ConfigError> {
        flags.merge(file::parse("test.toml", toml)?);
        Config::of(flags)
    }

    #[test]
    fn flags_beat_the_file_and_the_file_beats_defaults() {
        let flags = Settings {
            brand: Some("flagged".into()),
            ..Settings::default()
        };
        let config = load(flags, "brand = \"filed\"\nwait_limit = \"2m\"").unwrap();
        assert_eq!(config.brand, "flagged");
        assert_eq!(config.wait_limit, Duration::from_mins(2));
        assert_eq!(config.media_ttl, Duration::from_hours(720));
    }

    #[test]
    fn wrong_values_are_named() {
        for (toml, key) in [
            ("brand = \"v1\"", "brand"),
            ("brand = \"api\"", "brand"),
            ("[media]\nstore = \"ftp://x\"", "media.store"),
            (
                "[media]\ndelivery = \"redirect\"",
                "test.toml:2: `media.delivery`",
            ),
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
            let message = load(Settings::default(), toml).unwrap_err().to_string();
            assert!(message.contains(key), "{toml}: {message}");
        }
    }

    #[test]
    fn secrets_are_masked_when_shown() {
        let toml = "database = \"postgres://user:hunter2@host/db\"\nsigning_secret = \"0123456789abcdef0123456789abcdef\"";
        let shown = load(Settings::default(), toml).unwrap().show();
        assert!(
            !shown.contains("hunter2") && !shown.contains("0123456789abcdef"),
            "{shown}"
        );
        assert!(shown.contains("postgres://"), "{shown}");
    }

    #[test]
    fn shown_settings_can_be_read_again() {
        let toml = "brand = \"x\"\n[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }\n[fetch]\nallow_networks = [\"127.0.0.0/8\"]";
        let first = load(Settings::default(), toml).unwrap().show();
        let again = load(Settings::default(), &first).unwrap().show();
        assert_eq!(first, again);
    }
}
