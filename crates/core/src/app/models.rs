//! The models on offer, embedded and hosted, as of the last reload.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::catalog::{Catalog, config_lints};
use crate::upstream::{self, Upstream};
use mediagate_config::effective::EffectiveSettings;
use mediagate_config::{Config, ConfigError, ModelConfig, Settings};
use mediagate_media::engines::own_models::InstalledModels;
use mediagate_model::clock::Timestamp;

pub struct ModelRegistry {
    /// The settings that the models come from.
    pub settings: EffectiveSettings,
    /// The hosted providers.
    pub upstream: Upstream,
    /// The operator's own models, by their files.
    pub installed_models: InstalledModels,
    pub catalog: ArcSwap<Catalog>,
}

impl ModelRegistry {
    pub(super) fn open(config: &Config, now: Timestamp) -> Result<Self, ConfigError> {
        let sites = upstream::sites(&config.models, config, None)?;
        let installed_models =
            InstalledModels::new(&config.models_folder, config.onnx_library.clone());
        installed_models.scan();
        let catalog = Catalog::new(&config.models, installed_models.models(), &sites, now)?;
        Ok(Self {
            settings: EffectiveSettings::new(&config.models),
            upstream: Upstream::new(sites),
            installed_models,
            catalog: ArcSwap::from_pointee(catalog),
        })
    }

    /// Reloads models, prices and providers; if anything is invalid, nothing changes. Blocks while
    /// new models of the operator are loaded.
    pub fn reload(
        &self,
        settings: &Settings,
        config: &Config,
        now: Timestamp,
    ) -> Result<(), ConfigError> {
        // Everything that can fail is done before anything is replaced.
        let models = Config::reload(settings)?;
        let previous_sites = self.upstream.sites();
        let sites = upstream::sites(&models, config, Some(&previous_sites))?;
        self.installed_models.scan();
        let catalog = Catalog::new(&models, self.installed_models.models(), &sites, now)?;
        // Providers first: a reader of the new catalog must find the providers of its routes.
        self.upstream.replace(sites);
        self.catalog.store(Arc::new(catalog));
        self.warn_of_config_lints(&models, now);
        self.settings.apply_models(models);
        Ok(())
    }

    /// Logs what `config check` would refuse. These faults do not prevent the start: the settings
    /// are readable, and the known facts about a provider may be outdated.
    pub fn warn_of_config_lints(&self, models: &ModelConfig, now: Timestamp) {
        let (sites, catalog) = (self.upstream.sites(), self.catalog.load());
        for lint in config_lints::find(models, &sites, &catalog, now) {
            tracing::warn!("{lint}");
        }
    }
}
