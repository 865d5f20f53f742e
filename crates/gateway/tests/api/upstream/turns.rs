//! Accounts take turns at a provider with a limit.

use mediagate_core::domain::keys::NewKey;
use mediagate_worker::WorkerPool;
use serde_json::{Value, json};
use simulator::{Fault, PlannedEnd, RequestRole, Simulator};

use super::{
    LONG, film, plan, provider, request_count, simulator, two_providers, wait_for_requests,
};
use crate::support::gateway::finished;
use crate::support::{Client, TestGateway};

/// The prompts of the orders that arrived at the provider, in order.
fn prompts(simulator: &Simulator) -> Vec<String> {
    let journal = simulator.world().journal();
    let orders = journal
        .iter()
        .filter(|request| request.role == RequestRole::Submit);
    orders
        .map(|request| request.body["prompt"].as_str().unwrap().to_owned())
        .collect()
}

async fn order(client: &Client, model: &str, prompt: &str) {
    let body = json!({"model": model, "prompt": prompt});
    client.post("/v1/videos", &body).await.ok();
}

/// Cancels one of the caller's running tasks, so that another can start.
async fn cancel_a_running_task(client: &Client) {
    let list = client.get("/v1/tasks?status=running").await.ok();
    let id = list["data"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/tasks/{id}/cancel");
    client.post(&path, &Value::Null).await.ok();
}

#[tokio::test]
async fn another_accounts_task_is_next() {
    Box::pin(check_turns(false)).await;
}

#[tokio::test]
async fn another_accounts_task_is_next_on_postgres() {
    Box::pin(check_turns(true)).await;
}

/// Two processes share a route with a limit of two.
async fn check_turns(postgres: bool) {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let route = r#"{ provider = "acme", model = "sora-2", max_running = 2 }"#;
    let toml = provider("acme", "openai-videos", &simulator, "") + &film(route);
    let mut builder = TestGateway::builder().toml(&toml);
    if postgres {
        builder = builder.on_postgres();
    }
    let gateway = builder.start().await;
    let others = WorkerPool::start(&gateway.app).await;
    for _ in 0..12 {
        order(&gateway, "film", "many").await;
    }
    wait_for_requests(&simulator, RequestRole::Submit, 2).await;
    let other = gateway.caller("other", NewKey::default()).await;
    for _ in 0..2 {
        order(&other, "film", "few").await;
    }
    // The account with the fewest running tasks is next, however many older tasks others have.
    for (caller, sent) in [(&gateway.client, 3), (&other, 4), (&other, 5)] {
        cancel_a_running_task(caller).await;
        wait_for_requests(&simulator, RequestRole::Submit, sent).await;
    }
    assert_eq!(prompts(&simulator), ["many", "many", "few", "few", "many"]);
    others.stop().await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_single_account_can_use_the_whole_limit() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let route = r#"{ provider = "acme", model = "sora-2", max_running = 3 }"#;
    let toml = provider("acme", "openai-videos", &simulator, "") + &film(route);
    let gateway = TestGateway::builder().toml(&toml).start().await;
    gateway.caller("other", NewKey::default()).await;
    for _ in 0..5 {
        order(&gateway, "film", "many").await;
    }
    wait_for_requests(&simulator, RequestRole::Submit, 3).await;
    cancel_a_running_task(&gateway).await;
    wait_for_requests(&simulator, RequestRole::Submit, 4).await;
    gateway.stop().await;
}

/// The provider's own limit is for all of its models.
#[tokio::test]
async fn models_that_share_a_providers_limit_are_one_queue() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let route = r#"{ provider = "acme", model = "sora-2" }"#;
    let toml = provider("acme", "openai-videos", &simulator, "max_running = 2")
        + &film(route).replace("film", "alpha")
        + &film(route).replace("film", "zulu");
    let gateway = TestGateway::builder().toml(&toml).start().await;
    for _ in 0..6 {
        order(&gateway, "alpha", "many").await;
    }
    wait_for_requests(&simulator, RequestRole::Submit, 2).await;
    let other = gateway.caller("other", NewKey::default()).await;
    order(&other, "zulu", "few").await;
    cancel_a_running_task(&gateway).await;
    wait_for_requests(&simulator, RequestRole::Submit, 3).await;
    assert_eq!(prompts(&simulator), ["many", "many", "few"]);
    gateway.stop().await;
}

/// A provider whose results drip holds only its own share of the downloads.
#[tokio::test]
async fn downloads_of_a_slow_provider_delay_no_other_provider() {
    // A quarter of a provider's 32 is for accounts that hold none.
    const PER_ACCOUNT: usize = 24;
    let (slow, good) = (simulator().await, simulator().await);
    slow.world().order_fault(
        Fault::Slow(LONG),
        None,
        Some(RequestRole::Download),
        u32::MAX,
    );
    let toml = two_providers(&slow, &good)
        + &film(r#"{ provider = "second", model = "sora-2" }"#).replace("film", "other-film");
    let gateway = TestGateway::builder().toml(&toml).start().await;
    for _ in 0..PER_ACCOUNT + 16 {
        order(&gateway, "film", "many").await;
    }
    wait_for_requests(&slow, RequestRole::Download, PER_ACCOUNT).await;
    let other = gateway.caller("other", NewKey::default()).await;
    for caller in [&other, &gateway.client] {
        let body = json!({"model": "other-film", "prompt": "few"});
        let video = caller.post("/v1/videos", &body).await.ok();
        let task = video["id"].as_str().unwrap().replace("video_", "");
        let task = finished(caller, &task).await;
        assert_eq!(task["status"], "succeeded", "{task}");
    }
    assert_eq!(request_count(&slow, RequestRole::Download), PER_ACCOUNT);
    gateway.stop().await;
}
