//! Refusal log: refused calls of operators' endpoints, recorded in the audit log with their key.
//!
//! A call with an unknown key leaves no entry there, only a log line: outsiders must not be able to
//! fill the audit log. For the same reason a key leaves one entry a minute for each endpoint and
//! error code.

use axum::extract::{MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;

use crate::auth;
use crate::context::{client_address, request_id};
use crate::error::code_of;
use mediagate_core::app::App;
use mediagate_core::domain::audit::{self, ChangeAuthor};
use mediagate_model::error::Error;

/// Records a call that is answered with 401 or 403.
pub(crate) async fn log_refusal(State(app): State<App>, request: Request, next: Next) -> Response {
    // The endpoint's template, not the path: entries are limited for each endpoint, and with ids in
    // the path every call would count as a new endpoint.
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map(MatchedPath::as_str);
    let Some(route) = route.filter(|route| route.starts_with("/v1/admin/")) else {
        return next.run(request).await;
    };
    let call = format!("{} {route}", request.method());
    let (parts, body) = request.into_parts();
    // `next` consumes the request, and only its response shows whether there is something to
    // record.
    let request_parts = parts.clone();
    let response = next.run(Request::from_parts(parts, body)).await;
    let is_refused = matches!(
        response.status(),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
    );
    // The error is still pending here; `request_layer` writes its body further out.
    if is_refused && let Some(code) = code_of(&response) {
        let recording = async {
            let Some(key) = auth::holder(&request_parts, &app).await? else {
                return Ok(());
            };
            let address = client_address(&request_parts, &app);
            let author = ChangeAuthor::key(&key, request_id(&request_parts)?, address);
            audit::note_refused(&app, author, key.id, call, code).await
        };
        let recorded: Result<(), Error> = recording.await;
        // The request is refused whether or not the refusal could be recorded.
        if let Err(error) = recorded {
            tracing::warn!(inside = ?error.internal_cause(), "cannot record a rejected admin request");
        }
    }
    response
}
