//! `runway`: the Runway developer API, with Runway's own models and resold ones.
//!
//! Sources: the `runwayml` SDK 5.24.0 (Python; its types also list the inputs of each model) and
//! `@runwayml/sdk` 4.20.1 (JS), their requests; docs.dev.runwayml.com.
//!
//! ```text
//! POST   /v1/uploads         {filename, type} → {uploadUrl, fields, runwayUri}
//! POST   {uploadUrl}         the form: all fields, the file last
//! POST   /v1/image_to_video  │ /v1/text_to_video → {id}
//! GET    /v1/tasks/{id}      PENDING │ THROTTLED │ RUNNING │ SUCCEEDED │ FAILED │ CANCELLED
//! DELETE /v1/tasks/{id}      cancels a running task, deletes an ended one
//! ```
//!
//! Every call carries `X-Runway-Version`. THROTTLED means that the task waits
//! for the account's own other tasks.
//!
//! Commonly known but not documented: that an empty account is reported by a 400 that mentions
//! credits. The inputs of each model are in the catalogue.

mod models;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};

use crate::adapters::Protocol;
use crate::catalogue::ProtocolCatalogue;
use crate::cost::{CostUnit, ProviderCost};
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::frame_size;
use crate::limits::ModelLimits;
use crate::order::{MediaFile, MediaKind, Order, VideoSpec};
use crate::port::jobs::errors::FailureTable;
use crate::port::jobs::status::JobStatus;
use crate::port::jobs::{JobApi, upload, video_at};
use crate::port::{Adapter, AdapterStep, Call, CallContext, PollPace, RefusalRule};
use crate::response::{ProviderResponse, percent_at, required_text, text_at};

use models::{RunwayInputs, SizeFormat};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "runway",
    base_url: Some("https://api.dev.runwayml.com"),
    options: &[],
    anonymous: false,
    build: |settings| {
        Ok(Arc::new(RunwayAdapter {
            catalogue: settings.protocol_catalogue("runway"),
        }))
    },
};

/// The version of the API that this file uses.
const VERSION: &str = "2024-11-06";

/// Longest `data:` URL of a picture.
const MAX_DATA_URL_BYTES: usize = 5_000_000;

static JOB: JobApi = JobApi {
    id: "/id",
    path: "/v1/tasks/{id}",
    cancel: Some((Method::DELETE, "/v1/tasks/{id}")),
    headers: &[("X-Runway-Version", VERSION)],
    submission_body: |answer| answer.success(describe).map_err(class_by_words),
    poll_body: |answer| answer.success(describe),
    status: "/status",
    words: &[
        ("PENDING", JobStatus::Queued),
        ("THROTTLED", JobStatus::Queued),
        ("RUNNING", JobStatus::Running),
        ("SUCCEEDED", JobStatus::Done),
        ("FAILED", JobStatus::FAILED),
        ("CANCELLED", JobStatus::LOST),
    ],
    progress: |body| percent_at(body, "/progress", 1.0),
    outputs: |_, body| video_at(body, "/output/0"),
    failure: |body| FAILURES.error(ErrorDescription::at(body, "/failureCode", "/failure")),
    lost_message: "the task was cancelled at the provider",
};

#[derive(Debug)]
struct RunwayAdapter {
    catalogue: ProtocolCatalogue,
}

/// The fault of `inputs` in a catalogue entry.
pub(super) fn fault_of_inputs(inputs: &Map<String, Value>) -> Option<String> {
    RunwayInputs::read(inputs)
        .err()
        .map(|error| error.to_string())
}

impl Adapter for RunwayAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        (kind == MediaKind::Video)
            .then(|| ModelLimits::Video(self.catalogue.video(model, models::unknown())))
    }

    fn can_express_size(&self, model: &str, size: (u32, u32)) -> bool {
        let known_model = self.catalogue.find(model);
        let sizes = known_model.and_then(|known| known.sizes.as_ref());
        sizes.is_none_or(|sizes| sizes.contains(&size))
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
        self.next(order, Vec::new())
    }

    fn read_submission(
        &self,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let mut ready = upload::uploaded_names(&context.carried_data["ready"]);
        match context.stage.as_ref() {
            "slot" => {
                let body = (JOB.submission_body)(answer)?;
                let file = pictures(order.video()?).nth(ready.len());
                let Some((_, file)) = file else {
                    return Err(ProviderError::unreadable("there is nothing to upload"));
                };
                let carried_data =
                    json!({"ready": ready, "uri": required_text(&body, "/runwayUri")?});
                let upload_url = required_text(&body, "/uploadUrl")?;
                let call = upload::form("upload", upload_url, body["fields"].as_object(), file);
                Ok(AdapterStep::next(call.with_carried_data(carried_data)))
            }
            "upload" => {
                upload::check_stored(answer)?;
                ready.push(required_text(&context.carried_data, "/uri")?);
                Ok(AdapterStep::next(self.next(order, ready)?))
            }
            _ => JOB.read_submission(answer),
        }
    }

    /// A task that has ended has its cost, a running one only an `estimatedCost`.
    fn cost(&self, answer: &ProviderResponse) -> Option<ProviderCost> {
        ProviderCost::at_pointer(&answer.json().ok()?, "/cost/credits", CostUnit::Credits)
    }
}

impl RunwayAdapter {
    /// The next call for an order: an upload slot for the next picture that is too large for the
    /// order's body, otherwise the submission. `ready` has the URLs of the pictures before it.
    fn next(&self, order: &Order, mut ready: Vec<String>) -> Result<Call, ProviderError> {
        let video = order.video()?;
        // `ready` is in the order of `pictures`, so its length says which one is next.
        for (_, file) in pictures(video).skip(ready.len()) {
            let Some(address) = address(file) else {
                let body = json!({"filename": file.name, "type": "ephemeral"});
                let call = with_version(Call::post("slot", "/v1/uploads", body));
                return Ok(call.with_carried_data(json!({"ready": ready})));
            };
            ready.push(address);
        }
        self.submission(order, video, &ready)
    }

