//! Report of every fault of a configuration at once: faulty settings are removed, and the rest is
//! checked again. Faults that only follow from a removal are not reported: if a provider is
//! removed, the models with routes to it are removed too. A provider or model whose key, URL, kind
//! or routes are faulty is first checked without them, because it may have other faults.

use std::collections::BTreeSet;
use std::path::Path;

use merge::Merge as _;
use toml::{Table, Value};

use crate::file;
use crate::settings_file::{self, SettingsFile};
use crate::{Config, ConfigError, Settings};

/// Maximum number of faults that are reported.
const MAX_FAULTS: usize = 100;
/// Without these, faults of an entry of `[providers]` or `[models]` may only follow from their
/// removal.
const NEEDED_KEYS: [&str; 5] = ["api_key", "api_keys", "base_url", "kind", "routes"];

/// Reads the settings and has them checked by `check`, repeatedly, each time without the faulty
/// settings. Returns the settings, or all faults in the order of the file.
pub fn check(
    flags: &Settings,
    mut check: impl FnMut(&Config) -> Result<(), Vec<ConfigError>>,
) -> Result<Config, Vec<ConfigError>> {
    let mut checked = |config: Result<Config, ConfigError>| {
        let config = config.map_err(|error| vec![error])?;
        check(&config).map(|()| config)
    };
    let mut faults = match checked(Config::load(flags)) {
        Ok(config) => return Ok(config),
        Err(faults) => faults,
    };
    if let Some(source) = flags.config.as_deref().and_then(read_file) {
        // A file that is not TOML has nothing that could be removed, and its one fault is reported.
        let mut table: Table = toml::from_str(&source.text).unwrap_or_default();
        let original = table.clone();
        let mut latest = faults.clone();
        let mut replaced = BTreeSet::new();
        // Ends in any case: a round either removes or replaces something, each only once, or is the
        // last.
        while faults.len() < MAX_FAULTS
            && remove_faulty(&mut table, &original, &latest, &mut replaced)
        {
            latest = match checked(load_without(flags, &source, &table)) {
                Ok(_) => break,
                Err(remaining) => remaining
                    .into_iter()
                    .map(|fault| source.locate_again(fault))
                    .collect(),
            };
            let (following, own): (Vec<_>, Vec<_>) = latest
                .iter()
                .cloned()
                .partition(|fault| replaced.iter().any(|entry| entry.explains(fault)));
            // The same faults again: the removed settings were not their cause.
            let is_repeated =
                following.is_empty() && own.iter().all(|fault| faults.contains(fault));
            faults.extend(own);
            if is_repeated {
                break;
            }
        }
    }
    faults.sort_by_key(ConfigError::line);
    // An unknown table may be found twice: first by its entries, then by itself.
    faults.dedup_by(|first, second| first.to_string() == second.to_string());
    Err(faults)
}

fn read_file(path: &Path) -> Option<SettingsFile> {
    Some(SettingsFile {
        path: path.display().to_string(),
        text: std::fs::read_to_string(path).ok()?,
    })
}

/// The settings with `table` in place of the file, whose line numbers are still used in messages.
fn load_without(
    flags: &Settings,
    source: &SettingsFile,
    table: &Table,
) -> Result<Config, ConfigError> {
    let text = toml::to_string(table).unwrap_or_default();
    let mut settings = flags.clone();
    let mut reduced = file::parse(&source.path, &text)?;
    reduced.source = Some(source.clone());
    settings.merge(reduced);
    Config::of(settings)
}

/// A faulty setting of a provider or model that was replaced or removed, so that the rest of its
/// entry can be checked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ReplacedSetting {
    /// The dotted key of the provider or model.
    entry: String,
    /// The dotted key of the setting.
    key: String,
}

impl ReplacedSetting {
    /// Whether this fault may only follow from the replacement.
    fn explains(&self, fault: &ConfigError) -> bool {
        fault.key().is_some_and(|key| {
            let is_in_setting = key
                .strip_prefix(&self.key)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            key == self.entry || is_in_setting
        })
    }
}

