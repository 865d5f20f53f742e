//! Settings and clocks that change under running jobs: a job is asked for where and with what it was made,
//! nothing in doubt goes elsewhere, and no clock alone ends what is paid for.

use std::time::Duration;

use mediagate_model::ids::SubmissionId;
use serde_json::json;
use simulator::{PlannedEnd, RequestRole, Simulator};

use super::lives::die_while_sending;
use super::{
    KEY, SOME, arrived, arrives, film, gateway, keys, ordered, plan, provider, simulator,
    submissions, without_workers,
};
use crate::support::{TestGateway, eventually};

const HOUR: Duration = Duration::from_hours(1);

/// `acme`, with these lines besides, and `film` made there.
fn acme(protocol: &str, simulator: &Simulator, more: &str) -> String {
    provider("acme", protocol, simulator, more)
        + &film(r#"{ provider = "acme", model = "sora-2" }"#)
}

/// A gateway whose job has run for a while.
async fn with_a_job(toml: &str, simulator: &Simulator) -> (TestGateway, String) {
    plan(simulator, SOME, PlannedEnd::Success);
    let gateway = gateway(toml).await;
    let task = ordered(&gateway, "a lake").await;
    arrives(simulator, RequestRole::Submit, 1).await;
    eventually("it is written down", async || {
        let attempts = gateway
            .get(&format!("/v1/tasks/{task}/attempts"))
            .await
            .ok();
        (!attempts["data"][0]["answered_at"].is_null()).then_some(())
    })
    .await;
    (gateway, task)
}

/// The gateway looked at the task's submission, and the settings did not match.
async fn waits(gateway: &TestGateway, task: &str) {
    let path = format!("/v1/tasks/{task}");
    let looks = || async {
        let task = gateway.get(&path).await.ok();
        task["status"].as_str().unwrap().to_owned()
    };
    eventually("it was looked at", async || {
        let id = task.parse().unwrap();
        let due = gateway.app.store.read(move |conn| {
            conn.one(
                "SELECT due_at FROM tasks WHERE id = ?1 AND lease_owner IS NULL AND due_at > started_at + 3000000",
                &[(&mediagate_model::ids::TaskId::to_string(&id)).into()],
                |row| row.int(0),
            )
        });
        due.await.unwrap_or_else(|e: mediagate_store::StoreError| panic!("{e}"))
    })
    .await;
    assert!(["queued", "running"].contains(&&*looks().await));
}

/// It ends well although the settings were these for a while.
async fn survives(before: &str, meanwhile: &str, first: &Simulator, others: &[&Simulator]) {
    let (gateway, task) = with_a_job(before, first).await;
    let gateway = gateway.restart(Some(meanwhile)).await;
    waits(&gateway, &task).await;
    let gateway = gateway.restart(Some(before)).await;
    let ended = gateway.finished(&task).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(submissions(first), 1);
    for other in others {
        assert_eq!(other.world().journal().len(), 0, "nothing was asked there");
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
    Box::pin(survives(&before, &meanwhile, &first, &[&second])).await;
}

#[tokio::test]
async fn a_job_waits_while_its_provider_speaks_another_protocol() {
    let first = simulator().await;
    let before = acme("openai-videos", &first, "");
    let meanwhile = before.replace("\"openai-videos\"", "\"luma\"");
    let (gateway, task) = with_a_job(&before, &first).await;
    let gateway = gateway.restart(Some(&meanwhile)).await;
    waits(&gateway, &task).await;
    let gateway = gateway.restart(Some(&before)).await;
    assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    assert_eq!(submissions(&first), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_waits_while_its_key_is_gone_whatever_stands_in_its_place() {
    let first = simulator().await;
    let with = |keys: &str| acme("openai-videos", &first, &format!("api_keys = [{keys}]"));
    let (before, meanwhile) = (with(&format!("\"{KEY}\", \"other\"")), with("\"other\""));
    Box::pin(survives(&before, &meanwhile, &first, &[])).await;
    let asked = keys(&first, RequestRole::Poll);
    assert!(asked.iter().all(|key| key == KEY), "{asked:?}");
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
async fn an_order_in_doubt_is_repeated_only_where_it_may_have_been_taken() {
    let (first, second) = (simulator().await, simulator().await);
    let with = |simulator: &Simulator| acme("openai-videos", simulator, "idempotency = true");
    let gateway = without_workers(&with(&first)).await;
    let task = ordered(&gateway, "a lake").await;
    die_while_sending(&gateway, SubmissionId::new()).await;
    let gateway = gateway.restart(Some(&with(&second))).await;
    waits(&gateway, &task).await;
    assert_eq!((submissions(&first), submissions(&second)), (0, 0));
    let gateway = gateway.restart(Some(&with(&first))).await;
    assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    assert_eq!((submissions(&first), submissions(&second)), (1, 0));
    gateway.stop().await;
}

#[tokio::test]
async fn a_clock_that_is_ahead_ends_no_job() {
    let first = simulator().await;
    plan(&first, SOME, PlannedEnd::Success);
    let gateway = TestGateway::builder()
        .manual_clock()
        .toml(&acme("openai-videos", &first, ""))
        .start()
        .await;
    let task = ordered(&gateway, "a lake").await;
    arrives(&first, RequestRole::Submit, 1).await;
    gateway.app.clock.set_ahead(7 * HOUR);
    let polls = arrived(&first, RequestRole::Poll);
    arrives(&first, RequestRole::Poll, polls + 1).await;
    gateway.app.clock.set_ahead(Duration::ZERO);
    let ended = gateway.finished(&task).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_that_ended_while_the_gateway_was_down_for_a_day_is_fetched() {
    let first = simulator().await;
    let (gateway, task) = with_a_job(&acme("openai-videos", &first, ""), &first).await;
    let gateway = gateway.restart_idle().await;
    // As if it had been taken a day ago.
    let aged = gateway.app.store.write(|conn| {
        conn.execute(
            "UPDATE submissions SET created_at = created_at - 86400000000, accepted_at = accepted_at - 86400000000",
            &[],
        )
    });
    aged.await
        .unwrap_or_else(|e: mediagate_store::StoreError| panic!("{e}"));
    let gateway = gateway.restart(None).await;
    let ended = gateway.finished(&task).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
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
    let ended = gateway.finished(&task).await;
    gateway.app.clock.set_ahead(40 * 24 * HOUR);
    let app = &gateway.app;
    mediagate_worker::remove_expired_media(app).await.unwrap();
    mediagate_core::domain::tasks::remove_expired(app)
        .await
        .unwrap();
    app.intents.forget_old().await.unwrap();
    assert_eq!(send().await, task, "the key leads to what it made");
    gateway.app.clock.set_ahead(Duration::ZERO);
    let address = ended["output"]["videos"][0]["url"].as_str().unwrap();
    assert_eq!(gateway.get(address).await.status, 200);
    assert_eq!(gateway.get(&format!("/v1/tasks/{task}")).await.status, 200);
    gateway.stop().await;
}
