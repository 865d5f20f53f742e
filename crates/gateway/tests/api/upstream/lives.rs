//! Tasks whose life is interrupted: called off, or the process ends
//! or dies. Whatever happens, nothing is ordered twice.

use std::time::Duration;

use mediagate_model::error::Error;
use mediagate_model::ids::SubmissionId;
use mediagate_model::submission::{Submission, SubmissionState};
use mediagate_model::task::{Task, TaskState};
use mediagate_store as store;
use serde_json::json;
use simulator::{Fault, JobPhase, PlannedEnd, RequestRole, Simulator};

use super::music::{SUBMIT, band};
use super::{
    LONG, SOME, arrives, assert_failed, at_submission, chat_order, film, gateway, one_provider,
    ordered, plan, provider, simulator, status, submissions, without_workers,
};
use crate::support::program::Home;
use crate::support::{Client, TestGateway, eventually};

async fn cancel(client: &Client, task: &str) {
    let path = format!("/v1/tasks/{task}/cancel");
    let off = client.post(&path, &json!({})).await.ok();
    assert_eq!(off["status"], "cancelled", "{off}");
}

#[tokio::test]
async fn what_is_called_off_here_is_called_off_there() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = ordered(&gateway, "a lake").await;
    arrives(&simulator, RequestRole::Poll, 1).await;
    cancel(&gateway, &task).await;
    eventually("the job is called off", async || {
        let jobs = simulator.world().jobs("openai-videos");
        (jobs[0].phase() == JobPhase::Cancelled).then_some(())
    })
    .await;
    gateway.stop().await;
}

#[tokio::test]
async fn what_is_called_off_while_it_is_sent_is_called_off_there() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    at_submission(&simulator, Fault::Latency(Duration::from_secs(1)), 1);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = ordered(&gateway, "a lake").await;
    arrives(&simulator, RequestRole::Submit, 1).await;
    cancel(&gateway, &task).await;
    eventually("the job is called off", async || {
        let jobs = simulator.world().jobs("openai-videos");
        (jobs.first()?.phase() == JobPhase::Cancelled).then_some(())
    })
    .await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_restart_goes_on_with_the_job_that_was_made() {
    Box::pin(goes_on(false)).await;
}

#[tokio::test]
async fn a_restart_goes_on_with_the_job_that_was_made_on_postgres() {
    Box::pin(goes_on(true)).await;
}

