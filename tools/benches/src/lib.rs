//! Shared parts of the benchmarks: a gateway on loopback, and a client light enough not to affect
//! the result. The client runs in a separate process (this program, started again), so that the
//! server's CPU time can be measured separately.
//!
//! The benchmarks are in `benches`. Begin with `benches/shipped/main.rs`, which measures the
//! program as it is shipped; `part_…` measure parts of it. This crate must not be used by the
//! product.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark may fail loudly"
)]
pub mod finished_tasks;
pub mod gateway_process;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::accounts;
use mediagate_core::domain::assets::{self, AssetLifetime};
use mediagate_core::domain::keys::{self, NewKey};
use mediagate_core::domain::task_acceptance::NewTask;
use mediagate_core::pricing::{OrderedWork, QuotedQuantity};
use mediagate_http::server::{ConnectionLimits, Shutdown, serve};
use mediagate_model::account::Caller;
use mediagate_model::attribution::Attribution;
use mediagate_model::clock::Clock;
use mediagate_model::media::{Asset, MediaType};
use mediagate_model::task::{TaskPayload, VideoJob};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// A gateway in this process, without workers.
pub struct BenchGateway {
    pub app: App,
    pub caller: Arc<Caller>,
    pub key: String,
    data: Option<tempfile::TempDir>,
}

/// A folder for data. It is not in `/tmp`, which is memory on many machines and never waits for a
/// disk.
pub fn folder_on_disk() -> tempfile::TempDir {
    let own = std::env::current_exe().unwrap();
    let mut builder = tempfile::Builder::new();
    builder
        .prefix("bench-")
        .tempdir_in(own.parent().unwrap())
        .unwrap()
}

impl BenchGateway {
    /// Opens a gateway on `SQLite` in a folder on this disk.
    pub async fn open() -> Self {
        Self::with_settings("").await
    }

    /// Like [`Self::open`], with this configuration file.
    pub async fn with_settings(toml: &str) -> Self {
        Self::with_database(None, toml).await
    }

    /// Like [`Self::with_settings`], on this database if there is one.
    pub async fn with_database(database: Option<&str>, toml: &str) -> Self {
        let data = folder_on_disk();
        let mut gateway = Self::from_app(app_in(data.path(), database, toml)).await;
        gateway.data = Some(data);
        gateway
    }

    /// Stores these bytes as a film of the caller.
    pub async fn store_film(&self, film: bytes::Bytes) -> Asset {
        let (app, account) = (&self.app, self.caller.account.id);
        let kept = assets::keep(app, account, MediaType::Mp4, film, AssetLifetime::Media);
        let asset = kept.await.unwrap();
        let row = asset.clone();
        let written = app
            .store
            .write(move |conn| mediagate_store::assets::insert(conn, &row));
        written.await.unwrap();
        asset
    }

    /// The signed path of a file that expires.
    pub fn media_path(&self, asset: &Asset) -> String {
        let signer = &self.app.secrets.signer;
        signer.path(asset.id, asset.media, asset.expires_at.unwrap())
    }

    /// A gateway from an app that is already open; its data is not deleted.
    pub async fn from_app(app: App) -> Self {
        let (key, caller) = another_key(&app).await;
        Self {
            app,
            caller,
            key,
            data: None,
        }
    }

    /// Callers, each with its own key.
    pub async fn callers(&self, count: usize) -> Vec<(String, Arc<Caller>)> {
        let mut callers = Vec::new();
        for _ in 0..count {
            callers.push(another_key(&self.app).await);
        }
        callers
    }
}

/// The body of an order for a film of this length.
pub fn film(gateway: &BenchGateway, model: &str, milliseconds: u64) -> NewTask {
    let catalog = gateway.app.models.catalog.load();
    let job = VideoJob {
        prompt: "a lake under the mountains at first light, slow dolly in".repeat(5),
        width: 1280,
        height: 720,
        milliseconds,
        fps: Some(30),
        ..VideoJob::default()
    };
    NewTask {
        model: catalog.by_name(model).unwrap().clone(),
        asked_model: model.into(),
        quantity: QuotedQuantity::of(OrderedWork::film(&job)),
        payload: TaskPayload::VideoV1(job),
        attribution: Attribution::default(),
        callback: None,
    }
}

