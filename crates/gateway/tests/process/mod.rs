//! The real program as a child process, for every test that starts it.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Polls `probe` until it returns something; fails after two minutes. Polls often at first, and then
/// stays below the requests per minute that a key may make.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut probe: impl FnMut() -> F,
) -> T {
    for poll in 0..700 {
        if let Some(value) = probe().await {
            return value;
        }
        let pause = if poll < 100 { 20 } else { 200 };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    panic!("not within two minutes: {what}");
}

/// A port of 127.0.0.1 at which nobody listens. No other test gets it while this process lives.
pub(crate) fn free_port() -> u16 {
    // A port that the kernel picks may be picked again, also for a connection, before the caller's
    // server listens. These are below the kernel's (`ip_local_port_range`, from 32768).
    const PORTS: std::ops::Range<u16> = 10_000..32_768;
    // Every test asks here first. No server of the tests listens at this address.
    const RESERVATIONS: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 1);
    let first = std::process::id() as usize * 31 % PORTS.len();
    for port in PORTS.cycle().skip(first).take(PORTS.len()) {
        let Ok(reservation) = TcpListener::bind((RESERVATIONS, port)) else {
            continue;
        };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            std::mem::forget(reservation);
            return port;
        }
    }
    panic!("no port is free");
}

/// The library that gives a process another time.
pub(crate) fn faketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap().flatten();
    let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    let library = libraries.find(|path| path.exists());
    library.expect("faketime is not installed; ./scripts/test installs it")
}

/// The program with these arguments, and no setting from this process's environment.
/// `MEDIAGATE_TEST_PROGRAM` names a copy for a long run, during which the built one may change.
pub(crate) fn program(args: &[&str]) -> Command {
    let copy = std::env::var_os("MEDIAGATE_TEST_PROGRAM").map(PathBuf::from);
    other_program(&copy.unwrap_or_else(built_program), args)
}

/// The gateway of this build. Cargo puts test programs and benchmarks into a folder next to it.
pub(crate) fn built_program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent()
        .and_then(Path::parent)
        .unwrap()
        .join("mediagate")
}

/// Like [`program`], with the program at `path`, which may be of another version.
pub(crate) fn other_program(path: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(path);
    command.args(args).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MEDIAGATE_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command that ends by itself.
pub(crate) async fn output(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

/// A child and what it writes. It is killed when dropped.
pub(crate) struct Process {
    child: Child,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdout, stderr) = (Arc::default(), Arc::default());
        let readers = vec![
            collect_output(child.stdout.take().unwrap(), Arc::clone(&stdout)),
            collect_output(child.stderr.take().unwrap(), Arc::clone(&stderr)),
        ];
        Self {
            child,
            stdout,
            stderr,
            readers,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard output so far.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.lock().unwrap().clone()
    }

    /// What it has written to standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Where a server that is ready can be reached.
    pub(crate) fn base(&self) -> Option<String> {
        let stdout = self.stdout.lock().unwrap();
        let (_, rest) = stdout.split_once("ready at ")?;
        let (base, _) = rest.split_once(' ')?;
        Some(base.to_owned())
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Whether the whole process is stopped by a signal.
    pub(crate) fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        // The state follows the name, which is in parentheses.
        stat.is_ok_and(|stat| {
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    }

    /// The exit status, once it has ended; all of its output has been read by then.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().unwrap()?;
        self.join_readers();
        Some(status)
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.join_readers();
    }

    fn join_readers(&mut self) {
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect_output(
    mut pipe: impl std::io::Read + Send + 'static,
    output: Arc<Mutex<String>>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
            output.lock().unwrap().push_str(&text);
        }
    })
}
