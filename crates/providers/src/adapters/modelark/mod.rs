//! `modelark`: `ByteDance`'s `ModelArk` (Volcengine Ark in China), which offers the Seedance
//! models.
//!
//! Sources: `byteplus-python-sdk-v2` 3.0.63 (its requests); the provider's documents about deletion
//! and the lifetime of URLs (24 h).
//!
//! ```text
//! POST   /contents/generations/tasks       {id}
//! GET    /contents/generations/tasks/{id}  queued │ running │ succeeded │ failed │ cancelled │ expired
//! DELETE /contents/generations/tasks/{id}  cancels a queued task, is refused for a running one
//! GET    /contents/generations/tasks       {items: [the same], total}; page_num, page_size
//! ```
//!
//! A task does not contain its prompt, so a lost submission cannot be found by its content. But it
//! contains its seed (the SDK's types). An order without a seed gets one derived from its key, so
//! its task can be found. The task of an order with its own seed cannot. No document describes the
//! order of the list, or how soon a task appears in it; it covers seven days.
//!
//! `safety_identifier` identifies the end user for the provider's abuse detection: it is the
//! caller's `user`, hashed, and omitted if there is none.
//!
//! The SDK sends unset fields as null; here they are omitted.
//!
//! Seedance 2.5 refuses a named `ratio` together with a first frame (400); `adaptive` follows the
//! frame. Its default length is -1, with which it chooses one. Two users measured both (2026). All
//! models accept `adaptive` with frames, so it is also sent to endpoints with ids of their own.
//!
//! Commonly known but not documented: the error codes, and what each model offers. Unknown: whether
//! the oldest models read their parameters from the body or only from flags in the prompt
//! (`--rs 1080p --dur 12`); they are sent in the body, and prompts with such a flag are refused,
//! because its effect would not be paid for.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::adapters::Protocol;
use crate::adapters::ark_tasks::{WORDS, content};
use crate::catalogue::ProtocolCatalogue;
use crate::cost::{CostUnit, ProviderCost};
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::frame_size;
use crate::limits::{Durations, ModelLimits, SourcePictureLimits, VideoLimits};
use crate::order::{MediaKind, Order, VideoSpec, WorkSpec};
use crate::port::jobs::errors::FailureTable;
use crate::port::jobs::list::JobList;
use crate::port::jobs::{JobApi, ParsedBody, video_at};
use crate::port::{Adapter, Call, CallContext, LookupPage, PollPace, RefusalRule, prompt_settings};
use crate::response::{ProviderResponse, text_at};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "modelark",
    base_url: Some("https://ark.ap-southeast.bytepluses.com/api/v3"),
    options: &[],
    anonymous: false,
    build: |settings| {
        Ok(Arc::new(ModelArkAdapter {
            catalogue: settings.protocol_catalogue("modelark"),
        }))
    },
};

const TASKS: &str = "/contents/generations/tasks";

static JOB: JobApi = JobApi {
    id: "/id",
    path: "/contents/generations/tasks/{id}",
    cancel: Some((Method::DELETE, "/contents/generations/tasks/{id}")),
    headers: &[],
    submission_body: parse_body,
    poll_body: parse_body,
    status: "/status",
    words: &WORDS,
    progress: |_| None,
    outputs: |_, body| video_at(body, "/content/video_url"),
    failure: |body| FAILURES.error(describe(body)),
    lost_message: "the provider stopped processing the job",
};

const LIST: JobList = JobList {
    path: TASKS,
    query: &[("page_size", "100")],
    items: "/items",
    id: "/id",
    created_at: "/created_at",
};

#[derive(Debug)]
struct ModelArkAdapter {
    catalogue: ProtocolCatalogue,
}

/// `inputs` of an entry in the catalogue.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ModelArkInputs {
    /// The ratio of a video from frames.
    picture: FrameRatio,
}

/// The value of `ratio` for an order with frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FrameRatio {
    /// `16:9`: the frames are cropped to this shape.
    #[default]
    Shape,
    /// `adaptive`: the video has the shape of its first frame.
    Adaptive,
}

