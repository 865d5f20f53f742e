//! Models: what a caller can name, what each takes and makes, what it costs.

use std::fmt;

use serde::{Deserialize, Serialize};

use providers::{Limits, ModelNames};

use crate::clock::Timestamp;
use crate::model::money::{Quantity, RoutePrice, Schedule, Tariff};
use crate::model::task::TaskKind;

/// The name that tasks made in this process carry as their provider.
pub const EMBEDDED: &str = "embedded";

/// The name of a route's model that stands for whatever the caller named.
pub const HANDED_ON: &str = "*";

/// What a price counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceUnit {
    /// A second of video.
    Second,
    /// A video, whatever its length.
    Video,
    /// A million pixels shown for a second.
    MegapixelSecond,
    /// A minute of source audio.
    AudioMinute,
    /// A stem made.
    Stem,
    /// A task, whatever it makes.
    Task,
}

impl PriceUnit {
    /// The name in configuration and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Video => "video",
            Self::MegapixelSecond => "megapixel_second",
            Self::AudioMinute => "audio_minute",
            Self::Stem => "stem",
            Self::Task => "task",
        }
    }

    /// Whether the unit can be counted for this kind of work.
    pub const fn fits(self, kind: TaskKind) -> bool {
        match self {
            Self::Second | Self::Video | Self::MegapixelSecond => matches!(kind, TaskKind::Video),
            Self::AudioMinute | Self::Stem => matches!(kind, TaskKind::Music),
            Self::Task => true,
        }
    }
}

impl fmt::Display for PriceUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that a caller can name in `model` or `mv`.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Its name.
    pub id: String,
    /// Other names, each with `*` for any characters.
    pub aliases: Vec<String>,
    /// One sentence for people.
    pub summary: String,
    /// What else a caller should know before choosing it.
    pub notes: Vec<String>,
    /// What it can be asked for: what at least one of its routes offers.
    pub limits: Limits,
    /// Free when `None`.
    pub price: Option<Schedule>,
    /// Fields of the provider's request that callers may set, those of nested
    /// objects with dots.
    pub pass: Vec<String>,
    /// Who makes it.
    pub maker: Maker,
}

/// Who makes what is asked of a model.
#[derive(Debug, Clone, PartialEq)]
pub enum Maker {
    /// An engine in this process, of this version.
    Embedded {
        /// Part of `system_fingerprint`.
        version: String,
    },
    /// Hosted providers: at least one route.
    Routes(Vec<Route>),
}

/// One way to have a model's work done.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// The provider, by the operator's name for it.
    pub provider: String,
    /// The model, by the provider's name for it; [`HANDED_ON`] for the name that
    /// the caller used.
    pub model: String,
    /// Which names it can hand on.
    pub names: ModelNames,
    /// Its share of the work among routes with weights; routes without are
    /// tried in their order.
    pub weight: Option<u32>,
    /// What its work costs the caller, where that differs from the model's price.
    pub price: Option<Schedule>,
    /// What this route can be asked for.
    pub limits: Limits,
    /// Jobs that may run at once.
    pub max_running: Option<u32>,
    /// Submissions a minute.
    pub per_minute: Option<u32>,
    /// What is merged into the provider's request body.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Route {
    /// What the provider is sent as the model's name for a caller who named it
    /// so; `None` when this route cannot send that.
    pub fn sent_name<'a>(&'a self, asked: &'a str) -> Option<&'a str> {
        if self.model == HANDED_ON {
            self.names.takes(asked).then_some(asked)
        } else {
            Some(&self.model)
        }
    }
}

impl Model {
    /// The family of its work.
    pub const fn kind(&self) -> TaskKind {
        match self.limits {
            Limits::Video(_) => TaskKind::Video,
            Limits::Music(_) => TaskKind::Music,
        }
    }

    /// Its routes; none when it is embedded.
    pub fn routes(&self) -> &[Route] {
        match &self.maker {
            Maker::Embedded { .. } => &[],
            Maker::Routes(routes) => routes,
        }
    }

    /// The prices for `asked` at an instant, with sound or without.
    pub fn tariff(&self, asked: Quantity, is_silent: bool, now: Timestamp) -> Tariff {
        let own = self.routes().iter().filter_map(|route| {
            Some(RoutePrice {
                provider: route.provider.clone(),
                model: route.model.clone(),
                price: route.price.as_ref()?.at(now).of(is_silent),
            })
        });
        Tariff {
            price: self.price.as_ref().map(|price| price.at(now).of(is_silent)),
            routes: own.collect(),
            asked,
        }
    }

    /// Whether `asked` can be sent by every route: one that could not would be
    /// another model there.
    pub fn can_be_named(&self, asked: &str) -> bool {
        let mut routes = self.routes().iter();
        routes.all(|route| route.sent_name(asked).is_some())
    }

    /// The route by which a provider makes this with this model of its own; one
    /// for `*` hands the name on that was asked for.
    pub fn route(&self, provider: &str, upstream_model: &str) -> Option<&Route> {
        let mut routes = self.routes().iter();
        routes.find(|route| {
            route.provider == provider
                && [upstream_model, HANDED_ON].contains(&route.model.as_str())
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

/// Whether `text` is `pattern`, where each `*` stands for any characters.
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
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, text, fits) in [
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
            assert_eq!(matches_pattern(pattern, text), fits, "{pattern} {text}");
        }
    }
}
