//! `/metrics`.

use std::collections::{BTreeMap, BTreeSet};

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use reqwest::Method;
use serde_json::json;
use simulator::{Simulator, WebhookReceiver};

use crate::process::Process;
use crate::support::bucket::{ACCESS_KEY, SECRET_KEY, TestBucket};
use crate::support::collector::Collector;
use crate::support::gateway::finished;
use crate::support::program::{Server, program};
use crate::support::{Client, TestGateway, eventually};

#[tokio::test]
async fn only_an_admin_sees_what_is_counted_and_nothing_secret_is() {
    let gateway = TestGateway::builder()
        .toml(
            r#"
            [providers.studio]
            protocol = "openai-videos"
            base_url = "http://127.0.0.1:9/v1"
            api_key = "sk-of-the-studio"
            [models.film-1]
            kind = "video"
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

    let usual = Scope::ALL
        .iter()
        .copied()
        .filter(|scope| *scope != Scope::Admin);
    let usual = NewKey {
        name: "no admin".into(),
        scopes: usual.collect(),
        ..NewKey::default()
    };
    let usual = gateway.caller("default", usual).await;
    let refused = usual.get("/metrics").await;
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
    let secrets = [&usual.key, &admin.key, &gateway.key];
    for secret in secrets.into_iter().flatten() {
        assert!(!text.contains(secret.as_str()));
    }
    assert!(!text.contains("sk-of-the-studio") && !text.contains("heron"));
    // Several gateways in one process count together, and none fails.
    let other = TestGateway::builder().without_workers().start().await;
    assert_eq!(other.get("/healthz").await.status, 200);
    other.stop().await;
    gateway.stop().await;
}

/// The metrics that are documented, each with its labels.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| `mediagate_"));
    let read = |row: &str| {
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
    rows.map(read).collect()
}

/// The metrics of an answer, each with its labels; a histogram's by its own name.
fn shown(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let kinds: BTreeMap<&str, &str> = kinds.filter_map(|line| line.split_once(' ')).collect();
    let mut found = BTreeMap::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (series, labels) = series.split_once('{').unwrap_or((series, ""));
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|ending| {
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
        found.insert(of_histogram.unwrap_or(series).to_owned(), labels);
    }
    found
}

/// The real program, a server and a worker, after work of every kind: what it shows is documented,
/// with these labels and no others.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_program_shows_is_what_is_documented() {
    let (folder, receiver) = (
        tempfile::tempdir().unwrap(),
        WebhookReceiver::start().await.unwrap(),
    );
    let (bucket, provider) = (TestBucket::start().await, Simulator::start().await.unwrap());
    let collector = Collector::start().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let there = free.local_addr().unwrap().to_string();
    drop(free);
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
    let words = [
        "worker",
        "--data",
        data,
        "--config",
        file,
        "--metrics-listen",
        &there,
    ];
    let _worker = Process::start(&mut program(&words));
    let order = json!({"model": "film", "prompt": "a heron", "seconds": "4", "callback_url": receiver.url("/hook")});
    let made = client.post("/v1/videos", &order).await;
    finished(&client, made.header("x-task-id").unwrap()).await;
    let worker = Client::new(&format!("http://{there}"), None);
    eventually("the worker answers", async || {
        let request = worker.request(Method::GET, "/healthz");
        request.send().await.ok()
    })
    .await;
    let all = eventually("both show what they did", async || {
        let mut all = BTreeMap::new();
        for client in [&client, &worker] {
            let answer = client.get("/metrics").await;
            assert_eq!(answer.status, 200);
            let shown = shown(&answer.whole_text());
            assert!(shown.contains_key("mediagate_build_info"));
            all.extend(shown);
        }
        let late = [
            "mediagate_webhooks_attempts_total",
            "mediagate_trace_spans_total",
        ];
        late.iter()
            .all(|name| all.contains_key(*name))
            .then_some(all)
    })
    .await;
    let documented = documented();
    for (name, labels) in &all {
        assert_eq!(documented.get(name), Some(labels), "{name}");
    }
    // Most are there without a fault; the rest need one, and `tests/tidy` reads them from the source.
    assert!(all.len() >= 15, "{:?}", all.keys());
    server.stop().await;
}
