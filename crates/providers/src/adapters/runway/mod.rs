//! `runway`: the Runway developer API, with Runway's own models and others'
//! that it resells.
//!
//! Sources: the `runwayml` SDK 5.24.0 (Python; its types also give what each
//! model takes) and `@runwayml/sdk` 4.20.1 (JS) on the wire; docs.dev.runwayml.com.
//!
//! ```text
//! POST   /v1/uploads         {filename, type} → {uploadUrl, fields, runwayUri}
//! POST   {uploadUrl}         the form: all fields, the file last
//! POST   /v1/image_to_video  │ /v1/text_to_video → {id}
//! GET    /v1/tasks/{id}      PENDING │ THROTTLED │ RUNNING │ SUCCEEDED │ FAILED │ CANCELLED
//! DELETE /v1/tasks/{id}      calls a running task off, deletes one that has ended
//! ```
//!
//! Every call carries `X-Runway-Version`. THROTTLED means that the task waits
//! for the account's own other tasks.
//!
//! Common knowledge only: that an empty account is told by a 400 that speaks of
//! credits. Which model takes what is in [`models`].

mod models;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};

use crate::adapters::Protocol;
use crate::adapters::ends::Ends;
use crate::answer::{Answer, Described, percent_at, required_text, text_at};
use crate::cost::{Cost, Unit};
use crate::error::{Class, ProviderError};
use crate::limits::Limits;
use crate::order::{File, Kind, Order, PictureRole, Video, Work};
use crate::port::{Adapter, Asked, Body, Call, Handle, Output, Pace, Part, Step, Target};
use crate::settings::{Settings, SettingsError};
use crate::shape;

use models::Told;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "runway",
    base_url: Some("https://api.dev.runwayml.com"),
    options: &[],
    anonymous: false,
    build,
};

/// The version of the API that this file speaks.
const VERSION: &str = "2024-11-06";

/// Longest `data:` address of a picture.
const DATA_URL: usize = 5_000_000;

#[expect(clippy::unnecessary_wraps, reason = "the table's type")]
fn build(_: &Settings) -> Result<Arc<dyn Adapter>, SettingsError> {
    Ok(Arc::new(Runway))
}

#[derive(Debug)]
struct Runway;

impl Adapter for Runway {
    fn limits(&self, kind: Kind, model: &str) -> Option<Limits> {
        (kind == Kind::Video).then(|| Limits::Video(models::of(model).limits()))
    }

    fn can_say(&self, model: &str, size: (u32, u32)) -> bool {
        models::of(model).can_say(size)
    }

    fn pace(&self) -> Pace {
        Pace::new(Duration::from_secs(5), Duration::from_secs(20))
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        next(order, Vec::new())
    }

    fn submitted(
        &self,
        order: &Order,
        asked: &Asked,
        answer: &Answer,
    ) -> Result<Step, ProviderError> {
        let mut ready: Vec<String> = asked
            .memo
            .pointer("/ready")
            .and_then(Value::as_array)
            .map(|uris| uris.iter().filter_map(Value::as_str).map(str::to_owned))
            .map(Iterator::collect)
            .unwrap_or_default();
        match asked.stage.as_ref() {
            "slot" => {
                let body = answer.success(describe).map_err(class_by_words)?;
                let file = pictures(video(order)?).nth(ready.len());
                let Some((_, file)) = file else {
                    return Err(ProviderError::unreadable("there is nothing to upload"));
                };
                let memo = json!({"ready": ready, "uri": required_text(&body, "/runwayUri")?});
                let call = Call::new("upload", Method::POST, "")
                    .to(Target::Address(required_text(&body, "/uploadUrl")?))
                    .without_credential()
                    .with_body(Body::Multipart(form(&body, file)))
                    .with_memo(memo);
                Ok(Step::next(call))
            }
            "upload" => {
                // The storage behind the address speaks its own language; what
                // matters is that nothing was ordered yet.
                if !answer.status.is_success() {
                    let error = answer.failure(|_| Described::default());
                    return Err(error.of_class(Class::Unavailable));
                }
                ready.push(required_text(&asked.memo, "/uri")?);
                Ok(Step::next(next(order, ready)?))
            }
            _ => {
                let body = answer.success(describe).map_err(class_by_words)?;
                Ok(Step::submitted(json!({"id": required_text(&body, "/id")?})))
            }
        }
    }

