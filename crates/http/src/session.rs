//! `/v1/session`: a key exchanged for a cookie, for pages of this service.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::{AllowedCaller, AnyKey};
use crate::cookie::CookieName;
use crate::error::ErrorResponse;
use mediagate_core::app::App;
use mediagate_core::domain::sessions;
use mediagate_model::account::{Caller, CallerCredential, Scope};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::secret::Secret;

/// A session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionObject {
    /// Always `session`.
    pub object: &'static str,
    /// CSRF token. Send it in the header `X-CSRF-Token` with each write that uses the cookie.
    pub csrf_token: String,
    /// Time when the session expires.
    pub expires_at: String,
    /// The handle of the account.
    pub account: String,
    /// The key's id.
    pub key_id: String,
    /// The key's name.
    pub key_name: String,
    /// The key's scopes.
    pub scopes: Vec<&'static str>,
}

/// An ended session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionEnded {
    /// Always `session.deleted`.
    pub object: &'static str,
    /// Always true.
    pub deleted: bool,
}

impl SessionObject {
    fn new(caller: &Caller, cookie: &Secret, expires_at: String) -> Self {
        Self {
            object: "session",
            csrf_token: sessions::csrf_token(cookie),
            expires_at,
            account: caller.account.handle.clone(),
            key_id: caller.key.id.to_string(),
            key_name: caller.key.name.clone(),
            scopes: caller.key.scopes.iter().copied().map(Scope::name).collect(),
        }
    }
}

/// Exchange the bearer key for a session cookie.
///
/// The cookie works wherever the key works, for 12 hours.
#[utoipa::path(post, path = "/v1/session", tag = "session",
    responses((status = 200, description = "The session. The response sets the cookie", body = SessionObject)))]
pub(super) async fn begin(
    allowed: AllowedCaller<AnyKey>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    // A session must not start another one, or it could be extended forever.
    if !allowed.headers.contains_key(header::AUTHORIZATION) {
        let message = "Send the API key in the Authorization header to start a session.";
        return Err(Error::plain(ErrorCode::MissingApiKey, message).into());
    }
    let author = allowed.actor();
    let session = sessions::begin(&app, &allowed.caller, author).await?;
    let object = SessionObject::new(
        &allowed.caller,
        &session.cookie,
        session.expires_at.rfc3339(),
    );
    let seconds = sessions::SESSION_TTL.as_secs();
    let cookie = CookieName::for_links(&allowed.links).set(session.cookie.expose(), seconds)?;
    Ok(([(header::SET_COOKIE, cookie)], Json(object)).into_response())
}

/// Get the current session and its CSRF token.
#[utoipa::path(get, path = "/v1/session", tag = "session",
    responses((status = 200, description = "The session", body = SessionObject)))]
pub(super) async fn get(
    allowed: AllowedCaller<AnyKey>,
) -> Result<Json<SessionObject>, ErrorResponse> {
    let caller = &allowed.caller;
    let cookie = CookieName::for_links(&allowed.links).read(&allowed.headers);
    // If a key was sent as well, it identified the caller, and the cookie was not checked.
    if let (Some(cookie), CallerCredential::Session { until }) = (cookie, caller.credential) {
        Ok(Json(SessionObject::new(caller, &cookie, until.rfc3339())))
    } else {
        let message = "The request has no session cookie.";
        Err(Error::plain(ErrorCode::MissingApiKey, message).into())
    }
}

/// End the current session.
#[utoipa::path(delete, path = "/v1/session", tag = "session",
    responses((status = 200, description = "The ended session", body = SessionEnded)))]
pub(super) async fn end(
    allowed: AllowedCaller<AnyKey>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let name = CookieName::for_links(&allowed.links);
    if let Some(cookie) = name.read(&allowed.headers) {
        let author = allowed.actor();
        sessions::end(&app, &allowed.caller, &cookie, author).await?;
    }
    let ended = SessionEnded {
        object: "session.deleted",
        deleted: true,
    };
    // Sent even without a session: `Max-Age=0` makes the browser drop whatever cookie it has.
    let cookie = name.set("", 0)?;
    Ok(([(header::SET_COOKIE, cookie)], Json(ended)).into_response())
}
