//! Traces over OTLP, of the real program: as a collector gets them, and as providers, receivers of
//! webhooks and the log name them.

use std::path::Path;
use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use reqwest::Method;
use serde_json::{Value, json};
use simulator::{Fault, FaultProxy, NetworkState, RequestRole, Simulator, WebhookReceiver};

use crate::process::Process;
use crate::support::collector::{Answer, Collector, ReceivedSpan};
use crate::support::gateway::finished;
use crate::support::program::{Server, program};
use crate::support::{Client, eventually, videos_order};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// A text that no span may contain.
const PROMPT: &str = "a prompt that nobody else may read";

/// The settings file of a gateway with one hosted model.
fn settings(folder: &Path, provider: &Simulator) -> String {
    let url = provider.url("openai-videos");
    let text = format!(
        "[providers.acme]\nprotocol = \"openai-videos\"\nbase_url = \"{url}\"\napi_key = \"sk-simulated-0123456789\"\n\
         [models.film]\nkind = \"video\"\nprice = {{ unit = \"second\", usd = \"0.10\" }}\n\
         routes = [{{ provider = \"acme\", model = \"sora-2\" }}]\n\
         [fetch]\nallow_networks = [\"127.0.0.0/8\"]\n"
    );
    let path = folder.join("mediagate.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A server that exports to this collector.
async fn start_traced(data: &Path, url: &str, extra: &[&str]) -> (Server, Client) {
    let mut args = vec!["--telemetry-otlp", url];
    args.extend(extra);
    let server = Server::start(data, &args).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    (server, client)
}

async fn order(client: &Client, body: &Value, headers: &[(&str, &str)]) -> String {
    let mut request = client.request(Method::POST, "/v1/videos").json(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = client.send(request).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.header("x-task-id").unwrap().to_owned()
}

fn single_span<'a>(spans: &'a [ReceivedSpan], name: &str) -> &'a ReceivedSpan {
    let mut matching = spans.iter().filter(|span| span.name == name);
    let first = matching
        .next()
        .unwrap_or_else(|| panic!("no {name}: {spans:#?}"));
    assert!(matching.next().is_none(), "more than one {name}");
    first
}

/// The span that a `traceparent` names.
fn sender<'a>(spans: &'a [ReceivedSpan], traceparent: &str) -> &'a ReceivedSpan {
    let id = traceparent.split('-').nth(2).unwrap();
    let sender = spans.iter().find(|span| span.id == id);
    sender.unwrap_or_else(|| panic!("nobody sent {traceparent}: {spans:#?}"))
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one scenario, in its order")]
async fn one_trace_from_the_request_to_the_webhook_though_the_process_dies() {
    let folder = tempfile::tempdir().unwrap();
    let (collector, receiver) = (
        Collector::start().await,
        WebhookReceiver::start().await.unwrap(),
    );
    let provider = Simulator::start().await.unwrap();
    // No process learns that the job is done until the first process is dead.
    let busy = Fault::Status {
        status: 503,
        retry_after: None,
        bare: false,
    };
    provider
        .world()
        .order_fault(busy, None, Some(RequestRole::Poll), 1000);
    let file = settings(folder.path(), &provider);
    let (server, client) = start_traced(folder.path(), &collector.url, &["--config", &file]).await;
    let callback_url = receiver.url("/hook");
    let body =
        json!({"model": "film", "prompt": PROMPT, "seconds": "4", "callback_url": callback_url});
    let headers = [("traceparent", PARENT), ("tracestate", "acme=a1, other=b2")];
    let task = order(&client, &body, &headers).await;
    // One process accepts and submits the order and is killed. Another does the rest.
    let request = collector.span("POST /v1/videos").await;
    collector.span("provider submit").await;
    server.crash();
    provider.world().clear_faults();
    let data = folder.path().to_str().unwrap();
    let args = ["worker", "--data", data, "--config", &file];
    let url = collector.url.as_str();
    let otlp = ["--telemetry-otlp", url, "--log-format", "json"];
    let mut command = program(&[&args[..], &otlp].concat());
    let worker = Process::start(&mut command);
    let posted = receiver.wait_for_count(1).await;
    let webhook = collector.span("webhook").await;
    let settled = eventually("the task is settled", async || {
        let spans = collector.spans().into_iter();
        let mut settled = spans.filter(|span| span.name == "settle");
        settled.find(|span| span.process == webhook.process)
    })
    .await;
    collector.span("run").await;
    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
    assert!(spans.iter().all(|span| span.state.is_empty()));

    assert_eq!(
        (request.parent.as_str(), request.kind),
        ("00f067aa0ba902b7", SpanKind::Server)
    );
    assert_eq!(request.attribute("http.route"), "/v1/videos");
    assert_eq!(request.attribute("http.response.status_code"), "200");
    assert_eq!(request.process["service.name"], "mediagate");
    assert_ne!(
        request.process["service.instance.id"],
        webhook.process["service.instance.id"]
    );
    assert_eq!(single_span(&spans, "accept").parent, request.id);
    let submitted = single_span(&spans, "provider submit");
    assert_eq!(submitted.attribute("mediagate.provider"), "acme");
    assert_eq!(submitted.attribute("mediagate.outcome"), "ok");
    let run = single_span(&spans, "run");
    assert_eq!(
        (run.parent.as_str(), run.kind),
        (request.id.as_str(), SpanKind::Consumer)
    );
    assert_eq!(run.attribute("mediagate.task_id"), task);
    assert_eq!(run.attribute("mediagate.attempt"), "2");
    assert_eq!(run.attribute("mediagate.outcome"), "made");
    // The span of the killed run never ended, but its children still name it.
    assert!(submitted.parent != run.id && !submitted.parent.is_empty());
    assert_eq!(settled.parent, run.id);
    let results = single_span(&spans, "results");
    assert_eq!(results.parent, run.id);
    assert_eq!(single_span(&spans, "provider download").parent, results.id);
    assert_eq!(
        (webhook.parent.as_str(), webhook.kind),
        (request.id.as_str(), SpanKind::Client)
    );

    // Providers and webhook receivers get the span of the call.
    let journal = provider.world().journal();
    for (role, name) in [
        (RequestRole::Submit, "provider submit"),
        (RequestRole::Poll, "provider poll"),
    ] {
        let call = journal.iter().rfind(|call| call.role == role).unwrap();
        let parent = call.headers["traceparent"].to_str().unwrap();
        assert_eq!(sender(&spans, parent).name, name);
        assert!(parent.ends_with("-01"));
        assert!(!call.headers.contains_key("tracestate"), "{call:?}");
    }
    assert_eq!(
        sender(&spans, posted[0].header("traceparent")).id,
        webhook.id
    );

    // The traces contain no text of the caller, no address and no secret.
    let traces: Vec<u8> = collector.bodies().concat();
    let traces = String::from_utf8_lossy(&traces);
    let key = client.key.as_deref().unwrap();
    for secret in [
        PROMPT,
        callback_url.as_str(),
        provider.url("openai-videos").as_str(),
        "127.0.0.1",
        "sk-sim",
        key,
    ] {
        assert!(!traces.contains(secret), "{secret}");
    }
    // The lines of the log name their trace.
    let log = worker.stderr();
    let mut lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let line = lines
        .find(|line| line["message"] == "task succeeded")
        .unwrap();
    assert_eq!(line["span"]["trace_id"], TRACE, "{line}");
    worker.signal("-TERM");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_valid_traceparent_starts_a_trace() {
    let (folder, collector) = (tempfile::tempdir().unwrap(), Collector::start().await);
    let (server, client) = start_traced(folder.path(), &collector.url, &[]).await;
    let malformed = (
        "traceparent",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
    );
    let mut tasks = Vec::new();
    for headers in [&[][..], &[malformed]] {
        tasks.push(order(&client, &videos_order(), headers).await);
    }
    for task in &tasks {
        finished(&client, task).await;
    }
    // Span names come from the API, never from the request.
    let odd_request = client.request(Method::from_bytes(b"ODD").unwrap(), "/no/such/path");
    assert_eq!(
        client
            .http
            .execute(odd_request.build().unwrap())
            .await
            .unwrap()
            .status(),
        404
    );
    let stdout = server.stop().await;
    assert!(stdout.contains("ready at"));
    // The server sent all spans before it ended.
    let spans = collector.spans();
    for task in &tasks {
        let run = spans
            .iter()
            .find(|span| span.attribute("mediagate.task_id") == task);
        let run = run.unwrap();
        let mut trace_spans = spans.iter().filter(|span| span.trace == run.trace);
        let root = trace_spans.find(|span| span.parent.is_empty()).unwrap();
        assert_eq!(
            (root.name.as_str(), &run.parent),
            ("POST /v1/videos", &root.id)
        );
        assert_ne!(root.trace, TRACE);
        assert_eq!(
            (run.attribute("mediagate.model"), root.has_failed),
            ("animatic-1", false)
        );
    }
    let names = ["GET /readyz", "GET /healthz"];
    assert!(!spans.iter().any(|span| names.contains(&span.name.as_str())));
    let odd_request = single_span(&spans, "HTTP");
    assert_eq!(odd_request.attribute("http.request.method"), "_OTHER");
    assert_eq!(
        (
            odd_request.attribute("http.route"),
            odd_request.attribute("http.response.status_code")
        ),
        ("", "404")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_callers_decision_not_to_sample_is_kept_and_passed_on() {
    let (folder, collector) = (tempfile::tempdir().unwrap(), Collector::start().await);
    let provider = Simulator::start().await.unwrap();
    let file = settings(folder.path(), &provider);
    let (server, client) = start_traced(folder.path(), &collector.url, &["--config", &file]).await;
    let unsampled = format!("{}00", &PARENT[..PARENT.len() - 2]);
    let body = json!({"model": "film", "prompt": PROMPT, "seconds": "4"});
    let task = order(&client, &body, &[("traceparent", &unsampled)]).await;
    let record = client.request(Method::GET, &format!("/v1/tasks/{task}?wait=30"));
    let record = client.send(record.header("traceparent", &unsampled)).await;
    assert_eq!(record.ok()["status"], "succeeded");
    server.stop().await;
    let spans: Vec<ReceivedSpan> = collector.spans();
    assert!(!spans.iter().any(|span| span.trace == TRACE), "{spans:#?}");
    let journal = provider.world().journal();
    let submitted = journal
        .iter()
        .find(|call| call.role == RequestRole::Submit)
        .unwrap();
    let parent = submitted.headers["traceparent"].to_str().unwrap();
    assert!(
        parent.starts_with(&PARENT[..35]) && parent.ends_with("-00"),
        "{parent}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_rate_of_zero_exports_nothing() {
    let (folder, collector) = (tempfile::tempdir().unwrap(), Collector::start().await);
    let args = ["--telemetry-sample", "0"];
    let (server, client) = start_traced(folder.path(), &collector.url, &args).await;
    assert_eq!(client.get("/v1/models").await.status, 200);
    let request = client
        .request(Method::GET, "/v1/models")
        .header("traceparent", PARENT);
    assert_eq!(client.send(request).await.status, 200);
    server.stop().await;
    let spans = collector.spans();
    assert_eq!(spans.len(), 0, "{spans:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_collector_no_trace_context_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let provider = Simulator::start().await.unwrap();
    let file = settings(folder.path(), &provider);
    let server = Server::start(folder.path(), &["--config", &file]).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    let body = json!({"model": "film", "prompt": PROMPT, "seconds": "4"});
    let task = order(&client, &body, &[("traceparent", PARENT)]).await;
    assert_eq!(finished(&client, &task).await["status"], "succeeded");
    assert!(!provider.world().journal().is_empty());
    for call in provider.world().journal() {
        assert!(!call.headers.contains_key("traceparent"), "{call:?}");
    }
    server.stop().await;
}

/// The number of spans with this outcome.
async fn span_count(client: &Client, outcome: &str) -> u64 {
    let metrics = client.get("/metrics").await.whole_text();
    let name = format!("mediagate_trace_spans_total{{outcome=\"{outcome}\"}} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&name));
    value.map_or(0, |value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_collector_gets_a_batch_again_and_a_refusing_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let answers = vec![Answer::Status(503), Answer::Status(429)];
    let collector = Collector::answering(answers, Answer::Status(200)).await;
    let (server, client) = start_traced(folder.path(), &collector.url, &[]).await;
    client.get("/v1/models").await.ok();
    eventually("the batch is taken", async || {
        (span_count(&client, "sent").await > 0).then_some(())
    })
    .await;
    let spans = collector.spans();
    let models: Vec<_> = spans
        .iter()
        .filter(|span| span.name == "GET /v1/models")
        .collect();
    assert_eq!(models.len(), 3, "{spans:#?}");
    assert!(models.iter().all(|span| span.id == models[0].id));
    assert_eq!(span_count(&client, "refused").await, 0);
    collector.answer(Answer::Partly(1));
    client.get("/v1/tasks").await.ok();
    eventually("one span is refused", async || {
        (span_count(&client, "refused").await == 1).then_some(())
    })
    .await;
    collector.answer(Answer::Status(400));
    client.get("/v1/account").await.ok();
    eventually("all spans are refused", async || {
        (span_count(&client, "refused").await > 1).then_some(())
    })
    .await;
    let account_spans = || {
        let spans = collector.spans().into_iter();
        spans.filter(|span| span.name == "GET /v1/account").count()
    };
    collector.answer(Answer::Status(200));
    client.get("/v1/usage").await.ok();
    collector.span("GET /v1/usage").await;
    assert_eq!(account_spans(), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_a_collector_and_dropped_spans_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::answering(Vec::new(), Answer::Late(Duration::from_hours(1))).await;
    let (server, client) = start_traced(folder.path(), &collector.url, &[]).await;
    client.get("/v1/models").await.ok();
    eventually("a batch is on its way", async || {
        (collector.requests() > 0).then_some(())
    })
    .await;
    // Makes more spans than can be kept while the collector does not answer.
    let clients = (0..32).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            for _ in 0..300 {
                let request = client.request(Method::GET, "/v1/no/such/endpoint");
                assert_eq!(request.send().await.unwrap().status(), 404);
            }
        })
    });
    for client_task in clients.collect::<Vec<_>>() {
        client_task.await.unwrap();
    }
    assert!(span_count(&client, "dropped").await > 0);
    assert_eq!(span_count(&client, "sent").await, 0);
    // The collector does not delay the server's shutdown for long, either.
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_collector_is_logged_once_and_used_when_it_returns() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::start().await;
    let collector_address = collector.url.strip_prefix("http://").unwrap();
    let proxy = FaultProxy::start(collector_address.parse().unwrap())
        .await
        .unwrap();
    proxy.set(NetworkState {
        refuses: true,
        ..NetworkState::default()
    });
    let url = format!("http://{}", proxy.address());
    let (server, client) = start_traced(folder.path(), &url, &[]).await;
    client.get("/v1/models").await.ok();
    eventually("the failure is logged", async || {
        server
            .stderr()
            .contains("the trace collector does not accept spans")
            .then_some(())
    })
    .await;
    assert_eq!(collector.requests(), 0);
    proxy.heal();
    collector.span("GET /v1/models").await;
    let log = server.stderr();
    assert_eq!(
        log.matches("the trace collector does not accept spans")
            .count(),
        1,
        "{log}"
    );
    assert!(!log.contains(&url), "{log}");
    server.stop().await;
}
