//! Intents outlive the process that accepted them, and other processes know them.

use std::time::Duration;

use mediagate_store::StoreError;
use reqwest::RequestBuilder;
use serde_json::Value;
use simulator::ConnectionCut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{chat, hang_up, prompt, request_with_key, retry_request, task_of, tasks};
use crate::support::files::Files;
use crate::support::postgres::TestDatabase;
use crate::support::program::Server;
use crate::support::{Client, TestGateway, eventually};

#[tokio::test]
async fn callers_find_their_tasks_after_a_restart() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let lost_task = hang_up(&gateway, "/v1/chat/completions", &chat("a lake")).await;
    let keyed_answer = gateway
        .send(request_with_key(
            &gateway,
            "/v1/videos",
            "k",
            &prompt("a lake"),
        ))
        .await;
    let gateway = gateway.restart(None).await;
    let answer = gateway.post("/v1/chat/completions", &chat("a lake")).await;
    assert_eq!(task_of(&answer), lost_task);
    answer.ok();
    let repetition = gateway
        .send(request_with_key(
            &gateway,
            "/v1/videos",
            "k",
            &prompt("a lake"),
        ))
        .await;
    assert_eq!(repetition.bytes, keyed_answer.bytes);
    assert_eq!(tasks(&gateway).await.len(), 2);
    gateway.stop().await;
}

/// The answers that a crash interrupted count as lost at once.
#[tokio::test]
async fn callers_find_their_tasks_after_a_crash() {
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
    let first_server = Server::start(data.path(), &[]).await;
    let key = first_server.first_key().await;
    let second_server = Server::start(data.path(), &[]).await;
    let (first_client, second_client) = (
        Client::new(&first_server.base, Some(&key)),
        Client::new(&second_server.base, Some(&key)),
    );
    // A caller that waits at the other server counts: the same body is a new intent.
    let mut body = chat("a lake");
    body["video"]["seconds"] = 10.into();
    let request = first_client
        .request(reqwest::Method::POST, "/v1/chat/completions")
        .json(&body);
    let waiting = tokio::spawn(request.send());
    eventually("the task is accepted", async || {
        let list = second_client.get("/v1/tasks").await.ok();
        (!list["data"].as_array()?.is_empty()).then_some(())
    })
    .await;
    let same_body = body.clone();
    let client = second_client.clone();
    let same_request = tokio::spawn(async move {
        let request = client.request(reqwest::Method::POST, "/v1/chat/completions");
        request
            .json(&same_body)
            .timeout(Duration::from_secs(8))
            .send()
            .await
    });
    eventually("a second task", async || {
        let list = second_client.get("/v1/tasks").await.ok();
        (list["data"].as_array()?.len() == 2).then_some(())
    })
    .await;
    // One key, two servers: one task.
    let order = prompt("a sea");
    let requests = futures_util::future::join(
        first_client.send(request_with_key(&first_client, "/v1/videos", "k", &order)),
        second_client.send(request_with_key(&second_client, "/v1/videos", "k", &order)),
    );
    let (first_answer, second_answer) = requests.await;
    assert_eq!(task_of(&first_answer), task_of(&second_answer));
    assert_eq!(first_answer.bytes, second_answer.bytes);
    let retry = second_client
        .send(retry_request(&second_client, "/v1/videos", &order))
        .await;
    assert_eq!(task_of(&retry), task_of(&first_answer));
    waiting.abort();
    same_request.abort();
    first_server.crash();
    second_server.stop().await;
}

/// Both servers begin the request before either has written anything. The database
/// rejects one, which then finds the other's task.
#[tokio::test]
async fn two_servers_that_start_with_one_key_share_one_task() {
    let files = Files::start().await;
    let data = tempfile::tempdir().unwrap();
    let config = data.path().join("gateway.toml");
    let fetch = format!(
        "[fetch]\nallow_networks = [\"127.0.0.0/8\"]\nallow_ports = [{}]\n",
        files.port
    );
    std::fs::write(&config, fetch).unwrap();
    let flags = ["--config", config.to_str().unwrap()];
    let first_server = Server::start(data.path(), &flags).await;
    let key = first_server.first_key().await;
    let second_server = Server::start(data.path(), &flags).await;
    let clients =
        [&first_server, &second_server].map(|server| Client::new(&server.base, Some(&key)));
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
        let [first, second] = [0, 1].map(|index| {
            let request =
                request_with_key(&clients[index], "/v1/videos", key, &order(prompts[index]));
            clients[index].send(request)
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
            let (accepted, refused) = if first.status == 200 {
                (first, second)
            } else {
                (second, first)
            };
            accepted.ok();
            refused.refused(409, "idempotency_conflict");
        }
    }
    let list = clients[0].get("/v1/tasks").await.ok();
    assert_eq!(list["data"].as_array().unwrap().len(), 2);
    first_server.stop().await;
    second_server.stop().await;
}

