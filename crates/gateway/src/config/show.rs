//! The effective settings as TOML that can be read back, secrets masked.

use std::time::Duration;

use toml::{Table, Value};

use crate::config::{CancelPolicy, Config, Database, Durability, LogFormat, WebhookRules};
use crate::store::Migrate;

pub(super) fn toml(config: &Config) -> String {
    let mut top = Table::new();
    let mut set = |key: &str, value: Value| drop(top.insert(key.to_owned(), value));
    set("listen", text(config.listen));
    set("data", text(config.data.display()));
    set("models_folder", text(config.models_folder.display()));
    if let Some(folder) = &config.models.catalog {
        set("catalog", text(folder.display()));
    }
    if let Some(library) = &config.onnx_library {
        set("onnx_library", text(library.display()));
    }
    if let Some(url) = &config.public_url {
        set("public_url", text(url));
    }
    set("database", text(database(&config.database)));
    set("database_connections", whole(config.database_connections));
    let durability = match config.durability {
        Durability::Local => "local",
        Durability::Replicated => "replicated",
        Durability::Assumed => "assumed",
    };
    set("durability", text(durability));
    let migrate = match config.migrate {
        Migrate::Auto => "auto",
        Migrate::Never => "never",
    };
    set("migrate", text(migrate));
    set("wait_limit", time(config.wait_limit));
    set("media_ttl", time(config.media_ttl));
    set("storage_limit", text(config.storage_limit));
    set("disk_floor", text(config.disk_floor));
    if let Some(ttl) = config.record_ttl {
        set("record_ttl", time(ttl));
    }
    set("drain_delay", time(config.drain_delay));
    set("shutdown_grace", time(config.shutdown_grace));
    set("brand", text(&config.brand));
    set("persona_brand_field", text(&config.persona_brand_field));
    set("workers", whole(config.workers));
    set("decoding_memory_mb", whole(config.decoding_memory_mb));
    if !config.signing_secrets.is_empty() {
        // Long enough to be read back as secrets.
        let masked = config.signing_secrets.iter();
        let masked: Vec<String> = masked.map(|secret| secret.to_string().repeat(4)).collect();
        set("signing_secrets", list(&masked));
    }
    set("default_model", text(&config.models.default_model));
    set(
        "default_music_model",
        text(&config.models.default_music_model),
    );
    set("cors_origins", list(&config.cors_origins));
    set("trusted_proxies", list(&config.trusted_proxies));
    set("max_connections", whole(config.max_connections));
    set(
        "max_connections_per_peer",
        whole(config.max_connections_per_peer),
    );
    set("max_submitting", whole(config.max_submitting));
    let policy = match config.cancel_policy {
        CancelPolicy::Refund => "refund",
        CancelPolicy::Charge => "charge",
    };
    set("cancel_policy", text(policy));
    let format = match config.log_format {
        LogFormat::Auto => "auto",
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    };
    set("log_format", text(format));
    set("log", text(&config.log));
    let ports = config
        .fetch
        .allow_ports
        .iter()
        .map(|port| Value::Integer(i64::from(*port)))
        .collect();
    let fetch = [
        ("allow_networks", list(&config.fetch.allow_networks)),
        ("allow_ports", Value::Array(ports)),
    ];
    set("fetch", table(fetch));
    set("webhooks", webhooks(&config.webhooks));
    config.cluster.show(&mut top);
    let mut set = |key: &str, value: Value| drop(top.insert(key.to_owned(), value));
    set(
        "personas",
        table([("auto_approve", Value::Boolean(config.personas_auto_approve))]),
    );
    set(
        "show_providers",
        Value::Boolean(config.models.show_providers),
    );
    if let Some(source) = &config.models.source {
        for (key, mut value) in source.tables() {
            mask_keys(&mut value);
            set(&key, value);
        }
    }
    toml::to_string(&top).unwrap_or_default()
}

fn webhooks(rules: &WebhookRules) -> Value {
    let body: &'static str = rules.notify_hook_body.into();
    let mut entries = vec![
        ("allow_http", Value::Boolean(rules.allow_http)),
        ("timeout", time(rules.timeout)),
        ("log_ttl", time(rules.log_ttl)),
        ("notify_hook_body", text(body)),
    ];
    entries.extend(rules.proxy.as_ref().map(|proxy| ("proxy", text(proxy))));
    table(entries)
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

fn database(database: &Database) -> String {
    match database {
        Database::Sqlite => "sqlite".into(),
        Database::Postgres(url) => mask_password(url.expose()),
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

#[expect(
    clippy::needless_pass_by_value,
    reason = "reads better at thirty calls"
)]
fn text(value: impl ToString) -> Value {
    Value::String(value.to_string())
}

fn time(value: Duration) -> Value {
    text(humantime::format_duration(value))
}

fn whole(value: usize) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

fn list<T: std::fmt::Display>(values: &[T]) -> Value {
    Value::Array(values.iter().map(text).collect())
}

fn table<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value::Table(
        entries
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    )
}
