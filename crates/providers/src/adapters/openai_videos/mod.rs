//! `openai-videos`: the `OpenAI` Videos API, which self-hosted servers (vLLM-omni, `SGLang`) and
//! gateways also offer, Mediagate among them.
//!
//! Sources: the `openai` SDKs 3.54 (Python) and 7.57 (JS) (their requests); vLLM-omni 0.30 and
//! `SGLang` 0.5.23 server sources.
//!
//! ```text
//! POST   /videos               multipart or JSON → {id, status}
//! GET    /videos/{id}          {status: queued │ in_progress │ completed │ failed, progress, error};
//!                              gateways use other words for these ([`meaning`])
//! GET    /videos/{id}/content  the bytes
//! DELETE /videos/{id}          the only way to cancel a job, except at a Mediagate ([`mediagate`])
//! GET    /videos               {data: [the same], has_more}; after, limit, order
//! ```
//!
//! A lost submission is searched for in the list, by its content: a listed video has its prompt,
//! model, size and length, but nothing unique to its order. An order with anything else (a picture,
//! a seed, a field that the operator adds) is not searched for. No document says how soon the list
//! has a new video.
//!
//! Unknown: whether `OpenAI` stops a running job on `DELETE` (vLLM-omni does, `SGLang` does not),
//! so a deletion does not prove a cancellation.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::{Map, Value, json};

use crate::adapters::{Protocol, mediagate};
use crate::catalogue::ProtocolCatalogue;
use crate::error::{ErrorBasis, ErrorClass, ErrorDescription, ProviderError};
use crate::frame_size;
use crate::limits::{Durations, ModelLimits, SourcePictureLimits, VideoLimits};
use crate::order::{MediaKind, Order, PictureRole, VideoSpec, WorkSpec};
use crate::port::jobs::errors::FailureTable;
use crate::port::jobs::list::{JobList, agrees};
use crate::port::jobs::status::JobStatus;
use crate::port::{
    Adapter, AdapterStep, Call, CallContext, CallTarget, FormPart, JobHandle, JobOutput,
    JobSettlement, LookupPage, MAX_RESULT_BYTES, OutputKind, OutputSource, PollPace, RefusalRule,
    RequestBody, merge,
};
use crate::response::{ProviderResponse, percent_at, required_text, text_at};
use crate::settings::{ProviderSettings, SettingsError};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "openai-videos",
    base_url: Some("https://api.openai.com/v1"),
    options: &["encoding", "seconds", "idempotency"],
    anonymous: true,
    build,
};

fn build(settings: &ProviderSettings) -> Result<Arc<dyn Adapter>, SettingsError> {
    Ok(Arc::new(OpenAiVideosAdapter {
        catalogue: settings.protocol_catalogue("openai-videos"),
        multipart: settings.word("encoding", &["multipart", "json"])? == "multipart",
        whole_seconds: settings.word("seconds", &["text", "integer"])? == "integer",
        deduplicates: settings.flag("idempotency")?,
    }))
}

#[derive(Debug)]
struct OpenAiVideosAdapter {
    catalogue: ProtocolCatalogue,
    /// Multipart is what the SDKs send and the only format that vLLM-omni accepts.
    multipart: bool,
    /// `SGLang` requires `seconds` as a number in JSON.
    whole_seconds: bool,
    /// Whether the server supports `Idempotency-Key`: `OpenAI` does not.
    deduplicates: bool,
}

