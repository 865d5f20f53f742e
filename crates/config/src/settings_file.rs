//! The text of the settings file, and the positions of keys in it.

use std::fmt;

use toml::de::{DeTable, DeValue};

use crate::ConfigError;

/// The file as it was read. Its text may contain secrets, so it is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SettingsFile {
    pub path: String,
    /// The file's text.
    pub text: String,
}

impl SettingsFile {
    /// Adds the line to an error about a key in the file.
    pub fn locate(&self, error: ConfigError) -> ConfigError {
        let (key, message) = match &error {
            ConfigError::Value { key, message } => (key.as_str(), message.clone()),
            ConfigError::Secret { key, error } => (*key, error.to_string()),
            ConfigError::InFile { .. } | ConfigError::Unreadable { .. } => return error,
        };
        let Some(position) = key_span(&self.text, key) else {
            return error;
        };
        ConfigError::InFile {
            path: self.path.clone(),
            line: line_of(&self.text, position),
            key: key.to_owned(),
            message: format!("`{key}`: {message}"),
        }
    }

    /// Corrects the line of an error that was found in a copy of the file without some of its keys.
    pub(super) fn locate_again(&self, mut error: ConfigError) -> ConfigError {
        if let ConfigError::InFile { line, key, .. } = &mut error
            && let Some(position) = key_span(&self.text, key)
        {
            *line = line_of(&self.text, position);
        }
        error
    }
}

impl fmt::Debug for SettingsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Source").field(&self.path).finish()
    }
}

/// The position of a dotted key, or of the nearest parent table that exists. Names may have dots
/// themselves: `models.veo-3.1.price`.
fn key_span(text: &str, key: &str) -> Option<usize> {
    let parsed = DeTable::parse(text).ok()?;
    let mut table = parsed.get_ref();
    let (mut start, mut rest) = (None, key);
    while !rest.is_empty() {
        let matching = table.iter().filter_map(|(name, value)| {
            let after = after_name(rest, name.get_ref())?;
            Some((name, value, after))
        });
        // The longest name that fits: for `veo-3.1.price` the model `veo-3.1`, and not `veo-3`.
        let Some((name, value, after)) = matching.max_by_key(|(name, ..)| name.get_ref().len())
        else {
            break;
        };
        start = Some(name.span().start);
        rest = after;
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    start
}

/// The names of a dotted key in a table, as far as they exist.
pub(super) fn path_of(table: &toml::Table, key: &str) -> Vec<String> {
    let (mut table, mut rest) = (Some(table), key);
    let mut path = Vec::new();
    while let Some(current) = table.filter(|_| !rest.is_empty()) {
        let matching = current
            .iter()
            .filter_map(|(name, value)| Some((name, value, after_name(rest, name)?)));
        let Some((name, value, after)) = matching.max_by_key(|(name, ..)| name.len()) else {
            break;
        };
        path.push(name.clone());
        table = value.as_table();
        rest = after;
    }
    path
}

/// The part of a dotted key after its first name, if that name is `name`.
fn after_name<'a>(key: &'a str, name: &str) -> Option<&'a str> {
    let after = key.strip_prefix(name)?;
    if after.is_empty() {
        return Some(after);
    }
    after.strip_prefix('.')
}

pub(super) fn line_of(text: &str, position: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(position)
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}
