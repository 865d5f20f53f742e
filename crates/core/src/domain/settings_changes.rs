//! Changes of the settings by a reload, as the audit log records them: only what differs, each
//! value as `/v1/admin/config` shows it. Secrets are masked there, so a changed secret is only
//! mentioned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::app::App;
use crate::catalog::Catalog;
use crate::upstream::{ProviderSite, ProviderSites};
use mediagate_model::catalog::Model;

/// Maximum number of changes in an entry.
const MAX_CHANGES: usize = 100;
/// Longest value in an entry, in characters.
const MAX_VALUE_CHARS: usize = 500;

/// The settings in effect at a moment.
pub(super) struct SettingsSnapshot {
    /// All settings by their names in the file, secrets masked.
    shown: Value,
    /// The names of providers and models.
    names: [Vec<String>; 2],
    sites: Arc<ProviderSites>,
    catalog: Arc<Catalog>,
}

impl SettingsSnapshot {
    pub(super) fn take(app: &App) -> Self {
        let text = app.models.settings.show(&app.config);
        Self {
            shown: toml::from_str(&text).unwrap_or_default(),
            names: app.models.settings.names(),
            sites: app.models.upstream.sites(),
            catalog: app.models.catalog.load_full(),
        }
    }

    /// The values of the settings that differ in `later`, here and there, by the settings' names.
    pub(super) fn changes(&self, later: &Self) -> (Value, Value) {
        let mut changed = ChangedValues::default();
        let names = self.names.iter().zip(&later.names);
        for (kind, (before, after)) in ["providers", "models"].into_iter().zip(names) {
            if before != after {
                changed.add(kind, &json!(before), &json!(after));
            }
        }
        changed.compare("", &self.shown, &later.shown);
        for (name, site) in &*later.sites {
            if let Some(previous) = self.sites.get(name) {
                changed.compare_secrets(&format!("providers.{name}"), previous, site);
            }
        }
        for model in later.catalog.models() {
            let path = format!("models.{}", model.id);
            let previous = self.catalog.with_id(&model.id);
            let differs = previous.is_some_and(|previous| extras(previous) != extras(model));
            if differs && !changed.contains(&format!("{path}.routes")) {
                changed.add_masked(&path);
            }
        }
        changed.finish()
    }
}

/// The changed settings, by name.
#[derive(Default)]
struct ChangedValues {
    before: Map<String, Value>,
    after: Map<String, Value>,
    /// The number of changes that were left out.
    omitted: usize,
}

impl ChangedValues {
    fn add(&mut self, name: &str, before: &Value, after: &Value) {
        if self.before.len() == MAX_CHANGES {
            self.omitted += 1;
            return;
        }
        self.before.insert(name.to_owned(), shortened(before));
        self.after.insert(name.to_owned(), shortened(after));
    }

    /// Adds a value that is never shown.
    fn add_masked(&mut self, name: &str) {
        self.add(name, &json!("********"), &json!("******** (changed)"));
    }

    /// Whether a setting is listed whose name begins like this.
    fn contains(&self, beginning: &str) -> bool {
        self.before.keys().any(|name| name.starts_with(beginning))
    }

    /// Adds the differences between two values of a setting: in tables, and in lists of tables,
    /// those between their members.
    fn compare(&mut self, path: &str, before: &Value, after: &Value) {
        if before == after {
            return;
        }
        let (Some(old), Some(new)) = (members(before), members(after)) else {
            self.add(path.trim_start_matches('.'), before, after);
            return;
        };
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for name in names {
            let old = old.get(name).copied().unwrap_or(&Value::Null);
            let new = new.get(name).copied().unwrap_or(&Value::Null);
            self.compare(&format!("{path}{name}"), old, new);
        }
    }