/// Sends a request to the second replica while the first one's accepting transaction is
/// held up and not yet visible; returns both gateways.
async fn send_while_one_is_accepted(
    order: &Value,
    first_hangs_up: bool,
    second: impl Fn(&TestGateway) -> RequestBuilder,
) -> (TestGateway, TestGateway) {
    let first_gateway = TestGateway::builder().behind_proxy().start().await;
    let second_gateway = first_gateway.replica().await;
    first_gateway
        .proxy()
        .cut(ConnectionCut::new("INSERT INTO intents").holding());
    let first = first_gateway
        .request(reqwest::Method::POST, "/v1/videos")
        .json(order);
    let first = tokio::spawn(first.send());
    first_gateway.proxy().wait_for_strikes(1).await;
    if first_hangs_up {
        first.abort();
    }
    let second = tokio::spawn(second(&second_gateway).send());
    eventually("the second waits for its turn", async || {
        let count = second_gateway
            .app
            .store
            .read(|conn| -> Result<_, StoreError> {
                let waiting_locks =
                    "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
                conn.one(waiting_locks, &[], |row| row.int(0))
            });
        (count.await.unwrap() == Some(1)).then_some(())
    })
    .await;
    first_gateway.proxy().heal();
    assert_eq!(second.await.unwrap().unwrap().status(), 200);
    if !first_hangs_up {
        assert_eq!(first.await.unwrap().unwrap().status(), 200);
    }
    (first_gateway, second_gateway)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_that_overtakes_its_first_try_at_another_replica_makes_nothing_new() {
    let order = prompt("a lake");
    let retry = |second: &TestGateway| retry_request(second, "/v1/videos", &order);
    let (first, second) = send_while_one_is_accepted(&order, true, retry).await;
    assert_eq!(tasks(&second).await.len(), 1);
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_hung_up_at_one_replica_joins_its_task_at_another() {
    let order = prompt("a lake");
    let plain = |second: &TestGateway| {
        second
            .request(reqwest::Method::POST, "/v1/videos")
            .json(&order)
    };
    let (first, second) = send_while_one_is_accepted(&order, true, plain).await;
    assert_eq!(tasks(&second).await.len(), 1);
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_callers_at_two_replicas_have_a_task_each() {
    let order = prompt("a lake");
    let plain = |second: &TestGateway| {
        second
            .request(reqwest::Method::POST, "/v1/videos")
            .json(&order)
    };
    let (first, second) = send_while_one_is_accepted(&order, false, plain).await;
    assert_eq!(tasks(&second).await.len(), 2);
    first.stop().await;
    second.stop().await;
}

/// A caller gives up on a stopped process and is served by another one. Then the
/// stopped process continues where it stopped.
#[tokio::test]
async fn a_stopped_process_accepts_nothing_for_a_caller_that_left() {
    let orders = [
        ("/v1/videos", prompt("a lake")),
        ("/v1/chat/completions", chat("a lake")),
    ];
    for (path, order) in orders {
        // With SQLite a process stopped in a transaction would block the others.
        let (database, data) = (TestDatabase::create().await, tempfile::tempdir().unwrap());
        let args = ["--database", database.url.as_str()];
        let variables = [("MEDIAGATE_STOP_AT", "about-to-accept")];
        let frozen = Server::start_with(data.path(), &args, &variables).await;
        let other = Server::start(data.path(), &args).await;
        let key = frozen.first_key().await;
        let client_of = |server: &Server| Client::new(&server.base, Some(&key));
        let (frozen_client, other_client) = (client_of(&frozen), client_of(&other));
        let request = frozen_client
            .request(reqwest::Method::POST, path)
            .json(&order);
        let first = tokio::spawn(request.send());
        frozen.wait_until_stopped().await;
        first.abort();
        drop(first.await);
        let answer = other_client
            .send(retry_request(&other_client, path, &order))
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        frozen.signal("-CONT");
        frozen_client
            .post("/v1/videos", &prompt("a sea"))
            .await
            .ok();
        frozen.stop().await;
        assert_eq!(tasks(&other_client).await.len(), 2, "{path}");
        other.stop().await;
    }
}

/// hyper does not notice the end of a connection behind bytes that it holds, and the head of a stream
/// has been sent long before.
#[tokio::test]
async fn another_server_joins_a_stream_whose_caller_left_behind_surplus_bytes() {
    let data = tempfile::tempdir().unwrap();
    let first_server = Server::start(data.path(), &[]).await;
    let key = first_server.first_key().await;
    let second_server = Server::start(data.path(), &[]).await;
    let client = Client::new(&second_server.base, Some(&key));
    let mut body = chat("a lake");
    body["stream"] = true.into();
    body["video"]["seconds"] = 10.into();
    let text = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        text.len()
    );
    let address = first_server.base.strip_prefix("http://").unwrap();
    let mut caller = TcpStream::connect(address).await.unwrap();
    let request = head + &text + "\r\nGET /v1/models HTTP/1.1\r\n";
    caller.write_all(request.as_bytes()).await.unwrap();
    let mut first_byte = [0];
    caller.read_exact(&mut first_byte).await.unwrap();
    let first_task = eventually("the task is accepted", async || {
        tasks(&client).await.first().cloned()
    })
    .await;
    drop(caller);
    // Longer than the look for a peer that left.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let repetition = client
        .request(reqwest::Method::POST, "/v1/chat/completions")
        .json(&body)
        .send();
    let repetition = repetition.await.unwrap();
    let joined = repetition.headers()["x-task-id"].to_str().unwrap();
    assert_eq!(joined, first_task);
    assert_eq!(tasks(&client).await.len(), 1);
    drop(repetition);
    first_server.stop().await;
    second_server.stop().await;
}
