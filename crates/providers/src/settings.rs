//! Settings of a provider, as the operator writes them.

use std::sync::Arc;

use serde_json::{Map, Value};
use url::Url;

use crate::catalogue::{Catalogue, ProtocolCatalogue};

/// A provider as the operator configures it, without its credentials.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSettings {
    /// The operator's name for it.
    pub name: String,
    /// Its base URL; the protocol's own if omitted.
    pub base_url: Option<Url>,
    /// The protocol's own options.
    pub options: Map<String, Value>,
    /// The known models.
    pub catalogue: Arc<Catalogue>,
}

/// A fault in the settings of a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", location(key.as_deref(), *line))]
pub struct SettingsError {
    /// The option at fault.
    pub key: Option<String>,
    /// The line of the recipe at fault, counting from 1.
    pub line: Option<usize>,
    /// The error message.
    pub message: String,
}

fn location(key: Option<&str>, line: Option<usize>) -> String {
    match (key, line) {
        (Some(key), Some(line)) => format!("{key}, line {line}: "),
        (Some(key), None) => format!("{key}: "),
        (None, Some(line)) => format!("line {line}: "),
        (None, None) => String::new(),
    }
}

impl SettingsError {
    /// An error about this option.
    pub fn at(key: &str, message: impl Into<String>) -> Self {
        Self {
            key: Some(key.into()),
            line: None,
            message: message.into(),
        }
    }
}

impl ProviderSettings {
    /// The settings of a provider at its protocol's own base URL, with the built-in catalogue.
    pub fn new(name: &str, options: Map<String, Value>) -> Self {
        Self {
            name: name.into(),
            base_url: None,
            options,
            catalogue: Catalogue::embedded(),
        }
    }

    /// The known models of a protocol.
    pub(crate) fn protocol_catalogue(&self, protocol: &'static str) -> ProtocolCatalogue {
        ProtocolCatalogue::new(self.catalogue.clone(), protocol)
    }

    /// A text option.
    pub fn text(&self, key: &str) -> Result<Option<&str>, SettingsError> {
        match self.options.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(SettingsError::at(key, "must be a string")),
        }
    }

    /// A text option that must be one of these; the first if omitted.
    pub fn word<'a>(&self, key: &str, allowed: &[&'a str]) -> Result<&'a str, SettingsError> {
        let first = allowed.first().copied().unwrap_or_default();
        let Some(text) = self.text(key)? else {
            return Ok(first);
        };
        let value = allowed.iter().find(|word| **word == text);
        value.copied().ok_or_else(|| {
            let all = allowed.join(", ");
            SettingsError::at(key, format!("must be one of {all}"))
        })
    }

    /// A yes-or-no option; `false` if omitted.
    pub fn flag(&self, key: &str) -> Result<bool, SettingsError> {
        match self.options.get(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(SettingsError::at(key, "must be true or false")),
        }
    }

    /// A list of texts; empty if omitted.
    pub fn list(&self, key: &str) -> Result<Vec<String>, SettingsError> {
        let type_error = || SettingsError::at(key, "must be a list of strings");
        match self.options.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
                texts.collect::<Option<Vec<_>>>().ok_or_else(type_error)
            }
            Some(_) => Err(type_error()),
        }
    }
}
