//! The real program as a child process that may die at any time.

use std::process::ExitStatus;
use std::time::Duration;

use tokio::time::Instant;

pub(crate) use crate::process::{output, program};

use crate::process::{Process, faketime};

/// How long a start may take on a busy machine.
const START: Duration = Duration::from_secs(30);

/// How long an end may take, including the grace periods of its settings.
const END: Duration = Duration::from_mins(1);

/// What the process does to itself at a named point.
#[derive(Debug, Clone)]
pub(crate) enum PointAction {
    /// It crashes.
    Crash(String),
    /// It stops until SIGCONT.
    Stop(String),
}

/// Faults of a start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Start {
    pub(crate) point_action: Option<PointAction>,
    /// The offset of its clock, in faketime's notation.
    pub(crate) clock: Option<&'static str>,
}

/// Clock offsets to choose from.
pub(crate) const CLOCKS: [&str; 6] = ["-4s", "+4s", "-1h", "+1h", "-40d", "+400d"];

/// `mediagate serve` on a free port.
pub(crate) struct Server {
    process: Process,
    pub(crate) base: String,
}

/// A process that ended before it was ready.
pub(crate) struct FailedStart {
    pub(crate) status: ExitStatus,
    pub(crate) log: String,
}

impl Server {
    /// Starts a process, which may be a worker, and waits for nothing.
    pub(crate) fn spawn(args: &[&str], start: &Start) -> Self {
        let mut command = program(args);
        if let Some(offset) = start.clock {
            command
                .env("LD_PRELOAD", faketime())
                .env("FAKETIME", offset)
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        match &start.point_action {
            Some(PointAction::Crash(point)) => command.env("MEDIAGATE_CRASH_AT", point),
            Some(PointAction::Stop(point)) => command.env("MEDIAGATE_STOP_AT", point),
            None => &mut command,
        };
        Self {
            process: Process::start(&mut command),
            base: String::new(),
        }
    }

    /// Starts it and waits until it is ready, or crashes at a point before.
    pub(crate) async fn start(args: &[&str], start: &Start) -> Result<Self, FailedStart> {
        let mut server = Self::spawn(args, start);
        let started = Instant::now();
        loop {
            if let Some(base) = server.process.base() {
                server.base = base;
                return Ok(server);
            }
            if let Some(status) = server.exit_status() {
                let log = server.log();
                return Err(FailedStart { status, log });
            }
            // Work left from an earlier process took it to its point before it listened.
            if server.is_stopped() {
                tokio::time::sleep(Duration::from_secs(4)).await;
                server.signal("-CONT");
            }
            assert!(started.elapsed() < START, "no server: {}", server.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// How it ended, if it did.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.process.exit_status()
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let started = Instant::now();
        while started.elapsed() < limit {
            if let Some(status) = self.exit_status() {
                return Some(status);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        None
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.process.stderr()
    }

    /// Ends it as `kill -9` does; returns its log.
    pub(crate) fn kill(mut self) -> String {
        self.process.kill();
        self.log()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.process.is_stopped()
    }

    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Ends it by SIGTERM; returns the exit status and the log.
    pub(crate) async fn stop(mut self) -> (Option<ExitStatus>, String) {
        self.signal("-TERM");
        let (started, mut status) = (Instant::now(), None);
        while status.is_none() && started.elapsed() < END {
            // A process that is stopped at its point ignores the signal until it continues.
            if self.is_stopped() {
                self.signal("-CONT");
            }
            status = self.wait(Duration::from_millis(200)).await;
        }
        (status, self.log())
    }
}
