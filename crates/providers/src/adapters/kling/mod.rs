//! `kling`: Kling's own API.
//!
//! Sources: the official API pages as mirrored publicly (medium certainty); the open-source gateway
//! `new-api` and the request models of `ComfyUI`. There is no official SDK.
//!
//! ```text
//! POST /v1/videos/text2video        {code: 0, data: {task_id}}
//! POST /v1/videos/image2video       the same
//! GET  /v1/videos/{operation}/{id}  {data: {task_status: submitted │ processing │ succeed │ failed}}
//! ```
//!
//! Each order carries its key as `external_task_id`, which must be unique in an account. The call
//! for a task accepts it in place of the id (the official pages as mirrored), so a lost submission
//! can be identified with certainty. No document says how soon after its acceptance a task is found
//! in this way.
//!
//! The credential is `ACCESSKEY:SECRETKEY` (or with `|`); each call carries a JWT made from it. A
//! `code` other than 0 is an error, whatever the status.
//!
//! Unknown: how to cancel a task; whether a second submission with the same `external_task_id` is
//! refused or joined to the first, so neither is relied on. Commonly known but not documented:
//! which versions have which modes and take a last frame, and that a failed task whose message
//! mentions the risk control system was refused for its content.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Map, Value, json};
use sha2::Sha256;

use crate::adapters::Protocol;
use crate::catalogue::ProtocolCatalogue;
use crate::cost::{CostUnit, ProviderCost};
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::frame_size;
use crate::limits::{Durations, ModelLimits, SourcePictureLimits, VideoLimits};
use crate::order::{MediaFile, MediaKind, Order, PictureRole, VideoSpec, WorkSpec};
use crate::port::jobs::errors::FailureTable;
use crate::port::jobs::list::fits_path;
use crate::port::jobs::status::JobStatus;
use crate::port::jobs::{JobApi, ParsedBody, video_at};
use crate::port::{
    Adapter, AdapterStep, Authorization, Call, CallContext, FoundJob, JobHandle, LookupPage,
    PollPace, RefusalRule,
};
use crate::response::{ProviderResponse, required_text, text_at, time_at};
use crate::secret::Secret;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "kling",
    base_url: Some("https://api-singapore.klingai.com"),
    options: &[],
    anonymous: false,
    build: |settings| {
        Ok(Arc::new(KlingAdapter {
            catalogue: settings.protocol_catalogue("kling"),
        }))
    },
};

static JOB: JobApi = JobApi {
    id: "/data/task_id",
    path: "/v1/videos/{operation}/{id}",
    cancel: None,
    headers: &[],
    submission_body: parse_envelope,
    poll_body: |answer| {
        parse_envelope(answer).map_err(|error| {
            let class = match error.class {
                _ if is_gone(answer, &error) => ErrorClass::Missing,
                // An unknown code does not end a job.
                ErrorClass::Rejected if answer.status.is_success() => ErrorClass::Unclear,
                class => class,
            };
            error.with_class(class)
        })
    },
    status: "/data/task_status",
    words: &[
        ("submitted", JobStatus::Queued),
        ("processing", JobStatus::Running),
        ("succeed", JobStatus::Done),
        ("failed", JobStatus::FAILED),
    ],
    progress: |_| None,
    outputs: |_, body| video_at(body, "/data/task_result/videos/0/url"),
    failure: |body| FAILURES.error(ErrorDescription::at(body, "", "/data/task_status_msg")),
    lost_message: "",
};

#[derive(Debug)]
struct KlingAdapter {
    catalogue: ProtocolCatalogue,
}

