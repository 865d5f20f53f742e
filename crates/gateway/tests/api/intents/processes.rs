//! Intents outlive the process that first knew them, and are known to others.

use std::time::Duration;

use mediagate_store::StoreError;
use reqwest::RequestBuilder;
use serde_json::Value;
use simulator::ConnectionCut;

use super::{chat, hang_up, keyed, prompt, retried, task_of, tasks};
use crate::support::files::Files;
use crate::support::postgres::TestDatabase;
use crate::support::program::Server;
use crate::support::{Client, TestGateway, eventually};

#[tokio::test]
async fn a_restart_leads_callers_back_to_their_tasks() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let lost = hang_up(&gateway, "/v1/chat/completions", &chat("a lake")).await;
    let kept = gateway
        .send(keyed(&gateway, "/v1/videos", "k", &prompt("a lake")))
        .await;
    let gateway = gateway.restart(None).await;
    let answer = gateway.post("/v1/chat/completions", &chat("a lake")).await;
    assert_eq!(task_of(&answer), lost);
    answer.ok();
    let again = gateway
        .send(keyed(&gateway, "/v1/videos", "k", &prompt("a lake")))
        .await;
    assert_eq!(again.bytes, kept.bytes);
    assert_eq!(tasks(&gateway).await.len(), 2);
    gateway.stop().await;
}

/// What a crash interrupts is lost to its callers, at once.
#[tokio::test]
async fn a_crash_leads_callers_back_to_their_tasks() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]).await;
    let key = server.first_key().await;
    let client = Client::new(&server.base, Some(&key));
    let mut body = chat("a lake");
    body["video"]["seconds"] = 8.into();
    let request = client
        .request(reqwest::Method::POST, "/v1/chat/completions")
        .json(&body);
    let waiting = tokio::spawn(request.send());
    let task = eventually("the task is accepted", async || {
        let list = client.get("/v1/tasks").await.ok();
        Some(list["data"][0]["id"].as_str()?.to_owned())
    })
    .await;
    server.crash();
    drop(waiting.await);
    let server = Server::start(data.path(), &[]).await;
    let client = Client::new(&server.base, Some(&key));
    let answer = client.post("/v1/chat/completions", &body).await;
    assert_eq!(task_of(&answer), task);
    answer.ok();
    server.stop().await;
}

#[tokio::test]
async fn two_servers_on_one_database_know_each_others_callers() {
    let data = tempfile::tempdir().unwrap();
    let one = Server::start(data.path(), &[]).await;
    let key = one.first_key().await;
    let two = Server::start(data.path(), &[]).await;
    let (first, second) = (
        Client::new(&one.base, Some(&key)),
        Client::new(&two.base, Some(&key)),
    );
    // A caller that waits over there is here: the same body is a new intent.
    let mut body = chat("a lake");
    body["video"]["seconds"] = 10.into();
    let request = first
        .request(reqwest::Method::POST, "/v1/chat/completions")
        .json(&body);
    let waiting = tokio::spawn(request.send());
    eventually("the task is accepted", async || {
        let list = second.get("/v1/tasks").await.ok();
        (!list["data"].as_array()?.is_empty()).then_some(())
    })
    .await;
    let body_two = body.clone();
    let other = second.clone();
    let same = tokio::spawn(async move {
        let request = other.request(reqwest::Method::POST, "/v1/chat/completions");
        request
            .json(&body_two)
            .timeout(Duration::from_secs(8))
            .send()
            .await
    });
    eventually("a second task", async || {
        let list = second.get("/v1/tasks").await.ok();
        (list["data"].as_array()?.len() == 2).then_some(())
    })
    .await;
    // One key, two servers: one task.
    let order = prompt("a sea");
    let both = futures_util::future::join(
        first.send(keyed(&first, "/v1/videos", "k", &order)),
        second.send(keyed(&second, "/v1/videos", "k", &order)),
    );
    let (here, there) = both.await;
    assert_eq!(task_of(&here), task_of(&there));
    assert_eq!(here.bytes, there.bytes);
    let again = second.send(retried(&second, "/v1/videos", &order)).await;
    assert_eq!(task_of(&again), task_of(&here));
    waiting.abort();
    same.abort();
    one.crash();
    two.stop().await;
}

