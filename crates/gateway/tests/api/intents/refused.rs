//! Rejected tries: their retries are intents of their own.

use std::collections::HashSet;
use std::time::Duration;

use mediagate_core::domain::keys::{self, NewKey};
use mediagate_core::domain::task_acceptance::{self, NewTask, TaskDraft};
use mediagate_core::intents::{IntentRequest, Lookup, PeerSocket};
use mediagate_core::pricing::{OrderedWork, QuotedQuantity};
use mediagate_model::attribution::Attribution;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::RequestId;
use mediagate_model::intent::RequestFingerprint;
use mediagate_model::task::{TaskPayload, VideoJob};
use reqwest::Method;
use serde_json::Value;
use simulator::{LinkState, NetworkState};

use super::{
    NOTICE_TIME, chat, claim_soon, prompt, request_with_key, retry_request, task_of, tasks,
};
use crate::support::postgres::TestDatabase;
use crate::support::program::{Server, output, program, text};
use crate::support::{Answer, Client, TestGateway, eventually};

/// Sends a request as an SDK does after `tries` earlier tries.
async fn attempt(client: &Client, path: &str, body: &Value, tries: u32) -> Answer {
    let request = client.request(Method::POST, path).json(body);
    client
        .send(request.header("x-stainless-retry-count", tries.to_string()))
        .await
}

/// Records what the gateway still has to write about its clients' attempts.
async fn flush_client_events(gateway: &TestGateway) {
    gateway.app.intents.flush_client_events().await.unwrap();
}

