//! The configuration file: errors with file, line and key.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize as _, Deserializer};
use toml::de::{DeTable, DeValue};

use crate::{ConfigError, Settings};

/// The file as it was read. Its text may have secrets in it, so that it is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Source {
    pub path: String,
    /// The file's text.
    pub text: String,
}

impl Source {
    /// Adds the line to an error about a key in the file.
    pub fn locate(&self, error: ConfigError) -> ConfigError {
        let (key, message) = match &error {
            ConfigError::Value { key, message } => (key.as_str(), message.clone()),
            ConfigError::Secret { key, error } => (*key, error.to_string()),
            ConfigError::InFile { .. } | ConfigError::Unreadable { .. } => return error,
        };
        let Some(at) = key_span(&self.text, key) else {
            return error;
        };
        ConfigError::InFile {
            path: self.path.clone(),
            line: line_of(&self.text, at),
            key: key.to_owned(),
            message: format!("`{key}`: {message}"),
        }
    }

    /// An error in a copy of the file without some of its keys, with the line of the file itself.
    pub(super) fn locate_again(&self, mut error: ConfigError) -> ConfigError {
        if let ConfigError::InFile { line, key, .. } = &mut error
            && let Some(at) = key_span(&self.text, key)
        {
            *line = line_of(&self.text, at);
        }
        error
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Source").field(&self.path).finish()
    }
}

/// The position of a dotted key, or of the nearest parent table that exists. Names may have dots
/// themselves: `models.veo-3.1.price`.
fn key_span(text: &str, key: &str) -> Option<usize> {
    let parsed = DeTable::parse(text).ok()?;
    let mut table = parsed.get_ref();
    let (mut found, mut rest) = (None, key);
    while !rest.is_empty() {
        let named = table.iter().filter_map(|(name, value)| {
            let after = after_name(rest, name.get_ref())?;
            Some((name, value, after))
        });
        // The longest name: `veo-3.1` and not `veo-3`.
        let Some((name, value, after)) = named.max_by_key(|(name, ..)| name.get_ref().len()) else {
            break;
        };
        found = Some(name.span().start);
        rest = after;
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    found
}

/// The names of a dotted key in a table, as far as they exist.
pub(super) fn path_of(table: &toml::Table, key: &str) -> Vec<String> {
    let (mut table, mut rest) = (Some(table), key);
    let mut path = Vec::new();
    while let Some(within) = table.filter(|_| !rest.is_empty()) {
        let named = within
            .iter()
            .filter_map(|(name, value)| Some((name, value, after_name(rest, name)?)));
        let Some((name, value, after)) = named.max_by_key(|(name, ..)| name.len()) else {
            break;
        };
        path.push(name.clone());
        table = value.as_table();
        rest = after;
    }
    path
}

/// What a dotted key has behind its first name, if that is `name`.
fn after_name<'a>(key: &'a str, name: &str) -> Option<&'a str> {
    let after = key.strip_prefix(name)?;
    if after.is_empty() {
        return Some(after);
    }
    after.strip_prefix('.')
}

/// The dotted key at a position: of the innermost entry whose name or value is there.
fn key_of(table: &DeTable<'_>, at: usize) -> Option<String> {
    table.iter().find_map(|(name, value)| {
        let inner = match value.get_ref() {
            DeValue::Table(inner) => key_of(inner, at),
            DeValue::Array(items) => items.iter().find_map(|item| match item.get_ref() {
                DeValue::Table(inner) => key_of(inner, at),
                _ => None,
            }),
            _ => None,
        };
        let name_text = name.get_ref();
        match inner {
            Some(inner) => Some(format!("{name_text}.{inner}")),
            None if name.span().contains(&at) || value.span().contains(&at) => {
                Some(name_text.to_string())
            }
            None => None,
        }
    })
}

pub fn read(path: &Path) -> Result<Settings, ConfigError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
        path: name.clone(),
        reason: error.to_string(),
    })?;
    parse(&name, &text)
}

/// `path` is for the errors.
pub fn parse(path: &str, text: &str) -> Result<Settings, ConfigError> {
    let mut file: Settings = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        ConfigError::InFile {
            path: path.to_owned(),
            line: line_of(text, at),
            key: DeTable::parse(text)
                .ok()
                .and_then(|parsed| key_of(parsed.get_ref(), at))
                .unwrap_or_default(),
            message: explain(text, at, error.message()),
        }
    })?;
    file.source = Some(Source {
        path: path.to_owned(),
        text: text.to_owned(),
    });
    Ok(file)
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(at)
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// The TOML reader's message, with the key and a suggestion.
fn explain(text: &str, at: usize, message: &str) -> String {
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if let (true, Some((unknown, known))) =
        (message.starts_with("unknown field"), names.split_first())
    {
        return unknown_key(unknown, known);
    }
    let message = without_value(message);
    match key_at(text, at) {
        Some(key) => format!("`{key}`: {message}"),
        None => message.replace('\n', " "),
    }
}

