//! The deployed parts: each process has its own proxy to each Postgres server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use simulator::{FaultProxy, NetworkState};
use tokio::time::Instant;

use super::wait;
use crate::balancer::Balancer;
use crate::bucket::{ACCESS_KEY, SECRET_KEY, TestBucket};
use crate::db::Database;
use crate::pair::Pair;
use crate::process::free_port;
use crate::program::{PointAction, Server, Start};
use crate::settings;
use crate::stage::Stage;
use tokio_util::sync::CancellationToken;

/// The number of gateways; there is also one worker.
const GATEWAYS: usize = 3;
/// The signal with which `abort` ends a process.
const ABORTED: i32 = 6;
/// The signal that ends a process which has no handler for it yet.
const TERMINATED: i32 = 15;

/// How often each fault was injected.
pub(super) type Counts = BTreeMap<&'static str, u64>;

pub(super) struct Deployment {
    pub(super) balancer: Balancer,
    pub(super) replicas: Vec<Replica>,
    pub(super) postgres: Pair,
    pub(super) bucket: TestBucket,
    pub(super) counts: Counts,
    /// Reports of processes that ended by themselves.
    pub(super) unexpected_exits: Vec<String>,
}

/// A process, its proxies to the database and its settings.
pub(super) struct Replica {
    pub(super) proxies: Vec<FaultProxy>,
    args: Vec<String>,
    is_worker: bool,
    pub(super) server: Option<Server>,
    /// Its action at a point after its next start.
    pub(super) armed: Option<PointAction>,
    /// The offset of its clock after its next start.
    pub(super) clock: Option<&'static str>,
    /// The offset of its clock now.
    present_clock: Option<&'static str>,
    /// Its settings: those with the providers' first addresses and keys, and the others.
    settings: [String; 2],
    is_moved: bool,
    /// Whether the process is to crash at a point.
    may_die: bool,
    /// The logs of processes that have ended.
    pub(super) logs: Vec<String>,
    pub(super) unexpected_exits: Vec<String>,
    pub(super) counts: Counts,
}

impl Deployment {
    /// Starts everything on the data of the stage.
    pub(super) async fn start() -> (Self, Stage) {
        let postgres = Pair::synchronous().await;
        let bucket = TestBucket::start().await;
        let folder = tempfile::tempdir().unwrap();
        let settings_for = |database: String| {
            settings::GatewaySettings {
            database,
            lines: "signing_secret = \"one for all of them, and long enough\"\nshutdown_grace = \"5s\"\n\
                    drain_delay = \"2500ms\"\n"
                .to_owned(),
            tables: format!(
                "[media]\nstore = \"{}\"\nendpoint = \"http://{}\"\naccess_key = \"{ACCESS_KEY}\"\n\
                 secret_key = \"{SECRET_KEY}\"\n",
                TestBucket::address(),
                bucket.proxy.address(),
            ),
            is_moved: false,
            is_flipped: false,
        }
        };
        let database = Database::Elsewhere(postgres.direct());
        let stage = Stage::with_settings(folder, database, &settings_for(postgres.direct())).await;
        let (mut replicas, mut ports) = (Vec::new(), Vec::new());
        for number in 0..=GATEWAYS {
            let proxies = proxies_to(&postgres).await;
            let url = Pair::url([proxies[0].address().port(), proxies[1].address().port()]);
            let toml = [false, true].map(|is_moved| {
                let gateway_settings = settings::GatewaySettings {
                    is_moved,
                    ..settings_for(url.clone())
                };
                settings::toml(&stage.simulator, &gateway_settings)
            });
            let mut replica = Replica::new(stage.folder.path(), number, toml, proxies);
            if !replica.is_worker {
                ports.push(replica.listen());
            }
            replica.start().await;
            replicas.push(replica);
        }
        let deployment = Self {
            balancer: Balancer::in_front_of(&ports).await,
            replicas,
            postgres,
            bucket,
            counts: Counts::new(),
            unexpected_exits: Vec::new(),
        };
        (deployment, stage)
    }

    /// Removes all faults and starts every process with these settings; returns the logs of ended
    /// processes.
    pub(super) async fn heal(&mut self, is_moved: bool) -> Vec<String> {
        let mut logs = Vec::new();
        for replica in &mut self.replicas {
            replica.heal();
            if replica.is_moved != is_moved {
                replica.configure(is_moved);
                replica.kill();
            }
            // The bucket rejects clocks more than a quarter of an hour off its own.
            if replica.present_clock.is_some() {
                replica.kill();
            }
            if replica.is_gone() {
                (replica.armed, replica.clock) = (None, None);
                replica.start().await;
            }
            logs.append(&mut replica.logs);
            self.unexpected_exits.append(&mut replica.unexpected_exits);
            for (name, count) in std::mem::take(&mut replica.counts) {
                *self.counts.entry(name).or_default() += count;
            }
        }
        logs
    }

    /// The logs of running processes.
    pub(super) fn logs(&self) -> String {
        let running = self
            .replicas
            .iter()
            .filter_map(|replica| replica.server.as_ref());
        running.map(Server::log).collect::<Vec<_>>().join("\n---\n")
    }
}

