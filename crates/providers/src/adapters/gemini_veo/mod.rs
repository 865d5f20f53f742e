//! `gemini-veo`: Google's video models, through three of its interfaces, and songs by Lyria
//! ([`lyria`]).
//!
//! Sources: `google-genai` 2.34.0 (the last version that uses `gemini`) and 3.4.0 (their requests);
//! docs.cloud.google.com; the Interactions guide.
//!
//! ```text
//! gemini        POST /v1beta/models/{model}:predictLongRunning → {name}
//!               GET  /v1beta/{name}                            {done, error, response}
//!               GET  /v1beta/files/{id}:download?alt=media     the bytes, with the key
//! vertex        POST …/models/{model}:predictLongRunning       the same, and the poll is
//!               POST …/models/{model}:fetchPredictOperation    {operationName}; the video is in the answer
//! interactions  POST /v1/interactions                          see `interactions`
//! ```
//!
//! An operation's name contains slashes. `done` is missing until it is true. If a filter blocked
//! the video, there is a `raiMediaFilteredCount` and no sample: a refusal.
//!
//! Unknown: whether Google still supports `gemini`, which its SDK has dropped; how to cancel an
//! operation, so cancelling is not supported; how long operations are kept. The message of an
//! operation whose content is refused is only known from reports ([`errors::is_refusal`]).

mod errors;
mod interactions;
mod lyria;
mod results;
mod service_account;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use crate::adapters::Protocol;
use crate::catalogue::ProtocolCatalogue;
use crate::error::{ErrorClass, ProviderError};
use crate::frame_size;
use crate::limits::{Durations, ModelLimits, SourcePictureLimits, VideoLimits};
use crate::order::{MediaFile, MediaKind, Order, VideoSpec, WorkSpec};
use crate::port::model_names::encode_path;
use crate::port::{
    Adapter, AdapterStep, AuthHeader, Authorization, Call, CallContext, JobHandle, ModelNames,
    PollPace, RefusalRule,
};
use crate::response::{ProviderResponse, required_text};
use crate::secret::Secret;
use crate::settings::{ProviderSettings, SettingsError};

use errors::{describe, operation_failed, reclassify};
use results::read_operation;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "gemini-veo",
    base_url: Some("https://generativelanguage.googleapis.com"),
    options: &["api", "project", "location", "audio", "person_generation"],
    anonymous: false,
    build,
};

/// Maximum size of an answer that may contain the video or the song itself, in bytes.
const MAX_MEDIA_BYTES: u64 = 300_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GoogleApi {
    Gemini,
    Vertex,
    Interactions,
}

#[derive(Debug)]
struct GeminiVeoAdapter {
    /// The API in the operator's settings; if `None`, the model decides.
    api: Option<GoogleApi>,
    /// The base URL of Vertex.
    base_url: Option<String>,
    /// The path to Vertex's models.
    models: String,
    /// Whether Vertex generates sound; the Gemini API always does.
    audio: bool,
    person_generation: Option<String>,
    catalogue: ProtocolCatalogue,
}

fn build(settings: &ProviderSettings) -> Result<Arc<dyn Adapter>, SettingsError> {
    let apis = ["by model", "interactions", "gemini", "vertex"];
    let api = match settings.word("api", &apis)? {
        "vertex" => Some(GoogleApi::Vertex),
        "gemini" => Some(GoogleApi::Gemini),
        "interactions" => Some(GoogleApi::Interactions),
        _ => None,
    };
    let project = settings.text("project")?;
    let location = settings.text("location")?;
    if api == Some(GoogleApi::Vertex) && project.is_none() {
        return Err(SettingsError::at("project", "is required for vertex"));
    }
    for (key, value) in [("project", project), ("location", location)] {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        if value.is_some_and(|value| value.is_empty() || !value.bytes().all(is_plain)) {
            return Err(SettingsError::at(key, "is not a valid name"));
        }
    }
    let location = location.unwrap_or("us-central1");
    let host = match location {
        "global" => "aiplatform.googleapis.com".to_owned(),
        region => format!("{region}-aiplatform.googleapis.com"),
    };
    let models = format!(
        "/v1beta1/projects/{}/locations/{location}/publishers/google/models",
        project.unwrap_or_default()
    );
    Ok(Arc::new(GeminiVeoAdapter {
        api,
        base_url: (api == Some(GoogleApi::Vertex)).then(|| format!("https://{host}")),
        models,
        audio: settings.word("audio", &["on", "off"])? == "on",
        catalogue: settings.protocol_catalogue("gemini-veo"),
        person_generation: settings.text("person_generation")?.map(str::to_owned),
    }))
}

