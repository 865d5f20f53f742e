//! What fal's answers mean: responses of completed jobs, and errors.

use serde_json::Value;

use super::STEMS;
use crate::answer::{Answer, Described, text_at};
use crate::error::{Class, ProviderError};
use crate::order::{StemGroup, StemTarget};
use crate::port::{Handle, Output, Step};

/// What the response of a completed job means; `told` is what its status said.
pub(super) fn result(
    handle: &Handle,
    told: &Value,
    answer: &Answer,
) -> Result<Step, ProviderError> {
    if !answer.status.is_success() {
        return Err(failed(told, answer));
    }
    if let Some(message) = text_at(told, "/error") {
        let mut error = ProviderError::new(Class::Failed, message);
        error.code = text_at(told, "/error_type");
        return Err(ended_by_code(error));
    }
    let body = answer.json()?;
    if handle.0["stems"] == true {
        let stem = |(group, name): &(StemGroup, &str)| {
            url_in(&body, name).map(|url| Output::stem_at(StemTarget::Only(*group), url))
        };
        let mut outputs: Vec<Output> = STEMS.iter().filter_map(stem).collect();
        if !outputs.is_empty() {
            outputs
                .extend(url_in(&body, "other").map(|url| Output::stem_at(StemTarget::Other, url)));
        }
        return Step::done(outputs);
    }
    let first = || text_at(&body, "/videos/0/url");
    let url = url_in(&body, "video").or_else(first);
    Step::done(url.map(Output::video_at).into_iter().collect())
}

/// A file object's address, or an address by itself.
fn url_in(body: &Value, member: &str) -> Option<String> {
    text_at(body, &format!("/{member}/url")).or_else(|| text_at(body, &format!("/{member}")))
}

/// A response's status is the job's end when the job's status told of an error,
/// when fal names the kind of failure, and where only a model answers so (500
/// with words). Anything else failed on the way there, and is asked again.
fn failed(told: &Value, answer: &Answer) -> ProviderError {
    let mut error = classed(answer.failure(describe));
    let named = answer.header("x-fal-error-type").is_some() || error.code.is_some();
    let ended = match answer.status.as_u16() {
        500 => named || answer.json().is_ok_and(|body| body["detail"].is_string()),
        502..=504 => named,
        _ => error.class == Class::Rejected,
    };
    let known = matches!(error.class, Class::Refused | Class::Lost);
    if !known && (ended || told["error"].is_string()) {
        error.class = Class::Failed;
    }
    error
}

/// `{"detail": "…", "error_type"}`, or `{"detail": [{"msg", "type"}]}`.
pub(super) fn describe(body: &Value) -> Described {
    let said = Described::at(body, "/error_type", "/detail");
    if said.message.is_some() {
        return said;
    }
    Described::at(body, "/detail/0/type", "/detail/0/msg")
}

pub(super) fn classed(error: ProviderError) -> ProviderError {
    let class = match error.class {
        // "User is locked. Reason: Exhausted balance."
        Class::Credentials if error.message.to_lowercase().contains("balance") => Class::Account,
        class => class,
    };
    ended_by_code(error.of_class(class))
}

fn ended_by_code(error: ProviderError) -> ProviderError {
    match error.code.as_deref() {
        Some("content_policy_violation") => error.of_class(Class::Refused),
        Some("client_cancelled") => error.of_class(Class::Lost),
        _ => error,
    }
}

/// Before the submission nothing can be unclear.
pub(super) fn before_submission(error: ProviderError) -> ProviderError {
    match classed(error) {
        error if error.class == Class::Unclear => error.of_class(Class::Unavailable),
        error => error,
    }
}
