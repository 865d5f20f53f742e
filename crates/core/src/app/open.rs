//! Putting a gateway together from its settings.

use std::sync::Arc;

use crate::app::{App, Ctx, Models, Net, Parts, Process, Secrets, media_folder};
use crate::attendance::Attendance;
use crate::bell::{Bell, Wire};
use crate::caches::Caches;
use crate::hooks::Hooks;
use crate::limits::Limits;
use crate::records::LinkRules;
use mediagate_config::{Config, ConfigError, Database, MediaStore};
use mediagate_media::blob::Blobs;
use mediagate_media::engines::child::{self, Launcher};
use mediagate_media::fetch::Fetcher;
use mediagate_media::origin::{NotSigned, Origin};
use mediagate_media::seal::Seal;
use mediagate_media::signer::{self, Signer};
use mediagate_model::clock::Clock;
use mediagate_model::database::DatabaseOptions;
use mediagate_model::private;
use mediagate_model::secret::Secret;
use mediagate_store::Store;
use mediagate_telemetry::counters;

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
    Store(#[from] mediagate_store::StoreError),
    /// The media store cannot be opened.
    #[error(transparent)]
    Blobs(#[from] mediagate_media::blob::BlobError),
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
        counters::count();
        let store = data(&config)?;
        let secrets = Secrets::open(&config, &store)?;
        let bell = Bell::new(store.clone(), wire(&config)?);
        Ok(Self(Arc::new(Parts {
            blobs: blobs(&config, &store)?,
            net: Net {
                fetcher: Fetcher::new(&config.fetch).map_err(OpenError::Fetcher)?,
                hooks: Hooks::new(&config.webhooks, &config.fetch).map_err(OpenError::Fetcher)?,
            },
            models: Models::open(&config, clock.now())?,
            engines: Launcher::new(
                config.program.clone(),
                config.spool_path(),
                child::Limits::ENGINES,
            ),
            limits: Limits::new(&config, &store),
            caches: Caches::default(),
            link_rules: Arc::new(LinkRules {
                has_public_url: config.public_url.is_some(),
                media: config.media.clone(),
                media_ttl: config.media_ttl,
                signer: secrets.signer.clone(),
                clock: clock.clone(),
            }),
            bell,
            secrets,
            attendance: Attendance::new(clock.clone()),
            process: Process::default(),
            ctx: Ctx {
                config,
                clock,
                store,
            },
        })))
    }
}

fn blobs(config: &Config, store: &Store) -> Result<Blobs, OpenError> {
    match &config.media.store {
        MediaStore::Folder => media_folder::open(config, store),
        MediaStore::S3 { .. } => Ok(Blobs::open(&config.media, &config.media_path())?),
    }
}

/// The database, in a data folder that nobody else can read.
fn data(config: &Config) -> Result<Store, OpenError> {
    let in_data = |error| OpenError::Data {
        path: config.data.display().to_string(),
        error,
    };
    private::folder(&config.data).map_err(in_data)?;
    private::folder(&config.spool_path()).map_err(in_data)?;
    let store = match &config.database {
        Database::Sqlite => Store::sqlite(&config.sqlite_path(), config.migrate)?,
        Database::Postgres(url) => {
            let options = DatabaseOptions {
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
    Ok(store)
}

impl Secrets {
    fn open(config: &Config, store: &Store) -> Result<Self, OpenError> {
        let secrets = signing_secrets(config, store)?;
        let seal = Seal::new(&secrets);
        Ok(Self {
            signer: Signer::new(&secrets),
            origin: Origin::open(config, &secrets, store, &seal)?,
            seal,
        })
    }
}

/// How this process tells others of changes.
fn wire(config: &Config) -> Result<Wire, ConfigError> {
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
