//! The program as a user starts it: `mediagate serve`, a process of its own on `SQLite`, with its
//! default settings and its log in a file.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::{cpu_time_of, folder_on_disk, resident_memory_of};

/// Data of ended processes, kept until the benchmark ends: ext4 without a journal searches longer
/// for a free inode after thousands were deleted, which would slow the next process.
static ENDED: Mutex<Vec<tempfile::TempDir>> = Mutex::new(Vec::new());

/// Deletes the data of all ended processes, at the end of a benchmark.
pub fn delete_data() {
    ENDED.lock().unwrap().clear();
}

/// A running `mediagate serve`. Dropping it kills the process; [`delete_data`] deletes its data.
pub struct GatewayProcess {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// A key without limits on requests and open tasks.
    pub key: String,
    /// Time from the start of the process until its first response.
    pub started_in: Duration,
    /// `None` only once a restarted process has it.
    folder: Option<tempfile::TempDir>,
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if let (Some(folder), Ok(mut ended)) = (self.folder.take(), ENDED.lock()) {
            ended.push(folder);
        }
    }
}

impl GatewayProcess {
    /// Starts it on a new folder with these providers and models; every other setting keeps its
    /// default.
    pub fn start(models: &str) -> Self {
        let folder = folder_on_disk();
        std::fs::write(folder.path().join("mediagate.toml"), models).unwrap();
        let limits = ["--rpm", "4000000000", "--max-running", "1000000"];
        let migrated = command(folder.path()).arg("migrate").output().unwrap();
        assert!(migrated.status.success(), "{migrated:?}");
        let created = command(folder.path())
            .args(["keys", "create", "--name", "bench"])
            .args(limits)
            .output()
            .unwrap();
        assert!(created.status.success(), "{created:?}");
        let key = String::from_utf8(created.stdout).unwrap().trim().to_owned();
        Self::start_on(folder, key)
    }

    fn start_on(folder: tempfile::TempDir, key: String) -> Self {
        let address = free_address();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let started = Instant::now();
        let child = command(folder.path())
            .args(["serve", "--listen", &address.to_string()])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        while std::net::TcpStream::connect(address).is_err() {
            assert!(
                started.elapsed() < Duration::from_mins(1),
                "it never started"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut program = Self {
            child,
            address,
            key,
            started_in: Duration::ZERO,
            folder: Some(folder),
        };
        program.get("/healthz");
        program.started_in = started.elapsed();
        program
    }

    /// Kills it as a crash does, and starts it again on the same data.
    #[must_use]
    pub fn crash_and_restart(mut self) -> Self {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.restart()
    }

    /// Stops it as a service manager does, and starts it again on the same data.
    #[must_use]
    pub fn stop_and_restart(mut self) -> Self {
        let id = self.process();
        let sent = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(sent.success() && self.child.wait().unwrap().success());
        self.restart()
    }

    fn restart(mut self) -> Self {
        let folder = self.folder.take().unwrap();
        Self::start_on(folder, self.key.clone())
    }

    /// Bytes that it has written to files so far.
    pub fn bytes_written(&self) -> u64 {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.child.id())).unwrap();
        let line = io
            .lines()
            .find_map(|line| line.strip_prefix("write_bytes: "));
        line.unwrap().parse().unwrap()
    }

    /// Its process id.
    pub fn process(&self) -> String {
        self.child.id().to_string()
    }

    /// Its database, for reading.
    pub fn database(&self) -> rusqlite::Connection {
        let folder = self.folder.as_ref().unwrap();
        let file = folder.path().join("data/mediagate.db");
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        rusqlite::Connection::open_with_flags(file, flags).unwrap()
    }

    /// CPU time of the process so far, without its children's.
    pub fn cpu(&self) -> Duration {
        cpu_time_of(&self.process())
    }

    /// CPU seconds since an earlier [`Self::cpu`].
    pub fn cpu_seconds_since(&self, earlier: Duration) -> f64 {
        self.cpu().saturating_sub(earlier).as_secs_f64()
    }

