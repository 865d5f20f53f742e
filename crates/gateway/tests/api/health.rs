//! `/healthz` and `/readyz`.

use reqwest::Method;
use serde_json::json;

use crate::support::program::Server;
use crate::support::{Client, TestGateway, videos_order};

#[tokio::test]
async fn probes_need_no_key_and_report_shutdown() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let anyone = gateway.without_key();
    assert_eq!(anyone.get("/healthz").await.ok(), json!({"status": "ok"}));
    assert_eq!(anyone.get("/readyz").await.ok(), json!({"status": "ok"}));
    let no_differences =
        json!({"status": "ok", "verbose": {"away": [], "settings_differ": [], "unconfined": []}});
    for query in ["verbose", "verbose=", "verbose=true"] {
        let readiness = anyone.get(&format!("/readyz?{query}")).await.ok();
        assert_eq!(readiness, no_differences, "{query}");
    }
    let readiness = anyone.get("/readyz?verbose=false").await.ok();
    assert_eq!(readiness, json!({"status": "ok"}));
    gateway.app.process.closing.cancel();
    anyone.get("/readyz").await.refused(503, "shutting_down");
    assert_eq!(anyone.get("/healthz").await.status, 200);
    gateway.stop().await;
}

/// A client whose base URL ends with its key, and one that sends a long path.
#[tokio::test]
async fn the_log_has_no_key_and_no_long_path() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--log", "info"]).await;
    let key = server.first_key().await;
    let client = Client::new(&server.base, Some(&key));
    let long = format!("/v1/tasks/{}", "a".repeat(3_000));
    for path in [&format!("/{key}/v1/models"), &long] {
        let request = client
            .request(Method::GET, path)
            .header("x-request-id", &key);
        assert_eq!(client.send(request).await.status, 404, "{path}");
    }
    let log = crate::support::eventually("both requests are logged", async || {
        let log = server.stderr();
        (log.matches("request completed").count() >= 2 && log.contains("aaa…")).then_some(log)
    })
    .await;
    assert!(!log.contains(&key[..12]), "{log}");
    assert!(log.contains("/sk-mg-…/v1/models"), "{log}");
    let shown = long[..200].to_owned() + "…";
    assert!(log.contains(&shown), "{log}");
}

/// Whoever reads the log sees whose request it was, and what it was about.
#[tokio::test]
async fn the_log_has_the_key_the_account_and_the_code_of_a_request() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--log", "info", "--log-format", "json"]).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    let made = client.post("/v1/videos", &videos_order()).await;
    let task = made.header("x-task-id").unwrap().to_owned();
    // A poll, which is left out at this level.
    client.get(&format!("/v1/tasks/{task}")).await.ok();
    let mut unknown = videos_order();
    unknown["model"] = "film-9".into();
    let refused = client.post("/v1/videos", &unknown).await;
    refused.refused(404, "model_not_found");
    let lines = crate::support::eventually("both requests are logged", async || {
        let log = server.stderr();
        let lines = log
            .lines()
            .filter(|line| line.contains("request completed"));
        // The last line may not be complete yet.
        let lines: Vec<serde_json::Value> = lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        lines
            .iter()
            .any(|line| line["status"] == 404)
            .then_some(lines)
    })
    .await;
    let keys = client.get("/v1/tasks").await.ok();
    let key_id = &keys["data"][0]["key"]["id"];
    let [order, refusal] = &lines[..] else {
        panic!("two lines: {lines:?}");
    };
    for (line, expected) in [
        (order, json!([200, null, "animatic-1", task])),
        (refusal, json!([404, "model_not_found", "film-9", null])),
    ] {
        let facts = ["status", "code", "model", "task_id"].map(|name| line[name].clone());
        assert_eq!(json!(facts), expected, "{line}");
        assert_eq!(
            (&line["key_id"], &line["account"]),
            (key_id, &json!("default"))
        );
    }
}

#[tokio::test]
async fn a_draining_process_is_not_ready_and_still_accepts_requests() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--drain-delay", "1m"]).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    server.signal("-TERM");
    crate::support::eventually("it is not ready", async || {
        (client.get("/readyz").await.status == 503).then_some(())
    })
    .await;
    client.get("/readyz").await.refused(503, "shutting_down");
    client.post("/v1/videos", &videos_order()).await.ok();
    // A second signal ends it at once.
    server.signal("-TERM");
    let (status, _) = server.wait_for_exit().await;
    assert_eq!(status.code(), Some(1));
}
