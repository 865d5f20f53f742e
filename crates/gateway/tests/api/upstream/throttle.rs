//! Limits of routes and credentials, which make tasks wait; and credentials, which
//! share the orders and keep their own jobs.

use std::time::Duration;

use mediagate_store::StoreError;
use mediagate_worker::WorkerPool;
use simulator::{JobPhase, PlannedEnd, RequestRole, Simulator};

use super::{
    film, gateway, keys, one_provider, order_film, plan, provider, request_count, simulator,
    status, submissions,
};
use crate::support::{TestGateway, eventually};

const LONG: Duration = Duration::from_hours(1);

/// The number of jobs that have not ended at the provider.
fn running_jobs(simulator: &Simulator) -> usize {
    running_by(simulator, "openai-videos")
}

fn running_by(simulator: &Simulator, protocol: &str) -> usize {
    let jobs = simulator.world().jobs(protocol);
    let open = |phase| matches!(phase, JobPhase::Queued | JobPhase::Running(_));
    jobs.iter().filter(|job| open(job.phase())).count()
}

/// Waits for the end of all of these, and asserts that they succeeded.
async fn assert_all_succeed(gateway: &TestGateway, tasks: &[String]) {
    for task in tasks {
        let finished = gateway.finished(task).await;
        assert_eq!(finished["status"], "succeeded", "{finished}");
    }
}

#[tokio::test]
async fn max_running_limits_the_jobs_of_a_route() {
    check_two_at_once(false).await;
}

#[tokio::test]
async fn max_running_limits_the_jobs_of_a_route_on_postgres() {
    check_two_at_once(true).await;
}

/// Two processes share a route with a limit of two.
async fn check_two_at_once(postgres: bool) {
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
        tasks.push(order_film(&gateway, "a lake").await);
    }
    let peak = std::cell::Cell::new(0);
    eventually("all orders are sent", async || {
        let count = running_jobs(&simulator);
        peak.set(count.max(peak.get()));
        (submissions(&simulator) == 6).then_some(())
    })
    .await;
    assert_eq!(peak.get(), 2, "the limit is reached and not exceeded");
    assert_all_succeed(&gateway, &tasks).await;
    others.stop().await;
    gateway.stop().await;
}

/// If a protocol answers an order with the result, the order is open until then.
#[tokio::test]
async fn max_submitting_limits_open_orders() {
    let simulator = simulator().await;
    // Longer than it takes to order the next one on a busy machine, so that orders overlap.
    plan(&simulator, Duration::from_secs(1), PlannedEnd::Success);
    let route = r#"{ provider = "acme", model = "veo3" }"#;
    let toml = "max_submitting = 2\n".to_owned()
        + &provider("acme", "chat-video", &simulator, "")
        + &film(route);
    let gateway = gateway(&toml).await;
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(order_film(&gateway, "a lake").await);
    }
    let peak = std::cell::Cell::new(0);
    eventually("all orders are sent", async || {
        let count = running_by(&simulator, "chat-video");
        peak.set(count.max(peak.get()));
        (submissions(&simulator) == 5).then_some(())
    })
    .await;
    assert_eq!(peak.get(), 2);
    assert_all_succeed(&gateway, &tasks).await;
    gateway.stop().await;
}

/// How often a task was claimed, according to the database.
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

