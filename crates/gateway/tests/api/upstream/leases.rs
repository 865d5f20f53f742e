//! Processes that share a database, while one of them is stopped or cut off:
//! whatever the others do meanwhile, a task is ordered once.

use std::time::Duration;

use mediagate_model::task::TaskState;
use mediagate_store::{self as store, Conn, StoreError};
use serde_json::json;
use simulator::{ConnectionCut, FaultProxy, LinkState, NetworkState, PlannedEnd, RequestRole};

use super::{
    assert_failed, change, film, one_provider, order_film, plan, provider, replica, simulator,
    submissions, wait_for_requests, without_workers,
};
use crate::support::postgres::{TestDatabase, proxy_to};
use crate::support::program::Server;
use crate::support::{Client, TestGateway, eventually};

/// A credential as fal gives it.
const FAL_KEY: &str = "api_key = \"simulated-id:simulated-secret\"";

/// The intent of one process is delayed between its read of the task and its
/// write, for longer than its lease lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delayed_intent_places_no_second_order() {
    let simulator = simulator().await;
    // With a limit, the process takes the provider's lock between the read and the write.
    let toml = provider("acme", "openai-videos", &simulator, "max_running = 9")
        + &film(r#"{ provider = "acme", model = "sora-2" }"#);
    let database = TestDatabase::create().await;
    let (proxy, url) = proxy_to(&database.url).await;
    let slow = replica(&url, &toml).await;
    proxy.cut(ConnectionCut::new("pg_advisory_xact_lock(hashtextextended").holding());
    let task = order_film(&slow, "a lake").await;
    proxy.wait_for_strikes(1).await;
    proxy.set(NetworkState::both(LinkState::held()));
    let other = replica(&database.url, &toml).await;
    // Enough time for the other process to take the task over and order the film.
    let taken_over = wait_for_requests(&simulator, RequestRole::Submit, 1);
    drop(tokio::time::timeout(Duration::from_secs(8), taken_over).await);
    proxy.heal();
    let caller = other.with_key(slow.client.key.as_ref().unwrap());
    let finished = crate::support::gateway::finished(&caller, &task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    slow.stop().await;
    other.stop().await;
    assert_eq!(submissions(&simulator), 1);
}

/// `SIGSTOP` stops the process after the intent's commit, until the task has failed.
#[tokio::test]
async fn a_process_that_was_stopped_sends_nothing() {
    let simulator = simulator().await;
    // This provider cannot be asked about an order's outcome.
    let toml = provider("acme", "fal", &simulator, FAL_KEY)
        + &film(r#"{ provider = "acme", model = "fal-ai/veo3.1" }"#);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, &toml).unwrap();
    let data = folder.path().join("data");
    let args = ["--config", file.to_str().unwrap()];
    let stop_at_intent = [("MEDIAGATE_STOP_AT", "submission-intended")];
    let frozen = Server::start_with(&data, &args, &stop_at_intent).await;
    let client = Client::new(&frozen.base, Some(&frozen.first_key().await));
    let order = json!({"model": "film", "prompt": "a lake"});
    let accepted = client.post("/v1/videos", &order).await;
    let task = accepted.header("x-task-id").unwrap().to_owned();
    frozen.wait_until_stopped().await;
    let other = Server::start(&data, &args).await;
    let client = Client {
        base: other.base.clone(),
        ..client
    };
    let failed = crate::support::gateway::finished(&client, &task).await;
    assert_failed(&failed, "submission_unconfirmed");
    // A repeated order gets that answer and creates no new task, also the second time.
    for _ in 0..2 {
        let repeated = client.post("/v1/videos", &order).await;
        assert_eq!(repeated.header("x-task-id"), Some(task.as_str()));
    }
    frozen.signal("-CONT");
    // The process works again: it accepts and completes another task.
    let awake = Client {
        base: frozen.base.clone(),
        ..client.clone()
    };
    let another = json!({"model": "film", "prompt": "a sea"});
    let accepted = awake.post("/v1/videos", &another).await;
    let accepted = accepted.header("x-task-id").unwrap().to_owned();
    let finished = crate::support::gateway::finished(&awake, &accepted).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    assert_eq!(submissions(&simulator), 1, "only the second order was sent");
    frozen.stop().await;
    other.stop().await;
}

/// How often a task was claimed.
async fn claims(gateway: &TestGateway, task: &str) -> i64 {
    let task = task.to_owned();
    let read = gateway.app.store.read(move |conn| {
        conn.one(
            "SELECT attempts FROM tasks WHERE id = ?1",
            &[(&task).into()],
            |row| row.int(0),
        )
    });
    let claims: Result<_, StoreError> = read.await;
    claims.unwrap().unwrap()
}

/// Takes the database away: connections break, new ones are refused.
fn disconnect(proxy: &FaultProxy) {
    proxy.set(NetworkState {
        refuses: true,
        ..NetworkState::default()
    });
    proxy.reset();
}

/// All leases have expired when the database comes back. The first process that
/// renews its own does not take the others' tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_outage_every_process_keeps_its_tasks() {
    let simulator = simulator().await;
    plan(&simulator, Duration::from_secs(9), PlannedEnd::Success);
    let toml = one_provider(&simulator);
    let database = TestDatabase::create().await;
    let (proxy, url) = proxy_to(&database.url).await;
    let (other_proxy, other_url) = proxy_to(&database.url).await;
    let holder = replica(&url, &toml).await;
    let task = order_film(&holder, "a lake").await;
    wait_for_requests(&simulator, RequestRole::Poll, 1).await;
    let other = replica(&other_url, &toml).await;
    disconnect(&proxy);
    disconnect(&other_proxy);
    // Longer than a lease.
    tokio::time::sleep(Duration::from_secs(4)).await;
    other_proxy.heal();
    eventually("the other process is connected again", async || {
        (other.get("/v1/tasks").await.status == 200).then_some(())
    })
    .await;
    proxy.heal();
    assert_eq!(holder.finished(&task).await["status"], "succeeded");
    assert_eq!(claims(&other, &task).await, 1, "nobody took it over");
    holder.stop().await;
    other.stop().await;
}

/// A machine whose clock is an hour ahead takes over only tasks whose lease has expired by the
/// database's clock.
#[tokio::test]
async fn leases_are_judged_by_the_databases_clock() {
    let simulator = simulator().await;
    let toml = one_provider(&simulator);
    let database = TestDatabase::create().await;
    let builder_on_database = || {
        TestGateway::builder()
            .on_database(&database.url)
            .toml(&toml)
    };
    let idle = builder_on_database().without_workers().start().await;
    let held_task = order_film(&idle, "a lake").await;
    let left_task = order_film(&idle, "a sea").await;
    let now = idle.app.clock.now();
    let claimed = idle.app.store.write(move |conn| -> Result<_, StoreError> {
        let now = store::workers::now(conn, now)?;
        for (name, until) in [
            ("alive", now.plus(Duration::from_mins(10))),
            ("dead", now.minus(Duration::from_secs(1))),
        ] {
            store::workers::register(conn, name, until)?;
            store::tasks::claim_upstream(conn, name, "film", TaskState::Queued, 1, now)?;
        }
        Ok(())
    });
    claimed.await.unwrap();
    let ahead = builder_on_database().manual_clock().start().await;
    ahead.app.clock.advance(Duration::from_hours(1));
    eventually("the dead worker's task is taken over", async || {
        (claims(&ahead, &left_task).await == 2).then_some(())
    })
    .await;
    assert_eq!(
        claims(&ahead, &held_task).await,
        1,
        "the living worker keeps it"
    );
    let deregister = |conn: &mut Conn<'_>| store::workers::deregister(conn, "alive");
    idle.app.store.write(deregister).await.unwrap();
    ahead.stop().await;
    idle.stop().await;
}

/// The clock was set back by an hour after the task was put off.
#[tokio::test]
async fn a_task_due_absurdly_late_is_due_now() {
    let simulator = simulator().await;
    let mut gateway = without_workers(&one_provider(&simulator)).await;
    let task = order_film(&gateway, "a lake").await;
    change(
        &gateway,
        "UPDATE tasks SET due_at = due_at + 3600000000 WHERE id = ?1",
        &task,
    )
    .await;
    gateway.start_workers().await;
    assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    gateway.stop().await;
}

/// A claim was committed and its answer lost: the task has a lease that is renewed,
/// and nobody works on it.
#[tokio::test]
async fn a_claim_without_a_worker_is_released() {
    let simulator = simulator().await;
    let mut gateway = without_workers(&one_provider(&simulator)).await;
    let task = order_film(&gateway, "a lake").await;
    let postpone = "UPDATE tasks SET due_at = due_at + 600000000 WHERE id = ?1";
    change(&gateway, postpone, &task).await;
    gateway.start_workers().await;
    let claim = "UPDATE tasks SET lease_owner = (SELECT name FROM workers WHERE name NOT LIKE 'c-%') WHERE id = ?1";
    change(&gateway, claim, &task).await;
    assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    gateway.stop().await;
}

/// The database is away while tasks end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_during_an_outage_is_written_after_it() {
    let simulator = simulator().await;
    plan(&simulator, Duration::from_secs(1), PlannedEnd::Success);
    let toml = one_provider(&simulator);
    let database = TestDatabase::create().await;
    let (proxy, url) = proxy_to(&database.url).await;
    let gateway = replica(&url, &toml).await;
    let mut tasks = Vec::new();
    for _ in 0..6 {
        tasks.push(order_film(&gateway, "a lake").await);
    }
    wait_for_requests(&simulator, RequestRole::Poll, tasks.len()).await;
    disconnect(&proxy);
    wait_for_requests(&simulator, RequestRole::Download, tasks.len()).await;
    proxy.heal();
    for task in &tasks {
        let status = eventually("it ends", async || {
            let view = gateway.get(&format!("/v1/tasks/{task}?wait=1")).await.json;
            let status = view["status"].as_str()?.to_owned();
            (status != "queued" && status != "running").then_some(status)
        });
        assert_eq!(status.await, "succeeded");
    }
    assert_eq!(submissions(&simulator), tasks.len());
    gateway.stop().await;
}

