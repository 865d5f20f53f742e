//! What every part of a running gateway shares.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use arc_swap::ArcSwap;
use tokio_util::sync::CancellationToken;

use crate::attendance::Attendance;
use crate::bell::{Bell, Wire};
use crate::blob::Blobs;
use crate::caches::Caches;
use crate::catalog::{Catalog, slips};
use crate::clock::Clock;
use crate::config::current::Current;
use crate::config::{Config, ConfigError, Database, ModelConfig, Settings};
use crate::engines::own_models::Shelf;
use crate::error::Error;
use crate::feed::Feed;
use crate::fetch::Fetcher;
use crate::hooks::Hooks;
use crate::limits::Limits;
use crate::origin::{NotSigned, Origin};
use crate::private;
use crate::seal::Seal;
use crate::secret::Secret;
use crate::signer::{self, Signer};
use crate::store::{Options, Store};
use crate::telemetry;
use crate::upstream::{self, Upstream};
use crate::uses::Uses;

/// The shared parts. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// The parts of an [`App`].
pub struct Parts {
    /// The settings.
    pub config: Config,
    /// The settings that were reloaded since.
    pub settings: Current,
    /// The present.
    pub clock: Clock,
    /// The database.
    pub store: Store,
    /// The files.
    pub blobs: Blobs,
    /// Media addresses.
    pub signer: Signer,
    /// Secrets in the database.
    pub seal: Seal,
    /// Marks of what is made here and of what comes in.
    pub origin: Origin,
    /// Callers' addresses.
    pub fetcher: Fetcher,
    /// Callers' webhooks.
    pub hooks: Hooks,
    /// The hosted providers; replaced when the settings change.
    pub upstream: Upstream,
    /// The operator's own models, by their files.
    pub shelf: Shelf,
    /// The models on offer; replaced when the settings change.
    pub catalog: ArcSwap<Catalog>,
    /// What this process allows itself and its callers at once.
    pub limits: Limits,
    pub caches: Caches,
    /// When keys were last used.
    pub uses: Uses,
    /// Who waits for what.
    pub bell: Bell,
    /// Which callers still wait for an answer.
    pub attendance: Attendance,
    /// Who follows what happens.
    pub feed: Feed,
    pub health: Health,
    pub stop: Stop,
}

/// What is known of this process's health.
#[derive(Default)]
pub struct Health {
    /// How much of the ledger did not add up at the last check.
    pub mismatches: AtomicU32,
    /// Whether anything can be written, and since when that is known.
    pub writable: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

/// How far this process is on its way down.
#[derive(Default)]
pub struct Stop {
    /// It is about to stop: a proxy should send no more.
    pub draining: CancellationToken,
    /// Requests in flight must end.
    pub closing: CancellationToken,
}

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
    /// Results cannot be signed.
    #[error("provenance: {0}")]
    Provenance(#[from] NotSigned),
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
            "provenance.pem",
        ] {
            private::file(&config.data.join(name)).map_err(in_data)?;
        }
        let secrets = signing_secrets(&config, &store)?;
        let seal = Seal::new(&secrets);
        let origin = Origin::open(&config, &secrets, &store, &seal)?;
        let sites = upstream::sites(&config.models, &config.fetch, None)?;
        let shelf = Shelf::new(&config.models_folder, config.onnx_library.clone());
        shelf.scan();
        let catalog = Catalog::new(&config.models, shelf.models(), &sites, clock.now())?;
        let bell = Bell::new(store.clone(), wire(&config)?);
        Ok(Self(Arc::new(Parts {
            blobs: Blobs::local(&config.media_path())?,
            catalog: ArcSwap::from_pointee(catalog),
            shelf,
            upstream: Upstream::new(sites),
            fetcher: Fetcher::new(&config.fetch).map_err(OpenError::Fetcher)?,
            hooks: Hooks::new(&config.webhooks, &config.fetch).map_err(OpenError::Fetcher)?,
            settings: Current::new(&config.models),
            limits: Limits::new(&config, &store),
            caches: Caches::default(),
            uses: Uses::default(),
            bell,
            attendance: Attendance::new(clock.clone()),
            feed: Feed::default(),
            health: Health::default(),
            stop: Stop::default(),
            config,
            clock,
            store,
            signer: Signer::new(&secrets),
            seal,
            origin,
        })))
    }

    /// Reads models, prices and providers anew; what is wrong changes nothing.
    /// Blocks as long as new models of the operator are being loaded.
    pub fn reload(&self, settings: &Settings) -> Result<(), ConfigError> {
        let models = Config::reload(settings)?;
        let before = self.upstream.sites();
        let sites = upstream::sites(&models, &self.config.fetch, Some(&before))?;
        self.shelf.scan();
        let catalog = Catalog::new(&models, self.shelf.models(), &sites, self.clock.now())?;
        self.upstream.replace(sites);
        self.catalog.store(Arc::new(catalog));
        self.warn_of_slips(&models);
        self.settings.applied(models);
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
}

impl Parts {
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

/// How this process tells others of changes.
fn wire(config: &Config) -> Result<Wire, ConfigError> {
    if let Some(address) = config.bell.nats()? {
        return Ok(Wire::Nats(address));
    }
    Ok(match &config.database {
        Database::Sqlite => Wire::None,
        Database::Postgres(_) => Wire::Notify(config.bell.database()?),
    })
}

/// The configured secrets, the newest first, or the one that was made at the first start: of one
/// machine in its data folder, of several in their database.
fn signing_secrets(config: &Config, store: &Store) -> Result<Vec<Vec<u8>>, OpenError> {
    let bytes = |secret: &Secret| secret.expose().as_bytes().to_vec();
    if !config.signing_secrets.is_empty() {
        return Ok(config.signing_secrets.iter().map(bytes).collect());
    }
    let path = config.signing_key_path();
    if config.database == Database::Sqlite {
        let own = signer::from_file(&path).map_err(OpenError::SigningKey)?;
        return Ok(vec![own]);
    }
    // What this machine signed by itself so far stays good, if nobody was first.
    let own = signer::secret(&path).map_err(OpenError::SigningKey)?;
    let kept = store.keep_secret(signer::to_text(&own))?;
    let kept = signer::from_text(&kept).map_err(OpenError::SigningKey)?;
    Ok(vec![kept])
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
