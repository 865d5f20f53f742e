//! `luma`: Luma's two APIs: Agents (`api = "agents"`, the current one) and the
//! older Dream Machine (`api = "dream-machine"`).
//!
//! Sources: the SDKs `luma-agents` 0.5.0 and `lumaai` 1.21.0 (Python) (their requests), their types
//! for the possible inputs.
//!
//! ```text
//!                 agents                            dream-machine
//! submit          POST /generations                 POST /generations/video
//! poll            GET /generations/{id}             GET /generations/{id}
//! waits, runs     queued, processing                queued, dreaming
//! ends            completed, failed                 completed, failed
//! result          output[].url, signed for an hour  assets.video
//! cancel          none                              DELETE /generations/{id}
//! list            none                              GET /generations?limit&offset
//! pictures        inline or by URL                  by URL only
//! ```
//!
//! Neither deduplicates. Every poll returns a newly signed result URL.
//!
//! A lost submission to Dream Machine is searched for in the list, by its content: a generation
//! contains its request. The request's `callback_url` would identify it with certainty, but the
//! order has no URL for it. No document describes the order of the list, or how soon a generation
//! appears in it. Agents has no list.
//!
//! Unknown: the body of an error (every common place is read); whether deleting a running Dream
//! Machine generation stops it, so a deletion does not prove a cancellation; the longest prompt.
//! Commonly known but not documented: that Dream Machine's error messages contain "credits" and
//! "moderat…".

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::{Map, Value, json};

use crate::adapters::Protocol;
use crate::catalogue::ProtocolCatalogue;
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::frame_size;
use crate::limits::{Durations, FileHandover, ModelLimits, SourcePictureLimits, VideoLimits};
use crate::order::{MediaFile, MediaKind, Order, PictureRole, VideoSpec, WorkSpec};
use crate::port::jobs::errors::FailureTable;
use crate::port::jobs::list::{JobList, agrees};
use crate::port::jobs::status::JobStatus;
use crate::port::jobs::{JobApi, OutputReader, video_at};
use crate::port::{
    Adapter, Call, CallContext, JobHandle, JobOutput, LookupPage, PollPace, RefusalRule, merge,
};
use crate::response::{ProviderResponse, text_at};
use crate::settings::{ProviderSettings, SettingsError};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "luma",
    base_url: Some("https://agents.lumalabs.ai/v1"),
    options: &["api"],
    anonymous: false,
    build,
};

fn build(settings: &ProviderSettings) -> Result<Arc<dyn Adapter>, SettingsError> {
    let api = match settings.word("api", &["agents", "dream-machine"])? {
        "dream-machine" => LumaApi::DreamMachine,
        _ => LumaApi::Agents,
    };
    Ok(Arc::new(LumaAdapter {
        api,
        catalogue: settings.protocol_catalogue("luma"),
    }))
}

#[derive(Debug)]
struct LumaAdapter {
    api: LumaApi,
    catalogue: ProtocolCatalogue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LumaApi {
    Agents,
    DreamMachine,
}

static DREAM_MACHINE: JobApi = job(Some((Method::DELETE, "/generations/{id}")), |_, body| {
    video_at(body, "/assets/video")
});
static AGENTS: JobApi = job(None, |_, body| {
    Ok(agents_video_url(body)
        .map(JobOutput::video_at)
        .into_iter()
        .collect())
});

const fn job(cancel: Option<(Method, &'static str)>, outputs: OutputReader) -> JobApi {
    JobApi {
        id: "/id",
        path: "/generations/{id}",
        cancel,
        headers: &[],
        submission_body: |answer| answer.success(describe).map_err(class_of_refusal),
        poll_body: |answer| answer.success(describe),
        status: "/state",
        words: &[
            ("queued", JobStatus::Queued),
            ("processing", JobStatus::Running),
            ("dreaming", JobStatus::Running),
            ("completed", JobStatus::Done),
            ("failed", JobStatus::FAILED),
        ],
        progress: |_| None,
        outputs,
        failure: |body| {
            FAILURES.error(ErrorDescription::at(
                body,
                "/failure_code",
                "/failure_reason",
            ))
        },
        lost_message: "",
    }
}

const LIST: JobList = JobList {
    path: "/generations",
    query: &[("limit", "100")],
    items: "/generations",
    id: "/id",
    created_at: "/created_at",
};

/// Output frames per second. Agents gives the position of a key frame as a frame number.
const FRAMES_PER_SECOND: u32 = 24;

impl Adapter for LumaAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        let handover = match self.api {
            LumaApi::Agents => FileHandover::Any,
            LumaApi::DreamMachine => FileHandover::AddressOnly,
        };
        let unknown = VideoLimits {
            sizes: vec![(1280, 720), (720, 1280)],
            durations: Durations::Only(vec![5]),
            default_seconds: 5,
            pictures: SourcePictureLimits {
                handover,
                ..SourcePictureLimits::frames(2)
            },
            max_prompt: 5000,
            ..VideoLimits::default()
        };
        (kind == MediaKind::Video).then(|| ModelLimits::Video(self.catalogue.video(model, unknown)))
    }