/// An order that can start at once is claimed in the transaction that accepts it. While other
/// tasks wait, it is queued.
#[tokio::test]
async fn an_accepted_order_is_claimed_at_once_unless_the_limit_is_reached() {
    let simulator = simulator().await;
    let route = r#"{ provider = "acme", model = "veo3" }"#;
    let toml = "max_submitting = 1\n".to_owned()
        + &provider("acme", "chat-video", &simulator, "")
        + &film(route);
    let gateway = gateway(&toml).await;
    // The first order of a model waits until a worker has looked for older tasks.
    let first = order_film(&gateway, "a lake").await;
    assert_eq!(gateway.finished(&first).await["status"], "succeeded");
    plan(&simulator, Duration::from_secs(2), PlannedEnd::Success);
    let mut tasks = vec![
        eventually("an order is claimed with its acceptance", async || {
            let task = order_film(&gateway, "a lake").await;
            let is_claimed = claims(&gateway, task.clone()).await == 1;
            if !is_claimed {
                gateway.finished(&task).await;
            }
            is_claimed.then_some(task)
        })
        .await,
    ];
    for _ in 0..2 {
        let task = order_film(&gateway, "a lake").await;
        assert_eq!(
            claims(&gateway, task.clone()).await,
            0,
            "the limit is reached"
        );
        tasks.push(task);
    }
    assert_all_succeed(&gateway, &tasks).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_task_over_the_limit_is_queued_and_can_be_cancelled() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let toml = one_provider(&simulator).replace("api_key", "max_running = 1\napi_key");
    let gateway = gateway(&toml).await;
    let first = order_film(&gateway, "a lake").await;
    super::wait_for_requests(&simulator, RequestRole::Submit, 1).await;
    let second = order_film(&gateway, "a lake").await;
    let third = order_film(&gateway, "a lake").await;
    let cancel = async |task: &str| {
        let path = format!("/v1/tasks/{task}/cancel");
        let cancelled = gateway.post(&path, &serde_json::json!({})).await.ok();
        assert_eq!(cancelled["status"], "cancelled");
    };
    let view = gateway.get(&format!("/v1/tasks/{second}")).await.ok();
    assert_eq!(view["status"], "queued", "{view}");
    cancel(&second).await;
    // A cancelled task makes room for the next.
    cancel(&first).await;
    super::wait_for_requests(&simulator, RequestRole::Submit, 2).await;
    let view = gateway.get(&format!("/v1/tasks/{third}")).await.ok();
    assert_eq!(view["status"], "running", "{view}");
    cancel(&third).await;
    assert_eq!(submissions(&simulator), 2);
    gateway.stop().await;
}

#[tokio::test]
async fn per_minute_limits_the_orders_of_a_route() {
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
        tasks.push(order_film(&gateway, "a lake").await);
    }
    for sent in [2, 4, 5] {
        super::wait_for_requests(&simulator, RequestRole::Submit, sent).await;
        eventually("the sent orders end", async || {
            let list = gateway.get("/v1/tasks?status=succeeded").await.ok();
            (list["data"].as_array().unwrap().len() == sent).then_some(())
        })
        .await;
        assert_eq!(submissions(&simulator), sent);
        gateway.app.clock.advance(Duration::from_secs(61));
    }
    assert_all_succeed(&gateway, &tasks).await;
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
        order_film(&gateway, "a lake").await;
        super::wait_for_requests(&simulator, RequestRole::Submit, sent).await;
    }
    let used_keys = keys(&simulator, RequestRole::Submit);
    let count = |key: &str| used_keys.iter().filter(|used| *used == key).count();
    assert_eq!((count("one"), count("two")), (3, 3), "{used_keys:?}");
    gateway.stop().await;
}

#[tokio::test]
async fn each_credential_has_its_own_limit() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let toml =
        two_keys(&simulator, r#""one", "two""#).replace("api_keys", "max_running = 1\napi_keys");
    let gateway = gateway(&toml).await;
    for _ in 0..4 {
        order_film(&gateway, "a lake").await;
    }
    super::wait_for_requests(&simulator, RequestRole::Submit, 2).await;
    let mut used_keys = keys(&simulator, RequestRole::Submit);
    used_keys.sort();
    assert_eq!(used_keys, ["one", "two"]);
    // The jobs are polled meanwhile, and nothing else is sent.
    let polls = request_count(&simulator, RequestRole::Poll);
    super::wait_for_requests(&simulator, RequestRole::Poll, polls + 4).await;
    assert_eq!(submissions(&simulator), 2);
    gateway.stop().await;
}