impl Adapter for OpenAiVideosAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        let unknown = VideoLimits {
            sizes: vec![(1280, 720), (720, 1280)],
            durations: Durations::range(1, 20),
            default_seconds: 4,
            pictures: SourcePictureLimits::frames(1),
            negative_prompt: true,
            seed: true,
            max_prompt: 32_000,
            ..VideoLimits::default()
        };
        (kind == MediaKind::Video).then(|| ModelLimits::Video(self.catalogue.video(model, unknown)))
    }

    fn pace(&self) -> PollPace {
        PollPace::new(Duration::from_secs(1), Duration::from_secs(15))
    }

    fn deduplicates(&self) -> bool {
        self.deduplicates
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![RefusalRule::http_statuses(), mediagate::refusals()]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let video = order.video()?;
        let mut fields = self.fields(order, video);
        let picture = video.picture(PictureRole::FirstFrame);
        let body = if self.multipart {
            let mut parts: Vec<FormPart> = fields
                .iter()
                .map(|(name, value)| {
                    FormPart::text(
                        name,
                        value
                            .as_str()
                            .map_or_else(|| value.to_string(), str::to_owned),
                    )
                })
                .collect();
            parts.extend(picture.map(|file| FormPart::file("input_reference", file)));
            RequestBody::Multipart(parts)
        } else {
            if let Some(file) = picture {
                fields.insert(
                    "input_reference".into(),
                    json!({"image_url": file.url_or_data()}),
                );
            }
            RequestBody::Json(Value::Object(fields))
        };
        let call = Call::new("submit", Method::POST, "/videos")
            .with_body(body)
            .mark_submission();
        Ok(if self.deduplicates {
            call.with_header("idempotency-key", &order.idempotency_key)
        } else {
            call
        })
    }

    fn read_submission(
        &self,
        _: &Order,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let body = answer.success(describe).map_err(class_by_code)?;
        Ok(AdapterStep::Submitted {
            handle: JobHandle(json!({"id": required_text(&body, "/id")?})),
            poll_after: poll_after(answer),
        })
    }

    fn poll(&self, handle: &JobHandle) -> Result<Call, ProviderError> {
        Ok(Call::get("poll", format!("/videos/{}", handle.text("id"))))
    }

    fn read_poll(
        &self,
        handle: &JobHandle,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        // vLLM-omni reports a failed job with a status other than 2xx, so the body is read first.
        let body = answer.json().unwrap_or(Value::Null);
        let word = text_at(&body, "/status");
        if let Some(JobStatus::Ended(class)) = word.as_deref().and_then(meaning) {
            let message = "the provider stopped processing the job";
            let error = match class {
                ErrorClass::Failed => failure(&body),
                class => ProviderError::new(class, message),
            };
            // An error page of a proxy may have a `status` of "error" too. Only a body with the
            // job's id is its record, and ends it at once.
            let is_record = text_at(&body, "/id").as_deref() == Some(handle.text("id"));
            return Err(if is_record {
                error.with_basis(ErrorBasis::Record)
            } else {
                error
            });
        }
        if !answer.status.is_success() {
            let error = answer.failure(describe);
            let class = if answer.status == 404 {
                ErrorClass::Missing
            } else {
                error.class
            };
            return Err(error.with_class(class));
        }
        let Some(word) = word else {
            let message = "the provider's response has no status";
            return Err(ProviderError::unreadable(message));
        };
        match meaning(&word) {
            Some(status) if status.is_open() => Ok(AdapterStep::Running {
                progress: percent_at(&body, "/progress", 100.0),
                poll_after: poll_after(answer),
                unknown_status: None,
            }),
            None if address(&body).is_some() => result_step(handle, &word, &body),
            None if body["error"].is_object() => Err(failure(&body)),
            None => Ok(AdapterStep::unknown(word)),
            Some(_) => result_step(handle, &word, &body),
        }
    }

    fn cancel(&self, handle: &JobHandle) -> Option<Call> {
        // A deletion at a Mediagate would also remove the record that says what the job cost.
        match mediagate::task_of_video(handle.text("id")) {
            Some(task) => Some(mediagate::cancel(&task, CallTarget::Path)),
            None => Some(deletion(handle)),
        }
    }

    fn cancel_otherwise(&self, handle: &JobHandle, answer: &ProviderResponse) -> Option<Call> {
        let task = mediagate::task_of_video(handle.text("id"));
        let is_other_server = task.is_some() && mediagate::has_no_tasks(answer);
        is_other_server.then(|| deletion(handle))
    }

    fn confirms_cancellation(&self, handle: &JobHandle, answer: &ProviderResponse) -> bool {
        // vLLM-omni stops a running job and SGLang does not, so a deletion proves nothing.
        let task = mediagate::task_of_video(handle.text("id"));
        let settlement = task.map(|task| mediagate::settlement(&task, answer));
        matches!(settlement, Some(Ok(JobSettlement::Unpaid)))
    }

    fn settlement(&self, handle: &JobHandle) -> Option<Call> {
        let task = mediagate::task_of_video(handle.text("id"));
        task.map(|task| mediagate::record(&task, CallTarget::Path))
    }

    fn read_settlement(
        &self,
        handle: &JobHandle,
        answer: &ProviderResponse,
    ) -> Result<JobSettlement, ProviderError> {
        let task = mediagate::task_of_video(handle.text("id")).unwrap_or_default();
        mediagate::settlement(&task, answer)
    }

    fn trial(&self) -> Option<Call> {
        Some(page(None))
    }

    fn find(&self, order: &Order, _: SystemTime) -> Option<Call> {
        self.listed_fields(order).map(|_| page(None))
    }

    fn read_lookup(
        &self,
        order: &Order,
        since: SystemTime,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<LookupPage, ProviderError> {
        let Some(fields) = self.listed_fields(order) else {
            return Err(ProviderError::unreadable("no such call was sent"));
        };
        let body = answer.success(describe).map_err(class_by_code)?;
        let videos = LIST.items(&body)?;
        let jobs = videos.iter().filter_map(|video| {
            // A remix of a video has the same prompt.
            let is_own = text_at(video, "/remixed_from_video_id").is_none();
            let is_alike = is_own && agrees(&fields, video);
            LIST.likely(order, video, since).filter(|_| is_alike)
        });
        let has_more = body["has_more"] == true && LIST.has_older_page(videos, since);
        let last = videos.last().filter(|_| has_more);
        let next = last.and_then(|last| text_at(last, "/id"));
        Ok(LookupPage::jobs(jobs).with_next_page(next.map(|id| page(Some(&id)))))
    }
}

