//! The names that Replicate's video models give their inputs. Each has its own;
//! those that differ from the usual ones are in the catalogue.
//!
//! A model may change them with a new version, and then it answers 422 before
//! anything is paid for.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::adapters::input_slot::InputSlot;
use crate::frame_size;
use crate::limits::{Durations, SourcePictureLimits, VideoLimits};
use crate::order::{MediaFile, PictureRole, VideoSpec};

/// Inputs that are no files, and files with the places that they go to.
pub(super) type PredictionInput<'a> = (Map<String, Value>, Vec<(InputSlot, &'a MediaFile)>);

/// `inputs` of an entry in the catalogue: what is usual is left out.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ReplicateInputs {
    /// The member for the length.
    duration: String,
    /// What `resolution` takes, the shorter side in pixels and written `720p`,
    /// those included that not every length has; nothing where there is no such
    /// member.
    pub(super) resolutions: Vec<u32>,
    shape: ShapeFormat,
    /// The members for the first frame and the last.
    first: String,
    last: String,
    /// The list for pictures of what the video is about.
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

/// How the shape is told.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ShapeFormat {
    /// `aspect_ratio: "16:9"`
    Ratio,
    /// `aspect_ratio: "landscape"`, or `"portrait"`.
    Word,
    /// Not at all: it is 16:9, or that of the picture.
    Fixed,
}

/// What a model is taken for that is not in the catalogue.
pub(super) fn unknown() -> VideoLimits {
    VideoLimits {
        sizes: vec![(1280, 720), (720, 1280)],
        durations: Durations::Only(vec![5]),
        default_seconds: 5,
        pictures: SourcePictureLimits::frames(1),
        negative_prompt: false,
        seed: true,
        audio: None,
        max_prompt: 2_000,
    }
}

impl ReplicateInputs {
    pub(super) fn read(inputs: &Map<String, Value>) -> Result<Self, serde_json::Error> {
        serde_json::from_value(Value::Object(inputs.clone()))
    }

    /// The model's input, and the files that belong into it.
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
                let lies = video.size.0 >= video.size.1;
                let word = if lies { "landscape" } else { "portrait" };
                put("aspect_ratio", json!(word));
            }
            ShapeFormat::Fixed => {}
        }
        if let Some(negative) = &video.negative_prompt
            && limits.negative_prompt
        {
            put("negative_prompt", json!(negative));
        }
        if let Some(seed) = video.seed
            && limits.seed
        {
            put("seed", json!(seed));
        }
        if let (Some(on), Some(_)) = (video.audio, limits.audio) {
            put("generate_audio", json!(on));
        }
        let frames = [
            (&self.first, PictureRole::FirstFrame),
            (&self.last, PictureRole::LastFrame),
        ];
        let frames = frames
            .into_iter()
            .filter(|(member, _)| !member.is_empty())
            .filter_map(|(member, role)| {
                Some((
                    InputSlot::Member(member.clone().into()),
                    video.picture(role)?,
                ))
            });
        let most = limits.pictures.most_references();
        let references = video.references().take(most);
        let references =
            references.map(|file| (InputSlot::List(self.references.clone().into()), file));
        (input, frames.chain(references).collect())
    }
}