impl Adapter for KlingAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        if kind != MediaKind::Video || has_other_calls(model) {
            return None;
        }
        let unknown = VideoLimits {
            sizes: vec![(1280, 720), (720, 1280), (960, 960)],
            durations: Durations::Only(vec![5, 10]),
            default_seconds: 5,
            pictures: SourcePictureLimits::frames(1),
            negative_prompt: true,
            max_prompt: 2500,
            ..VideoLimits::default()
        };
        Some(ModelLimits::Video(self.catalogue.video(model, unknown)))
    }

    fn fault_of_model(&self, _: MediaKind, model: &str) -> Option<String> {
        has_other_calls(model).then(|| {
            format!(
                "{model} has calls of its own at Kling, which this protocol does not have; \
                 use another model, or Kling 4.0 at fal (\"kling/v4/text-to-video\")"
            )
        })
    }

    fn fault_of_secret(&self, secret: &Secret) -> Option<&'static str> {
        let is_pair = token(secret.expose(), UNIX_EPOCH).is_ok();
        (!is_pair).then_some("a Kling key has two parts; use \"ACCESSKEY:SECRETKEY\"")
    }

    fn can_express_size(&self, _: &str, size: (u32, u32)) -> bool {
        let has_tier = matches!(size.0.min(size.1), 720 | 960 | 1080 | 1440);
        has_tier && size.0.max(size.1) <= 1920 && frame_size::has_usual_ratio(size)
    }

    fn pace(&self) -> PollPace {
        PollPace::new(Duration::from_secs(5), Duration::from_secs(20))
    }

    fn authorize(&self, secret: &Secret, now: SystemTime) -> Result<Authorization, ProviderError> {
        let token = token(secret.expose(), now)?;
        Ok(Authorization::bearer(&Secret::new(token)))
    }

    fn job(&self) -> Option<&JobApi> {
        Some(&JOB)
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![
            RefusalRule::http_statuses(),
            RefusalRule::error_codes(REFUSALS, "Kling's API reference, Error Code"),
        ]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let video = order.video()?;
        let first = video.picture(PictureRole::FirstFrame);
        let last = video.picture(PictureRole::LastFrame);
        let mut fields = Map::new();
        fields.insert("model_name".into(), json!(order.model));
        fields.insert("prompt".into(), json!(video.prompt));
        fields.insert("duration".into(), json!(video.seconds.to_string()));
        // Sent to look up the task later. Nothing relies on Kling rejecting or joining a second
        // submission with the same id.
        fields.insert("external_task_id".into(), json!(order.idempotency_key));
        if let Some(negative) = &video.options.negative_prompt {
            fields.insert("negative_prompt".into(), json!(negative));
        }
        if has_modes(&order.model) {
            // In every version, only `pro` takes a last frame. In version 2.6, only `pro` makes
            // sound.
            let has_sound = video.audio() == Some(true) && order.model.starts_with("kling-v2");
            let needs_pro = video.size.0.min(video.size.1) >= 1080 || last.is_some() || has_sound;
            fields.insert("mode".into(), json!(if needs_pro { "pro" } else { "std" }));
        }
        if let Some(with_sound) = video.audio() {
            fields.insert("sound".into(), json!(if with_sound { "on" } else { "off" }));
        }
        if let Some(file) = first {
            fields.insert("image".into(), json!(picture_field(file)));
            fields.extend(last.map(|file| ("image_tail".into(), json!(picture_field(file)))));
        } else {
            fields.insert("aspect_ratio".into(), json!(frame_size::ratio(video.size)));
        }
        let operation = operation(video);
        let path = format!("/v1/videos/{operation}");
        let call = Call::post("submit", path, Value::Object(fields));
        Ok(call
            .mark_submission()
            .with_carried_data(json!({"operation": operation})))
    }

    fn read_submission(
        &self,
        _: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let body = parse_envelope(answer)?;
        let id = required_text(&body, "/data/task_id")?;
        let operation = required_text(&context.carried_data, "/operation")?;
        Ok(AdapterStep::submitted(
            json!({"id": id, "operation": operation}),
        ))
    }

    fn named_job(
        &self,
        _: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Option<JobHandle> {
        // Not by `read_submission`, as usual: that reads an id only with code 0, but an id with any
        // other code means an accepted order too.
        let id = text_at(&answer.json().ok()?, JOB.id)?;
        let operation = text_at(&context.carried_data, "/operation")?;
        Some(JobHandle(json!({"id": id, "operation": operation})))
    }

    /// The cost in the units of Kling's price list.
    fn cost(&self, answer: &ProviderResponse) -> Option<ProviderCost> {
        ProviderCost::at_pointer(
            &answer.json().ok()?,
            "/data/final_unit_deduction",
            CostUnit::Units,
        )
    }

    fn find(&self, order: &Order, _: SystemTime) -> Option<Call> {
        let WorkSpec::Video(video) = &order.work else {
            return None;
        };
        let path = format!("/v1/videos/{}/{}", operation(video), order.idempotency_key);
        fits_path(&order.idempotency_key).then(|| Call::get("find", path))
    }

    fn read_lookup(
        &self,
        order: &Order,
        _: SystemTime,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<LookupPage, ProviderError> {
        let WorkSpec::Video(video) = &order.work else {
            return Err(ProviderError::unreadable("no such call was sent"));
        };
        let body = match parse_envelope(answer) {
            Err(error) if is_gone(answer, &error) => return Ok(LookupPage::default()),
            parsed => parsed?,
        };
        let key = text_at(&body, "/data/task_info/external_task_id");
        // Otherwise the match would count as certain, and another order's video would be delivered.
        if key.is_some_and(|key| key != order.idempotency_key) {
            let message = "the provider's response is about a different task";
            return Err(ProviderError::unreadable(message));
        }
        let id = required_text(&body, "/data/task_id")?;
        let handle = JobHandle(json!({"id": id, "operation": operation(video)}));
        let created_at = time_at(&body, "/data/created_at");
        Ok(LookupPage::jobs([FoundJob::certain(handle, created_at)]))
    }
}

/// A failed task has a message and no code.
const FAILURES: FailureTable = FailureTable {
    codes: &[],
    words: &[
        ("risk control", ErrorClass::Refused),
        ("sensitive", ErrorClass::Refused),
        ("invalid", ErrorClass::Unfit),
        ("not supported", ErrorClass::Unfit),
    ],
};

/// The operation for a video.
fn operation(video: &VideoSpec) -> &'static str {
    match video.picture(PictureRole::FirstFrame) {
        Some(_) => "image2video",
        None => "text2video",
    }
}

