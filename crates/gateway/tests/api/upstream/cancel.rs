//! Tasks that are cancelled while a provider works on them: what happens there,
//! and what becomes of the money.

use std::time::Duration;

use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::keys::NewKey;
use mediagate_core::domain::{accounting, accounts};
use reqwest::Method;
use serde_json::{Value, json};
use simulator::{Fault, JobPlan, PlannedEnd, RequestRole, Simulator};

use super::{
    BRIEF, LONG, chat_order, film, gateway, one_provider, order_film, plan, provider, simulator,
    submissions, wait_for_requests, without_workers,
};
use crate::support::sse::Events;
use crate::support::{Answer, Client, TestGateway, eventually};

/// A provider that cannot cancel a job.
fn without_cancellation(simulator: &Simulator, policy: &str) -> String {
    format!("cancel_policy = \"{policy}\"\n")
        + &provider("acme", "xai", simulator, "")
        + &film(r#"{ provider = "acme", model = "grok-imagine-video" }"#)
}

/// A provider that can cancel a job.
fn with_cancellation(simulator: &Simulator, policy: &str) -> String {
    format!("cancel_policy = \"{policy}\"\n")
        + &provider("acme", "runway", simulator, "")
        + &film(r#"{ provider = "acme", model = "gen4.5" }"#)
}

/// Plans jobs that end after a few more polls than tests wait for, however slow
/// the machine is.
fn plan_four_polls(simulator: &Simulator, end: PlannedEnd) {
    simulator.world().set_plan(JobPlan {
        polls: 4,
        end,
        ..JobPlan::default()
    });
}

async fn cancel(gateway: &TestGateway, task: &str) -> Value {
    let path = format!("/v1/tasks/{task}/cancel");
    let cancelled = gateway.post(&path, &json!({})).await.ok();
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    cancelled
}

/// Waits until no submission is polled any more; returns their states.
async fn wait_until_over(gateway: &TestGateway) -> Vec<String> {
    eventually("the submissions are over", async || {
        let read = gateway.app.store.read(|conn| {
            conn.all(
                "SELECT state, stray FROM submissions ORDER BY id",
                &[],
                |row| Ok((row.text(0)?, row.int(1)?)),
            )
        });
        let submissions: Result<Vec<(String, i64)>, mediagate_store::StoreError> = read.await;
        let submissions = submissions.unwrap();
        let is_over = |(state, stray): &(String, i64)| {
            *stray == 0 && state != "intended" && state != "accepted"
        };
        (!submissions.is_empty() && submissions.iter().all(is_over)).then(|| {
            submissions
                .into_iter()
                .map(|submission| submission.0)
                .collect()
        })
    })
    .await
}

async fn billing(gateway: &TestGateway, task: &str) -> (String, Value) {
    let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    assert_eq!(view["status"], "cancelled");
    (
        view["cost_usd"].as_str().unwrap().to_owned(),
        view["billing"].clone(),
    )
}

#[tokio::test]
async fn a_refund_is_immediate_and_the_job_is_polled_to_its_end() {
    let simulator = simulator().await;
    plan_four_polls(&simulator, PlannedEnd::Success);
    let gateway = gateway(&without_cancellation(&simulator, "refund")).await;
    let task = order_film(&gateway, "a lake").await;
    wait_for_requests(&simulator, RequestRole::Poll, 1).await;
    let cancelled = cancel(&gateway, &task).await;
    assert_eq!(
        (&cancelled["cost_usd"], &cancelled["billing"]["status"]),
        (&json!("0.00"), &json!("released"))
    );
    assert!(
        cancelled["error"]["message"]
            .as_str()
            .unwrap()
            .contains("were released"),
        "{cancelled}"
    );
    let polls = super::request_count(&simulator, RequestRole::Poll);
    assert_eq!(wait_until_over(&gateway).await, ["ended"]);
    assert!(
        super::request_count(&simulator, RequestRole::Poll) > polls,
        "it was polled until it ended"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_cancelled_job_that_succeeds_is_charged_by_the_policy_charge() {
    let simulator = simulator().await;
    plan_four_polls(&simulator, PlannedEnd::Success);
    let gateway = gateway(&without_cancellation(&simulator, "charge")).await;
    let task = order_film(&gateway, "a lake").await;
    wait_for_requests(&simulator, RequestRole::Poll, 1).await;
    let cancelled = cancel(&gateway, &task).await;
    let reserved = cancelled["cost_usd"].clone();
    assert_eq!(cancelled["billing"]["status"], "held", "{cancelled}");
    assert!(
        cancelled["error"]["message"]
            .as_str()
            .unwrap()
            .contains("is charged"),
        "{cancelled}"
    );
    assert_eq!(wait_until_over(&gateway).await, ["ended"]);
    let (cost, billing) = billing(&gateway, &task).await;
    assert_eq!(
        (json!(cost), &billing["status"]),
        (reserved, &json!("settled"))
    );
    let cost_row = gateway.app.store.read(|conn| {
        conn.one(
            "SELECT cost_millionths, cost_unit FROM submissions",
            &[],
            |row| Ok((row.int(0)?, row.text(1)?)),
        )
    });
    let cost_row: Result<Option<(i64, String)>, mediagate_store::StoreError> = cost_row.await;
    assert_eq!(
        cost_row.unwrap(),
        Some((300_000, "usd".to_owned())),
        "what the job cost at the provider"
    );
    gateway.stop().await;
}

/// A caller of a prepaid account with this handle and credit, without a rate limit that matters.
async fn prepaid_caller(gateway: &TestGateway, handle: &str, usd: &str) -> Client {
    let new = NewKey {
        rpm: Some(100_000),
        ..NewKey::default()
    };
    let caller = gateway.caller(handle, new).await;
    let account = accounts::ensure(&gateway.app, handle).await.unwrap();
    let author = ChangeAuthor::command("a test").into();
    let credited = accounting::credit(&gateway.app, author, account.id, usd.parse().unwrap(), None);
    credited.await.unwrap();
    caller
}

/// An order of four seconds, 0.40 USD.
async fn order(caller: &Client) -> Answer {
    let body = json!({"model": "film", "prompt": "a lake", "seconds": "4"});
    caller.post("/v1/videos", &body).await
}

/// Places that order, waits until the provider is polled, and cancels it.
async fn order_and_cancel(simulator: &Simulator, caller: &Client) -> String {
    let polls = super::request_count(simulator, RequestRole::Poll);
    let answer = order(caller).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    answer.ok();
    wait_for_requests(simulator, RequestRole::Poll, polls + 1).await;
    let path = format!("/v1/tasks/{task}/cancel");
    caller.post(&path, &json!({})).await.ok();
    task
}

/// Waits until a cancelled task's reservation is resolved; returns its record.
async fn wait_for_settlement(caller: &Client, task: &str) -> Value {
    eventually("the reservation is resolved", async || {
        let view = caller.get(&format!("/v1/tasks/{task}")).await.ok();
        (view["billing"]["status"] != "held").then_some(view)
    })
    .await
}

#[tokio::test]
async fn an_account_cannot_spend_again_what_a_cancelled_job_may_cost() {
    let simulator = simulator().await;
    plan_four_polls(&simulator, PlannedEnd::Success);
    let settings = provider("acme", "xai", &simulator, "")
        + &film(r#"{ provider = "acme", model = "grok-imagine-video" }"#);
    let gateway = gateway(&settings).await;
    let caller = prepaid_caller(&gateway, "owls", "0.50").await;
    let task = order_and_cancel(&simulator, &caller).await;
    order(&caller).await.refused(402, "budget_exceeded");
    let account = caller.get("/v1/account").await.ok();
    assert_eq!(account["available_usd"], "0.10", "{account}");
    let view = wait_for_settlement(&caller, &task).await;
    assert_eq!(
        (&view["cost_usd"], &view["billing"]["status"]),
        (&json!("0.40"), &json!("settled")),
        "{view}"
    );
    let message = view["error"]["message"].as_str().unwrap();
    assert!(message.contains("0.40 USD were charged"), "{message}");
    order(&caller).await.refused(402, "budget_exceeded");
    assert_eq!(caller.get("/v1/account").await.ok()["balance_usd"], "0.10");
    gateway.stop().await;
}

#[tokio::test]
async fn refunds_for_jobs_that_continue_are_limited() {
    let simulator = simulator().await;
    plan_four_polls(&simulator, PlannedEnd::Success);
    let settings = format!(
        "cancel_allowance = \"0.90\"\n{}",
        without_cancellation(&simulator, "refund")
    );
    let gateway = gateway(&settings).await;
    let caller = prepaid_caller(&gateway, "owls", "5.00").await;
    let mut costs = Vec::new();
    for _ in 0..4 {
        let task = order_and_cancel(&simulator, &caller).await;
        costs.push(wait_for_settlement(&caller, &task).await["cost_usd"].clone());
        wait_until_over(&gateway).await;
    }
    assert_eq!(costs, ["0.00", "0.00", "0.40", "0.40"]);
    // Another account has an allowance of its own.
    let other = prepaid_caller(&gateway, "foxes", "5.00").await;
    let task = order_and_cancel(&simulator, &other).await;
    assert_eq!(wait_for_settlement(&other, &task).await["cost_usd"], "0.00");
    wait_until_over(&gateway).await;
    gateway.stop().await;
}

#[tokio::test]
async fn concurrent_cancellations_keep_the_limit() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let settings = format!(
        "cancel_allowance = \"0.90\"\n{}",
        without_cancellation(&simulator, "refund")
    );
    let gateway = gateway(&settings).await;
    let caller = prepaid_caller(&gateway, "owls", "5.00").await;
    let mut tasks = Vec::new();
    for number in 1..=5 {
        let answer = order(&caller).await;
        tasks.push(answer.header("x-task-id").unwrap().to_owned());
        answer.ok();
        wait_for_requests(&simulator, RequestRole::Poll, number).await;
    }
    let cancels = tasks.iter().map(|task| {
        let path = format!("/v1/tasks/{task}/cancel");
        let caller = caller.clone();
        async move { caller.post(&path, &json!({})).await.ok()["cost_usd"].clone() }
    });
    let mut costs = futures_util::future::join_all(cancels).await;
    costs.sort_by_key(Value::to_string);
    assert_eq!(costs, ["0.00", "0.00", "0.40", "0.40", "0.40"]);
    gateway.stop().await;
}

#[tokio::test]
async fn jobs_that_the_provider_cancels_do_not_count_against_the_limit() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let settings = format!(
        "cancel_allowance = \"0.50\"\n{}",
        with_cancellation(&simulator, "refund")
    );
    let gateway = gateway(&settings).await;
    for _ in 0..3 {
        let task = order_and_cancel(&simulator, &gateway.client).await;
        let view = wait_for_settlement(&gateway, &task).await;
        assert_eq!(view["cost_usd"], "0.00", "{view}");
        wait_until_over(&gateway).await;
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_cancelled_job_that_fails_is_not_charged() {
    let simulator = simulator().await;
    plan_four_polls(&simulator, PlannedEnd::Failure);
    let gateway = gateway(&without_cancellation(&simulator, "charge")).await;
    let task = order_film(&gateway, "a lake").await;
    wait_for_requests(&simulator, RequestRole::Poll, 1).await;
    cancel(&gateway, &task).await;
    wait_until_over(&gateway).await;
    let (cost, billing) = billing(&gateway, &task).await;
    assert_eq!(
        (cost.as_str(), &billing["status"]),
        ("0.00", &json!("released"))
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_that_the_provider_cancels_is_not_charged() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let gateway = gateway(&with_cancellation(&simulator, "charge")).await;
    let task = order_film(&gateway, "a lake").await;
    wait_for_requests(&simulator, RequestRole::Poll, 1).await;
    cancel(&gateway, &task).await;
    assert_eq!(wait_until_over(&gateway).await, ["ended"]);
    assert_eq!(super::request_count(&simulator, RequestRole::Cancel), 1);
    assert_eq!(billing(&gateway, &task).await.0, "0.00");
    gateway.stop().await;
}

/// Orders two films in one chat, cancels the first one while the provider works on it, and returns
/// what the chat says about the cost, and its task ids.
async fn chat_with_a_cancelled_task(
    simulator: &Simulator,
    gateway: &TestGateway,
    stream: bool,
) -> (f64, Vec<String>) {
    let submitted = submissions(simulator);
    let mut order = chat_order("a lake");
    order["n"] = json!(2);
    order["stream"] = json!(stream);
    order["stream_options"] = json!({"include_usage": true});
    let request = gateway
        .request(Method::POST, "/v1/chat/completions")
        .json(&order);
    let client = gateway.client.clone();
    let waiting = tokio::spawn(async move {
        if !stream {
            let answer = client.send(request).await;
            let header: f64 = answer.header("x-cost-usd").unwrap().parse().unwrap();
            let usage = answer.ok()["usage"]["cost"].as_f64().unwrap();
            assert!((usage - header).abs() < 1e-9, "{usage} and {header}");
            return usage;
        }
        let mut events = Events::open(request).await.rest().await;
        assert_eq!(events.pop().unwrap().data, "[DONE]");
        let usage = events.pop().unwrap().json();
        usage["usage"]["cost"].as_f64().unwrap()
    });
    wait_for_requests(simulator, RequestRole::Submit, submitted + 2).await;
    let open = eventually("both tasks run", async || {
        let list = gateway.get("/v1/tasks?status=running").await.ok();
        let tasks = list["data"].as_array()?.iter();
        let mut ids: Vec<String> = tasks
            .filter_map(|task| task["id"].as_str().map(str::to_owned))
            .collect();
        // In the order of their creation, which is that of the choices.
        ids.sort();
        (ids.len() == 2).then_some(ids)
    })
    .await;
    cancel(gateway, &open[0]).await;
    (waiting.await.unwrap(), open)
}

#[tokio::test]
async fn a_chat_does_not_count_what_was_only_reserved_for_a_cancelled_task() {
    for stream in [false, true] {
        let simulator = simulator().await;
        plan(&simulator, BRIEF, PlannedEnd::Success);
        let gateway = gateway(&with_cancellation(&simulator, "charge")).await;
        let (cost, tasks) = chat_with_a_cancelled_task(&simulator, &gateway, stream).await;
        let view = wait_for_settlement(&gateway, &tasks[0]).await;
        assert_eq!(view["billing"]["status"], "released", "{view}");
        let other = gateway.finished(&tasks[1]).await;
        assert_eq!(other["status"], "succeeded", "{other}");
        let charged: f64 = other["cost_usd"].as_str().unwrap().parse().unwrap();
        assert!(
            charged > 0.0 && (cost - charged).abs() < 1e-9,
            "{cost} for {charged}"
        );
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_task_that_nobody_holds_is_cancelled_too() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let first = gateway(&with_cancellation(&simulator, "refund")).await;
    let task = order_film(&first, "a lake").await;
    wait_for_requests(&simulator, RequestRole::Poll, 1).await;
    let mut gateway = first.restart_without_workers().await;
    cancel(&gateway, &task).await;
    assert_eq!(super::request_count(&simulator, RequestRole::Cancel), 0);
    gateway.start_workers().await;
    assert_eq!(wait_until_over(&gateway).await, ["ended"]);
    assert_eq!(super::request_count(&simulator, RequestRole::Cancel), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn polling_of_a_cancelled_job_continues_after_a_restart() {
    let simulator = simulator().await;
    plan_four_polls(&simulator, PlannedEnd::Success);
    let first = gateway(&without_cancellation(&simulator, "charge")).await;
    let task = order_film(&first, "a lake").await;
    wait_for_requests(&simulator, RequestRole::Poll, 1).await;
    cancel(&first, &task).await;
    let gateway = first.restart(None).await;
    assert_eq!(wait_until_over(&gateway).await, ["ended"]);
    assert_eq!(billing(&gateway, &task).await.1["status"], "settled");
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_task_cancelled_before_it_is_sent_is_neither_sent_nor_charged() {
    let simulator = simulator().await;
    let mut gateway = without_workers(&without_cancellation(&simulator, "charge")).await;
    let task = order_film(&gateway, "a lake").await;
    let cancelled = cancel(&gateway, &task).await;
    assert_eq!(cancelled["billing"]["status"], "released");
    gateway.start_workers().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(submissions(&simulator), 0);
    gateway.stop().await;
}

/// The provider's list fails at first, so the outcome of the order is unknown; later
/// the list works, and the job is found.
#[tokio::test]
async fn a_job_that_is_found_late_is_recorded_and_not_charged() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let world = simulator.world();
    world.order_fault(Fault::DropAfter, None, Some(RequestRole::Submit), 1);
    world.order_fault(super::status(500), None, Some(RequestRole::Find), 1000);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = order_film(&gateway, "a lake").await;
    let failed = gateway.finished(&task).await;
    super::assert_failed(&failed, "submission_unconfirmed");
    world.clear_faults();
    let made_due = gateway.app.store.write(|conn| {
        conn.execute(
            "UPDATE submissions SET due_at = 0 WHERE state = 'unclear'",
            &[],
        )
    });
    let rows: Result<u64, mediagate_store::StoreError> = made_due.await;
    assert_eq!(rows.unwrap(), 1);
    eventually("the job is found", async || {
        (wait_until_over(&gateway).await == ["found"]).then_some(())
    })
    .await;
    let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    super::assert_failed(&view, "submission_unconfirmed");
    gateway.stop().await;
}
