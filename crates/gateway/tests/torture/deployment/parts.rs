//! What is deployed: each process has a way of its own to each Postgres server.

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
use crate::program::{At, Server, Start};
use crate::settings;
use crate::stage::Stage;
use tokio_util::sync::CancellationToken;

/// Gateways; there is a worker besides.
const GATEWAYS: usize = 3;
/// What `abort` ends a process with.
const ABORTED: i32 = 6;
/// What ends a process that is asked to before it hears.
const TERMINATED: i32 = 15;

/// How often what befell a part.
pub(super) type Counts = BTreeMap<&'static str, u64>;

pub(super) struct Deployment {
    pub(super) balancer: Balancer,
    pub(super) replicas: Vec<Replica>,
    pub(super) postgres: Pair,
    pub(super) bucket: TestBucket,
    pub(super) counts: Counts,
    /// Processes that nobody ended.
    pub(super) ended_alone: Vec<String>,
}

/// A process, its ways and what it was started with.
pub(super) struct Replica {
    pub(super) ways: Vec<FaultProxy>,
    words: Vec<String>,
    is_worker: bool,
    pub(super) server: Option<Server>,
    /// What it does to itself after its next start.
    pub(super) armed: Option<At>,
    /// How wrong its clock is after its next start.
    pub(super) clock: Option<&'static str>,
    /// How wrong it is now.
    present_clock: Option<&'static str>,
    /// Its settings: those with the providers' first addresses and keys, and the others.
    settings: [String; 2],
    is_moved: bool,
    /// Whether the process is to die at a point of its own.
    may_die: bool,
    /// What processes that are gone have logged.
    pub(super) logs: Vec<String>,
    pub(super) ended_alone: Vec<String>,
    pub(super) counts: Counts,
}

impl Deployment {
    /// Starts it all; its data is that of the stage.
    pub(super) async fn start() -> (Self, Stage) {
        let postgres = Pair::synchronous().await;
        let bucket = TestBucket::start().await;
        let folder = tempfile::tempdir().unwrap();
        let kept = |database: String| {
            settings::Kept {
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
        }
        };
        let database = Database::Elsewhere(postgres.direct());
        let stage = Stage::furnished(folder, database, &kept(postgres.direct())).await;
        let (mut replicas, mut ports) = (Vec::new(), Vec::new());
        for number in 0..=GATEWAYS {
            let ways = ways(&postgres).await;
            let url = Pair::url([ways[0].address().port(), ways[1].address().port()]);
            let toml = [false, true].map(|is_moved| {
                let kept = settings::Kept {
                    is_moved,
                    ..kept(url.clone())
                };
                settings::toml(&stage.simulator, &kept)
            });
            let mut replica = Replica::new(stage.folder.path(), number, toml, ways);
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
            ended_alone: Vec::new(),
        };
        (deployment, stage)
    }

    /// Everything works again, and is up with these settings; what processes logged that are gone.
    pub(super) async fn heal(&mut self, is_moved: bool) -> Vec<String> {
        let mut logs = Vec::new();
        for replica in &mut self.replicas {
            replica.heal();
            if replica.is_moved != is_moved {
                replica.configure(is_moved);
                replica.kill();
            }
            // The bucket refuses whoever is more than a quarter of an hour away from its own time.
            if replica.present_clock.is_some() {
                replica.kill();
            }
            if replica.is_gone() {
                (replica.armed, replica.clock) = (None, None);
                replica.start().await;
            }
            logs.append(&mut replica.logs);
            self.ended_alone.append(&mut replica.ended_alone);
            for (name, count) in std::mem::take(&mut replica.counts) {
                *self.counts.entry(name).or_default() += count;
            }
        }
        logs
    }

    /// What the living have logged.
    pub(super) fn logs(&self) -> String {
        let living = self.replicas.iter().filter_map(|it| it.server.as_ref());
        living.map(Server::log).collect::<Vec<_>>().join("\n---\n")
    }
}

/// A way to each of the two.
async fn ways(postgres: &Pair) -> Vec<FaultProxy> {
    let mut ways = Vec::new();
    for server in &postgres.servers {
        let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
        ways.push(FaultProxy::start(address).await.unwrap());
    }
    ways
}

