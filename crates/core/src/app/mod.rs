//! The shared parts of a running gateway.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::bell::Bell;
use crate::caches::Caches;
use crate::event_feed::EventFeed;
use crate::intents::Intents;
use crate::limits::ProcessLimits;
use crate::local_dispatch::LocalDispatch;
use crate::moderation_client::ModerationClient;
use crate::records::{LinkRules, Links};
use crate::request_log::RequestLog;
use crate::server_identity::ServerIdentity;
use crate::webhook_client::WebhookClient;
use mediagate_config::Config;
use mediagate_media::blob::BlobStore;
use mediagate_media::engines::child::ChildLauncher;
use mediagate_media::fetch::UrlFetcher;
use mediagate_media::origin::OriginMarker;
use mediagate_media::seal::SecretSeal;
use mediagate_media::url_signer::UrlSigner;
use mediagate_model::clock::Clock;
use mediagate_model::error::Error;
use mediagate_store::Store;

mod media_folder;
mod models;
mod open;

pub use models::ModelRegistry;
pub use open::OpenError;

/// The shared parts. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<AppParts>);

/// The parts that suffice to read and write records. Functions that need no more take this, so that
/// their tests need no whole app.
pub struct Ctx {
    /// The settings that stay the same as long as the process runs.
    pub config: Config,
    /// The current time.
    pub clock: Clock,
    /// The database.
    pub store: Store,
}

#[cfg(test)]
impl Ctx {
    /// A context on `SQLite` in this folder, with a stopped clock, for tests of the domain.
    pub(crate) fn in_folder(data: &std::path::Path) -> Self {
        let settings = mediagate_config::Settings {
            data: Some(data.to_owned()),
            ..mediagate_config::Settings::default()
        };
        let config = Config::load(&settings).unwrap();
        let store = Store::sqlite(&config.sqlite_path(), config.migrate).unwrap();
        Self {
            config,
            clock: Clock::manual(),
            store,
        }
    }
}

/// The parts of an [`App`].
pub struct AppParts {
    ctx: Ctx,
    /// The media files.
    pub blobs: BlobStore,
    pub secrets: GatewaySecrets,
    pub net: OutboundClients,
    /// The models on offer; replaced when the settings change.
    pub models: ModelRegistry,
    /// Starts the processes in which engines run.
    pub engines: ChildLauncher,
    /// Limits on what this process and its callers may do at once.
    pub limits: ProcessLimits,
    pub caches: Caches,
    link_rules: Arc<LinkRules>,
    /// Wakes those who wait for changes.
    pub bell: Bell,
    /// Detects requests that repeat earlier ones.
    pub intents: Intents,
    /// The identity of this process among others.
    pub server: ServerIdentity,
    pub process: ProcessState,
}

/// The parts that use the gateway's own keys.
pub struct GatewaySecrets {
    /// Signs the URLs of media.
    pub signer: UrlSigner,
    /// Encrypts secrets in the database.
    pub seal: SecretSeal,
    /// Marks results, and reads the marks of files that come in.
    pub origin: OriginMarker,
}

/// Connections to URLs that callers name, and to services that the operator names.
pub struct OutboundClients {
    /// Fetches media of callers.
    pub fetcher: UrlFetcher,
    /// Sends webhooks to callers.
    pub hooks: WebhookClient,
    /// Asks moderation services.
    pub moderation: ModerationClient,
}

/// Health and shutdown state of this process.
#[derive(Default)]
pub struct ProcessState {
    /// Number of ledger mismatches found by the last check.
    pub mismatches: AtomicU32,
    /// What child processes are not kept from, because the kernel cannot; set at the start.
    pub unconfined: OnceLock<Vec<&'static str>>,
    /// Whether the data can be written to, and when that was last checked.
    pub writable: tokio::sync::Mutex<Option<(Instant, bool)>>,
    /// Cancelled when shutdown begins: a proxy should send no more requests.
    pub draining: CancellationToken,
    /// Cancelled when requests in flight must end.
    pub closing: CancellationToken,
    /// Subscribers to events.
    pub feed: EventFeed,
    /// Requests that wait to be logged.
    pub request_log: RequestLog,
    /// Hands new orders directly to workers of this process.
    pub local_dispatch: LocalDispatch,
}

impl AppParts {
    /// Makes the URLs of a gateway that is reached at `origin`.
    pub fn links(&self, origin: String) -> Links {
        let shows_providers = self.models.catalog.load().shows_providers();
        Links::new(self.link_rules.clone(), origin, shows_providers)
    }

    /// Runs work that keeps a core busy, off the async threads.
    pub async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        tokio::task::spawn_blocking(work)
            .await
            .map_err(Error::internal)
    }
}

impl std::ops::Deref for AppParts {
    type Target = Ctx;

    fn deref(&self) -> &Ctx {
        &self.ctx
    }
}

impl std::ops::Deref for App {
    type Target = AppParts;

    fn deref(&self) -> &AppParts {
        &self.0
    }
}