/// Both servers have begun to work before either has written anything: one is
/// refused by the database, and finds what the other made.
#[tokio::test]
async fn of_two_servers_that_begin_with_one_key_one_is_led_to_the_other() {
    let files = Files::start().await;
    let data = tempfile::tempdir().unwrap();
    let config = data.path().join("gateway.toml");
    let fetch = format!(
        "[fetch]\nallow_networks = [\"127.0.0.0/8\"]\nallow_ports = [{}]\n",
        files.port
    );
    std::fs::write(&config, fetch).unwrap();
    let flags = ["--config", config.to_str().unwrap()];
    let one = Server::start(data.path(), &flags).await;
    let key = one.first_key().await;
    let two = Server::start(data.path(), &flags).await;
    let clients = [&one, &two].map(|server| Client::new(&server.base, Some(&key)));
    let order = |prompt: &str| {
        let mut order = super::prompt(prompt);
        order["input_reference"]["image_url"] = files.url("/picture-for-two.png").into();
        order
    };
    // The same request, and another one with the same key.
    for (key, prompts) in [
        ("same", ["a lake", "a lake"]),
        ("other", ["a lake", "a sea"]),
    ] {
        let before = files.hits();
        let [first, second] = [0, 1].map(|at| {
            let request = keyed(&clients[at], "/v1/videos", key, &order(prompts[at]));
            clients[at].send(request)
        });
        let (first, second) = futures_util::future::join(first, second).await;
        assert_eq!(files.hits() - before, 2, "both began");
        if key == "same" {
            assert_eq!(first.status, 200, "{}", first.text());
            assert_eq!(first.bytes, second.bytes);
            assert_eq!(task_of(&first), task_of(&second));
            let replayed = [&first, &second].map(|answer| answer.header("idempotent-replayed"));
            assert!(replayed.contains(&None) && replayed.contains(&Some("true")));
        } else {
            let (made, refused) = if first.status == 200 {
                (first, second)
            } else {
                (second, first)
            };
            made.ok();
            refused.refused(409, "idempotency_conflict");
        }
    }
    let list = clients[0].get("/v1/tasks").await.ok();
    assert_eq!(list["data"].as_array().unwrap().len(), 2);
    one.stop().await;
    two.stop().await;
}

/// While one replica's transaction that accepts an order stands still, where
/// nobody can read it yet, another one is asked; returns both gateways.
async fn while_one_is_accepted(
    order: &Value,
    first_hangs_up: bool,
    second: impl Fn(&TestGateway) -> RequestBuilder,
) -> (TestGateway, TestGateway) {
    let one = TestGateway::builder().behind_proxy().start().await;
    let two = one.replica().await;
    one.proxy()
        .cut(ConnectionCut::new("INSERT INTO intents").holding());
    let first = one.request(reqwest::Method::POST, "/v1/videos").json(order);
    let first = tokio::spawn(first.send());
    one.proxy().wait_for_strikes(1).await;
    if first_hangs_up {
        first.abort();
    }
    let second = tokio::spawn(second(&two).send());
    eventually("the second waits for its turn", async || {
        let waiting = two.app.store.read(|conn| -> Result<_, StoreError> {
            let waits = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
            conn.one(waits, &[], |row| row.int(0))
        });
        (waiting.await.unwrap() == Some(1)).then_some(())
    })
    .await;
    one.proxy().heal();
    assert_eq!(second.await.unwrap().unwrap().status(), 200);
    if !first_hangs_up {
        assert_eq!(first.await.unwrap().unwrap().status(), 200);
    }
    (one, two)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_that_overtakes_its_first_try_at_another_replica_makes_nothing_new() {
    let order = prompt("a lake");
    let retry = |two: &TestGateway| retried(two, "/v1/videos", &order);
    let (one, two) = while_one_is_accepted(&order, true, retry).await;
    assert_eq!(tasks(&two).await.len(), 1);
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_hung_up_on_one_replica_and_asks_another_gets_the_same_task() {
    let order = prompt("a lake");
    let plain = |two: &TestGateway| {
        two.request(reqwest::Method::POST, "/v1/videos")
            .json(&order)
    };
    let (one, two) = while_one_is_accepted(&order, true, plain).await;
    assert_eq!(tasks(&two).await.len(), 1);
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_callers_at_two_replicas_have_a_task_each() {
    let order = prompt("a lake");
    let plain = |two: &TestGateway| {
        two.request(reqwest::Method::POST, "/v1/videos")
            .json(&order)
    };
    let (one, two) = while_one_is_accepted(&order, false, plain).await;
    assert_eq!(tasks(&two).await.len(), 2);
    one.stop().await;
    two.stop().await;
}

/// A caller whose process stands still gives up and is served by another one; then
/// the first goes on where it stood.
#[tokio::test]
async fn a_process_that_stood_still_accepts_nothing_for_a_caller_who_left() {
    let orders = [
        ("/v1/videos", prompt("a lake")),
        ("/v1/chat/completions", chat("a lake")),
    ];
    for (path, order) in orders {
        // SQLite would have everybody wait, should it stand still in a transaction.
        let (database, data) = (TestDatabase::create().await, tempfile::tempdir().unwrap());
        let words = ["--database", database.url.as_str()];
        let stopping = [("MEDIAGATE_STOP_AT", "about-to-accept")];
        let frozen = Server::start_with(data.path(), &words, &stopping).await;
        let other = Server::start(data.path(), &words).await;
        let key = frozen.first_key().await;
        let at = |server: &Server| Client::new(&server.base, Some(&key));
        let (at_frozen, at_other) = (at(&frozen), at(&other));
        let request = at_frozen.request(reqwest::Method::POST, path).json(&order);
        let first = tokio::spawn(request.send());
        frozen.wait_until_stopped().await;
        first.abort();
        drop(first.await);
        let answer = at_other.send(retried(&at_other, path, &order)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        frozen.signal("-CONT");
        at_frozen.post("/v1/videos", &prompt("a sea")).await.ok();
        frozen.stop().await;
        assert_eq!(tasks(&at_other).await.len(), 2, "{path}");
        other.stop().await;
    }
}
