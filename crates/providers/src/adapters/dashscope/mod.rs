//! `dashscope`: Alibaba's Model Studio, which offers the Wan and `HappyHorse` video models.
//!
//! Sources: the `dashscope` SDK 2.0.2 (Python) (its requests); the help pages; `@ai-sdk/alibaba`
//! 2.0.58 for `audio` and for the inputs of wan3.
//!
//! ```text
//! POST /services/aigc/video-generation/video-synthesis  {output: {task_id, task_status}}
//! POST /services/aigc/image2video/video-synthesis       the same, for first and last frame
//! GET  /tasks/{id}         PENDING │ RUNNING │ SUSPENDED │ SUCCEEDED │ FAILED │ CANCELED │ UNKNOWN
//! POST /tasks/{id}/cancel  while it is pending
//! ```
//!
//! A submission without `X-DashScope-Async: enable` is refused. A task and its result live 24
//! hours; an id that is older or never existed is answered with UNKNOWN and status 200.
//!
//! The format of a request depends on the model's name: `kf2v` takes two frames, `i2v` one. From
//! version 2.7 on, pictures are a list, and the size is a resolution and a ratio. `HappyHorse` uses
//! that format too, and adds a watermark unless that is disabled.
//!
//! Commonly known but not documented: the classes of the error codes, that cancelling works while a
//! task is pending, and which sizes and lengths each version has.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};

use crate::adapters::Protocol;
use crate::catalogue::ProtocolCatalogue;
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::frame_size;
use crate::limits::{Durations, ModelLimits, SourcePictureLimits, VideoLimits};
use crate::order::{MediaKind, Order, PictureRole, VideoSpec};
use crate::port::jobs::errors::FailureTable;
use crate::port::jobs::status::JobStatus;
use crate::port::jobs::{JobApi, ParsedBody, video_at};
use crate::port::{Adapter, Call, PollPace, RefusalRule};
use crate::response::{ProviderResponse, text_at};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "dashscope",
    base_url: Some("https://dashscope-intl.aliyuncs.com/api/v1"),
    options: &[],
    anonymous: false,
    build: |settings| {
        Ok(Arc::new(DashScopeAdapter {
            catalogue: settings.protocol_catalogue("dashscope"),
        }))
    },
};

static JOB: JobApi = JobApi {
    id: "/output/task_id",
    path: "/tasks/{id}",
    cancel: Some((Method::POST, "/tasks/{id}/cancel")),
    headers: &[],
    submission_body: parse_body,
    poll_body: |answer| {
        parse_body(answer).map_err(|error| match error.class {
            // An unknown code does not end a job.
            ErrorClass::Rejected if answer.status.is_success() => {
                error.with_class(ErrorClass::Unclear)
            }
            _ => error,
        })
    },
    status: "/output/task_status",
    words: &[
        ("PENDING", JobStatus::Queued),
        ("RUNNING", JobStatus::Running),
        ("SUSPENDED", JobStatus::Running),
        ("SUCCEEDED", JobStatus::Done),
        ("FAILED", JobStatus::FAILED),
        ("CANCELED", JobStatus::LOST),
        ("UNKNOWN", JobStatus::Ended(ErrorClass::Missing)),
    ],
    progress: |_| None,
    outputs: |_, body| video_at(body, "/output/video_url"),
    failure: |body| {
        FAILURES.error(ErrorDescription::at(
            body,
            "/output/code",
            "/output/message",
        ))
    },
    lost_message: "the task was cancelled at the provider",
};

#[derive(Debug)]
struct DashScopeAdapter {
    catalogue: ProtocolCatalogue,
}

/// The format of a model's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestFormat {
    /// `first_frame_url` and `last_frame_url`, at a separate path.
    Frames,
    /// `size` for text, `img_url` and `resolution` for a picture.
    Legacy,
    /// `media`, `resolution` and `ratio`.
    MediaList,
}

