//! A Postgres server for one test, which can stop, configure and restart it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::process::{eventually, free_port};

/// A server that stops when this value is dropped.
pub(crate) struct Cluster {
    folder: tempfile::TempDir,
    port: u16,
}

/// Where the server's programs are, which Debian keeps out of `PATH`.
fn programs() -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    let has_all = |folder: &PathBuf| {
        let programs = ["initdb", "pg_ctl", "pg_receivewal", "pg_basebackup"];
        programs.iter().all(|name| folder.join(name).exists())
    };
    let folder = folders.into_iter().find(has_all);
    folder.expect("PostgreSQL is not installed; ./scripts/test installs it")
}

/// A command that does not run as root, as Postgres and its companions refuse to.
pub(crate) fn unprivileged(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = if rustix::process::getuid().is_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/").stdin(Stdio::null());
    command
}

/// A folder that such a command may write to.
pub(crate) fn unprivileged_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    if rustix::process::getuid().is_root() {
        let chown = Command::new("chown")
            .arg("postgres")
            .arg(folder.path())
            .status();
        assert!(chown.unwrap().success());
    }
    folder
}

fn run(mut command: Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let folder = unprivileged_folder();
        let mut initdb = unprivileged(programs().join("initdb"));
        initdb.args([
            "--username",
            "postgres",
            "--auth",
            "trust",
            "--no-sync",
            "--pgdata",
        ]);
        initdb.arg(folder.path().join("db"));
        run(initdb);
        let port = free_port();
        let cluster = Self { folder, port };
        cluster.start_again();
        cluster
    }

    /// A standby that can take this server's place.
    pub(crate) fn full_standby(&self) -> Self {
        let standby = Self {
            folder: unprivileged_folder(),
            port: free_port(),
        };
        standby.follow(self);
        standby
    }

    /// Makes this server a standby of `primary`, in a new folder.
    pub(crate) fn follow(&self, primary: &Self) {
        let data = self.folder.path().join("db");
        if data.exists() {
            std::fs::remove_dir_all(&data).unwrap();
        }
        let mut copy = unprivileged(programs().join("pg_basebackup"));
        copy.args(["--write-recovery-conf", "--checkpoint", "fast", "--no-sync"]);
        copy.args(["--dbname", &primary.url(), "--pgdata"])
            .arg(&data);
        run(copy);
        // Once promoted, the server commits without a standby. Until then it reconnects quickly.
        let lines = "synchronous_standby_names = ''\nwal_retrieve_retry_interval = '200ms'\n";
        let settings = data.join("postgresql.auto.conf");
        let mut settings = std::fs::OpenOptions::new()
            .append(true)
            .open(settings)
            .unwrap();
        settings.write_all(lines.as_bytes()).unwrap();
        self.start_again();
    }

    /// Makes this standby the primary.
    pub(crate) fn promote(&self) {
        let mut promote = self.control("promote");
        promote.arg("--wait");
        run(promote);
    }

    /// The server's processes whose command line contains `name`; all of them, if it is empty.
    fn processes(&self, name: &str) -> Vec<String> {
        let lock = self.folder.path().join("db/postmaster.pid");
        let lock = std::fs::read_to_string(lock).unwrap();
        let first = lock.lines().next().unwrap().to_owned();
        let belongs_to_server = |id: &String| {
            // A process that ends at this moment has no files.
            let read = |file| std::fs::read_to_string(format!("/proc/{id}/{file}"));
            let (stat, command_line) = (
                read("stat").unwrap_or_default(),
                read("cmdline").unwrap_or_default(),
            );
            let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
            let is_own = *id == first || fields.split(' ').nth(1) == Some(&first);
            is_own && command_line.contains(name)
        };
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let entries = entries.filter_map(|entry| entry.file_name().into_string().ok());
        entries
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            .filter(belongs_to_server)
            .collect()
    }

    /// Sends a signal to the server's processes whose command line contains `name`.
    pub(crate) fn signal(&self, signal: &str, name: &str) {
        for id in self.processes(name) {
            // The process may have ended meanwhile.
            let _ = Command::new("kill").args([signal, &id]).output();
        }
    }

    /// Starts the server on the data that it has.
    pub(crate) fn start_again(&self) {
        let folder = self.folder.path().display();
        let options = format!(
            "-c listen_addresses=127.0.0.1 -c port={} -c unix_socket_directories={folder} -c max_connections=300",
            self.port
        );
        let mut start = self.control("start");
        start.args(["--wait", "--options", &options, "--log"]);
        start.arg(self.folder.path().join("log"));
        // The server keeps its standard output and error open.
        start.stdout(Stdio::null()).stderr(Stdio::null());
        assert!(start.status().unwrap().success());
    }

    /// Stops the server as a loss of power does.
    pub(crate) fn stop_immediately(&self) {
        let mut stop = self.control("stop");
        stop.args(["--mode", "immediate"]);
        run(stop);
    }

    fn control(&self, action: &str) -> Command {
        let mut command = unprivileged(programs().join("pg_ctl"));
        command
            .args([action, "--silent", "--pgdata"])
            .arg(self.folder.path().join("db"));
        command
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Changes a setting of the server.
    pub(crate) async fn set(&self, setting: &str, value: &str) {
        let set = format!("ALTER SYSTEM SET {setting} = '{value}'");
        self.execute(&set).await;
        self.execute("SELECT pg_reload_conf()").await;
    }

    /// Runs a statement on the server; returns the number of rows that it returns or changes.
    pub(crate) async fn execute(&self, sql: &str) -> u64 {
        let (url, sql) = (self.url(), sql.to_owned());
        let execute = move || {
            let mut client = ::postgres::Client::connect(&url, ::postgres::NoTls).unwrap();
            client.execute(&sql, &[]).unwrap()
        };
        // On another thread: the driver starts a runtime of its own, which cannot be nested.
        let run = move || std::thread::spawn(execute).join().unwrap();
        tokio::task::spawn_blocking(run).await.unwrap()
    }

    /// A standby that only stores the log that it receives, which is enough for commits.
    pub(crate) async fn log_standby(&self) -> Standby {
        let folder = unprivileged_folder();
        let mut receive = unprivileged(programs().join("pg_receivewal"));
        receive.args([
            "--synchronous",
            "--no-loop",
            "--dbname",
            &self.url(),
            "--directory",
        ]);
        let receive = receive.arg(folder.path()).stderr(Stdio::null());
        let standby = Standby {
            child: receive.spawn().unwrap(),
            folder,
        };
        eventually("the standby receives something", async || {
            std::fs::read_dir(standby.folder.path()).unwrap().next()
        })
        .await
        .unwrap();
        standby
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut stop = self.control("stop");
        let _ = stop.args(["--mode", "immediate"]).output();
    }
}

/// A standby that stops when this value is dropped.
pub(crate) struct Standby {
    child: Child,
    folder: tempfile::TempDir,
}

impl Drop for Standby {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

/// Ends a process that `unprivileged` started. `child` may be its parent, `runuser`.
pub(crate) fn stop(child: &mut Child) {
    let id = child.id().to_string();
    let _ = Command::new("pkill").args(["-KILL", "-P", &id]).status();
    let _ = child.kill();
    let _ = child.wait();
}

/// The path of a program in one of the usual folders.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    let mut paths = folders.iter().map(|folder| Path::new(folder).join(name));
    paths.find(|path| path.exists())
}
