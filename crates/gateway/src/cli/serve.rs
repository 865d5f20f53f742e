//! `mediagate serve`: the API, the console and the workers in one process; `mediagate worker`: only
//! workers.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::{CliError, confinement, probes, runtime, say};
use mediagate_config::{Config, ConfigError, Settings, file_mark};
use mediagate_core::app::App;
use mediagate_core::domain::accounts;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::clock_sync;
use mediagate_core::domain::keys;
use mediagate_core::domain::restored_backup;
use mediagate_core::domain::settings_reload;
use mediagate_http as http;
use mediagate_http::server::{ConnectionLimits, Shutdown};
use mediagate_http::wire::personas::PersonaRecord;
use mediagate_media::origin::OriginMarker;
use mediagate_model::secret::Secret;
use mediagate_model::task::MediaKind;
use mediagate_telemetry::logs;
use mediagate_telemetry::traces;
use mediagate_worker::WorkerPool;

/// How often the configuration file is checked for changes.
const FILE_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Options for starting a process.
#[derive(Debug, Args)]
pub(super) struct StartArgs {
    /// Hold the open tasks of hosted models, because the database was restored from a backup
    #[arg(long)]
    after_restore: bool,
}

pub(super) fn run(start: &StartArgs, settings: &Settings) -> Result<(), CliError> {
    let initial_mark = settings.config.as_deref().and_then(file_mark);
    let config = Config::load(settings)?;
    check(&config)?;
    check_listeners(&config)?;
    // Dropped last, so that the logs and traces of the shutdown are still written.
    let _logging = logs::start(&config)?;
    let _traces = traces::start(&config)?;
    let app = open(config)?;
    runtime()?.block_on(async {
        // First the clock, by which leases and expiry are checked. Then, before a worker can send
        // anything, orders of a restored backup are held: their providers may have them already.
        clock_sync::begin(&app).await?;
        restored_backup::check(&app, start.after_restore).await?;
        let serving = Box::pin(serve(app.clone(), settings.clone(), initial_mark));
        probes::with_probes(&app, serving).await?
    })
}

/// Opens the app, proves that its child processes are confined, and meanwhile reads the machine's
/// certificates.
fn open(config: Config) -> Result<App, CliError> {
    std::thread::scope(|scope| {
        scope.spawn(outbound::preload_certificates);
        confinement::open(config)
    })
}

/// Checks the settings that only servers and workers need.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    // Secrets are read here, so that a missing one ends the start instead of failing at its first
    // use.
    config.bell.check()?;
    config.media.key()?;
    logs::check(config)?;
    if PersonaRecord::has_field(&config.persona_brand_field) {
        return Err(ConfigError::Value {
            key: "persona_brand_field".into(),
            message: "is another field of personas".into(),
        });
    }
    match config.given_key()? {
        Some(key) if !keys::is_well_formed(key.expose()) => Err(ConfigError::Value {
            key: "first_key".into(),
            message: "must be an API key from `mediagate keys generate`".into(),
        }),
        _ => Ok(()),
    }
}

/// Checks the addresses of a server. A worker listens only at `metrics_listen`.
pub(super) fn check_listeners(config: &Config) -> Result<(), ConfigError> {
    let listen = config.listen;
    let is_taken = |metrics: SocketAddr| {
        let is_everywhere = metrics.ip().is_unspecified() || listen.ip().is_unspecified();
        // Port 0 is any free port.
        metrics.port() == listen.port()
            && metrics.port() != 0
            && (is_everywhere || metrics.ip() == listen.ip())
    };
    if config.metrics_listen.is_some_and(is_taken) {
        return Err(ConfigError::Value {
            key: "metrics_listen".into(),
            message: format!("must be another port than that of `listen`, {listen}"),
        });
    }
    Ok(())
}

/// `mediagate worker`: like `serve`, without a listener for requests.
pub(super) fn run_workers(start: &StartArgs, settings: &Settings) -> Result<(), CliError> {
    let initial_mark = settings.config.as_deref().and_then(file_mark);
    let config = Config::load(settings)?;
    check(&config)?;
    let _logging = logs::start(&config)?;
    let _traces = traces::start(&config)?;
    let app = open(config)?;
    runtime()?.block_on(async {
        clock_sync::begin(&app).await?;
        restored_backup::check(&app, start.after_restore).await?;
        watch_signals(app.process.draining.clone())?;
        watch_settings(app.clone(), settings.clone(), initial_mark)?;
        probes::with_probes(&app, work(&app)).await?;
        tracing::info!("stopped");
        Ok(())
    })
}

