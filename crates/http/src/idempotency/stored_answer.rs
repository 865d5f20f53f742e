//! Stored answers, for the next request with the same key.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt as _;
use serde_json::Value;

use crate::error::{self, WrittenError};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::RequestId;
use mediagate_model::intent::StoredAnswer;

/// Marks an answer that repeats an earlier one.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// The headers of an answer that are stored.
const STORED_HEADERS: [&str; 7] = [
    "content-type",
    "x-task-id",
    "x-identical-task",
    "x-cost-usd",
    "x-should-retry",
    "openai-poll-after-ms",
    "retry-after",
];

pub(super) async fn store_response(response: Response) -> Result<StoredAnswer, Error> {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(Error::internal)?.to_bytes();
    let headers = parts.headers.iter().filter_map(|(name, value)| {
        let is_stored = STORED_HEADERS.contains(&name.as_str());
        let value = value.to_str().ok().filter(|_| is_stored)?;
        Some((name.as_str().to_owned(), value.to_owned()))
    });
    Ok(StoredAnswer {
        status: parts.status.as_u16(),
        headers: headers.collect(),
        body: String::from_utf8(bytes.to_vec()).map_err(Error::internal)?,
    })
}

pub(super) fn replay(stored: StoredAnswer, request_id: &RequestId) -> Result<Response, Error> {
    let mut response = restore(stored, request_id)?;
    mark_replayed(&mut response);
    Ok(response)
}

/// The body of a stored error for the request that gets it now, and the error that it contains.
fn error_body(
    body: String,
    request_id: &RequestId,
) -> Result<(String, Option<WrittenError>), Error> {
    let mut json: Value = serde_json::from_str(&body).map_err(Error::internal)?;
    let text = |name: &str| json["error"][name].as_str().unwrap_or_default();
    let error = WrittenError {
        // A newer version may have stored a code that this one does not know.
        code: ErrorCode::from_name(text("code")).unwrap_or(ErrorCode::GenerationFailed),
        message: text("message").to_owned(),
    };
    let body = match json.pointer_mut("/error/request_id") {
        Some(id) => {
            *id = request_id.to_string().into();
            serde_json::to_string(&json).map_err(Error::internal)?
        }
        None => body,
    };
    Ok((body, Some(error)))
}

pub(super) fn mark_replayed(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
}

/// The answer as it was stored; an error names the request that gets it now.
pub(crate) fn restore(stored: StoredAnswer, request_id: &RequestId) -> Result<Response, Error> {
    let (body, error) = match stored.status {
        400.. => error_body(stored.body, request_id)?,
        _ => (stored.body, None),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(stored.status).map_err(Error::internal)?;
    for (name, value) in stored.headers {
        let name = HeaderName::try_from(name).map_err(Error::internal)?;
        let value = HeaderValue::try_from(value).map_err(Error::internal)?;
        response.headers_mut().insert(name, value);
    }
    if let Some(error) = error {
        error::mark_written(&mut response, error);
    }
    Ok(response)
}
