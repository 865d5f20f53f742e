//! Report of every fault of a configuration at once: faulty settings are removed, and the rest is
//! checked again. Faults that only follow from a removal are not reported: if a provider is
//! removed, the models with routes to it are removed too.

use std::path::Path;

use merge::Merge as _;
use toml::{Table, Value};

use crate::file;
use crate::settings_file::{self, SettingsFile};
use crate::{Config, ConfigError, Settings};

/// Maximum number of faults that are reported.
const MAX_FAULTS: usize = 100;
/// Without these an entry of `[providers]` or `[models]` would have other faults.
const REQUIRED_KEYS: [&str; 6] = [
    "protocol", "api_key", "api_keys", "base_url", "kind", "routes",
];

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
        // Ends in any case: a round either removes something from the table or is the last.
        while faults.len() < MAX_FAULTS && remove_faulty(&mut table, &original, &latest) {
            latest = match checked(load_without(flags, &source, &table)) {
                Ok(_) => break,
                Err(remaining) => remaining
                    .into_iter()
                    .map(|fault| source.locate_again(fault))
                    .collect(),
            };
            // The same faults again: the removed settings were not their cause.
            let is_repeated = latest.iter().all(|fault| faults.contains(fault));
            faults.extend(latest.iter().cloned());
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

/// Removes the settings that the faults name; false if none of them is in the file.
fn remove_faulty(table: &mut Table, original: &Table, faults: &[ConfigError]) -> bool {
    let before = table.clone();
    for fault in faults {
        let key = fault.key().unwrap_or_default();
        let path = settings_file::path_of(table, key);
        // An unknown key is removed alone, unless it is in a list.
        let is_removed_alone = fault.is_unknown_key() && path.join(".") == key;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        // After a wrong limit is removed, the rest of its model is still checked. Without a
        // provider or routes, the rest would only show faults that follow from the first.
        let depth = match path.as_slice() {
            [] => continue,
            _ if is_removed_alone => path.len(),
            ["providers" | "models", _, leaf, ..] if !REQUIRED_KEYS.contains(leaf) => 3,
            ["providers" | "models", _, ..] => 2,
            _ => 1,
        };
        remove(table, &path[..depth]);
    }
    remove_dependents(table, original);
    *table != before
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