    /// Resident memory, in MiB.
    pub fn resident(&self) -> f64 {
        resident_memory_of(&self.process()) as f64 / (1024.0 * 1024.0)
    }

    /// A whole request with a body.
    pub fn post(&self, path: &str, body: &str) -> String {
        post(path, &self.key, body)
    }

    /// A whole request without a body; `headers` are complete lines.
    pub fn request(&self, path: &str, headers: &str) -> String {
        let key = &self.key;
        format!(
            "GET {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n{headers}\r\n"
        )
    }

    /// The body of the response to a GET.
    pub fn get(&self, path: &str) -> String {
        String::from_utf8(self.get_bytes(path)).unwrap()
    }

    /// Like [`Self::get`], for a body that need not be text.
    pub fn get_bytes(&self, path: &str) -> Vec<u8> {
        exchange(self.address, &self.request(path, "connection: close\r\n"))
    }

    /// The body of the response to a POST.
    pub fn send(&self, path: &str, body: &str) -> String {
        let request = self.post(path, body);
        let request = request.replacen("\r\n", "\r\nconnection: close\r\n", 1);
        String::from_utf8(exchange(self.address, &request)).unwrap()
    }
}

/// A whole POST, head and body.
pub fn post(path: &str, key: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends one request on a connection of its own; returns the body of the response, which must not
/// be in chunks.
fn exchange(address: SocketAddr, request: &str) -> Vec<u8> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    let end = response
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8_lossy(&response[..end]);
    assert!(head.starts_with("HTTP/1.1 20"), "{head}");
    response.split_off(end + 4)
}

/// The program on the data in this folder, with no setting from the environment.
fn command(folder: &Path) -> Command {
    let mut command = on_gateway_cpu(program());
    command.arg("--config").arg(folder.join("mediagate.toml"));
    command.arg("--data").arg(folder.join("data"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MEDIAGATE_") {
            command.env_remove(name);
        }
    }
    command
}

/// The release build. Cargo puts benchmarks into a folder beside it and does not build it with
/// them.
fn program() -> PathBuf {
    let named = std::env::var_os("MEDIAGATE_BENCH_PROGRAM").map(PathBuf::from);
    let own = std::env::current_exe().unwrap();
    let built = own
        .parent()
        .and_then(Path::parent)
        .unwrap()
        .join("mediagate");
    let program = named.unwrap_or(built);
    assert!(
        program.exists(),
        "build the program first: cargo build --release"
    );
    program
}

/// An address of this machine at which nobody listens.
pub fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Providers of the chat protocol, each with one model of the same name, in front of `upstream`.
pub fn chat_models(upstream: SocketAddr, names: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, settings) in names {
        let _ = write!(
            text,
            "[providers.{name}]\nprotocol = \"chat-video\"\nstream = false\n\
             base_url = \"http://{upstream}/v1\"\napi_key = \"k\"\n{settings}\n\
             [models.{name}]\nkind = \"video\"\nprice = \"free\"\n\
             routes = [{{ provider = \"{name}\", model = \"film\" }}]\n"
        );
    }
    text
}

/// Set while the gateway and its peers have a processor of their own.
const IS_SPLIT: &str = "MEDIAGATE_BENCH_SPLIT";

/// Starts this benchmark again on the second processor, so that load and upstreams leave the first
/// one to the gateway or the peer that is measured. Without two processors and `taskset` all share.
pub fn split_processors() {
    use std::os::unix::process::CommandExt as _;
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if processors < 2 || std::env::var_os(IS_SPLIT).is_some() {
        return;
    }
    let _ = Command::new("taskset")
        .args(["-c", "1"])
        .args(std::env::args_os())
        .env(IS_SPLIT, "1")
        .exec();
}

/// A command for a program that has the first processor to itself.
pub fn on_gateway_cpu(program: impl AsRef<std::ffi::OsStr>) -> Command {
    if std::env::var_os(IS_SPLIT).is_none() {
        return Command::new(program);
    }
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", "0"]).arg(program);
    pinned
}
