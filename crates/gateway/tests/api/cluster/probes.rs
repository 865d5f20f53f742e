//! `metrics_listen` and `first_key`.

use std::net::SocketAddr;
use std::process::Stdio;

use crate::support::program::{Server, output, program, text};
use crate::support::{Client, eventually};

/// An address that nobody listens at.
fn free() -> SocketAddr {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap()
}

#[tokio::test]
async fn probes_and_metrics_have_a_listener_that_asks_for_no_key() {
    let (data, address) = (tempfile::tempdir().unwrap(), free());
    let there = address.to_string();
    let words = ["--metrics-listen", &there, "--drain-delay", "1m"];
    let server = Server::start(data.path(), &words).await;
    let anyone = Client::new(&format!("http://{address}"), None);
    assert_eq!(anyone.get("/healthz").await.status, 200);
    assert_eq!(anyone.get("/readyz").await.status, 200);
    let metrics = anyone.get("/metrics").await;
    assert_eq!(metrics.status, 200);
    assert!(
        metrics
            .whole_text()
            .contains("mediagate_build_info{version=")
    );
    // Nothing else is there, and the listener for everybody still asks.
    for path in ["/v1/tasks", "/console", "/openapi.json"] {
        anyone.get(path).await.refused(404, "route_not_found");
    }
    let outside = Client::new(&server.base, None);
    outside
        .get("/metrics")
        .await
        .refused(401, "missing_api_key");
    // It answers as long as the process lives.
    server.signal("-TERM");
    eventually("it is not ready", async || {
        (anyone.get("/readyz").await.status == 503).then_some(())
    })
    .await;
    assert_eq!(anyone.get("/metrics").await.status, 200);
    server.signal("-TERM");
    assert_eq!(server.wait_for_exit().await.0.code(), Some(1));
}

#[tokio::test]
async fn workers_have_probes_too() {
    crate::support::client::install_tls();
    let (data, address) = (tempfile::tempdir().unwrap(), free());
    let folder = data.path().to_str().unwrap();
    let there = address.to_string();
    let words = ["worker", "--data", folder, "--metrics-listen", &there];
    let mut command = program(&words);
    let mut worker = command.stderr(Stdio::null()).spawn().unwrap();
    let ready = format!("http://{address}/readyz");
    eventually("the worker is ready", async || {
        let answer = reqwest::get(&ready).await.ok()?;
        (answer.status() == 200).then_some(())
    })
    .await;
    let id = worker.id().to_string();
    let kill = std::process::Command::new("kill").arg(&id).status();
    assert!(kill.unwrap().success());
    let worker = std::cell::RefCell::new(&mut worker);
    let status = eventually("the worker ends", async || {
        worker.borrow_mut().try_wait().unwrap()
    });
    assert_eq!(status.await.code(), Some(0));
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let data = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let there = taken.local_addr().unwrap().to_string();
    let folder = data.path().to_str().unwrap();
    let done = output(program(&[
        "worker",
        "--data",
        folder,
        "--metrics-listen",
        &there,
    ]))
    .await;
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stderr).contains("metrics_listen: cannot listen on"));
}

#[tokio::test]
async fn the_first_key_may_be_given_and_is_not_printed() {
    let data = tempfile::tempdir().unwrap();
    let made = output(program(&["keys", "generate"])).await;
    let key = text(&made.stdout).trim().to_owned();
    assert!(key.starts_with("sk-mg-") && key.len() == 55, "{made:?}");
    let file = data.path().join("key");
    std::fs::write(&file, format!("{key}\n")).unwrap();
    let given = format!("file:{}", file.display());
    let folder = data.path().join("data");
    for _ in 0..2 {
        let server = Server::start(&folder, &["--first-key", &given]).await;
        let client = Client::new(&server.base, Some(&key));
        // It has every scope.
        assert_eq!(client.get("/metrics").await.status, 200);
        assert_eq!(client.get("/v1/tasks").await.status, 200);
        let said = server.stop().await;
        assert!(
            said.contains("ready at") && !said.contains("sk-mg-"),
            "{said}"
        );
    }
    // Another one does not come in later.
    let other = output(program(&["keys", "generate"])).await;
    let other = text(&other.stdout).trim().to_owned();
    let server = Server::start(&folder, &["--first-key", &other]).await;
    let client = Client::new(&server.base, Some(&other));
    client
        .get("/v1/tasks")
        .await
        .refused(401, "invalid_api_key");
    server.stop().await;
}

#[tokio::test]
async fn a_first_key_must_be_a_key() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().to_str().unwrap();
    let typo = format!("sk-mg-{}", "0".repeat(49));
    for words in [&["serve"][..], &["config", "check"]] {
        let mut command = program(words);
        command.args(["--data", folder, "--first-key", &typo]);
        let done = output(command).await;
        assert_eq!(done.status.code(), Some(2));
        let said = text(&done.stderr);
        assert!(said.contains("first_key: must be an API key"), "{said}");
        assert!(!said.contains(&typo), "{said}");
    }
}
