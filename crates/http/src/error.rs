//! Error responses: the only place where an [`Error`] becomes a response and is logged.

use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::endpoint_suggestions::{EndpointPaths, other_service_advice};
use crate::wire::error::{ErrorBody, ErrorObject};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::RequestId;
use mediagate_telemetry::logs;

/// An error whose body is not written yet. The outer layer, which knows the request id, writes it.
#[derive(Clone)]
pub(super) struct PendingError(Arc<Error>);

/// An [`Error`] as a handler's response.
pub struct ErrorResponse(Error);

impl<E: Into<Error>> From<E> for ErrorResponse {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        answer(&Arc::new(self.0))
    }
}

/// A response with this error; its body is written once the request id is known.
pub(super) fn answer(error: &Arc<Error>) -> Response {
    let mut response = status(error).into_response();
    response
        .extensions_mut()
        .insert(PendingError(error.clone()));
    response
}

fn status(error: &Error) -> StatusCode {
    StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The error of a response whose body has been written.
#[derive(Clone)]
pub(super) struct WrittenError {
    pub(super) code: ErrorCode,
    pub(super) message: String,
}

/// Marks an error response that must not be rewritten.
pub(super) fn mark_written(response: &mut Response, error: WrittenError) {
    response.extensions_mut().insert(error);
}

/// The error of a response, once its body has been written.
pub(super) fn written(response: &Response) -> Option<&WrittenError> {
    response.extensions().get()
}

/// Writes the body and headers of an error response; leaves other responses alone. Headers that are
/// already set, for example `Allow`, are kept.
pub(super) fn write(response: Response, request_id: &RequestId) -> Response {
    // A stored error that is repeated must stay unchanged, byte for byte.
    if written(&response).is_some() {
        return response;
    }
    let pending = response
        .extensions()
        .get::<PendingError>()
        .map(|PendingError(error)| error.clone());
    // Libraries answer some requests themselves, in plain text. Callers get one format for all
    // errors.
    let Some(error) = pending.or_else(|| library_error(response.status()).map(Arc::new)) else {
        return response;
    };
    log(&error);
    let mut error_response = (status(&error), Json(body(&error, request_id))).into_response();
    let mut headers = headers(&error);
    for (name, value) in response.headers() {
        // These two describe the body that is replaced.
        if !matches!(*name, header::CONTENT_LENGTH | header::CONTENT_TYPE) {
            headers.insert(name, value.clone());
        }
    }
    error_response.headers_mut().extend(headers);
    let written = WrittenError {
        code: error.code(),
        message: error.message(),
    };
    mark_written(&mut error_response, written);
    error_response
}

/// The code of an error whose body is not written yet.
pub(super) fn code_of(response: &Response) -> Option<ErrorCode> {
    let pending = response.extensions().get::<PendingError>();
    pending.map(|PendingError(error)| error.code())
}

/// Our error for one that a library produced, for example for a path that is not UTF-8; its text is
/// not passed on.
fn library_error(status: StatusCode) -> Option<Error> {
    let (code, message) = match status.as_u16() {
        404 => (
            ErrorCode::RouteNotFound,
            "There is no resource at this URL.",
        ),
        405 => (
            ErrorCode::MethodNotAllowed,
            "This endpoint does not support this method.",
        ),
        413 => (ErrorCode::BodyTooLarge, "The body is too large."),
        415 => (
            ErrorCode::UnsupportedMediaType,
            "The endpoint does not accept this media type.",
        ),
        400..=499 => (ErrorCode::InvalidValue, "The request is malformed."),
        500..=599 => return Some(Error::internal(format!("an answer with status {status}"))),
        _ => return None,
    };
    Some(Error::plain(code, message))
}

/// The body of an error, also used in streams.
pub(super) fn body(error: &Error, request_id: &RequestId) -> ErrorBody {
    ErrorBody {
        error: ErrorObject {
            message: error.message(),
            kind: error.code().kind().name(),
            param: error.param().map(ToOwned::to_owned),
            code: error.code().name(),
            request_id: request_id.to_string(),
            task_id: error.task().map(|task| task.to_string()),
        },
    }
}

/// Logs an error: our own faults as errors or warnings, the caller's at debug level.
pub(super) fn log(error: &Error) {
    match error.internal_cause() {
        Some(cause) if error.code() == ErrorCode::Overloaded => {
            tracing::warn!(inside = %cause, "request rejected: the database is unavailable");
        }
        Some(cause) => {
            tracing::error!(code = %error.code(), inside = %cause, "request failed with an internal error");
        }
        None => {
            tracing::debug!(code = %error.code(), message = %error.message(), "request rejected");
        }
    }
}

fn headers(error: &Error) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(
        // OpenAI's SDKs obey this header. Otherwise they would also retry 409, for example a
        // cancelled task.
        "x-should-retry",
        HeaderValue::from_static(if error.retryable() { "true" } else { "false" }),
    );
    if let Some(seconds) = error.retry_after() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    // RFC 9110 (15.5.2) requires this header with a 401.
    if error.status() == 401 {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(Ok(task)) = error
        .task()
        .map(|task| HeaderValue::try_from(task.to_string()))
    {
        headers.insert("x-task-id", task);
    }
    headers
}

/// The error for a path without an endpoint.
pub(super) fn route_not_found(
    method: &Method,
    path: &str,
    endpoints: &EndpointPaths,
) -> ErrorResponse {
    // The path is the caller's text and can be as long as a request head. Some clients put the key
    // into it, and no response may show one.
    let path_without_keys = logs::without_keys(path.as_bytes());
    let path_without_keys = String::from_utf8_lossy(&path_without_keys).replace("sk-mg-", "");
    let excerpt: String = path_without_keys.chars().take(200).collect();
    let advice = endpoints.advice(method, path);
    let advice = advice.map_or_else(String::new, |advice| format!(" {advice}"));
    let message = format!("There is no endpoint {excerpt:?}.{advice} See /docs for all endpoints.");
    Error::plain(ErrorCode::RouteNotFound, message).into()
}

/// The error for a method that an endpoint does not have; the router adds `Allow`.
pub(super) async fn method_not_allowed(method: Method, uri: Uri) -> ErrorResponse {
    // Other services have endpoints at the addresses of our resources.
    let advice = other_service_advice(uri.path());
    let advice = advice.map_or_else(String::new, |advice| format!(" {advice}"));
    let message = format!(
        "This endpoint does not support {method}. The Allow header lists the supported methods.{advice}"
    );
    Error::plain(ErrorCode::MethodNotAllowed, message).into()
}
