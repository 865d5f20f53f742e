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
//! body or only from flags in the prompt; they are sent in the body.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use http::Method;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::adapters::Protocol;
use crate::adapters::ends::Ends;
use crate::answer::{Answer, Described, required_list, required_text, text_at, time_at};
use crate::cost::{Cost, Unit};
use crate::error::{Class, ProviderError};
use crate::limits::{Durations, Limits, Pictures, VideoLimits};
use crate::order::{Kind, Order, PictureRole, Work};
use crate::port::{Adapter, Asked, Call, Found, FoundJob, Handle, Output, Pace, Step};
use crate::settings::{Settings, SettingsError};
use crate::shape;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "modelark",
    base_url: Some("https://ark.ap-southeast.bytepluses.com/api/v3"),
    options: &[],
    anonymous: false,
    build,
};

const TASKS: &str = "/contents/generations/tasks";

#[expect(clippy::unnecessary_wraps, reason = "the table's type")]
fn build(_: &Settings) -> Result<Arc<dyn Adapter>, SettingsError> {
    Ok(Arc::new(ModelArk))
}

#[derive(Debug)]
struct ModelArk;

impl Adapter for ModelArk {
    fn limits(&self, kind: Kind, model: &str) -> Option<Limits> {
        let is = |part: &str| model.contains(part);
        let mut sizes = vec![
            (1280, 720),
            (720, 1280),
            (960, 960),
            (1112, 834),
            (834, 1112),
            (1470, 630),
            (864, 496),
            (496, 864),
            (640, 640),
        ];
        let large = is("1-0-pro") || is("1-5-pro") || is("2-0") || is("2-5");
        if large && !is("fast") && !is("mini") {
            sizes.extend([(1920, 1080), (1080, 1920), (1440, 1440)]);
        }
        // Endpoints have ids of the operator's own instead of a model's name:
        // they get what all models have.
        let (min, max) = if is("1-0-") {
            (2, 12)
        } else if is("2-5") {
            (4, 30)
        } else if is("2-0") {
            (4, 15)
        } else {
            (4, 12)
        };
        let frames = if is("t2v") {
            0
        } else if is("1-0-pro-fast") {
            1
        } else {
            2
        };
        (kind == Kind::Video).then(|| {
            Limits::Video(VideoLimits {
                sizes,
                durations: Durations::Range { min, max },
                default_seconds: 5,
                pictures: Pictures {
                    needed: is("i2v"),
                    references: if is("2-0") || is("2-5") {
                        9
                    } else if is("lite-i2v") {
                        4
                    } else {
                        0
                    },
                    ..Pictures::frames(frames)
                },
                negative_prompt: false,
                seed: true,
                audio: (is("1-5-pro") || is("2-0") || is("2-5")).then_some(true),
                max_prompt: 2000,
            })
        })
    }

    fn can_say(&self, _: &str, size: (u32, u32)) -> bool {
        u64::from(size.0) * u64::from(size.1) < 3_000_000 && shape::has_usual_ratio(size)
    }

    fn pace(&self) -> Pace {
        Pace::new(Duration::from_secs(5), Duration::from_secs(20))
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let Work::Video(video) = &order.work else {
            return Err(ProviderError::new(
                Class::Rejected,
                "this provider makes videos only",
            ));
        };
        let mut content = vec![json!({"type": "text", "text": video.prompt})];
        for (word, role) in [
            ("first_frame", PictureRole::FirstFrame),
            ("last_frame", PictureRole::LastFrame),
        ] {
            if let Some(file) = video.picture(role) {
                let url = json!({"url": file.url_or_data()});
                content.push(json!({"type": "image_url", "image_url": url, "role": word}));
            }
        }
        for file in video.references() {
            let url = json!({"url": file.url_or_data()});
            let role = "reference_image";
            content.push(json!({"type": "image_url", "image_url": url, "role": role}));
        }
        let mut fields = Map::new();
        fields.insert("model".into(), json!(order.model));
        fields.insert("content".into(), Value::Array(content));
        fields.insert("resolution".into(), json!(resolution(video.size)));
        fields.insert("ratio".into(), json!(shape::ratio(video.size)));
        fields.insert("duration".into(), json!(video.seconds));
        if let Some(on) = video.audio {
            fields.insert("generate_audio".into(), json!(on));
        }
        let seed = video.seed.map(|seed| seed % (1 << 32));
        let seed = seed.unwrap_or_else(|| u64::from(seed_of(&order.key)));
        fields.insert("seed".into(), json!(seed));
        if let Some(user) = &video.user {
            fields.insert("safety_identifier".into(), json!(hashed(user)));
        }
        Ok(Call::post("submit", TASKS, Value::Object(fields)).submits())
    }

    fn submitted(&self, _: &Order, _: &Asked, answer: &Answer) -> Result<Step, ProviderError> {
        let body = answer.success(describe).map_err(class_by_code)?;
        Ok(Step::submitted(json!({"id": required_text(&body, "/id")?})))
    }