    fn poll(&self, handle: &Handle) -> Result<Call, ProviderError> {
        let path = format!("/v1/tasks/{}", handle.text("id"));
        Ok(versioned(Call::get("poll", path)))
    }

    fn polled(&self, _: &Handle, _: &Asked, answer: &Answer) -> Result<Step, ProviderError> {
        if answer.status == 404 {
            return Err(answer.failure(describe).of_class(Class::Missing));
        }
        let body = answer.success(describe)?;
        match required_text(&body, "/status")?.as_str() {
            "PENDING" | "THROTTLED" => Ok(Step::running(None)),
            "RUNNING" => Ok(Step::running(percent_at(&body, "/progress", 1.0))),
            "SUCCEEDED" => {
                let made = text_at(&body, "/output/0");
                Step::done(made.map(Output::video_at).into_iter().collect())
            }
            "FAILED" => Err(failure(&body)),
            "CANCELLED" => Err(ProviderError::new(
                Class::Lost,
                "the task was called off at the provider",
            )),
            word => Ok(Step::unknown(word)),
        }
    }

    /// A task that has ended says what it cost, one that runs an `estimatedCost`.
    fn cost(&self, answer: &Answer) -> Option<Cost> {
        Cost::at(&answer.json().ok()?, "/cost/credits", Unit::Credits)
    }

    fn cancel(&self, handle: &Handle) -> Option<Call> {
        let path = format!("/v1/tasks/{}", handle.text("id"));
        Some(versioned(Call::new("cancel", Method::DELETE, path)))
    }
}

fn video(order: &Order) -> Result<&Video, ProviderError> {
    match &order.work {
        Work::Video(video) => Ok(video),
        _ => Err(ProviderError::new(
            Class::Rejected,
            "this provider makes videos only",
        )),
    }
}

/// The pictures that are sent, with the words for their places.
fn pictures(video: &Video) -> impl Iterator<Item = (&'static str, &File)> {
    let references = video.references().map(|file| (REFERENCE, file));
    frames(video).chain(references)
}

/// The place of what is no frame.
const REFERENCE: &str = "reference";

fn frames(video: &Video) -> impl Iterator<Item = (&'static str, &File)> {
    let first = video.picture(PictureRole::FirstFrame);
    let last = video.picture(PictureRole::LastFrame);
    let first = first.map(|file| ("first", file));
    first.into_iter().chain(last.map(|file| ("last", file)))
}

/// The next call for an order some of whose pictures have addresses already:
/// room for the next picture that is too large for the order's body, else the
/// submission.
fn next(order: &Order, mut ready: Vec<String>) -> Result<Call, ProviderError> {
    let video = video(order)?;
    for (_, file) in pictures(video).skip(ready.len()) {
        let Some(address) = address(file) else {
            let body = json!({"filename": file.name, "type": "ephemeral"});
            let call = versioned(Call::post("slot", "/v1/uploads", body));
            return Ok(call.with_memo(json!({"ready": ready})));
        };
        ready.push(address);
    }
    submission(order, video, &ready)
}

/// The picture's address, unless it has to be uploaded.
fn address(file: &File) -> Option<String> {
    let fits = file.bytes.len().div_ceil(3) * 4 + 64 <= DATA_URL;
    let data = || fits.then(|| file.data_url());
    file.url.clone().or_else(data)
}

