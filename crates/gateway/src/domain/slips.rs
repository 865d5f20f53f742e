//! Slips in what an operator says of providers and models: it can be read, and
//! will not work, as far as that shows without asking a provider.
//!
//! `config check` refuses them. A server does not: a guess that is wrong must
//! not keep it from starting.

use providers::{Kind, Limits, adapters};

use crate::config::{ConfigError, ModelConfig};
use crate::domain::catalog::Catalog;
use crate::model::catalog::{Model, Route};
use crate::upstream::{Site, Sites};

/// Every slip, by its line where it has one.
pub fn find(config: &ModelConfig, sites: &Sites, catalog: &Catalog) -> Vec<ConfigError> {
    let of_sites = sites.iter().flat_map(|(name, site)| of_site(name, site));
    let of_routes = catalog.models().iter().flat_map(|model| {
        let routes = model.routes().iter();
        routes.flat_map(|route| of_route(model, route, sites))
    });
    let all = of_sites.chain(of_routes);
    all.map(|slip| config.locate(slip)).collect()
}

fn of_site(name: &str, site: &Site) -> Vec<ConfigError> {
    let slip = |key: &str, message: String| ConfigError::Value {
        key: format!("providers.{name}.{key}"),
        message,
    };
    let adapter = site.provider.adapter();
    let protocol = providers::protocol(&site.config.protocol);
    let own = adapter
        .base_url()
        .or(protocol.and_then(|protocol| protocol.base_url));
    let address = site
        .config
        .base_url
        .as_ref()
        .and_then(|url| adapters::fault_of_address(url, own));
    let mut secrets = site.config.secrets.iter();
    let secret = secrets.find_map(|secret| adapter.fault_of_secret(secret));
    let address = address.map(|message| slip("base_url", message));
    let secret = secret.map(|message| slip("api_key", message.to_owned()));
    address.into_iter().chain(secret).collect()
}

fn of_route(model: &Model, route: &Route, sites: &Sites) -> Vec<ConfigError> {
    let site = sites.get(&route.provider);
    // Callers' own names say nothing yet.
    let Some(site) = site.filter(|_| route.model != "*") else {
        return Vec::new();
    };
    let slip = |key: &str, message: String| ConfigError::Value {
        key: format!("models.{}.{key}", model.id),
        message,
    };
    let adapter = site.provider.adapter();
    let (kind, sizes) = match &route.limits {
        Limits::Video(video) => (Kind::Video, &video.sizes[..]),
        Limits::Music(_) => (Kind::Music, &[][..]),
    };
    let name = adapter
        .fault_of_model(kind, &route.model)
        .map(|message| slip("routes", message));
    let size = sizes
        .iter()
        .find(|size| !adapter.can_say(&route.model, **size))
        .map(|(width, height)| {
            let message = format!(
                "{} cannot be asked for {width}x{height}: leave it out of sizes",
                route.provider
            );
            slip("limits", message)
        });
    name.into_iter().chain(size).collect()
}