/// Whether the model is of Alibaba's other family, which has the same API.
fn is_happyhorse(model: &str) -> bool {
    model.starts_with("happyhorse")
}

/// The version in a name such as `wan2.6-t2v` or `wanx2.1-i2v-plus`, as 26 or 21.
fn version(model: &str) -> Option<u32> {
    let rest = model.strip_prefix("wan")?;
    let number = rest.trim_start_matches('x').split('-').next()?;
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    Some(major.parse::<u32>().ok()? * 10 + minor.parse::<u32>().ok()?)
}

fn request_format(model: &str) -> RequestFormat {
    if model.contains("kf2v") {
        RequestFormat::Frames
    } else if is_happyhorse(model) || version(model).is_some_and(|version| version >= 27) {
        RequestFormat::MediaList
    } else {
        RequestFormat::Legacy
    }
}

impl Adapter for DashScopeAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        // These models take references or videos, in fields that this adapter does not fill.
        if kind != MediaKind::Video || model.contains("r2v") || model.contains("edit") {
            return None;
        }
        // The name shows whether the model takes pictures.
        let frames = usize::from(!model.contains("t2v"));
        let unknown = VideoLimits {
            sizes: vec![(1280, 720), (720, 1280), (960, 960)],
            durations: Durations::Only(vec![5]),
            default_seconds: 5,
            pictures: SourcePictureLimits {
                needed: model.contains("i2v") || model.contains("kf2v"),
                ..SourcePictureLimits::frames(frames)
            },
            negative_prompt: !is_happyhorse(model),
            seed: true,
            max_prompt: 800,
            ..VideoLimits::default()
        };
        Some(ModelLimits::Video(self.catalogue.video(model, unknown)))
    }

    fn can_express_size(&self, _: &str, (width, height): (u32, u32)) -> bool {
        // 1080P, the highest resolution, has two million pixels; 1440p has 3.7 million.
        u64::from(width) * u64::from(height) < 3_000_000
    }

    fn pace(&self) -> PollPace {
        PollPace::new(Duration::from_secs(5), Duration::from_secs(20))
    }

    fn job(&self) -> Option<&JobApi> {
        Some(&JOB)
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![RefusalRule::http_statuses()]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let video = order.video()?;
        let mut input = Map::new();
        input.insert("prompt".into(), json!(video.prompt));
        if let Some(negative) = &video.options.negative_prompt {
            input.insert("negative_prompt".into(), json!(negative));
        }
        let mut parameters = Map::new();
        parameters.insert("duration".into(), json!(video.seconds));
        if let Some(seed) = video.seed() {
            // Seeds have 31 bits here.
            parameters.insert("seed".into(), json!(seed % (1 << 31)));
        }
        let request_format = request_format(&order.model);
        insert_pictures(request_format, video, &mut input)?;
        if request_format == RequestFormat::Legacy && video.pictures.is_empty() {
            let size = frame_size::size_text(video.size, '*');
            parameters.insert("size".into(), json!(size));
        } else {
            parameters.insert("resolution".into(), json!(resolution(video.size)));
        }
        if request_format == RequestFormat::MediaList && video.pictures.is_empty() {
            parameters.insert("ratio".into(), json!(frame_size::ratio(video.size)));
        }
        if let Some(with_audio) = video.audio() {
            parameters.insert("audio".into(), json!(with_audio));
        }
        // HappyHorse adds a watermark unless that is disabled.
        if is_happyhorse(&order.model) {
            parameters.insert("watermark".into(), json!(false));
        }
        let path = match request_format {
            RequestFormat::Frames => "/services/aigc/image2video/video-synthesis",
            RequestFormat::Legacy | RequestFormat::MediaList => {
                "/services/aigc/video-generation/video-synthesis"
            }
        };
        let body = json!({"model": order.model, "input": input, "parameters": parameters});
        let call = Call::post("submit", path, body);
        Ok(call
            .with_header("X-DashScope-Async", "enable")
            .mark_submission())
    }
}

