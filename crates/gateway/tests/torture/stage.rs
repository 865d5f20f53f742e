//! The setting of a run: providers, a gateway's data, keys, and the address
//! at which callers find the gateway while it crashes and restarts.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use simulator::{Reaction, ReceivedPost, Simulator, WebhookReceiver};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::db::Database;
use crate::knobs::DatabaseKind;
use crate::postgres::TestDatabase;
use crate::program::{FailedStart, Server, Start, output, program};
use crate::{settings, sound};

/// The prepaid account.
pub(crate) const PREPAID: &str = "prepaid";
/// What a key with a budget may spend.
const BUDGET: &str = "6.00";
/// The price above which orders of the first key wait for approval: films of `film-safe` cost more.
const APPROVE_ABOVE: &str = "0.36";
/// What the prepaid account is given at a time.
pub(crate) const CREDIT: &str = "5.00";

/// Where the gateway answers now, if it does.
#[derive(Debug, Clone)]
pub(crate) struct PublishedAddress(Arc<watch::Sender<Option<String>>>);

impl PublishedAddress {
    pub(crate) fn none() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    pub(crate) fn publish(&self, base: &str) {
        self.0.send_replace(Some(base.to_owned()));
    }

    pub(crate) fn withdraw(&self) {
        self.0.send_replace(None);
    }

    pub(crate) fn current(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Waits until the gateway answers; returns its address.
    pub(crate) async fn wait_until_published(&self) -> String {
        let mut receiver = self.0.subscribe();
        let address = receiver.wait_for(Option::is_some).await.unwrap();
        address.clone().unwrap()
    }
}

/// A key, and the clips of its account.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) secret: String,
    /// Clips to separate.
    pub(crate) clips: Vec<String>,
    /// A clip that a provider made.
    pub(crate) song: String,
}

/// A gateway's data, and its providers.
pub(crate) struct Stage {
    pub(crate) simulator: Arc<Simulator>,
    pub(crate) folder: TempDir,
    pub(crate) database: Database,
    pub(crate) keys: Vec<Key>,
    /// A key that approves and rejects the orders of every account.
    pub(crate) approver: String,
    pub(crate) address: PublishedAddress,
    pub(crate) recording: Vec<u8>,
    /// Receives the webhook of every task's end.
    pub(crate) receiver: Arc<WebhookReceiver>,
    /// The secrets of its webhooks.
    pub(crate) secrets: Vec<String>,
    settings: settings::GatewaySettings,
    /// Whether a process had a wrong clock. Events from a clock far behind are deleted once it is
    /// right.
    pub(crate) had_a_wrong_clock: bool,
}

impl Stage {
    /// A new gateway, with keys and clips.
    pub(crate) async fn prepare(database_kind: DatabaseKind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = match database_kind {
            DatabaseKind::Sqlite => Database::Sqlite(folder.path().join("data/mediagate.db")),
            DatabaseKind::Postgres => Database::Postgres(TestDatabase::create().await),
        };
        let address = match &database {
            Database::Sqlite(_) => "sqlite",
            Database::Postgres(database) => &database.url,
            Database::Elsewhere(url) => url,
        };
        let gateway_settings = settings::GatewaySettings {
            database: address.to_owned(),
            ..settings::GatewaySettings::default()
        };
        Self::with_settings(folder, database, &gateway_settings).await
    }

    /// A new gateway with these settings, in a folder for its data.
    pub(crate) async fn with_settings(
        folder: TempDir,
        database: Database,
        settings: &settings::GatewaySettings,
    ) -> Self {
        let simulator = Arc::new(Simulator::start().await.unwrap());
        let mut stage = Self {
            simulator,
            folder,
            database,
            keys: Vec::new(),
            approver: String::new(),
            address: PublishedAddress::none(),
            recording: sound::wav(1, 1),
            receiver: Arc::new(
                WebhookReceiver::start_with_script(flaky_receiver())
                    .await
                    .unwrap(),
            ),
            secrets: Vec::new(),
            settings: settings.clone(),
            had_a_wrong_clock: false,
        };
        stage.write_settings();
        let server = stage.must_start().await;
        stage.make_keys(&server.base).await;
        drop(server.stop().await);
        stage
    }

    /// Another gateway with a copy of this one's data; on `SQLite`.
    pub(crate) fn copy(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy_folder(self.folder.path(), folder.path());
        Self {
            simulator: self.simulator.clone(),
            database: Database::Sqlite(folder.path().join("data/mediagate.db")),
            folder,
            keys: self.keys.clone(),
            approver: self.approver.clone(),
            address: PublishedAddress::none(),
            recording: self.recording.clone(),
            receiver: self.receiver.clone(),
            secrets: self.secrets.clone(),
            settings: self.settings.clone(),
            had_a_wrong_clock: self.had_a_wrong_clock,
        }
    }

