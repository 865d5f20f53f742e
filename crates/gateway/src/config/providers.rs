//! `[providers.<name>]` and `[models.<id>]`: what the operator pays for, and
//! what callers can name.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use providers::catalogue::Catalogue;
use providers::{Durations, Secret};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use url::Url;

use crate::clock::Timestamp;
use crate::config::ConfigError;
use crate::config::file::Source;
use crate::model::catalog::PriceUnit;
use crate::model::money::{Dated, Micros, Price, Schedule};
use crate::secret::SecretSource;

/// `[providers.<name>]` as it stands. The keys that are not common to all
/// protocols are the protocol's own options.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ProviderTable {
    /// The name of a protocol.
    pub protocol: String,
    /// Where it is; the protocol's own address when left out.
    pub base_url: Option<Url>,
    /// Its credential.
    pub api_key: Option<SecretSource>,
    /// Its credentials, when there are several; work is spread over them.
    #[serde(default)]
    pub api_keys: Vec<SecretSource>,
    /// Hosts beside its own that may be sent the credential.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Jobs that may run at once with one credential.
    pub max_running: Option<u32>,
    /// Submissions a minute with one credential.
    pub per_minute: Option<u32>,
    /// How long a job may take before it is given up.
    #[serde(default, deserialize_with = "super::file::duration")]
    pub job_limit: Option<Duration>,
    /// The protocol's own options.
    #[serde(flatten)]
    pub options: Map<String, Value>,
}

/// A provider, complete and checked but for its options.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderConfig {
    /// The name of a protocol.
    pub protocol: String,
    /// Where it is; the protocol's own address when left out.
    pub base_url: Option<Url>,
    /// Its credentials; empty for those that need none.
    pub secrets: Vec<Secret>,
    /// Hosts beside its own that may be sent the credential.
    pub hosts: Vec<String>,
    /// Jobs that may run at once with one credential.
    pub max_running: Option<u32>,
    /// Submissions a minute with one credential.
    pub per_minute: Option<u32>,
    /// How long a job may take before it is given up.
    pub job_limit: Duration,
    /// The protocol's own options.
    pub options: Map<String, Value>,
}

/// How long a job may take when the operator does not say.
pub const JOB_LIMIT: Duration = Duration::from_hours(6);

impl ProviderTable {
    /// Reads the secrets.
    pub(super) fn complete(self, name: &str) -> Result<ProviderConfig, ConfigError> {
        let wrong = |key: &str, message: String| ConfigError::Value {
            key: format!("providers.{name}.{key}"),
            message,
        };
        if self.api_key.is_some() && !self.api_keys.is_empty() {
            return Err(wrong(
                "api_keys",
                "say api_key or api_keys, not both".into(),
            ));
        }
        let (key, sources) = match self.api_key {
            Some(one) => ("api_key", vec![one]),
            None => ("api_keys", self.api_keys),
        };
        let secrets = sources
            .into_iter()
            .map(|source| source.read().map_err(|error| wrong(key, error.to_string())))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(url) = &self.base_url
            && (!matches!(url.scheme(), "http" | "https") || url.query().is_some())
        {
            let message = "must be an http or https address without a query";
            return Err(wrong("base_url", message.into()));
        }
        if self.max_running == Some(0) || self.per_minute == Some(0) {
            let message = "0 would mean that nothing is ever sent; leave the provider out instead";
            let key = if self.max_running == Some(0) {
                "max_running"
            } else {
                "per_minute"
            };
            return Err(wrong(key, message.into()));
        }
        Ok(ProviderConfig {
            protocol: self.protocol,
            base_url: self.base_url,
            secrets,
            hosts: self.hosts,
            max_running: self.max_running,
            per_minute: self.per_minute,
            job_limit: self.job_limit.unwrap_or(JOB_LIMIT),
            options: self.options,
        })
    }
}

/// What is known of hosted models, with a folder laid over it.
pub(super) fn known(
    folder: Option<&Path>,
    source: Option<&Source>,
) -> Result<Arc<Catalogue>, ConfigError> {
    let embedded = Catalogue::embedded();
    let Some(folder) = folder else {
        return Ok(embedded);
    };
    let laid_over = embedded.with_folder(folder).map(Arc::new);
    laid_over.map_err(|error| {
        let error = ConfigError::Value {
            key: "catalog".into(),
            message: error.to_string(),
        };
        match source {
            Some(source) => source.locate(error),
            None => error,
        }
    })
}

/// `[models.<id>]`: what the operator says of one model.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSettings {
    /// `video` or `music`; required with routes.
    pub kind: Option<ModelKind>,
    /// What its work costs; free when left out.
    pub price: Option<PriceSettings>,
    /// Other names, each with `*` for any characters; the model's own when left out.
    pub aliases: Option<Vec<String>>,
    /// Whether callers can name it; true when left out.
    pub enabled: Option<bool>,
    /// One sentence for people.
    pub summary: Option<String>,
    /// What else a caller should know.
    pub notes: Option<Vec<String>>,
    /// Who makes it: in this order, or by weight.
    pub routes: Option<Vec<RouteSettings>>,
    /// Fields of the provider's request that callers may set in
    /// `provider_options`; dots lead into objects.
    pub pass: Vec<String>,
    /// What every route offers, where the adapters' own tables are wrong or silent.
    pub limits: LimitSettings,
}

/// The kind of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Makes videos.
    Video,
    /// Works on music.
    Music,
}

