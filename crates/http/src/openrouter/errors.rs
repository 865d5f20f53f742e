//! Errors of `OpenRouter`'s dialect: the same as everywhere, with the status as `code`, because the
//! dialect's SDKs reject an error whose code is a word.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;

use crate::wire::openrouter::{OpenRouterErrorBody, PREFIX, PlainErrorBody};

/// More than any error has: its longest parts are cut before they are written.
const MAX_ERROR_BYTES: usize = 1_000_000;

/// Writes the errors of this dialect's paths in its form. It is outside of the layer that writes
/// them in the common form, so it gets all of them: stored ones, and those of other layers too.
pub(crate) async fn translate_errors(request: Request, next: Next) -> Response {
    let is_of_dialect = request.uri().path().starts_with(PREFIX);
    let response = next.run(request).await;
    if is_of_dialect && response.status().as_u16() >= 400 {
        translate(response).await
    } else {
        response
    }
}

async fn translate(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, MAX_ERROR_BYTES).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let plain = serde_json::from_slice::<PlainErrorBody>(&bytes).ok();
    let translated = plain.and_then(|plain| {
        serde_json::to_vec(&OpenRouterErrorBody::new(parts.status.as_u16(), plain)).ok()
    });
    let body = translated.map_or_else(|| Body::from(bytes), Body::from);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, body)
}