    /// A copy of its folder, as a backup or a second machine has it; it delivers no webhooks.
    pub(crate) async fn silent_copy(&self) -> Self {
        let copy = self.copy();
        if let Database::Sqlite(path) = &copy.database {
            let path = path.clone();
            let disable_webhooks = move || {
                let store = rusqlite::Connection::open(path).unwrap();
                store
                    .execute("UPDATE webhook_endpoints SET enabled = 0", [])
                    .unwrap();
            };
            tokio::task::spawn_blocking(disable_webhooks).await.unwrap();
        }
        copy
    }

    /// Whether the data is a folder that can be copied.
    pub(crate) fn can_be_copied(&self) -> bool {
        matches!(self.database, Database::Sqlite(_))
    }

    fn write_settings(&self) {
        let toml = settings::toml(&self.simulator, &self.settings);
        std::fs::write(self.folder.path().join("mediagate.toml"), toml).unwrap();
    }

    /// Changes the providers' addresses and keys, or changes them back, for the next start.
    pub(crate) fn move_providers(&mut self) {
        self.settings.is_moved = !self.settings.is_moved;
        self.write_settings();
    }

    /// Turns idempotency keys off at one provider and on at the other, or back, for the next start.
    pub(crate) fn flip_options(&mut self) {
        self.settings.is_flipped = !self.settings.is_flipped;
        self.write_settings();
    }

    /// Open orders that the current settings match. The others wait.
    pub(crate) async fn count_open_here(&self) -> u64 {
        let (safe, plain) = if self.settings.is_flipped {
            (0, 1)
        } else {
            (1, 0)
        };
        // An accepted job is polled whether a key went out with its order or not.
        let is_matched = format!(
            "{} AND (state = 'accepted' OR provider NOT IN ('safe', 'plain') OR has_key IS NULL
             OR has_key = CASE provider WHEN 'safe' THEN {safe} ELSE {plain} END)",
            open_with(self.settings.is_moved)
        );
        self.database.count("submissions", &is_matched).await
    }

    /// Open orders that were made with the providers' other addresses and keys if `is_moved`, else
    /// with the first.
    pub(crate) async fn count_open_with(&self, is_moved: bool) -> u64 {
        self.database
            .count("submissions", &open_with(is_moved))
            .await
    }

    fn data_args(&self) -> [String; 4] {
        let path = |name: &str| self.folder.path().join(name).to_str().unwrap().to_owned();
        [
            "--config".into(),
            path("mediagate.toml"),
            "--data".into(),
            path("data"),
        ]
    }

    /// Starts the gateway; its address is not published.
    pub(crate) async fn start(&self, start: &Start) -> Result<Server, FailedStart> {
        let mut args = vec!["serve".to_owned()];
        args.extend(self.data_args());
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Server::start(&args, start).await
    }

    /// Starts the gateway; panics if it fails.
    pub(crate) async fn must_start(&self) -> Server {
        match self.start(&Start::default()).await {
            Ok(server) => server,
            Err(died) => panic!("the gateway does not start: {}\n{}", died.status, died.log),
        }
    }

    /// Runs another command on the same data.
    pub(crate) async fn command(&self, args: &[&str]) -> Output {
        let mut full_args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        full_args.extend(self.data_args());
        let full_args: Vec<&str> = full_args.iter().map(String::as_str).collect();
        output(program(&full_args)).await
    }

    async fn command_output(&self, args: &[&str]) -> String {
        let output = self.command(args).await;
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    async fn key(&self, options: &[&str]) -> String {
        let mut args = vec!["keys", "create", "--name", "torture", "--rpm", "1000000"];
        args.extend(["--max-running", "100000"]);
        args.extend(options);
        self.command_output(&args).await
    }

    /// Three keys: one whose dearest orders wait for approval, one with a budget on the same account,
    /// and one of a prepaid account. And one that approves.
    async fn make_keys(&mut self, base: &str) {
        let unlimited = self
            .key(&["--account", "torture", "--approve-above", APPROVE_ABOVE])
            .await;
        self.approver = self.key(&["--scope", "admin", "--scope", "approve"]).await;
        let limited = self
            .key(&["--account", "torture", "--budget", BUDGET])
            .await;
        self.command_output(&["accounts", "create", PREPAID, "--prepaid"])
            .await;
        self.top_up().await;
        let prepaid = self.key(&["--account", PREPAID]).await;
        for (secret, second_secret) in [(unlimited, Some(limited)), (prepaid, None)] {
            let endpoint_order = json!({"url": self.receiver.url("/webhook")});
            let request = client()
                .post(format!("{base}/v1/webhooks"))
                .json(&endpoint_order);
            let endpoint = ok(request.bearer_auth(&secret)).await;
            self.secrets
                .push(endpoint["secret"].as_str().unwrap().to_owned());
            let (clips, song) = create_clips(base, &secret, &self.recording).await;
            let key = Key {
                secret,
                clips,
                song,
            };
            let second_key = second_secret.map(|secret| Key {
                secret,
                ..key.clone()
            });
            self.keys.extend(std::iter::once(key).chain(second_key));
        }
    }

    /// Adds the usual credit to the prepaid account.
    pub(crate) async fn top_up(&self) {
        self.credit(CREDIT).await;
    }

    /// Adds this credit to the prepaid account.
    pub(crate) async fn credit(&self, amount: &str) {
        self.command_output(&["accounts", "credit", PREPAID, amount])
            .await;
    }

    /// Open tasks and waiting deliveries.
    pub(crate) async fn count_open(&self) -> u64 {
        let tasks = self.database.count(
            "tasks",
            "state IN ('queued', 'running') OR (state = 'cancelled' AND money = 'held')",
        );
        let deliveries = self
            .database
            .count("webhook_deliveries", "state = 'waiting'");
        tasks.await + deliveries.await
    }

    /// Puts a new key in the place of the one whose budget is used up.
    pub(crate) async fn new_budget(&mut self) {
        let secret = self
            .key(&["--account", "torture", "--budget", BUDGET])
            .await;
        self.keys[1].secret = secret;
    }
}