/// The disk is full for a moment, for everything but heartbeats.
#[tokio::test]
async fn a_result_that_cannot_be_written_is_written_later() {
    let gateway = TestGateway::start().await;
    let database = gateway.app.config.data.join("mediagate.db");
    let disk = rusqlite::Connection::open(database).unwrap();
    disk.busy_timeout(Duration::from_secs(10)).unwrap();
    disk.execute_batch(
        "CREATE TRIGGER full BEFORE UPDATE ON tasks
         WHEN NEW.finished_at IS NOT NULL OR NEW.lease_owner IS NULL
         BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END",
    )
    .unwrap();
    let order = crate::support::videos_order();
    let answer = gateway.post("/v1/videos", &order).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    let media = gateway.app.config.media_path();
    eventually("the film is in the store", async || {
        let folders = std::fs::read_dir(&media).unwrap().flatten();
        let mut files = folders.flat_map(|folder| std::fs::read_dir(folder.path()));
        let is_film = |name: std::ffi::OsString| name.to_string_lossy().ends_with(".mp4");
        files
            .any(|mut files| files.any(|file| is_film(file.unwrap().file_name())))
            .then_some(())
    })
    .await;
    // Longer than one attempt takes.
    tokio::time::sleep(Duration::from_secs(1)).await;
    disk.execute_batch("DROP TRIGGER full").unwrap();
    assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    assert_eq!(claims(&gateway, &task).await, 1, "the film was made once");
    gateway.stop().await;
}

