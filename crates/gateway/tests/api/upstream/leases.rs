//! Processes that share a database, and one of them stands still or is cut off:
//! whatever the others do meanwhile, a task is ordered once.

use std::time::Duration;

use mediagate_model::task::TaskState;
use mediagate_store::{self as store, Conn, StoreError};
use serde_json::json;
use simulator::{ConnectionCut, FaultProxy, LinkState, NetworkState, PlannedEnd, RequestRole};

use super::{
    arrives, assert_failed, change, film, one_provider, ordered, plan, provider, simulator,
    submissions, without_workers,
};
use crate::support::postgres::{TestDatabase, proxy_to};
use crate::support::program::Server;
use crate::support::{Client, TestGateway, eventually};

/// A credential as fal gives it.
const KEYED: &str = "api_key = \"simulated-id:simulated-secret\"";

/// A gateway on this database, with its own folder.
async fn replica(url: &str, toml: &str) -> TestGateway {
    let url = url.parse().unwrap();
    let builder = TestGateway::builder().toml(toml);
    builder
        .set(|settings| settings.database = Some(url))
        .start()
        .await
}

/// The intent of one process is held up between its look at the task and its
/// write, for longer than its lease holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intent_that_is_held_up_is_no_second_order() {
    let simulator = simulator().await;
    // With a limit it asks for the provider's turn between the two.
    let toml = provider("acme", "openai-videos", &simulator, "max_running = 9")
        + &film(r#"{ provider = "acme", model = "sora-2" }"#);
    let database = TestDatabase::create().await;
    let (proxy, url) = proxy_to(&database.url).await;
    let slow = replica(&url, &toml).await;
    proxy.cut(ConnectionCut::new("pg_advisory_xact_lock(hashtextextended").holding());
    let task = ordered(&slow, "a lake").await;
    proxy.wait_for_strikes(1).await;
    proxy.set(NetworkState::both(LinkState::held()));
    let other = replica(&database.url, &toml).await;
    // Time enough for the other one to take it over and order it.
    let taken_over = arrives(&simulator, RequestRole::Submit, 1);
    drop(tokio::time::timeout(Duration::from_secs(8), taken_over).await);
    proxy.heal();
    let caller = other.with_key(slow.client.key.as_ref().unwrap());
    let done = crate::support::gateway::finished(&caller, &task).await;
    assert_eq!(done["status"], "succeeded", "{done}");
    slow.stop().await;
    other.stop().await;
    assert_eq!(submissions(&simulator), 1);
}

