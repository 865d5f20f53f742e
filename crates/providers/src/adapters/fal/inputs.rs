//! The inputs of fal's video models, which each model names by itself.
//!
//! Source: the models' own pages on fal.ai, read in 2026. fal checks inputs
//! when a job starts, so a wrong member ends as a failed job (422), which fal
//! may charge for if a runner had begun.

use serde_json::{Map, Value, json};

use crate::limits::{Durations, Pictures, VideoLimits};
use crate::order::{File, PictureRole, Video};
use crate::shape;

/// How a family of models is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inputs {
    /// Part of the model's path.
    part: &'static str,
    /// Lengths; the first is the default.
    lengths: &'static [u32],
    length: Length,
    /// Finenesses by the shorter side, the default first.
    tiers: &'static [u32],
    /// Whether `resolution` is a member; without it the first tier is what comes.
    resolution: bool,
    ratio: Ratio,
    negative_prompt: bool,
    seed: bool,
}

/// How a length is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// `5`
    Number,
    /// `"5"`
    Text,
    /// `"5s"`
    Seconds,
}

/// When `aspect_ratio` is a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ratio {
    Never,
    /// A picture brings its own shape.
    WithoutPicture,
    Always,
}

/// What most models offer.
const OTHER: Inputs = Inputs {
    part: "",
    lengths: &[5],
    length: Length::Number,
    tiers: &[720],
    resolution: true,
    ratio: Ratio::WithoutPicture,
    negative_prompt: false,
    seed: true,
};

/// The first line whose part is in the model's path holds.
const KNOWN: [Inputs; 6] = [
    Inputs {
        part: "/veo2",
        lengths: &[5, 6, 7, 8],
        length: Length::Seconds,
        resolution: false,
        ratio: Ratio::Always,
        seed: false,
        ..OTHER
    },
    Inputs {
        part: "/veo3",
        lengths: &[8, 4, 6],
        length: Length::Seconds,
        tiers: &[720, 1080],
        ratio: Ratio::Always,
        seed: false,
        ..OTHER
    },
    Inputs {
        part: "/kling-video/",
        lengths: &[5, 10],
        length: Length::Text,
        resolution: false,
        negative_prompt: true,
        seed: false,
        ..OTHER
    },
    Inputs {
        part: "/hailuo-",
        lengths: &[6, 10],
        length: Length::Text,
        tiers: &[768],
        resolution: false,
        ratio: Ratio::Never,
        seed: false,
        ..OTHER
    },
    Inputs {
        part: "/seedance",
        lengths: &[5, 10],
        length: Length::Text,
        tiers: &[720, 480],
        ratio: Ratio::Always,
        ..OTHER
    },
    Inputs {
        part: "/sora-2",
        lengths: &[4, 8, 12],
        ratio: Ratio::Always,
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
    pub(super) fn limits(self, model: &str) -> VideoLimits {
        let mut sizes = Vec::new();
        for tier in self.tiers {
            // Coders want even numbers: 854×480, 1366×768.
            let wide = (tier * 16).div_ceil(9).next_multiple_of(2);
            sizes.push((wide, *tier));
            if self.ratio != Ratio::Never {
                sizes.push((*tier, wide));
            }
        }
        let mut lengths = self.lengths.to_vec();
        lengths.sort_unstable();
        let last = model.contains("/first-last-frame-to-video")
            || (model.contains("/veo3.1") && !has_task(model));
        VideoLimits {
            sizes,
            durations: Durations::Only(lengths),
            default_seconds: self.lengths.first().copied().unwrap_or(5),
            pictures: Pictures {
                needed: has_task(model) && !model.ends_with("/text-to-video"),
                ..Pictures::frames(if last { 2 } else { 1 })
            },
            negative_prompt: self.negative_prompt,
            seed: self.seed,
            max_prompt: 2_000,
        }
    }

    /// The endpoint that makes a video of these pictures.
    pub(super) fn endpoint(self, model: &str, video: &Video) -> String {
        let Some(task) = picture_task(video) else {
            return model.to_owned();
        };
        if let Some(stem) = model.strip_suffix("/text-to-video") {
            return format!("{stem}/{task}");
        }
        // Veo's endpoint for text has no name of its own.
        if self.part.starts_with("/veo") && !has_task(model) {
            return format!("{model}/{task}");
        }
        model.to_owned()
    }

    /// The input, and the files that belong into it.
    pub(super) fn fill(
        self,
        endpoint: &str,
        video: &Video,
        length: Option<Length>,
    ) -> (Map<String, Value>, Vec<(&'static str, File)>) {
        let mut input = Map::new();
        let mut put = |name: &str, value: Value| input.insert(name.to_owned(), value);
        put("prompt", json!(video.prompt));
        let seconds = video.seconds;
        put(
            "duration",
            match length.unwrap_or(self.length) {
                Length::Number => json!(seconds),
                Length::Text => json!(seconds.to_string()),
                Length::Seconds => json!(format!("{seconds}s")),
            },
        );
        let with_picture = !video.pictures.is_empty();
        if self.ratio == Ratio::Always || (self.ratio == Ratio::WithoutPicture && !with_picture) {
            put("aspect_ratio", json!(shape::ratio(video.size)));
        }
        if self.resolution {
            put("resolution", json!(shape::tier(video.size)));
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
        let members = if endpoint.ends_with("/first-last-frame-to-video") {
            ["first_frame_url", "last_frame_url"]
        } else {
            ["image_url", ""]
        };
        let roles = [PictureRole::FirstFrame, PictureRole::LastFrame];
        let files = members
            .into_iter()
            .zip(roles)
            .filter(|(member, _)| !member.is_empty())
            .filter_map(|(member, role)| Some((member, video.picture(role)?.clone())));
        (input, files.collect())
    }
}

/// Whether a path says by its end what is made from what.
fn has_task(model: &str) -> bool {
    model.ends_with("-to-video")
}

fn picture_task(video: &Video) -> Option<&'static str> {
    video.picture(PictureRole::FirstFrame)?;
    Some(match video.picture(PictureRole::LastFrame) {
        Some(_) => "first-last-frame-to-video",
        None => "image-to-video",
    })
}
