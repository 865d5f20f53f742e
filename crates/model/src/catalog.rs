//! Models: names, limits, prices and routes.

use orders::{ModelLimits, ModelNames, PicturePurpose, RefusalCharge, RefusalTerms};

use crate::clock::Timestamp;
use crate::price::{PASS_THROUGH_MODEL, PriceSchedule};
use crate::task::MediaKind;

/// Provider name of tasks made in this process.
pub const EMBEDDED: &str = "embedded";

/// A model, which callers name in `model` or `mv`.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    pub id: String,
    /// Alternative names; `*` matches any characters.
    pub aliases: Vec<String>,
    /// One sentence, shown on the price list.
    pub summary: String,
    /// Caveats, shown on the price list.
    pub notes: Vec<String>,
    /// The union of its routes' limits.
    pub limits: ModelLimits,
    /// Free if `None`.
    pub price: Option<PriceSchedule>,
    /// Fields of the provider's request that callers may set; dots separate nested names.
    pub passthrough_fields: Vec<String>,
    pub backend: ModelBackend,
}

/// Where a model runs.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelBackend {
    /// An engine in this process.
    Embedded {
        engine: EmbeddedEngine,
        /// Part of `system_fingerprint`.
        version: String,
    },
    /// Hosted providers; at least one route.
    Routes(Vec<Route>),
}

/// The engines that are part of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddedEngine {
    /// Films from a prompt, or from a picture.
    Animatic,
    /// Stems by signal processing and small neural nets.
    Stems,
    /// Stems by an operator's ONNX model.
    Onnx,
}

/// One way to have a model's work done.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    pub provider: String,
    /// The provider's name for the model; [`PASS_THROUGH_MODEL`] to pass on the caller's.
    pub model: String,
    /// Which names may be passed on.
    pub names: ModelNames,
    /// Its share of the work among weighted routes; unweighted ones are tried in order.
    pub weight: Option<u32>,
    /// Overrides the model's price.
    pub price: Option<PriceSchedule>,
    /// What the provider is paid.
    pub cost: Option<PriceSchedule>,
    /// Whether the provider charges for orders that it refuses.
    pub refusals: RefusalTerms,
    /// The limits of this route.
    pub limits: ModelLimits,
    /// Limit of jobs at once.
    pub max_running: Option<u32>,
    /// Limit of submissions per minute.
    pub per_minute: Option<u32>,
    /// Merged into the provider's request body.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Route {
    /// The model name to send to the provider when the caller asked for `requested`; `None` if this
    /// route cannot send it.
    pub fn sent_name<'a>(&'a self, requested: &'a str) -> Option<&'a str> {
        if self.model == PASS_THROUGH_MODEL {
            self.names.takes(requested).then_some(requested)
        } else {
            Some(&self.model)
        }
    }
}

impl Model {
    /// The kind of media that it makes.
    pub const fn kind(&self) -> MediaKind {
        match self.limits {
            ModelLimits::Video(_) => MediaKind::Video,
            ModelLimits::Music(_) => MediaKind::Music,
        }
    }

    /// Empty if the model is embedded.
    pub fn routes(&self) -> &[Route] {
        match &self.backend {
            ModelBackend::Embedded { .. } => &[],
            ModelBackend::Routes(routes) => routes,
        }
    }

    /// Whether a picture is a frame on each of its routes. On a route that takes pictures only as
    /// references, a keyframe would become a reference.
    pub fn takes_frames(&self) -> bool {
        let are_frames = |limits: &ModelLimits| matches!(limits, ModelLimits::Video(video) if video.pictures.purpose == PicturePurpose::Frames);
        let routes = self.routes().iter().map(|route| &route.limits);
        std::iter::once(&self.limits).chain(routes).all(are_frames)
    }

    /// The price that lists show: the model's own, else the highest of its routes'; `None` if it is free.
    pub fn listed_price(&self, now: Timestamp) -> Option<&PriceSchedule> {
        let route_prices = self
            .routes()
            .iter()
            .filter_map(|route| route.price.as_ref());
        let highest = || route_prices.max_by_key(|schedule| schedule.at(now).price.per_unit);
        self.price.as_ref().or_else(highest)
    }

    /// Whether a provider charges for an order of this model whose content it refuses. Of several
    /// routes, one that charges decides, then one of which it is not known.
    pub fn refusals(&self) -> RefusalTerms {
        let rank = |route: &&Route| match route.refusals.charge {
            RefusalCharge::Yes => 0,
            RefusalCharge::Unknown => 1,
            RefusalCharge::No => 2,
        };
        match self.routes().iter().min_by_key(rank) {
            Some(route) => route.refusals.clone(),
            // An embedded model has no provider that could charge.
            None => RefusalTerms {
                charge: RefusalCharge::No,
                source: None,
            },
        }
    }

    /// Whether every route can send `requested`; one that cannot would run a different model.
    pub fn can_be_named(&self, requested: &str) -> bool {
        let mut routes = self.routes().iter();
        // All, not any: which route takes the order is not known yet.
        routes.all(|route| route.sent_name(requested).is_some())
    }

    /// The route with this provider and model; a `*` route matches any model.
    pub fn route(&self, provider: &str, upstream_model: &str) -> Option<&Route> {
        let mut routes = self.routes().iter();
        routes.find(|route| {
            route.provider == provider
                && [upstream_model, PASS_THROUGH_MODEL].contains(&route.model.as_str())
        })
    }

    /// Whether `name` is the model's name or matches an alias.
    pub fn answers_to(&self, name: &str) -> bool {
        self.id == name
            || self
                .aliases
                .iter()
                .any(|alias| matches_pattern(alias, name))
    }
}

/// Whether `text` matches `pattern`, in which each `*` matches any characters.
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match text.find(part) {
            // The first match is enough: a later match would only leave less text for the rest.
            Some(index) => text = &text[index + part.len()..],
            None => return false,
        }
    }
    // Only in the remaining text, so that `ab*ba` does not match `aba`.
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, text, expected) in [
            ("chirp-*", "chirp-auk", true),
            ("chirp-*", "chirp-", true),
            ("chirp-*", "achirp-v4", false),
            ("*-turbo", "chirp-auk-turbo", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("ab*ba", "aba", false),
            ("plain", "plain", true),
            ("plain", "plainer", false),
        ] {
            assert_eq!(matches_pattern(pattern, text), expected, "{pattern} {text}");
        }
    }
}
