//! Orders of several videos, of which some fail.

use std::time::Duration;

use mediagate_model::error::ErrorCode;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::sse::{Event, Events};
use crate::support::{TestGateway, eventually};

const PRICES: &str = "[models.animatic-1]\nprice = { unit = \"video\", usd = \"0.30\" }";

fn two_videos(stream: bool) -> Value {
    json!({
        "model": "animatic-1", "n": 2, "stream": stream, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "a lake at dawn"}],
        "video": {"size": "480x480", "seconds": 1},
    })
}

/// Fails the first of two queued tasks, and starts workers for the other.
async fn fail_one(gateway: &mut TestGateway, code: ErrorCode) {
    eventually("two tasks wait", async || {
        let list = gateway.get("/v1/tasks").await.ok();
        (list["data"].as_array()?.len() == 2).then_some(())
    })
    .await;
    let task = gateway.claim().await;
    gateway.fail(task.id, code).await;
    gateway.start_workers().await;
}

#[tokio::test]
async fn finished_videos_are_delivered_and_charged_and_failed_ones_are_named() {
    let mut gateway = TestGateway::builder()
        .toml(PRICES)
        .without_workers()
        .start()
        .await;
    let client = gateway.client.clone();
    let waiting = tokio::spawn(async move {
        client
            .post("/v1/chat/completions", &two_videos(false))
            .await
    });
    fail_one(&mut gateway, ErrorCode::GenerationFailed).await;
    let answer = waiting.await.unwrap();
    assert_eq!(answer.header("x-cost-usd"), Some("0.30"));
    let answer = answer.ok();
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 1, "{answer}");
    assert_eq!(choices[0]["index"], 1);
    let missing = &answer["incomplete"][0];
    assert_eq!(
        (&missing["index"], &missing["code"]),
        (&json!(0), &json!("generation_failed"))
    );
    assert_eq!(answer["usage"]["cost"], 0.3);
    gateway.stop().await;
}

#[tokio::test]
async fn a_stream_names_failed_videos_too() {
    let mut gateway = TestGateway::builder()
        .toml(PRICES)
        .without_workers()
        .start()
        .await;
    let request = gateway
        .request(Method::POST, "/v1/chat/completions")
        .json(&two_videos(true));
    let stream = Events::open(request).await;
    let first_task = stream.response.headers()["x-task-id"]
        .to_str()
        .unwrap()
        .to_owned();
    fail_one(&mut gateway, ErrorCode::ContentPolicy).await;
    let events = stream.rest().await;
    let (last, chunks) = events.split_last().unwrap();
    assert_eq!(last.data, "[DONE]");
    let chunks: Vec<Value> = chunks.iter().map(Event::json).collect();
    // An error at the top level would make SDKs drop the video that was made.
    assert!(chunks.iter().all(|chunk| chunk.get("error").is_none()));
    let videos = chunks
        .iter()
        .filter(|chunk| chunk["choices"][0]["delta"]["video"].is_object());
    assert_eq!(videos.count(), 1);
    let (usage, chunks) = chunks.split_last().unwrap();
    assert_eq!(usage["usage"]["cost"], 0.3);
    let ends: Vec<&Value> = chunks
        .iter()
        .filter(|chunk| chunk["choices"][0]["finish_reason"].is_string())
        .collect();
    let reasons: Vec<[&Value; 2]> = ends
        .iter()
        .map(|chunk| {
            let choice = &chunk["choices"][0];
            [&choice["index"], &choice["finish_reason"]]
        })
        .collect();
    assert_eq!(
        reasons,
        [[&json!(0), &json!("error")], [&json!(1), &json!("stop")]]
    );
    let error = &ends[0]["task"]["error"];
    assert_eq!(
        [&error["code"], &error["type"], &error["task_id"]],
        [
            &json!("content_policy"),
            &json!("provider_error"),
            &json!(first_task)
        ]
    );
    assert_eq!(error["message"], "The script says so.");
    let missing = json!([{"index": 0, "task_id": first_task, "code": "content_policy",
        "message": "The script says so."}]);
    assert_eq!(ends[1]["incomplete"], missing);
    assert_eq!(ends[0].get("incomplete"), None);
    gateway.stop().await;
}

/// Reads the stream until a chunk shows this status and progress of a choice's task. Fails if
/// the chunk does not come soon.
async fn read_until(stream: &mut Events, index: u64, status: &str, progress: u64) {
    let reading = async {
        loop {
            let chunk = stream.next().await.expect("more chunks").json();
            let task = &chunk["task"];
            if chunk["choices"][0]["index"] == index
                && task["status"] == status
                && task["progress"] == progress
            {
                return;
            }
        }
    };
    let soon = Duration::from_mins(1);
    let read = tokio::time::timeout(soon, reading).await;
    read.unwrap_or_else(|_| panic!("choice {index} is not {status} at {progress} %"));
}

#[tokio::test]
async fn a_stream_shows_the_progress_of_every_choice_as_it_happens() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let request = gateway
        .request(Method::POST, "/v1/chat/completions")
        .json(&two_videos(true));
    let mut stream = Events::open(request).await;
    for index in [0, 1] {
        let chunk = stream.next().await.unwrap().json();
        assert_eq!(
            chunk["choices"],
            json!([{"index": index, "delta": {"role": "assistant"}, "finish_reason": null}])
        );
    }
    let first = gateway.claim().await;
    let second = gateway.claim().await;
    // The other choice is shown while choice 0 does not end, and the other way round.
    read_until(&mut stream, 1, "running", 0).await;
    gateway.progress(second.id, 40).await;
    read_until(&mut stream, 1, "running", 40).await;
    gateway.progress(first.id, 30).await;
    read_until(&mut stream, 0, "running", 30).await;
    gateway.progress(second.id, 70).await;
    read_until(&mut stream, 1, "running", 70).await;
    gateway.fail(second.id, ErrorCode::GenerationFailed).await;
    read_until(&mut stream, 1, "failed", 70).await;
    gateway.progress(first.id, 60).await;
    read_until(&mut stream, 0, "running", 60).await;
    gateway.fail(first.id, ErrorCode::ContentPolicy).await;
    let last = stream.rest().await.pop().unwrap().json();
    assert_eq!(last["error"]["code"], "content_policy", "{last}");
    gateway.stop().await;
}

#[tokio::test]
async fn if_all_fail_the_first_failure_is_the_answer() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let client = gateway.client.clone();
    let waiting = tokio::spawn(async move {
        client
            .post("/v1/chat/completions", &two_videos(false))
            .await
    });
    for _ in 0..2 {
        eventually("a task waits", async || {
            let list = gateway.get("/v1/tasks?status=queued").await.ok();
            (!list["data"].as_array()?.is_empty()).then_some(())
        })
        .await;
        let task = gateway.claim().await;
        gateway.fail(task.id, ErrorCode::ContentPolicy).await;
    }
    let answer = waiting.await.unwrap();
    answer.refused(422, "content_policy");
    gateway.stop().await;
}
