//! The one mapping from [`Error`] to an answer, and the one place that logs it.

use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::error::{Error, ErrorCode};
use crate::http::wire::error::{ErrorBody, ErrorObject};
use crate::ids::RequestId;

/// An error on its way out. The frame around all endpoints, which knows the
/// request's id, writes the body.
#[derive(Clone)]
pub(super) struct Outgoing(Arc<Error>);

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        answer(&Arc::new(self))
    }
}

/// An answer that says this, as far as it can be written without the request's id.
pub(super) fn answer(error: &Arc<Error>) -> Response {
    let mut response = status(error).into_response();
    response.extensions_mut().insert(Outgoing(error.clone()));
    response
}

fn status(error: &Error) -> StatusCode {
    StatusCode::from_u16(error.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// An error whose body and headers are written already.
#[derive(Clone)]
struct Written;

/// Leaves an answer that is an error as it is.
pub(super) fn mark_written(response: &mut Response) {
    response.extensions_mut().insert(Written);
}

/// Writes the body and headers of an answer that is an error; others stay as
/// they are. Headers that the answer has already, such as `Allow`, are kept.
pub(super) fn write(response: Response, request_id: &RequestId) -> Response {
    if response.extensions().get::<Written>().is_some() {
        return response;
    }
    let known = response
        .extensions()
        .get::<Outgoing>()
        .map(|Outgoing(error)| error.clone());
    let Some(error) = known.or_else(|| foreign(response.status()).map(Arc::new)) else {
        return response;
    };
    log(&error);
    let mut written = (status(&error), Json(body(&error, request_id))).into_response();
    let mut headers = headers(&error);
    for (name, value) in response.headers() {
        if !matches!(*name, header::CONTENT_LENGTH | header::CONTENT_TYPE) {
            headers.insert(name, value.clone());
        }
    }
    written.headers_mut().extend(headers);
    mark_written(&mut written);
    written
}

/// The error that a library's own refusal stands for, such as a path that is no
/// UTF-8; its text is not passed on.
fn foreign(status: StatusCode) -> Option<Error> {
    let (code, message) = match status.as_u16() {
        404 => (
            ErrorCode::RouteNotFound,
            "There is nothing at this address.",
        ),
        405 => (
            ErrorCode::MethodNotAllowed,
            "This endpoint does not take this method.",
        ),
        413 => (ErrorCode::BodyTooLarge, "The body is too large."),
        415 => (
            ErrorCode::UnsupportedMediaType,
            "The body's media type is not taken here.",
        ),
        400..=499 => (ErrorCode::InvalidValue, "The request is malformed."),
        500..=599 => return Some(Error::internal(format!("an answer with status {status}"))),
        _ => return None,
    };
    Some(Error::plain(code, message))
}

/// The body of an error, for streams too.
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

/// Logs an error once: what is ours loudly, what is the caller's quietly.
pub(super) fn log(error: &Error) {
    match error.inside() {
        Some(inside) if error.code() == ErrorCode::Overloaded => {
            tracing::warn!(%inside, "request refused: the database is away");
        }
        Some(inside) => tracing::error!(code = %error.code(), %inside, "request failed inside"),
        None => {
            tracing::debug!(code = %error.code(), message = %error.message(), "request refused");
        }
    }
}

fn headers(error: &Error) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(
        "x-should-retry",
        HeaderValue::from_static(if error.code().retryable() {
            "true"
        } else {
            "false"
        }),
    );
    if let Some(seconds) = error.retry_after() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if error.code().status() == 401 {
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

/// The answer to a path that no endpoint has.
pub(super) async fn route_not_found(uri: axum::http::Uri) -> Error {
    let path: String = uri.path().chars().take(200).collect();
    Error::plain(
        ErrorCode::RouteNotFound,
        format!("There is no endpoint {path:?}. See /docs for those there are."),
    )
}

/// The answer to a method that an endpoint does not have; the router adds `Allow`.
pub(super) async fn method_not_allowed(method: axum::http::Method) -> Error {
    let message =
        format!("This endpoint does not take {method}; the Allow header names what it takes.");
    Error::plain(ErrorCode::MethodNotAllowed, message)
}
