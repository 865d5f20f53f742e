//! Settings and clocks that change under running jobs: a job is polled at its own endpoint with its
//! own key, an unconfirmed order goes to no other endpoint, and a wrong clock alone ends no paid
//! job.

use std::time::Duration;

use mediagate_model::ids::SubmissionId;
use serde_json::json;
use simulator::{Fault, PlannedEnd, RequestRole, Simulator};

use super::lives::die_while_sending;
use super::{
    BRIEF, KEY, assert_failed, at_submission, film, gateway, keys, order_film, plan, provider,
    request_count, simulator, submissions, wait_for_requests, without_workers,
};
use crate::support::program::Home;
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

/// An order of which nobody knows whether it arrived, sent with the settings `before`: it waits
/// while the settings are `meanwhile`, and nothing is sent.
async fn waits_in_doubt(postgres: bool, simulator: &Simulator, before: &str, meanwhile: &str) {
    let builder = TestGateway::builder().without_workers().toml(before);
    let builder = if postgres {
        builder.on_postgres()
    } else {
        builder
    };
    let gateway = builder.start().await;
    let task = order_film(&gateway, "a lake").await;
    die_while_sending(&gateway, SubmissionId::new()).await;
    let gateway = gateway.restart(Some(meanwhile)).await;
    wait_until_put_off(&gateway, &task).await;
    assert_eq!(submissions(simulator), 0);
    assert_eq!(request_count(simulator, RequestRole::Find), 0);
    let gateway = gateway.restart(Some(before)).await;
    let is_repeated = before.contains("idempotency = true");
    let finished = gateway.finished(&task).await;
    if is_repeated {
        assert_eq!(finished["status"], "succeeded", "{finished}");
    } else {
        assert_failed(&finished, "submission_unconfirmed");
    }
    assert_eq!(submissions(simulator), usize::from(is_repeated));
    gateway.stop().await;
}

#[tokio::test]
async fn an_order_that_went_out_without_a_key_is_not_repeated_with_one() {
    let simulator = simulator().await;
    let before = acme("openai-videos", &simulator, "");
    let meanwhile = acme("openai-videos", &simulator, "idempotency = true");
    Box::pin(waits_in_doubt(false, &simulator, &before, &meanwhile)).await;
}

#[tokio::test]
async fn an_order_that_went_out_without_a_key_is_not_repeated_with_one_on_postgres() {
    let simulator = simulator().await;
    let before = acme("openai-videos", &simulator, "");
    let meanwhile = acme("openai-videos", &simulator, "idempotency = true");
    Box::pin(waits_in_doubt(true, &simulator, &before, &meanwhile)).await;
}

#[tokio::test]
async fn an_order_that_went_out_with_a_key_waits_until_keys_are_on_again() {
    let simulator = simulator().await;
    let before = acme("openai-videos", &simulator, "idempotency = true");
    let meanwhile = acme("openai-videos", &simulator, "");
    Box::pin(waits_in_doubt(false, &simulator, &before, &meanwhile)).await;
}

#[tokio::test]
async fn an_order_is_not_repeated_with_other_fields() {
    let simulator = simulator().await;
    let before = acme("openai-videos", &simulator, "idempotency = true");
    let route = r#"model = "sora-2""#;
    let meanwhile = before.replace(route, &format!("{route}, extra = {{ style = \"noir\" }}"));
    assert_ne!(before, meanwhile);
    Box::pin(waits_in_doubt(false, &simulator, &before, &meanwhile)).await;
}