/// The reader's message without the value, which may be a secret in the wrong place.
fn without_value(message: &str) -> String {
    match message.rsplit_once(", expected ") {
        Some((found, expected)) => {
            let kind = found.split(['"', '`']).next().unwrap_or_default();
            format!("{}, expected {expected}", kind.trim_end())
        }
        // For an invalid URL the value comes last.
        None => message.split(": \"").next().unwrap_or_default().to_owned(),
    }
}

/// The message for an unknown key.
pub fn unknown_key(unknown: &str, known: &[&str]) -> String {
    format!("unknown key `{unknown}`; {}", meant(unknown, known))
}

/// A suggestion for an unknown word.
pub fn meant(unknown: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(unknown, name), *name))
        .min()
        .filter(|(distance, _)| *distance <= unknown.len().div_ceil(2));
    near.map_or_else(
        || format!("there are {}", known.join(", ")),
        |(_, name)| format!("did you mean `{name}`?"),
    )
}

/// The key, with its table, of the line at byte `at`.
fn key_at(text: &str, at: usize) -> Option<String> {
    let before = text.get(..at)?;
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = text.get(line_start..)?.lines().next()?;
    let key = line.split_once('=')?.0.trim();
    // Inside a list or a multi-line string this would be part of a value.
    let is_key = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if !key.bytes().all(is_key) {
        return None;
    }
    let table = before
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_prefix('[')?.strip_suffix(']'));
    Some(table.map_or_else(|| key.to_owned(), |table| format!("{table}.{key}")))
}

pub(super) fn duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map(Some).map_err(|_| {
        serde::de::Error::custom("must be a duration such as \"30s\", \"15m\" or \"30d\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_refused_with_its_line_and_a_suggestion() {
        let error = parse("a.toml", "brand = \"x\"\nlsten = \"127.0.0.1:1\"").unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.toml:2: unknown key `lsten`; did you mean `listen`?"
        );
        let error = parse("a.toml", "[fetch]\nallow_port = [80]").unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.toml:2: unknown key `allow_port`; did you mean `allow_ports`?"
        );
    }

    #[test]
    fn a_wrong_value_names_its_line_and_key() {
        let error = parse(
            "a.toml",
            "\n[models.animatic-1]\nprice = { unit = \"second\", usd = \"a lot\" }",
        )
        .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("a.toml:3: `models.animatic-1.price`: "),
            "{error}"
        );
        let error = parse("a.toml", "wait_limit = \"soon\"").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("a.toml:1: `wait_limit`: must be a duration such as"),
            "{error}"
        );
    }

    #[test]
    fn no_error_carries_a_value() {
        for text in [
            "cors_origins = \"hunter2, expected\"",
            "trusted_proxies = [\"hunter2\"]",
            "trusted_proxies = [\n  \"hunter2=\",\n]",
            "listen = \"hunter2\"",
            "wait_limit = \"hunter2\"",
            "workers = \"hunter2\"",
            "log_format = \"hunter2\"",
            "public_url = \"hunter2\"",
            "[providers.a]\nprotocol = \"fal\"\napi_keys = \"hunter2\"",
            "[providers.a]\nprotocol = \"fal\"\nhosts = \"hunter2\"",
            "[models.a]\nkind = \"hunter2\"",
            "[models.a]\naliases = \"hunter2\"",
            "[models.a]\nroutes = \"hunter2\"",
            "[models.a]\nlimits = { sizes = [\"hunter2\"] }",
            "[models.a]\nprice = { unit = \"second\", usd = \"hunter2\" }",
            "[models.a]\nprice = [{ unit = \"second\", usd = \"1\", from = \"hunter2\" }]",
        ] {
            let error = parse("a.toml", text).unwrap_err().to_string();
            assert!(error.starts_with("a.toml:"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn broken_toml_names_its_line() {
        let error = parse("a.toml", "brand = \"x\"\nlisten = ").unwrap_err();
        assert!(error.to_string().starts_with("a.toml:2: "), "{error}");
    }
}
