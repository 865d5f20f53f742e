//! One try of a caller, and what came of it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mediagate_model::error::ErrorCode;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::intent::{Intent, Kind};
use crate::knobs::now_micros;

/// One request.
#[derive(Clone)]
pub(crate) struct Try {
    pub(crate) sent_at: i64,
    pub(crate) ended_at: i64,
    pub(crate) got: Got,
    /// The task that the answer's head named.
    pub(crate) task: Option<String>,
    /// It asked for something else under the same key.
    pub(crate) otherwise: bool,
}

/// What came of it.
#[derive(Debug, Clone)]
pub(crate) enum Got {
    /// Nobody was there.
    Unreached,
    /// The connection ended before the answer did.
    Lost,
    /// The caller went away.
    HungUp,
    /// An answer, whole.
    Whole(Answer),
}

/// An answer that was read to its end.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Of an error, in a stream too.
    pub(crate) code: Option<String>,
    pub(crate) should_retry: bool,
    pub(crate) retry_after: Option<u64>,
    pub(crate) replayed: bool,
    pub(crate) bytes: Bytes,
    pub(crate) streamed: bool,
}

/// In a few words: a report of a violation is long enough.
impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let code = self.code.as_deref().unwrap_or_default();
        let copy = if self.replayed { " (a copy)" } else { "" };
        let whole = self.bytes.len();
        write!(f, "{} {code} of {whole} bytes{copy}", self.status)
    }
}

impl Answer {
    pub(crate) fn is_good(&self) -> bool {
        self.status == 200 && self.code.is_none()
    }

    pub(crate) fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }
}

impl std::fmt::Debug for Try {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (from, to) = (
            self.sent_at / 1000 % 1_000_000,
            self.ended_at / 1000 % 1_000_000,
        );
        let task = self.task.as_deref().unwrap_or("no task");
        let other = if self.otherwise { ", another body" } else { "" };
        write!(f, "\n    {from}-{to} ms: {:?}, {task}{other}", self.got)
    }
}

impl Try {
    pub(crate) fn answer(&self) -> Option<&Answer> {
        match &self.got {
            Got::Whole(answer) => Some(answer),
            _ => None,
        }
    }

    /// The answer, when it is what was asked for.
    pub(crate) fn good(&self) -> Option<&Answer> {
        self.answer()
            .filter(|answer| answer.is_good() && !self.otherwise)
    }
}

/// Sends a request and reads the answer, for as long as the caller stays.
pub(crate) async fn send(
    request: reqwest::RequestBuilder,
    intent: &Intent,
    patience: Duration,
) -> Try {
    let mut one = Try {
        sent_at: now_micros(),
        ended_at: 0,
        got: Got::HungUp,
        task: None,
        otherwise: false,
    };
    let mut task = None;
    let answer = read(request, intent.kind == Kind::Stream, &mut task);
    // Dropping the request closes its connection.
    if let Ok(got) = tokio::time::timeout(patience, answer).await {
        one.got = got;
    }
    one.task = task;
    one.ended_at = now_micros();
    one
}

async fn read(request: reqwest::RequestBuilder, is_stream: bool, task: &mut Option<String>) -> Got {
    let mut response = match request.send().await {
        Ok(response) => response,
        Err(error) if error.is_connect() => return Got::Unreached,
        Err(_) => return Got::Lost,
    };
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    *task = header(&headers, "x-task-id");
    let streamed = is_stream && status == 200;
    let mut bytes = BytesMut::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => break,
            // Of a stream the caller may have had all that it waits for.
            Err(_) if streamed && end_of_stream(&bytes).is_some() => break,
            Err(_) => return Got::Lost,
        }
    }
    let bytes = bytes.freeze();
    let code = if streamed {
        match end_of_stream(&bytes) {
            Some(StreamEnd::Done) => None,
            Some(StreamEnd::Failed(code)) => Some(code),
            None => return Got::Lost,
        }
    } else {
        code_of(&bytes)
    };
    let should_retry = match &code {
        Some(code) if streamed => ErrorCode::from_name(code).is_some_and(ErrorCode::retryable),
        _ => header(&headers, "x-should-retry").as_deref() == Some("true"),
    };
    Got::Whole(Answer {
        status,
        code,
        should_retry,
        retry_after: header(&headers, "retry-after").and_then(|text| text.parse().ok()),
        replayed: header(&headers, "idempotent-replayed").as_deref() == Some("true"),
        bytes,
        streamed,
    })
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().unwrap().to_owned())
}

fn code_of(bytes: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(bytes).ok()?;
    Some(body["error"]["code"].as_str()?.to_owned())
}

/// How a stream ended.
enum StreamEnd {
    /// As it should.
    Done,
    /// With this error.
    Failed(String),
}

/// How a stream came to its end, if it did.
fn end_of_stream(bytes: &[u8]) -> Option<StreamEnd> {
    let text = std::str::from_utf8(bytes).ok()?;
    let events: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .collect();
    let failed = events.iter().find_map(|event| code_of(event.as_bytes()));
    let is_done = events.last() == Some(&"[DONE]");
    failed
        .map(StreamEnd::Failed)
        .or(is_done.then_some(StreamEnd::Done))
}

/// Where an answer names its task beside the head, in the words of its endpoint.
pub(crate) fn task_in(kind: Kind, answer: &Answer) -> Option<String> {
    let body: Value = serde_json::from_slice(&answer.bytes).ok()?;
    let id = body["id"].as_str()?;
    let id = match kind {
        Kind::Chat => id.strip_prefix("chatcmpl-")?,
        Kind::Videos => id.strip_prefix("video_")?,
        Kind::Stems | Kind::Song => id,
        Kind::Stream | Kind::Persona | Kind::Upload => return None,
    };
    Some(uuid::Uuid::parse_str(id).ok()?.to_string())
}
