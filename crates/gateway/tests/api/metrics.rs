//! `/metrics`.

use std::collections::{BTreeMap, BTreeSet};

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use reqwest::Method;
use serde_json::json;
use simulator::{Simulator, WebhookReceiver};

use crate::process::{Process, free_port};
use crate::support::bucket::{ACCESS_KEY, SECRET_KEY, TestBucket};
use crate::support::collector::Collector;
use crate::support::gateway::finished;
use crate::support::program::{Server, program};
use crate::support::{Client, TestGateway, eventually};

#[tokio::test]
async fn only_an_admin_sees_metrics_and_they_contain_no_secret() {
    let gateway = TestGateway::builder()
        .toml(
            r#"
            [providers.studio]
            protocol = "openai-videos"
            base_url = "http://127.0.0.1:9/v1"
            api_key = "sk-of-the-studio"
            [models.film-1]
            kind = "video"
            price = "free"
            routes = [{ provider = "studio", model = "film" }]
            "#,
        )
        .start()
        .await;
    gateway
        .post(
            "/v1/videos",
            &json!({"model": "animatic-1", "prompt": "a heron in the reeds", "seconds": "4"}),
        )
        .await
        .ok();
    let tasks = gateway.get("/v1/tasks").await.ok();
    gateway
        .finished(tasks["data"][0]["id"].as_str().unwrap())
        .await;

    let limited = Scope::ALL
        .iter()
        .copied()
        .filter(|scope| *scope != Scope::Admin);
    let limited = NewKey {
        name: "no admin".into(),
        scopes: limited.collect(),
        ..NewKey::default()
    };
    let limited = gateway.caller("default", limited).await;
    let refused = limited.get("/metrics").await;
    refused.refused(403, "insufficient_scope");

    let admin = NewKey {
        name: "admin".into(),
        scopes: vec![Scope::Admin],
        ..NewKey::default()
    };
    let admin = gateway.caller("default", admin).await;
    let answer = admin.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let text = answer.whole_text();
    for line in [
        "# TYPE mediagate_tasks_ended_total counter",
        r#"mediagate_tasks_accepted_total{kind="video",model="animatic-1"}"#,
        r#"mediagate_tasks_ended_total{kind="video",model="animatic-1",outcome="succeeded"}"#,
        r#"mediagate_upstream_open_jobs{provider="studio"} 0"#,
        "mediagate_build_info{version=",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    let secrets = [&limited.key, &admin.key, &gateway.key];
    for secret in secrets.into_iter().flatten() {
        assert!(!text.contains(secret.as_str()));
    }
    assert!(!text.contains("sk-of-the-studio") && !text.contains("heron"));
    // Several gateways in one process share the counters without failing.
    let second_gateway = TestGateway::builder().without_workers().start().await;
    assert_eq!(second_gateway.get("/healthz").await.status, 200);
    second_gateway.stop().await;
    gateway.stop().await;
}

/// The documented metrics, each with its labels.
fn documented_metrics() -> BTreeMap<String, BTreeSet<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| `mediagate_"));
    let parse = |row: &str| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let labels = cells[4]
            .split(',')
            .map(|label| label.trim().trim_matches('`'));
        let labels = labels.filter(|label| !label.is_empty());
        (
            cells[1].trim_matches('`').to_owned(),
            labels.map(ToOwned::to_owned).collect(),
        )
    };
    rows.map(parse).collect()
}

/// The metrics of an answer, each with its labels; a histogram under its own name.
fn parse_metrics(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let kinds: BTreeMap<&str, &str> = kinds.filter_map(|line| line.split_once(' ')).collect();
    let mut metrics = BTreeMap::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (series, labels) = series.split_once('{').unwrap_or((series, ""));
        let histogram_name = ["_bucket", "_sum", "_count"].iter().find_map(|ending| {
            let name = series.strip_suffix(ending)?;
            (kinds.get(name) == Some(&"histogram")).then_some(name)
        });
        let labels = labels.trim_end_matches('}').split("\",");
        let labels = labels
            .filter_map(|label| label.split_once('='))
            .map(|(name, _)| name);
        let labels: BTreeSet<String> = labels
            .filter(|name| *name != "le")
            .map(ToOwned::to_owned)
            .collect();
        metrics.insert(histogram_name.unwrap_or(series).to_owned(), labels);
    }
    metrics
}

