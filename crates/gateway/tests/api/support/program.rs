//! The real program, as a child process.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

pub(crate) use crate::process::{other_program, output, program};

use crate::process::Process;
use crate::support::client::Client;
use crate::support::eventually;

/// The command as the last arguments of `prefix`, which runs it in its place.
fn wrap(prefix: &[&str], command: &Command) -> Command {
    let mut shell = Command::new(prefix[0]);
    shell
        .args(&prefix[1..])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Makes the database of a data folder, unless there is one: commands that administer make none.
pub(crate) async fn create_database(data: &Path) {
    if !data.join("mediagate.db").exists() {
        let mut migrate = program(&["migrate"]);
        migrate.arg("--data").arg(data);
        let migrated = output(migrate).await;
        assert!(migrated.status.success(), "{migrated:?}");
    }
}

/// `mediagate serve` on a free port.
pub(crate) struct Server {
    process: Process,
    pub(crate) base: String,
}

/// A gateway's settings and data, for programs that run on them one after another.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn with_settings(toml: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Self { folder };
        home.configure(toml);
        home
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Changes the settings of later programs.
    pub(crate) fn configure(&self, toml: &str) {
        std::fs::write(self.folder.path().join("m.toml"), toml).unwrap();
    }

    /// A client of this server with the scope `admin`.
    pub(crate) async fn operator(&self, server: &Server) -> Client {
        let mut create = program(&["keys", "create", "--name", "operator", "--scope", "admin"]);
        create.arg("--data").arg(self.data());
        let created = output(create).await;
        assert!(created.status.success(), "{created:?}");
        Client::new(&server.base, Some(text(&created.stdout).trim()))
    }

    /// The first start, with a client that has the first key.
    pub(crate) async fn start(&self) -> (Server, Client) {
        let server = self.serve().await;
        let client = Client::new(&server.base, Some(&server.first_key().await));
        (server, client)
    }

    /// Starts the gateway again, for the same client.
    pub(crate) async fn start_again(&self, client: Client) -> (Server, Client) {
        let server = self.serve().await;
        let base = server.base.clone();
        (server, Client { base, ..client })
    }

    async fn serve(&self) -> Server {
        let file = self.folder.path().join("m.toml");
        Server::start(&self.data(), &["--config", file.to_str().unwrap()]).await
    }
}

impl Server {
    pub(crate) async fn start(data: &Path, extra: &[&str]) -> Self {
        Self::launch(&[], data, extra, &[]).await
    }

    /// Like [`Self::start`], at this port, which must be free.
    pub(crate) async fn start_at(port: u16, data: &Path, extra: &[&str]) -> Self {
        Self::start_listening(program, &format!("127.0.0.1:{port}"), data, extra).await
    }

    /// Like [`Self::start_at`], with the program at `path`.
    pub(crate) async fn start_old(path: &Path, port: u16, data: &Path, extra: &[&str]) -> Self {
        let program = |args: &[&str]| other_program(path, args);
        Self::start_listening(program, &format!("127.0.0.1:{port}"), data, extra).await
    }

    async fn start_listening(
        program: impl FnOnce(&[&str]) -> Command,
        listen: &str,
        data: &Path,
        extra: &[&str],
    ) -> Self {
        let data = data.to_str().unwrap();
        let mut args = vec!["serve", "--listen", listen, "--data", data, "--log", "warn"];
        args.extend(extra);
        Self::wait_until_ready(Process::start(&mut program(&args))).await
    }

    /// Like [`Self::start`], under limits of the system, in the form that the shell's `ulimit`
    /// takes.
    pub(crate) async fn start_within(limits: &str, data: &Path, extra: &[&str]) -> Self {
        let limits = format!("ulimit {limits} && exec \"$@\"");
        Self::start_behind(&["sh", "-c", &limits, "sh"], data, extra).await
    }

    /// Like [`Self::start`], with these variables in its environment.
    pub(crate) async fn start_with(
        data: &Path,
        extra: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        Self::launch(&[], data, extra, variables).await
    }

    /// Like [`Self::start`], through a command that runs its last arguments in its place.
    pub(crate) async fn start_behind(prefix: &[&str], data: &Path, extra: &[&str]) -> Self {
        Self::launch(prefix, data, extra, &[]).await
    }

