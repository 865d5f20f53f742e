//! Responses of `OpenRouter`'s dialect: videos, models and errors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use providers::{Durations, VideoLimits, frame_size};

use super::error::ErrorObject;
use super::models::{CapabilitiesObject, ModelObject, PriceObject};
use super::money::dollars;
use super::videos::expiry_seconds;
use mediagate_core::records::video::VideoFile;
use mediagate_core::records::{Links, status_words};
use mediagate_model::catalog::Model;
use mediagate_model::money::ChargeState;
use mediagate_model::task::{Task, TaskPayload};

/// What all paths of this dialect begin with.
pub const PREFIX: &str = "/api/v1/";
/// The path of the videos of this dialect.
pub const VIDEOS_PATH: &str = "/api/v1/videos";

/// A video, in the form that the SDKs of `OpenRouter` expect.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenRouterVideo {
    /// `video_` followed by the task's id without dashes. The same video is at `/v1/videos/{id}`.
    pub id: String,
    /// URL of this object.
    pub polling_url: String,
    /// `pending`, `in_progress`, `completed`, `failed` or `cancelled`.
    pub status: &'static str,
    /// Id of the task, for `/v1/tasks/{id}`. Absent until the video has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation_id: Option<String>,
    /// Why there is no video. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// URL of the finished file, which works without a key. If only the provider has the file, the
    /// URL of its content here, which needs the key. Absent until the video is finished, and after
    /// the file was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsigned_urls: Option<Vec<String>>,
    /// URL of the finished file, which works without a key until `expires_at`. Absent like
    /// `unsigned_urls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urls: Option<Vec<String>>,
    /// Time when the file is removed, in Unix seconds. Absent if the video is not finished or the
    /// time is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    /// The cost. Absent until it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<OpenRouterVideoUsage>,
}

/// The cost of a video.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenRouterVideoUsage {
    /// Amount charged, in US dollars.
    pub cost: f64,
    /// Always false: the gateway uses its operator's accounts at providers.
    pub is_byok: bool,
}

impl OpenRouterVideo {
    /// `None` for a task of another kind.
    pub fn new(task: &Task, links: &Links) -> Option<Self> {
        if !matches!(task.payload, TaskPayload::VideoV1(_)) {
            return None;
        }
        let id = task.id.video();
        let polling_url = links.endpoint(&format!("{VIDEOS_PATH}/{id}"));
        let file = VideoFile::of_task(links, task).filter(|file| !file.url.is_empty());
        // Some clients send their key to an unsigned URL. The provider of a linked file must not get
        // it, and at a redirect they leave it out.
        let unsigned_url = file.as_ref().map(|file| match file.linked {
            Some(true) => format!("{polling_url}/content?index=0"),
            _ => file.url.clone(),
        });
        let has_ended = task.state.is_terminal();
        // While money is held after the end, the provider's job may still be charged.
        let is_cost_known = has_ended && task.money != ChargeState::Held;
        Some(Self {
            status: status_words::openrouter(task.state),
            generation_id: has_ended.then(|| task.id.to_string()),
            error: task.failure.as_ref().map(|failure| failure.message.clone()),
            unsigned_urls: unsigned_url.map(|url| vec![url]),
            expires_at: expiry_seconds(task).filter(|_| file.is_some()),
            urls: file.map(|file| vec![file.url]),
            usage: is_cost_known.then(|| OpenRouterVideoUsage {
                cost: dollars(task.charged_or_reserved()),
                is_byok: false,
            }),
            id,
            polling_url,
        })
    }
}

/// The video models.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenRouterVideoModelList {
    /// The models.
    pub data: Vec<OpenRouterVideoModel>,
}

