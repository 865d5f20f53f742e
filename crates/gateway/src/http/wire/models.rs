//! Models and prices.

use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use crate::model::catalog::{Capabilities, Model};

/// The list of models, as the `OpenAI` SDKs read it.
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
    /// Always 0: models are not dated.
    pub created: i64,
    /// Always `mediagate`.
    pub owned_by: &'static str,
    /// `video` or `music`.
    pub kind: &'static str,
    /// One sentence for people.
    pub summary: String,
    /// What else to know before choosing it.
    pub notes: Vec<String>,
    /// Other names it answers to, `*` standing for any characters.
    pub aliases: Vec<String>,
    /// What its work costs; null when it is free.
    #[schema(required = true)]
    pub price: Option<PriceObject>,
    /// What it can be asked for.
    pub capabilities: CapabilitiesObject,
    /// Whether it works now.
    pub available: bool,
    /// Median time of the last 24 hours from order to result; null when there was none.
    #[schema(required = true)]
    pub median_seconds: Option<f64>,
}

/// A price.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PriceObject {
    /// What is counted: `second`, `video`, `megapixel_second`, `audio_minute`, `stem` or `task`.
    pub unit: &'static str,
    /// Dollars for one.
    pub usd: String,
}

/// What a model can be asked for.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct CapabilitiesObject {
    /// What it takes: `text`, `image`, `audio`.
    pub input: Vec<&'static str>,
    /// What it makes: `video` or `audio`.
    pub output: Vec<&'static str>,
    /// Frame sizes, as in `1280x720`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<String>>,
    /// Shortest video.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_seconds: Option<u32>,
    /// Longest video.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<u32>,
    /// How many source images it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_images: Option<usize>,
    /// Whether it takes a negative prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub negative_prompt: Option<bool>,
    /// Groups it can tell apart; a full split adds `Other`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stems: Option<Vec<&'static str>>,
}

impl ModelObject {
    /// A model with its median time.
    pub fn new(model: &Model, median: Option<Duration>) -> Self {
        Self {
            id: model.id.clone(),
            object: "model",
            created: 0,
            owned_by: "mediagate",
            kind: model.kind().name(),
            summary: model.summary.clone(),
            notes: model.notes.clone(),
            aliases: model.aliases.clone(),
            price: model.price.map(|price| PriceObject {
                unit: price.unit.name(),
                usd: price.per_unit.to_string(),
            }),
            capabilities: CapabilitiesObject::new(&model.capabilities),
            // What is embedded works as long as the process does.
            available: true,
            median_seconds: median.map(|median| (median.as_secs_f64() * 1000.0).round() / 1000.0),
        }
    }
}

impl CapabilitiesObject {
    fn new(capabilities: &Capabilities) -> Self {
        match capabilities {
            Capabilities::Video(video) => Self {
                input: if video.max_pictures > 0 {
                    vec!["text", "image"]
                } else {
                    vec!["text"]
                },
                output: vec!["video"],
                sizes: Some(
                    video
                        .sizes
                        .iter()
                        .map(|(width, height)| format!("{width}x{height}"))
                        .collect(),
                ),
                min_seconds: Some(video.min_seconds),
                max_seconds: Some(video.max_seconds),
                max_images: Some(video.max_pictures),
                negative_prompt: Some(video.negative_prompt),
                stems: None,
            },
            Capabilities::Stems(stems) => Self {
                input: vec!["audio"],
                output: vec!["audio"],
                stems: Some(stems.groups.iter().map(|group| group.name()).collect()),
                ..Self::default()
            },
        }
    }
}