/// A gateway whose data is in this folder.
pub fn app_in(data: &Path, database: Option<&str>, toml: &str) -> App {
    let file = data.join("mediagate.toml");
    std::fs::write(&file, toml).unwrap();
    let overrides = Settings {
        config: Some(file),
        data: Some(data.to_owned()),
        database: database.map(|url| url.parse().unwrap()),
        ..Settings::default()
    };
    App::open(Config::load(&overrides).unwrap(), Clock::system()).unwrap()
}

/// A key without limits, and the caller that uses it.
async fn another_key(app: &App) -> (String, Arc<Caller>) {
    let account = accounts::ensure(app, accounts::DEFAULT_HANDLE)
        .await
        .unwrap();
    let limits = NewKey {
        name: "bench".into(),
        // With the usual limits, rejections by the key's limits would be measured.
        rpm: Some(u32::MAX),
        max_running: Some(u32::MAX),
        ..NewKey::default()
    };
    let (_, secret) = keys::create(app, &account, limits).await.unwrap();
    let key = secret.expose().to_owned();
    let caller = keys::check(app, &key, [127, 0, 0, 1].into()).await.unwrap();
    (key, caller)
}

/// Serves a router on a free loopback port until the process ends.
pub async fn listen(router: axum::Router) -> SocketAddr {
    listen_until(router, CancellationToken::new()).await
}

/// Like [`listen`], until `draining` is cancelled.
pub async fn listen_until(router: axum::Router, draining: CancellationToken) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = ConnectionLimits::new(8192, 1024, None, Vec::new());
    let shutdown = Shutdown {
        draining,
        closing: CancellationToken::new(),
        grace: Duration::ZERO,
    };
    #[expect(clippy::disallowed_methods, reason = "ends with the process")]
    tokio::spawn(serve(listener, router, limits, shutdown));
    address
}

/// The load that a client process makes.
#[derive(Debug, Clone)]
pub struct ClientLoad {
    pub address: SocketAddr,
    pub connections: usize,
    /// How long requests are sent.
    pub seconds: f64,
    /// Maximum number of requests on each connection.
    pub requests_each: usize,
    /// Whole requests, head and body; the connections take them in turn. [`NUMBER`] in a request is
    /// replaced by a different number each time.
    pub requests: Vec<String>,
}

impl ClientLoad {
    /// Requests for this long, one after the other on each of the `connections`.
    pub fn new(address: SocketAddr, connections: usize, seconds: f64, request: String) -> Self {
        Self {
            address,
            connections,
            seconds,
            requests_each: usize::MAX,
            requests: vec![request],
        }
    }
}

/// The placeholder for a number of twelve digits.
pub const NUMBER: &str = "############";

const CLIENT: &str = "MEDIAGATE_BENCH_CLIENT";

/// The result of a load.
#[derive(Debug, Clone, Copy)]
pub struct LoadResult {
    pub per_second: f64,
    /// The median of the callers' waiting times, in microseconds.
    pub p50: f64,
}

/// Answers per second under this load, measured in a separate process.
pub async fn throughput(load: &ClientLoad) -> f64 {
    measure(load).await.per_second
}

/// The result of this load, measured in a separate process.
pub async fn measure(load: &ClientLoad) -> LoadResult {
    let program = std::env::current_exe().unwrap();
    let words = [
        load.address.to_string(),
        load.connections.to_string(),
        load.seconds.to_string(),
        load.requests_each.to_string(),
        // Joined by ASCII's record and unit separators, because requests may contain any other
        // character, even line breaks.
        load.requests.join("\u{1e}"),
    ];
    // The gateway that is measured runs on this runtime. Waiting for the client must not take a
    // thread from it.
    let output = tokio::task::spawn_blocking(move || {
        std::process::Command::new(&program)
            .env(CLIENT, words.join("\u{1f}"))
            .output()
            .unwrap()
    });
    let output = output.await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut words = text.split_whitespace().map(str::parse);
    match (words.next(), words.next()) {
        (Some(Ok(per_second)), Some(Ok(p50))) => LoadResult { per_second, p50 },
        _ => panic_with(&text, &output.stderr),
    }
}

#[expect(clippy::panic, reason = "a benchmark may fail loudly")]
fn panic_with(text: &str, stderr: &[u8]) -> LoadResult {
    panic!(
        "the client said {text:?} {}",
        String::from_utf8_lossy(stderr)
    )
}

/// If this process was started by the gateway to run an engine (it starts this same program), runs
/// the engine.
pub fn engine_or_continue() {
    if std::env::args().nth(1).as_deref() == Some("engine") {
        let _ = mediagate::cli::main();
        std::process::exit(0);
    }
}