impl Adapter for GeminiVeoAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        if lyria::is_lyria_model(model) {
            return (kind == MediaKind::Music).then(lyria::limits);
        }
        let api = self.api_of(model);
        let uses_interactions = api == GoogleApi::Interactions;
        let unknown = VideoLimits {
            sizes: vec![(1280, 720), (720, 1280)],
            durations: Durations::Only(vec![8]),
            default_seconds: 8,
            pictures: SourcePictureLimits::frames(1),
            negative_prompt: !uses_interactions,
            seed: api == GoogleApi::Vertex,
            audio: (api == GoogleApi::Vertex).then_some(self.audio),
            max_prompt: 4_000,
            ..VideoLimits::default()
        };
        let name = model.trim_start_matches("models/");
        (kind == MediaKind::Video).then(|| ModelLimits::Video(self.catalogue.video(name, unknown)))
    }

    fn model_names(&self) -> ModelNames {
        ModelNames::SEGMENT
    }

    fn fault_of_model(&self, _: MediaKind, model: &str) -> Option<String> {
        let name = model.trim_start_matches("models/");
        let uses_interactions = name.contains("omni") || lyria::is_lyria_model(name);
        match self.api {
            Some(GoogleApi::Gemini | GoogleApi::Vertex) if uses_interactions => Some(format!(
                "{name} is served by another API; use api = \"interactions\""
            )),
            Some(GoogleApi::Interactions) if name.contains("veo") => Some(format!(
                "{name} is served by another API; use api = \"vertex\", or \"gemini\""
            )),
            _ => None,
        }
    }

    fn fault_of_secret(&self, secret: &Secret) -> Option<&'static str> {
        let is_account = secret.expose().trim_start().starts_with('{');
        match self.api {
            Some(GoogleApi::Vertex) if !is_account => Some(
                "vertex requires the JSON of a service account; use \"file:service-account.json\"",
            ),
            Some(GoogleApi::Gemini | GoogleApi::Interactions) | None if is_account => {
                Some("a service account is for api = \"vertex\"; use an API key here")
            }
            _ => None,
        }
    }

    fn can_express_size(&self, _: &str, size: (u32, u32)) -> bool {
        matches!(size.0.min(size.1), 360 | 720 | 1080 | 2160) && frame_size::has_usual_ratio(size)
    }

    fn pace(&self) -> PollPace {
        PollPace::new(Duration::from_secs(5), Duration::from_secs(20))
    }

    fn base_url(&self) -> Option<&str> {
        self.base_url.as_deref()
    }

    fn authorize(&self, secret: &Secret, now: SystemTime) -> Result<Authorization, ProviderError> {
        match self.api {
            Some(GoogleApi::Vertex) => service_account::exchange(secret, now),
            _ => Ok(Authorization::header("x-goog-api-key", secret)),
        }
    }

    fn read_exchange(
        &self,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<(Vec<AuthHeader>, Duration), ProviderError> {
        service_account::token(answer)
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![RefusalRule::http_statuses()]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let video = match &order.work {
            WorkSpec::Song(song) if lyria::is_lyria_model(&order.model) => {
                return Ok(lyria::start(order, song));
            }
            _ => order.video()?,
        };
        if self.api_of(&order.model) == GoogleApi::Interactions {
            return Ok(interactions::start(&order.model, video));
        }
        let body =
            json!({"instances": [instance(video)], "parameters": self.parameters(order, video)});
        let path = format!("{}:predictLongRunning", self.path(&order.model));
        Ok(Call::post("submit", path, body).mark_submission())
    }

    fn read_submission(
        &self,
        order: &Order,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let body = answer
            .success(describe)
            .map_err(|error| reclassify(error, answer))?;
        if let WorkSpec::Song(song) = &order.work {
            return lyria::read_submission(order, song, &body);
        }
        Ok(AdapterStep::submitted(match self.api_of(&order.model) {
            GoogleApi::Interactions => json!({"id": required_text(&body, "/id")?}),
            GoogleApi::Gemini => json!({"name": required_text(&body, "/name")?}),
            // The poll is sent to the model's path.
            GoogleApi::Vertex => {
                json!({"name": required_text(&body, "/name")?, "model": order.model})
            }
        }))
    }

    fn poll(&self, handle: &JobHandle) -> Result<Call, ProviderError> {
        Ok(match self.api_of_job(handle) {
            GoogleApi::Interactions => interactions::poll(handle),
            GoogleApi::Gemini => Call::get("poll", format!("/v1beta/{}", handle.text("name"))),
            GoogleApi::Vertex => {
                let path = format!("{}:fetchPredictOperation", self.path(handle.text("model")));
                let body = json!({"operationName": handle.text("name")});
                Call::post("poll", path, body).with_long_timeout(MAX_MEDIA_BYTES)
            }
        })
    }

    fn read_poll(
        &self,
        handle: &JobHandle,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        if answer.status == 404 {
            return Err(answer.failure(describe).with_class(ErrorClass::Missing));
        }
        let body = answer
            .success(describe)
            .map_err(|error| reclassify(error, answer))?;
        if self.api_of_job(handle) == GoogleApi::Interactions {
            return interactions::read_poll(handle, &body);
        }
        if !body.is_object() {
            let message = "the provider's response is not an operation";
            return Err(ProviderError::unreadable(message));
        }
        if body["done"] != true {
            return Ok(AdapterStep::running(None));
        }
        if let Some(error) = body.get("error") {
            return Err(operation_failed(error));
        }
        let response = &body["response"];
        read_operation(response.get("generateVideoResponse").unwrap_or(response))
    }

    fn cancel(&self, handle: &JobHandle) -> Option<Call> {
        (self.api_of_job(handle) == GoogleApi::Interactions).then(|| interactions::cancel(handle))
    }

    fn confirms_cancellation(&self, _: &JobHandle, answer: &ProviderResponse) -> bool {
        // A success only means that the call arrived.
        answer.status.is_success()
            && answer
                .json()
                .is_ok_and(|body| body["status"] == "cancelled")
    }
}

