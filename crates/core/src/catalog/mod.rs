//! The models on offer, and how callers' names resolve to them.

pub mod config_lints;
mod list_prices;
mod model_limits;
mod model_suggestions;
pub mod price_warnings;
pub mod unverified_models;

use std::collections::BTreeMap;

pub use list_prices::highest_list_price;
use list_prices::{list_price, missing_price};
use providers::catalogue::Catalogue;
use providers::{Adapter, MediaKind, ModelLimits};

use crate::upstream::ProviderSites;
use mediagate_config::providers::{ModelSettings, PriceSettings, RouteSettings};
use mediagate_config::{ConfigError, ModelConfig};
use mediagate_media::engines::{self, own_models::NET_MODEL};
use mediagate_model::account::ApiKey;
use mediagate_model::catalog::{Model, ModelBackend, Route};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::price::PriceSchedule;

/// The models that the settings leave enabled.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalog {
    models: Vec<Model>,
    default_video: String,
    default_music: String,
    shows_providers: bool,
}

impl Catalog {
    /// The embedded models and the operator's `own_models`, as changed by the settings, and those
    /// that the settings define by routes to `sites`.
    pub fn new(
        config: &ModelConfig,
        own_models: Vec<Model>,
        sites: &ProviderSites,
        now: Timestamp,
    ) -> Result<Self, ConfigError> {
        Self::build(config, own_models, sites, now).map_err(|error| config.locate(error))
    }

    fn build(
        config: &ModelConfig,
        own_models: Vec<Model>,
        sites: &ProviderSites,
        now: Timestamp,
    ) -> Result<Self, ConfigError> {
        let mut models = engines::embedded_models();
        for model in own_models {
            // An embedded model keeps its name.
            if models.iter().any(|embedded| embedded.id == model.id) {
                tracing::error!(model = %model.id, "a model in the models folder has the name of an embedded model and is ignored");
            } else {
                models.push(model);
            }
        }
        let sources = ModelSources {
            sites,
            catalogue: &config.catalogue,
        };
        for (id, settings) in &config.models {
            apply(&mut models, id, settings, &sources, now)?;
        }
        models.retain(|model| is_enabled(&config.models, &model.id));
        let best_embedded = || match models.iter().find(|model| model.id == NET_MODEL) {
            Some(model) => model.id.clone(),
            None => engines::stems_engine::MODEL.into(),
        };
        let default_music = config.default_music_model.clone();
        let catalog = Self {
            default_music: default_music.unwrap_or_else(best_embedded),
            models,
            default_video: config.default_model.clone(),
            shows_providers: config.show_providers,
        };
        for (key, kind) in [
            ("default_model", MediaKind::Video),
            ("default_music_model", MediaKind::Music),
        ] {
            catalog.check_default(config, key, kind)?;
        }
        Ok(catalog)
    }

    fn check_default(
        &self,
        config: &ModelConfig,
        key: &str,
        kind: MediaKind,
    ) -> Result<(), ConfigError> {
        let name = self.default_name(kind);
        // Embedded models can be disabled without touching the default, as long as no model of the
        // kind is left. If one is, a default that does not fit is a mistake.
        let fits = self.by_name(name).is_some_and(|model| model.kind() == kind);
        if fits || !self.models.iter().any(|model| model.kind() == kind) {
            return Ok(());
        }
        // The file may leave the default out, and then has no line for it.
        let (key, message) = if is_enabled(&config.models, name) {
            (
                key.into(),
                format!("there is no {kind} model with this name"),
            )
        } else {
            let message =
                format!("is false, but {key} names this model; name another {kind} model there");
            (format!("models.{name}.enabled"), message)
        };
        Err(ConfigError::Value { key, message })
    }

    /// Whether callers see which provider made something.
    pub const fn shows_providers(&self) -> bool {
        self.shows_providers
    }

    pub fn models(&self) -> &[Model] {
        &self.models
    }

    /// The model with exactly this name. Tasks are resolved this way, because after a model is
    /// removed another one may have its name as an alias.
    pub fn with_id(&self, id: &str) -> Option<&Model> {
        self.models.iter().find(|model| model.id == id)
    }

    /// The model with this name or alias; names take precedence.
    pub fn by_name(&self, name: &str) -> Option<&Model> {
        self.with_id(name)
            .or_else(|| self.models.iter().find(|model| model.answers_to(name)))
    }

    /// The name that is meant when a request of this kind names no model.
    pub fn default_name(&self, kind: MediaKind) -> &str {
        match kind {
            MediaKind::Video => &self.default_video,
            MediaKind::Music => &self.default_music,
        }
    }