async fn work(app: &App) {
    let workers = WorkerPool::start(app).await;
    tracing::info!(slots = app.config.workers, "workers started");
    app.process.draining.cancelled().await;
    app.process.closing.cancel();
    workers.stop().await;
}

async fn serve(
    app: App,
    settings: Settings,
    initial_mark: Option<(std::time::SystemTime, u64)>,
) -> Result<(), CliError> {
    // Bound first, so that no key is created and printed if the address is in use.
    let listener = TcpListener::bind(app.config.listen)
        .await
        .map_err(|error| {
            CliError::Failed(format!("cannot listen on {}: {error}", app.config.listen))
        })?;
    let address = listener.local_addr().map_err(CliError::failed)?;
    let first_key = ensure_key(&app).await?;
    print_ready_message(&app, address, first_key.as_ref());
    app.models
        .warn_of_config_lints(&app.config.models, app.clock.now());
    log_signer(&app);
    tracing::info!(%address, "listening");
    // Until here a signal just ends the process, which has no work yet.
    watch_signals(app.process.draining.clone())?;
    watch_settings(app.clone(), settings, initial_mark)?;
    serve_until_drained(&app, listener).await;
    tracing::info!("stopped");
    Ok(())
}

/// Serves and works until `app.process.draining` is set and all work has ended.
pub(super) async fn serve_until_drained(app: &App, listener: TcpListener) {
    // Callers are accepted only once other processes see this one's lease. Without it, they would
    // take its callers for those of a dead process. Until then, callers wait in the listener's
    // backlog.
    let workers = WorkerPool::start(app).await;
    let closed = CancellationToken::new();
    let shutdown = Shutdown {
        draining: closed.clone(),
        closing: app.process.closing.clone(),
        grace: app.config.shutdown_grace,
    };
    // While `/readyz` fails, proxies send new requests elsewhere. Only then is the listener closed,
    // so that none of their requests is refused.
    let close = async {
        app.process.draining.cancelled().await;
        tokio::time::sleep(app.config.drain_delay).await;
        closed.cancel();
    };
    // Requests in flight may wait for tasks, so the workers continue until the server has ended.
    let limits = connection_limits(&app.config);
    let serve = http::server::serve(listener, http::router(app), limits, shutdown);
    tokio::join!(serve, close);
    app.process.closing.cancel();
    workers.stop().await;
}

/// The connection limits in the settings, after raising the limit of open files as far as possible.
fn connection_limits(config: &Config) -> ConnectionLimits {
    let files = getrlimit(Resource::Nofile);
    // The soft limit is often 1,024, for the sake of programs that use select(2). This one does
    // not.
    let raised = Rlimit {
        current: files.maximum,
        ..files
    };
    let files = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => files.maximum,
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit of open files");
            files.current
        }
    };
    let limits = ConnectionLimits::new(
        config.max_connections,
        config.max_connections_per_peer,
        files,
        config.trusted_proxies.clone(),
    );
    tracing::info!(max_connections = limits.max_total, "accepting connections");
    limits
}

/// Logs in one line whether results are signed, and by whom.
fn log_signer(app: &App) {
    if !OriginMarker::signs() {
        tracing::warn!(
            "results are not signed with Content Credentials: this program was built without the \
             feature `c2pa` (`cargo run --features c2pa`); packaged builds have it"
        );
    } else if app.secrets.origin.is_self_signed() {
        tracing::info!(
            "results are signed with a generated certificate that no authority vouches for; \
             set [provenance] certificate to use your own"
        );
    } else {
        tracing::info!("results are signed with the certificate in the settings");
    }
}

/// Creates the first account and key if there are none. Returns the key if it is to be printed.
async fn ensure_key(app: &App) -> Result<Option<Secret>, CliError> {
    let configured_key = app.config.given_key()?;
    let existing_keys = keys::list(app).await?;
    if !existing_keys.is_empty() {
        // A `first_key` that stays in the settings is normal. One that matches no key here is
        // probably a mistake.
        let sha256 = configured_key.map(|key| keys::hash(key.expose()));
        if sha256.is_some_and(|hash| !existing_keys.iter().any(|(key, _)| key.sha256 == hash)) {
            tracing::warn!("first_key is ignored: other keys exist");
        }
        return Ok(None);
    }
    let account = accounts::ensure_by(
        app,
        accounts::DEFAULT_HANDLE,
        ChangeAuthor::command("serve"),
    )
    .await?;
    if let Some(configured_key) = configured_key {
        keys::create_first(app, &account, &configured_key).await?;
        return Ok(None);
    }
    let new_key = keys::generate().map_err(CliError::failed)?;
    // Checked again inside, under a lock: several processes may start on one empty database, and
    // only one may print its key.
    let is_created = keys::create_first(app, &account, &new_key).await?;
    Ok(is_created.then_some(new_key))
}

