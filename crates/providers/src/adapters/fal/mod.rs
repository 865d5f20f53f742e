//! `fal`: any model on fal.ai that makes a video, Demucs for stems, and Stable
//! Audio for music, through fal's queue.
//!
//! Sources: `fal_client` 1.0.3 (Python) and `@fal-ai/client` 1.10.1 (JS) (their requests);
//! fal.ai/docs; the models' pages for the names of inputs ([`inputs`]).
//!
//! ```text
//! POST {upload}/storage/upload/initiate  {content_type, file_name} → {upload_url, file_url}
//! PUT  {upload_url}                      the bytes, without the key
//! POST /{owner}/{alias}/…                the input → {request_id, status_url, response_url, cancel_url}
//! GET  {status_url}                      {status: IN_QUEUE │ IN_PROGRESS │ COMPLETED, error, error_type}
//! GET  {response_url}                    the model's output, or an error status if it failed
//! PUT  {cancel_url}                      202 {status: CANCELLATION_REQUESTED}
//! ```
//!
//! The URLs in the answer are used unchanged: they omit the path after the alias. Failed jobs end
//! as `COMPLETED` too. A position in the queue is not progress. Files over 1 MB are uploaded first.
//!
//! Unknown: whether a job is charged after its cancellation was requested (the request alone proves
//! nothing); how long jobs are kept; the message for an empty account (users report the word
//! `balance`).

mod answers;
mod endpoint;
mod inputs;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};
use url::Url;

use crate::adapters::input_slot::InputSlot;
use crate::adapters::{Protocol, stable_audio};
use crate::cost::{CostUnit, ProviderCost};
use crate::error::{ErrorClass, ProviderError};
use crate::limits::{ModelLimits, MusicLimits, StemLimits};
use crate::order::{MediaFile, MediaKind, Order, StemGroup, StemTarget, WorkSpec};
use crate::port::jobs::upload;
use crate::port::model_names::encode_path;
use crate::port::{
    Adapter, AdapterStep, Authorization, Call, CallContext, CallTarget, ClipFacts, JobHandle,
    ModelNames, PollPace, RefusalRule,
};
use crate::response::{ProviderResponse, required_text, text_at};
use crate::secret::Secret;
use crate::settings::{ProviderSettings, SettingsError};

use answers::{as_upload_error, describe, reclassify, result};
use endpoint::LengthFormat;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "fal",
    base_url: Some("https://queue.fal.run"),
    options: &["upload_url", "duration"],
    anonymous: false,
    build,
};

fn build(settings: &ProviderSettings) -> Result<Arc<dyn Adapter>, SettingsError> {
    // An operator with another base URL does not want the key and the files to be sent elsewhere.
    let configured_url = settings.base_url.as_ref().map(Url::as_str);
    let upload_url = settings
        .text("upload_url")?
        .or(configured_url)
        .unwrap_or("https://rest.fal.ai")
        .trim_end_matches('/')
        .to_owned();
    let url_error = || SettingsError::at("upload_url", "is not a URL");
    let upload_origin = Url::parse(&upload_url)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .map(|url| url.origin().ascii_serialization())
        .ok_or_else(url_error)?;
    let words = ["by model", "number", "text", "seconds"];
    let length = match settings.word("duration", &words)? {
        "number" => Some(LengthFormat::Number),
        "text" => Some(LengthFormat::Text),
        "seconds" => Some(LengthFormat::Seconds),
        _ => None,
    };
    Ok(Arc::new(FalAdapter {
        upload_url,
        upload_origin,
        length,
    }))
}

/// Maximum size of a file within a request, in bytes.
const MAX_INLINE_BYTES: usize = 1_000_000;

/// The stems of Demucs, with its own names, in the order of a full split.
const STEMS: [(StemGroup, &str); 5] = [
    (StemGroup::Vocals, "vocals"),
    (StemGroup::Drums, "drums"),
    (StemGroup::Bass, "bass"),
    (StemGroup::Guitar, "guitar"),
    (StemGroup::Keyboard, "piano"),
];

#[derive(Debug)]
struct FalAdapter {
    upload_url: String,
    upload_origin: String,
    /// The format of lengths for unknown models.
    length: Option<LengthFormat>,
}