/// What a video model offers.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenRouterVideoModel {
    /// The name to use in `model`.
    pub id: String,
    /// The same name.
    pub canonical_slug: String,
    /// The same name.
    pub name: String,
    /// A one-sentence description.
    pub description: String,
    /// Always 0: models have no creation date.
    pub created: i64,
    /// Price by unit, in US dollars: `duration_seconds`, `generate` for each video, or
    /// `megapixel_second`; with `_with_audio` and `_without_audio` at the end if sound changes the
    /// price. `{"generate": "0"}` if the model is free.
    pub pricing_skus: BTreeMap<String, String>,
    /// Supported sizes, for example `1280x720`.
    pub supported_sizes: Vec<String>,
    /// The resolutions of these sizes, for example `720p`.
    pub supported_resolutions: Vec<String>,
    /// The usual names of the aspect ratios of these sizes.
    pub supported_aspect_ratios: Vec<&'static str>,
    /// Supported lengths, in whole seconds.
    pub supported_durations: Vec<u32>,
    /// Supported values of `frame_type`.
    pub supported_frame_images: Vec<&'static str>,
    /// Whether `generate_audio` can turn sound on and off.
    pub generate_audio: bool,
    /// Whether a seed is supported.
    pub seed: bool,
    /// Fields that `provider.options` may have.
    pub allowed_passthrough_parameters: Vec<String>,
    /// Always null: no model changes the size of a finished video.
    #[schema(required = true)]
    pub creativity: Option<Vec<u32>>,
    /// Always null.
    #[schema(required = true)]
    pub upscale_factor: Option<f64>,
    /// Always null.
    #[schema(required = true)]
    pub hugging_face_id: Option<String>,
}

impl OpenRouterVideoModel {
    /// A model with these limits and this price.
    pub fn new(model: &Model, limits: &VideoLimits, price: Option<&PriceObject>) -> Self {
        let mut resolutions: Vec<String> = Vec::new();
        let mut aspect_ratios: Vec<&'static str> = Vec::new();
        for size in &limits.sizes {
            let resolution = resolution(*size);
            if !resolutions.contains(&resolution) {
                resolutions.push(resolution);
            }
            let ratio = frame_size::ratio(*size);
            if frame_size::has_usual_ratio(*size) && !aspect_ratios.contains(&ratio) {
                aspect_ratios.push(ratio);
            }
        }
        Self {
            id: model.id.clone(),
            canonical_slug: model.id.clone(),
            name: model.id.clone(),
            description: model.summary.clone(),
            created: 0,
            pricing_skus: pricing_skus(price),
            supported_sizes: (limits.sizes.iter())
                .map(|size| frame_size::size_text(*size, 'x'))
                .collect(),
            supported_resolutions: resolutions,
            supported_aspect_ratios: aspect_ratios,
            supported_durations: match &limits.durations {
                Durations::Only(lengths) => lengths.clone(),
                Durations::Range { min, max } => (*min..=*max).collect(),
            },
            supported_frame_images: frame_types(limits),
            generate_audio: limits.audio.is_some(),
            seed: limits.seed,
            allowed_passthrough_parameters: model.passthrough_fields.clone(),
            creativity: None,
            upscale_factor: None,
            hugging_face_id: None,
        }
    }
}

/// The dialect's name of a size's resolution. From 1440 lines on they have names of their own.
fn resolution(size: (u32, u32)) -> String {
    match size.0.min(size.1) {
        1440 => "2K".to_owned(),
        2160 => "4K".to_owned(),
        _ => frame_size::tier(size),
    }
}

fn frame_types(limits: &VideoLimits) -> Vec<&'static str> {
    let pictures = &limits.pictures;
    let takes_first = pictures.purpose == providers::PicturePurpose::Frames && pictures.max > 0;
    let first = takes_first.then_some("first_frame");
    let last = pictures.takes_last_frame().then_some("last_frame");
    first.into_iter().chain(last).collect()
}

fn pricing_skus(price: Option<&PriceObject>) -> BTreeMap<String, String> {
    let Some(price) = price else {
        return BTreeMap::from([("generate".to_owned(), "0".to_owned())]);
    };
    let name = match price.unit {
        "second" => "duration_seconds",
        "video" | "task" => "generate",
        other => other,
    };
    match &price.usd_without_audio {
        None => BTreeMap::from([(name.to_owned(), price.usd.clone())]),
        Some(silent) => BTreeMap::from([
            (format!("{name}_with_audio"), price.usd.clone()),
            (format!("{name}_without_audio"), silent.clone()),
        ]),
    }
}

/// A page of the list of all models.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenRouterModelList {
    /// The models.
    pub data: Vec<OpenRouterModel>,
    /// The next page.
    pub links: OpenRouterPageLinks,
    /// Number of models that match the query, on all pages.
    pub total_count: usize,
}

/// Links to other pages.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenRouterPageLinks {
    /// URL of the next page. Null on the last page.
    #[schema(required = true)]
    pub next: Option<String>,
}