impl GeminiVeoAdapter {
    /// Veo uses the classic API, all newer models use interactions.
    fn api_of(&self, model: &str) -> GoogleApi {
        self.api.unwrap_or(if model.contains("veo") {
            GoogleApi::Gemini
        } else {
            GoogleApi::Interactions
        })
    }

    fn api_of_job(&self, handle: &JobHandle) -> GoogleApi {
        // Without the setting, handles have no model by which `api_of` could decide. But operations
        // have names, and interactions have ids.
        let by_name = if handle.text("name").is_empty() {
            GoogleApi::Interactions
        } else {
            GoogleApi::Gemini
        };
        self.api.unwrap_or(by_name)
    }

    /// The path of a model, without the verb that follows it.
    fn path(&self, model: &str) -> String {
        let model = encode_path(model.trim_start_matches("models/"));
        match self.api {
            Some(GoogleApi::Vertex) => format!("{}/{model}", self.models),
            _ => format!("/v1beta/models/{model}"),
        }
    }

    fn parameters(&self, order: &Order, video: &VideoSpec) -> Value {
        let mut parameters = Map::new();
        let mut put = |name: &str, value: Value| parameters.insert(name.to_owned(), value);
        put("sampleCount", json!(1));
        put("durationSeconds", json!(video.seconds));
        put("aspectRatio", json!(frame_size::ratio(video.size)));
        // Veo 2 has one resolution and no sound.
        let is_veo_2 = order.model.contains("veo-2");
        if !is_veo_2 {
            put("resolution", json!(resolution(video.size)));
        }
        if let Some(negative) = &video.options.negative_prompt {
            put("negativePrompt", json!(negative));
        }
        if let Some(people) = &self.person_generation {
            put("personGeneration", json!(people));
        }
        if self.api == Some(GoogleApi::Vertex) {
            if !is_veo_2 {
                put("generateAudio", json!(video.audio().unwrap_or(self.audio)));
            }
            if let Some(seed) = video.seed() {
                put("seed", json!(seed));
            }
        }
        Value::Object(parameters)
    }
}

/// The word for a size's resolution: `720p`, `1080p`, and `4k`.
fn resolution(size: (u32, u32)) -> String {
    match size.0.min(size.1) {
        2160 => "4k".to_owned(),
        _ => frame_size::tier(size),
    }
}

fn instance(video: &VideoSpec) -> Value {
    let mut instance = json!({"prompt": video.prompt});
    for (field, file) in video.frames(["image", "lastFrame"]) {
        instance[field] = inline(file);
    }
    let references = video.references();
    let references: Vec<Value> = references
        .map(|file| json!({"image": inline(file), "referenceType": "ASSET"}))
        .collect();
    if !references.is_empty() {
        instance["referenceImages"] = Value::Array(references);
    }
    instance
}

fn inline(file: &MediaFile) -> Value {
    json!({"bytesBase64Encoded": file.base64(), "mimeType": file.mime})
}

#[cfg(test)]
mod tests;
