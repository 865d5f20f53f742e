//! `replicate`: any model on Replicate that makes a video, Demucs for stems, and
//! Stable Audio for music.
//!
//! Sources: `replicate` 1.0.7 (Python) and 1.4.0 (JS) (their requests); replicate.com/docs; the
//! model pages for the names of inputs, which differ between models ([`inputs`], less certain than
//! the rest).
//!
//! ```text
//! POST /v1/files                               multipart `content` → {urls: {get}}
//! POST /v1/models/{owner}/{name}/predictions   {input} → the prediction; also
//! POST /v1/deployments/{owner}/{name}/predictions, and
//! POST /v1/predictions                         {version, input}
//! GET  /v1/predictions/{id}                    {status, output, logs, error}
//! POST /v1/predictions/{id}/cancel             the prediction
//! GET  /v1/predictions                         {results: [the same], next}, newest first, 100 a page
//! ```
//!
//! A lost submission is searched for in the list, by its content: a prediction contains its input
//! and its model. It would also contain a webhook, which would identify it with certainty, but the
//! order has no URL for one. Stems can be identified only if the recording was sent as a URL.
//!
//! The model's name determines which of the three APIs is used: `owner/name`,
//! `deployments/owner/name`, `owner/name:version` or a version's 64 hex digits. `Prefer: wait` is
//! never sent: if a delayed answer were lost, a paid prediction would remain without an id. Files
//! over 256 kB are uploaded first.
//!
//! Unknown: whether a cancelled prediction is partly charged; the messages of refusals, which
//! models write themselves ([`is_refusal`] knows those of the platform). Outputs are removed an
//! hour after the end, and then the job is lost.

mod inputs;
mod list;
mod outputs;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::{Map, Value, json};

use crate::adapters::input_slot::InputSlot;
use crate::adapters::{Protocol, stable_audio};
use crate::catalogue::ProtocolCatalogue;
use crate::cost::{CostUnit, ProviderCost};
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::limits::{ModelLimits, MusicLimits, StemLimits};
use crate::order::{MediaFile, MediaKind, Order, StemGroup, WorkSpec};
use crate::port::jobs::errors::FailureTable;
use crate::port::jobs::status::JobStatus;
use crate::port::jobs::{JobApi, ParsedBody, upload};
use crate::port::model_names::encode_path;
use crate::port::{
    Adapter, AdapterStep, Call, CallContext, ClipFacts, FormPart, JobHandle, LookupPage,
    MAX_ANSWER_BYTES, ModelNames, PollPace, RefusalRule, RequestBody,
};
use crate::response::{ProviderResponse, required_text, text_at};

use inputs::{PredictionInput, ReplicateInputs};
use outputs::{outputs, progress};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "replicate",
    base_url: Some("https://api.replicate.com"),
    options: &[],
    anonymous: false,
    build: |settings| {
        Ok(Arc::new(ReplicateAdapter {
            catalogue: settings.protocol_catalogue("replicate"),
        }))
    },
};

/// Maximum size of a file within a request, in bytes, as the documentation advises.
const MAX_INLINE_BYTES: usize = 256_000;

/// The stems of Demucs, with its own names, in the order of a full split.
const STEMS: [(StemGroup, &str); 5] = [
    (StemGroup::Vocals, "vocals"),
    (StemGroup::Drums, "drums"),
    (StemGroup::Bass, "bass"),
    (StemGroup::Guitar, "guitar"),
    (StemGroup::Keyboard, "piano"),
];

static JOB: JobApi = JobApi {
    id: "/id",
    path: "/v1/predictions/{id}",
    cancel: Some((Method::POST, "/v1/predictions/{id}/cancel")),
    headers: &[],
    submission_body: parse_body,
    poll_body: parse_body,
    status: "/status",
    words: &[
        ("starting", JobStatus::Running),
        ("processing", JobStatus::Running),
        ("succeeded", JobStatus::Done),
        ("failed", JobStatus::FAILED),
        ("canceled", JobStatus::LOST),
        ("aborted", JobStatus::LOST),
    ],
    progress,
    outputs: |handle, body| {
        if body["data_removed"] == true {
            let message = "the provider has removed the output";
            return Err(ProviderError::new(ErrorClass::Lost, message));
        }
        Ok(outputs(handle, &body["output"]))
    },
    failure: |body| FAILURES.error(ErrorDescription::at(body, "", "/error")),
    lost_message: "the prediction was cancelled",
};

#[derive(Debug)]
struct ReplicateAdapter {
    catalogue: ProtocolCatalogue,
}

/// The fault of `inputs` in a catalogue entry.
pub(super) fn fault_of_inputs(inputs: &Map<String, Value>) -> Option<String> {
    ReplicateInputs::read(inputs)
        .err()
        .map(|error| error.to_string())
}

