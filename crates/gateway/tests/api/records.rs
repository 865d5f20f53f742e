//! `record_ttl`: finished tasks are removed, their results and sums stay.

use std::time::Duration;

use mediagate_core::domain::tasks::remove_expired;
use mediagate_model::error::ErrorCode;
use reqwest::Method;
use serde_json::json;

use crate::support::gateway::{finished, upload};
use crate::support::spec::assert_clip;
use crate::support::{TestGateway, eventually, sound, video_order};

const DAY: Duration = Duration::from_hours(24);
const TTL: Duration = Duration::from_mins(1);

#[tokio::test]
async fn an_expired_task_is_removed_and_its_sums_stay() {
    let gateway = TestGateway::builder()
        .set(|settings| settings.record_ttl = Some(Duration::from_secs(1)))
        .start()
        .await;
    let answer = gateway.post("/v1/chat/completions", &video_order()).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    let body = answer.ok();
    let url = body["choices"][0]["message"]["content"].as_str().unwrap();
    let path = format!("/v1/tasks/{task}");
    // The regular upkeep removes it.
    eventually("the record leaves", async || {
        (gateway.get(&path).await.status == 404).then_some(())
    })
    .await;
    gateway.get(&path).await.refused(404, "task_not_found");
    for path in [
        format!("{path}/events"),
        format!("/v1/videos/video_{}", task.replace('-', "")),
    ] {
        assert_eq!(gateway.get(&path).await.status, 404, "{path}");
    }
    let listed = gateway.get("/v1/tasks").await.ok();
    assert_eq!(listed["data"], json!([]));
    let usage = gateway.get("/v1/usage").await.ok();
    assert_eq!(usage["total"]["succeeded"], 1);
    let file = reqwest::get(url).await.unwrap();
    assert_eq!(
        file.status(),
        200,
        "an address is valid as long as its file"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn clips_and_personas_outlive_the_task_that_made_them() {
    let gateway = TestGateway::builder()
        .manual_clock()
        .set(|settings| settings.record_ttl = Some(DAY))
        .start()
        .await;
    let source = upload(&gateway, "Song", sound::wav_of(8_000, 1, &[100; 8000])).await;
    let order = json!({"task": "gen_stem", "continue_clip_id": source["id"]});
    let record = gateway.post("/musicgen/submit/music", &order).await.ok();
    let task = record["id"].as_str().unwrap();
    finished(&gateway, task).await;
    let stem = record["clips"][0]["id"].as_str().unwrap();
    let path = format!("/musicgen/clips/{stem}");
    let before = gateway.get(&path).await.ok();
    gateway.app.clock.advance(2 * DAY);
    remove_expired(&gateway.app).await.unwrap();
    for path in [
        format!("/musicgen/tasks/{task}"),
        format!("/musicgen/fetch/{task}"),
    ] {
        gateway.get(&path).await.refused(404, "task_not_found");
    }
    let after = gateway.get(&path).await.ok();
    assert_clip(&after);
    assert_eq!(after["metadata"], before["metadata"]);
    assert_eq!(
        (&after["status"], &after["title"]),
        (&json!("complete"), &before["title"])
    );
    let persona = json!({"root_clip_id": stem, "name": "Voice"});
    gateway
        .post("/musicgen/persona/create", &persona)
        .await
        .ok();
    let second_order = json!({"task": "gen_stem", "continue_clip_id": stem, "task_id": task});
    let second_task = gateway
        .post("/musicgen/submit/music", &second_order)
        .await
        .ok();
    finished(&gateway, second_task["id"].as_str().unwrap()).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_repetition_creates_nothing_when_its_task_is_removed() {
    let gateway = TestGateway::builder()
        .manual_clock()
        .without_workers()
        .set(|settings| settings.record_ttl = Some(TTL))
        .start()
        .await;
    let request = || {
        let request = gateway.request(Method::POST, "/v1/chat/completions");
        request.header("idempotency-key", "k").json(&video_order())
    };
    // A caller that leaves before its answer.
    let first_request = tokio::spawn(request().send());
    eventually("a task is made", async || {
        let listed = gateway.get("/v1/tasks").await.ok();
        (listed["data"].as_array().unwrap().len() == 1).then_some(())
    })
    .await;
    first_request.abort();
    let task = gateway.claim().await;
    gateway.fail(task.id, ErrorCode::ContentPolicy).await;
    gateway.app.clock.advance(2 * TTL);
    remove_expired(&gateway.app).await.unwrap();
    let repetition = gateway.send(request()).await;
    repetition.refused(404, "task_not_found");
    let listed = gateway.get("/v1/tasks").await.ok();
    assert_eq!(listed["data"], json!([]));
    gateway.stop().await;
}

/// A priced order whose answer is lost and whose record is removed: its repetition reports the cost
/// once, the next one orders again.
#[tokio::test]
async fn a_repetition_reports_the_cost_of_a_removed_order_which_can_then_be_placed_again() {
    let gateway = TestGateway::builder()
        .manual_clock()
        .toml(crate::money::PRICES)
        .set(|settings| settings.record_ttl = Some(TTL))
        .start()
        .await;
    let request = || {
        let request = gateway.request(Method::POST, "/v1/chat/completions");
        request.json(&video_order())
    };
    let first_request = tokio::spawn(request().send());
    let task = eventually("a task is made", async || {
        let listed = gateway.get("/v1/tasks").await.ok();
        let first = listed["data"].as_array().unwrap().first()?;
        Some(first["id"].as_str().unwrap().to_owned())
    })
    .await;
    first_request.abort();
    drop(first_request.await);
    assert_eq!(gateway.finished(&task).await["cost_usd"], "0.10");
    gateway.app.clock.advance(2 * TTL);
    remove_expired(&gateway.app).await.unwrap();

    let repetition = gateway.send(request()).await;
    repetition.refused(404, "task_not_found");
    for part in [
        task.as_str(),
        "succeeded",
        "0.10 USD",
        "Nothing was made or charged now",
    ] {
        assert!(
            repetition.message().contains(part),
            "{}",
            repetition.message()
        );
    }
    assert_eq!(repetition.header("x-task-id"), Some(task.as_str()));
    assert_eq!(repetition.header("x-should-retry"), Some("false"));
    // The caller knows now: the next request is a new order.
    let new_order = eventually("the next request is a new order", async || {
        let new_order = gateway.send(request()).await;
        (new_order.status == 200).then_some(new_order)
    })
    .await;
    assert_ne!(new_order.header("x-task-id"), Some(task.as_str()));
    let account = gateway.get("/v1/account").await.ok();
    assert_eq!(account["spent_usd"], "0.20", "{account}");
    gateway.stop().await;
}
