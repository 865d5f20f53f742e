//! `chat-video`: videos by chat completions, as offered by many resellers and by other Mediagate
//! installations.
//!
//! Sources: public documentation of several resellers (medium certainty); Mediagate's own answers.
//!
//! ```text
//! POST /chat/completions   {model, messages, stream} → text, and at the end a link
//! ```
//!
//! The answer to the submission is the result: there is no job, so nothing can be polled or
//! cancelled, and after a broken connection the outcome is unknown. With the option `idempotency`
//! the same submission may be sent again and joins the first.
//!
//! Where the documentation is silent, the safe choice is made. Once there is any sign that the
//! order was accepted, only an error that ends the job settles the outcome ([`reclassify`]). An
//! answer without its final event is incomplete, even with a link in its text. Text without a link
//! is a failure, because resellers report failures as text.

mod reply;
mod reply_text;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::adapters::{Protocol, mediagate};
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::frame_size;
use crate::limits::{Durations, ModelLimits, SourcePictureLimits, VideoLimits};
use crate::order::{MediaKind, Order, VideoSpec};
use crate::port::{
    Adapter, AdapterStep, Call, CallContext, JobOutput, MAX_ANSWER_BYTES, PollPace, RefusalRule,
};
use crate::response::ProviderResponse;
use crate::settings::{ProviderSettings, SettingsError};

use reply::ParsedCompletion;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "chat-video",
    base_url: None,
    options: &["stream", "idempotency", "extension"],
    anonymous: false,
    build,
};

fn build(settings: &ProviderSettings) -> Result<Arc<dyn Adapter>, SettingsError> {
    let stream = match settings.options.get("stream") {
        Some(Value::Bool(stream)) => *stream,
        _ => settings.word("stream", &["true", "false"])? == "true",
    };
    Ok(Arc::new(ChatVideoAdapter {
        stream,
        deduplicates: settings.flag("idempotency")?,
        extension: settings.flag("extension")?,
    }))
}

#[derive(Debug)]
struct ChatVideoAdapter {
    /// Some resellers only support streams, and only streams report progress.
    stream: bool,
    /// Whether the server supports `Idempotency-Key`.
    deduplicates: bool,
    /// Whether the server supports Mediagate's `video` object.
    extension: bool,
}

impl Adapter for ChatVideoAdapter {
    fn reads_conversation(&self) -> bool {
        true
    }

    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        // For models with this in their name, two pictures are the first frame and the last.
        let pictures = if model.ends_with("-fl") || model.contains("-fl-") {
            2
        } else {
            1
        };
        let (sizes, durations) = if self.extension {
            let sizes = vec![
                (1280, 720),
                (720, 1280),
                (720, 720),
                (1920, 1080),
                (1080, 1920),
            ];
            (sizes, Durations::Range { min: 1, max: 60 })
        } else {
            // Chat has no field for either: the model chooses them.
            (vec![(1280, 720)], Durations::Only(vec![8]))
        };
        (kind == MediaKind::Video).then(|| {
            ModelLimits::Video(VideoLimits {
                sizes,
                durations,
                default_seconds: 8,
                pictures: SourcePictureLimits::frames(pictures),
                negative_prompt: self.extension,
                seed: self.extension,
                max_prompt: 8_000,
                ..VideoLimits::default()
            })
        })
    }

    fn pace(&self) -> PollPace {
        PollPace::new(Duration::from_secs(5), Duration::from_secs(15))
    }

    fn deduplicates(&self) -> bool {
        self.deduplicates
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![RefusalRule::http_statuses(), mediagate::refusals()]
    }

    fn trial(&self) -> Option<Call> {
        Some(Call::get("trial", "/models"))
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let video = order.video()?;
        let mut body = Map::new();
        body.insert("model".into(), json!(order.model));
        body.insert("messages".into(), messages(video));
        body.insert("stream".into(), json!(self.stream));
        if self.extension {
            body.insert("video".into(), options(video));
        }
        let call = Call::post("submit", "/chat/completions", Value::Object(body))
            .with_long_timeout(MAX_ANSWER_BYTES)
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
        if !answer.status.is_success() {
            // A server that returns a task id has accepted the order, so the error is not a
            // rejection.
            let was_accepted = answer.header("x-task-id").is_some()
                || answer
                    .json()
                    .is_ok_and(|body| body.pointer("/error/task_id").is_some());
            return Err(reclassify(answer.failure(describe), was_accepted));
        }
        let reply = if is_events(answer) {
            ParsedCompletion::from_events(&answer.body)
        } else {
            ParsedCompletion::from_json(&answer.json()?)
        };
        read(reply)
    }

    fn progress_of_part(&self, latest_part: &[u8]) -> Option<u8> {
        let reply = ParsedCompletion::from_events(latest_part);
        let percent_in_text =
            reply_text::percent(&reply.text).or_else(|| reply_text::percent(&reply.thoughts));
        // Mediagate sends a number, resellers put a percentage into the text.
        reply.progress.max(percent_in_text)
    }
}

