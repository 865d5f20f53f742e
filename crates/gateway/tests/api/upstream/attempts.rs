//! The attempts of a task: which provider refused it with which message, and which one accepted it.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use serde_json::{Value, json};
use simulator::{PlannedEnd, RequestRole};

use super::{
    LONG, assert_failed, at_submission, film, gateway, one_provider, order_film, plan, provider,
    simulator, status, two_providers, wait_for_requests,
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
async fn attempts_show_who_refused_and_who_accepted() {
    let (first, second) = (simulator().await, simulator().await);
    at_submission(&first, status(429), 1);
    let gateway = gateway(&two_providers(&first, &second)).await;
    let task = order_film(&gateway, "a boat").await;
    let finished = gateway.finished(&task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    // The simulator delivers H.264, of which a poster can be drawn, after the task has ended.
    let poster = eventually("its poster is drawn", async || {
        let task = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
        task["poster_url"].as_str().map(str::to_owned)
    });
    let poster = gateway.without_key().get(&poster.await).await;
    assert_eq!(poster.header("content-type"), Some("image/jpeg"));
    let attempts_seen = attempts(&gateway, &task).await;
    assert_eq!(attempts_seen.len(), 2, "{attempts_seen:?}");
    assert_eq!(
        (
            &attempts_seen[0]["number"],
            &attempts_seen[0]["provider"],
            &attempts_seen[0]["model"],
            &attempts_seen[0]["status"]
        ),
        (
            &json!(1),
            &json!("first"),
            &json!("sora-2"),
            &json!("refused")
        )
    );
    assert_eq!(attempts_seen[0]["error"]["class"], "rate_limited");
    assert_ne!(attempts_seen[0]["error"]["message"], "");
    assert!(attempts_seen[0]["job_id"].is_null());
    assert_eq!(
        (&attempts_seen[1]["provider"], &attempts_seen[1]["status"]),
        (&json!("second"), &json!("succeeded"))
    );
    assert!(attempts_seen[1]["error"].is_null());
    assert!(attempts_seen[1]["job_id"].is_string());
    for attempt in &attempts_seen {
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
async fn an_operator_sees_a_task_of_another_account_with_attempts_and_deliveries() {
    let simulator = simulator().await;
    let gateway = gateway(&one_provider(&simulator)).await;
    let operator = crate::admin::operator(&gateway).await;
    let body =
        json!({"model": "film", "prompt": "a boat", "callback_url": "https://nobody.invalid/"});
    let answer = gateway.post("/v1/videos", &body).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    let finished = gateway.finished(&task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    let own = format!("/v1/tasks/{task}");
    operator.get(&own).await.refused(404, "task_not_found");
    let answer = operator.get(&format!("/v1/admin/tasks/{task}")).await;
    assert_eq!(answer.header("x-task-id"), Some(&*task));
    let shown = answer.ok();
    // It has everything that the list has.
    let list = operator.get("/v1/admin/tasks").await.ok();
    for name in list["data"][0].as_object().unwrap().keys() {
        assert!(shown.get(name).is_some(), "{name}");
    }
    assert_eq!(
        (&shown["id"], &shown["account"], &shown["provider"]),
        (&json!(task), &json!("default"), &json!("acme"))
    );
    let attempts_seen = attempts(&gateway, &task).await;
    assert_eq!(attempts_seen.len(), 1);
    assert_eq!(shown["attempts"], json!(attempts_seen));
    let deliveries = gateway.get(&format!("{own}/deliveries")).await.ok();
    let delivery = &shown["deliveries"][0];
    assert_eq!(
        (&delivery["id"], &delivery["url"], &delivery["task_id"]),
        (
            &deliveries["data"][0]["id"],
            &json!("https://nobody.invalid/"),
            &json!(task)
        )
    );
    for unknown in ["x", "0193b000-0000-7000-8000-000000000001"] {
        let path = format!("/v1/admin/tasks/{unknown}");
        operator.get(&path).await.refused(404, "task_not_found");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_failed_attempt_has_the_providers_message() {
    let simulator = simulator().await;
    plan(&simulator, std::time::Duration::ZERO, PlannedEnd::Failure);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = order_film(&gateway, "a boat").await;
    let finished = gateway.finished(&task).await;
    assert_failed(&finished, "generation_failed");
    let attempts_seen = attempts(&gateway, &task).await;
    assert_eq!(attempts_seen.len(), 1);
    assert_eq!(attempts_seen[0]["status"], "failed");
    let message = attempts_seen[0]["error"]["message"].as_str().unwrap();
    assert!(
        finished["error"]["message"]
            .as_str()
            .unwrap()
            .contains(message.trim_end_matches('.'))
    );
    assert!(!message.is_empty());
    gateway.stop().await;
}

#[tokio::test]
async fn attempts_show_open_and_cancelled_jobs() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = order_film(&gateway, "a boat").await;
    let open = eventually("the provider accepts the job", async || {
        let attempts_seen = attempts(&gateway, &task).await;
        attempts_seen
            .first()
            .filter(|attempts_seen| attempts_seen["status"] == "accepted")
            .cloned()
    })
    .await;
    assert_time(&open["answered_at"]);
    assert!(open["ended_at"].is_null());
    gateway
        .post(&format!("/v1/tasks/{task}/cancel"), &json!({}))
        .await
        .ok();
    eventually("its job is cancelled", async || {
        let attempts_seen = attempts(&gateway, &task).await;
        (attempts_seen[0]["status"] == "cancelled").then_some(())
    })
    .await;
    gateway.stop().await;
}

#[tokio::test]
async fn an_estimated_progress_is_marked_as_estimated() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let settings = provider(
        "acme",
        "fal",
        &simulator,
        "api_key = \"simulated-id:simulated-secret\"",
    ) + &film(r#"{ provider = "acme", model = "fal-ai/veo3.1" }"#);
    let gateway = gateway(&settings).await;
    let task = order_film(&gateway, "a boat").await;
    wait_for_requests(&simulator, RequestRole::Submit, 1).await;
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
async fn a_task_of_an_embedded_model_has_no_attempts() {
    let gateway = TestGateway::start().await;
    let answer = gateway
        .post("/v1/videos", &crate::support::videos_order())
        .await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    assert!(attempts(&gateway, &task).await.is_empty());
    gateway.stop().await;
}