/// A proxy to each of the two servers.
async fn proxies_to(postgres: &Pair) -> Vec<FaultProxy> {
    let mut proxies = Vec::new();
    for server in &postgres.servers {
        let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
        proxies.push(FaultProxy::start(address).await.unwrap());
    }
    proxies
}

impl Replica {
    fn new(folder: &Path, number: usize, settings: [String; 2], proxies: Vec<FaultProxy>) -> Self {
        let file = folder.join(format!("{number}.toml"));
        std::fs::write(&file, &settings[0]).unwrap();
        let data = folder.join(format!("data-{number}"));
        let is_worker = number == GATEWAYS;
        let command = if is_worker { "worker" } else { "serve" };
        let (file, data) = (file.to_str().unwrap(), data.to_str().unwrap());
        let args = [command, "--config", file, "--data", data];
        Self {
            proxies,
            args: args.map(str::to_owned).into(),
            is_worker,
            server: None,
            armed: None,
            clock: None,
            present_clock: None,
            settings,
            is_moved: false,
            logs: Vec::new(),
            unexpected_exits: Vec::new(),
            may_die: false,
            counts: Counts::new(),
        }
    }

    /// Picks the port at which it listens from now on.
    fn listen(&mut self) -> u16 {
        let port = free_port();
        let address = format!("127.0.0.1:{port}");
        self.args.extend(["--listen".to_owned(), address]);
        port
    }

    /// Starts it until it keeps running: without a database it ends by itself.
    pub(super) async fn start(&mut self) {
        let started = Instant::now();
        loop {
            let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
            let start = Start {
                point_action: self.armed.take(),
                clock: self.clock.take(),
            };
            self.may_die = matches!(start.point_action, Some(PointAction::Crash(_)));
            self.present_clock = start.clock;
            if self.is_worker {
                self.server = Some(Server::spawn(&args, &start));
                return;
            }
            match Server::start(&args, &start).await {
                Ok(server) => {
                    self.server = Some(server);
                    return;
                }
                Err(failed) => self.logs.push(failed.log),
            }
            assert!(
                started.elapsed() < Duration::from_mins(2),
                "it does not start: {:?}",
                self.logs.last()
            );
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// From its next start it uses the providers' other addresses and keys, or the first ones.
    pub(super) fn configure(&mut self, is_moved: bool) {
        self.is_moved = is_moved;
        let file = &self.args[2];
        std::fs::write(file, &self.settings[usize::from(is_moved)]).unwrap();
    }

    pub(super) fn set(&self, network: NetworkState) {
        for proxy in &self.proxies {
            proxy.set(network);
        }
    }

    pub(super) fn reset(&self) {
        for proxy in &self.proxies {
            proxy.reset();
        }
    }

    pub(super) fn heal(&self) {
        for proxy in &self.proxies {
            proxy.heal();
        }
        if let Some(server) = &self.server
            && server.is_stopped()
        {
            server.signal("-CONT");
        }
    }

    /// Whether no process is running; an unexpected exit is recorded.
    pub(super) fn is_gone(&mut self) -> bool {
        let Some(server) = &mut self.server else {
            return true;
        };
        let Some(status) = server.exit_status() else {
            return false;
        };
        let log = server.log();
        // A worker that started without a database exits as a gateway does before it is ready.
        let is_in_order = status.signal() == Some(ABORTED) && self.may_die
            || self.is_worker && status.code() == Some(1);
        if !is_in_order {
            self.unexpected_exits
                .push(format!("a process ended by itself ({status}):\n{log}"));
        }
        self.logs.push(log);
        self.server = None;
        true
    }

    pub(super) fn kill(&mut self) {
        if !self.is_gone()
            && let Some(server) = self.server.take()
        {
            self.logs.push(server.kill());
        }
    }

    /// Ends it by SIGTERM, as an upgrade does.
    pub(super) async fn drain(&mut self) {
        if self.is_gone() {
            return;
        }
        if let Some(server) = self.server.take() {
            let (status, log) = server.stop().await;
            let is_in_order = |status: ExitStatus| {
                // A worker may not be ready yet; and a process may reach its point while it ends.
                status.success()
                    || self.may_die && status.signal() == Some(ABORTED)
                    || self.is_worker && status.signal() == Some(TERMINATED)
            };
            if !status.is_some_and(is_in_order) {
                self.unexpected_exits
                    .push(format!("asked to end, it ended as {status:?}:\n{log}"));
            }
            self.logs.push(log);
        }
    }

    /// Waits until it is stopped at its point, and for `duration` longer; then lets it continue.
    pub(super) async fn resume_after_stop(&self, duration: Duration, stop: &CancellationToken) {
        let Some(server) = &self.server else { return };
        let started = Instant::now();
        while !server.is_stopped() {
            if started.elapsed() > Duration::from_secs(5) || stop.is_cancelled() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        wait(duration, stop).await;
        server.signal("-CONT");
    }
}
