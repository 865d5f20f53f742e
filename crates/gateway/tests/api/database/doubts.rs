//! Commits whose outcome is unknown: the answer was lost, and the database's state was
//! reset meanwhile.

use std::sync::mpsc;

use simulator::{ConnectionCut, Fault, FaultProxy, NetworkState, RequestRole, Simulator};

use super::{provider, submission_count};
use crate::support::cluster::Cluster;
use crate::support::postgres::proxy_to;
use crate::support::{TestGateway, eventually};

/// A gateway whose database blocks each `INSERT` or each `UPDATE` of a submission.
struct Trial {
    cluster: Cluster,
    proxy: FaultProxy,
    simulator: Simulator,
    gateway: TestGateway,
    /// Releases the blocked changes.
    release: mpsc::Sender<()>,
}

impl Trial {
    /// `change` is `INSERT` or `UPDATE`.
    async fn stopping_at(change: &str) -> Self {
        let cluster = Cluster::start();
        let (proxy, url) = proxy_to(&cluster.url()).await;
        let (simulator, toml) = provider().await;
        let builder = TestGateway::builder().on_database(&url).toml(&toml);
        let gateway = builder.start().await;
        let wait = "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
                    BEGIN PERFORM pg_advisory_xact_lock_shared(7, 42); RETURN NEW; END $$";
        cluster.execute(wait).await;
        let trigger = format!(
            "CREATE TRIGGER wait BEFORE {change} ON submissions FOR EACH ROW EXECUTE FUNCTION wait()"
        );
        cluster.execute(&trigger).await;
        let release = hold_lock(cluster.url());
        Self {
            cluster,
            proxy,
            simulator,
            gateway,
            release,
        }
    }

    async fn order(&self) -> String {
        let order = serde_json::json!({"model": "film", "prompt": "a lake"});
        let answer = self.gateway.post("/v1/videos", &order).await;
        let task = answer.header("x-task-id").unwrap().to_owned();
        answer.ok();
        eventually("the change waits", async || {
            let waiting_locks =
                "SELECT FROM pg_locks WHERE classid = 7 AND objid = 42 AND NOT granted";
            (self.cluster.execute(waiting_locks).await == 1).then_some(())
        })
        .await;
        task
    }

    /// Lets the database commit the blocked change, and withholds the answer from the gateway.
    async fn lose_the_answer(&self, state: &str) {
        let reset = "SELECT pg_stat_reset_shared('bgwriter')";
        self.cluster.execute(reset).await;
        let cut = ConnectionCut {
            times: 1000,
            ..ConnectionCut::new("COMMIT")
        };
        self.proxy.cut(cut.passing());
        self.release.send(()).unwrap();
        let changed = format!("SELECT FROM submissions WHERE state = '{state}'");
        eventually("the change is committed", async || {
            (self.cluster.execute(&changed).await == 1).then_some(())
        })
        .await;
        self.proxy.wait_for_strikes(1).await;
        self.proxy.clear_cuts();
    }

    async fn succeeds(self, task: &str, sent: usize) {
        let task_view = self.gateway.finished(task).await;
        assert_eq!(task_view["status"], "succeeded", "{task_view}");
        assert_eq!(self.simulator.world().all_jobs().len(), 1);
        assert_eq!(submission_count(&self.simulator), sent);
        self.gateway.stop().await;
    }
}

/// Holds the lock that the trigger waits for, until the sender is used.
fn hold_lock(url: String) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel();
    let (held_tx, held_rx) = mpsc::channel();
    std::thread::spawn(move || {
        let mut client = ::postgres::Client::connect(&url, ::postgres::NoTls).unwrap();
        client
            .batch_execute("SELECT pg_advisory_lock(7, 42)")
            .unwrap();
        held_tx.send(()).unwrap();
        // A failed trial drops the sender.
        let _ = released.recv();
    });
    held_rx.recv().unwrap();
    release
}

/// The provider refuses one submission.
fn refuse_once(simulator: &Simulator) {
    let refused = Fault::Status {
        status: 429,
        retry_after: None,
        bare: false,
    };
    let world = simulator.world();
    world.order_fault(refused, None, Some(RequestRole::Submit), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intent_in_doubt_is_found_again_and_sent_once() {
    let trial = Trial::stopping_at("INSERT").await;
    let task = trial.order().await;
    trial.lose_the_answer("intended").await;
    trial.succeeds(&task, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_in_doubt_is_found_again_and_the_order_continues() {
    let trial = Trial::stopping_at("UPDATE").await;
    refuse_once(&trial.simulator);
    let task = trial.order().await;
    trial.lose_the_answer("refused").await;
    trial.succeeds(&task, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_recorded_when_the_database_is_back() {
    let trial = Trial::stopping_at("UPDATE").await;
    refuse_once(&trial.simulator);
    let task = trial.order().await;
    trial.proxy.set(NetworkState {
        refuses: true,
        ..NetworkState::default()
    });
    trial.proxy.reset();
    trial.release.send(()).unwrap();
    eventually("the gateway has noticed", async || {
        (trial.gateway.get("/v1/tasks").await.status == 503).then_some(())
    })
    .await;
    trial.proxy.heal();
    trial.succeeds(&task, 2).await;
}