#[tokio::test]
async fn a_refused_credential_is_skipped() {
    let simulator = simulator().await;
    super::at_submission(&simulator, super::status(401), 1);
    let gateway = gateway(&two_keys(&simulator, r#""one", "two""#)).await;
    let task = order_film(&gateway, "a lake").await;
    assert_all_succeed(&gateway, &[task]).await;
    assert_eq!(keys(&simulator, RequestRole::Submit), ["one", "two"]);
    assert!(
        keys(&simulator, RequestRole::Poll)
            .iter()
            .all(|key| key == "two")
    );
    gateway.stop().await;
}

/// Waits for a poll with this key.
async fn wait_for_poll_with(simulator: &Simulator, key: &str) {
    simulator.world().clear_journal();
    eventually("a poll with the key", async || {
        let polls = keys(simulator, RequestRole::Poll);
        polls.iter().any(|used| used == key).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_task_stays_with_the_credential_that_made_it() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let gateway = gateway(&two_keys(&simulator, r#""one", "two""#)).await;
    order_film(&gateway, "a lake").await;
    super::wait_for_requests(&simulator, RequestRole::Submit, 1).await;
    let task = order_film(&gateway, "another").await;
    super::wait_for_requests(&simulator, RequestRole::Submit, 2).await;
    assert_eq!(keys(&simulator, RequestRole::Submit), ["one", "two"]);
    // Only the second job is polled from here on.
    let list = gateway.get("/v1/tasks").await.ok();
    for other in list["data"].as_array().unwrap() {
        if other["id"] != task {
            let path = format!("/v1/tasks/{}/cancel", other["id"].as_str().unwrap());
            gateway.post(&path, &serde_json::json!({})).await.ok();
        }
    }
    wait_for_poll_with(&simulator, "two").await;
    // The keys are swapped: a key is identified by its value.
    gateway.reconfigure(&two_keys(&simulator, r#""two", "one""#));
    wait_for_poll_with(&simulator, "two").await;
    gateway.reconfigure(&two_keys(&simulator, r#""one", "two""#));
    // The key is rotated: this process still has the key that the job was made with.
    gateway.reconfigure(&two_keys(&simulator, r#""one", "new""#));
    wait_for_poll_with(&simulator, "two").await;
    // After a restart the job is polled once the settings have that key again.
    let gateway = gateway
        .restart(Some(&two_keys(&simulator, r#""one", "new", "two""#)))
        .await;
    wait_for_poll_with(&simulator, "two").await;
    let used_keys = keys(&simulator, RequestRole::Poll);
    assert!(used_keys.iter().all(|key| key == "two"), "{used_keys:?}");
    assert_eq!(submissions(&simulator), 0, "nothing is sent again");
    let path = format!("/v1/tasks/{task}/cancel");
    gateway.post(&path, &serde_json::json!({})).await.ok();
    gateway.stop().await;
}

/// The polls a second that a provider of the gateway is allowed now.
fn polls_per_second(gateway: &TestGateway, provider: &str) -> f64 {
    let sites = gateway.app.models.upstream.sites();
    sites[provider].credentials[0].poll_pacer.polls_per_second()
}

#[tokio::test]
async fn a_poll_that_is_refused_as_one_too_many_halves_the_polls() {
    let simulator = simulator().await;
    plan(&simulator, Duration::from_millis(300), PlannedEnd::Success);
    simulator
        .world()
        .order_fault(status(429), None, Some(RequestRole::Poll), 1);
    let gateway = gateway(&one_provider(&simulator)).await;
    let before = polls_per_second(&gateway, "acme");
    let task = order_film(&gateway, "a lake").await;
    assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    let after = polls_per_second(&gateway, "acme");
    assert!((after * 2.0 - before).abs() < 1.0, "{before} to {after}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_providers_documented_limit_of_polls_is_kept() {
    let simulator = simulator().await;
    let toml = provider("acme", "openai-videos", &simulator, "")
        + &provider("few", "openai-videos", &simulator, "max_polls = 7\n")
        + &provider("documented", "replicate", &simulator, "");
    let gateway = gateway(&toml).await;
    for (name, limit) in [("acme", 1000.0), ("few", 7.0), ("documented", 50.0)] {
        let allowed = polls_per_second(&gateway, name);
        assert!((allowed - limit).abs() < 1.0, "{name}: {allowed}");
    }
    gateway.stop().await;
}