fn submission(order: &Order, video: &Video, uris: &[String]) -> Result<Call, ProviderError> {
    let model = models::of(&order.model);
    let longest = model.max_prompt();
    if video.prompt.encode_utf16().count() > longest {
        let message = format!("the prompt is longer than {longest} UTF-16 units");
        return Err(ProviderError::new(Class::Rejected, message));
    }
    let mut fields = Map::new();
    fields.insert("model".into(), json!(order.model));
    fields.insert("promptText".into(), json!(video.prompt));
    fields.insert("duration".into(), json!(video.seconds));
    let mut put = |name: &str, text: String| fields.insert(name.to_owned(), json!(text));
    let from_frames = frames(video).next().is_some();
    match model.told(from_frames) {
        Told::Pixels => {
            put("ratio", shape::size_text(video.size, ':'));
        }
        Told::Shape => {
            put("ratio", shape::ratio(video.size).to_owned());
            put("resolution", model.tier(video.size).to_owned());
        }
        Told::Tier => {
            put("resolution", model.tier(video.size).to_owned());
        }
        Told::Auto => {
            let tier = match video.size.0.min(video.size.1) {
                1080.. => "1080p",
                720.. => "720p",
                _ => "480p",
            };
            put("ratio", format!("auto_{tier}"));
        }
        Told::Nothing => {}
    }
    if let Some(negative) = &video.negative_prompt {
        fields.insert("negativePrompt".into(), json!(negative));
    }
    if let Some(seed) = video.seed {
        fields.insert("seed".into(), json!(seed % (1 << 32)));
    }
    if let Some(on) = video.audio {
        fields.insert("audio".into(), json!(on));
    }
    let mut references = Vec::new();
    let mut first_and_last = Vec::new();
    for ((position, _), uri) in pictures(video).zip(uris) {
        if position == REFERENCE {
            references.push(json!({"uri": uri}));
        } else {
            // Without a position some models take a picture for a reference.
            first_and_last.push(json!({"uri": uri, "position": position}));
        }
    }
    if !references.is_empty() {
        fields.insert("references".into(), json!(references));
    }
    let path = if from_frames {
        fields.insert("promptImage".into(), json!(first_and_last));
        "/v1/image_to_video"
    } else {
        "/v1/text_to_video"
    };
    Ok(versioned(Call::post("submit", path, Value::Object(fields))).submits())
}

fn form(slot: &Value, file: &File) -> Vec<Part> {
    let fields = slot.pointer("/fields").and_then(Value::as_object);
    let mut parts: Vec<Part> = fields
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some(Part::text(name, value.as_str()?)))
        .collect();
    parts.push(Part::file("file", file));
    parts
}

fn versioned(call: Call) -> Call {
    call.with_header("X-Runway-Version", VERSION)
}

/// `{"error": "Validation of body failed", "issues": [{"path", "message"}]}`:
/// only the issues say what is wrong.
fn describe(body: &Value) -> Described {
    let said = Described::at(body, "/code", "/error");
    let issues = body["issues"].as_array().into_iter().flatten();
    let issues: Vec<String> = issues
        .filter_map(|issue| {
            let path = issue["path"].as_array().into_iter().flatten();
            let path: Vec<&str> = path.filter_map(Value::as_str).collect();
            let what = text_at(issue, "/message")?;
            Some(format!("{}: {what}", path.join(".")))
        })
        .collect();
    if issues.is_empty() {
        return said;
    }
    let message = said.message.unwrap_or_else(|| "invalid".to_owned());
    Described {
        message: Some(format!("{message}: {}", issues.join("; "))),
        ..said
    }
}

fn class_by_words(error: ProviderError) -> ProviderError {
    let speaks_of_credits = error.message.to_lowercase().contains("credits");
    if error.class == Class::Rejected && speaks_of_credits {
        return error.of_class(Class::Account);
    }
    error
}

/// The codes of docs.dev.runwayml.com, "Handle Task Failures".
/// `INTERNAL.BAD_OUTPUT`, other `INTERNAL` codes and those of third parties may
/// go away.
const ENDS: Ends = Ends {
    codes: &[
        ("SAFETY.", Class::Refused),
        ("INPUT_PREPROCESSING.SAFETY", Class::Refused),
        ("ASSET.INVALID", Class::Unfit),
    ],
    words: &[],
};

fn failure(body: &Value) -> ProviderError {
    ENDS.error(Described::at(body, "/failureCode", "/failure"))
}

#[cfg(test)]
mod tests;
