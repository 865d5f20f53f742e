//! Absolute URLs, as the caller may see them.

use std::sync::Arc;
use std::time::Duration;

use mediagate_config::MediaConfig;
use mediagate_media::url_signer::UrlSigner;
use mediagate_model::account::{ApiKey, Scope};
use mediagate_model::catalog::EMBEDDED;
use mediagate_model::clock::{Clock, Timestamp};
use mediagate_model::ids::AssetId;
use mediagate_model::media::MediaType;
use mediagate_model::music::Clip;
use mediagate_model::task::Task;

/// Shown instead of a provider that the operator hides.
pub(super) const HIDDEN: &str = "hosted";

/// Makes absolute URLs.
#[derive(Clone)]
pub struct Links {
    /// `https://media.example.com`, without a trailing slash.
    pub origin: String,
    rules: Arc<LinkRules>,
    /// Whether callers see the names of providers.
    shows_providers: bool,
    /// Whether media URLs are shown; if not, they are empty strings.
    shows_media: bool,
    /// Whether providers are named even if the operator hides them from callers.
    names_providers: bool,
}

/// The gateway's settings for links.
pub struct LinkRules {
    /// Whether `public_url` is set, and replaces the addresses of requests.
    pub has_public_url: bool,
    /// The host that serves media, if not the gateway's own.
    pub media: MediaConfig,
    pub media_ttl: Duration,
    pub signer: UrlSigner,
    pub clock: Clock,
}

impl Links {
    /// The URLs of a gateway that is reached at `origin`.
    pub fn new(rules: Arc<LinkRules>, origin: String, shows_providers: bool) -> Self {
        Self {
            origin,
            rules,
            shows_providers,
            shows_media: true,
            names_providers: false,
        }
    }

    /// The request's own address, unless `public_url` replaces it.
    pub fn requested_origin(&self) -> Option<String> {
        (!self.rules.has_public_url).then(|| self.origin.clone())
    }

    /// Like `self`, for a response to this key: a media URL opens the file to anyone, so only keys
    /// that may read get one.
    #[must_use]
    pub fn visible_to(self, key: &ApiKey) -> Self {
        Self {
            shows_media: key.may(Scope::TasksRead),
            names_providers: key.may(Scope::Admin),
            ..self
        }
    }

    /// Like `self`, with the names of providers if the reader `is_operator`.
    #[must_use]
    pub fn showing_providers(self, is_operator: bool) -> Self {
        Self {
            names_providers: is_operator,
            ..self
        }
    }

    /// The URL of a file that expires at `expires_at`, or never.
    pub fn media(&self, id: AssetId, media: MediaType, expires_at: Option<Timestamp>) -> String {
        if !self.shows_media {
            return String::new();
        }
        let expires_at = expires_at.unwrap_or_else(|| self.daily_expiry());
        let origin = self.rules.media.origin(&self.origin);
        let path = self.rules.signer.path(id, media, expires_at);
        format!("{origin}{path}")
    }

    /// The URLs of a clip's audio, cover and large cover; empty while it has none, and once they
    /// are removed.
    pub fn clip_urls(&self, clip: &Clip) -> [String; 3] {
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

    /// Expiry of a permanent file's URL: the end of a day at least `media_ttl` away, so that the
    /// URL stays the same all day and can be cached.
    fn daily_expiry(&self) -> Timestamp {
        const DAY: i64 = 86_400;
        let end = self.rules.clock.now().plus(self.rules.media_ttl);
        Timestamp::from_seconds((end.seconds() / DAY + 1) * DAY)
    }

    /// Whether a time has passed.
    pub(super) fn is_past(&self, time: Timestamp) -> bool {
        time <= self.rules.clock.now()
    }

    /// Whether a hosted provider's name may be shown.
    pub(super) fn shows_providers(&self) -> bool {
        self.names_providers || self.shows_providers
    }

    /// A task's provider, as far as the operator shows it.
    pub(super) fn shown_provider(&self, task: &Task) -> String {
        if task.provider == EMBEDDED || self.shows_providers() {
            task.provider.clone()
        } else {
            HIDDEN.to_owned()
        }
    }
}
