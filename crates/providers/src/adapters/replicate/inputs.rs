//! The names that Replicate's video models give their inputs.
//!
//! Source: the model pages, read in 2026; a model may change them with a new
//! version, and then it answers 422 before anything is paid for.

use serde_json::{Map, Value, json};

use crate::limits::{Durations, Pictures, VideoLimits};
use crate::order::{File, PictureRole, Video};
use crate::shape;

/// Where a file goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Into this member.
    Member(&'static str),
    /// Into the list under this member.
    List(&'static str),
}

impl Place {
    /// Puts a file's address there.
    pub(super) fn put(self, input: &mut Map<String, Value>, address: &str) {
        match self {
            Self::Member(name) => drop(input.insert(name.into(), json!(address))),
            Self::List(name) => {
                let list = input.entry(name).or_insert_with(|| json!([]));
                if let Some(list) = list.as_array_mut() {
                    list.push(json!(address));
                }
            }
        }
    }
}

/// Inputs that are no files, and files with the places that they go to.
pub(super) type Filled<'a> = (Map<String, Value>, Vec<(Place, &'a File)>);

/// How a family of models is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inputs {
    /// Part of the model's name.
    part: &'static str,
    /// Lengths; the first is the default.
    seconds: &'static [u32],
    /// The member for the length; empty where there is none.
    duration: &'static str,
    /// The member for the fineness, and the tiers it takes; the shorter side
    /// in pixels, written `720p`. Without a member the first tier is what comes.
    resolution: &'static str,
    tiers: &'static [u32],
    /// Tiers that not every length has: the operator may offer them.
    other_tiers: &'static [u32],
    /// How the shape is told.
    shape: Shape,
    /// The members for the first frame and the last.
    first: &'static str,
    last: &'static str,
    /// The list for pictures of what the video is about, and how many it takes.
    references: (&'static str, usize),
    /// What comes where `generate_audio` is a member and nobody says it.
    audio: Option<bool>,
    /// Whether nothing is made without a picture.
    needs_picture: bool,
    negative_prompt: bool,
    seed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    /// `aspect_ratio`: 16:9, 9:16 and 1:1.
    Ratio,
    /// `aspect_ratio`: 16:9 and 9:16.
    Wide,
    /// `aspect_ratio`: `landscape` and `portrait`.
    Word,
    /// 16:9, or that of the picture.
    Fixed,
}

/// What most models offer.
const OTHER: Inputs = Inputs {
    part: "",
    seconds: &[5],
    duration: "duration",
    resolution: "",
    tiers: &[720],
    other_tiers: &[],
    shape: Shape::Wide,
    first: "image",
    last: "",
    references: ("", 0),
    audio: None,
    needs_picture: false,
    negative_prompt: false,
    seed: true,
};