    /// The model of this kind that the key may use under this name; `param` is the field that named
    /// it.
    pub fn choose(
        &self,
        key: &ApiKey,
        kind: MediaKind,
        name: &str,
        param: &str,
    ) -> Result<Model, Error> {
        let not_found =
            || Error::at_field(ErrorCode::ModelNotFound, param, self.no_model_message(name));
        let named = self.by_name(name);
        let model = named
            .filter(|model| model.can_be_named(name))
            .ok_or_else(not_found)?;
        if model.kind() != kind {
            let message = format!(
                "{:?} is a {} model. This endpoint requires a {kind} model.",
                model.id,
                model.kind()
            );
            return Err(Error::at_field(ErrorCode::UnsupportedValue, param, message));
        }
        if !key.may_use(&model.id) {
            return Err(Error::at_field(
                ErrorCode::ModelNotAllowed,
                param,
                format!("The API key may not use {:?}.", model.id),
            ));
        }
        Ok(model.clone())
    }
}

/// What the models with routes are built from.
struct ModelSources<'a> {
    sites: &'a ProviderSites,
    catalogue: &'a Catalogue,
}

/// What a name or alias must be, so that requests can name it.
const NAME_RULE: &str = "must be 1 to 200 characters without white space";

fn is_name(text: &str) -> bool {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control();
    (1..=200).contains(&text.chars().count()) && text.chars().all(is_plain)
}

fn is_enabled(settings: &BTreeMap<String, ModelSettings>, id: &str) -> bool {
    settings
        .get(id)
        .and_then(|model| model.enabled)
        .unwrap_or(true)
}

/// Applies the operator's settings for one model: changes an embedded one or defines one by its
/// routes.
fn apply(
    models: &mut Vec<Model>,
    id: &str,
    settings: &ModelSettings,
    sources: &ModelSources<'_>,
    now: Timestamp,
) -> Result<(), ConfigError> {
    let value_error = |key: &str, message: String| ConfigError::Value {
        key: format!("models.{id}{key}"),
        message,
    };
    let names = settings.aliases.iter().flatten();
    if let Some(name) = names.map(String::as_str).find(|name| !is_name(name)) {
        let message = format!("{name:?}: {NAME_RULE}");
        return Err(value_error(".aliases", message));
    }
    if let Some(routes) = &settings.routes {
        if !is_name(id) {
            return Err(value_error("", format!("the name {NAME_RULE}")));
        }
        if models.iter().any(|model| model.id == id) {
            let message = "is an embedded model and cannot have routes; use another name";
            return Err(value_error("", message.into()));
        }
        models.push(routed_model(id, settings, routes, sources, now)?);
    }
    let names = models
        .iter()
        .map(|model| model.id.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    let model = models
        .iter_mut()
        .find(|model| model.id == id)
        .ok_or_else(|| {
            value_error(
                "",
                format!("unknown model; the models are {names}; a new model needs routes"),
            )
        })?;
    if let Some(kind) = settings.kind.filter(|kind| *kind != model.kind()) {
        let message = format!("is {kind}, but the model makes {}", model.kind());
        return Err(value_error(".kind", message));
    }
    // A model that is free has no price. A route that is free has a price of zero, in place of its model's.
    let charged = settings
        .price
        .as_ref()
        .filter(|price| **price != PriceSettings::Free);
    model.price = price(&value_error, charged, model.kind(), now)?;
    if has_unselectable_audio_price(model) {
        let message = "usd_without_audio: callers cannot turn sound on or off for this model";
        return Err(value_error(".price", message.into()));
    }
    if let Some(reason) = fault_of_pass(model, &settings.pass) {
        return Err(value_error(".pass", reason.into()));
    }
    let mut unpriced = model.routes().iter().filter(|route| route.price.is_none());
    let is_offered = settings.enabled != Some(false);
    if settings.price.is_none()
        && is_offered
        && let Some(route) = unpriced.next()
    {
        let list_price = list_price(route, sources);
        return Err(value_error("", missing_price(model.kind(), list_price)));
    }
    model.passthrough_fields.clone_from(&settings.pass);
    if let Some(aliases) = &settings.aliases {
        model.aliases.clone_from(aliases);
    }
    if let Some(summary) = &settings.summary {
        model.summary.clone_from(summary);
    }
    if let Some(notes) = &settings.notes {
        model.notes.clone_from(notes);
    }
    Ok(())
}

/// Whether a price depends on sound although callers cannot choose sound.
fn has_unselectable_audio_price(model: &Model) -> bool {
    let routes = model.routes().iter();
    let prices = routes.map(|route| (&route.price, &route.limits));
    let mut prices = prices.chain([(&model.price, &model.limits)]);
    prices.any(|(price, limits)| {
        let depends_on_audio = price.as_ref().is_some_and(PriceSchedule::depends_on_audio);
        depends_on_audio && !matches!(limits, ModelLimits::Video(video) if video.audio.is_some())
    })
}

fn fault_of_pass(model: &Model, pass: &[String]) -> Option<&'static str> {
    if pass.is_empty() {
        return None;
    }
    if model.routes().is_empty() {
        return Some("an embedded model has no provider");
    }
    let mut parts = pass.iter().flat_map(|name| name.split('.'));
    parts.any(str::is_empty).then_some(
        "must list fields of the provider's request, for example [\"style\", \"input.steps\"]",
    )
}

