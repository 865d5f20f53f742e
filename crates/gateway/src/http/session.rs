//! `/v1/session`: a key exchanged for a cookie, for pages of this service.

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::domain::sessions;
use crate::error::{Error, ErrorCode};
use crate::http::auth::{Allowed, AnyKey};
use crate::model::account::{Caller, Scope};
use crate::records::Base;
use crate::secret::Secret;

const COOKIE: &str = "mediagate_session";
/// Proves that a write comes from a page of this service.
const CSRF: &str = "x-csrf-token";

/// A session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionObject {
    /// Always `session`.
    pub object: &'static str,
    /// To be sent in the header `X-CSRF-Token` of each write with the cookie.
    pub csrf_token: String,
    /// When it ends.
    pub expires_at: String,
    /// The handle of the account.
    pub account: String,
    /// The key's id.
    pub key_id: String,
    /// The key's name.
    pub key_name: String,
    /// What the key may do.
    pub scopes: Vec<&'static str>,
}

/// A session that was ended.
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

/// Exchange the bearer key for a session cookie, which works wherever the key does, for 12 hours.
#[utoipa::path(post, path = "/v1/session", tag = "session",
    responses((status = 200, description = "The session; its cookie is set", body = SessionObject)))]
pub(super) async fn begin(
    allowed: Allowed<AnyKey>,
    headers: HeaderMap,
    base: Base,
    State(app): State<App>,
) -> Result<Response, Error> {
    if !headers.contains_key(header::AUTHORIZATION) {
        let message = "A session begins with the key in the Authorization header.";
        return Err(Error::plain(ErrorCode::MissingApiKey, message));
    }
    let begun = sessions::begin(&app, &allowed.caller).await?;
    let object = SessionObject::new(&allowed.caller, &begun.cookie, begun.expires_at.rfc3339());
    let seconds = sessions::LENGTH.as_secs();
    let cookie = set_cookie(&base, begun.cookie.expose(), seconds)?;
    Ok(([(header::SET_COOKIE, cookie)], Json(object)).into_response())
}

/// Get the session of the cookie, with its CSRF token.
#[utoipa::path(get, path = "/v1/session", tag = "session",
    responses((status = 200, description = "The session", body = SessionObject)))]
pub(super) async fn get(
    allowed: Allowed<AnyKey>,
    headers: HeaderMap,
) -> Result<Json<SessionObject>, Error> {
    let caller = &allowed.caller;
    let ends_at = caller
        .ends_at
        .filter(|_| !headers.contains_key(header::AUTHORIZATION));
    if let (Some(cookie), Some(at)) = (cookie(&headers), ends_at) {
        Ok(Json(SessionObject::new(caller, &cookie, at.rfc3339())))
    } else {
        let message = "The request has no session cookie.";
        Err(Error::plain(ErrorCode::MissingApiKey, message))
    }
}

/// End the session of the cookie.
#[utoipa::path(delete, path = "/v1/session", tag = "session",
    responses((status = 200, description = "The session has ended", body = SessionEnded)))]
pub(super) async fn end(
    _: Allowed<AnyKey>,
    headers: HeaderMap,
    base: Base,
    State(app): State<App>,
) -> Result<Response, Error> {
    if let Some(cookie) = cookie(&headers) {
        sessions::end(&app, &cookie).await?;
    }
    let ended = SessionEnded {
        object: "session.deleted",
        deleted: true,
    };
    let cookie = set_cookie(&base, "", 0)?;
    Ok(([(header::SET_COOKIE, cookie)], Json(ended)).into_response())
}

fn set_cookie(base: &Base, value: &str, seconds: u64) -> Result<HeaderValue, Error> {
    let secure = if base.origin.starts_with("https:") {
        "; Secure"
    } else {
        ""
    };
    let text =
        format!("{COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    let mut value = HeaderValue::try_from(text).map_err(Error::internal)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The session's cookie.
fn cookie(headers: &HeaderMap) -> Option<Secret> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let pairs = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    let mut found = pairs.filter_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='));
    found
        .next()
        .filter(|value| !value.is_empty())
        .map(Secret::new)
}

/// The session's cookie, of a request without a key. A write must come from a page of this service.
pub(super) fn of_request(parts: &Parts) -> Result<Option<Secret>, Error> {
    let Some(cookie) = cookie(&parts.headers) else {
        return Ok(None);
    };
    let is_write = !matches!(parts.method, Method::GET | Method::HEAD);
    let sent = parts.headers.get(CSRF).map(HeaderValue::as_bytes);
    if is_write && !sent.is_some_and(|sent| sessions::is_csrf_token(&cookie, sent)) {
        let message = "A write with a session needs the header X-CSRF-Token.";
        return Err(Error::plain(ErrorCode::CsrfTokenRequired, message));
    }
    Ok(Some(cookie))
}
