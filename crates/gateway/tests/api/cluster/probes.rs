//! `metrics_listen` and `first_key`.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;

use crate::process::free_port;
use crate::support::program::{Server, output, program, text};
use crate::support::{Client, eventually};

fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}

#[tokio::test]
async fn probes_and_metrics_have_a_listener_that_asks_for_no_key() {
    let (data, address) = (tempfile::tempdir().unwrap(), free_address());
    let metrics_address = address.to_string();
    let args = ["--metrics-listen", &metrics_address, "--drain-delay", "1m"];
    let server = Server::start(data.path(), &args).await;
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
    for path in ["/healthz?a=1", "/readyz?a=1", "/metrics?a=1"] {
        anyone.get(path).await.refused(400, "unsupported_value");
    }
    // It serves nothing else, and the public listener still requires a key.
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
    let (data, address) = (tempfile::tempdir().unwrap(), free_address());
    let folder = data.path().to_str().unwrap();
    let metrics_address = address.to_string();
    let args = [
        "worker",
        "--data",
        folder,
        "--metrics-listen",
        &metrics_address,
    ];
    let mut command = program(&args);
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
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let folder = data.path().to_str().unwrap();
    let result = output(program(&[
        "worker",
        "--data",
        folder,
        "--metrics-listen",
        &address,
    ]))
    .await;
    assert_eq!(result.status.code(), Some(1));
    assert!(text(&result.stderr).contains("metrics_listen: cannot listen on"));
}

#[tokio::test]
async fn the_first_key_may_be_given_and_is_not_printed() {
    let data = tempfile::tempdir().unwrap();
    let generated = output(program(&["keys", "generate"])).await;
    let key = text(&generated.stdout).trim().to_owned();
    assert!(
        key.starts_with("sk-mg-") && key.len() == 55,
        "{generated:?}"
    );
    let file = data.path().join("key");
    std::fs::write(&file, format!("{key}\n")).unwrap();
    let key_file = format!("file:{}", file.display());
    let folder = data.path().join("data");
    for _ in 0..2 {
        let server = Server::start(&folder, &["--first-key", &key_file]).await;
        let client = Client::new(&server.base, Some(&key));
        // It has every scope.
        assert_eq!(client.get("/metrics").await.status, 200);
        assert_eq!(client.get("/v1/tasks").await.status, 200);
        let stdout = server.stop().await;
        assert!(
            stdout.contains("ready at") && !stdout.contains("sk-mg-"),
            "{stdout}"
        );
    }
    // Another key is not added later.
    let other_key = output(program(&["keys", "generate"])).await;
    let other_key = text(&other_key.stdout).trim().to_owned();
    let server = Server::start(&folder, &["--first-key", &other_key]).await;
    let client = Client::new(&server.base, Some(&other_key));
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
    let malformed = format!("sk-mg-{}", "0".repeat(49));
    for args in [&["serve"][..], &["config", "check"]] {
        let mut command = program(args);
        command.args(["--data", folder, "--first-key", &malformed]);
        let result = output(command).await;
        assert_eq!(result.status.code(), Some(2));
        let stderr = text(&result.stderr);
        assert!(stderr.contains("first_key: must be an API key"), "{stderr}");
        assert!(!stderr.contains(&malformed), "{stderr}");
    }
}
