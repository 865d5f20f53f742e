//! `modelark`: `ByteDance`'s `ModelArk` (Volcengine Ark in China), the home of the
//! Seedance models.
//!
//! Sources: `byteplus-python-sdk-v2` 3.0.63 on the wire; the provider's
//! documents for what a deletion does and how long an address lives (24 h).
//!
//! ```text
//! POST   /contents/generations/tasks       {id}
//! GET    /contents/generations/tasks/{id}  queued │ running │ succeeded │ failed │ cancelled │ expired
//! DELETE /contents/generations/tasks/{id}  calls a queued task off, is refused for a running one
//! GET    /contents/generations/tasks       {items: [the same], total}; page_num, page_size
//! ```
//!
//! A task does not repeat its prompt, so a lost submission could not be told
//! from others by its content. But it gives back its seed (the SDK's types). An
//! order that leaves the seed to chance is given one made of its key, so its
//! task is found; one with a seed of its own is not. In which order the list
//! comes, and how soon, no document says; it covers seven days.
//!
//! `safety_identifier` names the end user, by whom the provider watches for
//! abuse: it is the caller's `user`, hashed, and left out without one.
//!
//! The SDK sends members that are not set as null; nothing here is null.
//!
//! Common knowledge only: the words of the error codes, and what each model
//! offers. Unknown: whether the oldest models read their parameters from the
//! body or only from flags in the prompt (`--rs 1080p --dur 12`); they are sent in
//! the body, and no prompt with such a flag is: nobody would have paid for it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use http::Method;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::adapters::Protocol;
use crate::adapters::ark_tasks::{WORDS, content};
use crate::catalogue::ProtocolCatalogue;
use crate::cost::{CostUnit, ProviderCost};
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::frame_size;
use crate::limits::{Durations, ModelLimits, SourcePictureLimits, VideoLimits};
use crate::order::{MediaKind, Order, WorkSpec};
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
    failure: |body| ENDS.error(describe(body)),
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

impl Adapter for ModelArkAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        // Endpoints have ids of the operator's own instead of a model's name:
        // they get what all models have.
        let unknown = VideoLimits {
            sizes: vec![(1280, 720), (720, 1280), (960, 960)],
            durations: Durations::Range { min: 4, max: 12 },
            default_seconds: 5,
            pictures: SourcePictureLimits::frames(2),
            negative_prompt: false,
            seed: true,
            audio: None,
            max_prompt: 2000,
        };
        (kind == MediaKind::Video).then(|| ModelLimits::Video(self.catalogue.video(model, unknown)))
    }

    /// Of every model: endpoints have ids of the operator's own.
    fn prompt_settings(&self, _: &str) -> &'static [&'static str] {
        prompt_settings::SEEDANCE
    }

    fn can_express_size(&self, _: &str, size: (u32, u32)) -> bool {
        // 1080p, the finest word, has two million pixels; 1440p has 3.7 million.
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
        fields.insert("ratio".into(), json!(frame_size::ratio(video.size)));
        fields.insert("duration".into(), json!(video.seconds));
        if let Some(on) = video.audio {
            fields.insert("generate_audio".into(), json!(on));
        }
        // The lower 32 bits are what ModelArk takes.
        let seed = video.seed.map(|seed| seed % (1 << 32));
        // Never left to the provider: a seed made of the key is what a lost task is found by.
        let seed = seed.unwrap_or_else(|| u64::from(seed_of(&order.key)));
        fields.insert("seed".into(), json!(seed));
        if let Some(user) = &video.user {
            fields.insert("safety_identifier".into(), json!(hashed(user)));
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

    fn find(&self, order: &Order, _: SystemTime) -> Option<Call> {
        is_left_to_chance(order).then(|| page(1))
    }

    fn read_lookup(
        &self,
        order: &Order,
        _: SystemTime,
        asked: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<LookupPage, ProviderError> {
        if !is_left_to_chance(order) {
            return Err(ProviderError::unreadable("no look-up was started"));
        }
        let body = parse_body(answer)?;
        let tasks = LIST.items(&body)?;
        let seed = u64::from(seed_of(&order.key));
        let is_ours = |task: &&Value| {
            // The model as well, because others may have ordered with this seed by chance.
            task["seed"].as_u64() == Some(seed)
                && text_at(task, "/model").as_ref() == Some(&order.model)
        };
        let ours = tasks.iter().filter(is_ours);
        let jobs = ours.filter_map(|task| LIST.certain(task));
        let number = asked.memo.as_u64().unwrap_or(1);
        let total = body["total"].as_u64().unwrap_or_default();
        // All pages: no document says that the list begins with the newest.
        let goes_on = !tasks.is_empty() && number.saturating_mul(PAGE) < total;
        Ok(LookupPage::jobs(jobs).with_next_page(goes_on.then(|| page(number.saturating_add(1)))))
    }
}

/// Tasks on a page of [`LIST`]; it may have 500.
const PAGE: u64 = 100;

fn page(number: u64) -> Call {
    LIST.page()
        .with_query("page_num", number.to_string())
        .with_memo(json!(number))
}

/// Whether the seed is ours to choose.
fn is_left_to_chance(order: &Order) -> bool {
    matches!(&order.work, WorkSpec::Video(video) if video.seed.is_none())
}

/// A seed that no other order has but by a chance of one in four thousand million.
fn seed_of(key: &str) -> u32 {
    let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(key));
    u32::from_be_bytes([a, b, c, d])
}

/// A name in at most 64 characters that does not tell who it is.
fn hashed(user: &str) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(Sha256::digest(user))
}

/// The fineness by area: the models' sizes of one fineness have one area,
/// whatever their shape.
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

/// What the code of a refused call says beside its status.
fn class_by_code(error: ProviderError) -> ProviderError {
    // Only a 4xx proves that nothing was taken.
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

/// The provider's error codes that speak of the order.
const ENDS: FailureTable = FailureTable {
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