    fn poll(&self, handle: &Handle) -> Result<Call, ProviderError> {
        Ok(Call::get("poll", format!("{TASKS}/{}", handle.text("id"))))
    }

    fn polled(&self, _: &Handle, _: &Asked, answer: &Answer) -> Result<Step, ProviderError> {
        if answer.status == 404 {
            return Err(answer.failure(describe).of_class(Class::Missing));
        }
        let body = answer.success(describe).map_err(class_by_code)?;
        match required_text(&body, "/status")?.as_str() {
            "queued" | "running" => Ok(Step::running(None)),
            "succeeded" => {
                let made = text_at(&body, "/content/video_url");
                Step::done(made.map(Output::video_at).into_iter().collect())
            }
            "failed" => Err(failure(&body)),
            "cancelled" | "expired" => Err(ProviderError::new(
                Class::Lost,
                "the provider no longer works on it",
            )),
            word => Ok(Step::unknown(word)),
        }
    }

    fn cost(&self, answer: &Answer) -> Option<Cost> {
        Cost::at(
            &answer.json().ok()?,
            "/usage/completion_tokens",
            Unit::Tokens,
        )
    }

    fn cancel(&self, handle: &Handle) -> Option<Call> {
        let path = format!("{TASKS}/{}", handle.text("id"));
        Some(Call::new("cancel", Method::DELETE, path))
    }

    fn find(&self, order: &Order, _: SystemTime) -> Option<Call> {
        is_left_to_chance(order).then(|| page(1))
    }

    fn found(
        &self,
        order: &Order,
        _: SystemTime,
        asked: &Asked,
        answer: &Answer,
    ) -> Result<Found, ProviderError> {
        if !is_left_to_chance(order) {
            return Err(ProviderError::unreadable("nothing was looked for"));
        }
        let body = answer.success(describe).map_err(class_by_code)?;
        let tasks = required_list(&body, "/items")?;
        let seed = seed_of(&order.key);
        let jobs = tasks.iter().filter_map(|task| {
            let created_at = time_at(task, "/created_at");
            let is_ours = task["seed"].as_u64() == Some(u64::from(seed))
                && text_at(task, "/model").as_ref() == Some(&order.model);
            let handle = Handle(json!({"id": text_at(task, "/id")?}));
            is_ours.then(|| FoundJob::certain(handle, created_at))
        });
        let number = asked.memo.as_u64().unwrap_or(1);
        let total = body["total"].as_u64().unwrap_or_default();
        let goes_on = !tasks.is_empty() && number.saturating_mul(PAGE) < total;
        Ok(Found::jobs(jobs).and_then(goes_on.then(|| page(number.saturating_add(1)))))
    }
}

/// Tasks on a page of the list; it may have 500.
const PAGE: u64 = 100;

fn page(number: u64) -> Call {
    Call::get("find", TASKS)
        .with_query("page_num", number.to_string())
        .with_query("page_size", PAGE.to_string())
        .with_memo(json!(number))
}

/// Whether the seed is ours to choose.
fn is_left_to_chance(order: &Order) -> bool {
    matches!(&order.work, Work::Video(video) if video.seed.is_none())
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

fn describe(body: &Value) -> Described {
    Described::at(body, "/error/code", "/error/message")
}

fn is_refusal(code: &str) -> bool {
    code.contains("SensitiveContent")
}

/// What the code of a refused call says beside its status.
fn class_by_code(error: ProviderError) -> ProviderError {
    // Only a 4xx proves that nothing was taken.
    if error.class == Class::Unclear {
        return error;
    }
    let class = match error.code.as_deref().unwrap_or_default() {
        code if is_refusal(code) => Class::Refused,
        "AccountOverdueError" | "QuotaExceeded" | "SetLimitExceeded" => Class::Account,
        "ModelNotOpen" => Class::Credentials,
        _ => error.class,
    };
    error.of_class(class)
}

/// The provider's error codes that speak of the order.
const ENDS: Ends = Ends {
    codes: &[
        ("InputTextSensitiveContent", Class::Refused),
        ("InputImageSensitiveContent", Class::Refused),
        ("InputVideoSensitiveContent", Class::Refused),
        ("InputAudioSensitiveContent", Class::Refused),
        ("OutputVideoSensitiveContent", Class::Refused),
        ("OutputImageSensitiveContent", Class::Refused),
        ("OutputAudioSensitiveContent", Class::Refused),
        ("SensitiveContent", Class::Refused),
        ("InvalidParameter", Class::Unfit),
        ("MissingParameter", Class::Unfit),
        ("InvalidImageURL", Class::Unfit),
        ("InvalidEndpoint", Class::Unfit),
    ],
    words: &[],
};

fn failure(body: &Value) -> ProviderError {
    ENDS.error(describe(body))
}

#[cfg(test)]
mod tests;
