//! The shared parts of a running gateway.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::bell::Bell;
use crate::caches::Caches;
use crate::event_feed::EventFeed;
use crate::intents::Intents;
use crate::limits::ProcessLimits;
use crate::local_dispatch::LocalDispatch;
use crate::records::{LinkRules, Links};
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

/// What is enough to read and write records. A verb that needs no more takes this, and its tests do
/// without the rest.
pub struct Ctx {
    /// The settings that hold as long as the process runs.
    pub config: Config,
    /// The present.
    pub clock: Clock,
    /// The database.
    pub store: Store,
}

#[cfg(test)]
impl Ctx {
    /// On `SQLite` in this folder, at a clock that stands still: for tests of verbs.
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
    /// The files.
    pub blobs: BlobStore,
    pub secrets: GatewaySecrets,
    pub net: OutboundClients,
    /// The models on offer; replaced when the settings change.
    pub models: ModelRegistry,
    /// Processes in which engines run.
    pub engines: ChildLauncher,
    /// What this process allows itself and its callers at once.
    pub limits: ProcessLimits,
    pub caches: Caches,
    link_rules: Arc<LinkRules>,
    /// Who waits for what.
    pub bell: Bell,
    /// Which requests repeat earlier ones.
    pub intents: Intents,
    /// This process among others.
    pub server: ServerIdentity,
    pub process: ProcessState,
}

/// What is done with the gateway's own keys.
pub struct GatewaySecrets {
    /// Media addresses.
    pub signer: UrlSigner,
    /// Secrets in the database.
    pub seal: SecretSeal,
    /// Marks of what is made here and of what comes in.
    pub origin: OriginMarker,
}

/// Connections to addresses that callers name.
pub struct OutboundClients {
    /// Their media.
    pub fetcher: UrlFetcher,
    /// Their webhooks.
    pub hooks: WebhookClient,
}

/// How well this process is, and how far on its way down.
#[derive(Default)]
pub struct ProcessState {
    /// How much of the ledger did not add up at the last check.
    pub mismatches: AtomicU32,
    /// Whether anything can be written, and since when that is known.
    pub writable: tokio::sync::Mutex<Option<(Instant, bool)>>,
    /// It is about to stop: a proxy should send no more.
    pub draining: CancellationToken,
    /// Requests in flight must end.
    pub closing: CancellationToken,
    /// Who follows what happens.
    pub feed: EventFeed,
    /// Whether its workers take new orders at once.
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