/// A model.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenRouterModel {
    /// The name to use in `model` or `mv`.
    pub id: String,
    /// The same name.
    pub canonical_slug: String,
    /// The same name.
    pub name: String,
    /// A one-sentence description.
    pub description: String,
    /// Always 0: models have no creation date.
    pub created: i64,
    /// What it takes and makes.
    pub architecture: OpenRouterArchitecture,
    /// Price of tokens, and of a request. `price` has the price of videos and music.
    pub pricing: OpenRouterTokenPrices,
    /// The price. Null if the model is free. An extension of `OpenRouter`'s API.
    #[schema(required = true)]
    pub price: Option<PriceObject>,
    /// Where its price and limits are described.
    pub links: OpenRouterModelLinks,
    /// Always empty: parameters of text models have no effect here.
    pub supported_parameters: Vec<&'static str>,
    /// Limits of the best provider.
    pub top_provider: OpenRouterTopProvider,
    /// Always null.
    #[schema(required = true)]
    pub context_length: Option<u32>,
    /// Always null.
    #[schema(required = true)]
    pub default_parameters: Option<f64>,
    /// Always null.
    #[schema(required = true)]
    pub per_request_limits: Option<f64>,
    /// Always null.
    #[schema(required = true)]
    pub supported_voices: Option<Vec<String>>,
}

/// What a model takes and makes.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenRouterArchitecture {
    /// Accepted inputs: `text`, `image`, `audio`.
    pub input_modalities: Vec<&'static str>,
    /// Output: `video` or `audio`.
    pub output_modalities: Vec<&'static str>,
    /// Both, for example `text+image->video`.
    pub modality: String,
}

/// Prices in US dollars.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenRouterTokenPrices {
    /// Price of a prompt token: always `0`.
    pub prompt: &'static str,
    /// Price of a completion token: always `0`.
    pub completion: &'static str,
    /// Price of a request, if each costs the same. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

/// Links of a model.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenRouterModelLinks {
    /// URL of the price list.
    pub details: String,
}

/// Limits of the best provider.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenRouterTopProvider {
    /// Always false: the gateway does not moderate prompts for a provider.
    pub is_moderated: bool,
}

impl OpenRouterModel {
    /// A model as `/v1/models` shows it.
    pub fn new(model: ModelObject, links: &Links) -> Self {
        let CapabilitiesObject { input, output, .. } = model.capabilities;
        let price_of_request = model.price.as_ref().filter(|price| {
            matches!(price.unit, "video" | "task") && price.usd_without_audio.is_none()
        });
        Self {
            canonical_slug: model.id.clone(),
            name: model.id.clone(),
            id: model.id,
            description: model.summary,
            created: model.created,
            architecture: OpenRouterArchitecture {
                modality: format!("{}->{}", input.join("+"), output.join("+")),
                input_modalities: input,
                output_modalities: output,
            },
            pricing: OpenRouterTokenPrices {
                prompt: "0",
                completion: "0",
                request: price_of_request.map(|price| price.usd.clone()),
            },
            price: model.price,
            links: OpenRouterModelLinks {
                details: links.endpoint("/pricing"),
            },
            supported_parameters: Vec::new(),
            top_provider: OpenRouterTopProvider {
                is_moderated: false,
            },
            context_length: None,
            default_parameters: None,
            per_request_limits: None,
            supported_voices: None,
        }
    }
}

/// The body of every error of this dialect.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenRouterErrorBody {
    /// The error.
    pub error: OpenRouterErrorObject,
}

/// An error of this dialect. It has the fields of the other errors too, except that `code` is the
/// status.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct OpenRouterErrorObject {
    /// The HTTP status.
    pub code: u16,
    /// Human-readable message. Lists every mistake found in the request.
    pub message: String,
    /// Error type, for example `invalid_request_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Path of the first invalid field. Null if no field applies.
    #[schema(required = true)]
    pub param: Option<String>,
    /// Id of the request. Include it in support requests.
    pub request_id: String,
    /// Id of the task, if the error concerns a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// What SDKs pass on to their callers.
    pub metadata: OpenRouterErrorMetadata,
}

/// The part of an error that SDKs pass on.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct OpenRouterErrorMetadata {
    /// The dialect's word for the error, for example `invalid_request`.
    pub error_type: &'static str,
    /// Stable error code of this gateway.
    pub code: String,
    /// Path of the first invalid field. Null if no field applies.
    #[schema(required = true)]
    pub param: Option<String>,
    /// Id of the request.
    pub request_id: String,
    /// Id of the task, if the error concerns a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
}

/// The body of an error in the format of the other APIs.
#[derive(Debug, Deserialize)]
pub struct PlainErrorBody {
    error: PlainErrorObject,
}

