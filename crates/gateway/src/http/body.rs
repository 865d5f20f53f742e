//! Bodies: read within limits of size, time and depth.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::error::{Error, ErrorCode};

/// JSON without the `data:` addresses in it.
const JSON_LIMIT: usize = 1_000_000;
/// JSON with them.
const JSON_LIMIT_WITH_DATA: usize = 32_000_000;
/// How long a body of JSON may take to arrive.
const JSON_TIME: Duration = Duration::from_mins(1);

/// A JSON body. Its nesting is bounded by the parser (128 levels).
pub struct JsonBody(pub Value);

impl FromRequest<App> for JsonBody {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self, Error> {
        if !is_json(request.headers()) {
            let message =
                "The body must be JSON, sent with the header \"Content-Type: application/json\".";
            return Err(Error::plain(ErrorCode::UnsupportedMediaType, message));
        }
        let _place = place(request.headers(), app)?;
        let bytes = read(request.into_body(), JSON_LIMIT_WITH_DATA, JSON_TIME).await?;
        parse(&bytes).map(Self)
    }
}

/// A place among the large bodies, for one that is or may be large.
pub(super) fn place(headers: &HeaderMap, app: &App) -> Result<Option<OwnedSemaphorePermit>, Error> {
    let length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: usize| length <= JSON_LIMIT) {
        return Ok(None);
    }
    let full = |_| {
        let message = "Too many large requests at once. Try again in a moment.";
        Error::later(ErrorCode::Overloaded, message, 2)
    };
    app.large_bodies
        .clone()
        .try_acquire_owned()
        .map(Some)
        .map_err(full)
}

fn parse(bytes: &[u8]) -> Result<Value, Error> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        let message = format!("The body is not JSON: {error}.");
        Error::plain(ErrorCode::InvalidJson, message)
    })?;
    if bytes.len() > JSON_LIMIT && bytes.len().saturating_sub(data_length(&value)) > JSON_LIMIT {
        return Err(too_large(
            "The body's JSON, data: addresses not counted,",
            JSON_LIMIT,
        ));
    }
    Ok(value)
}

/// How long the `data:` addresses in a value are together.
fn data_length(value: &Value) -> usize {
    match value {
        Value::String(text) if text.starts_with("data:") => text.len(),
        Value::Array(items) => items.iter().map(data_length).sum(),
        Value::Object(fields) => fields.values().map(data_length).sum(),
        _ => 0,
    }
}

/// Reads a body of at most `limit` bytes within `time`.
pub(super) async fn read(body: Body, limit: usize, time: Duration) -> Result<Bytes, Error> {
    let collected = tokio::time::timeout(time, Limited::new(body, limit).collect()).await;
    let collected = collected.map_err(|_| {
        let message = format!("The body did not arrive within {} seconds.", time.as_secs());
        Error::plain(ErrorCode::InvalidValue, message)
    })?;
    match collected {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(too_large("The body", limit))
        }
        Err(_) => Err(Error::plain(
            ErrorCode::InvalidValue,
            "The body broke off before its end.",
        )),
    }
}

/// The answer to a form that cannot be read; `why` is its reader's word.
pub(super) fn malformed_form(why: &str) -> Error {
    let message = format!("The form cannot be read: {why}.");
    Error::plain(ErrorCode::InvalidValue, message)
}

/// The answer to something longer than its limit.
pub(super) fn too_large(what: &str, limit: usize) -> Error {
    Error::plain(
        ErrorCode::BodyTooLarge,
        format!("{what} is larger than {} MB.", limit / 1_000_000),
    )
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = media_type(headers);
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// Whether the body is a multipart form.
pub(super) fn is_multipart(headers: &HeaderMap) -> bool {
    media_type(headers) == "multipart/form-data"
}

/// The `Content-Type` without its parameters, in lower case.
fn media_type(headers: &HeaderMap) -> String {
    let text = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    text.split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_addresses_do_not_count_against_the_small_limit() {
        let picture = format!(
            "{{\"a\":[{{\"url\":\"data:image/png;base64,{}\"}}]}}",
            "A".repeat(2_000_000)
        );
        assert!(parse(picture.as_bytes()).is_ok());
        let prose = format!("{{\"a\":\"{}\"}}", "A".repeat(2_000_000));
        assert_eq!(
            parse(prose.as_bytes()).unwrap_err().code(),
            ErrorCode::BodyTooLarge
        );
    }

    #[test]
    fn deep_nesting_is_refused() {
        let deep = "[".repeat(100_000);
        assert_eq!(
            parse(deep.as_bytes()).unwrap_err().code(),
            ErrorCode::InvalidJson
        );
    }
}
