//! The input of a task, as its record shows it.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::records::Links;
use crate::records::music::GEN_STEM;
use crate::records::task::TaskExtras;
use mediagate_model::ids::{AssetId, ClipId};
use mediagate_model::media::Asset;
use mediagate_model::task::{Choice, PictureRole, SongJob, StemsJob, TaskPayload, VideoJob};

/// The input of the task, with defaults filled in.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct TaskInput {
    /// The prompt. Null if there was none.
    #[schema(required = true)]
    pub prompt: Option<String>,
    /// Length in seconds. Null if the model decides.
    #[schema(required = true)]
    pub seconds: Option<f64>,
    /// Width and height in pixels, for example `1280x720`. Null for music, and if the model
    /// decides.
    #[schema(required = true)]
    pub size: Option<String>,
    /// The seed. Null if the provider chose it.
    #[schema(required = true)]
    pub seed: Option<u64>,
    /// Whether the gateway drew the seed, because the request has none. Absent if it has one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub seed_drawn: bool,
    /// The negative prompt: what to keep out of the result.
    #[schema(required = true)]
    pub negative_prompt: Option<String>,
    /// The first frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<SourceFile>,
    /// The last frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_image: Option<SourceFile>,
    /// The reference images.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reference_images: Vec<SourceFile>,
    /// The clip that was separated or that a song is based on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<SourceFile>,
    /// Whether the video has sound, if the model offers the choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio: Option<bool>,
    /// The `provider_options` that were passed to the provider.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub provider_options: Map<String, Value>,
    /// The music operation, for example `gen_stem`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Kind of separation: `two` or `twelve`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stem_task: Option<&'static str>,
    /// The stem group from the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stem_type_group_name: Option<String>,
    /// Id of the persona that sings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persona_id: Option<String>,
    /// Other fields of a song from the request.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
}

/// An input file of a task.
#[derive(Debug, Serialize, ToSchema)]
pub struct SourceFile {
    /// Id of the stored image or clip.
    pub id: String,
    /// URL of the file. It needs no authorization. Null after the file was removed.
    #[schema(required = true)]
    pub url: Option<String>,
}

impl TaskInput {
    pub(super) fn new(links: &Links, payload: &TaskPayload, extras: &TaskExtras) -> Self {
        match payload {
            TaskPayload::VideoV1(job) => Self::video(links, job, extras),
            TaskPayload::StemsV1(job) => Self::stems(links, job, extras),
            TaskPayload::SongV1(job) => Self::song(links, job, extras),
        }
    }

    fn video(links: &Links, job: &VideoJob, extras: &TaskExtras) -> Self {
        let picture = |id: AssetId| SourceFile::picture(links, id, &extras.pictures);
        let is_set = |value: u64| value > 0;
        let first_frame = job.picture(PictureRole::FirstFrame);
        let last_frame = job.picture(PictureRole::LastFrame);
        let is_own = |id: &AssetId| Some(*id) != last_frame && Some(*id) != first_frame;
        let mut references: Vec<AssetId> = Vec::new();
        for id in job.pictures_as(PictureRole::Reference).filter(is_own) {
            if !references.contains(&id) {
                references.push(id);
            }
        }
        Self {
            prompt: Some(job.prompt.clone()),
            seconds: is_set(job.milliseconds).then(|| seconds(job.milliseconds)),
            size: is_set(u64::from(job.width)).then(|| format!("{}x{}", job.width, job.height)),
            seed: job.options.seed.map(Choice::value),
            seed_drawn: matches!(job.options.seed, Some(Choice::Default(_))),
            negative_prompt: job.options.negative_prompt.clone(),
            image: first_frame.map(picture),
            end_image: last_frame.map(picture),
            reference_images: references.into_iter().map(picture).collect(),
            audio: job.options.audio.map(Choice::value),
            provider_options: job.options.provider_options.clone(),
            ..Self::default()
        }
    }

    fn stems(links: &Links, job: &StemsJob, extras: &TaskExtras) -> Self {
        Self {
            seconds: Some(seconds(job.milliseconds)),
            clip: Some(SourceFile::clip(links, job.source, extras)),
            task: Some(GEN_STEM.to_owned()),
            // Unless the request has one, it is that of the source.
            title: non_empty(&job.title).filter(|_| links.shows_everything()),
            stem_task: Some(job.stem_task.name()),
            stem_type_group_name: non_empty(&job.group_name),
            ..Self::default()
        }
    }

    fn song(links: &Links, job: &SongJob, extras: &TaskExtras) -> Self {
        let mut options = job.fields.clone();
        let mut text = |name: &str| match options.remove(name) {
            Some(Value::String(text)) => non_empty(&text),
            Some(other) => {
                options.insert(name.to_owned(), other);
                None
            }
            None => None,
        };
        let prompt = text("prompt").or_else(|| text("gpt_description_prompt"));
        let negative_prompt = text("negative_prompt");
        let length = options.get("seconds").and_then(Value::as_f64);
        options.retain(|name, _| !matches!(name.as_str(), "seconds" | "title" | "persona_id"));
        let clip = job.clips.first();
        Self {
            prompt,
            seconds: length,
            negative_prompt,
            clip: clip.map(|(_, id)| SourceFile::clip(links, *id, extras)),
            task: Some(job.task.clone()),
            title: non_empty(&job.title),
            persona_id: job.persona.map(|id| id.to_string()),
            options,
            ..Self::default()
        }
    }
}

impl SourceFile {
    fn picture(links: &Links, id: AssetId, assets: &[Asset]) -> Self {
        let asset = assets.iter().find(|asset| asset.id == id);
        let stored = asset.filter(|asset| asset.removed_at.is_none());
        let url = stored.map(|asset| links.media(id, asset.media, asset.expires_at));
        Self {
            id: id.to_string(),
            url: url.filter(|url| !url.is_empty()),
        }
    }

    fn clip(links: &Links, id: ClipId, extras: &TaskExtras) -> Self {
        let clip = extras.sources.iter().find(|clip| clip.id == id);
        let url = clip.map(|clip| {
            let [audio, _, _] = links.clip_urls(clip);
            audio
        });
        Self {
            id: id.to_string(),
            url: url.filter(|url| !url.is_empty()),
        }
    }
}

/// The pictures that a task was given.
pub fn pictures(payload: &TaskPayload) -> Vec<AssetId> {
    let TaskPayload::VideoV1(job) = payload else {
        return Vec::new();
    };
    job.pictures.iter().map(|picture| picture.file).collect()
}

/// The clips that a task was given.
pub fn sources(payload: &TaskPayload) -> Vec<ClipId> {
    match payload {
        TaskPayload::VideoV1(_) => Vec::new(),
        TaskPayload::StemsV1(job) => vec![job.source],
        TaskPayload::SongV1(job) => job.clips.first().map(|(_, id)| *id).into_iter().collect(),
    }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[expect(clippy::cast_precision_loss, reason = "lengths of media are small")]
fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}
