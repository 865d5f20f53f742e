//! What every part of a running gateway shares.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio_util::sync::CancellationToken;

use crate::attendance::Attendance;
use crate::bell::Bell;
use crate::blob::Blobs;
use crate::clock::Clock;
use crate::config::{Config, ConfigError, Database, ModelConfig, Overrides, cores};
use crate::domain::catalog::Catalog;
use crate::domain::keys::KnownCaller;
use crate::domain::limits::RateLimits;
use crate::domain::readiness::Writable;
use crate::domain::room::Room;
use crate::domain::shares::{Stock, Turns};
use crate::domain::slips;
use crate::engines::own_models::Shelf;
use crate::error::Error;
use crate::fetch::Fetcher;
use crate::ids::TaskId;
use crate::model::task::Task;
use crate::private;
use crate::signer::{self, Signer};
use crate::store::{Options, Store};
use crate::telemetry;
use crate::upstream::{self, Upstream};

/// The shared parts. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// The parts of an [`App`].
pub struct Parts {
    /// The settings.
    pub config: Config,
    /// The present.
    pub clock: Clock,
    /// The database.
    pub store: Store,
    /// The files.
    pub blobs: Blobs,
    /// Media addresses.
    pub signer: Signer,
    /// Callers' addresses.
    pub fetcher: Fetcher,
    /// The hosted providers; replaced when the settings change.
    pub upstream: Upstream,
    /// The operator's own models, by their files.
    pub shelf: Shelf,
    /// The models on offer; replaced when the settings change.
    pub catalog: ArcSwap<Catalog>,
    /// Requests a minute.
    pub limits: RateLimits,
    /// Callers that were looked up a moment ago, by the hash of their secret.
    pub callers: moka::sync::Cache<String, KnownCaller>,
    /// Tasks that have ended, and so never change.
    pub ended: moka::sync::Cache<TaskId, Arc<Task>>,
    /// How long models usually take, as looked up a moment ago.
    pub usual_times: moka::sync::Cache<String, Option<Duration>>,
    /// Who waits for what.
    pub bell: Bell,
    /// Which callers still wait for an answer.
    pub attendance: Attendance,
    /// How much of the ledger did not add up at the last check.
    pub mismatches: AtomicU32,
    /// Where media that callers hand in is decoded.
    pub room: Room,
    /// Bytes of memory for bodies that arrive or wait to be worked on.
    pub bodies: Stock,
    /// Bounds the large bodies that are parsed at once.
    pub parsing: Arc<tokio::sync::Semaphore>,
    /// Uploads that an account may have under way, those that arrive or are
    /// fetched included.
    pub uploads: Turns,
    /// An account's own line for the room's recordings.
    pub recordings_of_account: Turns,
    /// Whether anything can be written, as found out a moment ago.
    pub writable: Writable,
    /// Set when this process is about to stop: a proxy should send no more.
    pub draining: CancellationToken,
    /// Set when requests in flight must end.
    pub closing: CancellationToken,
}

/// How long a look-up of a model's usual time holds.
const USUAL_TIMES: Duration = Duration::from_secs(5);

/// Recordings that are decoded at once.
const RECORDINGS: usize = 2;

/// Of those, an account's at once.
const RECORDINGS_OF_ACCOUNT: usize = 1;
/// Uploads of an account that are under way at once.
const UPLOADS: usize = 8;

/// Bytes of bodies in memory at once, of all accounts and of one.
const BODIES: u64 = 512_000_000;
const BODIES_OF_ACCOUNT: u64 = 128_000_000;