/// The condition of open orders that were made at the providers' other addresses if `is_moved`, else
/// at the first.
fn open_with(is_moved: bool) -> String {
    let is_like = if is_moved { "LIKE" } else { "NOT LIKE" };
    let host = settings::OTHER_HOST;
    format!("state IN ('intended', 'accepted') AND endpoint {is_like} '%{host}%'")
}

/// Mostly accepts. Now and then it fails or disconnects, but never twice for one event: the pause
/// after several failures is longer than a run.
fn flaky_receiver() -> impl Fn(&ReceivedPost, usize) -> Reaction + Send + Sync + 'static {
    let failed = Mutex::<HashSet<String>>::default();
    move |posted, count| {
        let retry_now = vec![("retry-after", "0".to_owned())];
        let reaction = match count % 13 {
            3 => Reaction::Answer(503, retry_now, String::new()),
            7 => Reaction::Close,
            _ => return Reaction::status(204),
        };
        let is_first = failed
            .lock()
            .unwrap()
            .insert(posted.header("webhook-id").to_owned());
        if is_first {
            reaction
        } else {
            Reaction::status(204)
        }
    }
}

/// Clips for an account: some to separate, one that a provider made.
async fn create_clips(base: &str, secret: &str, recording: &[u8]) -> (Vec<String>, String) {
    let http = client();
    let mut clips = Vec::new();
    for title in ["First", "Second"] {
        let part = reqwest::multipart::Part::bytes(recording.to_vec()).file_name("song.wav");
        let form = reqwest::multipart::Form::new()
            .part("file", part)
            .text("title", title);
        let request = http
            .post(format!("{base}/musicgen/uploads/audio"))
            .multipart(form);
        let clip = ok(request.bearer_auth(secret)).await;
        clips.push(clip["id"].as_str().unwrap().to_owned());
    }
    let order =
        json!({"task": "generate", "mv": settings::SONGS, "title": "Rain", "prompt": "rain"});
    let request = http
        .post(format!("{base}/musicgen/submit/music"))
        .json(&order);
    let record = ok(request.bearer_auth(secret)).await;
    let task = record["id"].as_str().unwrap();
    let song = record["clips"][0]["id"].as_str().unwrap().to_owned();
    loop {
        let request = http.get(format!("{base}/v1/tasks/{task}?wait=30"));
        let view = ok(request.bearer_auth(secret)).await;
        match view["status"].as_str().unwrap() {
            "queued" | "running" => {}
            status => {
                assert_eq!(status, "succeeded", "{view}");
                return (clips, song);
            }
        }
    }
}

async fn ok(request: reqwest::RequestBuilder) -> Value {
    let answer = request.send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert!(status.is_success(), "{status}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// A client that opens a connection for each request: a reused connection may be
/// dead unnoticed.
pub(crate) fn client() -> reqwest::Client {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(0)
        .timeout(Duration::from_mins(1))
        .build()
        .unwrap()
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target: PathBuf = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