/// Retries like an SDK until the request is not rejected.
async fn retry_until_accepted(client: &Client, path: &str, body: &Value) -> Answer {
    for tries in 0..200 {
        let answer = attempt(client, path, body, tries).await;
        if answer.status != 429 {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("always refused");
}

#[tokio::test]
async fn six_equal_orders_with_three_open_tasks_allowed_make_six_videos() {
    let gateway = TestGateway::start().await;
    let new = NewKey {
        max_running: Some(3),
        ..NewKey::default()
    };
    let client = gateway.caller("default", new).await;
    let order = chat("a lake");
    let orders = (0..6).map(|_| retry_until_accepted(&client, "/v1/chat/completions", &order));
    let answers = futures_util::future::join_all(orders).await;
    let task_ids: HashSet<String> = answers.iter().map(task_of).collect();
    assert_eq!(task_ids.len(), 6);
    gateway.stop().await;
}

#[tokio::test]
async fn rate_limited_orders_make_a_video_each() {
    let gateway = TestGateway::builder().without_workers().start().await;
    // The key gets a request back each half second.
    let new = NewKey {
        rpm: Some(120),
        ..NewKey::default()
    };
    let client = gateway.caller("default", new).await;
    for _ in 0..117 {
        client.get("/v1/account").await;
    }
    for count in 1..=5 {
        retry_until_accepted(&client, "/v1/videos", &prompt("a lake"))
            .await
            .ok();
        assert_eq!(tasks(&gateway).await.len(), count);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_refused_retry_does_not_free_the_next_from_its_first_try() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let new = NewKey {
        rpm: Some(120),
        ..NewKey::default()
    };
    let client = gateway.caller("default", new).await;
    let first = attempt(&client, "/v1/videos", &prompt("a lake"), 0).await;
    let (mut tries, mut was_refused) = (0, false);
    loop {
        tries += 1;
        let retry = attempt(&client, "/v1/videos", &prompt("a lake"), tries).await;
        if retry.status == 429 {
            was_refused = true;
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        }
        assert_eq!(task_of(&retry), task_of(&first));
        if was_refused {
            break;
        }
        // The key may get a request back before the next try, which then is not refused.
        eventually("the key is out of requests", async || {
            (client.get("/v1/account").await.status == 429).then_some(())
        })
        .await;
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_lost_answer_is_found_before_a_refused_try_makes_another() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let new = NewKey {
        max_running: Some(1),
        ..NewKey::default()
    };
    let client = gateway.caller("default", new).await;
    let waiting = client.request(Method::POST, "/v1/chat/completions");
    let waiting = tokio::spawn(waiting.json(&chat("a lake")).send());
    let task = claim_soon(&gateway).await;
    let other = attempt(&client, "/v1/chat/completions", &chat("a lake"), 0).await;
    other.refused(429, "too_many_tasks");
    waiting.abort();
    drop(waiting.await);
    tokio::time::sleep(NOTICE_TIME).await;
    gateway.fail(task, ErrorCode::ContentPolicy).await;
    // Two orders, two tasks, whichever comes back first.
    let first = attempt(&client, "/v1/chat/completions", &chat("a lake"), 1).await;
    assert_eq!(task_of(&first), task.to_string());
    tokio::time::sleep(NOTICE_TIME).await;
    let second = client.request(Method::POST, "/v1/chat/completions");
    let second = second.header("x-stainless-retry-count", "1");
    let second = tokio::spawn(second.json(&chat("a lake")).send());
    let second_task = claim_soon(&gateway).await;
    assert_ne!(second_task, task);
    second.abort();
    gateway.stop().await;
}

/// A broken connection may deliver one try twice.
#[tokio::test(flavor = "multi_thread")]
async fn two_concurrent_retries_of_a_refused_try_make_one_task() {
    let gateway = TestGateway::builder().behind_proxy().without_workers();
    let gateway = gateway.start().await;
    let new = NewKey {
        max_running: Some(2),
        ..NewKey::default()
    };
    let client = gateway.caller("default", new).await;
    let delay = LinkState::with_delay(Duration::from_millis(10));
    gateway.proxy().set(NetworkState::both(delay));
    for round in 0..4 {
        let mut open_tasks = Vec::new();
        for number in 0..2 {
            let order = prompt(&format!("round {round}, place {number}"));
            open_tasks.push(task_of(&client.post("/v1/videos", &order).await));
        }
        let order = prompt(&format!("round {round}"));
        let refused = attempt(&client, "/v1/videos", &order, 0).await;
        refused.refused(429, "too_many_tasks");
        for task in open_tasks {
            let path = format!("/v1/tasks/{task}/cancel");
            client.post(&path, &Value::Null).await.ok();
        }
        let retries = (0..2).map(|_| attempt(&client, "/v1/videos", &order, 1));
        let answers = futures_util::future::join_all(retries).await;
        assert_eq!(task_of(&answers[0]), task_of(&answers[1]), "round {round}");
        let path = format!("/v1/tasks/{}/cancel", task_of(&answers[0]));
        client.post(&path, &Value::Null).await.ok();
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_retry_of_a_failed_order_joins_nobody_elses_task() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let order = || {
        let client = gateway.client.clone();
        tokio::spawn(async move {
            let path = "/v1/chat/completions";
            attempt(&client, path, &chat("a lake"), 0).await
        })
    };
    let failing = order();
    let task = claim_soon(&gateway).await;
    let other = order();
    let open_task = claim_soon(&gateway).await;
    gateway.fail(task, ErrorCode::GenerationFailed).await;
    failing.await.unwrap().refused(503, "generation_failed");
    let retry = gateway
        .request(Method::POST, "/v1/chat/completions")
        .header("x-stainless-retry-count", "1");
    let retry = tokio::spawn(retry.json(&chat("a lake")).send());
    let retry_task = claim_soon(&gateway).await;
    assert!(retry_task != task && retry_task != open_task);
    retry.abort();
    other.abort();
    gateway.stop().await;
}

#[tokio::test]
async fn another_server_knows_of_refused_tries() {
    let data = tempfile::tempdir().unwrap();
    let first_server = Server::start(data.path(), &[]).await;
    let key = first_server.first_key().await;
    let second_server = Server::start(data.path(), &[]).await;
    let mut command = program(&["keys", "create", "--name", "small", "--max-running", "1"]);
    command.arg("--data").arg(data.path());
    let limited_key = text(&output(command).await.stdout).trim().to_owned();
    let first_client = Client::new(&first_server.base, Some(&limited_key));
    let second_client = Client::new(&second_server.base, Some(&limited_key));
    let order = prompt("a lake");
    let first = attempt(&first_client, "/v1/videos", &order, 0).await;
    let refused = attempt(&first_client, "/v1/videos", &order, 0).await;
    refused.refused(429, "too_many_tasks");
    let unlimited_client = Client::new(&first_server.base, Some(&key));
    crate::support::gateway::finished(&unlimited_client, &task_of(&first)).await;
    // The first server records the refusal a moment later.
    let database = rusqlite::Connection::open(data.path().join("mediagate.db")).unwrap();
    eventually("the refusal is written down", async || {
        let count = database.query_row("SELECT COUNT(*) FROM refused_orders", [], |row| row.get(0));
        (count.unwrap_or(0_i64) == 1).then_some(())
    })
    .await;
    let retry = attempt(&second_client, "/v1/videos", &order, 1).await;
    assert_ne!(task_of(&retry), task_of(&first));
    first_server.stop().await;
    second_server.stop().await;
}

/// A server rejects a try and has not recorded the rejection yet when another server creates a
/// task for the retry. A broken connection delivers the same retry again after the rejection is
/// recorded: this delivery joins the existing task.
#[tokio::test]
async fn a_rejection_recorded_late_frees_no_second_retry() {
    let database = TestDatabase::create().await;
    // Without workers, rejections are recorded only when the test does it.
    let replica = || {
        TestGateway::builder()
            .on_database(&database.url)
            .without_workers()
    };
    let (first_gateway, second_gateway) = (replica().start().await, replica().start().await);
    let new = NewKey {
        max_running: Some(1),
        ..NewKey::default()
    };
    let first_client = first_gateway.caller("default", new).await;
    let second_client = second_gateway.with_key(first_client.key.as_ref().unwrap());
    let cancel = async |task: &str| {
        let path = format!("/v1/tasks/{task}/cancel");
        second_client.post(&path, &Value::Null).await.ok();
    };
    for retry_client in [&second_client, &first_client] {
        let open_answer = attempt(&second_client, "/v1/videos", &prompt("a sea"), 0).await;
        let order = prompt(&format!("a lake seen from {}", retry_client.base));
        let refused = attempt(&first_client, "/v1/videos", &order, 0).await;
        refused.refused(429, "too_many_tasks");
        cancel(&task_of(&open_answer)).await;
        let retry_task = task_of(&attempt(&second_client, "/v1/videos", &order, 1).await);
        flush_client_events(&second_gateway).await;
        if retry_client.base == second_client.base {
            flush_client_events(&first_gateway).await;
        }
        let repeated_retry = attempt(retry_client, "/v1/videos", &order, 1).await;
        assert_eq!(task_of(&repeated_retry), retry_task);
        // A later refusal belongs to another order.
        flush_client_events(&second_gateway).await;
        let other = attempt(&first_client, "/v1/videos", &order, 0).await;
        other.refused(429, "too_many_tasks");
        cancel(&retry_task).await;
        flush_client_events(&first_gateway).await;
        let retry = task_of(&attempt(&second_client, "/v1/videos", &order, 1).await);
        assert_ne!(retry, retry_task);
        cancel(&retry).await;
    }
    first_gateway.stop().await;
    second_gateway.stop().await;
}

#[tokio::test]
async fn replayed_errors_name_the_request_that_they_answer() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let path = "/v1/chat/completions";
    let first = request_with_key(&gateway, path, "k", &chat("a lake"));
    let client = gateway.client.clone();
    let first = tokio::spawn(async move { client.send(first).await });
    let task = claim_soon(&gateway).await;
    gateway.fail(task, ErrorCode::ContentPolicy).await;
    let first = first.await.unwrap();
    let retried_answer = gateway
        .send(retry_request(&gateway, path, &chat("a lake")))
        .await;
    for answer in [&first, &retried_answer] {
        answer.refused(422, "content_policy");
        assert_eq!(task_of(answer), task.to_string());
        let error_request_id = answer.json["error"]["request_id"].as_str();
        assert_eq!(error_request_id, answer.header("x-request-id"));
    }
    let replayed_answer = gateway
        .send(request_with_key(&gateway, path, "k", &chat("a lake")))
        .await;
    assert_eq!(
        replayed_answer.json["error"]["request_id"].as_str(),
        replayed_answer.header("x-request-id"),
    );
    let mut expected = first.json.clone();
    expected["error"]["request_id"] = replayed_answer.json["error"]["request_id"].clone();
    assert_eq!(replayed_answer.json, expected);
    gateway.stop().await;
}

/// A server looks up a retry before another server records the rejection of the first try, and
/// makes the task afterwards. A second delivery of the retry joins that task.
#[tokio::test]
async fn a_rejection_recorded_after_the_look_up_is_used_up_by_its_retry() {
    let database = TestDatabase::create().await;
    // With workers: their leases show that a client of another process still waits.
    let replica = || TestGateway::builder().on_database(&database.url);
    let (first_gateway, second_gateway) = (replica().start().await, replica().start().await);
    let (first, second) = (&first_gateway.app, &second_gateway.app);
    let client = first_gateway.caller("default", NewKey::default()).await;
    let secret = client.key.as_ref().unwrap();
    let caller = keys::check(second, secret, [127, 0, 0, 1].into()).await;
    let caller = caller.unwrap();
    let request = |is_retry| IntentRequest {
        caller: caller.clone(),
        body: RequestFingerprint {
            key: caller.key.id,
            fingerprint: "a lake".into(),
        },
        idempotency_key: None,
        takes_stored_answer: true,
        is_retry,
        socket: PeerSocket::default(),
    };
    let Ok(Lookup::New(attempt)) = second.intents.begin(&request(true), false).await else {
        panic!("nothing was made for it yet");
    };
    let rejection = Error::retry_later(ErrorCode::Overloaded, "", 1);
    first.intents.note_refused(&request(false), &rejection);
    first.intents.flush_client_events().await.unwrap();
    let new = NewTask {
        model: second
            .models
            .catalog
            .load()
            .by_name("animatic-1")
            .unwrap()
            .clone(),
        asked_model: "animatic-1".into(),
        quantity: QuotedQuantity::of(OrderedWork::film(&VideoJob::default())),
        payload: TaskPayload::VideoV1(VideoJob::default()),
        attribution: Attribution::default(),
        callback: None,
    };
    let mut task = task_acceptance::task(second, &caller, &RequestId::generate().into(), new);
    // No process has this model, so the task stays open.
    (task.provider, task.model) = ("acme".into(), "film".into());
    let draft = TaskDraft {
        tasks: vec![task],
        ..TaskDraft::default()
    };
    task_acceptance::accept(second, &caller, &attempt, draft)
        .await
        .unwrap();

    let repeated = first.intents.begin(&request(true), false).await;
    assert!(
        matches!(repeated, Ok(Lookup::Existing(..))),
        "the second delivery would make another task"
    );
    drop(attempt);
    first_gateway.stop().await;
    second_gateway.stop().await;
}