    /// Adds the digests of changed keys, by which submissions name them too. Another masked value
    /// has no digest: a short one could be guessed.
    fn compare_secrets(&mut self, path: &str, before: &ProviderSite, after: &ProviderSite) {
        let (old, new) = (credential_ids(before), credential_ids(after));
        if old != new {
            self.add(&format!("{path}.credentials"), &json!(old), &json!(new));
        } else if before.config != after.config && !self.contains(&format!("{path}.")) {
            self.add_masked(path);
        }
    }

    fn finish(mut self) -> (Value, Value) {
        if self.omitted > 0 {
            self.after
                .insert("more_changes".to_owned(), json!(self.omitted));
        }
        (Value::Object(self.before), Value::Object(self.after))
    }
}

/// The members of a table, or the tables of a list, by their part of the path. What is not set has
/// none. `None` for any other value.
fn members(value: &Value) -> Option<BTreeMap<String, &Value>> {
    match value {
        Value::Null => Some(BTreeMap::new()),
        Value::Object(members) => {
            let members = members.iter();
            Some(
                members
                    .map(|(name, value)| (format!(".{name}"), value))
                    .collect(),
            )
        }
        Value::Array(items) if items.iter().all(Value::is_object) => {
            let items = items.iter().enumerate();
            Some(
                items
                    .map(|(index, item)| (format!("[{index}]"), item))
                    .collect(),
            )
        }
        _ => None,
    }
}

fn shortened(value: &Value) -> Value {
    let text = value.to_string();
    if text.chars().count() <= MAX_VALUE_CHARS {
        return value.clone();
    }
    let beginning: String = text.chars().take(MAX_VALUE_CHARS).collect();
    Value::String(format!("{beginning}…"))
}

/// The ids of a provider's keys, each a position and a digest.
fn credential_ids(site: &ProviderSite) -> Vec<&str> {
    let credentials = site.credentials.iter();
    credentials
        .map(|credential| credential.id.as_str())
        .collect()
}

/// What a model's routes add to requests, which is masked wherever it is shown.
fn extras(model: &Model) -> Vec<&Map<String, Value>> {
    model.routes().iter().map(|route| &route.extra).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(before: &Value, after: &Value) -> (Value, Value) {
        let mut changed = ChangedValues::default();
        changed.compare("", before, after);
        changed.finish()
    }

    #[test]
    fn only_differences_are_listed() {
        let before = json!({"log": "info", "models": {
            "film": {"price": {"unit": "second", "usd": "0.10"}, "aliases": ["a", "b"],
                "routes": [{"provider": "x"}, {"provider": "y", "weight": 1}]},
            "gone": {"kind": "video"},
        }});
        let after = json!({"log": "info", "models": {
            "film": {"price": {"unit": "second", "usd": "0.90"}, "aliases": ["a"],
                "routes": [{"provider": "x"}, {"provider": "z"}, {"provider": "y"}]},
        }});
        let expected = (
            json!({"models.film.price.usd": "0.10", "models.film.aliases": ["a", "b"],
                "models.film.routes[1].provider": "y", "models.film.routes[1].weight": 1,
                "models.film.routes[2].provider": null, "models.gone.kind": "video"}),
            json!({"models.film.price.usd": "0.90", "models.film.aliases": ["a"],
                "models.film.routes[1].provider": "z", "models.film.routes[1].weight": null,
                "models.film.routes[2].provider": "y", "models.gone.kind": null}),
        );
        assert_eq!(changes(&before, &after), expected);
        assert_eq!(changes(&after, &after), (json!({}), json!({})));
    }

    #[test]
    fn an_entry_has_a_limit() {
        let many: Map<String, Value> = (0..1000)
            .map(|number| (format!("m{number}"), json!("x".repeat(10_000))))
            .collect();
        let (before, after) = changes(&json!({}), &Value::Object(many));
        assert_eq!(before.as_object().unwrap().len(), MAX_CHANGES);
        assert_eq!(after["more_changes"], 1000 - MAX_CHANGES);
        assert!(after.to_string().len() < MAX_CHANGES * (MAX_VALUE_CHARS + 100));
    }
}
