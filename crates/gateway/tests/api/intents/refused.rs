//! Tries that the gateway refused: their retries are intents of their own.

use std::collections::HashSet;
use std::time::Duration;

use mediagate_core::domain::keys::NewKey;
use mediagate_model::error::ErrorCode;
use reqwest::Method;
use serde_json::Value;
use simulator::{LinkState, NetworkState};

use super::{NOTICED, chat, claim_soon, keyed, prompt, retried, task_of, tasks};
use crate::support::postgres::TestDatabase;
use crate::support::program::{Server, output, program, text};
use crate::support::{Answer, Client, TestGateway, eventually};

/// The try number `tries` of an SDK, from 0.
async fn attempt(client: &Client, path: &str, body: &Value, tries: u32) -> Answer {
    let request = client.request(Method::POST, path).json(body);
    client
        .send(request.header("x-stainless-retry-count", tries.to_string()))
        .await
}

/// What an SDK does: it tries until it is not refused.
async fn insist(client: &Client, path: &str, body: &Value) -> Answer {
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
async fn six_orders_alike_of_a_key_of_three_open_tasks_make_six_videos() {
    let gateway = TestGateway::start().await;
    let new = NewKey {
        max_running: Some(3),
        ..NewKey::default()
    };
    let client = gateway.caller("default", new).await;
    let order = chat("a lake");
    let orders = (0..6).map(|_| insist(&client, "/v1/chat/completions", &order));
    let answers = futures_util::future::join_all(orders).await;
    let made: HashSet<String> = answers.iter().map(task_of).collect();
    assert_eq!(made.len(), 6);
    gateway.stop().await;
}

#[tokio::test]
async fn orders_in_a_row_at_so_many_a_minute_make_a_video_each() {
    let gateway = TestGateway::builder().without_workers().start().await;
    // One comes back each half second.
    let new = NewKey {
        rpm: Some(120),
        ..NewKey::default()
    };
    let client = gateway.caller("default", new).await;
    for _ in 0..117 {
        client.get("/v1/account").await;
    }
    for made in 1..=5 {
        insist(&client, "/v1/videos", &prompt("a lake")).await.ok();
        assert_eq!(tasks(&gateway).await.len(), made);
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
        let again = attempt(&client, "/v1/videos", &prompt("a lake"), tries).await;
        if again.status == 429 {
            was_refused = true;
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        }
        assert_eq!(task_of(&again), task_of(&first));
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
    tokio::time::sleep(NOTICED).await;
    gateway.fail(task, ErrorCode::ContentPolicy).await;
    // Two orders, two tasks, whichever comes back first.
    let first = attempt(&client, "/v1/chat/completions", &chat("a lake"), 1).await;
    assert_eq!(task_of(&first), task.to_string());
    tokio::time::sleep(NOTICED).await;
    let second = client.request(Method::POST, "/v1/chat/completions");
    let second = second.header("x-stainless-retry-count", "1");
    let second = tokio::spawn(second.json(&chat("a lake")).send());
    let made = claim_soon(&gateway).await;
    assert_ne!(made, task);
    second.abort();
    gateway.stop().await;
}

/// A connection that broke may hand one try over twice.
#[tokio::test(flavor = "multi_thread")]
async fn two_retries_at_once_of_a_refused_try_make_one_task() {
    let gateway = TestGateway::builder().behind_proxy().without_workers();
    let gateway = gateway.start().await;
    let new = NewKey {
        max_running: Some(2),
        ..NewKey::default()
    };
    let client = gateway.caller("default", new).await;
    let late = LinkState::with_delay(Duration::from_millis(10));
    gateway.proxy().set(NetworkState::both(late));
    for round in 0..4 {
        let mut full = Vec::new();
        for place in 0..2 {
            let order = prompt(&format!("round {round}, place {place}"));
            full.push(task_of(&client.post("/v1/videos", &order).await));
        }
        let order = prompt(&format!("round {round}"));
        let refused = attempt(&client, "/v1/videos", &order, 0).await;
        refused.refused(429, "too_many_tasks");
        for task in full {
            let path = format!("/v1/tasks/{task}/cancel");
            client.post(&path, &Value::Null).await.ok();
        }
        let retries = (0..2).map(|_| attempt(&client, "/v1/videos", &order, 1));
        let made = futures_util::future::join_all(retries).await;
        assert_eq!(task_of(&made[0]), task_of(&made[1]), "round {round}");
        let path = format!("/v1/tasks/{}/cancel", task_of(&made[0]));
        client.post(&path, &Value::Null).await.ok();
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_retry_of_what_failed_takes_nobody_elses() {
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
    let open = claim_soon(&gateway).await;
    gateway.fail(task, ErrorCode::GenerationFailed).await;
    failing.await.unwrap().refused(503, "generation_failed");
    let again = gateway
        .request(Method::POST, "/v1/chat/completions")
        .header("x-stainless-retry-count", "1");
    let again = tokio::spawn(again.json(&chat("a lake")).send());
    let made = claim_soon(&gateway).await;
    assert!(made != task && made != open);
    again.abort();
    other.abort();
    gateway.stop().await;
}

#[tokio::test]
async fn another_server_knows_of_refused_tries() {
    let data = tempfile::tempdir().unwrap();
    let one = Server::start(data.path(), &[]).await;
    let key = one.first_key().await;
    let two = Server::start(data.path(), &[]).await;
    let mut command = program(&["keys", "create", "--name", "small", "--max-running", "1"]);
    command.arg("--data").arg(data.path());
    let small = text(&output(command).await.stdout).trim().to_owned();
    let here = Client::new(&one.base, Some(&small));
    let there = Client::new(&two.base, Some(&small));
    let order = prompt("a lake");
    let first = attempt(&here, "/v1/videos", &order, 0).await;
    let refused = attempt(&here, "/v1/videos", &order, 0).await;
    refused.refused(429, "too_many_tasks");
    let all = Client::new(&one.base, Some(&key));
    crate::support::gateway::finished(&all, &task_of(&first)).await;
    // The first server writes it down a moment after.
    let database = rusqlite::Connection::open(data.path().join("mediagate.db")).unwrap();
    eventually("the refusal is written down", async || {
        let count = database.query_row("SELECT COUNT(*) FROM refused_orders", [], |row| row.get(0));
        (count.unwrap_or(0_i64) == 1).then_some(())
    })
    .await;
    let again = attempt(&there, "/v1/videos", &order, 1).await;
    assert_ne!(task_of(&again), task_of(&first));
    one.stop().await;
    two.stop().await;
}

/// A server that cannot tell the database refuses a try; another one makes something
/// for its retry. A connection that breaks hands the same retry over once more, when
/// the refusal is known: it is led to the task that is there.
#[tokio::test]
async fn a_refusal_that_is_told_late_frees_no_second_retry() {
    let database = TestDatabase::create().await;
    // Workers tell the database of refusals, and there are none.
    let replica = async || {
        let url = database.url.parse().unwrap();
        let builder = TestGateway::builder().without_workers();
        builder
            .set(|settings| settings.database = Some(url))
            .start()
            .await
    };
    let (one, two) = (replica().await, replica().await);
    let new = NewKey {
        max_running: Some(1),
        ..NewKey::default()
    };
    let here = one.caller("default", new).await;
    let there = two.with_key(here.key.as_ref().unwrap());
    let cancel = async |task: &str| {
        let path = format!("/v1/tasks/{task}/cancel");
        there.post(&path, &Value::Null).await.ok();
    };
    for told_to in [&there, &here] {
        let full = attempt(&there, "/v1/videos", &prompt("a sea"), 0).await;
        let order = prompt(&format!("a lake seen from {}", told_to.base));
        let refused = attempt(&here, "/v1/videos", &order, 0).await;
        refused.refused(429, "too_many_tasks");
        cancel(&task_of(&full)).await;
        let made = task_of(&attempt(&there, "/v1/videos", &order, 1).await);
        two.app.intents.write_departures().await.unwrap();
        if told_to.base == there.base {
            one.app.intents.write_departures().await.unwrap();
        }
        let once_more = attempt(told_to, "/v1/videos", &order, 1).await;
        assert_eq!(task_of(&once_more), made);
        // A later refusal is another order's.
        two.app.intents.write_departures().await.unwrap();
        let other = attempt(&here, "/v1/videos", &order, 0).await;
        other.refused(429, "too_many_tasks");
        cancel(&made).await;
        one.app.intents.write_departures().await.unwrap();
        let retry = task_of(&attempt(&there, "/v1/videos", &order, 1).await);
        assert_ne!(retry, made);
        cancel(&retry).await;
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn errors_given_again_name_the_request_that_they_answer() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let path = "/v1/chat/completions";
    let first = keyed(&gateway, path, "k", &chat("a lake"));
    let client = gateway.client.clone();
    let first = tokio::spawn(async move { client.send(first).await });
    let task = claim_soon(&gateway).await;
    gateway.fail(task, ErrorCode::ContentPolicy).await;
    let first = first.await.unwrap();
    let by_mark = gateway.send(retried(&gateway, path, &chat("a lake"))).await;
    for answer in [&first, &by_mark] {
        answer.refused(422, "content_policy");
        assert_eq!(task_of(answer), task.to_string());
        let said = answer.json["error"]["request_id"].as_str();
        assert_eq!(said, answer.header("x-request-id"));
    }
    let by_key = gateway
        .send(keyed(&gateway, path, "k", &chat("a lake")))
        .await;
    assert_eq!(by_key.bytes, first.bytes, "stored bytes stay as they are");
    gateway.stop().await;
}