impl Adapter for FalAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        match (kind, is_demucs(model)) {
            (MediaKind::Music, false) if stable_audio::is_stable_audio(model) => {
                Some(stable_audio::limits(model))
            }
            (MediaKind::Video, false) if !stable_audio::is_stable_audio(model) => {
                Some(ModelLimits::Video(inputs::endpoint_family(model).limits()))
            }
            (MediaKind::Music, true) => Some(ModelLimits::Music(MusicLimits::stems(StemLimits {
                groups: STEMS.iter().map(|(group, _)| *group).collect(),
                // No file contains the groups that were not requested, so the rest beside one group
                // must be summed from a full split.
                two: false,
                complements: Vec::new(),
                full: true,
                other: true,
            }))),
            _ => None,
        }
    }

    fn model_names(&self) -> ModelNames {
        ModelNames {
            colons: false,
            // An application's jobs are below this path segment.
            reserved: &["requests"],
            ..ModelNames::ANY
        }
    }

    fn fault_of_model(&self, _: MediaKind, model: &str) -> Option<String> {
        let path = model.trim_matches('/');
        if !path.contains('/') {
            return Some(format!(
                "{model:?} is not a model; use \"fal-ai/{model}\", or the name of another owner"
            ));
        }
        // Kling 4.0 has another owner than the versions before it, and a field for its resolution.
        let rest = path.strip_prefix("fal-ai/kling-video/v4/")?;
        let task = rest.rsplit('/').next().unwrap_or(rest);
        Some(format!("fal has no {model}; use \"kling/v4/{task}\""))
    }

    fn can_express_size(&self, model: &str, size: (u32, u32)) -> bool {
        is_demucs(model) || inputs::endpoint_family(model).can_express_size(size)
    }

    fn pace(&self) -> PollPace {
        PollPace::new(Duration::from_secs(1), Duration::from_secs(15))
    }

    fn authorize(
        &self,
        secret: &Secret,
        _: std::time::SystemTime,
    ) -> Result<Authorization, ProviderError> {
        let value = format!("Key {}", secret.expose());
        Ok(Authorization::Headers(vec![("authorization", value)]))
    }

    fn hosts(&self) -> Vec<String> {
        // The job URLs in fal's answers have the first host, even if `base_url` has another one.
        vec!["https://queue.fal.run".into(), self.upload_origin.clone()]
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
        match &*context.stage {
            "initiate" => {
                let body = answer.success(describe).map_err(as_upload_error)?;
                let upload_url = required_text(&body, "/upload_url").map_err(as_upload_error)?;
                let url = required_text(&body, "/file_url").map_err(as_upload_error)?;
                let mut uploaded = upload::uploaded_names(&context.carried_data);
                let Some(file) = self.large(order, uploaded.len())? else {
                    return self.next(order, &uploaded).map(AdapterStep::next);
                };
                uploaded.push(url);
                let upload_call =
                    upload::put("put", upload_url, &file).with_carried_data(json!(uploaded));
                Ok(AdapterStep::next(upload_call))
            }
            "put" => {
                upload::check_stored(answer)?;
                let uploaded = upload::uploaded_names(&context.carried_data);
                self.next(order, &uploaded).map(AdapterStep::next)
            }
            _ => {
                let body = answer.success(describe).map_err(reclassify)?;
                let text = |pointer| required_text(&body, pointer);
                let addresses = JobAddresses {
                    status: text("/status_url")?,
                    response: text("/response_url")?,
                    cancel: text_at(&body, "/cancel_url"),
                };
                Ok(AdapterStep::Submitted {
                    handle: handle_of(order, &text("/request_id")?, &addresses),
                    poll_after: None,
                })
            }
        }
    }

    fn named_job(
        &self,
        order: &Order,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Option<JobHandle> {
        let body = answer.json().ok()?;
        let id = text_at(&body, "/request_id")?;
        // If the answer has no URLs, they are built as in fal's JS client.
        let model: Vec<&str> = order.model.trim_matches('/').split('/').take(2).collect();
        let job_path = format!(
            "/{}/requests/{}",
            encode_path(&model.join("/")),
            encode_path(&id)
        );
        let text_or = |pointer, default: String| text_at(&body, pointer).unwrap_or(default);
        let addresses = JobAddresses {
            status: text_or("/status_url", format!("{job_path}/status")),
            cancel: Some(text_or("/cancel_url", format!("{job_path}/cancel"))),
            response: text_or("/response_url", job_path),
        };
        Some(handle_of(order, &id, &addresses))
    }

    fn poll(&self, handle: &JobHandle) -> Result<Call, ProviderError> {
        Ok(job_call("poll", Method::GET, handle.text("status")))
    }

    fn read_poll(
        &self,
        handle: &JobHandle,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        if answer.status == 404 {
            return Err(answer.failure(describe).with_class(ErrorClass::Missing));
        }
        if context.stage == "result" {
            return result(handle, &context.carried_data, answer);
        }
        let body = answer.success(describe).map_err(reclassify)?;
        match required_text(&body, "/status")?.as_str() {
            "IN_QUEUE" | "IN_PROGRESS" => Ok(AdapterStep::running(None)),
            // The response describes a failure in more detail than the status.
            "COMPLETED" => Ok(AdapterStep::next(
                job_call("result", Method::GET, handle.text("response")).with_carried_data(json!({
                    "error": text_at(&body, "/error"),
                    "error_type": text_at(&body, "/error_type"),
                })),
            )),
            word => Ok(AdapterStep::unknown(word)),
        }
    }

    /// The cost in the unit of the model's price. Only the model's page says what the unit is.
    fn cost(&self, answer: &ProviderResponse) -> Option<ProviderCost> {
        let units = answer.header("x-fal-billable-units")?;
        ProviderCost::from_value(&json!(units), CostUnit::Units, 1.0)
    }

    fn cancel(&self, handle: &JobHandle) -> Option<Call> {
        let url = handle.text("cancel");
        (!url.is_empty()).then(|| job_call("cancel", Method::PUT, url))
    }

    fn confirms_cancellation(&self, _: &JobHandle, _: &ProviderResponse) -> bool {
        // "Cancellation requested": a running job may still complete.
        false
    }
}

