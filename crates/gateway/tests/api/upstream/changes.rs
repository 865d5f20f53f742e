//! Settings and clocks that change under running jobs: a job is polled at its own endpoint with its
//! own key, an unconfirmed order goes to no other endpoint, and a wrong clock alone ends no paid
//! job.

use std::time::Duration;

use mediagate_model::ids::SubmissionId;
use serde_json::json;
use simulator::{PlannedEnd, RequestRole, Simulator};

use super::lives::die_while_sending;
use super::{
    BRIEF, KEY, film, gateway, keys, order_film, plan, provider, request_count, simulator,
    submissions, wait_for_requests, without_workers,
};
use crate::support::{TestGateway, eventually};

const HOUR: Duration = Duration::from_hours(1);

/// The provider `acme` with these extra lines, and the model `film` routed to it.
fn acme(protocol: &str, simulator: &Simulator, extra_lines: &str) -> String {
    provider("acme", protocol, simulator, extra_lines)
        + &film(r#"{ provider = "acme", model = "sora-2" }"#)
}

/// A gateway with a job that runs and is recorded as accepted.
async fn with_a_job(toml: &str, simulator: &Simulator) -> (TestGateway, String) {
    plan(simulator, BRIEF, PlannedEnd::Success);
    let gateway = gateway(toml).await;
    let task = order_film(&gateway, "a lake").await;
    wait_for_requests(simulator, RequestRole::Submit, 1).await;
    eventually("the acceptance is recorded", async || {
        let attempts = gateway
            .get(&format!("/v1/tasks/{task}/attempts"))
            .await
            .ok();
        (!attempts["data"][0]["answered_at"].is_null()).then_some(())
    })
    .await;
    (gateway, task)
}

/// Waits until a worker has put the task off because the settings do not match its submission.
async fn wait_until_put_off(gateway: &TestGateway, task: &str) {
    let path = format!("/v1/tasks/{task}");
    let status = || async {
        let task = gateway.get(&path).await.ok();
        task["status"].as_str().unwrap().to_owned()
    };
    eventually("a worker put it off", async || {
        let id = task.parse().unwrap();
        let due_at = gateway.app.store.read(move |conn| {
            conn.one(
                "SELECT due_at FROM tasks WHERE id = ?1 AND lease_owner IS NULL AND due_at > started_at + 3000000",
                &[(&mediagate_model::ids::TaskId::to_string(&id)).into()],
                |row| row.int(0),
            )
        });
        due_at.await.unwrap_or_else(|e: mediagate_store::StoreError| panic!("{e}"))
    })
    .await;
    assert!(["queued", "running"].contains(&&*status().await));
}

/// Asserts that the task succeeds although other settings were in force for a while.
async fn survives_settings(
    before: &str,
    meanwhile: &str,
    first: &Simulator,
    others: &[&Simulator],
) {
    let (gateway, task) = with_a_job(before, first).await;
    let gateway = gateway.restart(Some(meanwhile)).await;
    wait_until_put_off(&gateway, &task).await;
    let gateway = gateway.restart(Some(before)).await;
    let finished = gateway.finished(&task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    assert_eq!(submissions(first), 1);
    for other in others {
        assert_eq!(other.world().journal().len(), 0, "no request went there");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_waits_while_its_provider_has_another_address() {
    let (first, second) = (simulator().await, simulator().await);
    let (before, meanwhile) = (
        acme("openai-videos", &first, ""),
        acme("openai-videos", &second, ""),
    );
    Box::pin(survives_settings(&before, &meanwhile, &first, &[&second])).await;
}

#[tokio::test]
async fn a_job_waits_while_its_provider_has_another_protocol() {
    let first = simulator().await;
    let before = acme("openai-videos", &first, "");
    let other_protocol = before.replace("\"openai-videos\"", "\"luma\"");
    let (gateway, task) = with_a_job(&before, &first).await;
    let gateway = gateway.restart(Some(&other_protocol)).await;
    wait_until_put_off(&gateway, &task).await;
    let gateway = gateway.restart(Some(&before)).await;
    assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    assert_eq!(submissions(&first), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_waits_while_its_key_is_removed() {
    let first = simulator().await;
    let with_keys = |keys: &str| acme("openai-videos", &first, &format!("api_keys = [{keys}]"));
    let (before, meanwhile) = (
        with_keys(&format!("\"{KEY}\", \"other\"")),
        with_keys("\"other\""),
    );
    Box::pin(survives_settings(&before, &meanwhile, &first, &[])).await;
    let used_keys = keys(&first, RequestRole::Poll);
    assert!(used_keys.iter().all(|key| key == KEY), "{used_keys:?}");
}

#[tokio::test]
async fn a_reload_leaves_a_running_job_where_it_was_made() {
    let (first, second) = (simulator().await, simulator().await);
    let (gateway, task) = with_a_job(&acme("openai-videos", &first, ""), &first).await;
    gateway.reconfigure(&acme("openai-videos", &second, ""));
    assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    assert_eq!(
        (submissions(&first), second.world().journal().len()),
        (1, 0)
    );
    gateway.stop().await;
}

#[tokio::test]
async fn an_unconfirmed_order_is_repeated_only_at_the_same_endpoint() {
    let (first, second) = (simulator().await, simulator().await);
    let settings_for =
        |simulator: &Simulator| acme("openai-videos", simulator, "idempotency = true");
    let gateway = without_workers(&settings_for(&first)).await;
    let task = order_film(&gateway, "a lake").await;
    die_while_sending(&gateway, SubmissionId::new()).await;
    let gateway = gateway.restart(Some(&settings_for(&second))).await;
    wait_until_put_off(&gateway, &task).await;
    assert_eq!((submissions(&first), submissions(&second)), (0, 0));
    let gateway = gateway.restart(Some(&settings_for(&first))).await;
    assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    assert_eq!((submissions(&first), submissions(&second)), (1, 0));
    gateway.stop().await;
}

#[tokio::test]
async fn a_clock_that_is_ahead_ends_no_job() {
    let first = simulator().await;
    plan(&first, BRIEF, PlannedEnd::Success);
    let gateway = TestGateway::builder()
        .manual_clock()
        .toml(&acme("openai-videos", &first, ""))
        .start()
        .await;
    let task = order_film(&gateway, "a lake").await;
    wait_for_requests(&first, RequestRole::Submit, 1).await;
    gateway.app.clock.set_ahead(7 * HOUR);
    let polls = request_count(&first, RequestRole::Poll);
    wait_for_requests(&first, RequestRole::Poll, polls + 1).await;
    gateway.app.clock.set_ahead(Duration::ZERO);
    let finished = gateway.finished(&task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_that_ended_while_the_gateway_was_down_for_a_day_is_fetched() {
    let first = simulator().await;
    let (gateway, task) = with_a_job(&acme("openai-videos", &first, ""), &first).await;
    let gateway = gateway.restart_without_workers().await;
    // As if the job had been accepted a day ago.
    let aged = gateway.app.store.write(|conn| {
        conn.execute(
            "UPDATE submissions SET created_at = created_at - 86400000000, accepted_at = accepted_at - 86400000000",
            &[],
        )
    });
    aged.await
        .unwrap_or_else(|e: mediagate_store::StoreError| panic!("{e}"));
    let gateway = gateway.restart(None).await;
    let finished = gateway.finished(&task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    assert_eq!(submissions(&first), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_clock_that_is_weeks_ahead_deletes_and_forgets_nothing() {
    let gateway = TestGateway::builder()
        .manual_clock()
        .set(|settings| settings.record_ttl = Some(HOUR))
        .start()
        .await;
    let order =
        json!({"prompt": "a lake", "model": "animatic-1", "seconds": "1", "size": "480x480"});
    let send = async || {
        let request = gateway.client.request(reqwest::Method::POST, "/v1/videos");
        let request = request.header("idempotency-key", "one").json(&order);
        let answer = request.send().await.unwrap();
        answer.headers()["x-task-id"].to_str().unwrap().to_owned()
    };
    let task = send().await;
    let finished = gateway.finished(&task).await;
    gateway.app.clock.set_ahead(40 * 24 * HOUR);
    let app = &gateway.app;
    mediagate_worker::remove_expired_media(app).await.unwrap();
    mediagate_core::domain::tasks::remove_expired(app)
        .await
        .unwrap();
    app.intents.forget_old().await.unwrap();
    assert_eq!(send().await, task, "the key finds its task");
    gateway.app.clock.set_ahead(Duration::ZERO);
    let url = finished["output"]["videos"][0]["url"].as_str().unwrap();
    assert_eq!(gateway.get(url).await.status, 200);
    assert_eq!(gateway.get(&format!("/v1/tasks/{task}")).await.status, 200);
    gateway.stop().await;
}
