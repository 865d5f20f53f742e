//! The cookie of a session: its name, how it is set and read, and what a write with it needs.

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};

use crate::links;
use mediagate_core::app::App;
use mediagate_core::domain::sessions;
use mediagate_core::records::Links;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::secret::Secret;

/// Proves that a write comes from a page of this service.
const CSRF: &str = "x-csrf-token";

/// The name of the session's cookie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CookieName {
    /// Over TLS: because of the prefix, browsers refuse a cookie of this name if it is set by
    /// another host of the domain, over plain HTTP, or for a part of the paths.
    Host,
    /// Over plain HTTP, where browsers accept no cookie with the prefix.
    Plain,
}

impl CookieName {
    /// The name at a gateway with the origin of these links.
    pub(super) fn for_links(links: &Links) -> Self {
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

    pub(super) fn set(self, value: &str, seconds: u64) -> Result<HeaderValue, Error> {
        let secure = if self == Self::Host { "; Secure" } else { "" };
        let name = self.text();
        // `Strict` keeps the cookie out of requests that other sites start, `HttpOnly` keeps it
        // from scripts.
        let text =
            format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
        let mut value = HeaderValue::try_from(text).map_err(Error::internal)?;
        // Keeps the value out of debug output and of the compression tables of HTTP/2.
        value.set_sensitive(true);
        Ok(value)
    }

    /// The cookie of a request.
    pub(super) fn read(self, headers: &HeaderMap) -> Option<Secret> {
        let cookies = headers.get_all(header::COOKIE).iter();
        let pairs = cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'));
        let mut values =
            pairs.filter_map(|pair| pair.trim().strip_prefix(self.text())?.strip_prefix('='));
        values
            .next()
            .filter(|value| !value.is_empty())
            .map(Secret::new)
    }
}

/// The session's cookie.
pub(super) fn session_cookie(parts: &Parts, app: &App) -> Option<Secret> {
    CookieName::for_links(&links::for_request(parts, app)).read(&parts.headers)
}

/// The session's cookie. A write with it must come from a page of this service.
pub(super) fn csrf_checked_cookie(parts: &Parts, app: &App) -> Result<Option<Secret>, Error> {
    let Some(cookie) = session_cookie(parts, app) else {
        return Ok(None);
    };
    // `SameSite` is about sites, not origins: a page on another host of the domain can make the
    // browser send the cookie. Only pages of this origin can read the token.
    let is_write = !matches!(parts.method, Method::GET | Method::HEAD);
    let csrf_token = parts.headers.get(CSRF).map(HeaderValue::as_bytes);
    if is_write
        && !csrf_token.is_some_and(|csrf_token| sessions::is_csrf_token(&cookie, csrf_token))
    {
        let message = "A write request with a session requires the header X-CSRF-Token.";
        return Err(Error::plain(ErrorCode::CsrfTokenRequired, message));
    }
    Ok(Some(cookie))
}