#[derive(Debug, Deserialize)]
struct PlainErrorObject {
    message: String,
    #[serde(rename = "type")]
    kind: String,
    param: Option<String>,
    code: String,
    request_id: String,
    task_id: Option<String>,
}

impl From<ErrorObject> for PlainErrorObject {
    fn from(error: ErrorObject) -> Self {
        Self {
            message: error.message,
            kind: error.kind.to_owned(),
            param: error.param,
            code: error.code.to_owned(),
            request_id: error.request_id,
            task_id: error.task_id,
        }
    }
}

impl OpenRouterErrorBody {
    /// The body of a response with this status.
    pub fn new(status: u16, body: PlainErrorBody) -> Self {
        Self {
            error: OpenRouterErrorObject::from_plain(status, body.error),
        }
    }
}

impl OpenRouterErrorObject {
    /// An error that would have this status if it were a response of its own.
    pub fn new(status: u16, error: ErrorObject) -> Self {
        Self::from_plain(status, error.into())
    }

    fn from_plain(status: u16, error: PlainErrorObject) -> Self {
        Self {
            code: status,
            message: error.message,
            kind: error.kind,
            param: error.param.clone(),
            request_id: error.request_id.clone(),
            task_id: error.task_id.clone(),
            metadata: OpenRouterErrorMetadata {
                error_type: error_type(status, &error.code),
                code: error.code,
                param: error.param,
                request_id: error.request_id,
                task_id: error.task_id,
            },
        }
    }
}

/// The dialect's word for an error.
fn error_type(status: u16, code: &str) -> &'static str {
    match code {
        "content_policy" => "content_policy_violation",
        "image_invalid" => "invalid_image",
        "image_too_large" => "image_too_large",
        "image_fetch_failed" | "image_fetch_blocked" => "image_download_failed",
        "provider_unavailable" => "provider_unavailable",
        "still_running" => "timeout",
        _ => match status {
            401 => "authentication",
            402 => "payment_required",
            403 => "permission_denied",
            404 | 410 => "not_found",
            412 => "precondition_failed",
            413 => "payload_too_large",
            422 | 424 => "unprocessable",
            429 => "rate_limit_exceeded",
            500.. => "server",
            _ => "invalid_request",
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_keeps_its_fields_and_gets_the_dialects_words() {
        for (status, code, error_type) in [
            (400, "unsupported_value", "invalid_request"),
            (401, "missing_api_key", "authentication"),
            (402, "budget_exceeded", "payment_required"),
            (404, "task_not_found", "not_found"),
            (409, "video_not_ready", "invalid_request"),
            (410, "link_expired", "not_found"),
            (422, "content_policy", "content_policy_violation"),
            (422, "audio_invalid", "unprocessable"),
            (429, "too_many_tasks", "rate_limit_exceeded"),
            (503, "still_running", "timeout"),
            (503, "overloaded", "server"),
        ] {
            let plain = json!({"error": {"message": "m", "type": "t", "param": "p", "code": code,
                "request_id": "r"}});
            let plain: PlainErrorBody = serde_json::from_value(plain).unwrap();
            let body = serde_json::to_value(OpenRouterErrorBody::new(status, plain)).unwrap();
            let metadata = json!({"error_type": error_type, "code": code, "param": "p",
                "request_id": "r"});
            assert_eq!(
                body["error"],
                json!({"code": status, "message": "m", "type": "t", "param": "p", "request_id": "r",
                    "metadata": metadata})
            );
        }
    }

    #[test]
    fn a_price_has_a_name_for_each_unit() {
        let price = |unit, usd_without_audio: Option<&str>| PriceObject {
            unit,
            usd: "0.40".into(),
            usd_without_audio: usd_without_audio.map(ToOwned::to_owned),
            next: None,
        };
        for (price, skus) in [
            (None, json!({"generate": "0"})),
            (Some(price("video", None)), json!({"generate": "0.40"})),
            (
                Some(price("second", None)),
                json!({"duration_seconds": "0.40"}),
            ),
            (
                Some(price("second", Some("0.20"))),
                json!({"duration_seconds_with_audio": "0.40", "duration_seconds_without_audio": "0.20"}),
            ),
            (
                Some(price("megapixel_second", None)),
                json!({"megapixel_second": "0.40"}),
            ),
        ] {
            assert_eq!(json!(pricing_skus(price.as_ref())), skus);
        }
    }
}
