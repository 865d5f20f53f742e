//! Catalogue of the models that providers sell: ids, lengths, sizes, list prices, and retirement
//! dates.
//!
//! `models/` has a TOML file for each protocol or shipped recipe. The files are part of the binary.
//! An operator can add a folder of newer files, in which an entry replaces the one with the same
//! id. A model that is in no file has the common limits of its protocol and the operator's
//! `limits`.
//!
//! Every fact is in one place: adapters read these files (`ProtocolCatalogue`), except for fal's
//! endpoints (`fal/endpoints.tsv`) and for recipes, whose own files describe their models.
//!
//! A list price is the provider's price; the operator decides what a caller pays, and nothing here
//! is charged. An entry without one says why. An entry also says what about it is not verified.

mod files;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use crate::cost::RefusalTerms;
use crate::frame_size;
use crate::limits::{Durations, ModelLimits, PicturePurpose, SourcePictureLimits, VideoLimits};
use crate::order::MediaKind;

pub use files::{CatalogueError, EntryCheck};

/// All known models, by protocol.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    models: BTreeMap<String, Vec<KnownModel>>,
}

/// A model offered by a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownModel {
    /// The protocol, or the name of the shipped recipe, that offers it.
    pub provider: String,
    /// The environment variable that usually holds the key.
    pub key: String,
    /// The provider's own name; `*` at either end matches anything.
    pub id: String,
    /// Other names under which it is offered, such as dated ones, with `*` as in the id.
    pub aliases: Vec<String>,
    /// A short name for display and for a gateway's callers.
    pub name: String,
    /// The kind of media that it makes.
    pub kind: MediaKind,
    /// Options that a provider needs in its settings to offer the model.
    pub options: Map<String, Value>,
    /// Frame sizes, the default first.
    pub sizes: Option<Vec<(u32, u32)>>,
    /// Lengths.
    pub seconds: Option<Durations>,
    /// The length if the request has none.
    pub default_seconds: Option<u32>,
    /// Maximum number of source pictures that are frames.
    pub pictures: Option<usize>,
    /// Whether a picture is required.
    pub needs_picture: Option<bool>,
    /// How many reference pictures it takes instead of frames.
    pub references: Option<usize>,
    /// Whether it takes a negative prompt.
    pub negative_prompt: Option<bool>,
    /// Whether it takes a seed.
    pub seed: Option<bool>,
    /// Whether its videos have sound.
    pub audio: Option<SoundSupport>,
    /// Longest prompt, in the provider's units.
    pub max_prompt: Option<usize>,
    /// The format of its requests, if models of one protocol differ in that; the protocol defines
    /// the fields.
    pub inputs: Map<String, Value>,
    /// The provider's list prices.
    pub prices: Vec<ListPrice>,
    /// Why there is no list price.
    pub price_unknown: Option<String>,
    /// The source of the list prices.
    pub price_source: String,
    /// The date of that source, such as `2026-11-22`.
    pub price_date: String,
    /// Whether the provider charges for orders that it refuses.
    pub refusals: RefusalTerms,
    /// What about this entry nobody has verified.
    pub unverified: Option<String>,
    /// The first day on which it is no longer available, as `2026-10-22`.
    pub retired: Option<String>,
    /// What to use in its place.
    pub instead: Option<String>,
    /// The source of this entry.
    pub source: String,
    /// The date of the source, such as `2026-11-22`.
    pub date: String,
}

/// Whether a model's videos have sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SoundSupport {
    /// The videos have no sound.
    None,
    /// The videos always have sound.
    Always,
    /// They have sound by default; the request can choose.
    Choice,
    /// They have none by default; the request can choose.
    #[serde(rename = "if asked")]
    IfAsked,
}

impl SoundSupport {
    /// The name in files and lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Always => "always",
            Self::Choice => "choice",
            Self::IfAsked => "if asked",
        }
    }
}

/// A list price of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPrice {
    /// `second`, `video`, `megapixel_second`, `audio_minute`, `stem` or `task`.
    pub unit: String,
    /// Dollars for one, as a decimal.
    pub usd: String,
    /// What it applies to, such as `1080p`, if not to everything.
    pub holds_for: Option<String>,
}

