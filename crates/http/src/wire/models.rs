//! Models and prices.

use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use providers::{Durations, ModelLimits, MusicLimits};

use mediagate_core::records::music::GEN_STEM;
use mediagate_model::catalog::Model;
use mediagate_model::clock::Timestamp;
use mediagate_model::price::{DatedPrice, PriceSchedule};

/// The first frame and the last one: no model here takes a keyframe between them.
const MAX_KEYFRAMES: usize = 2;

/// The list of models, in the form that `OpenAI` SDKs expect.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelList {
    /// Always `list`.
    pub object: &'static str,
    /// The models.
    pub data: Vec<ModelObject>,
}

/// A model.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ModelObject {
    /// The name to use in `model` or `mv`.
    pub id: String,
    /// Always `model`.
    pub object: &'static str,
    /// Always 0: models have no creation date.
    pub created: i64,
    /// Always `mediagate`.
    pub owned_by: &'static str,
    /// `video` or `music`.
    pub kind: &'static str,
    /// A one-sentence description.
    pub summary: String,
    /// Notes about the model.
    pub notes: Vec<String>,
    /// Alternative names. `*` matches any characters.
    pub aliases: Vec<String>,
    /// The price. Null if the model is free.
    #[schema(required = true)]
    pub price: Option<PriceObject>,
    /// Supported inputs and parameters.
    pub capabilities: CapabilitiesObject,
    /// Whether it is currently available.
    pub available: bool,
    /// Whether a provider charges for an order whose content it refuses: `yes`, `no` or `unknown`.
    /// The gateway itself charges nothing for a refused order.
    pub charged_when_refused: &'static str,
    /// Where that was read, if the operator shows providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged_when_refused_source: Option<String>,
    /// The model's routes and their availability, if the operator shows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routes: Option<Vec<RouteObject>>,
    /// Median time from request to result over the last 24 hours, in seconds. Null without results
    /// in that time.
    #[schema(required = true)]
    pub median_seconds: Option<f64>,
}

/// A route to a model.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RouteObject {
    /// Name of the provider in the configuration.
    pub provider: String,
    /// The provider's own model name.
    pub model: String,
    /// Whether it is currently available.
    pub available: bool,
    /// Time until which the route's circuit breaker is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<String>,
}

/// The current state of a model, which its settings do not contain.
#[derive(Debug, Clone)]
pub struct ModelStatus {
    /// Whether it is currently available.
    pub available: bool,
    /// Its routes, if callers may see them.
    pub routes: Option<Vec<RouteObject>>,
    /// Median time in the last 24 hours.
    pub median: Option<Duration>,
    /// When this was read.
    pub now: Timestamp,
}

/// A price.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PriceObject {
    /// Billing unit: `second`, `video`, `megapixel_second`, `audio_minute`, `stem` or `task`.
    pub unit: &'static str,
    /// Price per unit, in US dollars.
    pub usd: String,
    /// Price per unit without sound, in US dollars, if different.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_without_audio: Option<String>,
    /// The next price, if one is scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextPrice>,
}

/// A scheduled price.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct NextPrice {
    /// Billing unit.
    pub unit: &'static str,
    /// Price per unit, in US dollars.
    pub usd: String,
    /// Price per unit without sound, in US dollars, if different.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_without_audio: Option<String>,
    /// Time from which the price applies.
    pub from: String,
}

impl PriceObject {
    /// The price at `now`.
    pub fn new(schedule: &PriceSchedule, now: Timestamp) -> Self {
        let current = schedule.at(now);
        let price = current.price;
        let silent = |dated: DatedPrice| dated.without_audio.map(|usd| usd.to_string());
        let next = schedule.next(now).and_then(|next| {
            Some(NextPrice {
                unit: next.price.unit.name(),
                usd: next.price.per_unit.to_string(),
                usd_without_audio: silent(next),
                from: next.from?.rfc3339(),
            })
        });
        Self {
            unit: price.unit.name(),
            usd: price.per_unit.to_string(),
            usd_without_audio: silent(current),
            next,
        }
    }
}