/// `SIGSTOP` behind the intent's commit, until the task was given up.
#[tokio::test]
async fn a_process_that_stood_still_sends_nothing() {
    let simulator = simulator().await;
    // Nobody can be asked what became of an order.
    let toml = provider("acme", "fal", &simulator, KEYED)
        + &film(r#"{ provider = "acme", model = "fal-ai/veo3.1" }"#);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, &toml).unwrap();
    let data = folder.path().join("data");
    let words = ["--config", file.to_str().unwrap()];
    let stopping = [("MEDIAGATE_STOP_AT", "submission-intended")];
    let frozen = Server::start_with(&data, &words, &stopping).await;
    let client = Client::new(&frozen.base, Some(&frozen.first_key().await));
    let order = json!({"model": "film", "prompt": "a lake"});
    let accepted = client.post("/v1/videos", &order).await;
    let task = accepted.header("x-task-id").unwrap().to_owned();
    frozen.wait_until_stopped().await;
    let other = Server::start(&data, &words).await;
    let client = Client {
        base: other.base.clone(),
        ..client
    };
    let ended = crate::support::gateway::finished(&client, &task).await;
    assert_failed(&ended, "submission_unconfirmed");
    // The same order again gets that answer, and is no new one; twice, too.
    for _ in 0..2 {
        let again = client.post("/v1/videos", &order).await;
        assert_eq!(again.header("x-task-id"), Some(task.as_str()));
    }
    frozen.signal("-CONT");
    // It works again once it can accept and do something.
    let awake = Client {
        base: frozen.base.clone(),
        ..client.clone()
    };
    let another = json!({"model": "film", "prompt": "a sea"});
    let next = awake.post("/v1/videos", &another).await;
    let next = next.header("x-task-id").unwrap().to_owned();
    let done = crate::support::gateway::finished(&awake, &next).await;
    assert_eq!(done["status"], "succeeded", "{done}");
    assert_eq!(submissions(&simulator), 1, "only the second one left");
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

/// A way to the database that is gone: connections break, new ones are refused.
fn take_away(proxy: &FaultProxy) {
    proxy.set(NetworkState {
        refuses: true,
        ..NetworkState::default()
    });
    proxy.reset();
}

/// All leases have run out when the database comes back. The first that can
/// prolong its own does not take the others' tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_outage_everybody_keeps_its_tasks() {
    let simulator = simulator().await;
    plan(&simulator, Duration::from_secs(9), PlannedEnd::Success);
    let toml = one_provider(&simulator);
    let database = TestDatabase::create().await;
    let (proxy, url) = proxy_to(&database.url).await;
    let (way, other_url) = proxy_to(&database.url).await;
    let holder = replica(&url, &toml).await;
    let task = ordered(&holder, "a lake").await;
    arrives(&simulator, RequestRole::Poll, 1).await;
    let other = replica(&other_url, &toml).await;
    take_away(&proxy);
    take_away(&way);
    // Longer than a lease.
    tokio::time::sleep(Duration::from_secs(4)).await;
    way.heal();
    eventually("the other one is there", async || {
        (other.get("/v1/tasks").await.status == 200).then_some(())
    })
    .await;
    proxy.heal();
    assert_eq!(holder.finished(&task).await["status"], "succeeded");
    assert_eq!(claims(&other, &task).await, 1, "nobody took it over");
    holder.stop().await;
    other.stop().await;
}

/// A machine whose clock is an hour ahead takes over what has run out by the database's clock, and nothing else.
#[tokio::test]
async fn leases_are_judged_by_the_databases_clock() {
    let simulator = simulator().await;
    let toml = one_provider(&simulator);
    let database = TestDatabase::create().await;
    let url = database.url.clone();
    let on_it = || {
        let url = url.parse().unwrap();
        let builder = TestGateway::builder().toml(&toml);
        builder.set(|settings| settings.database = Some(url))
    };
    let idle = on_it().without_workers().start().await;
    let held = ordered(&idle, "a lake").await;
    let left = ordered(&idle, "a sea").await;
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
    let ahead = on_it().manual_clock().start().await;
    ahead.app.clock.advance(Duration::from_hours(1));
    eventually("what the dead one left is taken over", async || {
        (claims(&ahead, &left).await == 2).then_some(())
    })
    .await;
    assert_eq!(claims(&ahead, &held).await, 1, "the living one keeps it");
    let leave = |conn: &mut Conn<'_>| store::workers::deregister(conn, "alive");
    idle.app.store.write(leave).await.unwrap();
    ahead.stop().await;
    idle.stop().await;
}

/// The clock was set back by an hour after this was put off.
#[tokio::test]
async fn what_is_due_absurdly_late_is_due_now() {
    let simulator = simulator().await;
    let mut gateway = without_workers(&one_provider(&simulator)).await;
    let task = ordered(&gateway, "a lake").await;
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

/// A claim was committed and its answer lost: the task stands under a lease that
/// goes on, and nobody works on it.
#[tokio::test]
async fn what_nobody_follows_is_given_back() {
    let simulator = simulator().await;
    let mut gateway = without_workers(&one_provider(&simulator)).await;
    let task = ordered(&gateway, "a lake").await;
    let late = "UPDATE tasks SET due_at = due_at + 600000000 WHERE id = ?1";
    change(&gateway, late, &task).await;
    gateway.start_workers().await;
    let claim = "UPDATE tasks SET lease_owner = (SELECT name FROM workers WHERE name NOT LIKE 'c-%') WHERE id = ?1";
    change(&gateway, claim, &task).await;
    assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    gateway.stop().await;
}

/// The database restarts while tasks end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_falls_into_an_outage_is_written_after_it() {
    let simulator = simulator().await;
    plan(&simulator, Duration::from_secs(1), PlannedEnd::Success);
    let toml = one_provider(&simulator);
    let database = TestDatabase::create().await;
    let (proxy, url) = proxy_to(&database.url).await;
    let gateway = replica(&url, &toml).await;
    let mut tasks = Vec::new();
    for _ in 0..6 {
        tasks.push(ordered(&gateway, "a lake").await);
    }
    arrives(&simulator, RequestRole::Poll, tasks.len()).await;
    take_away(&proxy);
    arrives(&simulator, RequestRole::Download, tasks.len()).await;
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
async fn an_end_that_cannot_be_written_is_written_later() {
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
    eventually("it is made", async || {
        let folders = std::fs::read_dir(&media).unwrap().flatten();
        let mut files = folders.flat_map(|folder| std::fs::read_dir(folder.path()));
        let is_film = |name: std::ffi::OsString| name.to_string_lossy().ends_with(".mp4");
        files
            .any(|mut files| files.any(|file| is_film(file.unwrap().file_name())))
            .then_some(())
    })
    .await;
    // Longer than it takes to try once.
    tokio::time::sleep(Duration::from_secs(1)).await;
    disk.execute_batch("DROP TRIGGER full").unwrap();
    assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    assert_eq!(claims(&gateway, &task).await, 1, "it was made once");
    gateway.stop().await;
}

/// A process without a model leaves its tasks to those that have it; what nobody
/// has for ten minutes fails.
#[tokio::test]
async fn a_model_that_a_process_lacks_is_left_to_others() {
    let simulator = simulator().await;
    let toml = one_provider(&simulator);
    let database = TestDatabase::create().await;
    let url = database.url.parse().unwrap();
    let accepting = TestGateway::builder()
        .without_workers()
        .toml(&toml)
        .set(|settings| settings.database = Some(url))
        .start()
        .await;
    let task = ordered(&accepting, "a lake").await;
    let without = replica(&database.url, "").await;
    // It works, and has had its chance.
    let order = crate::support::videos_order();
    let own = without.post("/v1/videos", &order).await;
    let own = own.header("x-task-id").unwrap().to_owned();
    assert_eq!(without.finished(&own).await["status"], "succeeded");
    let caller = without.with_key(accepting.client.key.as_ref().unwrap());
    let waits = caller.get(&format!("/v1/tasks/{task}")).await.ok();
    assert_eq!(waits["status"], "queued");
    assert_eq!(claims(&without, &task).await, 0);
    let with = replica(&database.url, &toml).await;
    let done = crate::support::gateway::finished(&caller, &task).await;
    assert_eq!(done["status"], "succeeded", "{done}");
    accepting.stop().await;
    without.stop().await;
    with.stop().await;
}

#[tokio::test]
async fn what_nobody_can_do_fails_after_ten_minutes() {
    let simulator = simulator().await;
    let mut gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .toml(&one_provider(&simulator))
        .start()
        .await;
    let task = ordered(&gateway, "a lake").await;
    // Somebody else has the name by now.
    gateway.reconfigure("[models.animatic-1]\naliases = [\"film\"]\n");
    gateway.start_workers().await;
    let looks = std::cell::Cell::new(0);
    let ended = eventually("it fails", async || {
        // Now and then a while is over.
        looks.set(looks.get() + 1);
        if looks.get() % 3 == 0 {
            gateway.app.clock.advance(Duration::from_mins(6));
        }
        let view = gateway.get(&format!("/v1/tasks/{task}?wait=1")).await.ok();
        (view["status"] != "queued").then_some(view)
    })
    .await;
    assert_failed(&ended, "provider_unavailable");
    assert_eq!(submissions(&simulator), 0);
    gateway.stop().await;
}
