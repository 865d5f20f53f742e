//! A gateway in this process: real settings, store, workers, router and server.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::endings;
use mediagate_core::domain::keys::{KeyMatch, NewKey, RevocationOptions};
use mediagate_core::domain::{accounts, keys};
use mediagate_http::server::{ConnectionLimits, Shutdown, serve};
use mediagate_model::clock::Clock;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::TaskId;
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::task::{Task, TaskFailure, TaskState};
use mediagate_store::tasks::TaskEnding;
use mediagate_store::{self as store, StoreError};
use mediagate_worker::WorkerPool;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use simulator::FaultProxy;

use crate::support::client::{Client, install_tls};
use crate::support::postgres::{TestDatabase, proxy_to};
use crate::support::{eventually, sound};

/// The owner of leases that a test script holds.
pub(crate) const SCRIPT: &str = "script";

/// The embedded models.
const MODELS: &str = r#"["animatic-1","stems-dsp-1"]"#;

/// How to build a gateway.
pub(crate) struct Builder {
    pub(crate) overrides: Settings,
    toml: String,
    clock: Clock,
    program: PathBuf,
    workers: bool,
    postgres: bool,
    proxied: bool,
}

/// A running gateway; also the caller that holds its first key.
pub(crate) struct TestGateway {
    pub(crate) app: App,
    pub(crate) client: Client,
    workers: Option<WorkerPool>,
    server: Option<tokio::task::JoinHandle<()>>,
    /// The settings that the gateway was started with.
    overrides: Settings,
    // Dropped last.
    home: Arc<Home>,
}

/// What outlives a gateway's restarts.
struct Home {
    proxy: Option<FaultProxy>,
    database: Option<TestDatabase>,
    data: tempfile::TempDir,
    /// What runs as a child process.
    program: PathBuf,
}

impl Deref for TestGateway {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Builder {
    pub(crate) fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.overrides);
        self
    }

    /// Lines of the configuration file.
    pub(crate) fn toml(mut self, text: &str) -> Self {
        text.clone_into(&mut self.toml);
        self
    }

    /// A clock that moves only when the test moves it.
    pub(crate) fn manual_clock(mut self) -> Self {
        self.clock = Clock::manual();
        self
    }

    /// With another program as its child processes.
    pub(crate) fn children_run(mut self, program: PathBuf) -> Self {
        self.program = program;
        self
    }

    /// Without workers: tasks stay queued until the test claims them.
    pub(crate) fn without_workers(mut self) -> Self {
        self.workers = false;
        self
    }

    pub(crate) fn on_postgres(mut self) -> Self {
        self.postgres = true;
        self
    }

    /// On this database, such as that of another gateway.
    pub(crate) fn on_database(mut self, url: &str) -> Self {
        self.overrides.database = Some(url.parse().unwrap());
        self
    }

    /// On a Postgres whose network the test can disturb.
    pub(crate) fn behind_proxy(self) -> Self {
        Self {
            postgres: true,
            proxied: true,
            ..self
        }
    }

    /// Loopback addresses may be fetched.
    pub(crate) fn allow_loopback(self) -> Self {
        self.set(|settings| {
            settings.fetch.allow_networks = Some(vec![
                "127.0.0.0/8".parse().unwrap(),
                "::1/128".parse().unwrap(),
            ]);
        })
    }

    pub(crate) async fn start(self) -> TestGateway {
        // A test that names a database means that one.
        let database = if self.postgres && self.overrides.database.is_none() {
            Some(TestDatabase::create().await)
        } else {
            None
        };
        Box::pin(self.start_with(database)).await
    }

    /// On this database of Postgres.
    pub(crate) async fn start_on(self, database: TestDatabase) -> TestGateway {
        Box::pin(self.start_with(Some(database))).await
    }

    async fn start_with(self, database: Option<TestDatabase>) -> TestGateway {
        install_tls();
        let data = tempfile::tempdir().unwrap();
        let mut url = database.as_ref().map(|database| database.url.clone());
        let mut proxy = None;
        if let (true, Some(direct)) = (self.proxied, &mut url) {
            let (fault_proxy, address) = proxy_to(direct).await;
            *direct = address;
            proxy = Some(fault_proxy);
        }
        let home = Arc::new(Home {
            proxy,
            database,
            data,
            program: self.program,
        });
        let file = home.file();
        std::fs::write(&file, &self.toml).unwrap();
        let overrides = Settings {
            config: Some(file),
            data: Some(home.data.path().join("data")),
            database: url
                .map(|url| url.parse().unwrap())
                .or(self.overrides.database),
            workers: Some(2),
            ..self.overrides
        };
        let mut gateway = TestGateway::open(overrides, self.clock, home).await;
        if self.workers {
            gateway.start_workers().await;
        }
        gateway.client.key = Some(gateway.new_key("default", NewKey::default()).await);
        gateway
    }
}

