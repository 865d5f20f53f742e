//! `[providers.<name>]` and `[models.<id>]`: the operator's providers, and the models that callers
//! can use.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use providers::adapters::fault_of_entry;
use providers::catalogue::Catalogue;
use providers::{Durations, MediaKind, Secret};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::extra_fields::ExtraFields;
use crate::masked_url::MaskedUrl;
use crate::settings_file::SettingsFile;
use crate::{ConfigError, values};
use mediagate_model::clock::Timestamp;
use mediagate_model::money::MicroDollars;
use mediagate_model::price::{DatedPrice, Price, PriceSchedule, PriceUnit};
use mediagate_model::secret::SecretSource;

/// `[providers.<name>]` as written. Keys that are not common to all protocols are the protocol's
/// own options.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ProviderTable {
    pub protocol: String,
    /// The protocol's default URL if `None`.
    #[serde(serialize_with = "values::address_if_set", default)]
    pub base_url: Option<SecretSource>,
    /// The only credential.
    pub api_key: Option<SecretSource>,
    /// Several credentials, to share the work between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_keys: Vec<SecretSource>,
    /// Other hosts that may receive the credential.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Limit of jobs at once, per credential.
    pub max_running: Option<u32>,
    /// Limit of submissions per minute, per credential.
    pub per_minute: Option<u32>,
    /// How long a job may take.
    #[serde(
        default,
        deserialize_with = "crate::values::duration",
        serialize_with = "values::time_if_set"
    )]
    pub job_limit: Option<Duration>,
    /// Maximum number of polls per second, where the provider allows more.
    pub max_polls: Option<u32>,
    #[serde(default)]
    pub results: ResultPolicy,
    #[serde(flatten, serialize_with = "values::options")]
    pub options: ExtraFields,
}

/// A provider, complete and validated except for its options.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderConfig {
    pub protocol: String,
    /// The protocol's default URL if `None`.
    pub base_url: Option<MaskedUrl>,
    /// Empty if none are needed.
    pub secrets: Vec<Secret>,
    /// Other hosts that may receive the credential.
    pub hosts: Vec<String>,
    /// Limit of jobs at once, per credential.
    pub max_running: Option<u32>,
    /// Limit of submissions per minute, per credential.
    pub per_minute: Option<u32>,
    /// How long a job may take.
    pub job_limit: Duration,
    /// Maximum number of polls per second of this process, where the provider allows more.
    pub max_polls: Option<u32>,
    pub results: ResultPolicy,
    pub options: ExtraFields,
}

/// What happens to the films that a provider delivers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultPolicy {
    /// Films are fetched, checked and kept.
    #[default]
    Keep,
    /// The provider's URL is passed on where it needs no credential, and nothing is fetched.
    Link,
}

/// The default of `job_limit`.
pub const JOB_LIMIT: Duration = Duration::from_hours(6);

impl ProviderTable {
    pub(super) fn complete(self, name: &str) -> Result<ProviderConfig, ConfigError> {
        let wrong = |key: &str, message: String| ConfigError::Value {
            key: format!("providers.{name}.{key}"),
            message,
        };
        if self.api_key.is_some() && !self.api_keys.is_empty() {
            return Err(wrong(
                "api_keys",
                "set api_key or api_keys, not both".into(),
            ));
        }
        let (key, sources) = match self.api_key {
            Some(source) => ("api_key", vec![source]),
            None => ("api_keys", self.api_keys),
        };
        let secrets = sources
            .into_iter()
            .map(|source| source.read().map_err(|error| wrong(key, error.to_string())))
            .collect::<Result<Vec<_>, _>>()?;
        let key = format!("providers.{name}.base_url");
        let base_url = MaskedUrl::read_if_set(&key, self.base_url.as_ref())?;
        if let Some(url) = &base_url
            && (!url.is_http() || url.url().query().is_some())
        {
            let message = "must be an http or https URL without a query";
            return Err(wrong("base_url", message.into()));
        }
        let mut options = self.options;
        let result = options.read_variables();
        result.map_err(|(option, error)| wrong(&option, error.to_string()))?;
        if self.max_running == Some(0) || self.per_minute == Some(0) {
            let message = "0 would block the provider; remove the provider instead";
            let key = if self.max_running == Some(0) {
                "max_running"
            } else {
                "per_minute"
            };
            return Err(wrong(key, message.into()));
        }
        if self.max_polls == Some(0) {
            let message = "must not be 0, or no job would ever finish";
            return Err(wrong("max_polls", message.into()));
        }
        Ok(ProviderConfig {
            protocol: self.protocol,
            base_url,
            secrets,
            hosts: self.hosts,
            max_running: self.max_running,
            per_minute: self.per_minute,
            job_limit: self.job_limit.unwrap_or(JOB_LIMIT),
            max_polls: self.max_polls,
            results: self.results,
            options,
        })
    }
}