impl Catalogue {
    /// The catalogue built into this version of the program.
    pub fn embedded() -> Arc<Self> {
        static EMBEDDED: LazyLock<Arc<Catalogue>> = LazyLock::new(|| {
            let files = files::EMBEDDED.iter();
            // Faults are ignored here: a test reads each file and checks it against the protocols.
            let parsed = files.filter_map(|(name, text)| files::file(name, text, |_| None).ok());
            let mut catalogue = Catalogue::default();
            parsed.for_each(|models| catalogue.overlay(models));
            Arc::new(catalogue)
        });
        EMBEDDED.clone()
    }

    /// This catalogue with the files of a folder added, which `fault` checks against the protocols:
    /// see [`fault_of_entry`](crate::adapters::fault_of_entry).
    pub fn with_folder(&self, folder: &Path, fault: EntryCheck) -> Result<Self, CatalogueError> {
        let mut catalogue = self.clone();
        for models in files::folder(folder, fault)? {
            catalogue.overlay(models);
        }
        Ok(catalogue)
    }

    fn overlay(&mut self, models: Vec<KnownModel>) {
        for model in models {
            let models = self.models.entry(model.provider.clone()).or_default();
            match models.iter_mut().find(|existing| existing.id == model.id) {
                Some(existing) => *existing = model,
                None => models.push(model),
            }
        }
    }

    /// Every model, by provider and in the files' order.
    pub fn models(&self) -> impl Iterator<Item = &KnownModel> {
        self.models.values().flatten()
    }

    /// The model for a route with this protocol.
    pub fn find(&self, protocol: &str, model: &str) -> Option<&KnownModel> {
        let models = self.protocol_models(protocol);
        let names = models
            .iter()
            .flat_map(|known| known.names().map(move |name| (name, known)));
        let matching = names.filter(|(name, _)| frame_size::fits(name, model));
        // The most specific name.
        let best = matching.max_by_key(|(name, _)| (!name.contains('*'), name.len()));
        best.map(|(_, known)| known)
    }

    /// The model for an operator's `fal/veo-3.1`, by its short name or id.
    pub fn by_name(&self, provider: &str, name: &str) -> Option<&KnownModel> {
        let mut models = self.protocol_models(provider).iter();
        models.find(|known| known.name == name || known.id == name)
    }

    /// A model's limits: those in its entry, and `protocol_limits` for the rest.
    pub fn limits(&self, protocol: &str, model: &str, protocol_limits: ModelLimits) -> ModelLimits {
        match (protocol_limits, self.find(protocol, model)) {
            (ModelLimits::Video(video), Some(known)) => ModelLimits::Video(known.limits(video)),
            (protocol_limits, _) => protocol_limits,
        }
    }

    /// A suggestion for an unknown id: one that differs by a typing error and not by its version.
    pub fn suggestion(&self, protocol: &str, model: &str) -> Option<&str> {
        if self.find(protocol, model).is_some() {
            return None;
        }
        let similar = self.protocol_models(protocol).iter().filter(|known| {
            let digits =
                |text: &str| -> String { text.chars().filter(char::is_ascii_digit).collect() };
            digits(&known.id) == digits(model) && is_typo(&known.id, model)
        });
        similar.map(|known| known.id.as_str()).next()
    }

    fn protocol_models(&self, protocol: &str) -> &[KnownModel] {
        let name = protocol.strip_prefix("recipe:").unwrap_or(protocol);
        self.models.get(name).map_or(&[], Vec::as_slice)
    }
}

impl KnownModel {
    fn names(&self) -> impl Iterator<Item = &str> {
        let aliases = self.aliases.iter().map(String::as_str);
        std::iter::once(self.id.as_str()).chain(aliases)
    }

