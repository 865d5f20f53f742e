//! The effective settings as TOML that can be read back, secrets masked.

use std::time::Duration;

use serde::{Serialize as _, Serializer};
use toml::{Table, Value};

use crate::config::{Config, Database};
use crate::model::money::Micros;
use crate::secret::Secret;

pub(super) fn toml(config: &Config) -> String {
    let mut top = Table::try_from(config).unwrap_or_default();
    if let Some(source) = &config.models.source {
        for (key, mut value) in source.tables() {
            mask_keys(&mut value);
            top.insert(key, value);
        }
    }
    toml::to_string(&top).unwrap_or_default()
}

pub(super) fn time<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&humantime::format_duration(*time))
}

#[expect(clippy::ref_option, reason = "serde passes a field as it is")]
pub(super) fn time_if_set<S: Serializer>(set: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    set.map(|time| humantime::format_duration(time).to_string())
        .serialize(to)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a field as it is"
)]
pub(super) fn dollars<S: Serializer>(amount: &Micros, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(amount)
}

/// Long enough to be read back as secrets.
pub(super) fn masked<S: Serializer>(secrets: &[Secret], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(secrets.iter().map(|secret| secret.to_string().repeat(4)))
}

pub(super) fn database<S: Serializer>(database: &Database, to: S) -> Result<S::Ok, S::Error> {
    match database {
        Database::Sqlite => to.serialize_str("sqlite"),
        Database::Postgres(url) => to.serialize_str(&mask_password(url.expose())),
    }
}

/// Masks credentials that are in the file itself.
fn mask_keys(value: &mut Value) {
    let mask = |value: &mut Value| {
        if let Value::String(text) = value
            && !text.starts_with("env:")
            && !text.starts_with("file:")
        {
            *text = "********".into();
        }
    };
    match value {
        Value::Table(table) => {
            for (key, inner) in table.iter_mut() {
                match (key.as_str(), inner) {
                    ("api_key", inner) => mask(inner),
                    ("api_keys", Value::Array(keys)) => keys.iter_mut().for_each(mask),
                    (_, inner) => mask_keys(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_keys),
        _ => {}
    }
}

/// A URL with its password masked.
fn mask_password(address: &str) -> String {
    let masked = url::Url::parse(address).ok().and_then(|mut url| {
        if url.password().is_some() {
            url.set_password(Some("********")).ok()?;
        }
        (!url.query().unwrap_or_default().contains("password")).then(|| url.into())
    });
    masked.unwrap_or_else(|| "postgres://********".into())
}