/// Known hosted models, with those in a folder added.
pub(super) fn hosted_catalogue(
    folder: Option<&Path>,
    source: Option<&SettingsFile>,
) -> Result<Arc<Catalogue>, ConfigError> {
    let embedded = Catalogue::embedded();
    let Some(folder) = folder else {
        return Ok(embedded);
    };
    // The operator's files override the built-in ones, which are as old as this program.
    let catalogue = embedded.with_folder(folder, fault_of_entry).map(Arc::new);
    catalogue.map_err(|error| {
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

/// `[models.<id>]`: the operator's settings for one model.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSettings {
    /// `video` or `music`; required with routes.
    pub kind: Option<MediaKind>,
    /// What its work costs. Without it, an embedded model is free, and a model with routes is refused unless each route
    /// has a price.
    pub price: Option<PriceSettings>,
    /// Alternative names, in which `*` matches any characters; the model's default ones if `None`.
    pub aliases: Option<Vec<String>>,
    /// True if `None`.
    pub enabled: Option<bool>,
    /// One sentence for the price list.
    pub summary: Option<String>,
    /// Caveats for the price list.
    pub notes: Option<Vec<String>>,
    /// Providers that can do its work, in order or by weight.
    pub routes: Option<Vec<RouteSettings>>,
    /// Fields of the provider's request that callers may set in `provider_options`; dots separate
    /// nested names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pass: Vec<String>,
    /// What every route offers, if the adapters' tables are wrong or incomplete.
    #[serde(skip_serializing_if = "LimitSettings::is_empty")]
    pub limits: LimitSettings,
}

/// One way to have a model's work done.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSettings {
    /// A name under `[providers]`.
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    /// Its share of the work among weighted routes.
    pub weight: Option<u32>,
    /// Overrides the model's price.
    pub price: Option<PriceSettings>,
    /// What the provider is paid, for the operator's margin.
    pub cost: Option<PriceSettings>,
    /// Limit of jobs at once.
    pub max_running: Option<u32>,
    /// Limit of submissions per minute.
    pub per_minute: Option<u32>,
    /// What this route offers.
    #[serde(default, skip_serializing_if = "LimitSettings::is_empty")]
    pub limits: LimitSettings,
    /// Merged into the provider's request body.
    #[serde(default, skip_serializing_if = "ExtraFields::is_empty")]
    pub extra: ExtraFields,
}

/// Limits as far as the operator sets them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    /// Frame sizes (`"1280x720"`); the first is the default.
    #[serde(deserialize_with = "sizes", serialize_with = "values::sizes_if_set")]
    pub sizes: Option<Vec<(u32, u32)>>,
    /// Lengths: a list, or `{ min, max }`.
    pub seconds: Option<Durations>,
    /// Default length.
    pub default_seconds: Option<u32>,
    /// Maximum number of source pictures.
    pub pictures: Option<usize>,
    /// Whether a negative prompt is supported.
    pub negative_prompt: Option<bool>,
    /// Whether a seed is supported.
    pub seed: Option<bool>,
    /// Whether callers may choose between sound and none.
    pub audio: Option<bool>,
    /// Maximum number of reference images.
    pub references: Option<usize>,
    /// Stem groups that it can separate.
    pub stems: Option<Vec<String>>,
    /// Music tasks that it supports besides `gen_stem`.
    pub tasks: Option<Vec<String>>,
    /// How many clips an order of a song makes.
    pub clips: Option<usize>,
}

impl LimitSettings {
    /// Whether nothing is set.
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A price in the file: `{ unit = "second", usd = "0.10" }`, a list of those with dates, or `"free"`.
#[derive(Debug, Clone, PartialEq)]
pub enum PriceSettings {
    /// The operator means to give the work away.
    Free,
    Dated(Vec<PriceEntry>),
}

/// The word for [`PriceSettings::Free`].
const FREE: &str = "free";

/// A price and when it is valid.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PriceEntry {
    pub unit: PriceUnit,
    /// Dollars per unit.
    #[serde(deserialize_with = "dollars", serialize_with = "values::dollars")]
    pub usd: MicroDollars,
    /// Dollars per unit without sound; the same if `None`.
    #[serde(
        default,
        deserialize_with = "some_dollars",
        serialize_with = "values::dollars_if_set"
    )]
    pub usd_without_audio: Option<MicroDollars>,
    /// Inclusive.
    #[serde(
        default,
        deserialize_with = "instant",
        serialize_with = "values::instant_if_set"
    )]
    pub from: Option<Timestamp>,
    /// Exclusive; until the next price if `None`.
    #[serde(
        default,
        deserialize_with = "instant",
        serialize_with = "values::instant_if_set"
    )]
    pub until: Option<Timestamp>,
}

