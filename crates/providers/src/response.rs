//! A provider's HTTP response, and readers of its parts.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::error::{ErrorClass, ErrorDescription, ProviderError};

pub use orders::error::text_at;

/// A complete HTTP response.
#[derive(Debug, Clone)]
pub struct ProviderResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The complete body, within the call's limit.
    pub body: Bytes,
}

impl ProviderResponse {
    /// An answer with a JSON body, for tests of adapters.
    pub fn from_json(status: u16, body: &Value) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers: HeaderMap::new(),
            body: body.to_string().into(),
        }
    }

    /// The body as JSON; `null` when it is empty.
    pub fn json(&self) -> Result<Value, ProviderError> {
        if self.body.trim_ascii().is_empty() {
            return Ok(Value::Null);
        }
        parse_json(&self.body).ok_or_else(|| {
            ProviderError::unreadable(format!(
                "the provider responded with status {} and a body that is not JSON",
                self.status.as_u16()
            ))
        })
    }

    /// A header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as JSON if the status is 2xx; otherwise the error that `describe` finds in the
    /// body, classified by the status.
    pub fn success(
        &self,
        describe: impl FnOnce(&Value) -> ErrorDescription,
    ) -> Result<Value, ProviderError> {
        if self.status.is_success() {
            return self.json();
        }
        Err(self.failure(describe))
    }

    /// The error of an answer that is not a success of the protocol.
    pub fn failure(&self, describe: impl FnOnce(&Value) -> ErrorDescription) -> ProviderError {
        // An error page need not be JSON; then only its status counts.
        let body = self.json().unwrap_or(Value::Null);
        let description = describe(&body);
        let has_details = description.code.is_some() || description.message.is_some();
        let status = self.status.as_u16();
        let retry_after = self.retry_after();
        let class = match status {
            401 | 403 => ErrorClass::Credentials,
            402 => ErrorClass::Account,
            // A server or proxy gave up on the request, perhaps after part of it was passed on.
            408 | 425 | 499 => ErrorClass::Unclear,
            429 => ErrorClass::RateLimited,
            // A 503 with the provider's own error, or with a time to retry, comes from the
            // provider; a bare one may come from a proxy. Neither proves anything about an order
            // (see `port::refusal`).
            503 if has_details || retry_after.is_some() => ErrorClass::Unavailable,
            400..=499 => ErrorClass::Rejected,
            _ => ErrorClass::Unclear,
        };
        ProviderError {
            class,
            code: description.code,
            message: description
                .message
                .unwrap_or_else(|| format!("the provider responded with status {status}")),
            retry_after,
            basis: None,
        }
    }

    /// The wait that the provider asks for.
    pub fn retry_after(&self) -> Option<Duration> {
        outbound::retry_after(&self.headers, None)
    }
}

/// Maximum number of values and names in JSON. In memory, each may take a hundred times its text.
pub const MAX_JSON_VALUES: usize = 500_000;

/// Parses JSON; `None` if it is not valid, or has too many values.
pub fn parse_json(text: &[u8]) -> Option<Value> {
    // Shorter texts cannot have too many.
    let has_too_many = text.len() > MAX_JSON_VALUES && count_values(text) > MAX_JSON_VALUES;
    if has_too_many {
        return None;
    }
    serde_json::from_slice(text).ok()
}

/// The number of values and names in JSON, or a few more. Allocates nothing.
fn count_values(text: &[u8]) -> usize {
    let mut rest = text;
    let mut values = 1;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            // Most bytes of a large answer are in one string.
            b'"' => rest = after_string(rest),
            // Each begins one more value, or follows a name.
            b',' | b':' | b'[' | b'{' => values += 1,
            _ => {}
        }
    }
    values
}

/// What follows a string, of which the first quote was read.
fn after_string(mut rest: &[u8]) -> &[u8] {
    loop {
        let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
        let Some(end) = end else { return &[] };
        // A backslash hides the byte after it.
        let skipped = if rest[end] == b'"' { 1 } else { 2 };
        let is_over = skipped == 1;
        rest = rest.get(end + skipped..).unwrap_or_default();
        if is_over {
            return rest;
        }
    }
}

/// The text at a JSON pointer that the protocol requires.
pub fn required_text(body: &Value, pointer: &str) -> Result<String, ProviderError> {
    text_at(body, pointer).ok_or_else(|| {
        let field = pointer.trim_start_matches('/').replace('/', ".");
        ProviderError::unreadable(format!("the provider's response has no {field}"))
    })
}

/// The list at a JSON pointer that the protocol requires.
pub fn required_list<'v>(body: &'v Value, pointer: &str) -> Result<&'v [Value], ProviderError> {
    let list = body.pointer(pointer).and_then(Value::as_array);
    list.map(Vec::as_slice).ok_or_else(|| {
        let field = pointer.trim_start_matches('/').replace('/', ".");
        ProviderError::unreadable(format!("the provider's response has no list {field}"))
    })
}

/// The time at a JSON pointer, in any format that [`crate::timestamps`] reads.
pub fn time_at(body: &Value, pointer: &str) -> Option<SystemTime> {
    crate::timestamps::read(body.pointer(pointer)?)
}

/// A number from 0 to 100 at a JSON pointer; `scale` is the number that means 100 %. Also reads
/// `"40%"`.
pub fn percent_at(body: &Value, pointer: &str, scale: f64) -> Option<u8> {
    let number = match body.pointer(pointer)? {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().trim_end_matches('%').parse().ok()?,
        _ => return None,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0..=100"
    )]
    let percent = (number / scale * 100.0).clamp(0.0, 100.0) as u8;
    Some(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, expected) in [
            ("7", 1),
            ("[]", 2),
            ("[1, 2, 3]", 4),
            (r#"{"a": [true, null], "b": "[,:{"}"#, 7),
            (r#"["\"[[[[", "\\"]"#, 3),
            (r#"["never closed"#, 2),
            (r#"["\"#, 2),
        ] {
            assert_eq!(count_values(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn json_with_too_many_values_is_refused_before_it_is_parsed() {
        let list = |items: usize| format!("[0{}]", ",0".repeat(items - 1));
        assert!(parse_json(list(MAX_JSON_VALUES - 2).as_bytes()).is_some());
        assert!(parse_json(list(MAX_JSON_VALUES + 1).as_bytes()).is_none());
        let text = serde_json::to_string(&",".repeat(2 * MAX_JSON_VALUES)).unwrap();
        assert!(parse_json(text.as_bytes()).is_some());
    }
}