/// A process without a model leaves its tasks to the processes that have it.
#[tokio::test]
async fn a_model_that_a_process_lacks_is_left_to_others() {
    let simulator = simulator().await;
    let toml = one_provider(&simulator);
    let database = TestDatabase::create().await;
    let accepting = TestGateway::builder()
        .on_database(&database.url)
        .without_workers()
        .toml(&toml)
        .start()
        .await;
    let task = order_film(&accepting, "a lake").await;
    let without_film = replica(&database.url, "").await;
    // This process works, and could have claimed the task.
    let order = crate::support::videos_order();
    let own = without_film.post("/v1/videos", &order).await;
    let own = own.header("x-task-id").unwrap().to_owned();
    assert_eq!(without_film.finished(&own).await["status"], "succeeded");
    let caller = without_film.with_key(accepting.client.key.as_ref().unwrap());
    let waiting = caller.get(&format!("/v1/tasks/{task}")).await.ok();
    assert_eq!(waiting["status"], "queued");
    assert_eq!(claims(&without_film, &task).await, 0);
    let with_film = replica(&database.url, &toml).await;
    let finished = crate::support::gateway::finished(&caller, &task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    accepting.stop().await;
    without_film.stop().await;
    with_film.stop().await;
}

#[tokio::test]
async fn a_task_of_an_unknown_model_fails_after_ten_minutes() {
    let simulator = simulator().await;
    let mut gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .toml(&one_provider(&simulator))
        .start()
        .await;
    let task = order_film(&gateway, "a lake").await;
    // The name is another model's alias now.
    gateway.reconfigure("[models.animatic-1]\naliases = [\"film\"]\n");
    gateway.start_workers().await;
    let polls = std::cell::Cell::new(0);
    let failed = eventually("the task fails", async || {
        // Every third poll, six minutes pass.
        polls.set(polls.get() + 1);
        if polls.get() % 3 == 0 {
            gateway.app.clock.advance(Duration::from_mins(6));
        }
        let view = gateway.get(&format!("/v1/tasks/{task}?wait=1")).await.ok();
        (view["status"] != "queued").then_some(view)
    })
    .await;
    assert_failed(&failed, "provider_unavailable");
    assert_eq!(submissions(&simulator), 0);
    gateway.stop().await;
}
