//! Tasks that are interrupted: cancelled, or the process ends or dies. Whatever
//! happens, nothing is ordered twice.

use std::time::Duration;

use mediagate_model::error::Error;
use mediagate_model::ids::SubmissionId;
use mediagate_model::submission::{Submission, SubmissionState};
use mediagate_model::task::{Task, TaskState};
use mediagate_store as store;
use serde_json::{Map, json};
use simulator::{Fault, JobPhase, PlannedEnd, RequestRole, Simulator};

use super::music::{SUBMIT, band};
use super::{
    BRIEF, LONG, assert_failed, at_submission, chat_order, film, gateway, one_provider, order_film,
    plan, provider, simulator, status, submissions, wait_for_requests, without_workers,
};
use crate::support::program::Home;
use crate::support::{Client, TestGateway, eventually};

async fn cancel(client: &Client, task: &str) {
    let path = format!("/v1/tasks/{task}/cancel");
    let cancelled = client.post(&path, &json!({})).await.ok();
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
}

#[tokio::test]
async fn a_cancelled_task_cancels_the_providers_job() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = order_film(&gateway, "a lake").await;
    wait_for_requests(&simulator, RequestRole::Poll, 1).await;
    cancel(&gateway, &task).await;
    eventually("the job is cancelled", async || {
        let jobs = simulator.world().jobs("openai-videos");
        (jobs[0].phase() == JobPhase::Cancelled).then_some(())
    })
    .await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_task_cancelled_while_it_is_sent_cancels_the_providers_job() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    at_submission(&simulator, Fault::Latency(Duration::from_secs(1)), 1);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = order_film(&gateway, "a lake").await;
    wait_for_requests(&simulator, RequestRole::Submit, 1).await;
    cancel(&gateway, &task).await;
    eventually("the job is cancelled", async || {
        let jobs = simulator.world().jobs("openai-videos");
        (jobs.first()?.phase() == JobPhase::Cancelled).then_some(())
    })
    .await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_restart_continues_the_job() {
    Box::pin(restart_continues_the_job(false)).await;
}

#[tokio::test]
async fn a_restart_continues_the_job_on_postgres() {
    Box::pin(restart_continues_the_job(true)).await;
}

