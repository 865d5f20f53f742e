//! What was tried for a task, told to its caller: who refused it, in which words, and who took it.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use serde_json::{Value, json};
use simulator::{PlannedEnd, RequestRole};

use super::{
    LONG, arrives, assert_failed, at_submission, film, gateway, one_provider, ordered, plan,
    provider, simulator, status, two_providers,
};
use crate::support::spec::assert_time;
use crate::support::{TestGateway, eventually};

/// The attempts of a task, as an operator sees them.
async fn attempts(gateway: &TestGateway, task: &str) -> Vec<Value> {
    let new = NewKey {
        scopes: Scope::ALL.to_vec(),
        ..NewKey::default()
    };
    let operator = gateway.caller("default", new).await;
    let list = operator
        .get(&format!("/v1/tasks/{task}/attempts"))
        .await
        .ok();
    list["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_failover_says_who_refused_and_who_took_it() {
    let (first, second) = (simulator().await, simulator().await);
    at_submission(&first, status(429), 1);
    let gateway = gateway(&two_providers(&first, &second)).await;
    let task = ordered(&gateway, "a boat").await;
    let ended = gateway.finished(&task).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    // The simulator delivers H.264, of which a poster can be drawn; nobody waits for that.
    let poster = eventually("its poster is drawn", async || {
        let task = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
        task["poster_url"].as_str().map(str::to_owned)
    });
    let poster = gateway.without_key().get(&poster.await).await;
    assert_eq!(poster.header("content-type"), Some("image/jpeg"));
    let told = attempts(&gateway, &task).await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(
        (
            &told[0]["number"],
            &told[0]["provider"],
            &told[0]["model"],
            &told[0]["status"]
        ),
        (
            &json!(1),
            &json!("first"),
            &json!("sora-2"),
            &json!("refused")
        )
    );
    assert_eq!(told[0]["error"]["class"], "rate_limited");
    assert_ne!(told[0]["error"]["message"], "");
    assert!(told[0]["job_id"].is_null());
    assert_eq!(
        (&told[1]["provider"], &told[1]["status"]),
        (&json!("second"), &json!("succeeded"))
    );
    assert!(told[1]["error"].is_null());
    assert!(told[1]["job_id"].is_string());
    for attempt in &told {
        for time in ["sent_at", "answered_at", "ended_at"] {
            assert_time(&attempt[time]);
        }
    }

    // The operator hides providers from other keys.
    let list = gateway.get(&format!("/v1/tasks/{task}/attempts")).await;
    assert!(!list.whole_text().contains("\"first\""));
    let list = list.ok();
    let shown = &list["data"][1];
    assert_eq!(
        (&shown["provider"], &shown["model"], &shown["job_id"]),
        (&json!("hosted"), &json!(null), &json!(null))
    );
    let stranger = gateway.caller("stranger", NewKey::default()).await;
    let refused = stranger.get(&format!("/v1/tasks/{task}/attempts")).await;
    refused.refused(404, "task_not_found");
    gateway.stop().await;
}

#[tokio::test]
async fn a_failure_says_why_in_the_providers_words() {
    let simulator = simulator().await;
    plan(&simulator, std::time::Duration::ZERO, PlannedEnd::Failure);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = ordered(&gateway, "a boat").await;
    let ended = gateway.finished(&task).await;
    assert_failed(&ended, "generation_failed");
    let told = attempts(&gateway, &task).await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["status"], "failed");
    let message = told[0]["error"]["message"].as_str().unwrap();
    assert!(
        ended["error"]["message"]
            .as_str()
            .unwrap()
            .contains(message.trim_end_matches('.'))
    );
    assert!(!message.is_empty());
    gateway.stop().await;
}

#[tokio::test]
async fn an_open_order_and_a_cancelled_one_are_told() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = ordered(&gateway, "a boat").await;
    let open = eventually("the provider takes it", async || {
        let told = attempts(&gateway, &task).await;
        told.first()
            .filter(|told| told["status"] == "accepted")
            .cloned()
    })
    .await;
    assert_time(&open["answered_at"]);
    assert!(open["ended_at"].is_null());
    gateway
        .post(&format!("/v1/tasks/{task}/cancel"), &json!({}))
        .await
        .ok();
    eventually("its job is called off", async || {
        let told = attempts(&gateway, &task).await;
        (told[0]["status"] == "cancelled").then_some(())
    })
    .await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_progress_that_nobody_told_is_said_to_be_a_guess() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let settings = provider(
        "acme",
        "fal",
        &simulator,
        "api_key = \"simulated-id:simulated-secret\"",
    ) + &film(r#"{ provider = "acme", model = "fal-ai/veo3.1" }"#);
    let gateway = gateway(&settings).await;
    let task = ordered(&gateway, "a boat").await;
    arrives(&simulator, RequestRole::Submit, 1).await;
    let path = format!("/v1/tasks/{task}");
    let guessed = eventually("a progress is shown", async || {
        let shown = gateway.get(&path).await.ok();
        (shown["progress"] != 0).then_some(shown)
    })
    .await;
    assert_eq!(guessed["progress_estimated"], true);
    plan(&simulator, std::time::Duration::ZERO, PlannedEnd::Success);
    gateway
        .post(&format!("{path}/cancel"), &json!({}))
        .await
        .ok();
    gateway.stop().await;
}

#[tokio::test]
async fn an_embedded_model_is_sent_to_nobody() {
    let gateway = TestGateway::start().await;
    let answer = gateway
        .post("/v1/videos", &crate::support::videos_order())
        .await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    assert!(attempts(&gateway, &task).await.is_empty());
    gateway.stop().await;
}
