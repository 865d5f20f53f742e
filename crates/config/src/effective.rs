//! Effective settings: those that were read at the start, with what was reloaded since.

use std::collections::BTreeMap;
use std::sync::Mutex;

use arc_swap::ArcSwap;
use locks::lock;

use crate::{Config, ModelConfig};
use mediagate_model::clock::Timestamp;

/// The settings in effect, and the outcome of the last reload.
#[derive(Debug)]
pub struct EffectiveSettings {
    models: ArcSwap<ModelConfig>,
    last_reload: Mutex<Option<ReloadOutcome>>,
    /// Settings that differ in another process, each with the time at which that was first seen.
    differing: Mutex<BTreeMap<&'static str, Timestamp>>,
}

/// The outcome of a reload.
#[derive(Debug, Clone)]
pub struct ReloadOutcome {
    pub at: Timestamp,
    /// Why the settings were refused.
    pub error: Option<String>,
}

impl EffectiveSettings {
    pub fn new(models: &ModelConfig) -> Self {
        Self {
            models: ArcSwap::from_pointee(models.clone()),
            last_reload: Mutex::default(),
            differing: Mutex::default(),
        }
    }

    /// Puts these settings into effect.
    pub fn apply_models(&self, models: ModelConfig) {
        self.models.store(models.into());
    }

    /// Records the outcome of a reload.
    pub fn note_reload(&self, reload: ReloadOutcome) {
        *lock(&self.last_reload) = Some(reload);
    }

    pub fn last_reload(&self) -> Option<ReloadOutcome> {
        let last_reload = lock(&self.last_reload);
        last_reload.clone()
    }

    /// The settings that differ in another process on the database, each with the time at which
    /// that was first seen.
    pub fn differing(&self) -> Vec<(&'static str, Timestamp)> {
        let differing = lock(&self.differing);
        differing
            .iter()
            .map(|(name, since)| (*name, *since))
            .collect()
    }

    /// Notes whether this setting differs in another process. Returns whether that has changed.
    pub fn note_difference(&self, name: &'static str, differs: bool, now: Timestamp) -> bool {
        let mut differing = lock(&self.differing);
        let differed = differing.contains_key(name);
        // The time of the first difference is kept until the settings agree again.
        if !differs {
            differing.remove(name);
        } else if !differed {
            differing.insert(name, now);
        }
        differed != differs
    }

    /// The names of providers and of models with settings.
    pub fn names(&self) -> [Vec<String>; 2] {
        let models = self.models.load();
        let providers = models.providers.keys().cloned().collect();
        [providers, models.models.keys().cloned().collect()]
    }

    /// All settings as TOML, secrets masked.
    pub fn show(&self, config: &Config) -> String {
        let current = Config {
            models: ModelConfig::clone(&self.models.load()),
            ..config.clone()
        };
        current.show()
    }
}
