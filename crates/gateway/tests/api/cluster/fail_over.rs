//! Three gateways and a worker on two Postgres servers, which lose power and swap roles.

use std::collections::HashMap;
use std::time::Duration;

use mediagate_config::Durability;
use mediagate_core::domain::readiness;
use simulator::Simulator;
use tokio::time::Instant;

use crate::database::{assert_all_succeed, provider};
use crate::support::deployment::{Deployment, LoadReport};
use crate::support::pair::Pair;
use crate::support::{Answer, TestGateway, eventually, videos_order};

/// What happens to the database, and how much is ordered meanwhile.
struct Trial {
    restarts: u32,
    fail_overs: u32,
    /// The least number of orders between two such events.
    orders: usize,
    /// The longest time that the server stays away.
    away: Duration,
}

/// The number in an environment variable, which the long forms of the tests read.
fn number(variable: &str, default: u32) -> u32 {
    let value = std::env::var(variable).ok();
    value.map_or(default, |value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accepted_orders_survive_the_loss_of_the_database() {
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
    #[expect(clippy::print_stdout, reason = "a measurement for whoever runs it")]
    async fn run(&self) {
        let mut pair = Pair::synchronous().await;
        let (simulator, toml) = provider().await;
        let toml = format!("database = \"{}\"\n{toml}", pair.direct());
        let deployment = Deployment::start(&toml).await;
        let load = deployment.load(8);
        for restart in 0..self.restarts {
            load.more(self.orders).await;
            tokio::task::block_in_place(|| pair.primary().stop_immediately());
            // The lengths of the outages are evenly spread, starting at a tenth of a second.
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
        let report = load.end().await;
        seconds.sort_by(f64::total_cmp);
        println!(
            "{} orders, {} restarts, answers {:?}; seconds from promotion to the next order: {seconds:.2?}",
            report.tasks.len(),
            self.restarts,
            report.answers
        );
        check(&deployment, &simulator, &report).await;
        deployment.stop().await;
    }
}

async fn check(deployment: &Deployment, simulator: &Simulator, report: &LoadReport) {
    assert_all_succeed(&deployment.client, &report.tasks).await;
    let mut jobs: HashMap<String, u32> = HashMap::new();
    for job in simulator.world().all_jobs() {
        let prompt = job.input["prompt"].as_str().unwrap();
        *jobs.entry(prompt.to_owned()).or_default() += 1;
    }
    let paid_twice: Vec<_> = jobs.iter().filter(|(_, count)| **count > 1).collect();
    assert!(paid_twice.is_empty(), "paid twice: {paid_twice:?}");
    assert!(jobs.len() >= report.tasks.len());
    // No process lost its lease while it lived: its log would say so.
    assert!(
        !deployment.logs().contains("the lease was lost"),
        "{}",
        deployment.logs()
    );
    deployment.command(&["ledger", "verify"]).await;
}

async fn order(gateway: &TestGateway, key: &str) -> Answer {
    let request = gateway.request(reqwest::Method::POST, "/v1/videos");
    let request = request.header("idempotency-key", key).json(&videos_order());
    gateway.send(request).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_synchronous_standby_a_fail_over_loses_unreplicated_orders() {
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
    // Missing replication is reported, and a gateway that requires it accepts no orders.
    strict.get("/readyz").await.refused(503, "overloaded");
    readiness::note_durability(&gateway.app).await;
    let metrics = mediagate_telemetry::counters::metrics_recorder().render();
    assert!(metrics.contains("\nmediagate_durability 0\n"));
    let kept_task = order(&gateway, "kept").await;
    let kept_task = kept_task.header("x-task-id").unwrap();
    let standby_has_it = format!("SELECT FROM tasks WHERE id = '{kept_task}'");
    eventually("the standby has it", async || {
        (pair.standby().execute(&standby_has_it).await == 1).then_some(())
    })
    .await;
    pair.standby().set("primary_conninfo", "").await;
    eventually("the standby receives nothing more", async || {
        let receivers = "SELECT FROM pg_stat_wal_receiver";
        (pair.standby().execute(receivers).await == 0).then_some(())
    })
    .await;
    let lost_task = order(&gateway, "lost").await;
    let lost_task = lost_task.header("x-task-id").unwrap();
    tokio::task::block_in_place(|| pair.fail_over());
    eventually("orders are accepted again", async || {
        (gateway.get("/v1/tasks").await.status == 200).then_some(())
    })
    .await;
    let path = |task: &str| format!("/v1/tasks/{task}");
    gateway.get(&path(kept_task)).await.ok();
    gateway
        .get(&path(lost_task))
        .await
        .refused(404, "task_not_found");
    // The lost order, repeated, gets a new task. The kept one finds its own.
    let repeated = order(&gateway, "lost").await;
    assert_ne!(repeated.header("x-task-id"), Some(lost_task));
    assert_eq!(
        order(&gateway, "kept").await.header("x-task-id"),
        Some(kept_task)
    );
    let list = gateway.get("/v1/tasks").await.ok();
    assert_eq!(list["data"].as_array().unwrap().len(), 2);
    gateway.stop().await;
    strict.stop().await;
}
