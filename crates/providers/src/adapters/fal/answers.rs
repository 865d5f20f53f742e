//! Reading fal's answers: responses of completed jobs, and errors.

use serde_json::Value;

use super::STEMS;
use crate::error::{ErrorBasis, ErrorClass, ErrorDescription, ProviderError};
use crate::order::{StemGroup, StemTarget};
use crate::port::jobs::errors::FailureTable;
use crate::port::jobs::upload;
use crate::port::{AdapterStep, JobHandle, JobOutput, OutputKind};
use crate::response::{ProviderResponse, text_at};

/// Evaluates the response of a completed job; `job_status` has the error, if any, that its last
/// poll reported.
pub(super) fn result(
    handle: &JobHandle,
    job_status: &Value,
    answer: &ProviderResponse,
) -> Result<AdapterStep, ProviderError> {
    if !answer.status.is_success() {
        let error = response_error(job_status, answer);
        // An error in the job's status proves the failure, and so does an error of one of fal's
        // types in place of the response. The response's HTTP status alone does not.
        let is_told = job_status["error"].is_string() || has_known_type(answer);
        return Err(if is_told && error.class.ends_job() {
            error.with_basis(ErrorBasis::Record)
        } else {
            error
        });
    }
    if let Some(message) = text_at(job_status, "/error") {
        return Err(FAILURES.error(ErrorDescription {
            code: text_at(job_status, "/error_type"),
            message: Some(message),
        }));
    }
    let body = answer.json()?;
    if handle.0["stems"] == true {
        let stem = |(group, name): &(StemGroup, &str)| {
            url_in(&body, name).map(|url| JobOutput::stem_at(StemTarget::Only(*group), url))
        };
        let mut outputs: Vec<JobOutput> = STEMS.iter().filter_map(stem).collect();
        if !outputs.is_empty() {
            outputs.extend(
                url_in(&body, "other").map(|url| JobOutput::stem_at(StemTarget::Other, url)),
            );
        }
        return AdapterStep::done(outputs);
    }
    let first_video = || text_at(&body, "/videos/0/url");
    let kind = handle.output_kind();
    let url = match &kind {
        OutputKind::Video => url_in(&body, "video").or_else(first_video),
        _ => url_in(&body, "audio"),
    };
    let output = url.map(|url| JobOutput::at(kind, url));
    AdapterStep::done(output.into_iter().collect())
}

/// The URL of a file object, or a plain URL.
fn url_in(body: &Value, field: &str) -> Option<String> {
    text_at(body, &format!("/{field}/url")).or_else(|| text_at(body, &format!("/{field}")))
}

/// The HTTP status of a response ends the job if the job's status reported an error, or if the
/// answer has one of fal's error types. If the same answer persists for a while, it also ends the
/// job if only a model can have answered like that (500 with a message). Any other failure occurred
/// on the way to the response, so the job is polled again.
fn response_error(job_status: &Value, answer: &ProviderResponse) -> ProviderError {
    let error = answer.failure(describe);
    let description = ErrorDescription {
        code: error
            .code
            .clone()
            .or_else(|| text_at(job_status, "/error_type")),
        message: Some(error.message.clone()),
    };
    if let Some(class) = FAILURES.class(&description) {
        return error.with_class(class);
    }
    let is_named = answer.header("x-fal-error-type").is_some() || error.code.is_some();
    let status = answer.status.as_u16();
    let is_end = match status {
        500 => is_named || answer.json().is_ok_and(|body| body["detail"].is_string()),
        502..=504 => is_named,
        _ => error.class == ErrorClass::Rejected,
    };
    // fal assigned the id, so a 404 means that the job is missing.
    if status == 404 && !job_status["error"].is_string() {
        return error.with_class(ErrorClass::Missing);
    }
    if !is_end && !job_status["error"].is_string() {
        return reclassify(error);
    }
    // fal's header about whether a retry may succeed takes precedence over the status.
    let may_pass = match answer.header("x-fal-retryable") {
        Some(word) => word.eq_ignore_ascii_case("true"),
        None => error.class != ErrorClass::Rejected,
    };
    error.with_class(if may_pass {
        ErrorClass::Failed
    } else {
        ErrorClass::Unfit
    })
}

/// Whether an answer has an error type by which fal says how the model's run ended. No proxy knows
/// these.
fn has_known_type(answer: &ProviderResponse) -> bool {
    let description = describe(&answer.json().unwrap_or(Value::Null));
    let is_listed = FAILURES.class(&ErrorDescription {
        code: description.code.clone(),
        message: None,
    });
    // The types of wrong inputs are not listed. All of them have this status.
    let is_input_error = answer.status == 422 && description.code.is_some();
    is_listed.is_some() || is_input_error || answer.header("x-fal-error-type").is_some()
}

/// `{"detail": "…", "error_type"}`, or `{"detail": [{"msg", "type"}]}`.
pub(super) fn describe(body: &Value) -> ErrorDescription {
    let description = ErrorDescription::at(body, "/error_type", "/detail");
    if description.message.is_some() {
        return description;
    }
    ErrorDescription::at(body, "/detail/0/type", "/detail/0/msg")
}

pub(super) fn reclassify(error: ProviderError) -> ProviderError {
    let class = match error.class {
        // "User is locked. Reason: Exhausted balance."
        ErrorClass::Credentials if error.message.to_lowercase().contains("balance") => {
            ErrorClass::Account
        }
        class => class,
    };
    match FAILURES.class(&ErrorDescription {
        code: error.code.clone(),
        message: None,
    }) {
        Some(by_code @ (ErrorClass::Refused | ErrorClass::Lost)) => error.with_class(by_code),
        _ => error.with_class(class),
    }
}

/// fal's own list of error types (fal.ai/docs, Model Errors and Request Errors). All other types
/// concern the input and have status 422.
const FAILURES: FailureTable = FailureTable {
    codes: &[
        ("content_policy_violation", ErrorClass::Refused),
        ("client_cancelled", ErrorClass::Lost),
        ("internal_server_error", ErrorClass::Failed),
        ("generation_timeout", ErrorClass::Failed),
        ("downstream_service_", ErrorClass::Failed),
        ("no_media_generated", ErrorClass::Failed),
        ("request_timeout", ErrorClass::Failed),
        ("startup_timeout", ErrorClass::Failed),
        ("runner_", ErrorClass::Failed),
    ],
    words: &[],
};

/// An upload precedes the submission, so its errors leave nothing unclear.
pub(super) fn as_upload_error(error: ProviderError) -> ProviderError {
    upload::as_upload_error(reclassify(error))
}
