//! Limits of models, checked so that impossible orders are refused before money is held.

use serde::{Deserialize, Serialize};

use crate::order::StemGroup;

/// The limits of a model.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelLimits {
    /// The model makes videos.
    Video(VideoLimits),
    /// It processes or makes music.
    Music(MusicLimits),
}

/// Lengths that a model offers, in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Durations {
    /// Only these lengths, in ascending order.
    Only(Vec<u32>),
    /// Any length in this range.
    Range {
        /// Shortest.
        min: u32,
        /// Longest.
        max: u32,
    },
}

impl Durations {
    /// Any length from `min` to `max`.
    pub const fn range(min: u32, max: u32) -> Self {
        Self::Range { min, max }
    }

    /// Whether this length is offered.
    pub fn contains(&self, seconds: f64) -> bool {
        match self {
            Self::Only(lengths) => lengths
                .iter()
                .any(|length| (f64::from(*length) - seconds).abs() < 1e-9),
            Self::Range { min, max } => (f64::from(*min)..=f64::from(*max)).contains(&seconds),
        }
    }

    /// The shortest.
    pub fn min(&self) -> u32 {
        match self {
            Self::Only(list) => list.iter().copied().min().unwrap_or(0),
            Self::Range { min, .. } => *min,
        }
    }

    /// The longest.
    pub fn max(&self) -> u32 {
        match self {
            Self::Only(list) => list.iter().copied().max().unwrap_or(0),
            Self::Range { max, .. } => *max,
        }
    }
}

/// The limits of a video model.
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
#[derive(Debug, Clone, PartialEq)]
pub struct VideoLimits {
    /// Frame sizes in pixels, the default first.
    pub sizes: Vec<(u32, u32)>,
    /// Lengths.
    pub durations: Durations,
    /// The length if the request has none.
    pub default_seconds: u32,
    /// Source pictures.
    pub pictures: SourcePictureLimits,
    /// Whether it takes a negative prompt.
    pub negative_prompt: bool,
    /// Whether it takes a seed.
    pub seed: bool,
    /// If orders can choose between sound and none: the default.
    pub audio: Option<bool>,
    /// Longest prompt in characters.
    pub max_prompt: usize,
    /// Whether it adds a visible label.
    pub label: bool,
    /// Whether it takes lengths that are not whole seconds.
    pub fractions: bool,
}

impl Default for VideoLimits {
    /// No option and no picture, in whole seconds. Sizes and lengths have no default.
    fn default() -> Self {
        Self {
            sizes: Vec::new(),
            durations: Durations::Only(Vec::new()),
            default_seconds: 0,
            pictures: SourcePictureLimits::NONE,
            negative_prompt: false,
            seed: false,
            audio: None,
            max_prompt: usize::MAX,
            label: false,
            fractions: false,
        }
    }
}

/// A video model's limits on source pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourcePictureLimits {
    /// How many it takes at most.
    pub max: usize,
    /// Whether one is required.
    pub needed: bool,
    /// What they are for.
    pub purpose: PicturePurpose,
    /// How many reference pictures it takes instead of frames. With [`PicturePurpose::References`],
    /// `max` is that limit.
    pub references: usize,
    /// How they reach the provider.
    pub handover: FileHandover,
}

impl SourcePictureLimits {
    /// No pictures.
    pub const NONE: Self = Self::frames(0);

    /// A first frame, and also a last frame if `max` is 2, each handed over in any form.
    pub const fn frames(max: usize) -> Self {
        Self {
            max,
            needed: false,
            purpose: PicturePurpose::Frames,
            references: 0,
            handover: FileHandover::Any,
        }
    }

    /// Whether it accepts a last frame in addition to the first.
    pub fn takes_last_frame(&self) -> bool {
        self.purpose == PicturePurpose::Frames && self.max >= 2
    }

    /// How many reference pictures it takes.
    pub fn most_references(&self) -> usize {
        match self.purpose {
            PicturePurpose::References => self.max,
            PicturePurpose::Frames => self.references,
        }
    }
}

/// What pictures are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PicturePurpose {
    /// They are the first frame and the last one.
    Frames,
    /// They show subjects of the video.
    References,
}

/// How a file reaches a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileHandover {
    /// The adapter sends it, in any form that the provider accepts.
    Any,
    /// The provider fetches it from a URL, so the gateway must be reachable from outside.
    AddressOnly,
}

/// The limits of a music model.
#[derive(Debug, Clone, PartialEq)]
pub struct MusicLimits {
    /// Its stems, if it separates.
    pub stems: Option<StemLimits>,
    /// Other tasks of the music API that it supports.
    pub tasks: Vec<String>,
    /// Whether it makes personas.
    pub personas: bool,
    /// The limits of its songs, if it makes any.
    pub songs: SongLimits,
}

impl MusicLimits {
    /// The limits of a model that separates and makes no music.
    pub const fn stems(stems: StemLimits) -> Self {
        Self {
            stems: Some(stems),
            tasks: Vec::new(),
            personas: false,
            songs: SongLimits::API_DEFAULT,
        }
    }

    /// The limits of a model that makes one song from a description and supports these fields of
    /// [`SongLimits::fields`]; `seconds` if the length can be chosen.
    pub fn songs(fields: Vec<&'static str>, seconds: Option<(u32, u32)>) -> Self {
        Self {
            stems: None,
            tasks: vec!["generate".into()],
            personas: false,
            songs: SongLimits {
                clips: 1,
                fields: Some(fields),
                seconds,
            },
        }
    }
}

/// The limits of a song.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SongLimits {
    /// How many clips an order of a song makes.
    pub clips: usize,
    /// Which of `lyrics`, `negative_tags`, `make_instrumental` and `seconds` it supports; `None`
    /// for providers of the music API itself.
    pub fields: Option<Vec<&'static str>>,
    /// Shortest and longest, in seconds, if the length can be chosen.
    pub seconds: Option<(u32, u32)>,
}

impl SongLimits {
    /// The limits of the music API itself: all fields, and two clips.
    pub const API_DEFAULT: Self = Self {
        clips: 2,
        fields: None,
        seconds: None,
    };

    /// How many clips a task makes. Joining clips makes one, whatever an order of a song makes.
    pub fn clips_of(&self, task: &str) -> usize {
        if task == "concat" { 1 } else { self.clips }
    }
}

/// The limits of a separation.
#[derive(Debug, Clone, PartialEq)]
pub struct StemLimits {
    /// Groups that it can separate, in the order of a full split.
    pub groups: Vec<StemGroup>,
    /// Whether it can separate one requested group from the rest.
    pub two: bool,
    /// Groups for which `two` also returns the complement, which is the mix without the group; for
    /// other groups it can only be computed from the mix.
    pub complements: Vec<StemGroup>,
    /// Whether it can make all groups in one job.
    pub full: bool,
    /// Whether a full split also returns the rest.
    pub other: bool,
}
