//! Routes to models whose entry in the catalogue nobody has verified. `config check` names them: the
//! operator should order one short piece before selling such a model.

use mediagate_config::{ConfigError, ModelConfig};

use super::Catalog;
use crate::upstream::ProviderSites;

/// One warning for each route whose entry says that it is unverified.
pub fn find(config: &ModelConfig, sites: &ProviderSites, catalog: &Catalog) -> Vec<ConfigError> {
    let models = catalog.models().iter();
    let routes = models.flat_map(|model| model.routes().iter().map(move |route| (model, route)));
    let warnings = routes.filter_map(|(model, route)| {
        let site = sites.get(&route.provider)?;
        let known = config.catalogue.find(&site.config.protocol, &route.model)?;
        let reason = known.unverified.as_ref()?;
        Some(config.locate(ConfigError::Value {
            key: format!("models.{}", model.id),
            message: format!("{}: {} is unverified: {reason}", route.provider, known.id),
        }))
    });
    warnings.collect()
}
