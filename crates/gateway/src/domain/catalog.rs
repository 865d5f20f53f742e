//! The models on offer, and what callers' names for them mean.

use std::collections::BTreeMap;

use crate::config::file::ModelSettings;
use crate::config::{ConfigError, ModelConfig};
use crate::error::{Error, ErrorCode};
use crate::model::account::ApiKey;
use crate::model::catalog::Model;
use crate::model::money::Price;
use crate::model::task::TaskKind;
use crate::providers;

/// The models as the settings leave them.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalog {
    models: Vec<Model>,
    default_video: String,
    default_music: String,
}

impl Catalog {
    /// The embedded models, changed by what the operator says of them.
    pub fn new(config: &ModelConfig) -> Result<Self, ConfigError> {
        let mut models = providers::embedded_models();
        for (id, settings) in &config.models {
            apply(&mut models, id, settings)?;
        }
        models.retain(|model| is_enabled(&config.models, &model.id));
        let catalog = Self {
            models,
            default_video: config.default_model.clone(),
            default_music: config.default_music_model.clone(),
        };
        catalog.check_default("default_model", &catalog.default_video, TaskKind::Video)?;
        catalog.check_default(
            "default_music_model",
            &catalog.default_music,
            TaskKind::Music,
        )?;
        Ok(catalog)
    }

    fn check_default(&self, key: &str, name: &str, kind: TaskKind) -> Result<(), ConfigError> {
        // A default may be left pointing at a model that was switched off, as
        // long as another of its kind is not there to be meant instead.
        let fits = self.named(name).is_some_and(|model| model.kind() == kind);
        if fits || !self.models.iter().any(|model| model.kind() == kind) {
            return Ok(());
        }
        Err(ConfigError::Value {
            key: key.into(),
            message: format!("there is no {kind} model named {name:?}"),
        })
    }

    /// Every model.
    pub fn models(&self) -> &[Model] {
        &self.models
    }

    /// The model that answers to this name; a model's own name goes before aliases.
    pub fn named(&self, name: &str) -> Option<&Model> {
        let own = self.models.iter().find(|model| model.id == name);
        own.or_else(|| self.models.iter().find(|model| model.answers_to(name)))
    }

    /// The name that is meant when a request of this kind names no model.
    pub fn default_name(&self, kind: TaskKind) -> &str {
        match kind {
            TaskKind::Video => &self.default_video,
            TaskKind::Music => &self.default_music,
        }
    }

    /// The model of this kind that a caller with this key means; `param` is the
    /// field that named it.
    pub fn choose(
        &self,
        key: &ApiKey,
        kind: TaskKind,
        name: &str,
        param: &str,
    ) -> Result<Model, Error> {
        let not_found = || {
            let message =
                format!("There is no model named {name:?}. See /v1/models for those there are.");
            Error::at(ErrorCode::ModelNotFound, param, message)
        };
        let model = self.named(name).ok_or_else(not_found)?;
        if model.kind() != kind {
            let message = format!(
                "{:?} is a {} model; a {kind} model is needed here.",
                model.id,
                model.kind()
            );
            return Err(Error::at(ErrorCode::UnsupportedValue, param, message));
        }
        if !key.may_use(&model.id) {
            return Err(Error::at(
                ErrorCode::ModelNotAllowed,
                param,
                format!("The API key may not use {:?}.", model.id),
            ));
        }
        Ok(model.clone())
    }
}

fn is_enabled(settings: &BTreeMap<String, ModelSettings>, id: &str) -> bool {
    settings
        .get(id)
        .and_then(|model| model.enabled)
        .unwrap_or(true)
}

fn apply(models: &mut [Model], id: &str, settings: &ModelSettings) -> Result<(), ConfigError> {
    let wrong = |message: String| ConfigError::Value {
        key: format!("models.{id}"),
        message,
    };
    let known = models
        .iter()
        .map(|model| model.id.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    let model = models
        .iter_mut()
        .find(|model| model.id == id)
        .ok_or_else(|| wrong(format!("there is no such model; there are {known}")))?;
    if let Some(price) = settings.price {
        if !price.unit.fits(model.kind()) {
            return Err(wrong(format!(
                "the unit {} cannot be counted for a {} model",
                price.unit,
                model.kind()
            )));
        }
        model.price = Some(Price {
            unit: price.unit,
            per_unit: price.usd,
        });
    }
    if let Some(aliases) = &settings.aliases {
        model.aliases.clone_from(aliases);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::PriceSettings;
    use crate::model::catalog::PriceUnit;
    use crate::model::money::Micros;

    fn config(models: &[(&str, ModelSettings)]) -> ModelConfig {
        ModelConfig {
            default_model: "animatic-1".into(),
            default_music_model: "stems-dsp-1".into(),
            models: models
                .iter()
                .map(|(id, settings)| ((*id).to_owned(), settings.clone()))
                .collect(),
        }
    }

    const UNCHANGED: ModelSettings = ModelSettings {
        price: None,
        aliases: None,
        enabled: None,
    };

    #[test]
    fn names_and_aliases_lead_to_their_model() {
        let catalog = Catalog::new(&config(&[])).unwrap();
        assert_eq!(catalog.named("chirp-auk").unwrap().id, "stems-dsp-1");
        assert_eq!(catalog.named("animatic-1").unwrap().id, "animatic-1");
        assert!(catalog.named("sora-2").is_none());
    }

    #[test]
    fn settings_change_price_and_availability() {
        let price = PriceSettings {
            unit: PriceUnit::Second,
            usd: Micros::new(100_000),
        };
        let priced = ModelSettings {
            price: Some(price),
            ..UNCHANGED
        };
        let catalog = Catalog::new(&config(&[("animatic-1", priced.clone())])).unwrap();
        assert_eq!(
            catalog
                .named("animatic-1")
                .unwrap()
                .price
                .unwrap()
                .per_unit
                .get(),
            100_000
        );
        assert!(
            Catalog::new(&config(&[("stems-dsp-1", priced)])).is_err(),
            "stems are not counted in seconds"
        );
        assert!(
            Catalog::new(&config(&[("sora-2", UNCHANGED)])).is_err(),
            "no such model"
        );
        let off = ModelSettings {
            enabled: Some(false),
            ..UNCHANGED
        };
        assert!(
            Catalog::new(&config(&[("animatic-1", off)]))
                .unwrap()
                .named("animatic-1")
                .is_none()
        );
    }
}