impl Home {
    fn file(&self) -> std::path::PathBuf {
        self.data.path().join("mediagate.toml")
    }
}

impl TestGateway {
    async fn open(overrides: Settings, clock: Clock, home: Arc<Home>) -> Self {
        let mut config = Config::load(&overrides).unwrap();
        // The running program is the test, not the gateway.
        config.program.clone_from(&home.program);
        let documented =
            config.brand == "musicgen" && config.persona_brand_field == "is_service_persona";
        let app = App::open(config, clock).unwrap();
        app.engines.end_children_at_refused_calls();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let limits = ConnectionLimits::new(8192, 1024, None, Vec::new());
        let shutdown = Shutdown {
            draining: app.process.draining.clone(),
            closing: app.process.closing.clone(),
            grace: Duration::from_secs(10),
        };
        let router = mediagate_http::router(&app);
        let server = tokio::spawn(serve(listener, router, limits, shutdown));
        let mut client = Client::new(&base, None);
        client.documented = documented;
        Self {
            client,
            app,
            workers: None,
            server: Some(server),
            overrides,
            home,
        }
    }

    pub(crate) fn builder() -> Builder {
        Builder {
            overrides: Settings::default(),
            toml: String::new(),
            clock: Clock::system(),
            workers: true,
            // The whole suite on Postgres, for example through a pooler.
            postgres: std::env::var("MEDIAGATE_TEST_ON").is_ok_and(|on| on == "postgres"),
            proxied: false,
            program: env!("CARGO_BIN_EXE_mediagate").into(),
        }
    }

    pub(crate) async fn start() -> Self {
        Self::builder().start().await
    }

    pub(crate) async fn start_workers(&mut self) {
        self.workers = Some(WorkerPool::start(&self.app).await);
    }

    /// Another replica on the same Postgres, without the proxy. It has a folder of its own
    /// and the same API key.
    pub(crate) async fn replica(&self) -> Self {
        let mut replica = self.replica_without_workers().await;
        replica.start_workers().await;
        replica
    }

    /// Like [`Self::replica`], without workers.
    pub(crate) async fn replica_without_workers(&self) -> Self {
        self.replica_with(|_| {}).await
    }

    /// A replica without workers and with some other settings.
    pub(crate) async fn replica_with(&self, set: impl FnOnce(&mut Settings)) -> Self {
        let mut overrides = self.overrides.clone();
        let database = self.home.database.as_ref().expect("it is on Postgres");
        overrides.database = Some(database.url.parse().unwrap());
        set(&mut overrides);
        let clock = self.app.clock.clone();
        let mut replica = Box::pin(Self::open(overrides, clock, self.home.clone())).await;
        replica.client.key.clone_from(&self.client.key);
        replica
    }

