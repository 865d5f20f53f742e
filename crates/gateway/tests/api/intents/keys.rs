//! Requests repeated with the same `Idempotency-Key`.

use std::time::Duration;

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use mediagate_model::error::ErrorCode;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use super::{chat, prompt, request_with_key, task_of, tasks};
use crate::support::{Answer, Client, TestGateway, sound, videos_order};

#[track_caller]
fn assert_replayed(first: &Answer, second: &Answer) {
    assert_eq!(first.header("idempotent-replayed"), None);
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    assert_eq!(second.status, first.status);
    if first.status == 200 {
        assert_eq!(second.bytes, first.bytes, "byte for byte");
    } else {
        // The same but for the request's own id.
        let id = second.header("x-request-id").unwrap();
        assert_eq!(second.json["error"]["request_id"], id);
        let mut expected = first.json.clone();
        expected["error"]["request_id"] = id.into();
        assert_eq!(second.json, expected);
    }
    for name in ["content-type", "x-task-id", "x-cost-usd"] {
        assert_eq!(second.header(name), first.header(name), "{name}");
    }
}

#[tokio::test]
async fn every_creating_endpoint_replays_its_answer() {
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
        let first = gateway
            .send(request_with_key(&gateway, path, path, &body))
            .await;
        assert_eq!(first.status, 200, "{path}: {}", first.text());
        let second = gateway
            .send(request_with_key(&gateway, path, path, &body))
            .await;
        assert_replayed(&first, &second);
    }
    assert_eq!(tasks(&gateway).await.len(), 3);
    let personas = gateway.get("/musicgen/personas").await.ok();
    assert_eq!(personas["data"].as_array().unwrap().len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn forms_and_uploads_are_replayed_by_their_contents() {
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
    for answer in [upload("Other", 1).await, upload("Song", 2).await] {
        answer.refused(409, "idempotency_conflict");
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
    // The form's boundary differs each time.
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
    let send = |key: &'static str, body: Value| {
        gateway.send(request_with_key(&gateway, "/v1/videos", key, &body))
    };
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
        .send(request_with_key(
            &gateway,
            "/v1/chat/completions",
            "k",
            &chat("a lake"),
        ))
        .await
        .refused(409, "idempotency_conflict");
    let colleague = gateway.caller("default", NewKey::default()).await;
    let same_account = colleague
        .send(request_with_key(
            &colleague,
            "/v1/videos",
            "k",
            &prompt("a lake"),
        ))
        .await;
    assert_replayed(&first, &same_account);
    let stranger = gateway.caller("other", NewKey::default()).await;
    let other_account = stranger
        .send(request_with_key(
            &stranger,
            "/v1/videos",
            "k",
            &prompt("a lake"),
        ))
        .await;
    assert_ne!(task_of(&other_account), task_of(&first));
    assert_eq!(tasks(&gateway).await.len(), 1);
    gateway.stop().await;
}

/// An answer shows media, so it is only for keys that may see what another key made.
#[tokio::test]
async fn the_result_of_another_api_key_is_for_keys_that_may_see_it() {
    let gateway = TestGateway::start().await;
    let caller = async |scopes: &[Scope], model: Option<&str>| {
        let new = NewKey {
            scopes: scopes.to_vec(),
            models: model.map(|model| vec![model.to_owned()]),
            ..NewKey::default()
        };
        gateway.caller("default", new).await
    };
    let maker = caller(&[Scope::VideoCreate], None).await;
    let blind = caller(&[Scope::VideoCreate], None).await;
    let restricted = caller(&[], Some("stems-dsp-1")).await;
    let reader = caller(&[], Some("animatic-1")).await;
    let send = async |client: &Client, path: &str, body: &Value| {
        client
            .send(request_with_key(client, path, path, body))
            .await
    };
    for (path, body) in [
        ("/v1/videos", prompt("a lake")),
        ("/v1/chat/completions", chat("a lake")),
    ] {
        let first = send(&maker, path, &body).await;
        assert_eq!(first.status, 200, "{path}: {}", first.text());
        assert_replayed(&first, &send(&maker, path, &body).await);
        send(&blind, path, &body)
            .await
            .refused(403, "insufficient_scope");
        send(&restricted, path, &body)
            .await
            .refused(403, "model_not_allowed");
        assert_replayed(&first, &send(&reader, path, &body).await);
    }
    assert_eq!(tasks(&gateway).await.len(), 2);
    gateway.stop().await;
}

#[tokio::test]
async fn a_key_is_remembered_for_a_day() {
    let gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .start()
        .await;
    let send = || {
        gateway.send(request_with_key(
            &gateway,
            "/v1/videos",
            "k",
            &videos_order(),
        ))
    };
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
    let two_keys = request_with_key(&gateway, "/v1/videos", "a", &videos_order())
        .header("idempotency-key", "b");
    gateway.send(two_keys).await.refused(400, "invalid_value");
    assert!(tasks(&gateway).await.is_empty());
    gateway.stop().await;
}

#[tokio::test]
async fn a_rejected_request_leaves_the_key_free() {
    let gateway = TestGateway::builder()
        .toml("[models.animatic-1]\nprice = { unit = \"video\", usd = \"1.00\" }")
        .without_workers()
        .start()
        .await;
    let limited = NewKey {
        budget: Some("0.50".parse().unwrap()),
        ..NewKey::default()
    };
    let limited = gateway.caller("default", limited).await;
    let order = || request_with_key(&gateway, "/v1/videos", "k", &videos_order());
    limited
        .send(request_with_key(
            &limited,
            "/v1/videos",
            "k",
            &videos_order(),
        ))
        .await
        .refused(402, "budget_exceeded");
    let too_long = json!({"model": "animatic-1", "prompt": "a lake", "seconds": "1000"});
    gateway
        .send(request_with_key(&gateway, "/v1/videos", "k", &too_long))
        .await
        .refused(400, "unsupported_value");
    let accepted = gateway.send(order()).await;
    assert_eq!(accepted.status, 200, "{}", accepted.text());
    assert_eq!(accepted.header("x-cost-usd"), Some("1.00"));
    assert_replayed(&accepted, &gateway.send(order()).await);
    gateway.stop().await;
}

#[tokio::test]
async fn concurrent_requests_with_one_key_share_one_task_and_one_answer() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let body = chat("a lake");
    let requests = (0..6).map(|_| {
        let request = request_with_key(&gateway, "/v1/chat/completions", "k", &body);
        let client = gateway.client.clone();
        tokio::spawn(async move { client.send(request).await })
    });
    let waiting: Vec<_> = requests.collect();
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

/// On Postgres the orders of an account share a commit. A request that came second must find what
/// the first one made.
#[tokio::test]
async fn simultaneous_requests_with_one_key_join_the_first() {
    for postgres in [false, true] {
        let mut builder = TestGateway::builder().without_workers();
        if postgres {
            builder = builder.on_postgres();
        }
        let gateway = builder.start().await;
        let operator = crate::admin::operator(&gateway).await;
        let credit = json!({"amount_usd": "1.00"});
        for round in 0..10 {
            let (key, order) = (format!("k{round}"), prompt(&format!("lake {round}")));
            let orders = (0..5)
                .map(|_| gateway.send(request_with_key(&gateway, "/v1/videos", &key, &order)));
            let answers = futures_util::future::join_all(orders).await;
            let mut made: Vec<String> = answers.iter().map(task_of).collect();
            made.dedup();
            assert_eq!(made.len(), 1, "{made:?}");
            let path = "/v1/admin/accounts/default/credits";
            let credits =
                (0..5).map(|_| operator.send(request_with_key(&operator, path, &key, &credit)));
            for answer in futures_util::future::join_all(credits).await {
                let account = answer.ok();
                assert_eq!(account["credit_usd"], format!("{}.00", round + 1));
            }
        }
        assert_eq!(tasks(&gateway).await.len(), 10);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_request_with_a_retryable_failure_is_retried_and_a_final_failure_is_replayed() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let body = chat("a lake");
    let send = |key: &'static str| {
        let request = request_with_key(&gateway, "/v1/chat/completions", key, &body);
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
        let answer = send("retry");
        fail_next(ErrorCode::GenerationFailed).await;
        answer.await.unwrap().refused(503, "generation_failed");
        assert_eq!(tasks(&gateway).await.len(), round);
    }
    let answer = send("final");
    fail_next(ErrorCode::ContentPolicy).await;
    let first = answer.await.unwrap();
    first.refused(422, "content_policy");
    assert_replayed(&first, &send("final").await.unwrap());
    let answer = send("unclear");
    fail_next(ErrorCode::SubmissionUnconfirmed).await;
    let first = answer.await.unwrap();
    first.refused(424, "submission_unconfirmed");
    assert_replayed(&first, &send("unclear").await.unwrap());
    assert_eq!(tasks(&gateway).await.len(), 4);
    gateway.stop().await;
}

/// These endpoints answer before their task ends, so the stored answer does not show its failure.
#[tokio::test]
async fn a_key_makes_a_new_task_after_a_retryable_failure_although_it_was_answered() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let clip = gateway.upload("Song").await["id"].clone();
    let stems = json!({"task": "gen_stem", "continue_clip_id": clip});
    for (path, body) in [
        ("/v1/videos", prompt("a lake")),
        ("/musicgen/submit/music", stems),
    ] {
        let order = async || {
            let request = request_with_key(&gateway, path, path, &body);
            let answer = gateway.send(request).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            answer
        };
        let first = order().await;
        let task = gateway.claim().await;
        gateway.fail(task.id, ErrorCode::GenerationFailed).await;
        let second = order().await;
        assert_eq!(second.header("idempotent-replayed"), None, "{path}");
        assert_ne!(task_of(&second), task_of(&first), "{path}");
        // The failure of a task that a retry cannot fix is final.
        let task = gateway.claim().await;
        gateway.fail(task.id, ErrorCode::ContentPolicy).await;
        assert_replayed(&second, &order().await);
    }
    assert_eq!(tasks(&gateway).await.len(), 4);
    gateway.stop().await;
}

#[tokio::test]
async fn a_joined_stream_starts_with_the_current_state() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let mut body = chat("a lake");
    body["stream"] = true.into();
    let open_stream = || {
        crate::support::sse::Events::open(request_with_key(
            &gateway,
            "/v1/chat/completions",
            "k",
            &body,
        ))
    };
    let mut first = open_stream().await;
    first.next().await.unwrap();
    let task = gateway.claim().await;
    gateway.progress(task.id, 30).await;
    gateway.progress(task.id, 60).await;
    let mut joined = open_stream().await;
    assert_eq!(
        joined.next().await.unwrap().json()["choices"][0]["delta"]["role"],
        "assistant"
    );
    let current_state = joined.next().await.unwrap().json();
    assert_eq!(current_state["task"]["progress"], 60, "{current_state}");
    gateway.fail(task.id, ErrorCode::ContentPolicy).await;
    for stream in [first, joined] {
        let rest = stream.rest().await;
        let last = rest.last().unwrap().json();
        assert_eq!(last["error"]["code"], "content_policy", "{last}");
    }
    assert_eq!(tasks(&gateway).await.len(), 1);
    gateway.stop().await;
}