/// The inputs and parameters that a model supports.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct CapabilitiesObject {
    /// Accepted inputs: `text`, `image`, `audio`.
    pub input: Vec<&'static str>,
    /// Output: `video` or `audio`.
    pub output: Vec<&'static str>,
    /// Supported sizes, for example `1280x720`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<String>>,
    /// Minimum video length, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_seconds: Option<u32>,
    /// Maximum video length, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<u32>,
    /// Supported lengths in seconds, if only certain lengths are supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Vec<u32>>,
    /// Default video length, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_seconds: Option<u32>,
    /// Maximum number of source images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_images: Option<usize>,
    /// Whether an image is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_image: Option<bool>,
    /// Whether a seed is supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<bool>,
    /// Whether a negative prompt is supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub negative_prompt: Option<bool>,
    /// Whether `audio` can turn sound on and off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio: Option<bool>,
    /// Whether a last frame (`end_image`) is supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_image: Option<bool>,
    /// Maximum number of reference images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_reference_images: Option<usize>,
    /// Maximum number of reference videos.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_videos: Option<usize>,
    /// Maximum number of reference audio files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_audios: Option<usize>,
    /// Maximum number of keyframes: 1 for the first frame, 2 for also the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyframes: Option<usize>,
    /// Maximum number of shots in one video. 0 if the video has one prompt and is not divided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shots: Option<usize>,
    /// Stem groups that the model can separate. A full split adds `Other`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stems: Option<Vec<&'static str>>,
    /// Supported music tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Vec<String>>,
    /// Whether personas created from the model's clips can be used at the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personas: Option<bool>,
}

impl ModelObject {
    /// A model in its current state.
    pub fn new(model: &Model, status: ModelStatus) -> Self {
        let refusals = model.refusals();
        Self {
            charged_when_refused: refusals.charge.name(),
            // It would reveal who the provider is.
            charged_when_refused_source: refusals.source.filter(|_| status.routes.is_some()),
            id: model.id.clone(),
            object: "model",
            created: 0,
            owned_by: "mediagate",
            kind: model.kind().name(),
            summary: model.summary.clone(),
            notes: model.notes.clone(),
            aliases: model.aliases.clone(),
            price: model
                .listed_price(status.now)
                .map(|price| PriceObject::new(price, status.now)),
            capabilities: CapabilitiesObject::new(model),
            available: status.available,
            routes: status.routes,
            median_seconds: status
                .median
                .map(|median| (median.as_secs_f64() * 1000.0).round() / 1000.0),
        }
    }
}

impl CapabilitiesObject {
    fn new(model: &Model) -> Self {
        match &model.limits {
            ModelLimits::Video(video) => Self {
                input: match (video.pictures.max, video.pictures.needed) {
                    (0, _) => vec!["text"],
                    _ => vec!["text", "image"],
                },
                needs_image: Some(video.pictures.needed),
                seed: Some(video.seed),
                seconds: match &video.durations {
                    Durations::Only(list) => Some(list.clone()),
                    Durations::Range { .. } => None,
                },
                default_seconds: Some(video.default_seconds),
                output: vec!["video"],
                sizes: Some(
                    video
                        .sizes
                        .iter()
                        .map(|(width, height)| format!("{width}x{height}"))
                        .collect(),
                ),
                min_seconds: Some(video.durations.min()),
                max_seconds: Some(video.durations.max()),
                max_images: Some(video.pictures.max),
                negative_prompt: Some(video.negative_prompt),
                audio: Some(video.audio.is_some()),
                end_image: Some(video.pictures.takes_last_frame()),
                max_reference_images: Some(video.pictures.most_references()),
                reference_videos: Some(0),
                reference_audios: Some(0),
                keyframes: Some(if model.takes_frames() {
                    video.pictures.max.min(MAX_KEYFRAMES)
                } else {
                    0
                }),
                shots: Some(0),
                ..Self::default()
            },
            ModelLimits::Music(music) => Self {
                input: music_inputs(music),
                output: vec!["audio"],
                stems: music
                    .stems
                    .as_ref()
                    .map(|stems| stems.groups.iter().map(|group| group.name()).collect()),
                tasks: Some(
                    music
                        .stems
                        .iter()
                        .map(|_| GEN_STEM.to_owned())
                        .chain(music.tasks.iter().cloned())
                        .collect(),
                ),
                personas: Some(music.personas),
                ..Self::default()
            },
        }
    }
}

/// What a music model takes. A model that only makes songs from texts takes no audio.
fn music_inputs(music: &MusicLimits) -> Vec<&'static str> {
    let takes_audio = music.stems.is_some()
        || music.personas
        || music.tasks.iter().any(|task| task != "generate");
    let texts = (!music.tasks.is_empty()).then_some("text");
    texts
        .into_iter()
        .chain(takes_audio.then_some("audio"))
        .collect()
}