impl Replica {
    fn new(folder: &Path, number: usize, settings: [String; 2], ways: Vec<FaultProxy>) -> Self {
        let file = folder.join(format!("{number}.toml"));
        std::fs::write(&file, &settings[0]).unwrap();
        let data = folder.join(format!("data-{number}"));
        let is_worker = number == GATEWAYS;
        let command = if is_worker { "worker" } else { "serve" };
        let (file, data) = (file.to_str().unwrap(), data.to_str().unwrap());
        let words = [command, "--config", file, "--data", data];
        Self {
            ways,
            words: words.map(str::to_owned).into(),
            is_worker,
            server: None,
            armed: None,
            clock: None,
            present_clock: None,
            settings,
            is_moved: false,
            logs: Vec::new(),
            ended_alone: Vec::new(),
            may_die: false,
            counts: Counts::new(),
        }
    }

    /// The port at which it is to be found from now on.
    fn listen(&mut self) -> u16 {
        let port = free_port();
        let address = format!("127.0.0.1:{port}");
        self.words.extend(["--listen".to_owned(), address]);
        port
    }

    /// Starts it until it stays: without a database it ends by itself.
    pub(super) async fn start(&mut self) {
        let begun = Instant::now();
        loop {
            let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
            let start = Start {
                at: self.armed.take(),
                clock: self.clock.take(),
            };
            self.may_die = matches!(start.at, Some(At::Crash(_)));
            self.present_clock = start.clock;
            if self.is_worker {
                self.server = Some(Server::begin(&words, &start));
                return;
            }
            match Server::start(&words, &start).await {
                Ok(server) => {
                    self.server = Some(server);
                    return;
                }
                Err(died) => self.logs.push(died.log),
            }
            assert!(
                begun.elapsed() < Duration::from_mins(2),
                "it does not start: {:?}",
                self.logs.last()
            );
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// From its next start on it has the providers' other addresses and keys, or the first ones.
    pub(super) fn configure(&mut self, is_moved: bool) {
        self.is_moved = is_moved;
        let file = &self.words[2];
        std::fs::write(file, &self.settings[usize::from(is_moved)]).unwrap();
    }

    pub(super) fn set(&self, network: NetworkState) {
        for way in &self.ways {
            way.set(network);
        }
    }

    pub(super) fn reset(&self) {
        for way in &self.ways {
            way.reset();
        }
    }

    pub(super) fn heal(&self) {
        for way in &self.ways {
            way.heal();
        }
        if let Some(server) = &self.server
            && server.is_stopped()
        {
            server.signal("-CONT");
        }
    }

    /// Whether no process is there; one that ended where it was not to is noted.
    pub(super) fn is_gone(&mut self) -> bool {
        let Some(server) = &mut self.server else {
            return true;
        };
        let Some(status) = server.exit_status() else {
            return false;
        };
        let log = server.log();
        // A worker that started without a database ends as a gateway does that is not up yet.
        let is_in_order = status.signal() == Some(ABORTED) && self.may_die
            || self.is_worker && status.code() == Some(1);
        if !is_in_order {
            self.ended_alone
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

    /// Ends it as an upgrade does: it has time to finish.
    pub(super) async fn drain(&mut self) {
        if self.is_gone() {
            return;
        }
        if let Some(server) = self.server.take() {
            let (status, log) = server.stop().await;
            let is_in_order = |status: ExitStatus| {
                // Nobody waits until a worker is up; and one may come to its point while it ends.
                status.success()
                    || self.may_die && status.signal() == Some(ABORTED)
                    || self.is_worker && status.signal() == Some(TERMINATED)
            };
            if !status.is_some_and(is_in_order) {
                self.ended_alone
                    .push(format!("asked to end, it ended as {status:?}:\n{log}"));
            }
            self.logs.push(log);
        }
    }

    /// Waits until it stands still at its point, and a while longer; then it goes on.
    pub(super) async fn stand_still(&self, while_: Duration, over: &CancellationToken) {
        let Some(server) = &self.server else { return };
        let begun = Instant::now();
        while !server.is_stopped() {
            if begun.elapsed() > Duration::from_secs(5) || over.is_cancelled() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        wait(while_, over).await;
        server.signal("-CONT");
    }
}