/// The real program, a server and a worker, after work of every kind: its metrics are documented,
/// with these labels and no others.
#[tokio::test(flavor = "multi_thread")]
async fn the_programs_metrics_are_documented() {
    let (folder, receiver) = (
        tempfile::tempdir().unwrap(),
        WebhookReceiver::start().await.unwrap(),
    );
    let (bucket, provider) = (TestBucket::start().await, Simulator::start().await.unwrap());
    let collector = Collector::start().await;
    let worker_address = format!("127.0.0.1:{}", free_port());
    let settings = format!(
        "[providers.acme]\nprotocol = \"openai-videos\"\nbase_url = \"{}\"\napi_key = \"sk-simulated-0123456789\"\n\
         [models.film]\nkind = \"video\"\nprice = {{ unit = \"second\", usd = \"0.10\" }}\n\
         routes = [{{ provider = \"acme\", model = \"sora-2\" }}]\n\
         [fetch]\nallow_networks = [\"127.0.0.0/8\"]\n\
         [media]\nstore = \"{}\"\nendpoint = \"http://{}\"\naccess_key = \"{ACCESS_KEY}\"\nsecret_key = \"{SECRET_KEY}\"\n\
         [telemetry]\notlp = \"{}\"\n",
        provider.url("openai-videos"),
        TestBucket::address(),
        bucket.proxy.address(),
        collector.url,
    );
    let file = folder.path().join("mediagate.toml");
    std::fs::write(&file, settings).unwrap();
    let (data, file) = (folder.path().to_str().unwrap(), file.to_str().unwrap());
    let server = Server::start(folder.path(), &["--config", file]).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    let args = [
        "worker",
        "--data",
        data,
        "--config",
        file,
        "--metrics-listen",
        &worker_address,
    ];
    let _worker = Process::start(&mut program(&args));
    let order = json!({"model": "film", "prompt": "a heron", "seconds": "4", "callback_url": receiver.url("/hook")});
    let answer = client.post("/v1/videos", &order).await;
    finished(&client, answer.header("x-task-id").unwrap()).await;
    let worker = Client::new(&format!("http://{worker_address}"), None);
    eventually("the worker answers", async || {
        let request = worker.request(Method::GET, "/healthz");
        request.send().await.ok()
    })
    .await;
    let metrics = eventually("both processes show what they did", async || {
        let mut metrics = BTreeMap::new();
        for client in [&client, &worker] {
            let answer = client.get("/metrics").await;
            assert_eq!(answer.status, 200);
            let client_metrics = parse_metrics(&answer.whole_text());
            assert!(client_metrics.contains_key("mediagate_build_info"));
            metrics.extend(client_metrics);
        }
        let delayed = [
            "mediagate_webhooks_attempts_total",
            "mediagate_trace_spans_total",
        ];
        delayed
            .iter()
            .all(|name| metrics.contains_key(*name))
            .then_some(metrics)
    })
    .await;
    let documented = documented_metrics();
    for (name, labels) in &metrics {
        assert_eq!(documented.get(name), Some(labels), "{name}");
    }
    // Most metrics appear without a fault. `tests/tidy` reads the others from the source.
    assert!(metrics.len() >= 15, "{:?}", metrics.keys());
    server.stop().await;
}

#[tokio::test]
async fn responses_are_counted_by_route_status_and_code() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let admin = NewKey {
        name: "admin".into(),
        scopes: vec![Scope::Admin],
        ..NewKey::default()
    };
    let admin = gateway.caller("default", admin).await;
    gateway.get("/v1/personas-of-nobody").await;
    let refused = gateway.get("/v1/tasks?no_such_parameter=1").await;
    refused.refused(400, "unsupported_value");
    let metrics = admin.get("/metrics").await.whole_text();
    for line in [
        "mediagate_http_answers_total{route=\"none\",status=\"404\",code=\"route_not_found\"}",
        "mediagate_http_answers_total{route=\"/v1/tasks\",status=\"400\",code=\"unsupported_value\"}",
        "mediagate_http_answer_seconds_count{route=\"/v1/tasks\"}",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    gateway.stop().await;
}
