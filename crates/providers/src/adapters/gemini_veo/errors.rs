//! Google's errors: those of requests, and those of operations.

use std::time::Duration;

use serde_json::Value;

use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::port::jobs::errors::FailureTable;
use crate::response::ProviderResponse;

/// gRPC codes (google.rpc.Code) in the error of an operation, and words in an interaction's error.
pub(super) const FAILURES: FailureTable = FailureTable {
    codes: &[
        // CANCELLED
        ("1", ErrorClass::Lost),
        // INVALID_ARGUMENT, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED
        ("3", ErrorClass::Unfit),
        ("9", ErrorClass::Unfit),
        ("11", ErrorClass::Unfit),
        ("12", ErrorClass::Unfit),
        ("PROHIBITED_CONTENT", ErrorClass::Refused),
        ("SAFETY", ErrorClass::Refused),
        ("BLOCKLIST", ErrorClass::Refused),
        ("INVALID_ARGUMENT", ErrorClass::Unfit),
        ("invalid_", ErrorClass::Unfit),
    ],
    words: &[],
};

/// The error of an operation: `{code, message}` with a gRPC code.
pub(super) fn operation_failed(error: &Value) -> ProviderError {
    job_error(ErrorDescription::at(error, "/code", "/message"))
}

/// The error of a failed job. A message about refused content takes precedence over the code.
pub(super) fn job_error(description: ErrorDescription) -> ProviderError {
    let is_refused = description.message.as_deref().is_some_and(is_refusal);
    let error = FAILURES.error(description);
    if is_refused {
        return error.with_class(ErrorClass::Refused);
    }
    error
}

pub(super) fn describe(body: &Value) -> ErrorDescription {
    ErrorDescription::at(body, "/error/status", "/error/message")
}

pub(super) fn reclassify(mut error: ProviderError, answer: &ProviderResponse) -> ProviderError {
    let body = answer.json().unwrap_or(Value::Null);
    let details = body.pointer("/error/details").and_then(Value::as_array);
    let details: Vec<&Value> = details.into_iter().flatten().collect();
    // Google puts the time to wait into the body and not into a header.
    if error.retry_after.is_none() {
        let delay = details
            .iter()
            .find_map(|detail| detail["retryDelay"].as_str());
        error.retry_after = delay.and_then(seconds);
    }
    let is_wrong_key = details
        .iter()
        .any(|detail| detail["reason"] == "API_KEY_INVALID");
    let is_billing = error.message.to_lowercase().contains("billing");
    let class = match error.class {
        ErrorClass::Rejected if is_wrong_key => ErrorClass::Credentials,
        // "You exceeded your current quota, please check your plan and billing details": with
        // status 429, although waiting does not help.
        ErrorClass::Rejected | ErrorClass::Credentials | ErrorClass::RateLimited if is_billing => {
            ErrorClass::Account
        }
        ErrorClass::Rejected if is_refusal(&error.message) => ErrorClass::Refused,
        class => class,
    };
    error.with_class(class)
}

/// `"32s"`, `"1.5s"`.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Google's messages for refused content.
pub(super) fn is_refusal(message: &str) -> bool {
    let message = message.to_lowercase();
    [
        "responsible ai",
        "usage guidelines",
        "safety filter",
        "prohibited content",
        "prohibited_content",
    ]
    .iter()
    .any(|words| message.contains(words))
}