fn messages(video: &VideoSpec) -> Value {
    let conversation = video.options.conversation.iter();
    let mut messages: Vec<Value> = conversation
        .map(|message| json!({"role": message.role, "content": message.text}))
        .collect();
    let content = if video.pictures.is_empty() {
        json!(video.prompt)
    } else {
        let pictures = video.pictures.iter().map(|picture| {
            json!({"type": "image_url", "image_url": {"url": picture.file.url_or_data()}})
        });
        let text = json!({"type": "text", "text": video.prompt});
        std::iter::once(text).chain(pictures).collect()
    };
    messages.push(json!({"role": "user", "content": content}));
    Value::Array(messages)
}

/// Mediagate's extension of the chat-completions API.
fn options(video: &VideoSpec) -> Value {
    let mut options = json!({
        "seconds": video.seconds,
        "size": frame_size::size_text(video.size, 'x'),
    });
    if let Some(seed) = video.seed() {
        options["seed"] = json!(seed);
    }
    if let Some(negative) = &video.options.negative_prompt {
        options["negative_prompt"] = json!(negative);
    }
    options
}

/// Whether an answer is a stream of events, whatever was requested.
fn is_events(answer: &ProviderResponse) -> bool {
    let mime = answer.header("content-type").unwrap_or_default();
    let body = answer.body.trim_ascii_start();
    mime.starts_with("text/event-stream")
        || [&b"data:"[..], b"event:", b":"]
            .iter()
            .any(|start| body.starts_with(start))
}

fn read(reply: ParsedCompletion) -> Result<AdapterStep, ProviderError> {
    if let Some(error) = &reply.error {
        let description = match error {
            Value::String(message) => ErrorDescription {
                code: None,
                message: Some(message.clone()),
            },
            error => ErrorDescription::at(error, "/code", "/message"),
        };
        let message = description
            .message
            .unwrap_or("the provider aborted the response".into());
        let mut error = ProviderError::unreadable(message);
        error.code = description.code;
        return Err(reclassify(error, reply.accepted));
    }
    // A chunk that contains the URL as a separate field is complete.
    if let Some(url) = reply.video {
        return AdapterStep::done(vec![JobOutput::video_at(url)]);
    }
    // Text that broke off may end in half a link.
    if !reply.ended || !reply.has_choices {
        return Err(ProviderError::unreadable(
            "the provider's response ended unexpectedly",
        ));
    }
    if reply.finish_reason.as_deref() == Some("content_filter") {
        let message = "the provider's filter blocked the response";
        return Err(ProviderError::new(ErrorClass::Refused, message));
    }
    match reply_text::link(&reply.text) {
        Some(url) => AdapterStep::done(vec![JobOutput::video_at(url)]),
        None if reply.text.trim().is_empty() => AdapterStep::done(Vec::new()),
        None => {
            let excerpt: String = reply.text.trim().chars().take(300).collect();
            let message = format!("the provider's response contains no link: {excerpt}");
            Err(ProviderError::new(ErrorClass::Failed, message))
        }
    }
}

/// `{"error": {"code", "message"}}`; some servers have only a `type`, no `code`.
fn describe(body: &Value) -> ErrorDescription {
    let description = ErrorDescription::at(body, "/error/code", "/error/message");
    match description.code {
        Some(_) => description,
        None => ErrorDescription::at(body, "/error/type", "/error/message"),
    }
}

/// `was_accepted` if the provider accepted the order before this error.
fn reclassify(error: ProviderError, was_accepted: bool) -> ProviderError {
    let class = match error.code.as_deref() {
        Some(
            "content_policy" | "content_policy_violation" | "content_filter" | "moderation_blocked",
        ) => ErrorClass::Refused,
        Some("generation_failed") => ErrorClass::Failed,
        Some("provider_rejected" | "invalid_request" | "unsupported_value") if was_accepted => {
            ErrorClass::Unfit
        }
        Some("cancelled") => ErrorClass::Lost,
        // From another Mediagate: the job continues there, or that gateway does not know either.
        Some("still_running") => ErrorClass::Unclear,
        Some("submission_unconfirmed") => ErrorClass::Unconfirmed,
        Some("insufficient_quota" | "insufficient_user_quota" | "budget_exceeded") => {
            ErrorClass::Account
        }
        Some("provider_unavailable" | "overloaded" | "shutting_down") => ErrorClass::Unavailable,
        Some("rate_limit_exceeded" | "too_many_tasks" | "too_many_open_requests") => {
            ErrorClass::RateLimited
        }
        _ => error.class,
    };
    // Once the order was accepted, such an error no longer proves a rejection.
    error.with_class(if was_accepted && !class.ends_job() {
        ErrorClass::Unclear
    } else {
        class
    })
}

#[cfg(test)]
mod tests;
