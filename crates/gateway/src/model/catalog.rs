//! Models: what a caller can name, what each takes and makes, what it costs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::money::Price;
use crate::model::music::StemGroup;
use crate::model::task::TaskKind;

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

/// What a model can be asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Capabilities {
    /// Makes videos.
    Video(VideoCapabilities),
    /// Separates music.
    Stems(StemCapabilities),
}

/// The limits of a video model.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoCapabilities {
    /// Frame sizes offered, width and height in pixels.
    pub sizes: Vec<(u32, u32)>,
    /// Shortest video in seconds.
    pub min_seconds: u32,
    /// Longest video in seconds.
    pub max_seconds: u32,
    /// Length when the request names none.
    pub default_seconds: u32,
    /// Size when the request names none.
    pub default_size: (u32, u32),
    /// How many source pictures it takes.
    pub max_pictures: usize,
    /// Whether it takes a negative prompt.
    pub negative_prompt: bool,
}

/// The limits of a stem model.
#[derive(Debug, Clone, PartialEq)]
pub struct StemCapabilities {
    /// Groups that it tells apart, in the order of a full split.
    pub groups: Vec<StemGroup>,
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
    /// What it can be asked for.
    pub capabilities: Capabilities,
    /// Free when `None`.
    pub price: Option<Price>,
    /// Who makes it.
    pub provider: String,
    /// Version of the route; part of `system_fingerprint`.
    pub version: String,
}

impl Model {
    /// The family of its work.
    pub const fn kind(&self) -> TaskKind {
        match self.capabilities {
            Capabilities::Video(_) => TaskKind::Video,
            Capabilities::Stems(_) => TaskKind::Music,
        }
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