impl ModelArkInputs {
    fn read(inputs: &Map<String, Value>) -> Result<Self, serde_json::Error> {
        serde_json::from_value(Value::Object(inputs.clone()))
    }
}

/// The fault of `inputs` in a catalogue entry.
pub(super) fn fault_of_inputs(inputs: &Map<String, Value>) -> Option<String> {
    ModelArkInputs::read(inputs)
        .err()
        .map(|error| error.to_string())
}

impl Adapter for ModelArkAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        // Endpoints have operator-defined ids instead of a model's name: they get the limits that
        // all models share.
        let unknown = VideoLimits {
            sizes: vec![(1280, 720), (720, 1280), (960, 960)],
            durations: Durations::range(4, 12),
            default_seconds: 5,
            pictures: SourcePictureLimits::frames(2),
            seed: true,
            max_prompt: 2000,
            ..VideoLimits::default()
        };
        (kind == MediaKind::Video).then(|| ModelLimits::Video(self.catalogue.video(model, unknown)))
    }

    /// The same for every model: an endpoint's id is defined by the operator and does not name its
    /// model.
    fn prompt_settings(&self, _: &str) -> &'static [&'static str] {
        prompt_settings::SEEDANCE
    }

    fn can_express_size(&self, _: &str, size: (u32, u32)) -> bool {
        // 1080p, the highest resolution, has two million pixels; 1440p has 3.7 million.
        u64::from(size.0) * u64::from(size.1) < 3_000_000 && frame_size::has_usual_ratio(size)
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
        let mut fields = Map::new();
        fields.insert("model".into(), json!(order.model));
        fields.insert("content".into(), Value::Array(content(video)));
        fields.insert("resolution".into(), json!(resolution(video.size)));
        fields.insert("ratio".into(), json!(self.ratio(&order.model, video)));
        // Never left out: Seedance 2.5 would choose a length by itself.
        fields.insert("duration".into(), json!(video.seconds));
        if let Some(with_audio) = video.audio() {
            fields.insert("generate_audio".into(), json!(with_audio));
        }
        // ModelArk takes the lower 32 bits.
        let seed = video.seed().map(|seed| seed % (1 << 32));
        // Never left to the provider: a lost task is found by a seed derived from the key.
        let seed = seed.unwrap_or_else(|| u64::from(seed_of(&order.idempotency_key)));
        fields.insert("seed".into(), json!(seed));
        if let Some(user) = &video.options.user {
            fields.insert("safety_identifier".into(), json!(pseudonym(user)));
        }
        Ok(Call::post("submit", TASKS, Value::Object(fields)).mark_submission())
    }

    fn cost(&self, answer: &ProviderResponse) -> Option<ProviderCost> {
        ProviderCost::at_pointer(
            &answer.json().ok()?,
            "/usage/completion_tokens",
            CostUnit::Tokens,
        )
    }

    fn trial(&self) -> Option<Call> {
        Some(page(1))
    }

    fn find(&self, order: &Order, _: SystemTime) -> Option<Call> {
        has_derived_seed(order).then(|| page(1))
    }

    fn read_lookup(
        &self,
        order: &Order,
        _: SystemTime,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<LookupPage, ProviderError> {
        if !has_derived_seed(order) {
            return Err(ProviderError::unreadable("no look-up was started"));
        }
        let body = parse_body(answer)?;
        let tasks = LIST.items(&body)?;
        let seed = u64::from(seed_of(&order.idempotency_key));
        let is_ours = |task: &&Value| {
            // The model is compared as well, because other orders may have this seed by chance.
            task["seed"].as_u64() == Some(seed)
                && text_at(task, "/model").as_ref() == Some(&order.model)
        };
        let matching = tasks.iter().filter(is_ours);
        let jobs = matching.filter_map(|task| LIST.certain(task));
        let number = context.carried_data.as_u64().unwrap_or(1);
        let total = body["total"].as_u64().unwrap_or_default();
        // All pages: no document says that the list begins with the newest.
        let has_more = !tasks.is_empty() && number.saturating_mul(PAGE_SIZE) < total;
        Ok(LookupPage::jobs(jobs).with_next_page(has_more.then(|| page(number.saturating_add(1)))))
    }
}

