//! Limits of routes and credentials, which make work wait; and credentials,
//! which share it and keep what they made.

use std::time::Duration;

use mediagate_store::StoreError;
use mediagate_worker::WorkerPool;
use simulator::{JobPhase, PlannedEnd, RequestRole, Simulator};

use super::{
    arrived, film, gateway, keys, one_provider, ordered, plan, provider, simulator, submissions,
};
use crate::support::{TestGateway, eventually};

const LONG: Duration = Duration::from_hours(1);

/// Jobs that have not ended at the provider.
fn running(simulator: &Simulator) -> usize {
    running_by(simulator, "openai-videos")
}

fn running_by(simulator: &Simulator, protocol: &str) -> usize {
    let jobs = simulator.world().jobs(protocol);
    let open = |phase| matches!(phase, JobPhase::Queued | JobPhase::Running(_));
    jobs.iter().filter(|job| open(job.phase())).count()
}

/// Waits for the end of all of these, and asserts that they succeeded.
async fn all_succeed(gateway: &TestGateway, tasks: &[String]) {
    for task in tasks {
        let done = gateway.finished(task).await;
        assert_eq!(done["status"], "succeeded", "{done}");
    }
}

#[tokio::test]
async fn no_more_run_at_once_than_the_route_takes() {
    two_at_once(false).await;
}

#[tokio::test]
async fn no_more_run_at_once_than_the_route_takes_on_postgres() {
    two_at_once(true).await;
}

/// Two processes share a route with room for two.
async fn two_at_once(postgres: bool) {
    let simulator = simulator().await;
    plan(&simulator, Duration::from_millis(300), PlannedEnd::Success);
    let route = r#"{ provider = "acme", model = "sora-2", max_running = 2 }"#;
    let toml = provider("acme", "openai-videos", &simulator, "") + &film(route);
    let mut builder = TestGateway::builder().toml(&toml);
    if postgres {
        builder = builder.on_postgres();
    }
    let gateway = builder.start().await;
    let others = WorkerPool::start(&gateway.app).await;
    let mut tasks = Vec::new();
    for _ in 0..6 {
        tasks.push(ordered(&gateway, "a lake").await);
    }
    let most = std::cell::Cell::new(0);
    eventually("all are sent", async || {
        let now = running(&simulator);
        most.set(now.max(most.get()));
        (submissions(&simulator) == 6).then_some(())
    })
    .await;
    assert_eq!(most.get(), 2, "the room is used, and no more");
    all_succeed(&gateway, &tasks).await;
    others.stop().await;
    gateway.stop().await;
}

/// A protocol that answers with the result has the order in memory until then.
#[tokio::test]
async fn no_more_are_submitted_at_once_than_the_settings_say() {
    let simulator = simulator().await;
    // Longer than it takes to order the next one on a busy machine: else none would meet another.
    plan(&simulator, Duration::from_secs(1), PlannedEnd::Success);
    let route = r#"{ provider = "acme", model = "veo3" }"#;
    let toml = "max_submitting = 2\n".to_owned()
        + &provider("acme", "chat-video", &simulator, "")
        + &film(route);
    let gateway = gateway(&toml).await;
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(ordered(&gateway, "a lake").await);
    }
    let most = std::cell::Cell::new(0);
    eventually("all are sent", async || {
        let now = running_by(&simulator, "chat-video");
        most.set(now.max(most.get()));
        (submissions(&simulator) == 5).then_some(())
    })
    .await;
    assert_eq!(most.get(), 2);
    all_succeed(&gateway, &tasks).await;
    gateway.stop().await;
}

/// How often a task was claimed, as the database has it.
async fn claims(gateway: &TestGateway, task: String) -> i64 {
    let read = gateway.app.store.read(move |conn| {
        conn.one(
            "SELECT attempts FROM tasks WHERE id = ?1 AND (attempts = 0) = (lease_owner IS NULL)",
            &[(&task).into()],
            |row| row.int(0),
        )
    });
    let claims: Result<_, StoreError> = read.await;
    claims.unwrap().unwrap()
}

