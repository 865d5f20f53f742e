//! Construction of a gateway from its settings.

use std::sync::Arc;

use crate::app::{
    App, AppParts, Ctx, GatewaySecrets, ModelRegistry, OutboundClients, ProcessState, media_folder,
};
use crate::bell::{Bell, BellTransport};
use crate::caches::Caches;
use crate::intents::Intents;
use crate::limits::ProcessLimits;
use crate::moderation_client::ModerationClient;
use crate::private_files;
use crate::records::LinkRules;
use crate::server_identity::ServerIdentity;
use crate::webhook_client::WebhookClient;
use mediagate_config::{Config, ConfigError, DatabaseTarget, MediaStore};
use mediagate_media::blob::BlobStore;
use mediagate_media::engines::child::{self, ChildLauncher};
use mediagate_media::fetch::UrlFetcher;
use mediagate_media::origin::{OriginMarker, SigningError};
use mediagate_media::seal::SecretSeal;
use mediagate_media::url_signer::{self, UrlSigner};
use mediagate_model::clock::Clock;
use mediagate_model::database::{DatabaseOptions, MigrationMode};
use mediagate_model::secret::Secret;
use mediagate_store::{Store, StoreError};
use mediagate_telemetry::counters;

/// Why a gateway cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data folder cannot be used.
    #[error("the data folder {path}: {error}")]
    Data {
        /// The path of the file or folder.
        path: String,
        /// The reason.
        error: std::io::Error,
    },
    /// The signing key cannot be read or created.
    #[error("the signing key: {0}")]
    SigningKey(std::io::Error),
    /// The database cannot be opened.
    #[error("the database: {0}")]
    Store(#[from] mediagate_store::StoreError),
    /// The database server cannot be reached, or refuses.
    #[error("the database at {servers}: {error}")]
    Server {
        /// Its hosts and ports.
        servers: String,
        /// The reason.
        error: mediagate_store::StoreError,
    },
    /// There is no database where the settings say, and none may be created.
    #[error(
        "there is no database {place}. Check --data, --database and --config; `mediagate serve` and `mediagate migrate` create one"
    )]
    NoDatabase {
        /// Where it was looked for.
        place: String,
    },
    /// The media store cannot be opened.
    #[error(transparent)]
    Blobs(#[from] mediagate_media::blob::BlobError),
    /// Results cannot be signed.
    #[error("provenance: {0}")]
    Provenance(#[from] SigningError),
    /// The HTTP client cannot be created.
    #[error("the HTTP client cannot be created: {0}")]
    Fetcher(String),
    /// The settings are invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl App {
    /// Opens everything that the settings name, and migrates the database.
    pub fn open(config: Config, clock: Clock) -> Result<Self, OpenError> {
        let engines = Self::engines(&config);
        Self::open_with(config, clock, engines)
    }

    /// Like [`Self::open`], for a database that exists: in a new one, at a mistyped place, commands
    /// would make keys that work nowhere.
    pub fn open_existing(config: Config, clock: Clock) -> Result<Self, OpenError> {
        check_database_exists(&config)?;
        Self::open(config, clock)
    }

    /// The launcher of child processes for these settings.
    pub fn engines(config: &Config) -> ChildLauncher {
        let limits = child::ChildLimits::ENGINES;
        ChildLauncher::new(config.program.clone(), config.spool_path(), limits)
    }

    /// Like [`Self::open`], with a launcher that is in use already.
    pub fn open_with(
        config: Config,
        clock: Clock,
        engines: ChildLauncher,
    ) -> Result<Self, OpenError> {
        counters::metrics_recorder();
        let store = open_database(&config)?;
        let secrets = GatewaySecrets::open(&config, &store)?;
        let bell = Bell::new(store.clone(), bell_transport(&config)?);
        let server = ServerIdentity::new();
        Ok(Self(Arc::new(AppParts {
            blobs: open_blobs(&config, &store)?,
            net: OutboundClients {
                fetcher: UrlFetcher::new(&config.fetch).map_err(OpenError::Fetcher)?,
                hooks: WebhookClient::new(&config.webhooks, &config.fetch)
                    .map_err(OpenError::Fetcher)?,
                moderation: ModerationClient::new(config.moderation.timeout)
                    .map_err(OpenError::Fetcher)?,
            },
            models: ModelRegistry::open(&config, clock.now())?,
            engines,
            limits: ProcessLimits::new(&config, &store),
            caches: Caches::default(),
            link_rules: Arc::new(LinkRules {
                has_public_url: config.public_url.is_some(),
                media: config.media.clone(),
                media_ttl: config.media_ttl,
                signer: secrets.signer.clone(),
                seal: secrets.seal.clone(),
                clock: clock.clone(),
            }),
            bell,
            secrets,
            intents: Intents::new(store.clone(), clock.clone(), server.name().to_owned()),
            server,
            process: ProcessState::default(),
            ctx: Ctx {
                config,
                clock,
                store,
            },
        })))
    }
}

fn open_blobs(config: &Config, store: &Store) -> Result<BlobStore, OpenError> {
    match &config.media.store {
        MediaStore::Folder => media_folder::open(config, store),
        MediaStore::S3 { .. } => Ok(BlobStore::open(&config.media, &config.media_path())?),
    }
}

fn check_database_exists(config: &Config) -> Result<(), OpenError> {
    match &config.database {
        DatabaseTarget::Sqlite if config.sqlite_path().exists() => Ok(()),
        DatabaseTarget::Sqlite => Err(OpenError::NoDatabase {
            place: format!("in {}", config.data.display()),
        }),
        DatabaseTarget::Postgres(url) => {
            let url = url.expose();
            let options = DatabaseOptions {
                connections: 2,
                migrate: MigrationMode::Never,
            };
            match Store::postgres(url, options) {
                Err(StoreError::TooOld { found: 0, .. }) => Err(OpenError::NoDatabase {
                    place: format!("of a gateway at {}", Store::servers_in(url)),
                }),
                // Other errors are those of opening it.
                _ => Ok(()),
            }
        }
    }
}

/// The database, in a data folder that other users cannot read.
fn open_database(config: &Config) -> Result<Store, OpenError> {
    let in_data = |error| OpenError::Data {
        path: config.data.display().to_string(),
        error,
    };
    private_files::folder(&config.data).map_err(in_data)?;
    private_files::folder(&config.spool_path()).map_err(in_data)?;
    let store = match &config.database {
        DatabaseTarget::Sqlite => Store::sqlite(&config.sqlite_path(), config.migrate)?,
        DatabaseTarget::Postgres(url) => {
            let options = DatabaseOptions {
                connections: config.database_connections,
                migrate: config.migrate,
            };
            let url = url.expose();
            Store::postgres(url, options).map_err(|error| OpenError::Server {
                servers: Store::servers_in(url),
                error,
            })?
        }
    };
    // Restricted here, after the store has created its files. Files that an earlier start created
    // with a looser umask are restricted too.
    for name in [
        "mediagate.db",
        "mediagate.db-wal",
        "mediagate.db-shm",
        "mediagate.db-turn",
        "signing.key",
        "provenance.pem",
    ] {
        private_files::file(&config.data.join(name)).map_err(in_data)?;
    }
    Ok(store)
}

impl GatewaySecrets {
    fn open(config: &Config, store: &Store) -> Result<Self, OpenError> {
        let secrets = signing_secrets(config, store)?;
        let seal = SecretSeal::new(&secrets);
        Ok(Self {
            signer: UrlSigner::new(&secrets),
            origin: OriginMarker::open(config, &secrets, store, &seal)?,
            seal,
        })
    }
}

/// How this process notifies others of changes.
fn bell_transport(config: &Config) -> Result<BellTransport, ConfigError> {
    Ok(match &config.database {
        DatabaseTarget::Sqlite => BellTransport::None,
        DatabaseTarget::Postgres(_) => BellTransport::Notify(config.bell.database()?),
    })
}

/// The configured secrets, the newest first, or the one generated at the first start, which is
/// stored in the data folder (one machine) or in the database (several).
fn signing_secrets(config: &Config, store: &Store) -> Result<Vec<Vec<u8>>, OpenError> {
    let bytes = |secret: &Secret| secret.expose().as_bytes().to_vec();
    if !config.signing_secrets.is_empty() {
        return Ok(config.signing_secrets.iter().map(bytes).collect());
    }
    let path = config.signing_key_path();
    if config.database == DatabaseTarget::Sqlite {
        let local_secret =
            url_signer::load_or_create_secret(&path).map_err(OpenError::SigningKey)?;
        return Ok(vec![local_secret]);
    }
    // Offers the secret with which this machine has signed so far. If no other process has stored
    // one yet, the URLs signed by it stay valid.
    let local_secret = url_signer::secret(&path).map_err(OpenError::SigningKey)?;
    let shared_secret = store.shared_signing_secret(url_signer::to_text(&local_secret))?;
    let shared_secret = url_signer::from_text(&shared_secret).map_err(OpenError::SigningKey)?;
    Ok(vec![shared_secret])
}
