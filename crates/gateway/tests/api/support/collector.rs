//! A collector of traces: receives spans over OTLP, decodes them, and answers as the test says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;

use crate::support::eventually;

/// A span as it arrived, with the attributes of its process.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedSpan {
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) state: String,
    pub(crate) kind: SpanKind,
    pub(crate) has_failed: bool,
    pub(crate) attributes: HashMap<String, String>,
    pub(crate) process: HashMap<String, String>,
}

impl ReceivedSpan {
    pub(crate) fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// How the collector answers.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Status(u16),
    /// Accepted, except for this many spans.
    Partly(i64),
    /// Accepted after this delay.
    Late(Duration),
}

#[derive(Clone, Default)]
struct SharedState(Arc<Mutex<CollectorState>>);

#[derive(Default)]
struct CollectorState {
    requests: Vec<Vec<ReceivedSpan>>,
    bodies: Vec<Bytes>,
    answers: Vec<Answer>,
    default_answer: Option<Answer>,
}

pub(crate) struct Collector {
    pub(crate) url: String,
    state: SharedState,
    server: tokio::task::JoinHandle<()>,
}

impl Collector {
    /// Accepts everything.
    pub(crate) async fn start() -> Self {
        Self::answering(Vec::new(), Answer::Status(200)).await
    }

    /// Gives these answers in turn, and `default_answer` to all later requests.
    pub(crate) async fn answering(answers: Vec<Answer>, default_answer: Answer) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = SharedState::default();
        {
            let mut inner = state.0.lock().unwrap();
            (inner.answers, inner.default_answer) = (answers, Some(default_answer));
        }
        let routes = Router::new()
            .route("/v1/traces", post(receive))
            .with_state(state.clone());
        let server = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, state, server }
    }

    /// Answers like this from now on.
    pub(crate) fn answer(&self, answer: Answer) {
        self.state.0.lock().unwrap().default_answer = Some(answer);
    }

    /// Everything that arrived, accepted or not.
    pub(crate) fn spans(&self) -> Vec<ReceivedSpan> {
        let state = self.state.0.lock().unwrap();
        state.requests.iter().flatten().cloned().collect()
    }

    /// The bodies that arrived, as they were posted.
    pub(crate) fn bodies(&self) -> Vec<Bytes> {
        self.state.0.lock().unwrap().bodies.clone()
    }

    pub(crate) fn requests(&self) -> usize {
        self.state.0.lock().unwrap().requests.len()
    }

    /// Waits for a span of this name.
    pub(crate) async fn span(&self, name: &str) -> ReceivedSpan {
        eventually(&format!("the span {name}"), async || {
            self.spans().into_iter().find(|span| span.name == name)
        })
        .await
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn receive(State(state): State<SharedState>, headers: HeaderMap, body: Bytes) -> Response {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let request = ExportTraceServiceRequest::decode(body.clone()).unwrap();
    let answer = {
        let mut inner = state.0.lock().unwrap();
        inner.requests.push(spans_of(request));
        inner.bodies.push(body);
        if inner.answers.is_empty() {
            inner.default_answer.clone().unwrap()
        } else {
            inner.answers.remove(0)
        }
    };
    let (status, body) = match answer {
        Answer::Status(status) => (status, Vec::new()),
        // partial_success { rejected_spans: n }
        Answer::Partly(rejected) => (200, partial_success(rejected)),
        Answer::Late(time) => {
            tokio::time::sleep(time).await;
            (200, Vec::new())
        }
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

fn partial_success(rejected_spans: i64) -> Vec<u8> {
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceResponse,
    };
    let partial_success = Some(ExportTracePartialSuccess {
        rejected_spans,
        error_message: String::new(),
    });
    ExportTraceServiceResponse { partial_success }.encode_to_vec()
}

fn spans_of(request: ExportTraceServiceRequest) -> Vec<ReceivedSpan> {
    let mut spans = Vec::new();
    for resource in request.resource_spans {
        let process = attributes(resource.resource.unwrap().attributes);
        for span in resource
            .scope_spans
            .into_iter()
            .flat_map(|scope| scope.spans)
        {
            assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
            spans.push(ReceivedSpan {
                kind: span.kind(),
                name: span.name,
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                state: span.trace_state,
                has_failed: span.status.is_some_and(|status| status.code == 2),
                attributes: attributes(span.attributes),
                process: process.clone(),
            });
        }
    }
    spans
}

fn attributes(pairs: Vec<KeyValue>) -> HashMap<String, String> {
    let pairs = pairs.into_iter().map(|attribute| {
        let value = match attribute.value.unwrap().value.unwrap() {
            any_value::Value::StringValue(text) => text,
            any_value::Value::IntValue(number) => number.to_string(),
            other => panic!("{other:?}"),
        };
        (attribute.key, value)
    });
    pairs.collect()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