impl FalAdapter {
    /// The upload of the next large file, or the submission when all are uploaded.
    fn next(&self, order: &Order, uploaded: &[String]) -> Result<Call, ProviderError> {
        let (path, mut input, files) = self.input(order)?;
        let mut urls = uploaded.iter();
        for (slot, file) in files {
            let address = if is_large(&file) {
                let Some(url) = urls.next() else {
                    let body = json!({"content_type": file.mime, "file_name": file.name});
                    let url = format!("{}/storage/upload/initiate", self.upload_url);
                    return Ok(Call::post("initiate", "", body)
                        .with_target(CallTarget::Address(url))
                        .with_carried_data(json!(uploaded)));
                };
                url.clone()
            } else {
                file.url_or_data()
            };
            slot.insert(&mut input, &address);
        }
        Ok(Call::post(
            "submit",
            format!("/{}", encode_path(&path)),
            Value::Object(input),
        )
        .mark_submission())
    }

    /// The large file of this number, counting from 0.
    fn large(&self, order: &Order, number: usize) -> Result<Option<MediaFile>, ProviderError> {
        let (_, _, files) = self.input(order)?;
        let mut large = files.into_iter().map(|(_, file)| file).filter(is_large);
        Ok(large.nth(number))
    }

    /// The endpoint, its input, and the files to insert.
    fn input(&self, order: &Order) -> Result<EndpointInput, ProviderError> {
        let model = order.model.trim_matches('/');
        match &order.work {
            WorkSpec::Video(video) => {
                let inputs = inputs::endpoint_family(model);
                let limits = inputs.limits().pictures;
                let references = video.references().count();
                let frames = video.pictures.len() - references;
                // Refused here, because fal checks inputs only when a job starts, and may charge
                // for it.
                if references > limits.most_references() || frames > limits.max {
                    let message = format!("{model} supports {} image(s)", limits.max);
                    return Err(ProviderError::new(ErrorClass::Rejected, message));
                }
                Ok(inputs.fill(video, self.length))
            }
            WorkSpec::Stems(stems) => {
                let mut input = Map::new();
                input.insert("model".into(), json!("htdemucs_6s"));
                let name = |target: &StemTarget| {
                    let mut stems_table = STEMS.iter();
                    let stem = stems_table.find(|(group, _)| *target == StemTarget::Only(*group));
                    stem.map(|(_, name)| *name)
                };
                let names: Option<Vec<&str>> = stems.targets.iter().map(name).collect();
                if let Some(names) = names.filter(|_| !stems.full) {
                    input.insert("stems".into(), json!(names));
                }
                let files = vec![(
                    InputSlot::Member("audio_url".into()),
                    stems.source.file.clone(),
                )];
                Ok((model.to_owned(), input, files))
            }
            WorkSpec::Song(song) if stable_audio::is_stable_audio(model) => {
                let field = if stable_audio::is_third_version(model) {
                    "duration"
                } else {
                    "seconds_total"
                };
                Ok((
                    model.to_owned(),
                    stable_audio::input(song, field),
                    Vec::new(),
                ))
            }
            _ => Err(ProviderError::new(
                ErrorClass::Rejected,
                "this provider supports this model only for videos, stems and music",
            )),
        }
    }
}

type EndpointInput = (String, Map<String, Value>, Vec<(InputSlot, MediaFile)>);

fn is_demucs(model: &str) -> bool {
    model.contains("demucs")
}

fn is_large(file: &MediaFile) -> bool {
    file.url.is_none() && file.bytes.len() > MAX_INLINE_BYTES
}

/// The URLs of a job; complete, or paths below the provider's base URL.
struct JobAddresses {
    status: String,
    response: String,
    cancel: Option<String>,
}

fn handle_of(order: &Order, id: &str, addresses: &JobAddresses) -> JobHandle {
    let mut handle = json!({
        "id": id,
        "status": addresses.status,
        "response": addresses.response,
        "cancel": addresses.cancel,
    });
    match &order.work {
        WorkSpec::Stems(_) => handle["stems"] = json!(true),
        WorkSpec::Song(song) => handle["song"] = json!(ClipFacts::from_song(song, &order.model)),
        _ => {}
    }
    JobHandle(handle)
}

fn job_call(stage: &'static str, method: Method, url: &str) -> Call {
    let target = if url.starts_with('/') {
        CallTarget::Path(url.to_owned())
    } else {
        CallTarget::Address(url.to_owned())
    };
    Call::new(stage, method, "").with_target(target)
}

#[cfg(test)]
mod tests;