async fn restart_continues_the_job(postgres: bool) {
    let simulator = simulator().await;
    plan(&simulator, BRIEF, PlannedEnd::Success);
    // The task's own job already uses up the limit of one.
    let toml = one_provider(&simulator).replace("api_key", "max_running = 1\napi_key");
    let mut builder = TestGateway::builder().toml(&toml);
    if postgres {
        builder = builder.on_postgres();
    }
    let gateway = builder.start().await;
    let task = order_film(&gateway, "a lake").await;
    wait_for_requests(&simulator, RequestRole::Poll, 1).await;
    let gateway = gateway.restart(None).await;
    let finished = gateway.finished(&task).await;
    assert_eq!(
        (&finished["status"], &finished["cost_usd"]),
        (&json!("succeeded"), &json!("0.40")),
        "{finished}"
    );
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_restart_waits_for_an_answer_that_is_under_way() {
    let simulator = simulator().await;
    at_submission(&simulator, Fault::Latency(Duration::from_secs(2)), 1);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = order_film(&gateway, "a lake").await;
    wait_for_requests(&simulator, RequestRole::Submit, 1).await;
    let gateway = gateway.restart(None).await;
    assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

/// Leaves the database as a process does that dies while it sends the order of a film.
pub(super) async fn die_while_sending(gateway: &TestGateway, id: SubmissionId) -> Task {
    die_while_sending_to(gateway, ("film", "sora-2"), id).await
}

/// Like [`die_while_sending`], for a task of this model that is sent to this model of the provider.
async fn die_while_sending_to(
    gateway: &TestGateway,
    (model, route_model): (&'static str, &'static str),
    id: SubmissionId,
) -> Task {
    let now = gateway.app.clock.now();
    let site = gateway.app.models.upstream.sites()["acme"].clone();
    let (endpoint, credential) = (site.endpoint.clone(), site.credentials[0].id.clone());
    let written = gateway.app.store.write(move |conn| -> Result<_, Error> {
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
            likeness: None,
            has_key: Some(site.provider.adapter().deduplicates()),
            job_settings: Some(site.job_settings.clone()),
            order_settings: Some(site.order_settings(route_model, &Map::new())),
        };
        store::submissions::intend(conn, &submission, "gone")?;
        store::tasks::mark_running(conn, task.id, "dead", "acme", "fp_0000000000", now)?;
        store::workers::deregister(conn, "dead")?;
        Ok(task)
    });
    written.await.unwrap()
}

#[tokio::test]
async fn an_order_that_a_crash_may_have_sent_is_not_repeated() {
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
    assert_eq!(
        submissions(&simulator),
        0,
        "the job is looked for, and not ordered again"
    );
    gateway.stop().await;
}

fn with_idempotency(simulator: &Simulator) -> String {
    provider("acme", "openai-videos", simulator, "idempotency = true")
        + &film(r#"{ provider = "acme", model = "sora-2" }"#)
}

#[tokio::test]
async fn an_idempotent_order_is_repeated_after_a_crash() {
    let simulator = simulator().await;
    let mut gateway = without_workers(&with_idempotency(&simulator)).await;
    let task = order_film(&gateway, "a lake").await;
    let id = SubmissionId::new();
    die_while_sending(&gateway, id).await;
    // At first the repetition is refused, which says nothing about the first order.
    at_submission(&simulator, status(429), 2);
    gateway.start_workers().await;
    let finished = gateway.finished(&task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    let journal = simulator.world().journal();
    let orders = journal
        .iter()
        .filter(|request| request.role == RequestRole::Submit);
    let keys: Vec<&str> = orders
        .map(|request| request.headers["idempotency-key"].to_str().unwrap())
        .collect();
    assert_eq!(keys, [&id.to_string(); 3], "always with the same key");
    gateway.stop().await;
}

#[tokio::test]
async fn a_refused_repetition_leaves_the_outcome_unconfirmed() {
    let simulator = simulator().await;
    let mut gateway = without_workers(&with_idempotency(&simulator)).await;
    let task = order_film(&gateway, "a lake").await;
    die_while_sending(&gateway, SubmissionId::new()).await;
    at_submission(&simulator, status(401), 1);
    gateway.start_workers().await;
    assert_failed(&gateway.finished(&task).await, "submission_unconfirmed");
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

/// The file is uploaded again before the order is repeated. A refused upload says nothing about
/// the first order, which the provider may have accepted.
#[tokio::test]
async fn a_repetition_refused_at_the_upload_leaves_the_outcome_unconfirmed() {
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
    let failed = gateway.finished(&task.id.to_string()).await;
    assert_failed(&failed, "submission_unconfirmed");
    assert_eq!(submissions(&simulator), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn submissions_of_ended_tasks_do_not_count_against_max_running() {
    let simulator = simulator().await;
    let toml = one_provider(&simulator).replace("api_key", "max_running = 1\napi_key");
    let mut gateway = without_workers(&toml).await;
    let abandoned = order_film(&gateway, "a lake").await;
    die_while_sending(&gateway, SubmissionId::new()).await;
    cancel(&gateway, &abandoned).await;
    gateway.start_workers().await;
    let next = order_film(&gateway, "a lake").await;
    assert_eq!(gateway.finished(&next).await["status"], "succeeded");
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_crash_between_acceptance_and_end_loses_nothing_and_repeats_nothing() {
    let simulator = simulator().await;
    plan(&simulator, BRIEF, PlannedEnd::Success);
    let home = Home::with_settings(&one_provider(&simulator));
    let (server, client) = home.start().await;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let body = json!({"model": "film", "prompt": "a lake"});
        let answer = client.post("/v1/videos", &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        tasks.push(answer.header("x-task-id").unwrap().to_owned());
    }
    // All were accepted, and that is recorded: they are polled.
    eventually("all jobs are polled", async || {
        let jobs = simulator.world().jobs("openai-videos");
        (jobs.len() == 3 && jobs.iter().all(|job| job.polls > 0)).then_some(())
    })
    .await;
    server.crash();
    let (server, client) = home.start_again(client).await;
    for task in &tasks {
        let finished = crate::support::gateway::finished(&client, task).await;
        assert_eq!(
            (&finished["status"], &finished["cost_usd"]),
            (&json!("succeeded"), &json!("0.40")),
            "{finished}"
        );
    }
    assert_eq!(submissions(&simulator), 3);
    server.stop().await;
}

#[tokio::test]
async fn after_a_crash_while_sending_the_accepted_job_is_found() {
    let simulator = simulator().await;
    at_submission(&simulator, Fault::Latency(Duration::from_secs(30)), 1);
    let home = Home::with_settings(&one_provider(&simulator));
    let (server, client) = home.start().await;
    let body = json!({"model": "film", "prompt": "a lake"});
    let answer = client.post("/v1/videos", &body).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    wait_for_requests(&simulator, RequestRole::Submit, 1).await;
    server.crash();
    let (server, client) = home.start_again(client).await;
    let finished = crate::support::gateway::finished(&client, &task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    assert_eq!(submissions(&simulator), 1, "the provider accepted it once");
    server.stop().await;
}