/// The operator turns keys on, as the documentation tells whoever sees a 424, and the process dies
/// before it has the answer to an order.
#[tokio::test]
async fn keys_that_are_turned_on_over_a_crash_repeat_nothing() {
    let simulator = simulator().await;
    let before = acme("openai-videos", &simulator, "");
    let home = Home::with_settings(&before);
    let (server, client) = home.start().await;
    let late = Fault::Latency(Duration::from_secs(30));
    at_submission(&simulator, late, 1);
    let body = json!({"model": "film", "prompt": "a lake"});
    let answer = client.post("/v1/videos", &body).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    wait_for_requests(&simulator, RequestRole::Submit, 1).await;
    server.crash();
    home.configure(&acme("openai-videos", &simulator, "idempotency = true"));
    let (server, client) = home.start_again(client).await;
    let operator = home.operator(&server).await;
    eventually("the order waits", async || {
        let metrics = operator.get("/metrics").await.whole_text();
        metrics
            .contains("mediagate_submissions_unmatched_total{provider=\"acme\"}")
            .then_some(())
    })
    .await;
    assert_eq!(submissions(&simulator), 1);
    server.stop().await;
    home.configure(&before);
    let (server, client) = home.start_again(client).await;
    let finished = crate::support::gateway::finished(&client, &task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    assert_eq!(submissions(&simulator), 1, "paid once");
    server.stop().await;
}

/// The provider `acme` with the protocol `minimax` in this version, and the model `film`.
fn minimax(simulator: &Simulator, api: &str) -> String {
    provider("acme", "minimax", simulator, &format!("api = \"{api}\""))
        + &film(r#"{ provider = "acme", model = "MiniMax-Hailuo-02" }"#)
}

fn assert_polled_in_version_one(simulator: &Simulator) {
    let journal = simulator.world().journal();
    let polls = journal
        .iter()
        .filter(|request| request.role == RequestRole::Poll);
    for poll in polls {
        assert!(poll.path.contains("/v1/"), "{}", poll.path);
    }
}

#[tokio::test]
async fn after_a_reload_a_job_is_polled_in_the_version_of_its_order() {
    let first = simulator().await;
    let (gateway, task) = with_a_job(&minimax(&first, "v1"), &first).await;
    gateway.reconfigure(&minimax(&first, "v2"));
    let finished = gateway.finished(&task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    assert_eq!(submissions(&first), 1);
    assert_polled_in_version_one(&first);
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_waits_while_its_provider_has_another_version() {
    let first = simulator().await;
    let (before, meanwhile) = (minimax(&first, "v1"), minimax(&first, "v2"));
    Box::pin(survives_settings(&before, &meanwhile, &first, &[])).await;
    assert_polled_in_version_one(&first);
}

#[tokio::test]
async fn a_job_waits_while_its_recipe_asks_elsewhere() {
    let first = simulator().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("acme.toml");
    let recipe = include_str!("../../../../../recipes/openai-videos.toml");
    std::fs::write(&path, recipe).unwrap();
    let option = format!("recipe = \"file:{}\"", path.display());
    let toml = acme("recipe", &first, &option);
    let (gateway, task) = with_a_job(&toml, &first).await;
    let poll = "[poll]\npath = \"/videos/{id}\"";
    let elsewhere = recipe.replace(poll, "[poll]\npath = \"/jobs/{id}\"");
    assert_ne!(elsewhere, recipe);
    std::fs::write(&path, elsewhere).unwrap();
    let gateway = gateway.restart(None).await;
    wait_until_put_off(&gateway, &task).await;
    // What the recipe says about new orders and status words may change.
    let other_words = recipe.replace("\"in_progress\", ", "\"in_progress\", \"painting\", ");
    assert_ne!(other_words, recipe);
    std::fs::write(&path, other_words).unwrap();
    let gateway = gateway.restart(None).await;
    let finished = gateway.finished(&task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    assert_eq!(submissions(&first), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_does_not_wait_for_options_of_new_orders() {
    let first = simulator().await;
    let (gateway, task) = with_a_job(&acme("openai-videos", &first, ""), &first).await;
    let options = "encoding = \"json\"\nseconds = \"integer\"\nidempotency = true";
    let toml = acme("openai-videos", &first, options);
    let gateway = gateway.restart(Some(&toml)).await;
    let finished = gateway.finished(&task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    assert_eq!(submissions(&first), 1);
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

/// An order is in doubt at a provider that deduplicates, and the clock goes this far ahead for a
/// while. So many repetitions are lost too.
async fn is_repeated_whatever_the_clock_says(ahead: Duration, lost: u32) {
    let first = simulator().await;
    let mut gateway = TestGateway::builder()
        .manual_clock()
        .without_workers()
        .toml(&acme("openai-videos", &first, "idempotency = true"))
        .start()
        .await;
    let task = order_film(&gateway, "a lake").await;
    die_while_sending(&gateway, SubmissionId::new()).await;
    at_submission(&first, Fault::DropBefore, lost);
    gateway.app.clock.set_ahead(ahead);
    gateway.start_workers().await;
    wait_until_put_off(&gateway, &task).await;
    gateway.app.clock.set_ahead(Duration::ZERO);
    // The time at which it is due was computed by the wrong clock.
    super::change(&gateway, "UPDATE tasks SET due_at = 0 WHERE id = ?1", &task).await;
    let finished = gateway.finished(&task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    assert_eq!(first.world().accepted_count("openai-videos"), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_clock_that_is_hours_ahead_gives_up_no_order_in_doubt() {
    Box::pin(is_repeated_whatever_the_clock_says(2 * HOUR, 6)).await;
}

#[tokio::test]
async fn a_clock_that_is_half_a_day_ahead_gives_up_no_order_in_doubt() {
    Box::pin(is_repeated_whatever_the_clock_says(13 * HOUR, 0)).await;
}

#[tokio::test]
async fn an_order_in_doubt_is_not_repeated_after_half_a_day() {
    let first = simulator().await;
    let mut gateway = TestGateway::builder()
        .manual_clock()
        .without_workers()
        .toml(&acme("openai-videos", &first, "idempotency = true"))
        .start()
        .await;
    let task = order_film(&gateway, "a lake").await;
    die_while_sending(&gateway, SubmissionId::new()).await;
    gateway.app.clock.advance(13 * HOUR);
    gateway.start_workers().await;
    assert_failed(&gateway.finished(&task).await, "submission_unconfirmed");
    assert_eq!(submissions(&first), 0);
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
