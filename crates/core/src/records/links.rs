//! Absolute URLs, as the caller may see them.

use std::sync::Arc;
use std::time::Duration;

use crate::callback_urls;
use mediagate_config::MediaConfig;
use mediagate_media::seal::SecretSeal;
use mediagate_media::url_signer::UrlSigner;
use mediagate_model::account::{ApiKey, Scope};
use mediagate_model::catalog::EMBEDDED;
use mediagate_model::clock::{Clock, Timestamp};
use mediagate_model::ids::AssetId;
use mediagate_model::media::MediaType;
use mediagate_model::music::{Clip, ClipOrigin};
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
    /// Which media the reader may have. The URLs of others are empty strings.
    media: MediaGrant,
    /// Whether providers are named even if the operator hides them from callers.
    names_providers: bool,
}

/// Which media and titles a record may show. Links begin with nothing: whoever builds a record for
/// a reader has to say why that reader may have more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaGrant(GrantedMedia);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum GrantedMedia {
    /// Nothing.
    Nothing,
    /// What the reader's own request makes, but not what it is made from.
    Made,
    /// Everything of the account.
    Everything,
}

impl MediaGrant {
    /// For a response to this key: a media URL opens the file to anyone, so only a key that may
    /// read gets one.
    pub fn for_reader(key: &ApiKey) -> Self {
        if key.may(Scope::TasksRead) {
            Self(GrantedMedia::Everything)
        } else {
            Self(GrantedMedia::Nothing)
        }
    }

    /// For the result of this key's own request. A key that may not read gets what it has made,
    /// but nothing of the clips and pictures that it named.
    pub fn for_maker(key: &ApiKey) -> Self {
        Self(Self::for_reader(key).0.max(GrantedMedia::Made))
    }

    /// For an operator's command, and for receivers of webhooks whose keys were checked.
    pub const fn cleared() -> Self {
        Self(GrantedMedia::Everything)
    }
}

/// The gateway's settings for links.
pub struct LinkRules {
    /// Whether `public_url` is set, and replaces the addresses of requests.
    pub has_public_url: bool,
    /// The host that serves media, if not the gateway's own.
    pub media: MediaConfig,
    pub media_ttl: Duration,
    pub signer: UrlSigner,
    /// Decrypts the URLs of callbacks.
    pub seal: SecretSeal,
    pub clock: Clock,
}

impl Links {
    /// The URLs of a gateway that is reached at `origin`, without media.
    pub fn new(rules: Arc<LinkRules>, origin: String, shows_providers: bool) -> Self {
        Self {
            origin,
            rules,
            shows_providers,
            media: MediaGrant(GrantedMedia::Nothing),
            names_providers: false,
        }
    }

    /// The request's own address, unless `public_url` replaces it.
    pub fn requested_origin(&self) -> Option<String> {
        (!self.rules.has_public_url).then(|| self.origin.clone())
    }

    /// The URL of an endpoint of this gateway.
    pub fn endpoint(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    /// The URL that is called when the task ends. None too if it cannot be decrypted: the signing
    /// secret was lost.
    pub fn callback(&self, task: &Task) -> Option<String> {
        let stored = task.callback.as_ref()?;
        callback_urls::decrypt(&self.rules.seal, task.account, stored)
            .inspect_err(
                |error| tracing::error!(task_id = %task.id, %error, "the callback's URL is lost"),
            )
            .ok()
    }

    /// Like `self`, with the media of this grant.
    #[must_use]
    pub fn with_media(self, grant: MediaGrant) -> Self {
        Self {
            media: grant,
            ..self
        }
    }

    /// Whether the reader may see everything of the account: titles and prompts too.
    pub(super) fn shows_everything(&self) -> bool {
        self.media.0 >= GrantedMedia::Everything
    }

    /// Whether the reader may see what its own request makes.
    pub fn shows_made(&self) -> bool {
        self.media.0 >= GrantedMedia::Made
    }

    /// Like `self`, with the names of providers if the reader `is_operator`.
    #[must_use]
    pub fn showing_providers(self, is_operator: bool) -> Self {
        Self {
            names_providers: is_operator,
            ..self
        }
    }

    /// The URL of a file that expires at `expires_at`, or never. Empty unless the reader may see
    /// everything.
    pub fn media(&self, id: AssetId, media: MediaType, expires_at: Option<Timestamp>) -> String {
        if !self.shows_everything() {
            return String::new();
        }
        self.signed(id, media, expires_at)
    }

    /// Like [`Self::media`], for a file that the reader's own request has made.
    pub fn made_media(
        &self,
        id: AssetId,
        media: MediaType,
        expires_at: Option<Timestamp>,
    ) -> String {
        if !self.shows_made() {
            return String::new();
        }
        self.signed(id, media, expires_at)
    }

    fn signed(&self, id: AssetId, media: MediaType, expires_at: Option<Timestamp>) -> String {
        let expires_at = expires_at.unwrap_or_else(|| self.daily_expiry());
        let origin = self.rules.media.origin(&self.origin);
        let path = self.rules.signer.path(id, media, expires_at);
        format!("{origin}{path}")
    }

    /// The URLs of a clip's audio, cover and large cover; empty while it has none, and once they
    /// are removed.
    pub fn clip_urls(&self, clip: &Clip) -> [String; 3] {
        Self::urls_of_clip(clip, |id, media, expires_at| {
            self.media(id, media, expires_at)
        })
    }

    /// Like [`Self::clip_urls`], for a clip that the reader's own request has made.
    pub fn made_clip_urls(&self, clip: &Clip) -> [String; 3] {
        Self::urls_of_clip(clip, |id, media, expires_at| {
            self.made_media(id, media, expires_at)
        })
    }

    /// The title of a clip that the reader's own request has made. A stem is named after its source,
    /// which the reader may not be allowed to read.
    pub(super) fn made_title(&self, clip: &Clip) -> String {
        let is_own = !matches!(clip.origin, ClipOrigin::Stem { .. });
        if self.shows_everything() || (self.shows_made() && is_own) {
            return clip.title.clone();
        }
        String::new()
    }

    fn urls_of_clip(
        clip: &Clip,
        url: impl Fn(AssetId, MediaType, Option<Timestamp>) -> String,
    ) -> [String; 3] {
        let files = clip.media.filter(|_| !clip.media_removed);
        files.map_or_else(Default::default, |files| {
            [
                (files.audio, files.audio_type),
                (files.image, MediaType::Png),
                (files.image_large, MediaType::Png),
            ]
            .map(|(id, media)| url(id, media, files.expires_at))
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