/// "The resource does not exist": in the answer to a poll, that means the task.
fn is_gone(answer: &ProviderResponse, error: &ProviderError) -> bool {
    answer.status == 404 || error.code.as_deref() == Some("1203")
}

/// Whether a model has another path and body than those of this protocol: the unified models, and
/// all of version 4 (`contents: [{type: prompt │ first_frame │ …}]`).
fn has_other_calls(model: &str) -> bool {
    let parts = ["omni", "video-o1", "kling-v4", "kling-4"];
    parts.iter().any(|part| model.contains(part))
}

/// Whether a model comes in `std` (720p) and `pro` (1080p); `-master` models do not.
fn has_modes(model: &str) -> bool {
    !model.ends_with("-master")
}

/// The picture's URL, otherwise its content without the prefix of a `data:` URL.
fn picture_field(file: &MediaFile) -> String {
    file.url.clone().unwrap_or_else(|| file.base64())
}

/// The envelope if it reports success, otherwise its error.
fn parse_envelope(answer: &ProviderResponse) -> ParsedBody {
    let describe = |body: &Value| ErrorDescription::at(body, "/code", "/message");
    let Ok(body) = answer.json() else {
        return Err(answer.failure(describe));
    };
    let code = body.pointer("/code").and_then(Value::as_i64);
    let is_success = answer.status.is_success();
    match code {
        Some(0) if is_success => Ok(body),
        Some(code) if code != 0 => {
            let class = class_of(code, answer.status.is_server_error());
            Err(answer.failure(describe).with_class(class))
        }
        _ if is_success => Err(ProviderError::unreadable(
            "the provider's response has no code",
        )),
        _ => Err(answer.failure(describe)),
    }
}

/// The codes with which Kling rejects a request; 5000 and above are internal errors.
const REFUSALS: [&str; 18] = [
    "1000", "1001", "1002", "1003", "1004", "1100", "1101", "1102", "1103", "1200", "1201", "1202",
    "1203", "1300", "1301", "1302", "1303", "1304",
];

fn class_of(code: i64, server_error: bool) -> ErrorClass {
    match code {
        // 1304: the caller's address is not on the account's list.
        1000..=1004 | 1304 => ErrorClass::Credentials,
        // With status 429, although waiting does not help.
        1100..=1103 => ErrorClass::Account,
        1301 => ErrorClass::Refused,
        1302 | 1303 => ErrorClass::RateLimited,
        5000..=5999 => ErrorClass::Unclear,
        _ if server_error => ErrorClass::Unclear,
        // 1200–1203 and 1300 are rejections, and an unknown code counts as one too.
        _ => ErrorClass::Rejected,
    }
}

/// A JWT that is valid for the next half hour.
fn token(credential: &str, now: SystemTime) -> Result<String, ProviderError> {
    let format_error = || {
        let message = "the credential must be ACCESSKEY:SECRETKEY";
        ProviderError::new(ErrorClass::Credentials, message)
    };
    let (access, secret) = credential.split_once([':', '|']).ok_or_else(format_error)?;
    let (access, secret) = (access.trim(), secret.trim());
    if access.is_empty() || secret.is_empty() {
        return Err(format_error());
    }
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let header = json!({"alg": "HS256", "typ": "JWT"});
    // Valid from five seconds ago, because Kling's clock may be behind this one.
    let claims = json!({"exp": now + 1800, "iss": access, "nbf": now.saturating_sub(5)});
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&header), encode(&claims));
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map_err(|_| format_error())?;
    mac.update(signed.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    Ok(format!("{signed}.{signature}"))
}

#[cfg(test)]
mod tests;
