//! The input names of Replicate's video models. They differ between models; those that differ from
//! the most common ones are in the catalogue.
//!
//! A model may change them with a new version, and then answers 422 before anything is charged.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::adapters::input_slot::InputSlot;
use crate::frame_size;
use crate::limits::{Durations, SourcePictureLimits, VideoLimits};
use crate::order::{MediaFile, PictureRole, VideoSpec};

/// Inputs that are not files, and files with their slots.
pub(super) type PredictionInput<'a> = (Map<String, Value>, Vec<(InputSlot, &'a MediaFile)>);

/// `inputs` of an entry in the catalogue: the most common names are omitted.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ReplicateInputs {
    /// The field for the length.
    duration: String,
    /// The values of `resolution`, as the shorter side in pixels, written `720p`, including those
    /// not available for every length; empty if there is no such field.
    pub(super) resolutions: Vec<u32>,
    shape: ShapeFormat,
    /// The fields for the first frame and the last.
    first: String,
    last: String,
    /// The list field for reference pictures.
    references: String,
}

impl Default for ReplicateInputs {
    fn default() -> Self {
        Self {
            duration: "duration".into(),
            resolutions: Vec::new(),
            shape: ShapeFormat::Ratio,
            first: "image".into(),
            last: String::new(),
            references: String::new(),
        }
    }
}

/// The format of the shape.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ShapeFormat {
    /// `aspect_ratio: "16:9"`
    Ratio,
    /// `aspect_ratio: "landscape"`, or `"portrait"`.
    Word,
    /// Not sent: the shape is 16:9, or that of the picture.
    Fixed,
}

/// The limits assumed for a model that is not in the catalogue.
pub(super) fn unknown() -> VideoLimits {
    VideoLimits {
        sizes: vec![(1280, 720), (720, 1280)],
        durations: Durations::Only(vec![5]),
        default_seconds: 5,
        pictures: SourcePictureLimits::frames(1),
        seed: true,
        max_prompt: 2_000,
        ..VideoLimits::default()
    }
}

impl ReplicateInputs {
    pub(super) fn read(inputs: &Map<String, Value>) -> Result<Self, serde_json::Error> {
        serde_json::from_value(Value::Object(inputs.clone()))
    }

    /// The model's input, and the files to insert.
    pub(super) fn fill<'v>(
        &self,
        limits: &VideoLimits,
        video: &'v VideoSpec,
    ) -> PredictionInput<'v> {
        let mut input = Map::new();
        let mut put = |name: &str, value: Value| input.insert(name.to_owned(), value);
        put("prompt", json!(video.prompt));
        put(&self.duration, json!(video.seconds));
        if !self.resolutions.is_empty() {
            put("resolution", json!(frame_size::tier(video.size)));
        }
        match self.shape {
            ShapeFormat::Ratio => {
                put("aspect_ratio", json!(frame_size::ratio(video.size)));
            }
            ShapeFormat::Word => {
                let is_landscape = video.size.0 >= video.size.1;
                let word = if is_landscape {
                    "landscape"
                } else {
                    "portrait"
                };
                put("aspect_ratio", json!(word));
            }
            ShapeFormat::Fixed => {}
        }
        if let Some(negative) = &video.options.negative_prompt
            && limits.negative_prompt
        {
            put("negative_prompt", json!(negative));
        }
        if let Some(seed) = video.seed()
            && limits.seed
        {
            put("seed", json!(seed));
        }
        if let (Some(with_audio), Some(_)) = (video.audio(), limits.audio) {
            put("generate_audio", json!(with_audio));
        }
        let frames = [
            (&self.first, PictureRole::FirstFrame),
            (&self.last, PictureRole::LastFrame),
        ];
        let frames = frames
            .into_iter()
            .filter(|(field, _)| !field.is_empty())
            .filter_map(|(field, role)| {
                Some((
                    InputSlot::Member(field.clone().into()),
                    video.picture(role)?,
                ))
            });
        let max_references = limits.pictures.most_references();
        let references = video.references().take(max_references);
        let references =
            references.map(|file| (InputSlot::List(self.references.clone().into()), file));
        (input, frames.chain(references).collect())
    }
}