/// Puts a value that is right for most protocols in the place of a faulty setting.
fn replace(table: &mut Table, kind: &str, name: &str, leaf: &str) {
    let entry = table
        .get_mut(kind)
        .and_then(|entries| entries.get_mut(name));
    let Some(entry) = entry.and_then(Value::as_table_mut) else {
        return;
    };
    entry.remove(leaf);
    match leaf {
        "api_key" | "api_keys" => {
            entry.remove("api_keys");
            entry.insert("api_key".into(), Value::String("stand-in".into()));
        }
        "base_url" => {
            let url = Value::String("https://provider.example/v1".into());
            entry.insert(leaf.into(), url);
        }
        // A model is checked without its kind or routes.
        _ => {}
    }
}

/// Removes or replaces the settings that the faults name; false if none of them is in the file.
fn remove_faulty(
    table: &mut Table,
    original: &Table,
    faults: &[ConfigError],
    replaced: &mut BTreeSet<ReplacedSetting>,
) -> bool {
    let before = table.clone();
    let replaced_before = replaced.len();
    for fault in faults {
        let key = fault.key().unwrap_or_default();
        let path = settings_file::path_of(table, key);
        // An unknown key is removed alone, unless it is in a list.
        let is_removed_alone = fault.is_unknown_key() && path.join(".") == key;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        if let [kind @ ("providers" | "models"), name, leaf, ..] = path.as_slice()
            && NEEDED_KEYS.contains(leaf)
            && replaced.insert(ReplacedSetting {
                entry: format!("{kind}.{name}"),
                key: format!("{kind}.{name}.{leaf}"),
            })
        {
            replace(table, kind, name, leaf);
            continue;
        }
        // After a wrong limit is removed, the rest of its model is still checked. With another
        // protocol, or if the replaced setting is faulty again, the rest would only show faults
        // that follow from the first.
        let depth = match path.as_slice() {
            [] => continue,
            _ if is_removed_alone => path.len(),
            ["providers" | "models", _, leaf, ..]
                if *leaf != "protocol" && !NEEDED_KEYS.contains(leaf) =>
            {
                3
            }
            ["providers" | "models", _, ..] => 2,
            _ => 1,
        };
        remove(table, &path[..depth]);
    }
    remove_dependents(table, original);
    *table != before || replaced.len() > replaced_before
}

fn remove(table: &mut Table, path: &[&str]) {
    match path {
        [] => {}
        [last] => drop(table.remove(*last)),
        [first, rest @ ..] => {
            if let Some(Value::Table(inner)) = table.get_mut(*first) {
                remove(inner, rest);
            }
        }
    }
}

/// Removes the models whose provider was removed, and the defaults whose model was removed.
fn remove_dependents(table: &mut Table, original: &Table) {
    let names = |table: &Table, kind: &str| -> Vec<String> {
        let entries = table.get(kind).and_then(Value::as_table);
        entries.into_iter().flat_map(Table::keys).cloned().collect()
    };
    let removed = |table: &Table, kind: &str| -> Vec<String> {
        let remaining = names(table, kind);
        let mut removed = names(original, kind);
        removed.retain(|name| !remaining.contains(name));
        removed
    };
    let providers = removed(table, "providers");
    if let Some(Value::Table(models)) = table.get_mut("models") {
        models.retain(|_, model| {
            let routes = model.get("routes").and_then(Value::as_array);
            !routes.into_iter().flatten().any(|route| {
                let provider = route.get("provider").and_then(Value::as_str);
                provider.is_some_and(|name| providers.iter().any(|removed| removed == name))
            })
        });
    }
    let models = removed(table, "models");
    for key in ["default_model", "default_music_model"] {
        let default = table.get(key).and_then(Value::as_str);
        if default.is_some_and(|name| models.iter().any(|removed| removed == name)) {
            table.remove(key);
        }
    }
}
