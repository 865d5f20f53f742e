//! Replicas on one Postgres, each behind a network of its own that is late, held,
//! silent, reset or cut at a commit, while processes crash, and stop at any
//! instant and at each named point.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use simulator::{ConnectionCut, FaultProxy, JobPlan, LinkState, NetworkState, Simulator};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::crash_points::names;
use crate::db::Database;
use crate::dice::{Dice, tag_in};
use crate::knobs::{DatabaseKind, Knobs, LONG, wants};
use crate::postgres::TestDatabase;
use crate::program::{PointAction, Server, Start, output, program};
use crate::stage::client;

const OPENAI: &str = "openai-videos";
const REPLICAS: usize = 3;
/// Number of simultaneous callers.
const CALLERS: usize = 6;
/// How long it runs together with all other tests.
const SHORT_RUN: Duration = Duration::from_secs(25);
/// How long to wait until a process stops at its point.
const POINT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long all tasks may take to end once faults stop.
const SETTLE_TIMEOUT: Duration = Duration::from_mins(3);

/// A process, its network and what it was started with.
struct Replica {
    proxy: FaultProxy,
    args: Vec<String>,
    server: Option<Server>,
    /// The point at which it stops after its next start.
    stop_at: Option<PointAction>,
}

impl Replica {
    async fn new(folder: &Path, number: usize, simulator: &Simulator, database: &str) -> Self {
        let mut url = url::Url::parse(database).unwrap();
        let host = url.host_str().unwrap_or("127.0.0.1").to_owned();
        let addresses: Vec<SocketAddr> =
            tokio::net::lookup_host((host, url.port().unwrap_or(5432)))
                .await
                .unwrap()
                .collect();
        let proxy = FaultProxy::start(addresses[0]).await.unwrap();
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(proxy.address().port())).unwrap();
        let file = folder.join(format!("{number}.toml"));
        let provider = simulator.url(OPENAI);
        let toml = format!(
            "listen = \"127.0.0.1:0\"\ndatabase = \"{url}\"\nlog = \"error\"\nworkers = 1\n\
             signing_secret = \"one for all of them, and long enough\"\n\
             [providers.acme]\nprotocol = \"{OPENAI}\"\nbase_url = \"{provider}\"\napi_key = \"sk-simulated-0123456789\"\n\
             [models.film]\nkind = \"video\"\nprice = {{ unit = \"second\", usd = \"0.10\" }}\n\
             routes = [{{ provider = \"acme\", model = \"sora-2\" }}]\n"
        );
        std::fs::write(&file, toml).unwrap();
        // Shared, because they have no bucket.
        let data = folder.join("data");
        let args = ["serve", "--config", file.to_str().unwrap(), "--data"];
        let mut args: Vec<String> = args.map(str::to_owned).into();
        args.push(data.to_str().unwrap().to_owned());
        Self {
            proxy,
            args,
            server: None,
            stop_at: None,
        }
    }

    async fn start(&mut self) -> Option<String> {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let start = Start {
            point_action: self.stop_at.take(),
            clock: None,
        };
        let server = Server::start(&args, &start).await.ok()?;
        let base = server.base.clone();
        self.server = Some(server);
        Some(base)
    }

    /// Lets it continue once it has been stopped at its point for a while.
    async fn resume_after_stop(&self, duration: Duration) {
        let Some(server) = &self.server else { return };
        let started = Instant::now();
        while !server.is_stopped() {
            if started.elapsed() > POINT_TIMEOUT {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(duration).await;
        server.signal("-CONT");
    }

    /// Runs a command on the same data.
    async fn command(&self, args: &[&str]) -> String {
        let mut full_args = args.to_vec();
        full_args.extend(self.args[1..].iter().map(String::as_str));
        let output = output(program(&full_args)).await;
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// Injects one fault into a replica and removes it.
async fn inject_fault(replica: &mut Replica, mut dice: Dice) -> &'static str {
    let duration = dice.millis(100, 7000);
    let network = |network| {
        replica.proxy.set(network);
        tokio::time::sleep(duration)
    };
    let name = match dice.roll(10) {
        0 => {
            network(NetworkState::both(LinkState::with_delay(
                Duration::from_millis(1),
            )))
            .await;
            "late"
        }
        1 => {
            network(NetworkState::both(LinkState::held())).await;
            "held"
        }
        2 => {
            let down = LinkState::held();
            let silent = NetworkState {
                down,
                ..NetworkState::default()
            };
            network(silent).await;
            "silent"
        }
        3 => {
            let gone = NetworkState {
                refuses: true,
                ..NetworkState::default()
            };
            replica.proxy.reset();
            network(gone).await;
            replica.proxy.reset();
            "gone"
        }
        4 => {
            replica.proxy.cut(ConnectionCut::new("COMMIT").passing());
            tokio::time::sleep(duration).await;
            "commit without an answer"
        }
        5 => {
            replica
                .proxy
                .cut(ConnectionCut::new("INTO submissions").holding());
            tokio::time::sleep(duration).await;
            "an intent held up"
        }
        6 => {
            if let Some(server) = &replica.server {
                server.signal("-STOP");
                tokio::time::sleep(duration).await;
                server.signal("-CONT");
            }
            "stopped"
        }
        7 | 8 => {
            let points = names();
            if !points.is_empty() {
                let point = format!("{}:{}", dice.pick(&points), dice.between(1, 3));
                replica.stop_at = Some(PointAction::Stop(point));
            }
            if let Some(server) = replica.server.take() {
                drop(server.kill());
            }
            "killed, to stand still at a point"
        }
        _ => {
            if let Some(server) = replica.server.take() {
                drop(server.kill());
            }
            "killed"
        }
    };
    replica.proxy.heal();
    name
}

/// Sends one order with its key to random replicas until it is accepted or time is over.
/// Returns the last status.
async fn order(
    http: reqwest::Client,
    addresses: Vec<tokio::sync::watch::Receiver<Option<String>>>,
    key: String,
    mut dice: Dice,
    until: Instant,
) -> u16 {
    let tag = dice.tag();
    let body = json!({"model": "film", "prompt": tag, "seconds": "4"});
    let mut last_status = 0;
    while Instant::now() < until {
        let address = dice.pick(&addresses).borrow().clone();
        let Some(base) = address else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let request = http.post(format!("{base}/v1/videos")).json(&body);
        let request = request.bearer_auth(&key).header("idempotency-key", &tag);
        let answer = request.timeout(Duration::from_secs(8)).send().await;
        last_status = answer.map_or(0, |answer| answer.status().as_u16());
        if last_status == 200 {
            return last_status;
        }
        tokio::time::sleep(dice.millis(50, 500)).await;
    }
    last_status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas() {
    torture(SHORT_RUN).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the long form: an hour, or MEDIAGATE_TORTURE_SECONDS"]
async fn long_replicas() {
    torture(LONG).await;
}

#[expect(clippy::too_many_lines, reason = "one scene, in its order")]
async fn torture(default_time: Duration) {
    if !wants(DatabaseKind::Postgres) {
        return;
    }
    let knobs = Knobs::read();
    let run_time = knobs.duration_or(default_time);
    println!("MEDIAGATE_TORTURE_SEED={} for {run_time:?}", knobs.seed);
    let mut dice = Dice::new(knobs.seed);
    let simulator = Simulator::start().await.unwrap();
    simulator.world().set_plan(JobPlan {
        queued: Duration::from_millis(100),
        running: Duration::from_millis(400),
        ..JobPlan::default()
    });
    simulator.world().set_journal(false);
    let folder = tempfile::tempdir().unwrap();
    let database = TestDatabase::create().await;
    let mut replicas = Vec::new();
    for number in 0..REPLICAS {
        replicas.push(Replica::new(folder.path(), number, &simulator, &database.url).await);
    }
    let mut addresses = Vec::new();
    for replica in &mut replicas {
        let base = replica.start().await.expect("a replica starts");
        addresses.push(tokio::sync::watch::Sender::new(Some(base)));
    }
    let args = ["keys", "create", "--name", "torture", "--rpm", "1000000"];
    let key = replicas[0]
        .command(&[&args[..], &["--max-running", "100000"]].concat())
        .await;
    let until = Instant::now() + run_time;
    let address_receivers = || addresses.iter().map(tokio::sync::watch::Sender::subscribe);
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (addresses, key, mut dice) = (
            address_receivers().collect::<Vec<_>>(),
            key.clone(),
            dice.fork(),
        );
        callers.spawn(async move {
            let (http, mut statuses) = (client(), Vec::new());
            while Instant::now() < until {
                let (addresses, key) = (addresses.clone(), key.clone());
                statuses.push(order(http.clone(), addresses, key, dice.fork(), until).await);
            }
            statuses
        });
    }
    let mut fault_tasks = JoinSet::new();
    for (mut replica, address) in replicas.into_iter().zip(addresses) {
        let mut dice = dice.fork();
        fault_tasks.spawn(async move {
            let mut counts: HashMap<&str, u64> = HashMap::new();
            while Instant::now() < until {
                tokio::time::sleep(dice.millis(100, 4000)).await;
                *counts
                    .entry(inject_fault(&mut replica, dice.fork()).await)
                    .or_default() += 1;
                if replica.server.is_none() {
                    address.send_replace(None);
                    let stops = replica.stop_at.is_some();
                    address.send_replace(replica.start().await);
                    if stops {
                        replica.resume_after_stop(dice.millis(500, 8000)).await;
                    }
                }
            }
            replica.proxy.heal();
            if replica.server.is_none() {
                replica.start().await.expect("a replica starts");
            }
            (replica, counts)
        });
    }
    let statuses = callers.join_all().await.concat();
    let (replicas, counts): (Vec<_>, Vec<_>) = fault_tasks.join_all().await.into_iter().unzip();
    let database = Database::Postgres(database);
    let idle_since = Instant::now();
    while database
        .count(
            "tasks",
            "state IN ('queued', 'running') OR (state = 'cancelled' AND money = 'held')",
        )
        .await
        > 0
    {
        assert!(idle_since.elapsed() < SETTLE_TIMEOUT, "tasks are stuck");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let columns = &["id", "state", "error_code"];
    let mut ends: HashMap<String, u64> = HashMap::new();
    for row in database.table("tasks", columns, "").await {
        let end = format!("{} {}", row.text("state"), row.text("error_code"));
        *ends.entry(end).or_default() += 1;
    }
    let mut jobs: HashMap<String, u64> = HashMap::new();
    for job in simulator.world().all_jobs() {
        let input: Value = (*job.input).clone();
        let tag = tag_in(&input.to_string()).unwrap().to_owned();
        *jobs.entry(tag).or_default() += 1;
    }
    let paid: u64 = jobs.values().sum();
    println!(
        "{} orders, {} accepted, {paid} paid jobs\n{ends:?}\n{counts:?}",
        statuses.len(),
        statuses.iter().filter(|status| **status == 200).count()
    );
    let paid_twice: Vec<_> = jobs.iter().filter(|(_, count)| **count > 1).collect();
    assert!(paid_twice.is_empty(), "paid twice: {paid_twice:?}");
    replicas[0].command(&["ledger", "verify"]).await;
}
