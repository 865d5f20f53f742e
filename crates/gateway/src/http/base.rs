//! The URL by which this request reached the gateway, for absolute URLs in its response.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::uri::Authority;

use crate::app::App;
use crate::clock::Timestamp;
use crate::domain::assets;
use crate::ids::AssetId;
use crate::model::account::{ApiKey, Scope};
use crate::model::media::MediaType;
use crate::model::music::Clip;

/// Makes absolute URLs.
#[derive(Clone)]
pub struct Base {
    app: App,
    /// `https://media.example.com`, without a trailing slash.
    pub origin: String,
    /// Whether media URLs are shown; if not, they are empty strings.
    is_open: bool,
}

impl Base {
    /// Like `self`, for a response to this key: a media URL opens the file to anyone, so only keys
    /// that may read get one.
    #[must_use]
    pub fn as_told_to(self, key: &ApiKey) -> Self {
        Self {
            is_open: key.may(Scope::TasksRead),
            ..self
        }
    }

    /// The URL of a file that expires at `expires_at`, or never.
    pub fn media(&self, id: AssetId, media: MediaType, expires_at: Option<Timestamp>) -> String {
        if !self.is_open {
            return String::new();
        }
        let expires_at = expires_at.unwrap_or_else(|| assets::standing_expiry(&self.app));
        format!(
            "{}{}",
            self.origin,
            self.app.signer.path(id, media, expires_at)
        )
    }

    /// The addresses of a clip's audio, cover and large cover; empty once they are
    /// removed, and while it has none.
    pub fn files(&self, clip: &Clip) -> [String; 3] {
        let files = clip.media.filter(|_| !clip.media_removed);
        files.map_or_else(Default::default, |files| {
            [
                (files.audio, files.audio_type),
                (files.image, MediaType::Png),
                (files.image_large, MediaType::Png),
            ]
            .map(|(id, media)| self.media(id, media, files.expires_at))
        })
    }
}

impl FromRequestParts<App> for Base {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let origin = app
            .config
            .public_url
            .clone()
            .unwrap_or_else(|| origin(parts, app));
        Ok(Self {
            app: app.clone(),
            origin,
            is_open: true,
        })
    }
}

fn origin(parts: &Parts, app: &App) -> String {
    let text = |name: &str| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let host = text("host").or_else(|| parts.uri.authority().map(Authority::as_str));
    let host = host.filter(|host| {
        host.parse::<Authority>()
            .is_ok_and(|authority| !authority.as_str().contains('@'))
    });
    let host = host.map_or_else(|| app.config.listen.to_string(), ToOwned::to_owned);
    let peer = parts
        .extensions
        .get::<axum::extract::ConnectInfo<std::net::SocketAddr>>();
    let behind_proxy = peer.is_some_and(|peer| {
        app.config
            .trusted_proxies
            .iter()
            .any(|network| network.contains(&peer.0.ip().to_canonical()))
    });
    let scheme = match text("x-forwarded-proto") {
        Some("https") if behind_proxy => "https",
        _ => "http",
    };
    format!("{scheme}://{host}")
}
