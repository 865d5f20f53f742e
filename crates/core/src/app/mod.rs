//! What every part of a running gateway shares.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::attendance::Attendance;
use crate::bell::Bell;
use crate::caches::Caches;
use crate::feed::Feed;
use crate::handover::Handover;
use crate::hooks::Hooks;
use crate::limits::Limits;
use crate::records::{LinkRules, Links};
use mediagate_config::Config;
use mediagate_media::blob::Blobs;
use mediagate_media::engines::child::Launcher;
use mediagate_media::fetch::Fetcher;
use mediagate_media::origin::Origin;
use mediagate_media::seal::Seal;
use mediagate_media::signer::Signer;
use mediagate_model::clock::Clock;
use mediagate_model::error::Error;
use mediagate_store::Store;

mod media_folder;
mod models;
mod open;

pub use models::Models;
pub use open::OpenError;

/// The shared parts. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Parts>);

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
pub struct Parts {
    ctx: Ctx,
    /// The files.
    pub blobs: Blobs,
    pub secrets: Secrets,
    pub net: Net,
    /// The models on offer; replaced when the settings change.
    pub models: Models,
    /// Processes in which engines run.
    pub engines: Launcher,
    /// What this process allows itself and its callers at once.
    pub limits: Limits,
    pub caches: Caches,
    link_rules: Arc<LinkRules>,
    /// Who waits for what.
    pub bell: Bell,
    /// Which callers still wait for an answer.
    pub attendance: Attendance,
    pub process: Process,
}

/// What is done with the gateway's own keys.
pub struct Secrets {
    /// Media addresses.
    pub signer: Signer,
    /// Secrets in the database.
    pub seal: Seal,
    /// Marks of what is made here and of what comes in.
    pub origin: Origin,
}

/// Connections to addresses that callers name.
pub struct Net {
    /// Their media.
    pub fetcher: Fetcher,
    /// Their webhooks.
    pub hooks: Hooks,
}

/// How well this process is, and how far on its way down.
#[derive(Default)]
pub struct Process {
    /// How much of the ledger did not add up at the last check.
    pub mismatches: AtomicU32,
    /// Whether anything can be written, and since when that is known.
    pub writable: tokio::sync::Mutex<Option<(Instant, bool)>>,
    /// It is about to stop: a proxy should send no more.
    pub draining: CancellationToken,
    /// Requests in flight must end.
    pub closing: CancellationToken,
    /// Who follows what happens.
    pub feed: Feed,
    /// Whether its workers take new orders at once.
    pub handover: Handover,
}

impl Parts {
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

impl std::ops::Deref for Parts {
    type Target = Ctx;

    fn deref(&self) -> &Ctx {
        &self.ctx
    }
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
