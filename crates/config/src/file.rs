//! The configuration file: errors with file, line and key.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::settings_file::{SettingsFile, line_of};
use crate::{ConfigError, Settings};

/// The dotted key of the innermost entry whose name or value is at this position.
fn key_of(table: &DeTable<'_>, position: usize) -> Option<String> {
    table.iter().find_map(|(name, value)| {
        let inner_key = match value.get_ref() {
            DeValue::Table(inner_key) => key_of(inner_key, position),
            DeValue::Array(items) => items.iter().find_map(|item| match item.get_ref() {
                DeValue::Table(inner_key) => key_of(inner_key, position),
                _ => None,
            }),
            _ => None,
        };
        let name_text = name.get_ref();
        match inner_key {
            Some(inner_key) => Some(format!("{name_text}.{inner_key}")),
            None if name.span().contains(&position) || value.span().contains(&position) => {
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

/// Parses the text of a file; `path` is only for error messages.
pub fn parse(path: &str, text: &str) -> Result<Settings, ConfigError> {
    let mut file: Settings = toml::from_str(text).map_err(|error| {
        let position = error.span().map_or(0, |span| span.start);
        ConfigError::InFile {
            path: path.to_owned(),
            line: line_of(text, position),
            key: DeTable::parse(text)
                .ok()
                .and_then(|parsed| key_of(parsed.get_ref(), position))
                .unwrap_or_default(),
            message: explain(text, position, error.message()),
        }
    })?;
    file.source = Some(SettingsFile {
        path: path.to_owned(),
        text: text.to_owned(),
    });
    Ok(file)
}

/// The TOML reader's message, with the key and a suggestion.
fn explain(text: &str, position: usize, message: &str) -> String {
    // The reader's message has the unknown key first and the known ones after it, all in
    // backquotes. Every second part is a name.
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if let (true, Some((unknown, known))) =
        (message.starts_with("unknown field"), names.split_first())
    {
        return unknown_key(unknown, known);
    }
    let message = without_value(message);
    match key_at(text, position) {
        Some(key) => format!("`{key}`: {message}"),
        None => message.replace('\n', " "),
    }
}

/// The reader's message without the value, which may be a secret in the wrong place.
fn without_value(message: &str) -> String {
    // Split from the end, because the value itself may contain these words.
    match message.rsplit_once(", expected ") {
        Some((actual, expected)) => {
            let kind = actual.split(['"', '`']).next().unwrap_or_default();
            format!("{}, expected {}", kind.trim_end(), in_words(expected))
        }
        // For an invalid URL the value comes last.
        None => message.split(": \"").next().unwrap_or_default().to_owned(),
    }
}

/// What the reader expected: for a type of Rust, what to write instead.
fn in_words(expected: &str) -> &str {
    match expected.trim_end() {
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0 on",
        "i64" => "a whole number",
        "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "a table",
        other => other,
    }
}

/// The message for an unknown key.
pub fn unknown_key(unknown: &str, known: &[&str]) -> String {
    format!("unknown key `{unknown}`; {}", suggestion(unknown, known))
}

/// A suggestion for an unknown word.
pub fn suggestion(unknown: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(unknown, name), *name))
        .min()
        // With more than half of the letters wrong, a suggestion would only mislead.
        .filter(|(distance, _)| *distance <= unknown.len().div_ceil(2));
    nearest.map_or_else(
        || format!("the known names are {}", known.join(", ")),
        |(_, name)| format!("did you mean `{name}`?"),
    )
}

/// The key, with its table, of the line at byte `position`.
fn key_at(text: &str, position: usize) -> Option<String> {
    let before = text.get(..position)?;
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
    fn a_wrong_type_is_explained_without_types_of_rust() {
        for (text, expected) in [
            ("workers = \"many\"", "expected a whole number from 0 on"),
            ("[fetch]\nallow_ports = [70000]", "from 0 to 65535"),
            ("[telemetry]\nsample = \"all\"", "expected a number"),
            ("cors_origins = \"x\"", "expected a list"),
        ] {
            let error = parse("a.toml", text).unwrap_err().to_string();
            assert!(error.ends_with(expected), "{text}: {error}");
        }
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