impl ModelArkAdapter {
    /// The ratio to ask for. Seedance 2.5 refuses a named one together with a first frame.
    fn ratio(&self, model: &str, video: &VideoSpec) -> &'static str {
        let has_frames = video.frames([(), ()]).next().is_some();
        let known_model = self.catalogue.find(model).filter(|_| has_frames);
        let inputs = known_model.and_then(|known| ModelArkInputs::read(&known.inputs).ok());
        match inputs.unwrap_or_default().picture {
            FrameRatio::Shape => frame_size::ratio(video.size),
            FrameRatio::Adaptive => "adaptive",
        }
    }
}

/// Tasks on a page of [`LIST`]; up to 500 are possible.
const PAGE_SIZE: u64 = 100;

fn page(number: u64) -> Call {
    LIST.page()
        .with_query("page_num", number.to_string())
        .with_carried_data(json!(number))
}

/// Whether the order has no seed, so that this adapter chooses it.
fn has_derived_seed(order: &Order) -> bool {
    matches!(&order.work, WorkSpec::Video(video) if video.seed().is_none())
}

/// A seed derived from the key; another order has the same with a probability of one in four
/// billion.
fn seed_of(key: &str) -> u32 {
    let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(key));
    u32::from_be_bytes([a, b, c, d])
}

/// A pseudonym of at most 64 characters.
fn pseudonym(user: &str) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(Sha256::digest(user))
}

/// The resolution by area: all sizes of one resolution have the same area, whatever their shape.
fn resolution((width, height): (u32, u32)) -> &'static str {
    match u64::from(width) * u64::from(height) {
        0..650_000 => "480p",
        650_000..1_400_000 => "720p",
        _ => "1080p",
    }
}

fn parse_body(answer: &ProviderResponse) -> ParsedBody {
    answer.success(describe).map_err(class_by_code)
}

fn describe(body: &Value) -> ErrorDescription {
    ErrorDescription::at(body, "/error/code", "/error/message")
}

fn is_refusal(code: &str) -> bool {
    code.contains("SensitiveContent")
}

/// Refines the class of a refused call by its code.
fn class_by_code(error: ProviderError) -> ProviderError {
    // An unclear answer proves nothing, whatever its code.
    if error.class == ErrorClass::Unclear {
        return error;
    }
    let class = match error.code.as_deref().unwrap_or_default() {
        code if is_refusal(code) => ErrorClass::Refused,
        "AccountOverdueError" | "QuotaExceeded" | "SetLimitExceeded" => ErrorClass::Account,
        "ModelNotOpen" => ErrorClass::Credentials,
        _ => error.class,
    };
    error.with_class(class)
}

/// The provider's error codes that concern the order.
const FAILURES: FailureTable = FailureTable {
    codes: &[
        ("InputTextSensitiveContent", ErrorClass::Refused),
        ("InputImageSensitiveContent", ErrorClass::Refused),
        ("InputVideoSensitiveContent", ErrorClass::Refused),
        ("InputAudioSensitiveContent", ErrorClass::Refused),
        ("OutputVideoSensitiveContent", ErrorClass::Refused),
        ("OutputImageSensitiveContent", ErrorClass::Refused),
        ("OutputAudioSensitiveContent", ErrorClass::Refused),
        ("SensitiveContent", ErrorClass::Refused),
        ("InvalidParameter", ErrorClass::Unfit),
        ("MissingParameter", ErrorClass::Unfit),
        ("InvalidImageURL", ErrorClass::Unfit),
        ("InvalidEndpoint", ErrorClass::Unfit),
    ],
    words: &[],
};

#[cfg(test)]
mod tests;
