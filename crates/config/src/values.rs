//! Encodings of setting values, for which serde's default is not what a person would write. Only
//! values whose type is known to be harmless are shown; the rest is masked.

use std::net::SocketAddr;
use std::time::Duration;

use ::providers::adapters;
use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
use serde_json::Value as Json;
use url::Url;

use crate::DatabaseTarget;
use crate::extra_fields::{self, ExtraFields};
use crate::masked_url::without_credentials;
use mediagate_model::clock::Timestamp;
use mediagate_model::money::MicroDollars;
use mediagate_model::secret::{Secret, SecretSource};

/// A duration such as `15m`.
pub(super) fn duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let example = "must be a duration such as \"30s\", \"15m\" or \"30d\"";
    parsed(deserializer, humantime::parse_duration, example)
}

/// An address and a port.
pub(super) fn socket_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let example = "must be an IP address and a port, such as \"127.0.0.1:8080\" or \"[::]:8080\"";
    parsed(deserializer, str::parse::<SocketAddr>, example)
}

/// A URL for callers.
pub(super) fn web_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    let example = "must be a URL such as \"https://media.example.com\"";
    parsed(deserializer, Url::parse, example)
}

/// A text that `parse` accepts; every other value gets `example`, a number too.
fn parsed<'de, D: Deserializer<'de>, T, E>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, E>,
    example: &'static str,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer).ok();
    let value = text.and_then(|text| parse(&text).ok());
    value
        .map(Some)
        .ok_or_else(|| serde::de::Error::custom(example))
}

pub(super) fn time<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*time))
}

#[expect(clippy::ref_option, reason = "serde passes a field as it is")]
pub(super) fn time_if_set<S: Serializer>(
    value: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value
        .map(|time| humantime::format_duration(time).to_string())
        .serialize(serializer)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a field as it is"
)]
pub(super) fn dollars<S: Serializer>(
    amount: &MicroDollars,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(amount)
}

/// Masks secrets with texts that are long enough to be accepted when they are read back.
pub(super) fn mask_secrets<S: Serializer>(
    secrets: &[Secret],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(secrets.iter().map(|secret| secret.to_string().repeat(4)))
}

pub(super) fn database<S: Serializer>(
    database: &DatabaseTarget,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match database {
        DatabaseTarget::Sqlite => serializer.serialize_str("sqlite"),
        DatabaseTarget::Postgres(url) => {
            serializer.serialize_str(&without_credentials(url.expose()))
        }
    }
}

/// A URL of a provider, if it is set, masked as [`MaskedUrl`](super::masked_url::MaskedUrl)
/// is.
#[expect(clippy::ref_option, reason = "serde passes a field as it is")]
pub(super) fn address_if_set<S: Serializer>(
    value: &Option<SecretSource>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let shown = value.as_ref().map(|source| match source {
        SecretSource::Value(address) => without_credentials(address.expose()),
        SecretSource::Env(_) | SecretSource::File(_) => source.to_string(),
    });
    shown.serialize(serializer)
}

/// A secret that must be long, masked with a text that is long enough to be accepted when it is
/// read back.
#[expect(clippy::ref_option, reason = "serde passes a field as it is")]
pub(super) fn long_secret_if_set<S: Serializer>(
    value: &Option<SecretSource>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let shown = value.as_ref().map(|source| match source {
        SecretSource::Value(secret) => secret.to_string().repeat(4),
        SecretSource::Env(_) | SecretSource::File(_) => source.to_string(),
    });
    shown.serialize(serializer)
}

/// A protocol's options. Only numbers, booleans and the words that a protocol accepts are shown;
/// the rest is masked.
pub(super) fn options<S: Serializer>(
    options: &ExtraFields,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(options.fields().iter().map(|(name, value)| {
        let is_plain = match value {
            Json::Bool(_) | Json::Number(_) => true,
            Json::String(_) => adapters::WORD_OPTIONS.contains(&name.as_str()),
            Json::Null | Json::Array(_) | Json::Object(_) => false,
        };
        let shown = || Json::String(extra_fields::mask(value));
        (name, if is_plain { value.clone() } else { shown() })
    }))
}

#[expect(clippy::ref_option, reason = "serde passes a field as it is")]
pub(super) fn dollars_if_set<S: Serializer>(
    amount: &Option<MicroDollars>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    amount
        .map(|amount| amount.to_string())
        .serialize(serializer)
}

#[expect(clippy::ref_option, reason = "serde passes a field as it is")]
pub(super) fn instant_if_set<S: Serializer>(
    instant: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    instant.map(Timestamp::rfc3339).serialize(serializer)
}

#[expect(clippy::ref_option, reason = "serde passes a field as it is")]
pub(super) fn sizes_if_set<S: Serializer>(
    sizes: &Option<Vec<(u32, u32)>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let text = |(width, height): &(u32, u32)| format!("{width}x{height}");
    let texts = sizes.as_ref().map(|sizes| sizes.iter().map(text));
    texts.map(Iterator::collect::<Vec<_>>).serialize(serializer)
}