/// The fields of a request that the list has too.
const LISTED: [&str; 4] = ["model", "prompt", "size", "seconds"];

impl OpenAiVideosAdapter {
    /// The fields of the request, if the list has all that was sent.
    fn listed_fields(&self, order: &Order) -> Option<Map<String, Value>> {
        let WorkSpec::Video(video) = &order.work else {
            return None;
        };
        let mut fields = self.fields(order, video);
        merge(&mut fields, &order.extra);
        let is_listed = |name: &String| LISTED.contains(&name.as_str());
        (!order.has_files() && fields.keys().all(is_listed)).then_some(fields)
    }

    /// The fields of the request, except the picture.
    fn fields(&self, order: &Order, video: &VideoSpec) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("model".into(), json!(order.model));
        fields.insert("prompt".into(), json!(video.prompt));
        fields.insert("size".into(), json!(frame_size::size_text(video.size, 'x')));
        fields.insert(
            "seconds".into(),
            if self.whole_seconds {
                json!(video.seconds)
            } else {
                json!(video.seconds.to_string())
            },
        );
        if let Some(seed) = video.seed() {
            fields.insert("seed".into(), json!(seed));
        }
        if let Some(negative) = &video.options.negative_prompt {
            fields.insert("negative_prompt".into(), json!(negative));
        }
        fields
    }
}

fn deletion(handle: &JobHandle) -> Call {
    let path = format!("/videos/{}", handle.text("id"));
    Call::new("cancel", Method::DELETE, path)
}

/// The meaning of a status word. `OpenAI` has four words. Gateways with its protocol have more, in
/// lower and upper case.
fn meaning(word: &str) -> Option<JobStatus> {
    Some(match word.to_lowercase().as_str() {
        "queued" | "in_progress" | "submitted" | "pending" | "processing" | "running"
        | "generating" | "not_start" | "not_started" => JobStatus::Running,
        "completed" | "complete" | "succeeded" | "succeed" | "success" | "done" | "finished" => {
            JobStatus::Done
        }
        "failed" | "fail" | "failure" | "error" => JobStatus::FAILED,
        "cancelled" | "canceled" | "deleted" | "expired" => JobStatus::LOST,
        _ => return None,
    })
}