/// An order is claimed in the transaction that accepts it, where it is started at once; while
/// others wait it stands in line.
#[tokio::test]
async fn what_is_accepted_is_claimed_with_it_unless_there_is_no_room() {
    let simulator = simulator().await;
    let route = r#"{ provider = "acme", model = "veo3" }"#;
    let toml = "max_submitting = 1\n".to_owned()
        + &provider("acme", "chat-video", &simulator, "")
        + &film(route);
    let gateway = gateway(&toml).await;
    // The first of a model waits for a look at what others left.
    let first = ordered(&gateway, "a lake").await;
    assert_eq!(gateway.finished(&first).await["status"], "succeeded");
    plan(&simulator, Duration::from_secs(2), PlannedEnd::Success);
    let mut tasks = vec![
        eventually("an order is claimed with its acceptance", async || {
            let task = ordered(&gateway, "a lake").await;
            let is_claimed = claims(&gateway, task.clone()).await == 1;
            if !is_claimed {
                gateway.finished(&task).await;
            }
            is_claimed.then_some(task)
        })
        .await,
    ];
    for _ in 0..2 {
        let task = ordered(&gateway, "a lake").await;
        assert_eq!(
            claims(&gateway, task.clone()).await,
            0,
            "the place is taken"
        );
        tasks.push(task);
    }
    all_succeed(&gateway, &tasks).await;
    gateway.stop().await;
}

#[tokio::test]
async fn what_waits_for_room_is_queued_and_can_be_called_off() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let toml = one_provider(&simulator).replace("api_key", "max_running = 1\napi_key");
    let gateway = gateway(&toml).await;
    let first = ordered(&gateway, "a lake").await;
    super::arrives(&simulator, RequestRole::Submit, 1).await;
    let second = ordered(&gateway, "a lake").await;
    let third = ordered(&gateway, "a lake").await;
    let off = async |task: &str| {
        let path = format!("/v1/tasks/{task}/cancel");
        let off = gateway.post(&path, &serde_json::json!({})).await.ok();
        assert_eq!(off["status"], "cancelled");
    };
    let view = gateway.get(&format!("/v1/tasks/{second}")).await.ok();
    assert_eq!(view["status"], "queued", "{view}");
    off(&second).await;
    // The place of one that is called off is free for the next.
    off(&first).await;
    super::arrives(&simulator, RequestRole::Submit, 2).await;
    let view = gateway.get(&format!("/v1/tasks/{third}")).await.ok();
    assert_eq!(view["status"], "running", "{view}");
    off(&third).await;
    assert_eq!(submissions(&simulator), 2);
    gateway.stop().await;
}

#[tokio::test]
async fn no_more_are_sent_in_a_minute_than_the_route_takes() {
    let simulator = simulator().await;
    let route = r#"{ provider = "acme", model = "sora-2", per_minute = 2 }"#;
    let toml = provider("acme", "openai-videos", &simulator, "") + &film(route);
    let gateway = TestGateway::builder()
        .manual_clock()
        .toml(&toml)
        .start()
        .await;
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(ordered(&gateway, "a lake").await);
    }
    for sent in [2, 4, 5] {
        super::arrives(&simulator, RequestRole::Submit, sent).await;
        eventually("those that were sent end", async || {
            let list = gateway.get("/v1/tasks?status=succeeded").await.ok();
            (list["data"].as_array().unwrap().len() == sent).then_some(())
        })
        .await;
        assert_eq!(submissions(&simulator), sent);
        gateway.app.clock.advance(Duration::from_secs(61));
    }
    all_succeed(&gateway, &tasks).await;
    gateway.stop().await;
}

fn two_keys(simulator: &Simulator, keys: &str) -> String {
    one_provider(simulator).replace(
        &format!("api_key = \"{}\"", super::KEY),
        &format!("api_keys = [{keys}]"),
    )
}

