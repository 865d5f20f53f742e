//! Report of every fault of a configuration at once: faulty settings are removed, and the rest is
//! checked again. Faults that only follow from a removal are not reported: if a provider is
//! removed, the models with routes to it are removed too.

use std::path::Path;

use merge::Merge as _;
use toml::{Table, Value};

use crate::file;
use crate::settings_file::{self, SettingsFile};
use crate::{Config, ConfigError, Settings};

/// Most faults that are reported.
const MAX_FAULTS: usize = 100;
/// Without these an entry of `[providers]` or `[models]` would have other faults.
const NEEDED: [&str; 6] = [
    "protocol", "api_key", "api_keys", "base_url", "kind", "routes",
];

/// Reads the settings and has them checked by `check`, repeatedly, each time without the faulty
/// settings. Returns the settings, or all faults in the order of the file.
pub fn check(
    flags: &Settings,
    check: impl Fn(&Config) -> Result<(), Vec<ConfigError>>,
) -> Result<Config, Vec<ConfigError>> {
    let checked = |config: Result<Config, ConfigError>| {
        let config = config.map_err(|error| vec![error])?;
        check(&config).map(|()| config)
    };
    let mut faults = match checked(Config::load(flags)) {
        Ok(config) => return Ok(config),
        Err(faults) => faults,
    };
    if let Some(source) = flags.config.as_deref().and_then(read_file) {
        // A file that is no TOML has nothing that could be removed, and its one fault is reported.
        let mut table: Table = toml::from_str(&source.text).unwrap_or_default();
        let all = table.clone();
        let mut new = faults.clone();
        // Ends in any case: a round either removes something from the table or is the last.
        while faults.len() < MAX_FAULTS && take_out(&mut table, &all, &new) {
            new = match checked(load_without(flags, &source, &table)) {
                Ok(_) => break,
                Err(found) => found
                    .into_iter()
                    .map(|one| source.locate_again(one))
                    .collect(),
            };
            // The same faults again: the removed settings were not their cause.
            let is_known = new.iter().all(|one| faults.contains(one));
            faults.extend(new.iter().cloned());
            if is_known {
                break;
            }
        }
    }
    faults.sort_by_key(ConfigError::line);
    faults.dedup();
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
    let mut set = flags.clone();
    let mut rest = file::parse(&source.path, &text)?;
    rest.source = Some(source.clone());
    set.merge(rest);
    Config::of(set)
}

/// Removes the settings that the faults name; false if none of them is in the file.
fn take_out(table: &mut Table, all: &Table, faults: &[ConfigError]) -> bool {
    let before = table.clone();
    for fault in faults {
        let key = fault.key().unwrap_or_default();
        let path = settings_file::path_of(table, key);
        // An unknown key is removed alone, unless it is in a list.
        let is_alone = fault.is_unknown_key() && path.join(".") == key;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        // A wrong limit leaves the rest of its model to be checked. Without a provider or routes,
        // the rest would only show faults that follow from the first.
        let whole = match path.as_slice() {
            [] => continue,
            _ if is_alone => path.len(),
            ["providers" | "models", _, leaf, ..] if !NEEDED.contains(leaf) => 3,
            ["providers" | "models", _, ..] => 2,
            _ => 1,
        };
        remove(table, &path[..whole]);
    }
    remove_followers(table, all);
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
fn remove_followers(table: &mut Table, all: &Table) {
    let names = |of: &Table, kind: &str| -> Vec<String> {
        let entries = of.get(kind).and_then(Value::as_table);
        entries.into_iter().flat_map(Table::keys).cloned().collect()
    };
    let gone = |table: &Table, kind: &str| -> Vec<String> {
        let left = names(table, kind);
        let mut gone = names(all, kind);
        gone.retain(|name| !left.contains(name));
        gone
    };
    let providers = gone(table, "providers");
    if let Some(Value::Table(models)) = table.get_mut("models") {
        models.retain(|_, model| {
            let routes = model.get("routes").and_then(Value::as_array);
            !routes.into_iter().flatten().any(|route| {
                let provider = route.get("provider").and_then(Value::as_str);
                provider.is_some_and(|name| providers.iter().any(|gone| gone == name))
            })
        });
    }
    let models = gone(table, "models");
    for key in ["default_model", "default_music_model"] {
        let is_gone = table.get(key).and_then(Value::as_str);
        if is_gone.is_some_and(|name| models.iter().any(|gone| gone == name)) {
            table.remove(key);
        }
    }
}