impl Adapter for ReplicateAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        match (kind, model.contains("demucs")) {
            (MediaKind::Music, false) if stable_audio::is_stable_audio(model) => {
                Some(stable_audio::limits(model))
            }
            (MediaKind::Video, false) if !stable_audio::is_stable_audio(model) => Some(
                ModelLimits::Video(self.catalogue.video(model, inputs::unknown())),
            ),
            (MediaKind::Music, true) => Some(ModelLimits::Music(MusicLimits::stems(StemLimits {
                groups: STEMS.iter().map(|(group, _)| *group).collect(),
                two: true,
                complements: STEMS.iter().map(|(group, _)| *group).collect(),
                full: true,
                other: true,
            }))),
            _ => None,
        }
    }

    fn model_names(&self) -> ModelNames {
        ModelNames {
            most_segments: 3,
            // A colon precedes a version, which Replicate runs whatever model is named before it.
            colons: false,
            reserved: &["predictions", "versions"],
        }
    }

    fn fault_of_model(&self, _: MediaKind, model: &str) -> Option<String> {
        let is_versioned = version(model).is_some() || model.starts_with("deployments/");
        if !is_versioned && !model.contains('/') {
            return Some(format!("{model:?} is not a model; use \"owner/name\""));
        }
        // Replicate runs demucs only by version, like all community models.
        let needs_version = !is_versioned && model.contains("demucs");
        needs_version.then(|| format!("{model} must have a version; use \"{model}:…\""))
    }

    fn can_express_size(&self, model: &str, size: (u32, u32)) -> bool {
        // For an unknown model, the operator's configuration decides.
        let Some(known) = self.catalogue.find(model) else {
            return true;
        };
        let resolutions = self.inputs(model).resolutions;
        let has_resolution = resolutions.contains(&size.0.min(size.1));
        let sizes = known.sizes.as_ref();
        has_resolution
            || sizes.is_none_or(|sizes| {
                sizes
                    .iter()
                    .any(|known_size| known_size.0.min(known_size.1) == size.0.min(size.1))
            })
    }

    fn pace(&self) -> PollPace {
        PollPace {
            // 3,000 requests a minute for all endpoints but the one that creates predictions
            // (https://replicate.com/docs/topics/predictions/rate-limits).
            calls_per_second: Some(50),
            ..PollPace::new(Duration::from_secs(2), Duration::from_secs(15))
        }
    }

    fn job(&self) -> Option<&JobApi> {
        Some(&JOB)
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![RefusalRule::http_statuses()]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        self.next(order, &[])
    }

    fn read_submission(
        &self,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        if context.stage == "upload" {
            let uploaded = parse_body(answer).and_then(|body| required_text(&body, "/urls/get"));
            let url = uploaded.map_err(upload::as_upload_error)?;
            let mut urls = upload::uploaded_names(&context.carried_data);
            urls.push(url);
            return self.next(order, &urls).map(AdapterStep::next);
        }
        let body = parse_body(answer)?;
        let id = required_text(&body, "/id")?;
        Ok(AdapterStep::submitted(handle(order, &id)))
    }

    /// The compute time, by which most models are billed.
    // A prediction repeats its input, with the files that are in it.
    fn poll(&self, handle: &JobHandle) -> Result<Call, ProviderError> {
        Ok(JOB.poll(handle).with_limit(MAX_ANSWER_BYTES))
    }

    fn cancel(&self, handle: &JobHandle) -> Option<Call> {
        let call = JOB.cancel(handle)?;
        Some(call.with_limit(MAX_ANSWER_BYTES))
    }

    fn cost(&self, answer: &ProviderResponse) -> Option<ProviderCost> {
        let body = answer.json().ok()?;
        ProviderCost::at_pointer(&body, "/metrics/predict_time", CostUnit::ComputeSeconds)
    }

    fn confirms_cancellation(&self, _: &JobHandle, answer: &ProviderResponse) -> bool {
        let status = answer
            .json()
            .ok()
            .and_then(|body| text_at(&body, "/status"));
        // The answer is the prediction, which may still be running.
        answer.status.is_success() && matches!(status.as_deref(), Some("canceled" | "aborted"))
    }

    fn trial(&self) -> Option<Call> {
        Some(list::page())
    }

    fn find(&self, order: &Order, _: SystemTime) -> Option<Call> {
        list::first(order, self.prediction_input(order).ok()?)
    }

    fn read_lookup(
        &self,
        order: &Order,
        since: SystemTime,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<LookupPage, ProviderError> {
        let body = parse_body(answer)?;
        list::read(order, since, &body, self.prediction_input(order)?)
    }
}

impl ReplicateAdapter {
    fn inputs(&self, model: &str) -> ReplicateInputs {
        let known_model = self.catalogue.find(model);
        let inputs = known_model.and_then(|known| ReplicateInputs::read(&known.inputs).ok());
        inputs.unwrap_or_default()
    }

