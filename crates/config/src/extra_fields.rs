//! Extra fields that only a provider understands: a route's additions to its requests, and a
//! protocol's options. Strings in them may be references (`env:`, `file:`).

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::masked_url::MASK;
use mediagate_model::secret::{SecretError, SecretSource};

/// Fields by their names. Any value may be secret: only the names, and the source of a value, are
/// shown.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct ExtraFields(Map<String, Value>);

impl ExtraFields {
    /// The fields with their values, for requests to the provider.
    pub const fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the fields with references that cannot be read.
    pub(super) fn retain_readable(&mut self) {
        self.0.retain(|_, value| can_be_read(value));
    }

    /// Replaces each `env:NAME` by the variable's value; a protocol that accepts `file:PATH` reads
    /// the file itself. An error comes with the name of the field.
    pub(super) fn read_variables(&mut self) -> Result<(), (String, SecretError)> {
        let is_variable = |value: &Value| {
            let text = value.as_str();
            text.is_some_and(|text| text.starts_with("env:"))
        };
        let mut variables = self.0.iter_mut().filter(|(_, value)| is_variable(value));
        variables.try_for_each(|(name, value)| {
            resolve_references(value).map_err(|error| (name.clone(), error))
        })
    }

    /// Replaces references (`env:`, `file:`) by their values, at any depth.
    pub(super) fn read(&mut self) -> Result<(), SecretError> {
        self.0.values_mut().try_for_each(resolve_references)
    }
}

/// Whether everything that a value refers to can be read.
fn can_be_read(value: &Value) -> bool {
    resolve_references(&mut value.clone()).is_ok()
}

fn resolve_references(value: &mut Value) -> Result<(), SecretError> {
    match value {
        Value::String(text) => {
            if let Some(source) = reference(text) {
                source.read()?.expose().clone_into(text);
            }
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(resolve_references),
        Value::Object(fields) => fields.values_mut().try_for_each(resolve_references),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// The source that a text refers to; `None` if the text is the value itself.
fn reference(text: &str) -> Option<SecretSource> {
    match SecretSource::from(text.to_owned()) {
        SecretSource::Value(_) => None,
        source => Some(source),
    }
}

/// Masks a value: only its source is shown, because it may be secret.
pub(super) fn mask(value: &Value) -> String {
    let source = value.as_str().and_then(reference);
    source.map_or_else(|| MASK.to_owned(), |source| source.to_string())
}

impl Serialize for ExtraFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, mask(value))))
    }
}

impl fmt::Debug for ExtraFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the values, any of which may be a secret.
        f.debug_set().entries(self.0.keys()).finish()
    }
}