fn insert_pictures(
    request_format: RequestFormat,
    video: &VideoSpec,
    input: &mut Map<String, Value>,
) -> Result<(), ProviderError> {
    let url = |role| {
        video
            .picture(role)
            .map(crate::order::MediaFile::url_or_data)
    };
    let first = url(PictureRole::FirstFrame);
    let last = url(PictureRole::LastFrame);
    match request_format {
        RequestFormat::Frames => {
            let (Some(first), Some(last)) = (first, last) else {
                let message = "this model requires a first and a last frame";
                return Err(ProviderError::new(ErrorClass::Rejected, message));
            };
            input.insert("first_frame_url".into(), json!(first));
            input.insert("last_frame_url".into(), json!(last));
        }
        RequestFormat::Legacy => {
            input.extend(first.map(|url| ("img_url".into(), json!(url))));
        }
        RequestFormat::MediaList => {
            let media = [("first_frame", first), ("last_frame", last)];
            let media = media
                .into_iter()
                .filter_map(|(kind, url)| Some((kind, url?)));
            let references = video.references();
            let references = references.map(|file| ("reference_image", file.url_or_data()));
            let media: Vec<Value> = media
                .chain(references)
                .map(|(kind, url)| json!({"type": kind, "url": url}))
                .collect();
            if !media.is_empty() {
                input.insert("media".into(), json!(media));
            }
        }
    }
    Ok(())
}

/// The resolution by area: sizes of one resolution have nearly the same area.
fn resolution((width, height): (u32, u32)) -> &'static str {
    match u64::from(width) * u64::from(height) {
        0..600_000 => "480P",
        600_000..1_400_000 => "720P",
        _ => "1080P",
    }
}

/// The body, unless it or the status reports an error.
fn parse_body(answer: &ProviderResponse) -> ParsedBody {
    let body = answer.success(describe).map_err(class_by_code)?;
    // Errors of a call may come with status 200. A failed task has its code inside `output`.
    let lacks_output = body.get("output").is_none_or(Value::is_null);
    if lacks_output && text_at(&body, "/code").is_some() {
        let error = answer.failure(describe).with_class(ErrorClass::Rejected);
        return Err(class_by_code(error));
    }
    Ok(body)
}

fn describe(body: &Value) -> ErrorDescription {
    ErrorDescription::at(body, "/code", "/message")
}

fn is_refusal(code: &str) -> bool {
    code.starts_with("DataInspectionFailed") || code.starts_with("IPInfringementSuspect")
}

/// Refines the class of a refused call by its code.
fn class_by_code(error: ProviderError) -> ProviderError {
    // An unclear answer proves nothing, whatever its code.
    if error.class == ErrorClass::Unclear {
        return error;
    }
    let class = match error.code.as_deref().unwrap_or_default() {
        code if is_refusal(code) => ErrorClass::Refused,
        code if code.starts_with("Throttling") => ErrorClass::RateLimited,
        "Arrearage" | "AllocationQuota.FreeTierOnly" => ErrorClass::Account,
        "InvalidApiKey" => ErrorClass::Credentials,
        _ => error.class,
    };
    error.with_class(class)
}

/// The provider's error codes that concern the order.
const FAILURES: FailureTable = FailureTable {
    codes: &[
        ("DataInspectionFailed", ErrorClass::Refused),
        ("IPInfringementSuspect", ErrorClass::Refused),
        ("InvalidParameter", ErrorClass::Unfit),
        ("InvalidURL", ErrorClass::Unfit),
        ("InvalidFile", ErrorClass::Unfit),
        ("InvalidImage", ErrorClass::Unfit),
        ("BadRequest", ErrorClass::Unfit),
        ("UnsupportedOperation", ErrorClass::Unfit),
    ],
    words: &[],
};

#[cfg(test)]
mod tests;
