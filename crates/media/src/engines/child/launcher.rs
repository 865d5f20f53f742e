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
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::ChildLimits;

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
    /// Requests to the thread that starts children, once it exists.
    requests: Mutex<Option<Sender<LaunchReply>>>,
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
            requests: Mutex::default(),
        }))
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
        let mut requests = self
            .0
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
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
