//! Tasks that are cancelled while a provider works on them: what happens there,
//! and what becomes of the money.

use std::time::Duration;

use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::keys::NewKey;
use mediagate_core::domain::{accounting, accounts};
use serde_json::{Value, json};
use simulator::{Fault, JobPlan, PlannedEnd, RequestRole, Simulator};

use super::{
    LONG, arrives, film, gateway, one_provider, ordered, plan, provider, simulator, submissions,
    without_workers,
};
use crate::support::{Answer, Client, TestGateway, eventually};

/// A provider that has no way to call a job off.
fn endless(simulator: &Simulator, policy: &str) -> String {
    format!("cancel_policy = \"{policy}\"\n")
        + &provider("acme", "xai", simulator, "")
        + &film(r#"{ provider = "acme", model = "grok-imagine-video" }"#)
}

/// One that has.
fn obedient(simulator: &Simulator, policy: &str) -> String {
    format!("cancel_policy = \"{policy}\"\n")
        + &provider("acme", "runway", simulator, "")
        + &film(r#"{ provider = "acme", model = "gen4.5" }"#)
}

/// Jobs that end once they were asked for a few times more than tests wait for,
/// however slow the machine is.
fn at_work(simulator: &Simulator, end: PlannedEnd) {
    simulator.world().set_plan(JobPlan {
        polls: 4,
        end,
        ..JobPlan::default()
    });
}

async fn cancel(gateway: &TestGateway, task: &str) -> Value {
    let path = format!("/v1/tasks/{task}/cancel");
    let off = gateway.post(&path, &json!({})).await.ok();
    assert_eq!(off["status"], "cancelled", "{off}");
    off
}

/// Waits until nothing is followed any more; how the submissions stand.
async fn over(gateway: &TestGateway) -> Vec<String> {
    eventually("the submissions are over", async || {
        let read = gateway.app.store.read(|conn| {
            conn.all(
                "SELECT state, stray FROM submissions ORDER BY id",
                &[],
                |row| Ok((row.text(0)?, row.int(1)?)),
            )
        });
        let all: Result<Vec<(String, i64)>, mediagate_store::StoreError> = read.await;
        let all = all.unwrap();
        let is_over = |(state, stray): &(String, i64)| {
            *stray == 0 && state != "intended" && state != "accepted"
        };
        (!all.is_empty() && all.iter().all(is_over))
            .then(|| all.into_iter().map(|one| one.0).collect())
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
async fn the_money_comes_back_at_once_and_the_job_is_followed_all_the_same() {
    let simulator = simulator().await;
    at_work(&simulator, PlannedEnd::Success);
    let gateway = gateway(&endless(&simulator, "refund")).await;
    let task = ordered(&gateway, "a lake").await;
    arrives(&simulator, RequestRole::Poll, 1).await;
    let off = cancel(&gateway, &task).await;
    assert_eq!(
        (&off["cost_usd"], &off["billing"]["status"]),
        (&json!("0.00"), &json!("released"))
    );
    assert!(
        off["error"]["message"]
            .as_str()
            .unwrap()
            .contains("were released"),
        "{off}"
    );
    let polls = super::arrived(&simulator, RequestRole::Poll);
    assert_eq!(over(&gateway).await, ["ended"]);
    assert!(
        super::arrived(&simulator, RequestRole::Poll) > polls,
        "it was asked until it ended"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn what_is_made_all_the_same_is_charged_where_the_operator_says_so() {
    let simulator = simulator().await;
    at_work(&simulator, PlannedEnd::Success);
    let gateway = gateway(&endless(&simulator, "charge")).await;
    let task = ordered(&gateway, "a lake").await;
    arrives(&simulator, RequestRole::Poll, 1).await;
    let off = cancel(&gateway, &task).await;
    let reserved = off["cost_usd"].clone();
    assert_eq!(off["billing"]["status"], "held", "{off}");
    assert!(
        off["error"]["message"]
            .as_str()
            .unwrap()
            .contains("is charged"),
        "{off}"
    );
    assert_eq!(over(&gateway).await, ["ended"]);
    let (cost, billing) = billing(&gateway, &task).await;
    assert_eq!(
        (json!(cost), &billing["status"]),
        (reserved, &json!("settled"))
    );
    let told = gateway.app.store.read(|conn| {
        conn.one(
            "SELECT cost_millionths, cost_unit FROM submissions",
            &[],
            |row| Ok((row.int(0)?, row.text(1)?)),
        )
    });
    let told: Result<Option<(i64, String)>, mediagate_store::StoreError> = told.await;
    assert_eq!(
        told.unwrap(),
        Some((300_000, "usd".to_owned())),
        "what the job cost all the same"
    );
    gateway.stop().await;
}

/// A caller of the prepaid account with this handle, and so much. It may ask as often as it likes.
async fn prepaid(gateway: &TestGateway, handle: &str, usd: &str) -> Client {
    let new = NewKey {
        rpm: Some(100_000),
        ..NewKey::default()
    };
    let caller = gateway.caller(handle, new).await;
    let account = accounts::ensure(&gateway.app, handle).await.unwrap();
    let by = ChangeAuthor::command("a test").into();
    let credited = accounting::credit(&gateway.app, by, account.id, usd.parse().unwrap(), None);
    credited.await.unwrap();
    caller
}

/// An order of four seconds, 0.40 USD.
async fn order(caller: &Client) -> Answer {
    let body = json!({"model": "film", "prompt": "a lake", "seconds": "4"});
    caller.post("/v1/videos", &body).await
}

/// Places that order, has the provider begin and cancels it.
async fn cancelled_at_work(simulator: &Simulator, caller: &Client) -> String {
    let polls = super::arrived(simulator, RequestRole::Poll);
    let answer = order(caller).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    answer.ok();
    arrives(simulator, RequestRole::Poll, polls + 1).await;
    let path = format!("/v1/tasks/{task}/cancel");
    caller.post(&path, &json!({})).await.ok();
    task
}

/// Waits until a cancelled task's money has moved; its record.
async fn settled(caller: &Client, task: &str) -> Value {
    eventually("its money moves", async || {
        let view = caller.get(&format!("/v1/tasks/{task}")).await.ok();
        (view["billing"]["status"] != "held").then_some(view)
    })
    .await
}

#[tokio::test]
async fn an_account_cannot_spend_again_what_a_cancelled_job_may_cost() {
    let simulator = simulator().await;
    at_work(&simulator, PlannedEnd::Success);
    let settings = provider("acme", "xai", &simulator, "")
        + &film(r#"{ provider = "acme", model = "grok-imagine-video" }"#);
    let gateway = gateway(&settings).await;
    let caller = prepaid(&gateway, "owls", "0.50").await;
    let task = cancelled_at_work(&simulator, &caller).await;
    order(&caller).await.refused(402, "budget_exceeded");
    let account = caller.get("/v1/account").await.ok();
    assert_eq!(account["available_usd"], "0.10", "{account}");
    let view = settled(&caller, &task).await;
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
async fn what_is_given_back_for_jobs_that_go_on_has_a_bound() {
    let simulator = simulator().await;
    at_work(&simulator, PlannedEnd::Success);
    let settings = format!(
        "cancel_allowance = \"0.90\"\n{}",
        endless(&simulator, "refund")
    );
    let gateway = gateway(&settings).await;
    let caller = prepaid(&gateway, "owls", "5.00").await;
    let mut given_back = Vec::new();
    for _ in 0..4 {
        let task = cancelled_at_work(&simulator, &caller).await;
        given_back.push(settled(&caller, &task).await["cost_usd"].clone());
        over(&gateway).await;
    }
    assert_eq!(given_back, ["0.00", "0.00", "0.40", "0.40"]);
    // Another account has an allowance of its own.
    let other = prepaid(&gateway, "foxes", "5.00").await;
    let task = cancelled_at_work(&simulator, &other).await;
    assert_eq!(settled(&other, &task).await["cost_usd"], "0.00");
    over(&gateway).await;
    gateway.stop().await;
}

#[tokio::test]
async fn many_cancelled_at_once_are_given_back_no_more_than_that() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let settings = format!(
        "cancel_allowance = \"0.90\"\n{}",
        endless(&simulator, "refund")
    );
    let gateway = gateway(&settings).await;
    let caller = prepaid(&gateway, "owls", "5.00").await;
    let mut tasks = Vec::new();
    for number in 1..=5 {
        let answer = order(&caller).await;
        tasks.push(answer.header("x-task-id").unwrap().to_owned());
        answer.ok();
        arrives(&simulator, RequestRole::Poll, number).await;
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
async fn what_the_provider_calls_off_counts_against_no_bound() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let settings = format!(
        "cancel_allowance = \"0.50\"\n{}",
        obedient(&simulator, "refund")
    );
    let gateway = gateway(&settings).await;
    for _ in 0..3 {
        let task = cancelled_at_work(&simulator, &gateway.client).await;
        let view = settled(&gateway, &task).await;
        assert_eq!(view["cost_usd"], "0.00", "{view}");
        over(&gateway).await;
    }
    gateway.stop().await;
}

#[tokio::test]
async fn what_is_not_made_is_not_charged() {
    let simulator = simulator().await;
    at_work(&simulator, PlannedEnd::Failure);
    let gateway = gateway(&endless(&simulator, "charge")).await;
    let task = ordered(&gateway, "a lake").await;
    arrives(&simulator, RequestRole::Poll, 1).await;
    cancel(&gateway, &task).await;
    over(&gateway).await;
    let (cost, billing) = billing(&gateway, &task).await;
    assert_eq!(
        (cost.as_str(), &billing["status"]),
        ("0.00", &json!("released"))
    );
    gateway.stop().await;
}

#[tokio::test]
async fn what_the_provider_calls_off_is_not_charged() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let gateway = gateway(&obedient(&simulator, "charge")).await;
    let task = ordered(&gateway, "a lake").await;
    arrives(&simulator, RequestRole::Poll, 1).await;
    cancel(&gateway, &task).await;
    assert_eq!(over(&gateway).await, ["ended"]);
    assert_eq!(super::arrived(&simulator, RequestRole::Cancel), 1);
    assert_eq!(billing(&gateway, &task).await.0, "0.00");
    gateway.stop().await;
}

#[tokio::test]
async fn a_task_that_nobody_holds_is_called_off_too() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let first = gateway(&obedient(&simulator, "refund")).await;
    let task = ordered(&first, "a lake").await;
    arrives(&simulator, RequestRole::Poll, 1).await;
    let mut gateway = first.restart_idle().await;
    cancel(&gateway, &task).await;
    assert_eq!(super::arrived(&simulator, RequestRole::Cancel), 0);
    gateway.start_workers().await;
    assert_eq!(over(&gateway).await, ["ended"]);
    assert_eq!(super::arrived(&simulator, RequestRole::Cancel), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_restart_goes_on_to_follow_what_was_cancelled() {
    let simulator = simulator().await;
    at_work(&simulator, PlannedEnd::Success);
    let first = gateway(&endless(&simulator, "charge")).await;
    let task = ordered(&first, "a lake").await;
    arrives(&simulator, RequestRole::Poll, 1).await;
    cancel(&first, &task).await;
    let gateway = first.restart(None).await;
    assert_eq!(over(&gateway).await, ["ended"]);
    assert_eq!(billing(&gateway, &task).await.1["status"], "settled");
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn what_is_cancelled_before_it_is_sent_is_never_sent_nor_charged() {
    let simulator = simulator().await;
    let mut gateway = without_workers(&endless(&simulator, "charge")).await;
    let task = ordered(&gateway, "a lake").await;
    let off = cancel(&gateway, &task).await;
    assert_eq!(off["billing"]["status"], "released");
    gateway.start_workers().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(submissions(&simulator), 0);
    gateway.stop().await;
}

/// A provider without a list: what became of the order cannot be found out, and
/// later, when it has one, it is.
#[tokio::test]
async fn a_job_that_turns_up_late_is_told_and_not_charged() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let world = simulator.world();
    world.order_fault(Fault::DropAfter, None, Some(RequestRole::Submit), 1);
    world.order_fault(super::status(500), None, Some(RequestRole::Find), 1000);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = ordered(&gateway, "a lake").await;
    let done = gateway.finished(&task).await;
    super::assert_failed(&done, "submission_unconfirmed");
    world.clear_faults();
    let now = gateway.app.store.write(|conn| {
        conn.execute(
            "UPDATE submissions SET due_at = 0 WHERE state = 'unclear'",
            &[],
        )
    });
    let due: Result<u64, mediagate_store::StoreError> = now.await;
    assert_eq!(due.unwrap(), 1);
    eventually("the job is found", async || {
        (over(&gateway).await == ["found"]).then_some(())
    })
    .await;
    let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    super::assert_failed(&view, "submission_unconfirmed");
    gateway.stop().await;
}
