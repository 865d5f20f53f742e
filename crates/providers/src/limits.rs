//! Limits of models, checked so that the impossible is refused before
//! money moves.

use serde::{Deserialize, Serialize};

use crate::order::StemGroup;

/// The limits of a model.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelLimits {
    /// It makes videos.
    Video(VideoLimits),
    /// It works on music.
    Music(MusicLimits),
}

/// Lengths that a model offers, in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Durations {
    /// Just these, ascending.
    Only(Vec<u32>),
    /// Any from the first to the last.
    Range {
        /// Shortest.
        min: u32,
        /// Longest.
        max: u32,
    },
}

impl Durations {
    /// Whether this length is offered.
    pub fn contains(&self, seconds: f64) -> bool {
        match self {
            Self::Only(list) => list
                .iter()
                .any(|one| (f64::from(*one) - seconds).abs() < 1e-9),
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

/// What a video model may be asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoLimits {
    /// Frame sizes in pixels, the default first.
    pub sizes: Vec<(u32, u32)>,
    /// Lengths.
    pub durations: Durations,
    /// The length when the request names none.
    pub default_seconds: u32,
    /// Source pictures.
    pub pictures: SourcePictureLimits,
    /// Whether it takes a negative prompt.
    pub negative_prompt: bool,
    /// Whether it takes a seed.
    pub seed: bool,
    /// Where an order can choose between sound and none: what comes when it
    /// does not.
    pub audio: Option<bool>,
    /// Longest prompt in characters.
    pub max_prompt: usize,
}

/// What a video model does with source pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourcePictureLimits {
    /// How many it takes at most.
    pub max: usize,
    /// Whether it makes nothing without one.
    pub needed: bool,
    /// What they are for.
    pub purpose: PicturePurpose,
    /// How many it takes instead that show what the video is about; for
    /// [`PicturePurpose::References`], `max` says it.
    pub references: usize,
    /// How they reach the provider.
    pub handover: FileHandover,
}

impl SourcePictureLimits {
    /// No pictures.
    pub const NONE: Self = Self::frames(0);

    /// A first frame, and with `max` 2 a last one, in any form.
    pub const fn frames(max: usize) -> Self {
        Self {
            max,
            needed: false,
            purpose: PicturePurpose::Frames,
            references: 0,
            handover: FileHandover::Any,
        }
    }

    /// Whether it takes a last frame beside the first.
    pub fn takes_last_frame(&self) -> bool {
        self.purpose == PicturePurpose::Frames && self.max >= 2
    }

    /// How many pictures it takes that show what the video is about.
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
    /// They show what the video is about.
    References,
}

/// How a file reaches a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileHandover {
    /// The adapter hands it over, in whatever form the provider takes.
    Any,
    /// The provider fetches it from an address, so that the gateway must be
    /// reachable from outside.
    AddressOnly,
}

/// What a music model may be asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct MusicLimits {
    /// Stems, when it separates.
    pub stems: Option<StemLimits>,
    /// Other tasks of the music dialect that it does.
    pub tasks: Vec<String>,
    /// Whether it makes personas.
    pub personas: bool,
    /// What its songs may be asked for, where it makes any.
    pub songs: SongLimits,
}

impl MusicLimits {
    /// Of who separates and makes no music.
    pub const fn stems(stems: StemLimits) -> Self {
        Self {
            stems: Some(stems),
            tasks: Vec::new(),
            personas: false,
            songs: SongLimits::DIALECT,
        }
    }

    /// Of who makes one song of a description, and heeds these fields of
    /// [`SongLimits::fields`]; `seconds` where the length can be asked for.
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

/// What a song may be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SongLimits {
    /// How many clips an order makes.
    pub clips: usize,
    /// Which of `lyrics`, `negative_tags`, `make_instrumental` and `seconds` it
    /// heeds; `None` for whoever speaks the dialect itself.
    pub fields: Option<Vec<&'static str>>,
    /// Shortest and longest, in seconds, where that can be asked for.
    pub seconds: Option<(u32, u32)>,
}

impl SongLimits {
    /// The dialect's own: whatever it is told, two clips of it.
    pub const DIALECT: Self = Self {
        clips: 2,
        fields: None,
        seconds: None,
    };
}

/// What can be separated.
#[derive(Debug, Clone, PartialEq)]
pub struct StemLimits {
    /// Groups that it tells apart, in the order of a full split.
    pub groups: Vec<StemGroup>,
    /// Whether it can take one wanted group from the rest.
    pub two: bool,
    /// Groups beside which `two` gives the rest as well; any other group comes
    /// without it, and the rest is to be had only as what is left of the mix.
    pub rests: Vec<StemGroup>,
    /// Whether it can make all groups in one job.
    pub full: bool,
    /// Whether a full split also gives what is left.
    pub other: bool,
}