fn price(
    value_error: &impl Fn(&str, String) -> ConfigError,
    price: Option<&PriceSettings>,
    kind: MediaKind,
    now: Timestamp,
) -> Result<Option<PriceSchedule>, ConfigError> {
    let Some(price) = price else { return Ok(None) };
    if let Some(entry) = price.entries().iter().find(|entry| !entry.unit.fits(kind)) {
        let message = format!("the unit {} does not apply to a {kind} model", entry.unit);
        return Err(value_error(".price", message));
    }
    let schedule = price.schedule(now);
    schedule
        .map(Some)
        .map_err(|message| value_error(".price", message))
}

/// A model that hosted providers run.
fn routed_model(
    id: &str,
    settings: &ModelSettings,
    routes: &[RouteSettings],
    &ModelSources { sites, catalogue }: &ModelSources<'_>,
    now: Timestamp,
) -> Result<Model, ConfigError> {
    let value_error = |key: &str, message: String| ConfigError::Value {
        key: format!("models.{id}{key}"),
        message,
    };
    let kind = settings
        .kind
        .ok_or_else(|| value_error("", "set kind = \"video\" or kind = \"music\"".into()))?;
    let mut built_routes = Vec::new();
    for route in routes {
        let limits = [
            ("weight", route.weight),
            ("max_running", route.max_running),
            ("per_minute", route.per_minute),
        ];
        if let Some((key, _)) = limits.iter().find(|(_, limit)| *limit == Some(0)) {
            let message = format!("{key} = 0 would block the route; remove the route instead");
            return Err(value_error(".routes", message));
        }
        let site = sites.get(&route.provider).ok_or_else(|| {
            let configured: Vec<&str> = sites.keys().map(String::as_str).collect();
            let configured = if configured.is_empty() {
                "none".into()
            } else {
                configured.join(", ")
            };
            value_error(
                ".routes",
                format!("there is no provider with this name; configured: {configured}"),
            )
        })?;
        let adapter = site.provider.adapter();
        let route_limits = adapter
            .limits(kind, &route.model)
            .ok_or_else(|| value_error(".routes", no_such_model(adapter, kind, route)))?;
        // Adapter, catalogue, model, route: each is more specific than the one before. The operator
        // has the last word, because our tables may be out of date.
        let route_limits = catalogue.limits(&site.config.protocol, &route.model, route_limits);
        let limits = model_limits::apply_settings(route_limits, &settings.limits)
            .and_then(|limits| model_limits::apply_settings(limits, &route.limits));
        let limits =
            limits.map_err(|(key, message)| value_error(".limits", format!("{key}: {message}")))?;
        let known_model = catalogue.find(&site.config.protocol, &route.model);
        built_routes.push(Route {
            refusals: known_model
                .map(|known| known.refusals.clone())
                .unwrap_or_default(),
            provider: route.provider.clone(),
            model: route.model.clone(),
            names: adapter.model_names(),
            weight: route.weight,
            price: price(&value_error, route.price.as_ref(), kind, now)?,
            cost: price(
                &|_, message| value_error(".routes", format!("cost: {message}")),
                route.cost.as_ref(),
                kind,
                now,
            )?,
            limits,
            max_running: route.max_running,
            per_minute: route.per_minute,
            extra: route.extra.fields().clone(),
        });
    }
    let limits = built_routes
        .iter()
        .map(|route| route.limits.clone())
        .reduce(model_limits::union_of_limits)
        .ok_or_else(|| value_error(".routes", "at least one route is required".into()))?;
    let summary = match kind {
        MediaKind::Video => "Generates videos at a hosted provider.",
        MediaKind::Music => "Runs music tasks at a hosted provider.",
    };
    Ok(Model {
        id: id.to_owned(),
        aliases: Vec::new(),
        summary: summary.into(),
        notes: Vec::new(),
        limits,
        price: None,
        passthrough_fields: Vec::new(),
        backend: ModelBackend::Routes(built_routes),
    })
}

