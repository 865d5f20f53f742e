//! The same `Idempotency-Key`.

use std::time::Duration;

use mediagate_core::domain::keys::NewKey;
use mediagate_model::error::ErrorCode;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use super::{chat, keyed, prompt, task_of, tasks};
use crate::support::{Answer, TestGateway, sound, videos_order};

#[track_caller]
fn assert_replayed(first: &Answer, again: &Answer) {
    assert_eq!(first.header("idempotent-replayed"), None);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.status, first.status);
    assert_eq!(again.bytes, first.bytes, "byte for byte");
    for name in ["content-type", "x-task-id", "x-cost-usd"] {
        assert_eq!(again.header(name), first.header(name), "{name}");
    }
}

#[tokio::test]
async fn every_endpoint_that_makes_something_answers_again() {
    let gateway = TestGateway::start().await;
    let clip = gateway.upload("Song").await["id"].clone();
    let stems = json!({"task": "gen_stem", "continue_clip_id": clip});
    let persona = json!({"root_clip_id": clip, "name": "Voice"});
    for (path, body) in [
        ("/v1/videos", prompt("a lake")),
        ("/v1/chat/completions", chat("a lake")),
        ("/musicgen/submit/music", stems),
        ("/musicgen/persona/create", persona),
    ] {
        let first = gateway.send(keyed(&gateway, path, path, &body)).await;
        assert_eq!(first.status, 200, "{path}: {}", first.text());
        let again = gateway.send(keyed(&gateway, path, path, &body)).await;
        assert_replayed(&first, &again);
    }
    assert_eq!(tasks(&gateway).await.len(), 3);
    let personas = gateway.get("/musicgen/personas").await.ok();
    assert_eq!(personas["data"].as_array().unwrap().len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn forms_and_uploads_answer_again_by_what_is_in_them() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let upload = |title: &'static str, seed| {
        let part = Part::bytes(sound::wav(1, seed)).file_name("song.wav");
        let form = Form::new().part("file", part).text("title", title);
        let request = gateway.request(Method::POST, "/musicgen/uploads/audio");
        gateway.send(request.header("idempotency-key", "up").multipart(form))
    };
    let first = upload("Song", 1).await;
    assert_eq!(first.header("x-cost-usd"), Some("0.00"));
    assert_replayed(&first, &upload("Song", 1).await);
    for other in [upload("Other", 1).await, upload("Song", 2).await] {
        other.refused(409, "idempotency_conflict");
    }
    let video = |picture: Vec<u8>| {
        let part = Part::bytes(picture).file_name("picture.png");
        let form = Form::new()
            .text("prompt", "a lake")
            .part("input_reference", part);
        let request = gateway.request(Method::POST, "/v1/videos");
        gateway.send(request.header("idempotency-key", "form").multipart(form))
    };
    let first = video(sound::png(64, 48)).await;
    // The boundary is another one each time.
    assert_replayed(&first, &video(sound::png(64, 48)).await);
    video(sound::png(48, 64))
        .await
        .refused(409, "idempotency_conflict");
    assert_eq!(tasks(&gateway).await.len(), 1);
    let clips = gateway.get("/musicgen/clips").await.ok();
    assert_eq!(clips["data"].as_array().unwrap().len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_key_is_one_request_of_one_account() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let send =
        |key: &'static str, body: Value| gateway.send(keyed(&gateway, "/v1/videos", key, &body));
    let first = send("k", prompt("a lake")).await;
    // Members in another order are the same request.
    let text = r#"{"seconds":"1","size":"480x480","prompt":"a lake","model":"animatic-1"}"#;
    let request = gateway
        .request(Method::POST, "/v1/videos")
        .header("content-type", "application/json")
        .header("idempotency-key", "k")
        .body(text);
    assert_replayed(&first, &gateway.send(request).await);
    send("k", prompt("a sea"))
        .await
        .refused(409, "idempotency_conflict");
    gateway
        .send(keyed(
            &gateway,
            "/v1/chat/completions",
            "k",
            &chat("a lake"),
        ))
        .await
        .refused(409, "idempotency_conflict");
    let colleague = gateway.caller("default", NewKey::default()).await;
    let same_account = colleague
        .send(keyed(&colleague, "/v1/videos", "k", &prompt("a lake")))
        .await;
    assert_replayed(&first, &same_account);
    let stranger = gateway.caller("other", NewKey::default()).await;
    let other_account = stranger
        .send(keyed(&stranger, "/v1/videos", "k", &prompt("a lake")))
        .await;
    assert_ne!(task_of(&other_account), task_of(&first));
    assert_eq!(tasks(&gateway).await.len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_key_is_known_for_a_day() {
    let gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .start()
        .await;
    let send = || gateway.send(keyed(&gateway, "/v1/videos", "k", &videos_order()));
    let first = send().await;
    gateway
        .app
        .clock
        .advance(Duration::from_secs(24 * 3600 - 1));
    assert_replayed(&first, &send().await);
    gateway.app.clock.advance(Duration::from_secs(2));
    let next_day = send().await;
    assert_eq!(next_day.header("idempotent-replayed"), None);
    assert_ne!(task_of(&next_day), task_of(&first));
    gateway.stop().await;
}

#[tokio::test]
async fn malformed_keys_are_refused_and_nothing_is_made() {
    let gateway = TestGateway::builder().without_workers().start().await;
    for key in ["", "a b", "\u{e9}", &"k".repeat(256)] {
        let request = gateway.request(Method::POST, "/v1/videos");
        let value = reqwest::header::HeaderValue::from_bytes(key.as_bytes()).unwrap();
        let request = request
            .json(&videos_order())
            .header("idempotency-key", value);
        let answer = gateway.send(request).await;
        answer.refused(400, "invalid_value");
        assert!(
            answer.message().contains("Idempotency-Key"),
            "{}",
            answer.message()
        );
    }
    let twice = keyed(&gateway, "/v1/videos", "a", &videos_order()).header("idempotency-key", "b");
    gateway.send(twice).await.refused(400, "invalid_value");
    assert!(tasks(&gateway).await.is_empty());
    gateway.stop().await;
}

#[tokio::test]
async fn what_made_nothing_leaves_the_key_free() {
    let gateway = TestGateway::builder()
        .toml("[models.animatic-1]\nprice = { unit = \"video\", usd = \"1.00\" }")
        .without_workers()
        .start()
        .await;
    let poor = NewKey {
        budget: Some("0.50".parse().unwrap()),
        ..NewKey::default()
    };
    let poor = gateway.caller("default", poor).await;
    let order = || keyed(&gateway, "/v1/videos", "k", &videos_order());
    poor.send(keyed(&poor, "/v1/videos", "k", &videos_order()))
        .await
        .refused(402, "budget_exceeded");
    let bad = json!({"model": "animatic-1", "prompt": "a lake", "seconds": "1000"});
    gateway
        .send(keyed(&gateway, "/v1/videos", "k", &bad))
        .await
        .refused(400, "unsupported_value");
    let made = gateway.send(order()).await;
    assert_eq!(made.status, 200, "{}", made.text());
    assert_eq!(made.header("x-cost-usd"), Some("1.00"));
    assert_replayed(&made, &gateway.send(order()).await);
    gateway.stop().await;
}

#[tokio::test]
async fn requests_at_once_with_one_key_share_one_task_and_one_answer() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let body = chat("a lake");
    let many = (0..6).map(|_| {
        let request = keyed(&gateway, "/v1/chat/completions", "k", &body);
        let client = gateway.client.clone();
        tokio::spawn(async move { client.send(request).await })
    });
    let waiting: Vec<_> = many.collect();
    let task =
        crate::support::eventually("a task", async || tasks(&gateway).await.into_iter().next())
            .await;
    let mut gateway = gateway;
    gateway.start_workers().await;
    let mut bodies = Vec::new();
    for answer in waiting {
        let answer = answer.await.unwrap();
        assert_eq!(task_of(&answer), task);
        assert_eq!(answer.status, 200, "{}", answer.text());
        bodies.push(answer.bytes);
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "all got the same bytes");
    assert_eq!(tasks(&gateway).await.len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_failure_that_a_retry_can_mend_is_tried_again_and_another_is_told_again() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let body = chat("a lake");
    let ask = |key: &'static str| {
        let request = keyed(&gateway, "/v1/chat/completions", key, &body);
        let client = gateway.client.clone();
        tokio::spawn(async move { client.send(request).await })
    };
    let fail_next = async |code| {
        crate::support::eventually("a task waits", async || {
            let list = gateway.get("/v1/tasks?status=queued").await.ok();
            (!list["data"].as_array().unwrap().is_empty()).then_some(())
        })
        .await;
        let task = gateway.claim().await;
        gateway.fail(task.id, code).await;
    };
    for round in 1..=2 {
        let answer = ask("mend");
        fail_next(ErrorCode::GenerationFailed).await;
        answer.await.unwrap().refused(503, "generation_failed");
        assert_eq!(tasks(&gateway).await.len(), round);
    }
    let answer = ask("final");
    fail_next(ErrorCode::ContentPolicy).await;
    let first = answer.await.unwrap();
    first.refused(422, "content_policy");
    assert_replayed(&first, &ask("final").await.unwrap());
    let answer = ask("unclear");
    fail_next(ErrorCode::SubmissionUnconfirmed).await;
    let first = answer.await.unwrap();
    first.refused(424, "submission_unconfirmed");
    assert_replayed(&first, &ask("unclear").await.unwrap());
    assert_eq!(tasks(&gateway).await.len(), 4);
    gateway.stop().await;
}

#[tokio::test]
async fn a_stream_with_a_key_is_told_from_now_on() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let mut body = chat("a lake");
    body["stream"] = true.into();
    let open =
        || crate::support::sse::Events::open(keyed(&gateway, "/v1/chat/completions", "k", &body));
    let mut first = open().await;
    first.next().await.unwrap();
    let task = gateway.claim().await;
    gateway.progress(task.id, 30).await;
    gateway.progress(task.id, 60).await;
    let mut joined = open().await;
    assert_eq!(
        joined.next().await.unwrap().json()["choices"][0]["delta"]["role"],
        "assistant"
    );
    let now = joined.next().await.unwrap().json();
    assert_eq!(now["task"]["progress"], 60, "{now}");
    gateway.fail(task.id, ErrorCode::ContentPolicy).await;
    for stream in [first, joined] {
        let rest = stream.rest().await;
        let last = rest.last().unwrap().json();
        assert_eq!(last["error"]["code"], "content_policy", "{last}");
    }
    assert_eq!(tasks(&gateway).await.len(), 1);
    gateway.stop().await;
}