/// Prints the service's URL and, once, the first key.
fn print_ready_message(app: &App, address: SocketAddr, first_key: Option<&Secret>) {
    let base = app
        .config
        .public_url
        .clone()
        .unwrap_or_else(|| format!("http://{address}"));
    let ready =
        format!("Mediagate is ready at {base}  (prices {base}/pricing, console {base}/console)\n");
    let catalog = app.models.catalog.load();
    let default = catalog.default_name(MediaKind::Video);
    let named = catalog.by_name(default);
    let is_video = named.is_some_and(|model| model.kind() == MediaKind::Video);
    let model = is_video.then_some(default);
    let first = first_key.map_or_else(String::new, |key| {
        first_key_message(&base, key.expose(), model)
    });
    // The key is not logged; if standard output is closed it is lost, and `mediagate keys create`
    // makes another.
    let _ = say(&(ready + &first));
}

/// The first key, and a call ready to paste: an order of the default video model, or the list of
/// models if there is none.
fn first_key_message(base: &str, key: &str, video_model: Option<&str>) -> String {
    let (path, order) = match video_model {
        Some(model) => {
            let model = serde_json::json!(model).to_string();
            // The shell's form of an apostrophe between apostrophes.
            let model = model.replace('\'', r"'\''");
            let messages = r#"[{"role":"user","content":"a lake at dawn, slow dolly in"}]"#;
            let order = format!(
                r#" -H 'Content-Type: application/json' -d '{{"model":{model},"messages":{messages}}}'"#
            );
            ("chat/completions", order)
        }
        None => ("models", String::new()),
    };
    format!(
        "\nYour API key, shown only once:\n\n  {key}\n\nTry it:\n\n  \
         curl {base}/v1/{path} -H 'Authorization: Bearer {key}'{order}\n\n"
    )
}

/// The first SIGTERM or SIGINT drains, the second exits at once.
fn watch_signals(draining: CancellationToken) -> Result<(), CliError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(CliError::failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
    #[expect(clippy::disallowed_methods, reason = "it ends the process")]
    tokio::spawn(async move {
        for signals_before in 0..2 {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if signals_before == 0 {
                tracing::info!("stopping; a second signal exits immediately");
                draining.cancel();
            }
        }
        // At once, without destructors: they would wait for exactly the work that the operator
        // wants to abort.
        std::process::exit(1);
    });
    Ok(())
}

/// Reloads models and prices at SIGHUP, and when the file or the models folder changes. An invalid
/// file is rejected and the old settings stay. `initial_mark` describes the file as it was read
/// at the start, which may be a while ago.
fn watch_settings(
    app: App,
    settings: Settings,
    initial_mark: Option<(std::time::SystemTime, u64)>,
) -> Result<(), CliError> {
    let mut hangup = signal(SignalKind::hangup()).map_err(CliError::failed)?;
    #[expect(clippy::disallowed_methods, reason = "it ends with the draining")]
    tokio::spawn(async move {
        let path = settings.config.clone();
        let current_marks = || {
            (
                path.as_deref().and_then(file_mark),
                app.models.installed_models.mark(),
            )
        };
        let mut loaded = (initial_mark, app.models.installed_models.mark());
        let mut last = loaded.clone();
        loop {
            tokio::select! {
                _ = hangup.recv() => {}
                () = tokio::time::sleep(FILE_POLL_INTERVAL) => {
                    let before = std::mem::replace(&mut last, current_marks());
                    // The file must look the same twice. While it is being written it may be
                    // incomplete, and an empty file would be valid and remove every price.
                    if last == loaded || last != before {
                        continue;
                    }
                }
                () = app.process.draining.cancelled() => return,
            }
            // Taken before the file is read: a change during the reload is noticed at the next
            // check.
            loaded = current_marks();
            last.clone_from(&loaded);
            if let Err(error) = settings_reload::reload(&app, &settings).await {
                tracing::error!(inside = ?error.internal_cause(), "cannot reload the settings");
            }
        }
    });
    Ok(())
}