/// Why a provider does not make a route's model.
fn no_such_model(adapter: &dyn Adapter, kind: MediaKind, route: &RouteSettings) -> String {
    let fault = adapter.fault_of_model(kind, &route.model);
    fault.unwrap_or_else(|| {
        let media = match kind {
            MediaKind::Video => "videos",
            MediaKind::Music => "music",
        };
        format!("{} does not make {media}", route.provider)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mediagate_config::providers::PriceEntry;
    use mediagate_model::money::MicroDollars;
    use mediagate_model::price::PriceUnit;

    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

    fn config(models: &[(&str, ModelSettings)]) -> ModelConfig {
        ModelConfig {
            default_model: "animatic-1".into(),
            default_music_model: None,
            show_providers: false,
            catalog: None,
            catalogue: Catalogue::embedded(),
            providers: BTreeMap::new(),
            source: None,
            models: models
                .iter()
                .map(|(id, settings)| ((*id).to_owned(), settings.clone()))
                .collect(),
        }
    }

    fn unchanged() -> ModelSettings {
        ModelSettings::default()
    }

    #[test]
    fn models_are_found_by_name_and_alias() {
        let catalog = Catalog::new(&config(&[]), Vec::new(), &ProviderSites::new(), NOW).unwrap();
        assert_eq!(catalog.by_name("chirp-auk").unwrap().id, "stems-dsp-1");
        assert_eq!(catalog.by_name("animatic-1").unwrap().id, "animatic-1");
        assert!(catalog.by_name("sora-2").is_none());
    }

    #[test]
    fn settings_change_price_and_availability() {
        let price = PriceSettings::Dated(vec![PriceEntry {
            unit: PriceUnit::Second,
            usd: MicroDollars::new(100_000),
            from: None,
            until: None,
            usd_without_audio: None,
        }]);
        let priced = ModelSettings {
            price: Some(price),
            ..unchanged()
        };
        let catalog = Catalog::new(
            &config(&[("animatic-1", priced.clone())]),
            Vec::new(),
            &ProviderSites::new(),
            NOW,
        )
        .unwrap();
        assert_eq!(
            catalog
                .by_name("animatic-1")
                .unwrap()
                .price
                .as_ref()
                .unwrap()
                .at(NOW)
                .price
                .per_unit
                .get(),
            100_000
        );
        assert!(
            Catalog::new(
                &config(&[("stems-dsp-1", priced)]),
                Vec::new(),
                &ProviderSites::new(),
                NOW
            )
            .is_err(),
            "stems are not counted in seconds"
        );
        assert!(
            Catalog::new(
                &config(&[("sora-2", unchanged())]),
                Vec::new(),
                &ProviderSites::new(),
                NOW
            )
            .is_err(),
            "no such model"
        );
        let disabled = ModelSettings {
            enabled: Some(false),
            ..unchanged()
        };
        assert!(
            Catalog::new(
                &config(&[("animatic-1", disabled)]),
                Vec::new(),
                &ProviderSites::new(),
                NOW
            )
            .unwrap()
            .by_name("animatic-1")
            .is_none()
        );
    }

    #[test]
    fn prices_with_a_gap_are_refused() {
        let catalog_price = |list: &str| {
            let settings: ModelSettings = toml::from_str(&format!("price = [{list}]")).unwrap();
            Catalog::new(
                &config(&[("animatic-1", settings)]),
                Vec::new(),
                &ProviderSites::new(),
                NOW,
            )
            .map(|catalog| {
                catalog
                    .by_name("animatic-1")
                    .unwrap()
                    .price
                    .clone()
                    .unwrap()
            })
            .map_err(|error| error.to_string())
        };
        let price = |more: &str| format!("{{ unit = \"second\", usd = \"0.10\"{more} }}");
        let (plain, from_2030) = (price(""), price(", from = \"2030-01-01\""));
        let good = catalog_price(&format!("{plain}, {from_2030}")).unwrap();
        assert_eq!(
            good.next(NOW).unwrap().from.unwrap().rfc3339(),
            "2030-01-01T00:00:00.000Z"
        );
        assert!(catalog_price(&price(", from = 2020-01-01")).is_ok());
        for (list, expected) in [
            (from_2030.clone(), "no price before 2030-01-01"),
            (String::new(), "at least one"),
            (format!("{plain}, {plain}"), "two prices start"),
            (
                price(", until = \"2031-01-01\""),
                "no price from 2031-01-01",
            ),
            (
                format!("{}, {from_2030}", price(", until = \"2029-06-01\"")),
                "no price from 2029-06-01",
            ),
            (
                format!("{}, {from_2030}", price(", until = \"2030-06-01\"")),
                "two prices from 2030-01-01",
            ),
        ] {
            let error = catalog_price(&list).unwrap_err();
            assert!(
                error.contains("models.animatic-1.price") && error.contains(expected),
                "{list}: {error}"
            );
        }
    }
}
