//! Mistakes in the settings of providers and models: settings that can be read but will not work,
//! as far as that can be detected without calling a provider.
//!
//! `config check` rejects them. A server logs them and starts anyway: our knowledge of a provider
//! may be outdated, and a wrong guess must not stop it.

use providers::{MediaKind, ModelLimits, adapters};
use url::Url;

use crate::catalog::Catalog;
use crate::upstream::{ProviderSite, ProviderSites};
use mediagate_config::providers::LimitSettings;
use mediagate_config::{ConfigError, ModelConfig};
use mediagate_model::catalog::{Model, Route};
use mediagate_model::clock::Timestamp;

/// All mistakes, with their line if known.
pub fn find(
    config: &ModelConfig,
    sites: &ProviderSites,
    catalog: &Catalog,
    now: Timestamp,
) -> Vec<ConfigError> {
    let provider_errors = sites
        .iter()
        .flat_map(|(name, site)| lint_provider(name, site));
    let route_errors = catalog.models().iter().flat_map(|model| {
        let routes = model.routes().iter();
        routes.flat_map(|route| {
            let errors = lint_route(model, route, sites);
            errors
                .into_iter()
                .chain(lint_model_name(config, model, route, sites, now))
        })
    });
    let alias_errors = catalog
        .models()
        .iter()
        .flat_map(|model| lint_aliases(model, catalog));
    let errors = provider_errors.chain(route_errors).chain(alias_errors);
    errors.map(|error| config.locate(error)).collect()
}

fn lint_provider(name: &str, site: &ProviderSite) -> Vec<ConfigError> {
    let error = |key: &str, message: String| ConfigError::Value {
        key: format!("providers.{name}.{key}"),
        message,
    };
    let adapter = site.provider.adapter();
    let protocol = providers::protocol(&site.config.protocol);
    let default_url = adapter
        .base_url()
        .or(protocol.and_then(|protocol| protocol.base_url));
    let address = site
        .config
        .base_url
        .as_ref()
        .and_then(|base| adapters::fault_of_address(base.url(), default_url));
    let mut secrets = site.config.secrets.iter();
    let secret = secrets.find_map(|secret| {
        let common = adapters::fault_of_any_secret(secret);
        let fault = common.or_else(|| adapter.fault_of_secret(secret));
        fault.map(str::to_owned).or_else(|| {
            let protocol = &site.config.protocol;
            let foreign = || adapters::fault_of_foreign_secret(secret, protocol);
            has_default_host(site).then(foreign).flatten()
        })
    });
    let address = address.map(|message| error("base_url", message));
    let secret = secret.map(|message| error("api_key", message));
    address.into_iter().chain(secret).collect()
}

/// Aliases by which requests get another model, which has this name or comes first.
fn lint_aliases(model: &Model, catalog: &Catalog) -> Vec<ConfigError> {
    let shadowed = model.aliases.iter().filter_map(|alias| {
        let named = catalog.by_name(alias)?;
        (named.id != model.id).then(|| ConfigError::Value {
            key: format!("models.{}.aliases", model.id),
            message: format!("requests for {alias:?} get the model {}", named.id),
        })
    });
    shadowed.collect()
}

/// What the catalogue knows about a route's model: that it was shut down, or is spelled
/// differently.
fn lint_model_name(
    config: &ModelConfig,
    model: &Model,
    route: &Route,
    sites: &ProviderSites,
    now: Timestamp,
) -> Option<ConfigError> {
    let site = sites.get(&route.provider)?;
    let (protocol, name) = (&site.config.protocol, route.model.as_str());
    let error = |message: String| {
        Some(ConfigError::Value {
            key: format!("models.{}.routes", model.id),
            message,
        })
    };
    if let Some(entry) = config.catalogue.find(protocol, name) {
        // Only at the protocol's own URL: other hosts may serve this model for longer.
        let day = entry.retired.as_ref().filter(|_| has_default_host(site))?;
        let today = now.rfc3339();
        if !entry.is_retired(today.get(..10).unwrap_or_default()) {
            return None;
        }
        let replacement = entry.instead.as_ref();
        let replacement = replacement.map_or_else(String::new, |id| format!("; use \"{id}\""));
        return error(format!("{name} was shut down on {day}{replacement}"));
    }
    // An operator who sets limits for a model means that name, even if the catalogue does not know
    // it.
    let settings = config.models.get(&model.id)?;
    let routes = settings.routes.iter().flatten();
    let mut same_routes =
        routes.filter(|other| other.model == name && other.provider == route.provider);
    let is_described = settings.limits != LimitSettings::default()
        || same_routes.any(|other| other.limits != LimitSettings::default());
    let suggestion = config.catalogue.suggestion(protocol, name);
    let suggestion = suggestion.filter(|_| !is_described && has_default_host(site))?;
    error(format!(
        "unknown model {name}; use \"{suggestion}\", or set its limits"
    ))
}

/// Whether a provider has its protocol's default URL.
fn has_default_host(site: &ProviderSite) -> bool {
    let protocol = providers::protocol(&site.config.protocol);
    let adapter = site.provider.adapter();
    let default_url = adapter
        .base_url()
        .or(protocol.and_then(|protocol| protocol.base_url));
    let default_url = default_url.and_then(|default_url| Url::parse(default_url).ok());
    let base = site.config.base_url.as_ref();
    base.is_none_or(|base| {
        default_url.is_some_and(|default_url| default_url.host_str() == base.url().host_str())
    })
}

fn lint_route(model: &Model, route: &Route, sites: &ProviderSites) -> Vec<ConfigError> {
    let site = sites.get(&route.provider);
    // A `*` route gets its model's name with each order, so there is none to check.
    let Some(site) = site.filter(|_| route.model != "*") else {
        return Vec::new();
    };
    let error = |key: &str, message: String| ConfigError::Value {
        key: format!("models.{}.{key}", model.id),
        message,
    };
    let adapter = site.provider.adapter();
    let (kind, sizes) = match &route.limits {
        ModelLimits::Video(video) => (MediaKind::Video, &video.sizes[..]),
        ModelLimits::Music(_) => (MediaKind::Music, &[][..]),
    };
    let address = route.model.contains("://").then(|| {
        let host = &route.provider;
        format!("is a URL; use {host}'s name for the model")
    });
    let name = address
        .or_else(|| adapter.fault_of_model(kind, &route.model))
        .map(|message| error("routes", message));
    let size = sizes
        .iter()
        .find(|size| !adapter.can_express_size(&route.model, **size))
        .map(|(width, height)| {
            let message = format!(
                "{} does not support {width}x{height}; remove it from sizes",
                route.provider
            );
            error("limits", message)
        });
    // If the name is wrong, the sizes are those of another API and not worth checking.
    name.or(size).into_iter().collect()
}
