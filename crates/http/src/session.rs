//! `/v1/session`: a key exchanged for a cookie, for pages of this service.

use axum::Json;
use axum::extract::{FromRequestParts as _, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::{Allowed, AnyKey, Source};
use crate::error::ErrorResponse;
use crate::links::RequestLinks;
use mediagate_core::app::App;
use mediagate_core::domain::sessions;
use mediagate_core::records::Links;
use mediagate_model::account::{Caller, Credential, Scope};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::secret::Secret;

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
    source: Source,
    headers: HeaderMap,
    RequestLinks(links): RequestLinks,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    if !headers.contains_key(header::AUTHORIZATION) {
        let message = "A session begins with the key in the Authorization header.";
        return Err(Error::plain(ErrorCode::MissingApiKey, message).into());
    }
    let by = source.by(&allowed.caller);
    let begun = sessions::begin(&app, &allowed.caller, by).await?;
    let object = SessionObject::new(&allowed.caller, &begun.cookie, begun.expires_at.rfc3339());
    let seconds = sessions::LENGTH.as_secs();
    let cookie = CookieName::at(&links).set(begun.cookie.expose(), seconds)?;
    Ok(([(header::SET_COOKIE, cookie)], Json(object)).into_response())
}

/// Get the session of the cookie, with its CSRF token.
#[utoipa::path(get, path = "/v1/session", tag = "session",
    responses((status = 200, description = "The session", body = SessionObject)))]
pub(super) async fn get(
    allowed: Allowed<AnyKey>,
    headers: HeaderMap,
    RequestLinks(links): RequestLinks,
) -> Result<Json<SessionObject>, ErrorResponse> {
    let caller = &allowed.caller;
    let cookie = CookieName::at(&links).read(&headers);
    if let (Some(cookie), Credential::Session { until }) = (cookie, caller.credential) {
        Ok(Json(SessionObject::new(caller, &cookie, until.rfc3339())))
    } else {
        let message = "The request has no session cookie.";
        Err(Error::plain(ErrorCode::MissingApiKey, message).into())
    }
}

/// End the session of the cookie.
#[utoipa::path(delete, path = "/v1/session", tag = "session",
    responses((status = 200, description = "The session has ended", body = SessionEnded)))]
pub(super) async fn end(
    allowed: Allowed<AnyKey>,
    source: Source,
    headers: HeaderMap,
    RequestLinks(links): RequestLinks,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let name = CookieName::at(&links);
    if let Some(cookie) = name.read(&headers) {
        let by = source.by(&allowed.caller);
        sessions::end(&app, &allowed.caller, &cookie, by).await?;
    }
    let ended = SessionEnded {
        object: "session.deleted",
        deleted: true,
    };
    let cookie = name.set("", 0)?;
    Ok(([(header::SET_COOKIE, cookie)], Json(ended)).into_response())
}

/// What the session's cookie is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CookieName {
    /// By TLS: the prefix has browsers refuse a cookie of this name from another host of the domain,
    /// by plain HTTP, or for a part of the paths.
    Host,
    /// By plain HTTP, where browsers take no cookie with the prefix.
    Plain,
}

impl CookieName {
    /// At a gateway that is reached there.
    fn at(links: &Links) -> Self {
        if links.origin.starts_with("https:") {
            Self::Host
        } else {
            Self::Plain
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Host => "__Host-mediagate_session",
            Self::Plain => "mediagate_session",
        }
    }

    fn set(self, value: &str, seconds: u64) -> Result<HeaderValue, Error> {
        let secure = if self == Self::Host { "; Secure" } else { "" };
        let name = self.text();
        let text =
            format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
        let mut value = HeaderValue::try_from(text).map_err(Error::internal)?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// The cookie of a request.
    fn read(self, headers: &HeaderMap) -> Option<Secret> {
        let cookies = headers.get_all(header::COOKIE).iter();
        let pairs = cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'));
        let mut found =
            pairs.filter_map(|pair| pair.trim().strip_prefix(self.text())?.strip_prefix('='));
        found
            .next()
            .filter(|value| !value.is_empty())
            .map(Secret::new)
    }
}

/// The session's cookie.
pub(super) async fn cookie(parts: &mut Parts, app: &App) -> Option<Secret> {
    let Ok(RequestLinks(links)) = RequestLinks::from_request_parts(parts, app).await;
    CookieName::at(&links).read(&parts.headers)
}

/// The session's cookie, of a request without a key. A write must come from a page of this service.
pub(super) async fn of_request(parts: &mut Parts, app: &App) -> Result<Option<Secret>, Error> {
    let Some(cookie) = cookie(parts, app).await else {
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