    /// The options with which a command works on the same data.
    pub(crate) fn options(&self) -> Vec<String> {
        let mut options = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            options.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        };
        let path = |path: &std::path::PathBuf| path.display().to_string();
        add("--config", self.overrides.config.as_ref().map(path));
        add("--data", self.overrides.data.as_ref().map(path));
        let database = self.home.database.as_ref();
        add("--database", database.map(|database| database.url.clone()));
        options
    }

    /// The network to the gateway's database.
    pub(crate) fn proxy(&self) -> &FaultProxy {
        self.home.proxy.as_ref().expect("it is behind a proxy")
    }

    /// Writes another configuration file and reloads it.
    pub(crate) fn reconfigure(&self, toml: &str) {
        std::fs::write(self.home.file(), toml).unwrap();
        let (app, now) = (&self.app, self.app.clock.now());
        app.models
            .reload(&self.overrides, &app.config, now)
            .unwrap();
    }

    /// Stops the gateway and starts it again on the same data, with another configuration
    /// if one is given. The address changes.
    pub(crate) async fn restart(self, toml: Option<&str>) -> Self {
        if let Some(toml) = toml {
            std::fs::write(self.home.file(), toml).unwrap();
        }
        let mut gateway = self.restart_without_workers().await;
        gateway.start_workers().await;
        gateway
    }

    /// Stops the gateway and starts it again on the same data. No workers run until the
    /// test starts them.
    pub(crate) async fn restart_without_workers(self) -> Self {
        let (overrides, home) = (self.overrides.clone(), self.home.clone());
        let key = self.client.key.clone();
        self.stop().await;
        let mut gateway = Box::pin(Self::open(overrides, Clock::system(), home)).await;
        gateway.client.key = key;
        gateway
    }

    /// Stops the gateway as the program does, and checks what it leaves behind.
    pub(crate) async fn stop(mut self) {
        self.app.process.draining.cancel();
        self.server.take().unwrap().await.unwrap();
        self.app.process.closing.cancel();
        if let Some(workers) = self.workers.take() {
            workers.stop().await;
        }
        // Only the last replica that stops checks the leases.
        if Arc::strong_count(&self.home) > 1 {
            return;
        }
        let leases = self
            .app
            .store
            .read(|conn| {
                conn.one(
                    "SELECT COUNT(*) FROM tasks WHERE state = 'running' AND lease_owner IS NOT NULL AND lease_owner <> 'script'",
                    &[],
                    |row| row.int(0),
                )
            })
            .await;
        assert_eq!(
            leases.unwrap_or_else(|e: StoreError| panic!("{e}")),
            Some(0),
            "a lease was not released"
        );
    }

    /// Makes a key of the account with this handle.
    pub(crate) async fn new_key(&self, handle: &str, new: NewKey) -> String {
        let account = accounts::ensure(&self.app, handle).await.unwrap();
        let (_, secret) = keys::create(&self.app, &account, new).await.unwrap();
        secret.expose().to_owned()
    }

    /// Revokes the key with this beginning; returns whether it was valid.
    pub(crate) async fn revoke(&self, key: &str) -> bool {
        let KeyMatch::Unique(id) = keys::find(&self.app, key).await.unwrap() else {
            panic!("no key, or several");
        };
        let author = ChangeAuthor::command("keys revoke").into();
        let options = RevocationOptions::default();
        let revoked = keys::revoke(&self.app, author, id, options).await;
        revoked.unwrap().1
    }

    /// A caller with a new key like this.
    pub(crate) async fn caller(&self, handle: &str, new: NewKey) -> Client {
        self.with_key(&self.new_key(handle, new).await)
    }

    /// Waits for a task's end.
    pub(crate) async fn finished(&self, task: &str) -> Value {
        finished(&self.client, task).await
    }

    /// Takes the next task as a worker would, without doing anything.
    pub(crate) async fn claim(&self) -> Task {
        let now = self.app.clock.now();
        let until = now.plus(Duration::from_hours(1));
        let claimed = self
            .app
            .store
            .write(move |conn| -> Result<_, Error> {
                store::workers::register(conn, SCRIPT, until)?;
                Ok(store::tasks::claim(conn, SCRIPT, MODELS, now)?)
            })
            .await;
        let task = claimed.unwrap().expect("a task to claim");
        self.app.bell.ring(task.id);
        task
    }

    /// Raises the progress of a claimed task.
    pub(crate) async fn progress(&self, task: TaskId, progress: u8) -> bool {
        let raised = self.app.store.write(move |conn| {
            store::tasks::raise_progress(conn, task, SCRIPT, (progress, false)).map_err(Error::from)
        });
        let raised = raised.await.unwrap();
        self.app.bell.ring(task);
        raised
    }

    /// Fails a claimed task.
    pub(crate) async fn fail(&self, task: TaskId, code: ErrorCode) {
        let now = self.app.clock.now();
        let ending = TaskEnding {
            state: TaskState::Failed,
            cost: MicroDollars::ZERO,
            money: ChargeState::Released,
            bill: None,
            output: None,
            failure: Some(TaskFailure {
                code,
                message: "The script says so.".into(),
            }),
        };
        let app = self.app.clone();
        let ended = self.app.store.write(move |conn| -> Result<bool, Error> {
            let task = store::tasks::by_id_any_account(conn, task)?.unwrap();
            let money = match task.money {
                ChargeState::Free => ChargeState::Free,
                _ => ChargeState::Released,
            };
            let ending = TaskEnding { money, ..ending };
            endings::end(conn, &app, &task, Some(SCRIPT), &ending, now, |_| Ok(()))
        });
        assert!(ended.await.unwrap());
        self.app.bell.ring(task);
    }

    /// Uploads a short song; returns its clip.
    pub(crate) async fn upload(&self, title: &str) -> Value {
        upload(&self.client, title, sound::wav(2, 1)).await
    }

    /// Submits a separation of a clip.
    pub(crate) async fn separate(&self, clip: &str, stem_task: &str) -> Value {
        let body = json!({"task": "gen_stem", "continue_clip_id": clip, "stem_task": stem_task});
        self.post("/musicgen/submit/music", &body).await.ok()
    }
}

