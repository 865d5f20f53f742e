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
    pub(crate) outcome: TryOutcome,
    /// The task that the answer's header names.
    pub(crate) task: Option<String>,
    /// It had another body under the same key.
    pub(crate) has_other_body: bool,
}

/// The outcome of a try.
#[derive(Debug, Clone)]
pub(crate) enum TryOutcome {
    /// No gateway listened.
    Unreached,
    /// The connection ended before the answer did.
    Lost,
    /// The caller went away.
    HungUp,
    /// An answer, whole.
    Answered(Answer),
}

/// An answer that was read to its end.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The code of an error, which may be in a stream.
    pub(crate) code: Option<String>,
    pub(crate) should_retry: bool,
    pub(crate) retry_after: Option<u64>,
    pub(crate) replayed: bool,
    pub(crate) bytes: Bytes,
    pub(crate) streamed: bool,
}

/// Short, because reports of violations are long.
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
        let other = if self.has_other_body {
            ", another body"
        } else {
            ""
        };
        write!(f, "\n    {from}-{to} ms: {:?}, {task}{other}", self.outcome)
    }
}

impl Try {
    pub(crate) fn answer(&self) -> Option<&Answer> {
        match &self.outcome {
            TryOutcome::Answered(answer) => Some(answer),
            _ => None,
        }
    }

    /// The answer, if it is the wanted result.
    pub(crate) fn good(&self) -> Option<&Answer> {
        self.answer()
            .filter(|answer| answer.is_good() && !self.has_other_body)
    }
}

/// Sends a request and reads the answer until the timeout.
pub(crate) async fn send(
    request: reqwest::RequestBuilder,
    intent: &Intent,
    timeout: Duration,
) -> Try {
    let mut attempt = Try {
        sent_at: now_micros(),
        ended_at: 0,
        outcome: TryOutcome::HungUp,
        task: None,
        has_other_body: false,
    };
    let mut task = None;
    let answer = read(request, intent.kind == Kind::Stream, &mut task);
    // Dropping the request closes its connection.
    if let Ok(outcome) = tokio::time::timeout(timeout, answer).await {
        attempt.outcome = outcome;
    }
    attempt.task = task;
    attempt.ended_at = now_micros();
    attempt
}

async fn read(
    request: reqwest::RequestBuilder,
    is_stream: bool,
    task: &mut Option<String>,
) -> TryOutcome {
    let mut response = match request.send().await {
        Ok(response) => response,
        Err(error) if error.is_connect() => return TryOutcome::Unreached,
        Err(_) => return TryOutcome::Lost,
    };
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    *task = header(&headers, "x-task-id");
    let streamed = is_stream && status == 200;
    let mut bytes = BytesMut::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => break,
            // The caller may already have the end of the stream.
            Err(_) if streamed && end_of_stream(&bytes).is_some() => break,
            Err(_) => return TryOutcome::Lost,
        }
    }
    let bytes = bytes.freeze();
    let code = if streamed {
        match end_of_stream(&bytes) {
            Some(StreamEnd::Done) => None,
            Some(StreamEnd::Failed(code)) => Some(code),
            None => return TryOutcome::Lost,
        }
    } else {
        code_of(&bytes)
    };
    let should_retry = match &code {
        Some(code) if streamed => ErrorCode::from_name(code).is_some_and(ErrorCode::retryable),
        _ => header(&headers, "x-should-retry").as_deref() == Some("true"),
    };
    TryOutcome::Answered(Answer {
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
    /// With `[DONE]`.
    Done,
    /// With this error.
    Failed(String),
}

/// How a stream ended, if it did.
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

/// The task that an answer's body names, in the form of its endpoint.
pub(crate) fn task_named_in(kind: Kind, answer: &Answer) -> Option<String> {
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
