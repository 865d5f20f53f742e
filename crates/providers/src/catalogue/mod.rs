//! What providers sell, as data: ids, lengths, sizes, list prices, and until
//! when.
//!
//! `models/` has a TOML file for each protocol, or shipped recipe, and they are
//! part of the binary; an operator can lay a folder of newer files over them,
//! where an entry replaces the one of the same id. A model that is in no file is
//! used with what the protocol's own table and the operator's `limits` say.
//!
//! A list price is what the provider asks; what a caller pays is the operator's
//! to say, and nothing here is charged.

mod read;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use crate::adapters::distance;
use crate::limits::{Durations, Limits, VideoLimits};
use crate::order::Kind;

pub use read::CatalogueError;

/// Everything that is known, by protocol.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    models: BTreeMap<String, Vec<KnownModel>>,
}

/// A model that a provider sells.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownModel {
    /// The protocol, or the name of the shipped recipe, that sells it.
    pub provider: String,
    /// The environment variable that usually holds the key.
    pub key: String,
    /// The provider's own name; `*` at its end stands for any rest.
    pub id: String,
    /// A short name for people and for a gateway's callers.
    pub name: String,
    /// The family of its work.
    pub kind: Kind,
    /// Options that the provider's table needs for it.
    pub options: Map<String, Value>,
    /// Frame sizes, the default first.
    pub sizes: Option<Vec<(u32, u32)>>,
    /// Lengths.
    pub seconds: Option<Durations>,
    /// The length when the request names none.
    pub default_seconds: Option<u32>,
    /// Most source pictures.
    pub pictures: Option<usize>,
    /// Whether it makes nothing without one.
    pub needs_picture: Option<bool>,
    /// Whether it takes a negative prompt.
    pub negative_prompt: Option<bool>,
    /// Whether it takes a seed.
    pub seed: Option<bool>,
    /// Whether its videos have sound.
    pub audio: Option<Sound>,
    /// What the provider asks for it.
    pub prices: Vec<ListPrice>,
    /// The first day on which it is not served any more, as `2026-10-22`.
    pub retired: Option<String>,
    /// What to use in its place.
    pub instead: Option<String>,
    /// Where this was read.
    pub source: String,
    /// When, as `2026-11-22`.
    pub date: String,
}

/// Whether a model's videos have sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sound {
    /// They have none.
    None,
    /// They always have.
    Always,
    /// The request decides.
    Choice,
}

impl Sound {
    /// The name in files and lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Always => "always",
            Self::Choice => "choice",
        }
    }
}

/// What a provider asks for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPrice {
    /// `second`, `video`, `megapixel_second`, `audio_minute`, `stem` or `task`.
    pub unit: String,
    /// Dollars for one, as a decimal.
    pub usd: String,
    /// What it holds for, such as `1080p`, where not for all.
    pub holds_for: Option<String>,
}

impl Catalogue {
    /// What this version of the program knows.
    pub fn embedded() -> Arc<Self> {
        static EMBEDDED: LazyLock<Arc<Catalogue>> = LazyLock::new(|| {
            let files = read::EMBEDDED.iter();
            // A test reads each of them.
            let read = files.filter_map(|(name, text)| read::file(name, text).ok());
            let mut catalogue = Catalogue::default();
            read.for_each(|models| catalogue.lay_over(models));
            Arc::new(catalogue)
        });
        EMBEDDED.clone()
    }

    /// The same with the files of a folder laid over it.
    pub fn with_folder(&self, folder: &Path) -> Result<Self, CatalogueError> {
        let mut all = self.clone();
        for models in read::folder(folder)? {
            all.lay_over(models);
        }
        Ok(all)
    }

    fn lay_over(&mut self, models: Vec<KnownModel>) {
        for model in models {
            let shelf = self.models.entry(model.provider.clone()).or_default();
            match shelf.iter_mut().find(|known| known.id == model.id) {
                Some(known) => *known = model,
                None => shelf.push(model),
            }
        }
    }

    /// Every model, by provider and in the files' order.
    pub fn models(&self) -> impl Iterator<Item = &KnownModel> {
        self.models.values().flatten()
    }

    /// The model that a route with this protocol names.
    pub fn find(&self, protocol: &str, model: &str) -> Option<&KnownModel> {
        let shelf = self.shelf(protocol);
        let fitting = shelf.iter().filter(|known| known.is_named(model));
        fitting.max_by_key(|known| (!known.id.ends_with('*'), known.id.len()))
    }

    /// The model that an operator names as `fal/veo-3.1`, by its short name or id.
    pub fn by_name(&self, provider: &str, name: &str) -> Option<&KnownModel> {
        let mut shelf = self.shelf(provider).iter();
        shelf.find(|known| known.name == name || known.id == name)
    }

    /// A model's limits where the protocol's own table says `own`.
    pub fn limits(&self, protocol: &str, model: &str, own: Limits) -> Limits {
        match (own, self.find(protocol, model)) {
            (Limits::Video(own), Some(known)) => Limits::Video(known.limits(own)),
            (own, _) => own,
        }
    }

    /// The id that may have been meant by one that is in no file: it differs by a
    /// slip of the pen and not by its version.
    pub fn meant(&self, protocol: &str, model: &str) -> Option<&str> {
        if self.find(protocol, model).is_some() {
            return None;
        }
        let near = self.shelf(protocol).iter().filter(|known| {
            let digits =
                |text: &str| -> String { text.chars().filter(char::is_ascii_digit).collect() };
            digits(&known.id) == digits(model) && is_slip(&known.id, model)
        });
        near.map(|known| known.id.as_str()).next()
    }

    fn shelf(&self, protocol: &str) -> &[KnownModel] {
        let name = protocol.strip_prefix("recipe:").unwrap_or(protocol);
        self.models.get(name).map_or(&[], Vec::as_slice)
    }
}

impl KnownModel {
    fn is_named(&self, model: &str) -> bool {
        match self.id.strip_suffix('*') {
            Some(start) => model.starts_with(start),
            None => self.id == model,
        }
    }

    /// Whether it is not served on this day, written as `2026-11-22`.
    pub fn is_retired(&self, day: &str) -> bool {
        self.retired.as_deref().is_some_and(|end| end <= day)
    }

    fn limits(&self, mut limits: VideoLimits) -> VideoLimits {
        if let Some(sizes) = &self.sizes {
            limits.sizes.clone_from(sizes);
        }
        if let Some(seconds) = &self.seconds {
            limits.durations = seconds.clone();
        }
        limits.default_seconds = self.default_seconds.unwrap_or(limits.default_seconds);
        if !limits.durations.contains(f64::from(limits.default_seconds)) {
            limits.default_seconds = limits.durations.min();
        }
        limits.pictures.max = self.pictures.unwrap_or(limits.pictures.max);
        limits.pictures.needed = self.needs_picture.unwrap_or(limits.pictures.needed);
        limits.negative_prompt = self.negative_prompt.unwrap_or(limits.negative_prompt);
        limits.seed = self.seed.unwrap_or(limits.seed);
        limits
    }
}

/// Whether two names differ by one or two letters.
fn is_slip(one: &str, other: &str) -> bool {
    one.len() >= 6 && (1..=2).contains(&distance(one, other))
}

#[cfg(test)]
mod tests;