/// Uploads a recording; returns its clip.
pub(crate) async fn upload(client: &Client, title: &str, bytes: Vec<u8>) -> Value {
    let form = Form::new()
        .part("file", Part::bytes(bytes).file_name("song.wav"))
        .text("title", title.to_owned());
    let request = client.request(reqwest::Method::POST, "/musicgen/uploads/audio");
    client.send(request.multipart(form)).await.ok()
}

/// Waits for a task's end.
pub(crate) async fn finished(client: &Client, task: &str) -> Value {
    eventually("the task ends", async || {
        let view = client.get(&format!("/v1/tasks/{task}?wait=30")).await.ok();
        let status = view["status"].as_str().unwrap();
        (!matches!(status, "queued" | "running")).then_some(view)
    })
    .await
}

impl Drop for TestGateway {
    /// What holds for every history: one end for each task, progress that never
    /// falls, and money that adds up.
    fn drop(&mut self) {
        self.app.process.draining.cancel();
        self.app.process.closing.cancel();
        if std::thread::panicking() {
            return;
        }
        let check = self.app.store.read(super::mismatches);
        let mismatches = check.now_or_never().unwrap_or_else(|| Ok(Vec::new()));
        assert_eq!(mismatches.unwrap(), [], "the ledger does not add up");
        let unsound_tasks = self.app.store.read(|conn| {
            conn.all(
                "SELECT t.id FROM tasks t WHERE
                   (t.state IN ('succeeded', 'failed', 'cancelled')) <>
                   ((SELECT COUNT(*) FROM task_events e WHERE e.task_id = t.id AND e.state IN ('succeeded', 'failed', 'cancelled')) = 1)
                 UNION SELECT a.task_id FROM task_events a JOIN task_events b ON a.task_id = b.task_id AND a.seq < b.seq
                   WHERE a.progress > b.progress",
                &[],
                |row| row.text(0),
            )
        });
        let miscounted_accounts = self.app.store.read(|conn| {
            conn.all(
                "SELECT a.id FROM accounts a WHERE
                   COALESCE((SELECT s.size_bytes FROM account_storage s WHERE s.account_id = a.id), 0) <>
                   (SELECT CAST(COALESCE(SUM(f.size_bytes), 0) AS BIGINT) FROM assets f
                    WHERE f.account_id = a.id AND f.removed_at IS NULL)",
                &[],
                |row| row.text(0),
            )
        });
        if let Some(rows) = miscounted_accounts.now_or_never() {
            let accounts = rows.unwrap_or_else(|error: StoreError| panic!("{error}"));
            assert!(
                accounts.is_empty(),
                "the storage of these accounts is miscounted: {accounts:?}"
            );
        }
        // SQLite answers at once; on Postgres the store's own tests check this.
        if let Some(rows) = unsound_tasks.now_or_never() {
            let tasks = rows.unwrap_or_else(|error: StoreError| panic!("{error}"));
            assert!(tasks.is_empty(), "tasks with unsound histories: {tasks:?}");
        }
    }
}