/// The first line whose part is in the model's name holds.
const KNOWN: [Inputs; 11] = [
    Inputs {
        part: "google/veo-2",
        seconds: &[5, 6, 7, 8],
        ..OTHER
    },
    Inputs {
        part: "google/veo-3.1",
        seconds: &[8, 4, 6],
        resolution: "resolution",
        tiers: &[720, 1080],
        last: "last_frame",
        references: ("reference_images", 3),
        audio: Some(true),
        negative_prompt: true,
        ..OTHER
    },
    Inputs {
        part: "google/veo-3",
        seconds: &[8, 4, 6],
        resolution: "resolution",
        tiers: &[720, 1080],
        audio: Some(true),
        negative_prompt: true,
        ..OTHER
    },
    Inputs {
        part: "kling-v2.1-master",
        seconds: &[5, 10],
        first: "start_image",
        shape: Shape::Ratio,
        negative_prompt: true,
        seed: false,
        ..OTHER
    },
    Inputs {
        part: "kling-v2.1",
        seconds: &[5, 10],
        first: "start_image",
        shape: Shape::Fixed,
        needs_picture: true,
        negative_prompt: true,
        seed: false,
        ..OTHER
    },
    Inputs {
        part: "kling",
        seconds: &[5, 10],
        first: "start_image",
        shape: Shape::Ratio,
        negative_prompt: true,
        seed: false,
        ..OTHER
    },
    Inputs {
        part: "minimax/hailuo-02",
        seconds: &[6, 10],
        resolution: "resolution",
        tiers: &[768],
        other_tiers: &[512, 1080],
        shape: Shape::Fixed,
        first: "first_frame_image",
        last: "last_frame_image",
        seed: false,
        ..OTHER
    },
    Inputs {
        part: "minimax/hailuo",
        seconds: &[6, 10],
        resolution: "resolution",
        tiers: &[768],
        other_tiers: &[1080],
        shape: Shape::Fixed,
        first: "first_frame_image",
        seed: false,
        ..OTHER
    },
    Inputs {
        part: "bytedance/seedance-2.0",
        seconds: &[5, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        resolution: "resolution",
        tiers: &[720, 480],
        shape: Shape::Ratio,
        last: "last_frame_image",
        references: ("reference_images", 9),
        audio: Some(true),
        ..OTHER
    },
    Inputs {
        part: "bytedance/seedance",
        seconds: &[5, 10],
        resolution: "resolution",
        tiers: &[720, 1080, 480],
        shape: Shape::Ratio,
        ..OTHER
    },
    Inputs {
        part: "openai/sora-2",
        seconds: &[4, 8, 12],
        duration: "seconds",
        shape: Shape::Word,
        first: "input_reference",
        seed: false,
        ..OTHER
    },
];

/// How a model is asked.
pub(super) fn of(model: &str) -> Inputs {
    let found = KNOWN.iter().find(|inputs| model.contains(inputs.part));
    found.copied().unwrap_or(OTHER)
}

impl Inputs {
    /// Whether a size's fineness can be said. Of a model that is not known the
    /// operator's limits say what it makes.
    pub(super) fn can_say(self, size: (u32, u32)) -> bool {
        let short = size.0.min(size.1);
        let mut all = self.tiers.iter().chain(self.other_tiers);
        self.part.is_empty() || all.any(|tier| *tier == short)
    }

    pub(super) fn limits(self) -> VideoLimits {
        let mut sizes = Vec::new();
        for tier in self.tiers {
            let wide = if *tier == 480 { 854 } else { tier * 16 / 9 };
            // Coders want even numbers: 1366×768.
            let wide = wide.next_multiple_of(2);
            sizes.push((wide, *tier));
            if self.shape != Shape::Fixed {
                sizes.push((*tier, wide));
            }
            if self.shape == Shape::Ratio {
                sizes.push((*tier, *tier));
            }
        }
        let mut seconds = self.seconds.to_vec();
        seconds.sort_unstable();
        let pictures = Pictures::frames(if self.last.is_empty() { 1 } else { 2 });
        VideoLimits {
            sizes,
            durations: Durations::Only(seconds),
            default_seconds: self.seconds.first().copied().unwrap_or(5),
            pictures: Pictures {
                needed: self.needs_picture,
                references: self.references.1,
                ..pictures
            },
            negative_prompt: self.negative_prompt,
            seed: self.seed,
            audio: self.audio,
            max_prompt: 2_000,
        }
    }

    /// The model's input, and the files that belong into it.
    pub(super) fn fill(self, video: &Video) -> Filled<'_> {
        let mut input = Map::new();
        let mut put = |name: &str, value: Value| input.insert(name.to_owned(), value);
        put("prompt", json!(video.prompt));
        put(self.duration, json!(video.seconds));
        if !self.resolution.is_empty() {
            put(self.resolution, json!(shape::tier(video.size)));
        }
        match self.shape {
            Shape::Ratio | Shape::Wide => {
                put("aspect_ratio", json!(shape::ratio(video.size)));
            }
            Shape::Word => {
                let lies = video.size.0 >= video.size.1;
                let word = if lies { "landscape" } else { "portrait" };
                put("aspect_ratio", json!(word));
            }
            Shape::Fixed => {}
        }
        if let Some(negative) = &video.negative_prompt
            && self.negative_prompt
        {
            put("negative_prompt", json!(negative));
        }
        if let Some(seed) = video.seed
            && self.seed
        {
            put("seed", json!(seed));
        }
        if let (Some(on), Some(_)) = (video.audio, self.audio) {
            put("generate_audio", json!(on));
        }
        let frames = [
            (self.first, PictureRole::FirstFrame),
            (self.last, PictureRole::LastFrame),
        ];
        let files = frames
            .into_iter()
            .filter(|(member, _)| !member.is_empty())
            .filter_map(|(member, role)| Some((Place::Member(member), video.picture(role)?)));
        let (list, most) = self.references;
        let references = video.references().take(most);
        let references = references.map(|file| (Place::List(list), file));
        (input, files.chain(references).collect())
    }
}