/// A gateway could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data folder cannot be used.
    #[error("the data folder {path}: {error}")]
    Data {
        /// Which.
        path: String,
        /// Why not.
        error: std::io::Error,
    },
    /// The signing key cannot be had.
    #[error("the signing key: {0}")]
    SigningKey(std::io::Error),
    /// The database cannot be opened.
    #[error("the database: {0}")]
    Store(#[from] crate::store::StoreError),
    /// The media folder cannot be opened.
    #[error(transparent)]
    Blobs(#[from] crate::blob::BlobError),
    /// There can be no HTTP client.
    #[error("no HTTP client can be made: {0}")]
    Fetcher(String),
    /// The settings name a model that is not there.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl App {
    /// Opens everything that the settings name, and migrates the database.
    pub fn open(config: Config, clock: Clock) -> Result<Self, OpenError> {
        telemetry::count();
        let in_data = |error| OpenError::Data {
            path: config.data.display().to_string(),
            error,
        };
        private::folder(&config.data).map_err(in_data)?;
        private::folder(&config.spool_path()).map_err(in_data)?;
        private::folder(&config.media_path()).map_err(in_data)?;
        let store = match &config.database {
            Database::Sqlite => Store::sqlite(&config.sqlite_path(), config.migrate)?,
            Database::Postgres(url) => {
                let options = Options {
                    connections: config.database_connections,
                    migrate: config.migrate,
                };
                Store::postgres(url.expose(), options)?
            }
        };
        for name in [
            "mediagate.db",
            "mediagate.db-wal",
            "mediagate.db-shm",
            "mediagate.db-turn",
            "signing.key",
        ] {
            private::file(&config.data.join(name)).map_err(in_data)?;
        }
        let signer = signer(&config, &store)?;
        let sites = upstream::sites(&config.models, &config.fetch, None)?;
        let shelf = Shelf::new(&config.models_folder, config.onnx_library.clone());
        shelf.scan();
        let catalog = Catalog::new(&config.models, shelf.models(), &sites, clock.now())?;
        Ok(Self(Arc::new(Parts {
            blobs: Blobs::local(&config.media_path())?,
            catalog: ArcSwap::from_pointee(catalog),
            shelf,
            upstream: Upstream::new(sites),
            fetcher: Fetcher::new(&config.fetch).map_err(OpenError::Fetcher)?,
            limits: RateLimits::default(),
            callers: moka::sync::Cache::new(10_000),
            ended: moka::sync::Cache::new(10_000),
            usual_times: moka::sync::Cache::builder()
                .max_capacity(1000)
                .time_to_live(USUAL_TIMES)
                .build(),
            bell: Bell::default(),
            mismatches: AtomicU32::new(0),
            attendance: Attendance::new(clock.clone()),
            room: Room::new((config.decoding_memory_mb as u64) << 20, RECORDINGS),
            recordings_of_account: Turns::new(RECORDINGS_OF_ACCOUNT),
            uploads: Turns::new(UPLOADS),
            bodies: Stock::new(BODIES, BODIES_OF_ACCOUNT),
            parsing: Arc::new(tokio::sync::Semaphore::new(cores())),
            writable: Writable::default(),
            draining: CancellationToken::new(),
            closing: CancellationToken::new(),
            config,
            clock,
            store,
            signer,
        })))
    }

    /// Reads models, prices and providers anew; what is wrong changes nothing.
    /// Blocks as long as new models of the operator are being loaded.
    pub fn reload(&self, settings: &Overrides) -> Result<(), ConfigError> {
        let models = Config::reload(settings)?;
        let before = self.upstream.sites();
        let sites = upstream::sites(&models, &self.config.fetch, Some(&before))?;
        self.shelf.scan();
        let catalog = Catalog::new(&models, self.shelf.models(), &sites, self.clock.now())?;
        self.upstream.replace(sites);
        self.catalog.store(Arc::new(catalog));
        self.warn_of_slips(&models);
        Ok(())
    }

    /// Logs what `config check` would refuse. Nothing is kept from starting by
    /// it: the settings can be read, and what is known of a provider may be old.
    pub fn warn_of_slips(&self, models: &ModelConfig) {
        let (sites, catalog) = (self.upstream.sites(), self.catalog.load());
        for slip in slips::find(models, &sites, &catalog, self.clock.now()) {
            tracing::warn!("{slip}");
        }
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

/// Signs with the configured secret, or with one that was made at the first start:
/// of one machine in its data folder, of several in their database.
fn signer(config: &Config, store: &Store) -> Result<Signer, OpenError> {
    if let Some(secret) = &config.signing_secret {
        return Ok(Signer::new(secret.expose().as_bytes()));
    }
    let path = config.signing_key_path();
    if config.database == Database::Sqlite {
        return Signer::from_file(&path).map_err(OpenError::SigningKey);
    }
    // What this machine signed by itself so far stays good, if nobody was first.
    let own = signer::secret(&path).map_err(OpenError::SigningKey)?;
    let kept = store.keep_secret(signer::to_text(&own))?;
    let kept = signer::from_text(&kept).map_err(OpenError::SigningKey)?;
    Ok(Signer::new(&kept))
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
