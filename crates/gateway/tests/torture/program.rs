//! The real program as a child process that may die at any time.

use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::time::Instant;

/// How long a start may take on a machine that has much to do.
const START: Duration = Duration::from_secs(30);

/// The program with these words, and no setting from this process's environment.
pub(crate) fn program(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mediagate"));
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

/// What the process does to itself at a named point.
#[derive(Debug, Clone)]
pub(crate) enum At {
    /// It dies.
    Crash(String),
    /// It stands still, until somebody lets it go on.
    Stop(String),
}

/// `mediagate serve` on a free port.
pub(crate) struct Server {
    child: Child,
    pub(crate) base: String,
    logged: Arc<Mutex<String>>,
    listeners: Vec<JoinHandle<()>>,
}

/// A start that did not come to its end.
pub(crate) struct Died {
    pub(crate) status: ExitStatus,
    pub(crate) log: String,
}

impl Server {
    /// Starts it and waits until it answers, or dies at a crash point before.
    pub(crate) async fn start(words: &[&str], at: Option<&At>) -> Result<Self, Died> {
        let mut command = program(words);
        match at {
            Some(At::Crash(point)) => command.env("MEDIAGATE_CRASH_AT", point),
            Some(At::Stop(point)) => command.env("MEDIAGATE_STOP_AT", point),
            None => &mut command,
        };
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let logged = Arc::new(Mutex::new(String::new()));
        let listeners = vec![
            listen(child.stdout.take().unwrap(), said.clone()),
            listen(child.stderr.take().unwrap(), logged.clone()),
        ];
        let mut server = Self {
            child,
            base: String::new(),
            logged,
            listeners,
        };
        let begun = Instant::now();
        loop {
            if let Some(base) = base_in(&said.lock().unwrap()) {
                server.base = base;
                return Ok(server);
            }
            if let Some(status) = server.ended() {
                let log = server.log_to_the_end();
                return Err(Died { status, log });
            }
            // What was left to do took it to its point before it listened.
            if server.stands_still() {
                tokio::time::sleep(Duration::from_secs(4)).await;
                server.signal("-CONT");
            }
            assert!(begun.elapsed() < START, "no server: {}", server.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self, at_most: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < at_most {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        None
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.logged.lock().unwrap().clone()
    }

    fn log_to_the_end(&mut self) -> String {
        for listener in self.listeners.drain(..) {
            listener.join().unwrap();
        }
        self.log()
    }

    /// Ends it as `kill -9` does; what it logged.
    pub(crate) fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.log_to_the_end()
    }

    /// Whether it was stopped.
    pub(crate) fn stands_still(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        // The state comes behind the name, which is in brackets.
        stat.is_ok_and(|stat| {
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Ends it politely; how it ended, and what it logged.
    pub(crate) async fn stop(mut self) -> (Option<ExitStatus>, String) {
        self.signal("-TERM");
        let status = self.wait(START).await;
        (status, self.log_to_the_end())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn base_in(said: &str) -> Option<String> {
    let (_, rest) = said.split_once("ready at ")?;
    let (base, _) = rest.split_once(' ')?;
    Some(base.to_owned())
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
