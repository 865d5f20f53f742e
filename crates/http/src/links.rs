//! The URL by which this request reached the gateway, for absolute URLs in its response.

use axum::http::request::Parts;
use axum::http::uri::Authority;

use mediagate_core::app::App;
use mediagate_core::records::Links;

/// Makes the links of the response to a request, without media.
pub(super) fn for_request(parts: &Parts, app: &App) -> Links {
    // `public_url` wins, because the Host header is the caller's text.
    let public_url = app.config.public_url.clone();
    app.links(public_url.unwrap_or_else(|| origin(parts, app)))
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
