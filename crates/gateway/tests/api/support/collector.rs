//! A collector of traces: takes what it is posted over OTLP, decodes it, and answers as it is told.

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

/// A span as it arrived, and what it says of its process.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
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

impl Seen {
    pub(crate) fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// What is answered.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Status(u16),
    /// Taken, but for so many.
    Partly(i64),
    /// Nothing for this long.
    Late(Duration),
}

#[derive(Clone, Default)]
struct Book(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    requests: Vec<Vec<Seen>>,
    bodies: Vec<Bytes>,
    answers: Vec<Answer>,
    then: Option<Answer>,
}

pub(crate) struct Collector {
    pub(crate) url: String,
    book: Book,
    server: tokio::task::JoinHandle<()>,
}

impl Collector {
    /// Takes everything.
    pub(crate) async fn start() -> Self {
        Self::answering(Vec::new(), Answer::Status(200)).await
    }

    /// Answers so, in turn, and the rest like this.
    pub(crate) async fn answering(answers: Vec<Answer>, then: Answer) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let book = Book::default();
        {
            let mut pages = book.0.lock().unwrap();
            (pages.answers, pages.then) = (answers, Some(then));
        }
        let routes = Router::new()
            .route("/v1/traces", post(take))
            .with_state(book.clone());
        let server = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, book, server }
    }

    /// Answers like this from now on.
    pub(crate) fn answer(&self, then: Answer) {
        self.book.0.lock().unwrap().then = Some(then);
    }

    /// Everything that arrived, taken or not.
    pub(crate) fn spans(&self) -> Vec<Seen> {
        let pages = self.book.0.lock().unwrap();
        pages.requests.iter().flatten().cloned().collect()
    }

    /// What arrived, as it was posted.
    pub(crate) fn bodies(&self) -> Vec<Bytes> {
        self.book.0.lock().unwrap().bodies.clone()
    }

    pub(crate) fn requests(&self) -> usize {
        self.book.0.lock().unwrap().requests.len()
    }

    /// Waits for a span of this name.
    pub(crate) async fn span(&self, name: &str) -> Seen {
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

async fn take(State(book): State<Book>, headers: HeaderMap, body: Bytes) -> Response {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let request = ExportTraceServiceRequest::decode(body.clone()).unwrap();
    let answer = {
        let mut pages = book.0.lock().unwrap();
        pages.requests.push(read(request));
        pages.bodies.push(body);
        if pages.answers.is_empty() {
            pages.then.clone().unwrap()
        } else {
            pages.answers.remove(0)
        }
    };
    let (status, body) = match answer {
        Answer::Status(status) => (status, Vec::new()),
        // partial_success { rejected_spans: n }
        Answer::Partly(rejected) => (200, partial(rejected)),
        Answer::Late(time) => {
            tokio::time::sleep(time).await;
            (200, Vec::new())
        }
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

fn partial(rejected_spans: i64) -> Vec<u8> {
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceResponse,
    };
    let partial_success = Some(ExportTracePartialSuccess {
        rejected_spans,
        error_message: String::new(),
    });
    ExportTraceServiceResponse { partial_success }.encode_to_vec()
}

fn read(request: ExportTraceServiceRequest) -> Vec<Seen> {
    let mut seen = Vec::new();
    for resource in request.resource_spans {
        let process = attributes(resource.resource.unwrap().attributes);
        for span in resource
            .scope_spans
            .into_iter()
            .flat_map(|scope| scope.spans)
        {
            assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
            seen.push(Seen {
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
    seen
}

fn attributes(all: Vec<KeyValue>) -> HashMap<String, String> {
    let all = all.into_iter().map(|attribute| {
        let value = match attribute.value.unwrap().value.unwrap() {
            any_value::Value::StringValue(text) => text,
            any_value::Value::IntValue(number) => number.to_string(),
            other => panic!("{other:?}"),
        };
        (attribute.key, value)
    });
    all.collect()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
