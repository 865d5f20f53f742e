//! The real program as a child process, for every test that starts it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Looks until `look` finds something; fails after a minute.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    for _ in 0..3000 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never came to pass: {what}");
}

/// A port of this machine at which nobody listens.
pub(crate) fn free_port() -> u16 {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

/// The library that tells a process another time.
pub(crate) fn faketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap().flatten();
    let mut found = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    let found = found.find(|path| path.exists());
    found.expect("faketime is not installed; ./scripts/test installs it")
}

/// The program with these words, and no setting from this process's environment. `MEDIAGATE_TEST_PROGRAM`
/// names a copy for a long run, during which the built one may change.
pub(crate) fn program(words: &[&str]) -> Command {
    let copy = std::env::var_os("MEDIAGATE_TEST_PROGRAM").map(PathBuf::from);
    other_program(&copy.unwrap_or_else(built_program), words)
}

/// The gateway of this build. Cargo puts test programs and benchmarks into a folder beside it.
pub(crate) fn built_program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent()
        .and_then(Path::parent)
        .unwrap()
        .join("mediagate")
}

/// The same, of another version.
pub(crate) fn other_program(path: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(path);
    command.args(words).stdin(Stdio::null());
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
    said: Arc<Mutex<String>>,
    logged: Arc<Mutex<String>>,
    listeners: Vec<JoinHandle<()>>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (said, logged) = (Arc::default(), Arc::default());
        let listeners = vec![
            listen(child.stdout.take().unwrap(), Arc::clone(&said)),
            listen(child.stderr.take().unwrap(), Arc::clone(&logged)),
        ];
        Self {
            child,
            said,
            logged,
            listeners,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard output so far.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// What it has written to standard error so far.
    pub(crate) fn logged(&self) -> String {
        self.logged.lock().unwrap().clone()
    }

    /// Where a server that is ready can be reached.
    pub(crate) fn base(&self) -> Option<String> {
        let said = self.said.lock().unwrap();
        let (_, rest) = said.split_once("ready at ")?;
        let (base, _) = rest.split_once(' ')?;
        Some(base.to_owned())
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Whether the whole process was stopped.
    pub(crate) fn stands_still(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        // The state comes behind the name, which is in brackets.
        stat.is_ok_and(|stat| {
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    }

    /// How it ended, if it did; all that it wrote is there then.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().unwrap()?;
        self.listen_to_the_end();
        Some(status)
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.listen_to_the_end();
    }

    fn listen_to_the_end(&mut self) {
        for listener in self.listeners.drain(..) {
            listener.join().unwrap();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(
    mut from: impl std::io::Read + Send + 'static,
    into: Arc<Mutex<String>>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
            into.lock().unwrap().push_str(&text);
        }
    })
}