/// One way to have a model's work done.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSettings {
    /// A name under `[providers]`.
    pub provider: String,
    /// The model, by the provider's name for it.
    pub model: String,
    /// Its share among routes with weights.
    pub weight: Option<u32>,
    /// What its work costs the caller, where that differs from the model's price.
    pub price: Option<PriceSettings>,
    /// Jobs that may run at once by this route.
    pub max_running: Option<u32>,
    /// Submissions a minute by this route.
    pub per_minute: Option<u32>,
    /// What this route offers.
    #[serde(default)]
    pub limits: LimitSettings,
    /// What is merged into the provider's request body.
    #[serde(default)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// What may be asked for, as far as the operator says.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    /// Frame sizes, such as `"1280x720"`; the first is the default.
    #[serde(deserialize_with = "sizes")]
    pub sizes: Option<Vec<(u32, u32)>>,
    /// Lengths: a list, or `{ min, max }`.
    pub seconds: Option<Durations>,
    /// The length when the request names none.
    pub default_seconds: Option<u32>,
    /// Most source pictures.
    pub pictures: Option<usize>,
    /// Whether it takes a negative prompt.
    pub negative_prompt: Option<bool>,
    /// Whether it takes a seed.
    pub seed: Option<bool>,
    /// Whether callers may choose between sound and none.
    pub audio: Option<bool>,
    /// Most reference images.
    pub references: Option<usize>,
    /// Stem groups that it tells apart.
    pub stems: Option<Vec<String>>,
    /// Tasks of the music dialect that it does, beside `gen_stem`.
    pub tasks: Option<Vec<String>>,
}

/// A price as the file writes it: `{ unit = "second", usd = "0.10" }`, or a
/// list of those with dates.
#[derive(Debug, Clone, PartialEq)]
pub struct PriceSettings(pub Vec<PriceEntry>);

/// One price, and when it holds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceEntry {
    /// What is counted.
    pub unit: PriceUnit,
    /// Dollars for one.
    #[serde(deserialize_with = "dollars")]
    pub usd: Micros,
    /// Dollars for one that has no sound; the same when left out.
    #[serde(default, deserialize_with = "some_dollars")]
    pub usd_without_audio: Option<Micros>,
    /// The first instant at which it holds.
    #[serde(default, deserialize_with = "instant")]
    pub from: Option<Timestamp>,
    /// The first instant at which it holds no more; until the next price when
    /// left out.
    #[serde(default, deserialize_with = "instant")]
    pub until: Option<Timestamp>,
}

impl<'de> Deserialize<'de> for PriceSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;

        impl<'de> Visitor<'de> for OneOrMore {
            type Value = PriceSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a price such as { unit = \"second\", usd = \"0.10\" }, or a list of them",
                )
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PriceSettings, A::Error> {
                let one = PriceEntry::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(PriceSettings(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<PriceSettings, A::Error> {
                let list = Vec::deserialize(de::value::SeqAccessDeserializer::new(seq))?;
                Ok(PriceSettings(list))
            }
        }

        deserializer.deserialize_any(OneOrMore)
    }
}

impl PriceSettings {
    /// The prices over time. What leaves open what something costs, now or
    /// later, is refused.
    pub fn schedule(&self, now: Timestamp) -> Result<Schedule, String> {
        let mut entries = self.0.clone();
        entries.sort_by_key(|entry| entry.from);
        for pair in entries.windows(2) {
            let (Some(until), Some(next)) = (pair[0].until, pair[1].from) else {
                continue;
            };
            if until != next {
                let what = if until < next {
                    "no price"
                } else {
                    "two prices"
                };
                let (first, last) = (until.min(next).rfc3339(), until.max(next).rfc3339());
                return Err(format!("there would be {what} from {first} to {last}"));
            }
        }
        if let Some(end) = entries.last().and_then(|last| last.until) {
            return Err(format!(
                "there would be no price from {} on; leave the last until out",
                end.rfc3339()
            ));
        }
        let dated = entries.iter().map(|entry| Dated {
            from: entry.from,
            price: Price {
                unit: entry.unit,
                per_unit: entry.usd,
            },
            without_audio: entry.usd_without_audio,
        });
        let schedule = Schedule::new(dated.collect()).map_err(|error| error.to_string())?;
        match schedule.begins() {
            Some(begin) if begin > now => Err(format!(
                "there would be no price before {}; add one without from",
                begin.rfc3339()
            )),
            _ => Ok(schedule),
        }
    }
}

/// A date (its first instant in UTC) or an instant, as TOML's own or as text.
fn instant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = match toml::Value::deserialize(deserializer)? {
        toml::Value::String(text) => text,
        toml::Value::Datetime(when) => when.to_string(),
        other => {
            let message = format!("{} is no date", other.type_str());
            return Err(de::Error::custom(message));
        }
    };
    Timestamp::parse(&text).map(Some).ok_or_else(|| {
        de::Error::custom("must be a date such as \"2026-12-01\" or \"2026-12-01T00:00:00Z\"")
    })
}

fn dollars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Micros, D::Error> {
    String::deserialize(deserializer)?
        .parse()
        .map_err(de::Error::custom)
}

fn some_dollars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Micros>, D::Error> {
    dollars(deserializer).map(Some)
}

fn sizes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<(u32, u32)>>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let size = |text: &String| {
        let (width, height) = text.split_once('x')?;
        let (width, height) = (width.parse().ok()?, height.parse().ok()?);
        ((16..=8192).contains(&width) && (16..=8192).contains(&height)).then_some((width, height))
    };
    texts
        .iter()
        .map(|text| {
            size(text).ok_or_else(|| serde::de::Error::custom("must be sizes such as \"1280x720\""))
        })
        .collect::<Result<Vec<_>, _>>()
        .map(Some)
}