    fn fault_of_model(&self, _: MediaKind, model: &str) -> Option<String> {
        let is_older = model.starts_with("ray-2") || model.starts_with("ray-flash-2");
        let api = match (self.api, is_older) {
            (LumaApi::Agents, true) => "dream-machine",
            (LumaApi::DreamMachine, false) => "agents",
            _ => return None,
        };
        Some(format!(
            "{model} is served by another API; use api = \"{api}\""
        ))
    }

    fn can_express_size(&self, _: &str, size: (u32, u32)) -> bool {
        matches!(size.0.min(size.1), 360 | 540 | 720 | 1080) && frame_size::has_usual_ratio(size)
    }

    fn pace(&self) -> PollPace {
        PollPace::new(Duration::from_secs(3), Duration::from_secs(15))
    }

    fn base_url(&self) -> Option<&str> {
        Some(match self.api {
            LumaApi::Agents => "https://agents.lumalabs.ai/v1",
            LumaApi::DreamMachine => "https://api.lumalabs.ai/dream-machine/v1",
        })
    }

    fn job(&self) -> Option<&JobApi> {
        Some(match self.api {
            LumaApi::Agents => &AGENTS,
            LumaApi::DreamMachine => &DREAM_MACHINE,
        })
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![RefusalRule::http_statuses()]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let video = order.video()?;
        let call = match self.api {
            LumaApi::Agents => Call::post("submit", "/generations", for_agents(order, video)),
            LumaApi::DreamMachine => {
                let body = for_dream_machine(order, video)?;
                Call::post("submit", "/generations/video", body)
            }
        };
        Ok(call.mark_submission())
    }

    fn confirms_cancellation(&self, _: &JobHandle, _: &ProviderResponse) -> bool {
        // It is unknown whether a deletion stops a running generation.
        false
    }

    fn trial(&self) -> Option<Call> {
        (self.api == LumaApi::DreamMachine).then(|| page(0))
    }

    fn find(&self, order: &Order, _: SystemTime) -> Option<Call> {
        // How a list returns the URLs of pictures is unknown.
        let is_listed = self.api == LumaApi::DreamMachine && !order.has_files();
        is_listed.then(|| page(0))
    }