#[tokio::test]
async fn credentials_share_the_work() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let gateway = gateway(&two_keys(&simulator, r#""one", "two""#)).await;
    for sent in 1..=6 {
        ordered(&gateway, "a lake").await;
        super::arrives(&simulator, RequestRole::Submit, sent).await;
    }
    let with = keys(&simulator, RequestRole::Submit);
    let count = |key: &str| with.iter().filter(|one| *one == key).count();
    assert_eq!((count("one"), count("two")), (3, 3), "{with:?}");
    gateway.stop().await;
}

#[tokio::test]
async fn each_credential_has_its_own_room() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let toml =
        two_keys(&simulator, r#""one", "two""#).replace("api_keys", "max_running = 1\napi_keys");
    let gateway = gateway(&toml).await;
    for _ in 0..4 {
        ordered(&gateway, "a lake").await;
    }
    super::arrives(&simulator, RequestRole::Submit, 2).await;
    let mut with = keys(&simulator, RequestRole::Submit);
    with.sort();
    assert_eq!(with, ["one", "two"]);
    // The jobs are polled meanwhile, and nothing else is sent.
    let polls = arrived(&simulator, RequestRole::Poll);
    super::arrives(&simulator, RequestRole::Poll, polls + 4).await;
    assert_eq!(submissions(&simulator), 2);
    gateway.stop().await;
}

#[tokio::test]
async fn a_credential_that_is_refused_is_passed_over() {
    let simulator = simulator().await;
    super::at_submission(&simulator, super::status(401), 1);
    let gateway = gateway(&two_keys(&simulator, r#""one", "two""#)).await;
    let task = ordered(&gateway, "a lake").await;
    all_succeed(&gateway, &[task]).await;
    assert_eq!(keys(&simulator, RequestRole::Submit), ["one", "two"]);
    assert!(
        keys(&simulator, RequestRole::Poll)
            .iter()
            .all(|key| key == "two")
    );
    gateway.stop().await;
}

/// Waits for a poll with this key.
async fn polled_with(simulator: &Simulator, key: &str) {
    simulator.world().clear_journal();
    eventually("a poll with the key", async || {
        let polls = keys(simulator, RequestRole::Poll);
        polls.iter().any(|one| one == key).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_task_stays_with_the_credential_that_made_it() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let gateway = gateway(&two_keys(&simulator, r#""one", "two""#)).await;
    ordered(&gateway, "a lake").await;
    super::arrives(&simulator, RequestRole::Submit, 1).await;
    let task = ordered(&gateway, "another").await;
    super::arrives(&simulator, RequestRole::Submit, 2).await;
    assert_eq!(keys(&simulator, RequestRole::Submit), ["one", "two"]);
    // Only the second job is looked at from here on.
    let list = gateway.get("/v1/tasks").await.ok();
    for other in list["data"].as_array().unwrap() {
        if other["id"] != task {
            let path = format!("/v1/tasks/{}/cancel", other["id"].as_str().unwrap());
            gateway.post(&path, &serde_json::json!({})).await.ok();
        }
    }
    polled_with(&simulator, "two").await;
    // The keys trade places: it is known by its value.
    gateway.reconfigure(&two_keys(&simulator, r#""two", "one""#));
    polled_with(&simulator, "two").await;
    gateway.reconfigure(&two_keys(&simulator, r#""one", "two""#));
    // It is rotated: this process still knows the one that the job was made with.
    gateway.reconfigure(&two_keys(&simulator, r#""one", "new""#));
    polled_with(&simulator, "two").await;
    // After a restart it is asked for once the settings have that one again.
    let gateway = gateway
        .restart(Some(&two_keys(&simulator, r#""one", "new", "two""#)))
        .await;
    polled_with(&simulator, "two").await;
    let asked = keys(&simulator, RequestRole::Poll);
    assert!(asked.iter().all(|key| key == "two"), "{asked:?}");
    assert_eq!(submissions(&simulator), 0, "nothing is sent again");
    let path = format!("/v1/tasks/{task}/cancel");
    gateway.post(&path, &serde_json::json!({})).await.ok();
    gateway.stop().await;
}