    fn submission(
        &self,
        order: &Order,
        video: &VideoSpec,
        uris: &[String],
    ) -> Result<Call, ProviderError> {
        let max_prompt = self
            .catalogue
            .video(&order.model, models::unknown())
            .max_prompt;
        let known_model = self.catalogue.find(&order.model);
        let inputs = known_model.and_then(|known| RunwayInputs::read(&known.inputs).ok());
        let inputs = inputs.unwrap_or_default();
        // Runway counts UTF-16 units, while limits are checked in characters.
        if video.prompt.encode_utf16().count() > max_prompt {
            let message = format!("the prompt is longer than {max_prompt} UTF-16 units");
            return Err(ProviderError::new(ErrorClass::Rejected, message));
        }
        let mut fields = Map::new();
        fields.insert("model".into(), json!(order.model));
        fields.insert("promptText".into(), json!(video.prompt));
        fields.insert("duration".into(), json!(video.seconds));
        let mut put = |name: &str, text: String| fields.insert(name.to_owned(), json!(text));
        let has_frames = video.frames([(), ()]).next().is_some();
        match inputs.size_format(has_frames) {
            SizeFormat::Pixels => {
                put("ratio", frame_size::size_text(video.size, ':'));
            }
            SizeFormat::Shape => {
                put("ratio", frame_size::ratio(video.size).to_owned());
                put("resolution", inputs.tier(video.size));
            }
            SizeFormat::Tier => {
                put("resolution", inputs.tier(video.size));
            }
            SizeFormat::Auto => {
                let tier = match video.size.0.min(video.size.1) {
                    1080.. => "1080p",
                    720.. => "720p",
                    _ => "480p",
                };
                put("ratio", format!("auto_{tier}"));
            }
            SizeFormat::Nothing => {}
        }
        if let Some(negative) = &video.options.negative_prompt {
            fields.insert("negativePrompt".into(), json!(negative));
        }
        if let Some(seed) = video.seed() {
            // Seeds have 32 bits here.
            fields.insert("seed".into(), json!(seed % (1 << 32)));
        }
        if let Some(with_audio) = video.audio() {
            fields.insert("audio".into(), json!(with_audio));
        }
        let mut references = Vec::new();
        let mut first_and_last = Vec::new();
        for ((position, _), uri) in pictures(video).zip(uris) {
            if position == REFERENCE {
                references.push(json!({"uri": uri}));
            } else {
                // Without a position some models treat a picture as a reference.
                first_and_last.push(json!({"uri": uri, "position": position}));
            }
        }
        if !references.is_empty() {
            fields.insert("references".into(), json!(references));
        }
        let path = if has_frames {
            fields.insert("promptImage".into(), json!(first_and_last));
            "/v1/image_to_video"
        } else {
            "/v1/text_to_video"
        };
        Ok(with_version(Call::post("submit", path, Value::Object(fields))).mark_submission())
    }
}

/// The pictures that are sent, with the words for their positions.
fn pictures(video: &VideoSpec) -> impl Iterator<Item = (&'static str, &MediaFile)> {
    let references = video.references().map(|file| (REFERENCE, file));
    video.frames(["first", "last"]).chain(references)
}

/// The position of a picture that is not a frame.
const REFERENCE: &str = "reference";

/// The picture's URL or `data:` URL; `None` if it has to be uploaded.
fn address(file: &MediaFile) -> Option<String> {
    // The length of base64, and room for `data:` and the media type.
    let fits = file.bytes.len().div_ceil(3) * 4 + 64 <= MAX_DATA_URL_BYTES;
    let data_url = || fits.then(|| file.data_url());
    file.url.clone().or_else(data_url)
}

fn with_version(call: Call) -> Call {
    call.with_header("X-Runway-Version", VERSION)
}

/// `{"error": "Validation of body failed", "issues": [{"path", "message"}]}`: only the issues
/// describe the fault.
fn describe(body: &Value) -> ErrorDescription {
    let description = ErrorDescription::at(body, "/code", "/error");
    let issues = body["issues"].as_array().into_iter().flatten();
    let issues: Vec<String> = issues
        .filter_map(|issue| {
            let path = issue["path"].as_array().into_iter().flatten();
            let path: Vec<&str> = path.filter_map(Value::as_str).collect();
            let message = text_at(issue, "/message")?;
            Some(format!("{}: {message}", path.join(".")))
        })
        .collect();
    if issues.is_empty() {
        return description;
    }
    let message = description.message.unwrap_or_else(|| "invalid".to_owned());
    ErrorDescription {
        message: Some(format!("{message}: {}", issues.join("; "))),
        ..description
    }
}

fn class_by_words(error: ProviderError) -> ProviderError {
    let mentions_credits = error.message.to_lowercase().contains("credits");
    if error.class == ErrorClass::Rejected && mentions_credits {
        return error.with_class(ErrorClass::Account);
    }
    error
}

/// The codes of docs.dev.runwayml.com, "Handle Task Failures". `INTERNAL.BAD_OUTPUT`, other
/// `INTERNAL` codes and those of third parties may be temporary.
const FAILURES: FailureTable = FailureTable {
    codes: &[
        ("SAFETY.", ErrorClass::Refused),
        ("INPUT_PREPROCESSING.SAFETY", ErrorClass::Refused),
        ("ASSET.INVALID", ErrorClass::Unfit),
    ],
    words: &[],
};

#[cfg(test)]
mod tests;
