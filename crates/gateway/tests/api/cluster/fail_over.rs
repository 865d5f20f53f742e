//! Three gateways and a worker on two Postgres servers, which lose their power and change places.

use std::collections::HashMap;
use std::time::Duration;

use mediagate_config::Durability;
use mediagate_core::domain::readiness;
use simulator::Simulator;
use tokio::time::Instant;

use crate::database::{provider, succeed};
use crate::support::deployment::{Deployment, LoadReport};
use crate::support::pair::Pair;
use crate::support::{Answer, TestGateway, eventually, videos_order};

/// What happens to the database, and how much is ordered meanwhile.
struct Trial {
    restarts: u32,
    fail_overs: u32,
    /// Orders between two of them, at least.
    orders: usize,
    /// Longest that the server stays away.
    away: Duration,
}

/// The number of a variable, for the long forms.
fn number(variable: &str, usual: u32) -> u32 {
    let said = std::env::var(variable).ok();
    said.map_or(usual, |said| said.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_told_survives_the_loss_of_the_database() {
    let trial = Trial {
        restarts: 1,
        fail_overs: 1,
        orders: 20,
        away: Duration::from_millis(500),
    };
    trial.run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the long form: 200 restarts, or MEDIAGATE_TEST_RESTARTS, of up to MEDIAGATE_TEST_AWAY seconds"]
async fn long_restarts() {
    let trial = Trial {
        restarts: number("MEDIAGATE_TEST_RESTARTS", 200),
        fail_overs: 0,
        orders: 20,
        away: Duration::from_secs(number("MEDIAGATE_TEST_AWAY", 20).into()),
    };
    trial.run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the long form: 20 fail-overs, or MEDIAGATE_TEST_FAIL_OVERS, of 500 orders each"]
async fn long_fail_overs() {
    let trial = Trial {
        restarts: 0,
        fail_overs: number("MEDIAGATE_TEST_FAIL_OVERS", 20),
        orders: 500,
        away: Duration::ZERO,
    };
    trial.run().await;
}

impl Trial {
    #[expect(clippy::print_stdout, reason = "a measurement, which is read")]
    async fn run(&self) {
        let mut pair = Pair::synchronous().await;
        let (simulator, toml) = provider().await;
        let toml = format!("database = \"{}\"\n{toml}", pair.direct());
        let deployment = Deployment::start(&toml).await;
        let load = deployment.load(8);
        for restart in 0..self.restarts {
            load.more(self.orders).await;
            tokio::task::block_in_place(|| pair.primary().stop_immediately());
            // From a tenth of a second on, evenly.
            let step = self.away / self.restarts;
            tokio::time::sleep(Duration::from_millis(100) + step * restart).await;
            tokio::task::block_in_place(|| pair.primary().start_again());
        }
        let mut seconds = Vec::new();
        for _ in 0..self.fail_overs {
            load.more(self.orders).await;
            tokio::task::block_in_place(|| pair.fail_over());
            let promoted = Instant::now();
            load.more(1).await;
            seconds.push(promoted.elapsed().as_secs_f64());
            load.more(self.orders / 2).await;
            tokio::task::block_in_place(|| pair.rebuild());
            pair.synchronize().await;
        }
        load.more(self.orders).await;
        let told = load.end().await;
        seconds.sort_by(f64::total_cmp);
        println!(
            "{} orders, {} restarts, answers {:?}; seconds from promotion to the next order: {seconds:.2?}",
            told.tasks.len(),
            self.restarts,
            told.answers
        );
        check(&deployment, &simulator, &told).await;
        deployment.stop().await;
    }
}

async fn check(on: &Deployment, simulator: &Simulator, told: &LoadReport) {
    succeed(&on.client, &told.tasks).await;
    let mut jobs: HashMap<String, u32> = HashMap::new();
    for job in simulator.world().all_jobs() {
        let prompt = job.input["prompt"].as_str().unwrap();
        *jobs.entry(prompt.to_owned()).or_default() += 1;
    }
    let twice: Vec<_> = jobs.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "paid twice: {twice:?}");
    assert!(jobs.len() >= told.tasks.len());
    // Nobody took a living process's work: one that lost its lease says so.
    assert!(!on.logs().contains("the lease was lost"), "{}", on.logs());
    on.command(&["ledger", "verify"]).await;
}

async fn order(gateway: &TestGateway, key: &str) -> Answer {
    let request = gateway.request(reqwest::Method::POST, "/v1/videos");
    let request = request.header("idempotency-key", key).json(&videos_order());
    gateway.send(request).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_synchronous_standby_a_fail_over_loses_what_it_had_not_received() {
    let mut pair = Pair::asynchronous();
    let url = pair.direct();
    let gateway = async |durability| {
        let url = url.parse().unwrap();
        let builder = TestGateway::builder().without_workers().set(|settings| {
            settings.database = Some(url);
            settings.durability = Some(durability);
        });
        builder.start().await
    };
    let (gateway, strict) = (
        gateway(Durability::Local).await,
        gateway(Durability::Replicated).await,
    );
    // It is told, and whoever wants more takes no orders.
    strict.get("/readyz").await.refused(503, "overloaded");
    readiness::note_durability(&gateway.app).await;
    let counted = mediagate_telemetry::counters::metrics_recorder().render();
    assert!(counted.contains("\nmediagate_durability 0\n"));
    let kept = order(&gateway, "kept").await;
    let kept = kept.header("x-task-id").unwrap();
    let arrived = format!("SELECT FROM tasks WHERE id = '{kept}'");
    eventually("the standby has it", async || {
        (pair.standby().execute(&arrived).await == 1).then_some(())
    })
    .await;
    pair.standby().set("primary_conninfo", "").await;
    eventually("it receives nothing more", async || {
        let receives = "SELECT FROM pg_stat_wal_receiver";
        (pair.standby().execute(receives).await == 0).then_some(())
    })
    .await;
    let lost = order(&gateway, "lost").await;
    let lost = lost.header("x-task-id").unwrap();
    tokio::task::block_in_place(|| pair.fail_over());
    eventually("orders are accepted again", async || {
        (gateway.get("/v1/tasks").await.status == 200).then_some(())
    })
    .await;
    let path = |task: &str| format!("/v1/tasks/{task}");
    gateway.get(&path(kept)).await.ok();
    gateway
        .get(&path(lost))
        .await
        .refused(404, "task_not_found");
    // Who repeats itself has one.
    let again = order(&gateway, "lost").await;
    assert_ne!(again.header("x-task-id"), Some(lost));
    assert_eq!(
        order(&gateway, "kept").await.header("x-task-id"),
        Some(kept)
    );
    let list = gateway.get("/v1/tasks").await.ok();
    assert_eq!(list["data"].as_array().unwrap().len(), 2);
    gateway.stop().await;
    strict.stop().await;
}
