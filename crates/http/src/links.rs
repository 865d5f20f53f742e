//! The URL by which this request reached the gateway, for absolute URLs in its response.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::uri::Authority;

use crate::context::SeesProviders;
use mediagate_core::app::App;
use mediagate_core::records::{Links, MediaGrant};

/// Makes the links of the response to a request, without media.
pub struct RequestLinks(pub Links);

/// Makes the links of the response to a caller who may read; for any other, without media. A
/// handler extracts it after the caller.
pub struct MediaLinks(pub Links);

impl FromRequestParts<App> for MediaLinks {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let RequestLinks(links) = RequestLinks::from_request_parts(parts, app).await?;
        // Set by the key check.
        let grant = parts.extensions.get::<MediaGrant>().copied();
        Ok(Self(match grant {
            Some(grant) => links.with_media(grant),
            None => links,
        }))
    }
}

impl FromRequestParts<App> for RequestLinks {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        // `public_url` wins, because the Host header is the caller's text.
        let origin = app
            .config
            .public_url
            .clone()
            .unwrap_or_else(|| origin(parts, app));
        // The key check comes first and sets this.
        let is_operator = parts.extensions.get::<SeesProviders>().is_some();
        Ok(Self(app.links(origin).showing_providers(is_operator)))
    }
}

fn origin(parts: &Parts, app: &App) -> String {
    let header_text = |name: &str| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    // HTTP/2 has `:authority` instead of a Host header.
    let host = header_text("host").or_else(|| parts.uri.authority().map(Authority::as_str));
    // The host becomes part of URLs. User information before an `@` could make them lead elsewhere.
    let host = host.filter(|host| {
        host.parse::<Authority>()
            .is_ok_and(|authority| !authority.as_str().contains('@'))
    });
    let host = host.map_or_else(|| app.config.listen.to_string(), ToOwned::to_owned);
    let peer = parts
        .extensions
        .get::<axum::extract::ConnectInfo<std::net::SocketAddr>>();
    // Anyone can send `X-Forwarded-Proto`; it is used only from a trusted proxy.
    let is_behind_proxy = peer.is_some_and(|peer| {
        app.config
            .trusted_proxies
            .iter()
            .any(|network| network.contains(&peer.0.ip().to_canonical()))
    });
    let scheme = match header_text("x-forwarded-proto") {
        Some("https") if is_behind_proxy => "https",
        _ => "http",
    };
    format!("{scheme}://{host}")
}
