//! What callers see of tasks, clips and files, as JSON.
//!
//! Answers show records as they are now; a webhook's body is a record frozen when its task ended,
//! in the transaction that ends it. Built from model types alone: whoever asks reads the database.

pub mod attempt;
pub mod clip;
pub mod input;
pub mod music;
pub mod provenance;
pub mod task;
pub mod video;
pub mod words;

use crate::app::App;
use crate::clock::Timestamp;
use crate::ids::AssetId;
use crate::model::account::{ApiKey, Scope};
use crate::model::catalog::EMBEDDED;
use crate::model::media::MediaType;
use crate::model::music::Clip;
use crate::model::task::Task;

/// A provider that the operator does not show.
const HIDDEN: &str = "hosted";

/// Makes absolute URLs.
#[derive(Clone)]
pub struct Base {
    app: App,
    /// `https://media.example.com`, without a trailing slash.
    pub origin: String,
    /// Whether media URLs are shown; if not, they are empty strings.
    is_open: bool,
    /// Whether providers are named even if the operator hides them from callers.
    names_providers: bool,
}

impl Base {
    /// Of a gateway that is reached at `origin`.
    pub fn new(app: &App, origin: String) -> Self {
        Self {
            app: app.clone(),
            origin,
            is_open: true,
            names_providers: false,
        }
    }

    /// The request's own address, unless `public_url` stands for all.
    pub fn asked_origin(&self) -> Option<String> {
        let is_set = self.app.config.public_url.is_some();
        (!is_set).then(|| self.origin.clone())
    }

    /// Like `self`, for a response to this key: a media URL opens the file to anyone, so only keys
    /// that may read get one.
    #[must_use]
    pub fn as_told_to(self, key: &ApiKey) -> Self {
        Self {
            is_open: key.may(Scope::TasksRead),
            names_providers: key.may(Scope::Admin),
            ..self
        }
    }

    /// Like `self`, with the names of providers if this `is_operator`.
    #[must_use]
    pub fn showing_providers(self, is_operator: bool) -> Self {
        Self {
            names_providers: is_operator,
            ..self
        }
    }

    /// The URL of a file that expires at `expires_at`, or never.
    pub fn media(&self, id: AssetId, media: MediaType, expires_at: Option<Timestamp>) -> String {
        if !self.is_open {
            return String::new();
        }
        let expires_at = expires_at.unwrap_or_else(|| self.standing_expiry());
        let origin = self.app.config.media.origin(&self.origin);
        let path = self.app.secrets.signer.path(id, media, expires_at);
        format!("{origin}{path}")
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

    /// Expiry of a permanent file's URL: the end of a day at least `media_ttl` away, so that the
    /// URL stays the same all day and can be cached.
    fn standing_expiry(&self) -> Timestamp {
        const DAY: i64 = 86_400;
        let end = self.app.clock.now().plus(self.app.config.media_ttl);
        Timestamp::from_seconds((end.seconds() / DAY + 1) * DAY)
    }

    /// Whether a time is over.
    fn is_past(&self, time: Timestamp) -> bool {
        time <= self.app.clock.now()
    }

    /// Whether a hosted provider's name may be shown.
    fn shows_providers(&self) -> bool {
        self.names_providers || self.app.models.catalog.load().shows_providers()
    }

    /// A task's provider, as far as the operator shows it.
    fn shown_provider(&self, task: &Task) -> String {
        if task.provider == EMBEDDED || self.shows_providers() {
            task.provider.clone()
        } else {
            HIDDEN.to_owned()
        }
    }
}
