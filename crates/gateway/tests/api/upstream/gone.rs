//! Cancelled jobs of which it stays unknown whether they were completed, and those that a gateway
//! behind this one completes: absence is no proof that nothing was made.

use serde_json::{Value, json};
use simulator::{PlannedEnd, RequestRole, Simulator};

use super::{LONG, film, gateway, plan, provider, request_count, simulator, wait_for_requests};
use crate::support::{TestGateway, eventually};
use mediagate_core::domain::keys::NewKey;

/// A provider whose record of a job vanishes when the job is deleted.
async fn gateway_with(simulator: &Simulator, policy: &str) -> TestGateway {
    plan(simulator, LONG, PlannedEnd::Success);
    let toml = format!("cancel_policy = \"{policy}\"\ncancel_allowance = \"1.00\"\n")
        + &provider("acme", "openai-videos", simulator, "")
        + &film(r#"{ provider = "acme", model = "sora-2" }"#);
    let gateway = gateway(&toml).await;
    gateway.app.models.upstream.set_speed(1000);
    gateway
}

/// Orders a film for 0.40 USD and cancels it while its provider works on it.
async fn order_and_cancel(gateway: &TestGateway, simulator: &Simulator, prompt: &str) -> String {
    let task = order(gateway, simulator, prompt).await;
    cancel(gateway, &task).await;
    task
}

/// Orders a film for 0.40 USD, and waits until its provider works on it.
async fn order(gateway: &TestGateway, simulator: &Simulator, prompt: &str) -> String {
    let polls = request_count(simulator, RequestRole::Poll);
    let order = json!({"model": "film", "prompt": prompt, "seconds": "4"});
    let answer = gateway.post("/v1/videos", &order).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    answer.ok();
    wait_for_requests(simulator, RequestRole::Poll, polls + 1).await;
    task
}

async fn cancel(gateway: &TestGateway, task: &str) {
    let path = format!("/v1/tasks/{task}/cancel");
    gateway.post(&path, &json!({})).await.ok();
}

/// Waits until the task's submission is over and its money decided; returns the task.
async fn wait_until_settled(gateway: &TestGateway, task: &str) -> Value {
    eventually("the job of the cancelled task is over", async || {
        let operator = crate::admin::operator(gateway).await;
        let shown = operator.get(&format!("/v1/admin/tasks/{task}")).await.ok();
        let has_ended = shown["attempts"][0]["ended_at"].is_string();
        (has_ended && shown["billing"]["status"] != "held").then_some(shown)
    })
    .await
}

/// The costs of three tasks whose jobs vanish after their cancellation.
async fn costs_of_vanished_jobs(policy: &str) -> Vec<Value> {
    let simulator = simulator().await;
    let gateway = gateway_with(&simulator, policy).await;
    let mut costs = Vec::new();
    for number in 0..3 {
        let task = order(&gateway, &simulator, &format!("lake {number}")).await;
        let gone = super::status(404);
        let poll = Some(RequestRole::Poll);
        simulator.world().order_fault(gone, None, poll, 100_000);
        cancel(&gateway, &task).await;
        let view = wait_until_settled(&gateway, &task).await;
        let message = view["error"]["message"].as_str().unwrap();
        let is_charged = view["cost_usd"] != "0.00";
        assert!(
            policy == "refund" || message.contains("is unknown whether"),
            "{message}"
        );
        assert_eq!(
            view["billing"]["status"],
            if is_charged { "settled" } else { "released" }
        );
        costs.push(view["cost_usd"].clone());
        assert_eq!(request_count(&simulator, RequestRole::Cancel), number + 1);
        simulator.world().clear_faults();
    }
    let operator = crate::admin::operator(&gateway).await;
    let check = operator.get("/v1/admin/ledger/verify").await.ok();
    assert_eq!(check["mismatches"], json!([]), "{check}");
    gateway.stop().await;
    costs
}

#[tokio::test]
async fn a_vanished_job_counts_against_the_allowance_under_both_policies() {
    for policy in ["charge", "refund"] {
        let costs = costs_of_vanished_jobs(policy).await;
        assert_eq!(costs, ["0.00", "0.00", "0.40"], "{policy}");
    }
}

/// A far gateway with these settings, and a near one that has it as its provider, for films of this
/// many seconds. `near_settings` are added to the near one.
async fn start_pair(
    far_settings: &str,
    near_settings: &str,
    seconds: u32,
) -> (TestGateway, TestGateway) {
    let far = gateway(far_settings).await;
    let key = far.new_key("reseller", NewKey::default()).await;
    let route = format!(
        r#"{{ provider = "far", model = "film", limits = {{ sizes = ["1280x720"], seconds = [{seconds}] }} }}"#
    );
    let near_settings = format!(
        "{near_settings}\n[providers.far]\nprotocol = \"openai-videos\"\nbase_url = \"{}/v1\"\napi_key = \"{key}\"\nidempotency = true\n{}",
        far.base,
        film(&route)
    );
    let near = gateway(&near_settings).await;
    (far, near)
}

#[tokio::test]
async fn what_a_far_gateway_charges_for_a_cancelled_film_is_charged_here() {
    let simulator = simulator().await;
    simulator.world().set_plan(simulator::JobPlan {
        polls: 4,
        ..simulator::JobPlan::default()
    });
    // This provider cannot cancel jobs.
    let far_settings = provider("maker", "xai", &simulator, "")
        + &film(r#"{ provider = "maker", model = "grok-imagine-video" }"#);
    let (far, near) = start_pair(&far_settings, "", 4).await;
    let task = order_and_cancel(&near, &simulator, "a lake").await;
    let view = wait_until_settled(&near, &task).await;
    assert_eq!(
        (&view["status"], &view["cost_usd"]),
        (&json!("cancelled"), &json!("0.40"))
    );
    let far_operator = crate::admin::operator(&far).await;
    let far_task = far_operator.get("/v1/admin/tasks").await.ok()["data"][0].clone();
    assert_eq!(
        (&far_task["status"], &far_task["cost_usd"]),
        (&json!("cancelled"), &json!("0.40")),
        "it was cancelled, and its record is there"
    );
    let cost = near.app.store.read(|conn| {
        conn.one("SELECT cost_millionths FROM submissions", &[], |row| {
            row.int(0)
        })
    });
    let cost: Result<Option<i64>, mediagate_store::StoreError> = cost.await;
    assert_eq!(cost.unwrap(), Some(400_000), "what the far gateway charges");
    near.stop().await;
    far.stop().await;
}

#[tokio::test]
async fn a_film_that_a_far_gateway_calls_off_costs_nothing() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let far_settings = provider("maker", "runway", &simulator, "")
        + &film(r#"{ provider = "maker", model = "gen4.5" }"#);
    let (far, near) = start_pair(&far_settings, "cancel_allowance = \"0\"", 5).await;
    let order = json!({"model": "film", "prompt": "a lake"});
    let answer = near.post("/v1/videos", &order).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    answer.ok();
    wait_for_requests(&simulator, RequestRole::Poll, 1).await;
    cancel(&near, &task).await;
    let view = wait_until_settled(&near, &task).await;
    assert_eq!(
        (&view["cost_usd"], &view["billing"]["status"]),
        (&json!("0.00"), &json!("released"))
    );
    near.stop().await;
    far.stop().await;
}