    /// Adds the limits that its file leaves to the protocol's table of endpoints, or to a recipe.
    /// `own` are its limits [there](crate::adapters::limits_of).
    #[must_use]
    pub fn with_protocol_limits(&self, own: Option<ModelLimits>) -> Self {
        let mut filled = self.clone();
        match own.filter(|_| self.retired.is_none()) {
            Some(ModelLimits::Video(own)) => {
                let limits = self.limits(own);
                filled.audio = self.audio.or(match limits.audio {
                    Some(true) => Some(SoundSupport::Choice),
                    Some(false) => Some(SoundSupport::IfAsked),
                    None => None,
                });
                filled.sizes = Some(limits.sizes);
                filled.seconds = Some(limits.durations);
                filled.default_seconds = Some(limits.default_seconds);
                filled.pictures = Some(limits.pictures.max);
                filled.needs_picture = Some(limits.pictures.needed);
                filled.negative_prompt = Some(limits.negative_prompt);
                filled.seed = Some(limits.seed);
            }
            Some(ModelLimits::Music(own)) => {
                let seconds = own.songs.seconds;
                let seconds = seconds.map(|(min, max)| Durations::Range { min, max });
                filled.seconds = filled.seconds.or(seconds);
            }
            None => {}
        }
        filled
    }

    /// Whether it is no longer available on this day, written as `2026-11-22`.
    pub fn is_retired(&self, day: &str) -> bool {
        self.retired.as_deref().is_some_and(|end| end <= day)
    }

    /// Its limits, based on the protocol's general `limits`.
    fn limits(&self, mut limits: VideoLimits) -> VideoLimits {
        if let Some(sizes) = &self.sizes {
            limits.sizes.clone_from(sizes);
        }
        if let Some(seconds) = &self.seconds {
            limits.durations = seconds.clone();
        }
        limits.default_seconds = self.default_seconds.unwrap_or(limits.default_seconds);
        // The protocol's default may not be one of this model's lengths.
        if !limits.durations.contains(f64::from(limits.default_seconds)) {
            limits.default_seconds = limits.durations.min();
        }
        let pictures = &mut limits.pictures;
        pictures.max = self.pictures.unwrap_or(pictures.max);
        pictures.needed = self.needs_picture.unwrap_or(pictures.needed);
        match (self.pictures, self.references) {
            // The model takes no frames, so its references are its pictures and not an alternative
            // to them.
            (Some(0), Some(references @ 1..)) => {
                *pictures = SourcePictureLimits {
                    max: references,
                    purpose: PicturePurpose::References,
                    references: 0,
                    ..*pictures
                };
            }
            (_, references) => pictures.references = references.unwrap_or(pictures.references),
        }
        limits.negative_prompt = self.negative_prompt.unwrap_or(limits.negative_prompt);
        limits.seed = self.seed.unwrap_or(limits.seed);
        limits.audio = match self.audio {
            None => limits.audio,
            Some(SoundSupport::None | SoundSupport::Always) => None,
            Some(SoundSupport::Choice) => Some(true),
            Some(SoundSupport::IfAsked) => Some(false),
        };
        limits.max_prompt = self.max_prompt.unwrap_or(limits.max_prompt);
        limits
    }
}

/// The models of one protocol, for its adapter.
#[derive(Debug, Clone)]
pub(crate) struct ProtocolCatalogue {
    catalogue: Arc<Catalogue>,
    protocol: &'static str,
}

impl ProtocolCatalogue {
    pub(crate) const fn new(catalogue: Arc<Catalogue>, protocol: &'static str) -> Self {
        Self {
            catalogue,
            protocol,
        }
    }

    /// The model of a route.
    pub(crate) fn find(&self, model: &str) -> Option<&KnownModel> {
        self.catalogue.find(self.protocol, model)
    }

    /// A video model's limits; `own` are those of an unknown model.
    pub(crate) fn video(&self, model: &str, own: VideoLimits) -> VideoLimits {
        match self.find(model) {
            Some(known) => known.limits(own),
            None => own,
        }
    }
}

/// Whether two names differ by one or two letters.
fn is_typo(one: &str, other: &str) -> bool {
    one.len() >= 6 && (1..=2).contains(&strsim::levenshtein(one, other))
}

#[cfg(test)]
mod tests;
