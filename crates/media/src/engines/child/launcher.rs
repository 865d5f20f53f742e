//! The launcher of child processes, which keeps one ready.
//!
//! A child runs one order. After each start another child is started in advance, so that the next
//! order finds a process that is already linked and waits for its input. That child exits if no
//! order comes for a while, so that an idle gateway has no second process.
//!
//! On Linux a child dies with the *thread* that started it, so all are started by one thread, which
//! lives as long as the [`ChildLauncher`] is in use.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use locks::lock;

use super::{ChildClocks, ChildLimits, ChildWork};

/// Environment variables passed to a child: library paths.
const VARIABLES: [&str; 2] = ["LD_LIBRARY_PATH", "ORT_DYLIB_PATH"];

/// How long a child waits for an order before it exits.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Starts children of this program. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ChildLauncher(Arc<LauncherInner>);

#[derive(Debug)]
struct LauncherInner {
    program: PathBuf,
    spool: PathBuf,
    limits: ChildLimits,
    rules: Mutex<JobRules>,
    /// The jobs that are being done, with their start.
    running: Mutex<Vec<(ChildWork, Instant)>>,
    /// Requests to the thread that starts children, once it exists.
    requests: Mutex<Option<Sender<LaunchReply>>>,
}

/// Rules that only tests change.
#[derive(Debug, Clone, Copy, Default)]
struct JobRules {
    clocks: ChildClocks,
    is_strict: bool,
}

/// The channel for a started child.
type LaunchReply = SyncSender<io::Result<LaunchedChild>>;

/// A child, killed on drop.
#[derive(Debug)]
pub(super) struct LaunchedChild {
    pub(super) process: Child,
    /// The child's standard error.
    pub(super) stderr_file: File,
}

impl Drop for LaunchedChild {
    fn drop(&mut self) {
        // It may have exited by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl ChildLauncher {
    /// A launcher of children of `program`, whose folders are created in `spool`. The limits are
    /// those of the built-in engines.
    pub fn new(program: PathBuf, spool: PathBuf, limits: ChildLimits) -> Self {
        Self(Arc::new(LauncherInner {
            program,
            spool,
            limits,
            rules: Mutex::default(),
            running: Mutex::default(),
            requests: Mutex::default(),
        }))
    }

    /// Changes the time that jobs may take, those that are being done included.
    pub fn set_clocks(&self, clocks: ChildClocks) {
        lock(&self.0.rules).clocks = clocks;
    }

    /// Makes each system call that the confinement refuses end the child. A test uses it to prove
    /// that no job needs such a call.
    pub fn end_children_at_refused_calls(&self) {
        lock(&self.0.rules).is_strict = true;
    }

    pub(super) fn clocks(&self) -> ChildClocks {
        lock(&self.0.rules).clocks
    }

    pub(super) fn is_strict(&self) -> bool {
        lock(&self.0.rules).is_strict
    }

    /// The time since the start of the oldest job of this kind that is still being done.
    pub fn oldest(&self, work: ChildWork) -> Duration {
        let running = lock(&self.0.running);
        let same = running.iter().filter(|(kind, _)| *kind == work);
        let oldest = same.map(|(_, start)| start.elapsed()).max();
        oldest.unwrap_or_default()
    }

    /// Notes that a job is being done, until the result is dropped.
    pub(super) fn note_running(&self, work: ChildWork) -> RunningJob<'_> {
        let entry = (work, Instant::now());
        lock(&self.0.running).push(entry);
        RunningJob(&self.0.running, entry)
    }

    /// The parent of each child's folder.
    pub fn spool(&self) -> &Path {
        &self.0.spool
    }

    pub(super) fn limits(&self) -> ChildLimits {
        self.0.limits
    }

    /// Takes a child that waits for its order: the prepared one, or a new one. Blocks.
    pub(super) fn take(&self) -> io::Result<LaunchedChild> {
        let (reply, started) = sync_channel(1);
        let mut requests = lock(&self.0.requests);
        let thread = match &mut *requests {
            Some(thread) => thread,
            none => none.insert(self.0.start_thread()?),
        };
        thread.send(reply).map_err(io::Error::other)?;
        // Others can request a child while this one starts.
        drop(requests);
        started.recv().map_err(io::Error::other)?
    }
}

/// A job that is being done.
pub(super) struct RunningJob<'a>(&'a Mutex<Vec<(ChildWork, Instant)>>, (ChildWork, Instant));

impl Drop for RunningJob<'_> {
    fn drop(&mut self) {
        let mut running = lock(self.0);
        // Of two equal entries it does not matter which one is removed.
        if let Some(index) = running.iter().position(|entry| *entry == self.1) {
            running.swap_remove(index);
        }
    }
}

impl LauncherInner {
    fn start_thread(&self) -> io::Result<Sender<LaunchReply>> {
        let (requests, incoming) = channel();
        let (program, spool) = (self.program.clone(), self.spool.clone());
        thread::Builder::new()
            .name("engine-starter".into())
            .spawn(move || serve(&program, &spool, &incoming))?;
        Ok(requests)
    }
}

/// Provides children until the launcher is dropped.
fn serve(program: &Path, spool: &Path, requests: &Receiver<LaunchReply>) {
    let mut ready: Option<LaunchedChild> = None;
    loop {
        let reply = match requests.recv_timeout(IDLE_TIMEOUT) {
            Ok(reply) => reply,
            Err(RecvTimeoutError::Timeout) => {
                ready = None;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let is_alive = |child: &mut LaunchedChild| matches!(child.process.try_wait(), Ok(None));
        // A child that waited may have been killed, for example when memory was short.
        let child = ready.take_if(is_alive);
        let child = child.map_or_else(|| start(program, spool), Ok);
        // Fails if the requester is gone. The child is then dropped, which kills it.
        let _ = reply.send(child);
        // Started after the reply, so that no caller waits for it. If this fails, the next request
        // tries again and reports it.
        ready = start(program, spool).ok();
    }
}

fn start(program: &Path, spool: &Path) -> io::Result<LaunchedChild> {
    // A file instead of a pipe: a pipe that is not read would fill up and stop the child.
    let stderr_file = tempfile::tempfile_in(spool)?;
    let mut command = Command::new(program);
    command
        .arg0("mediagate")
        .arg("engine")
        // The gateway's environment may hold secrets.
        .env_clear()
        .envs(
            VARIABLES
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        )
        // Otherwise the allocator asks for the machine's memory nodes by a call that children must
        // not make, and continues with one node.
        .env("MIMALLOC_USE_NUMA_NODES", "1")
        // A Ctrl-C on a terminal is for the gateway, which lets the child finish.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr_file.try_clone()?);
    Ok(LaunchedChild {
        process: command.spawn()?,
        stderr_file,
    })
}