/// The video of a finished job. If the status is a gateway's own word and the answer has a URL, the
/// video is there. Otherwise it is at the job's `content` endpoint.
fn result_step(handle: &JobHandle, word: &str, body: &Value) -> Result<AdapterStep, ProviderError> {
    if word != "completed"
        && let Some(url) = address(body)
    {
        return AdapterStep::done(vec![JobOutput::video_at(url)]);
    }
    let path = format!("/videos/{}/content", handle.text("id"));
    let mut content = Call::get("content", path);
    content.limit_bytes = MAX_RESULT_BYTES;
    AdapterStep::done(vec![JobOutput {
        kind: OutputKind::Video,
        source: OutputSource::Call(Box::new(content)),
    }])
}

/// The URL of a result, which some servers and gateways return with the status.
fn address(body: &Value) -> Option<String> {
    let pointers = [
        "/url",
        "/video_url",
        "/output_url",
        "/metadata/url",
        "/video/url",
    ];
    let mut urls = pointers.iter().filter_map(|pointer| text_at(body, pointer));
    urls.find(|url| url.starts_with("https://") || url.starts_with("http://"))
}

/// The codes of errors that concern the order: `OpenAI`'s, those of servers and gateways with its
/// protocol, and Mediagate's own.
const FAILURES: FailureTable = FailureTable {
    codes: &[
        ("moderation_blocked", ErrorClass::Refused),
        ("content_policy", ErrorClass::Refused),
        ("sentinel_block", ErrorClass::Refused),
        ("invalid_", ErrorClass::Unfit),
        ("unsupported_", ErrorClass::Unfit),
        ("missing_", ErrorClass::Unfit),
        ("provider_rejected", ErrorClass::Unfit),
        ("image_", ErrorClass::Unfit),
        ("cancelled", ErrorClass::Lost),
        ("submission_unconfirmed", ErrorClass::Unconfirmed),
    ],
    words: &[
        ("moderation", ErrorClass::Refused),
        ("content policy", ErrorClass::Refused),
    ],
};

/// The error of a job that failed; `error` may be a plain string.
fn failure(body: &Value) -> ProviderError {
    let mut description = ErrorDescription::at(body, "/error/code", "/error/message");
    let message_pointers = ["/error", "/fail_reason", "/message"];
    description.message = description.message.or_else(|| {
        message_pointers
            .iter()
            .find_map(|pointer| text_at(body, pointer))
    });
    // A job that continues elsewhere has not ended.
    if description.code.as_deref() == Some("still_running") {
        return FAILURES.error(description).with_class(ErrorClass::Unclear);
    }
    FAILURES.error(description)
}

const LIST: JobList = JobList {
    path: "/videos",
    query: &[("limit", "100"), ("order", "desc")],
    items: "/data",
    id: "/id",
    created_at: "/created_at",
};

/// A page of the list, the newest first: the first page, or the one after a video.
fn page(after: Option<&str>) -> Call {
    match after {
        Some(id) => LIST.page().with_query("after", id),
        None => LIST.page(),
    }
}

/// `{"error": {"code", "message"}}`, or `FastAPI`'s `{"detail"}`.
fn describe(body: &Value) -> ErrorDescription {
    let description = ErrorDescription::at(body, "/error/code", "/error/message");
    if description == ErrorDescription::default() {
        return ErrorDescription::at(body, "/code", "/detail");
    }
    description
}

fn class_by_code(error: ProviderError) -> ProviderError {
    let class = match error.code.as_deref() {
        Some("insufficient_quota" | "budget_exceeded") => ErrorClass::Account,
        Some("moderation_blocked" | "content_policy" | "content_policy_violation") => {
            ErrorClass::Refused
        }
        // From another Mediagate: the job continues there, or that gateway does not know either.
        Some("still_running") => ErrorClass::Unclear,
        Some("submission_unconfirmed") => ErrorClass::Unconfirmed,
        _ => error.class,
    };
    error.with_class(class)
}

fn poll_after(answer: &ProviderResponse) -> Option<Duration> {
    answer
        .header("openai-poll-after-ms")?
        .parse()
        .ok()
        .map(Duration::from_millis)
}

#[cfg(test)]
mod tests;