/// In the client's process: makes the load, prints the rate, and is done.
/// Returns at once in the benchmark's own process.
pub fn client_or_continue() {
    engine_or_continue();
    let Ok(words) = std::env::var(CLIENT) else {
        return;
    };
    let words: Vec<&str> = words.split('\u{1f}').collect();
    let load = ClientLoad {
        address: words[0].parse().unwrap(),
        connections: words[1].parse().unwrap(),
        seconds: words[2].parse().unwrap(),
        requests_each: words[3].parse().unwrap(),
        requests: words[4].split('\u{1e}').map(str::to_owned).collect(),
    };
    // One thread, so that the client takes no more than one core from the gateway.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let answered = runtime.block_on(drive(load));
    println!("{} {}", answered.per_second, answered.p50);
    std::process::exit(0);
}

async fn drive(load: ClientLoad) -> LoadResult {
    let started = Instant::now();
    let until = started + Duration::from_secs_f64(load.seconds);
    let connections = (0..load.connections).map(|connection| {
        let request = load.requests[connection % load.requests.len()].clone();
        keep_asking(&load, connection, request, until)
    });
    let mut waited = futures_util::future::join_all(connections).await.concat();
    waited.sort_unstable();
    #[expect(clippy::cast_precision_loss, reason = "a count of answers")]
    let answers = waited.len() as f64;
    let p50 = waited.get(waited.len() / 2).copied().unwrap_or_default();
    LoadResult {
        per_second: answers / started.elapsed().as_secs_f64(),
        p50: p50.as_secs_f64() * 1e6,
    }
}

async fn keep_asking(
    load: &ClientLoad,
    connection: usize,
    request: String,
    until: Instant,
) -> Vec<Duration> {
    let mut stream = TcpStream::connect(load.address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut buffer = Vec::with_capacity(16 * 1024);
    let mut waited = Vec::new();
    // Each connection waits for its answer before it asks again. So the load never exceeds what the
    // gateway can do, and the rate says what that is.
    while waited.len() < load.requests_each && Instant::now() < until {
        let number = format!("{connection:04}{:08}", waited.len());
        // As long as its placeholder, so that `content-length` stays right.
        let request = request.replace(NUMBER, &number);
        let sent = Instant::now();
        stream.write_all(request.as_bytes()).await.unwrap();
        buffer.clear();
        while !is_whole(&buffer) {
            assert!(
                stream.read_buf(&mut buffer).await.unwrap() > 0,
                "the server hung up"
            );
        }
        assert!(
            buffer.starts_with(b"HTTP/1.1 20") || buffer.starts_with(b"HTTP/1.1 302"),
            "{}",
            String::from_utf8_lossy(&buffer)
        );
        // Refusals were ruled out above: they are quick and would improve the figures.
        waited.push(sent.elapsed());
    }
    waited
}

/// Whether a complete response has arrived, with a `content-length` or in chunks.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return false;
    };
    let head = std::str::from_utf8(&answer[..end])
        .unwrap()
        .to_ascii_lowercase();
    assert!(
        head.starts_with("http/1.1 2") || head.starts_with("http/1.1 302"),
        "{head}"
    );
    if head.contains("\r\ntransfer-encoding: chunked") {
        // Enough for JSON and events, in which this sequence does not occur.
        return answer.ends_with(b"\r\n0\r\n\r\n");
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .expect("a length");
    answer.len() >= end + 4 + length.trim().parse::<usize>().unwrap()
}

/// CPU time of this process so far.
pub fn cpu_time() -> Duration {
    cpu_time_of("self")
}

/// CPU time of a process so far (Linux: clock ticks of 10 ms).
pub fn cpu_time_of(process: &str) -> Duration {
    cpu_times_of(process)[..2].iter().sum()
}

/// CPU times of a process, in user mode and in the kernel, then the same of its children that have
/// ended.
pub fn cpu_times_of(process: &str) -> [Duration; 4] {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The second field is the name of the program in parentheses and may contain spaces. So fields
    // are counted after it, which makes `utime` number 11 (proc(5)).
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    [11, 12, 13, 14].map(|field: usize| {
        let ticks: u64 = fields[field].parse().unwrap();
        Duration::from_millis(ticks * 10)
    })
}

/// Resident memory of a process, in bytes.
pub fn resident_memory_of(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.unwrap().parse::<u64>().unwrap() * 1024
}

/// A runtime configured like the program's.
pub fn runtime() -> tokio::runtime::Runtime {
    drop(rustls::crypto::ring::default_provider().install_default());
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
}
