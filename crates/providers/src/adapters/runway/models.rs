//! Inputs of the models that Runway offers. The catalogue has the inputs of each model, with the
//! format of its size.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::frame_size;
use crate::limits::{Durations, SourcePictureLimits, VideoLimits};

/// The format of a size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SizeFormat {
    /// `ratio: "1280:720"`
    #[default]
    Pixels,
    /// `ratio: "16:9"` next to `resolution`.
    Shape,
    /// `resolution` alone: the picture or the model decides on the shape.
    Tier,
    /// `ratio: "auto_720p"`: the picture decides on the shape.
    Auto,
    /// Neither is sent: the picture decides on the size.
    Nothing,
}

/// `inputs` of an entry in the catalogue.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RunwayInputs {
    /// The format of the size without frames, and with frames.
    text: SizeFormat,
    picture: SizeFormat,
    /// Words of `resolution`, by the shorter side.
    resolutions: BTreeMap<u32, String>,
}

impl RunwayInputs {
    pub(super) fn read(inputs: &Map<String, Value>) -> Result<Self, serde_json::Error> {
        serde_json::from_value(Value::Object(inputs.clone()))
    }

    /// The format of the size.
    pub(super) const fn size_format(&self, with_picture: bool) -> SizeFormat {
        if with_picture {
            self.picture
        } else {
            self.text
        }
    }

    /// The word for a size's resolution.
    pub(super) fn tier(&self, size: (u32, u32)) -> String {
        let word = self.resolutions.get(&size.0.min(size.1));
        word.cloned().unwrap_or_else(|| frame_size::tier(size))
    }
}

/// The limits assumed for a model that is not in the catalogue.
pub(super) fn unknown() -> VideoLimits {
    VideoLimits {
        sizes: vec![(1280, 720), (720, 1280)],
        durations: Durations::Only(vec![5, 10]),
        default_seconds: 5,
        pictures: SourcePictureLimits::frames(1),
        max_prompt: 1000,
        ..VideoLimits::default()
    }
}
