//! The real program as a child process that may die at any time.

use std::process::ExitStatus;
use std::time::Duration;

use tokio::time::Instant;

pub(crate) use crate::process::{output, program};

use crate::process::{Process, faketime};

/// How long a start may take on a machine that has much to do.
const START: Duration = Duration::from_secs(30);

/// How long an end may take, with what its settings allow for requests, submissions and the database.
const END: Duration = Duration::from_mins(1);

/// What the process does to itself at a named point.
#[derive(Debug, Clone)]
pub(crate) enum At {
    /// It dies.
    Crash(String),
    /// It stands still, until somebody lets it go on.
    Stop(String),
}

/// What is odd about a start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Start {
    pub(crate) at: Option<At>,
    /// How far its clock is from everybody else's, as faketime says it.
    pub(crate) clock: Option<&'static str>,
}

/// How wrong a clock may be.
pub(crate) const CLOCKS: [&str; 6] = ["-4s", "+4s", "-1h", "+1h", "-40d", "+400d"];

/// `mediagate serve` on a free port.
pub(crate) struct Server {
    process: Process,
    pub(crate) base: String,
}

/// A start that did not come to its end.
pub(crate) struct Died {
    pub(crate) status: ExitStatus,
    pub(crate) log: String,
}

impl Server {
    /// Starts a process that may be no server, and waits for nothing.
    pub(crate) fn begin(words: &[&str], start: &Start) -> Self {
        let mut command = program(words);
        if let Some(offset) = start.clock {
            command
                .env("LD_PRELOAD", faketime())
                .env("FAKETIME", offset)
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        match &start.at {
            Some(At::Crash(point)) => command.env("MEDIAGATE_CRASH_AT", point),
            Some(At::Stop(point)) => command.env("MEDIAGATE_STOP_AT", point),
            None => &mut command,
        };
        Self {
            process: Process::start(&mut command),
            base: String::new(),
        }
    }

    /// Starts it and waits until it answers, or dies at a crash point before.
    pub(crate) async fn start(words: &[&str], start: &Start) -> Result<Self, Died> {
        let mut server = Self::begin(words, start);
        let begun = Instant::now();
        loop {
            if let Some(base) = server.process.base() {
                server.base = base;
                return Ok(server);
            }
            if let Some(status) = server.exit_status() {
                let log = server.log();
                return Err(Died { status, log });
            }
            // What was left to do took it to its point before it listened.
            if server.is_stopped() {
                tokio::time::sleep(Duration::from_secs(4)).await;
                server.signal("-CONT");
            }
            assert!(begun.elapsed() < START, "no server: {}", server.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// How it ended, if it did.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.process.exit_status()
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self, at_most: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < at_most {
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

    /// Ends it as `kill -9` does; what it logged.
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

    /// Ends it politely; how it ended, and what it logged.
    pub(crate) async fn stop(mut self) -> (Option<ExitStatus>, String) {
        self.signal("-TERM");
        let (begun, mut status) = (Instant::now(), None);
        while status.is_none() && begun.elapsed() < END {
            // One that came to its point hears nothing until it goes on.
            if self.is_stopped() {
                self.signal("-CONT");
            }
            status = self.wait(Duration::from_millis(200)).await;
        }
        (status, self.log())
    }
}