    /// The inputs that are not files, and the files with their fields.
    fn prediction_input<'o>(&self, order: &'o Order) -> Result<PredictionInput<'o>, ProviderError> {
        match &order.work {
            WorkSpec::Video(video) => {
                let limits = self.catalogue.video(&order.model, inputs::unknown());
                Ok(self.inputs(&order.model).fill(&limits, video))
            }
            WorkSpec::Stems(stems) => {
                let mut input = Map::new();
                input.insert("model_name".into(), json!("htdemucs_6s"));
                input.insert("output_format".into(), json!("flac"));
                if let Some(name) = stems.single_group().and_then(name_of) {
                    input.insert("stem".into(), json!(name));
                }
                Ok((
                    input,
                    vec![(InputSlot::Member("audio".into()), &stems.source.file)],
                ))
            }
            WorkSpec::Song(song) if stable_audio::is_stable_audio(&order.model) => {
                Ok((stable_audio::input(song, "duration"), Vec::new()))
            }
            _ => Err(ProviderError::new(
                ErrorClass::Rejected,
                "this provider supports this model only for videos, stems and music",
            )),
        }
    }

    /// The upload of the next large file, or the submission when all are uploaded.
    fn next(&self, order: &Order, uploaded: &[String]) -> Result<Call, ProviderError> {
        let (mut input, files) = self.prediction_input(order)?;
        let mut urls = uploaded.iter();
        for (slot, file) in files {
            let url = if is_large(file) {
                let Some(url) = urls.next() else {
                    let part = FormPart::file("content", file);
                    return Ok(Call::new("upload", Method::POST, "/v1/files")
                        .with_body(RequestBody::Multipart(vec![part]))
                        .with_carried_data(json!(uploaded)));
                };
                url.clone()
            } else {
                file.url_or_data()
            };
            slot.insert(&mut input, &url);
        }
        let mut body = json!({"input": input});
        let path = match version(&order.model) {
            Some(version) => {
                body["version"] = json!(version);
                "/v1/predictions".to_owned()
            }
            None if order.model.starts_with("deployments/") => {
                format!("/v1/{}/predictions", encode_path(&order.model))
            }
            None => format!("/v1/models/{}/predictions", encode_path(&order.model)),
        };
        // No `Prefer: wait`: if a delayed answer were lost, a paid prediction would remain without
        // an id.
        Ok(Call::post("submit", path, body).mark_submission())
    }
}

fn handle(order: &Order, id: &str) -> Value {
    let mut handle = json!({"id": id});
    match &order.work {
        WorkSpec::Stems(stems) => {
            handle["stems"] = json!(stems.single_group().and_then(name_of).unwrap_or("all"));
        }
        WorkSpec::Song(song) => handle["song"] = json!(ClipFacts::from_song(song, &order.model)),
        _ => {}
    }
    handle
}

fn is_large(file: &MediaFile) -> bool {
    file.url.is_none() && file.bytes.len() > MAX_INLINE_BYTES
}

/// The version in `owner/name:version`, or a plain version.
fn version(model: &str) -> Option<&str> {
    let is_bare_version = model.len() == 64 && model.bytes().all(|byte| byte.is_ascii_hexdigit());
    let after_colon = model.split_once(':').map(|(_, version)| version);
    after_colon.or(is_bare_version.then_some(model))
}

fn name_of(group: StemGroup) -> Option<&'static str> {
    let stem = STEMS.iter().find(|(stem_group, _)| *stem_group == group);
    stem.map(|(_, name)| *name)
}

/// Problem JSON: `{title, status, detail}`.
fn describe(body: &Value) -> ErrorDescription {
    let description = ErrorDescription::at(body, "/title", "/detail");
    if description.message.is_none() {
        return ErrorDescription::at(body, "/code", "/title");
    }
    description
}

fn parse_body(answer: &ProviderResponse) -> ParsedBody {
    let parsed = answer.success(describe);
    parsed.map_err(|error| reclassify(error, answer))
}

fn reclassify(mut error: ProviderError, answer: &ProviderResponse) -> ProviderError {
    if error.class == ErrorClass::RateLimited && error.retry_after.is_none() {
        error.retry_after = resets_in(&error.message);
    }
    let is_rejected = answer.status.is_client_error() && error.class == ErrorClass::Rejected;
    if is_rejected && is_refusal(&error.message) {
        return error.with_class(ErrorClass::Refused);
    }
    error
}

/// "… resets in ~30s".
fn resets_in(message: &str) -> Option<Duration> {
    let (_, duration) = message.split_once("resets in ~")?;
    let digits: String = duration.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(Duration::from_secs)
}

fn is_refusal(message: &str) -> bool {
    let description = ErrorDescription {
        code: None,
        message: Some(message.to_owned()),
    };
    FAILURES.class(&description) == Some(ErrorClass::Refused)
}

/// A prediction's error is a message. With official models it ends with a code in brackets; with
/// others it is a Python exception.
const FAILURES: FailureTable = FailureTable {
    codes: &[],
    words: &[
        ("(e005)", ErrorClass::Refused),
        ("flagged as sensitive", ErrorClass::Refused),
        ("nsfw", ErrorClass::Refused),
        ("content policy", ErrorClass::Refused),
        ("content moderation", ErrorClass::Refused),
        ("(e006)", ErrorClass::Unfit),
        ("input validation", ErrorClass::Unfit),
        ("validation error", ErrorClass::Unfit),
        ("cannot identify image file", ErrorClass::Unfit),
    ],
};

#[cfg(test)]
mod tests;