async fn goes_on(postgres: bool) {
    let simulator = simulator().await;
    plan(&simulator, SOME, PlannedEnd::Success);
    // With room for one, which it has already.
    let toml = one_provider(&simulator).replace("api_key", "max_running = 1\napi_key");
    let mut builder = TestGateway::builder().toml(&toml);
    if postgres {
        builder = builder.on_postgres();
    }
    let gateway = builder.start().await;
    let task = ordered(&gateway, "a lake").await;
    arrives(&simulator, RequestRole::Poll, 1).await;
    let gateway = gateway.restart(None).await;
    let done = gateway.finished(&task).await;
    assert_eq!(
        (&done["status"], &done["cost_usd"]),
        (&json!("succeeded"), &json!("0.40")),
        "{done}"
    );
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_restart_waits_for_an_answer_that_is_under_way() {
    let simulator = simulator().await;
    at_submission(&simulator, Fault::Latency(Duration::from_secs(2)), 1);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = ordered(&gateway, "a lake").await;
    arrives(&simulator, RequestRole::Submit, 1).await;
    let gateway = gateway.restart(None).await;
    assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

/// What a process leaves behind that dies while it sends the order of a film.
pub(super) async fn die_while_sending(gateway: &TestGateway, id: SubmissionId) -> Task {
    die_while_sending_to(gateway, ("film", "sora-2"), id).await
}

/// The same of a task of this model, sent to this model of the provider.
async fn die_while_sending_to(
    gateway: &TestGateway,
    (model, route_model): (&'static str, &'static str),
    id: SubmissionId,
) -> Task {
    let now = gateway.app.clock.now();
    let site = gateway.app.models.upstream.sites()["acme"].clone();
    let (endpoint, credential) = (site.endpoint.clone(), site.credentials[0].id.clone());
    let left = gateway.app.store.write(move |conn| -> Result<_, Error> {
        store::workers::register(conn, "dead", now.plus(Duration::from_mins(1)))?;
        let mut claimed =
            store::tasks::claim_upstream(conn, "dead", model, TaskState::Queued, 1, now)?;
        let task = claimed.pop().expect("a waiting task");
        let submission = Submission {
            id,
            task: task.id,
            attempt: 1,
            provider: "acme".into(),
            route_model: route_model.into(),
            endpoint,
            credential,
            state: SubmissionState::Intended,
            handle: None,
            results: None,
            created_at: now,
            accepted_at: None,
        };
        store::submissions::intend(conn, &submission, "gone")?;
        store::tasks::mark_running(conn, task.id, "dead", "acme", "fp_0000000000", now)?;
        store::workers::deregister(conn, "dead")?;
        Ok(task)
    });
    left.await.unwrap()
}

#[tokio::test]
async fn what_a_crash_may_have_sent_is_not_sent_again() {
    let simulator = simulator().await;
    let mut gateway = without_workers(&one_provider(&simulator)).await;
    let caller = gateway.client.clone();
    let waiting = tokio::spawn(async move {
        caller
            .post("/v1/chat/completions", &chat_order("a lake"))
            .await
    });
    eventually("the task is accepted", async || {
        let list = gateway.get("/v1/tasks").await.ok();
        (!list["data"].as_array().unwrap().is_empty()).then_some(())
    })
    .await;
    let task = die_while_sending(&gateway, SubmissionId::new()).await;
    gateway.start_workers().await;
    waiting
        .await
        .unwrap()
        .refused(424, "submission_unconfirmed");
    assert_failed(
        &gateway.finished(&task.id.to_string()).await,
        "submission_unconfirmed",
    );
    assert_eq!(submissions(&simulator), 0, "it is looked for, and not sent");
    gateway.stop().await;
}

fn keyed(simulator: &Simulator) -> String {
    provider("acme", "openai-videos", simulator, "idempotency = true")
        + &film(r#"{ provider = "acme", model = "sora-2" }"#)
}

#[tokio::test]
async fn where_the_provider_makes_one_job_of_both_it_is_sent_again() {
    let simulator = simulator().await;
    let mut gateway = without_workers(&keyed(&simulator)).await;
    let task = ordered(&gateway, "a lake").await;
    let id = SubmissionId::new();
    die_while_sending(&gateway, id).await;
    // At first it is refused, which says nothing about the first time.
    at_submission(&simulator, status(429), 2);
    gateway.start_workers().await;
    let done = gateway.finished(&task).await;
    assert_eq!(done["status"], "succeeded", "{done}");
    let journal = simulator.world().journal();
    let sent = journal.iter().filter(|one| one.role == RequestRole::Submit);
    let keys: Vec<&str> = sent
        .map(|one| one.headers["idempotency-key"].to_str().unwrap())
        .collect();
    assert_eq!(keys, [&id.to_string(); 3], "always with the same key");
    gateway.stop().await;
}

#[tokio::test]
async fn a_repetition_that_is_refused_for_good_leaves_it_open() {
    let simulator = simulator().await;
    let mut gateway = without_workers(&keyed(&simulator)).await;
    let task = ordered(&gateway, "a lake").await;
    die_while_sending(&gateway, SubmissionId::new()).await;
    at_submission(&simulator, status(401), 1);
    gateway.start_workers().await;
    assert_failed(&gateway.finished(&task).await, "submission_unconfirmed");
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

/// A file is handed over again before the order is repeated. That this is refused says nothing about
/// the first time, when the provider may have taken the order.
#[tokio::test]
async fn a_repetition_that_is_refused_before_it_is_sent_leaves_it_open() {
    let simulator = simulator().await;
    let toml = provider("acme", "lalal", &simulator, "") + &band("phoenix");
    let mut gateway = without_workers(&toml).await;
    let source = gateway.upload("Night Song").await;
    let body = json!({"task": "gen_stem", "mv": "band", "continue_clip_id": source["id"]});
    gateway.post(SUBMIT, &body).await.ok();
    let task = die_while_sending_to(&gateway, ("band", "phoenix"), SubmissionId::new()).await;
    let upload = Some(RequestRole::Upload);
    simulator.world().order_fault(status(422), None, upload, 9);
    gateway.start_workers().await;
    let ended = gateway.finished(&task.id.to_string()).await;
    assert_failed(&ended, "submission_unconfirmed");
    assert_eq!(submissions(&simulator), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn submissions_of_tasks_that_have_ended_take_no_room() {
    let simulator = simulator().await;
    let toml = one_provider(&simulator).replace("api_key", "max_running = 1\napi_key");
    let mut gateway = without_workers(&toml).await;
    let dead = ordered(&gateway, "a lake").await;
    die_while_sending(&gateway, SubmissionId::new()).await;
    cancel(&gateway, &dead).await;
    gateway.start_workers().await;
    let next = ordered(&gateway, "a lake").await;
    assert_eq!(gateway.finished(&next).await["status"], "succeeded");
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_crash_between_acceptance_and_end_loses_nothing_and_repeats_nothing() {
    let simulator = simulator().await;
    plan(&simulator, SOME, PlannedEnd::Success);
    let home = Home::with_settings(&one_provider(&simulator));
    let (server, client) = home.start().await;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let body = json!({"model": "film", "prompt": "a lake"});
        let answer = client.post("/v1/videos", &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        tasks.push(answer.header("x-task-id").unwrap().to_owned());
    }
    // All were taken, and that is written down: they are polled.
    eventually("all jobs are polled", async || {
        let jobs = simulator.world().jobs("openai-videos");
        (jobs.len() == 3 && jobs.iter().all(|job| job.polls > 0)).then_some(())
    })
    .await;
    server.crash();
    let (server, client) = home.start_again(client).await;
    for task in &tasks {
        let done = crate::support::gateway::finished(&client, task).await;
        assert_eq!(
            (&done["status"], &done["cost_usd"]),
            (&json!("succeeded"), &json!("0.40")),
            "{done}"
        );
    }
    assert_eq!(submissions(&simulator), 3);
    server.stop().await;
}

#[tokio::test]
async fn a_crash_while_an_order_is_sent_leads_to_the_job_that_was_made() {
    let simulator = simulator().await;
    at_submission(&simulator, Fault::Latency(Duration::from_secs(30)), 1);
    let home = Home::with_settings(&one_provider(&simulator));
    let (server, client) = home.start().await;
    let body = json!({"model": "film", "prompt": "a lake"});
    let answer = client.post("/v1/videos", &body).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    arrives(&simulator, RequestRole::Submit, 1).await;
    server.crash();
    let (server, client) = home.start_again(client).await;
    let done = crate::support::gateway::finished(&client, &task).await;
    assert_eq!(done["status"], "succeeded", "{done}");
    assert_eq!(submissions(&simulator), 1, "the provider took it once");
    server.stop().await;
}