impl Serialize for PriceSettings {
    /// A single price as it is, several as a list.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Free => serializer.serialize_str(FREE),
            Self::Dated(entries) => match entries.as_slice() {
                [one] => one.serialize(serializer),
                several => several.serialize(serializer),
            },
        }
    }
}

impl<'de> Deserialize<'de> for PriceSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PriceListVisitor;

        impl<'de> Visitor<'de> for PriceListVisitor {
            type Value = PriceSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a price such as { unit = \"second\", usd = \"0.10\" }, a list of them, or \"free\"",
                )
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<PriceSettings, E> {
                if word == FREE {
                    return Ok(PriceSettings::Free);
                }
                Err(E::invalid_value(de::Unexpected::Str(word), &self))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PriceSettings, A::Error> {
                let entry = PriceEntry::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(PriceSettings::Dated(vec![entry]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<PriceSettings, A::Error> {
                let list = Vec::deserialize(de::value::SeqAccessDeserializer::new(seq))?;
                Ok(PriceSettings::Dated(list))
            }
        }

        deserializer.deserialize_any(PriceListVisitor)
    }
}

impl PriceSettings {
    /// Its prices with their dates; none if it is free.
    pub fn entries(&self) -> &[PriceEntry] {
        match self {
            Self::Free => &[],
            Self::Dated(entries) => entries,
        }
    }

    /// The prices over time. Gaps and overlaps are refused.
    pub fn schedule(&self, now: Timestamp) -> Result<PriceSchedule, String> {
        let Self::Dated(entries) = self else {
            return Ok(PriceSchedule::always(Price {
                unit: PriceUnit::Task,
                per_unit: MicroDollars::ZERO,
            }));
        };
        // A gap would give work away. An overlap would be ambiguous.
        let mut entries = entries.clone();
        entries.sort_by_key(|entry| entry.from);
        for pair in entries.windows(2) {
            // Without `until` a price is valid until the next one begins.
            let (Some(until), Some(next)) = (pair[0].until, pair[1].from) else {
                continue;
            };
            if until != next {
                let problem = if until < next {
                    "no price"
                } else {
                    "two prices"
                };
                let (first, last) = (until.min(next).rfc3339(), until.max(next).rfc3339());
                return Err(format!("there would be {problem} from {first} to {last}"));
            }
        }
        if let Some(end) = entries.last().and_then(|last| last.until) {
            return Err(format!(
                "there would be no price from {} on; remove the last `until`",
                end.rfc3339()
            ));
        }
        let prices = entries.iter().map(|entry| DatedPrice {
            from: entry.from,
            price: Price {
                unit: entry.unit,
                per_unit: entry.usd,
            },
            without_audio: entry.usd_without_audio,
        });
        let schedule = PriceSchedule::new(prices.collect()).map_err(|error| error.to_string())?;
        match schedule.begins() {
            Some(begin) if begin > now => Err(format!(
                "there would be no price before {}; add one without `from`",
                begin.rfc3339()
            )),
            _ => Ok(schedule),
        }
    }
}

/// A date (its first instant in UTC) or a time, as a TOML value or as text.
fn instant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = match toml::Value::deserialize(deserializer)? {
        toml::Value::String(text) => text,
        toml::Value::Datetime(datetime) => datetime.to_string(),
        other => {
            let message = format!("{} is not a date", other.type_str());
            return Err(de::Error::custom(message));
        }
    };
    Timestamp::parse(&text).map(Some).ok_or_else(|| {
        de::Error::custom("must be a date such as \"2026-12-01\" or \"2026-12-01T00:00:00Z\"")
    })
}

fn dollars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MicroDollars, D::Error> {
    // Only as text: a TOML number with a point is a float, which cannot hold every amount.
    let toml::Value::String(text) = toml::Value::deserialize(deserializer)? else {
        let message = "must be an amount in dollars as text, such as \"0.40\"";
        return Err(de::Error::custom(message));
    };
    text.parse()
        .map_err(|error| de::Error::custom(format!("{error}; it is in dollars, such as \"0.40\"")))
}

pub(super) fn some_dollars<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<MicroDollars>, D::Error> {
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