    fn read_lookup(
        &self,
        order: &Order,
        since: SystemTime,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<LookupPage, ProviderError> {
        let (WorkSpec::Video(video), false) = (&order.work, order.has_files()) else {
            return Err(ProviderError::unreadable("no such call was sent"));
        };
        if self.api == LumaApi::Agents {
            return Err(ProviderError::unreadable("this provider cannot list jobs"));
        }
        let body = answer.success(describe)?;
        let generations = LIST.items(&body)?;
        let request = for_dream_machine(order, video)?;
        let mut request = request.as_object().cloned().unwrap_or_default();
        merge(&mut request, &order.extra);
        request.remove("model");
        let jobs = generations.iter().filter_map(|generation| {
            // Both places are documented.
            let model = text_at(generation, "/model");
            let model = model.or_else(|| text_at(generation, "/request/model"));
            let is_alike =
                model.as_ref() == Some(&order.model) && agrees(&request, &generation["request"]);
            LIST.likely(order, generation, since).filter(|_| is_alike)
        });
        // Not `LIST.has_older_page`: it assumes that the list begins with the newest, which no
        // document says.
        let has_more = body["has_more"] == true && !generations.is_empty();
        let offset = context.carried_data.as_u64().unwrap_or_default();
        let page_size = u64::try_from(generations.len()).unwrap_or_default();
        let next = has_more.then(|| page(offset.saturating_add(page_size)));
        Ok(LookupPage::jobs(jobs).with_next_page(next))
    }
}

/// A page of Dream Machine's list.
fn page(offset: u64) -> Call {
    LIST.page()
        .with_query("offset", offset.to_string())
        .with_carried_data(json!(offset))
}

fn for_agents(order: &Order, video: &VideoSpec) -> Value {
    let reference = |file: &MediaFile| match &file.url {
        Some(url) => json!({"url": url}),
        None => json!({"data": file.base64(), "media_type": file.mime}),
    };
    let first = video.picture(PictureRole::FirstFrame).map(reference);
    let last = video.picture(PictureRole::LastFrame).map(reference);
    let mut options = Map::new();
    options.insert("duration".into(), json!(format!("{}s", video.seconds)));
    options.insert("resolution".into(), json!(frame_size::tier(video.size)));
    if video.seconds == 5 {
        options.extend(first.map(|first| ("start_frame".into(), first)));
        options.extend(last.map(|last| ("end_frame".into(), last)));
    } else {
        // Start and end frames are possible only for five seconds. Key frames can express the same
        // for any length.
        let anchors = [(first, 0), (last, video.seconds * FRAMES_PER_SECOND)];
        let frames = anchors
            .into_iter()
            .filter_map(|(frame, index)| Some((frame?, index)));
        let (frames, indexes): (Vec<Value>, Vec<u32>) = frames.unzip();
        if !frames.is_empty() {
            options.insert("keyframes".into(), json!(frames));
            options.insert("keyframe_indexes".into(), json!(indexes));
        }
    }
    let mut fields = Map::new();
    fields.insert("type".into(), json!("video"));
    fields.insert("model".into(), json!(order.model));
    fields.insert("prompt".into(), json!(video.prompt));
    fields.insert("aspect_ratio".into(), json!(frame_size::ratio(video.size)));
    fields.insert("video".into(), Value::Object(options));
    if let Some(user) = &video.options.user {
        fields.insert("user_id".into(), json!(user));
    }
    Value::Object(fields)
}

fn for_dream_machine(order: &Order, video: &VideoSpec) -> Result<Value, ProviderError> {
    let mut frames = Map::new();
    for (name, file) in video.frames(["frame0", "frame1"]) {
        let Some(url) = &file.url else {
            let message = "this provider fetches images by URL, so this gateway must be reachable from outside";
            return Err(ProviderError::new(ErrorClass::Rejected, message));
        };
        frames.insert(name.into(), json!({"type": "image", "url": url}));
    }
    let mut fields = Map::new();
    fields.insert("model".into(), json!(order.model));
    fields.insert("prompt".into(), json!(video.prompt));
    fields.insert("aspect_ratio".into(), json!(frame_size::ratio(video.size)));
    fields.insert("resolution".into(), json!(frame_size::tier(video.size)));
    fields.insert("duration".into(), json!(format!("{}s", video.seconds)));
    if !frames.is_empty() {
        fields.insert("keyframes".into(), Value::Object(frames));
    }
    Ok(Value::Object(fields))
}

fn agents_video_url(body: &Value) -> Option<String> {
    let outputs = body.pointer("/output")?.as_array()?;
    let is_video = |output: &&Value| text_at(output, "/type").as_deref() == Some("video");
    text_at(outputs.iter().find(is_video)?, "/url")
}

fn describe(body: &Value) -> ErrorDescription {
    let first_text = |pointers: &[&str]| pointers.iter().find_map(|pointer| text_at(body, pointer));
    ErrorDescription {
        code: first_text(&["/failure_code", "/error/code", "/code"]),
        message: first_text(&[
            "/detail",
            "/error/message",
            "/message",
            "/error",
            "/detail/0/msg",
        ]),
    }
}

/// Refines the class of a refused submission by its code.
fn class_of_refusal(error: ProviderError) -> ProviderError {
    if error.class != ErrorClass::Rejected {
        return error;
    }
    let message = error.message.to_lowercase();
    let class = match error.code.as_deref() {
        Some("content_moderated") => ErrorClass::Refused,
        Some("budget_exhausted") => ErrorClass::Account,
        Some("rate_limited") => ErrorClass::RateLimited,
        None if message.contains("moderat") => ErrorClass::Refused,
        None if message.contains("credits") => ErrorClass::Account,
        _ => ErrorClass::Rejected,
    };
    error.with_class(class)
}

/// The codes of Agents, from its SDK's types; Dream Machine only has messages.
const FAILURES: FailureTable = FailureTable {
    codes: &[
        ("content_moderated", ErrorClass::Refused),
        ("image_too_large", ErrorClass::Unfit),
        ("unsupported_format", ErrorClass::Unfit),
        ("corrupt_input", ErrorClass::Unfit),
        ("invalid_request", ErrorClass::Unfit),
        // Whatever its code, the generation has ended.
        ("budget_exhausted", ErrorClass::Failed),
        ("rate_limited", ErrorClass::Failed),
        ("generation_failed", ErrorClass::Failed),
        ("output_not_found", ErrorClass::Failed),
    ],
    words: &[("moderat", ErrorClass::Refused)],
};

#[cfg(test)]
mod tests;