    async fn launch(
        prefix: &[&str],
        data: &Path,
        extra: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let data = data.to_str().unwrap();
        let mut args = vec!["serve", "--listen", "127.0.0.1:0", "--data", data];
        if !extra.contains(&"--log") {
            args.extend(["--log", "warn"]);
        }
        args.extend(extra);
        let mut command = program(&args);
        if !prefix.is_empty() {
            command = wrap(prefix, &command);
        }
        Self::wait_until_ready(Process::start(command.envs(variables.iter().copied()))).await
    }

    /// The server of a starting process, once it is ready.
    async fn wait_until_ready(process: Process) -> Self {
        let base = eventually("the server prints its address", async || process.base());
        let base = tokio::time::timeout(Duration::from_secs(20), base)
            .await
            .unwrap_or_else(|_| panic!("no server: {}", process.stderr()));
        let server = Self { process, base };
        let anyone = Client::new(&server.base, None);
        eventually("the server is ready", async || {
            (anyone.get("/readyz").await.status == 200).then_some(())
        })
        .await;
        server
    }

    /// The children in which engines work: a child that only waits has one thread.
    pub(crate) fn engines(&self) -> Vec<u32> {
        let works = |id: &u32| {
            let threads = std::fs::read_dir(format!("/proc/{id}/task"));
            threads.is_ok_and(|threads| threads.count() > 1)
        };
        let mut children = self.children();
        children.retain(works);
        children
    }

    /// The children in which engines work or that wait for an order.
    pub(crate) fn children(&self) -> Vec<u32> {
        let parent = self.process.id().to_string();
        let ids = std::fs::read_dir("/proc").unwrap();
        let id = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        let ids = ids.filter_map(|entry| id(entry.ok()?));
        let is_child = |id: &u32| {
            // A process that ends at this moment has no files.
            let read = |name| std::fs::read_to_string(format!("/proc/{id}/{name}"));
            let (stat, command_line) = (
                read("stat").unwrap_or_default(),
                read("cmdline").unwrap_or_default(),
            );
            // The state and the parent follow the name, which is in parentheses.
            let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
            let has_parent = fields.split(' ').nth(1) == Some(&parent);
            has_parent && command_line == "mediagate\0engine\0" && !fields.starts_with('Z')
        };
        ids.filter(is_child).collect()
    }

    /// The peak of the server's memory, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmHWM:"))
            .unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib * 1024
    }

    pub(crate) fn stdout(&self) -> String {
        self.process.stdout()
    }

    pub(crate) fn stderr(&self) -> String {
        self.process.stderr()
    }

    /// The key that the first start prints.
    pub(crate) async fn first_key(&self) -> String {
        eventually("the first key", async || {
            let stdout = self.stdout();
            let line = stdout
                .lines()
                .find(|line| line.trim().starts_with("sk-mg-"))?;
            (line.trim().len() == 55).then(|| line.trim().to_owned())
        })
        .await
    }

    /// A path as seen by the process, which may have mounts of its own.
    pub(crate) fn path_inside(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.process.id()));
        root.join(path.strip_prefix("/").unwrap())
    }

    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Waits until a signal has stopped the whole process.
    pub(crate) async fn wait_until_stopped(&self) {
        eventually("the server is stopped", async || {
            self.process.is_stopped().then_some(())
        })
        .await;
    }

    /// Ends the server as a crash does.
    pub(crate) fn crash(mut self) {
        self.process.kill();
    }

    /// Waits for the server's end; returns the exit status and the standard output.
    pub(crate) async fn wait_for_exit(mut self) -> (ExitStatus, String) {
        let process = std::cell::RefCell::new(&mut self.process);
        let status = eventually("the server ends", async || {
            process.borrow_mut().exit_status()
        })
        .await;
        (status, self.stdout())
    }

    /// Ends the server by SIGTERM; returns its standard output.
    pub(crate) async fn stop(self) -> String {
        self.signal("-TERM");
        let (status, stdout) = self.wait_for_exit().await;
        assert_eq!(status.code(), Some(0));
        stdout
    }
}
