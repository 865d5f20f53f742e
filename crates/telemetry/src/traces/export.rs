//! Export of spans to the collector, from a separate thread. Ending a span puts it into a queue or,
//! if that is full, drops it, and never waits.
//!
//! As OTLP over HTTP requires, a batch is sent again while the collector is unavailable or busy,
//! and dropped when the collector refuses it.

use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use opentelemetry::Context;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use prost::Message as _;
use reqwest::header::CONTENT_TYPE;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::counters;
use mediagate_model::bounds;

/// Maximum number of waiting spans, about 8 MB.
const QUEUE: usize = bounds::TRACE_SPANS.total.count();
/// Spans in one request.
const BATCH: usize = 512;
/// How long spans are collected into one batch.
const GATHER_TIME: Duration = Duration::from_secs(1);
/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Shortest and longest pause before a batch is sent again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// How long to try to send a batch.
const RETRY_LIMIT: Duration = Duration::from_mins(1);
/// Time limit for sending the remaining spans when the process ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The queue for ended spans.
#[derive(Debug)]
pub(super) struct SpanQueue(mpsc::Sender<SpanData>);

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.0.try_send(span).is_err() {
            counters::spans("dropped", 1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// The sending thread. When dropped, it sends the remaining spans and ends.
pub(super) struct ExporterThread {
    closing: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ExporterThread {
    fn drop(&mut self) {
        self.closing.cancel();
        if let Some(thread) = self.thread.take() {
            // It ends within `SHUTDOWN_TIMEOUT`, and has already logged any errors.
            let _ = thread.join();
        }
    }
}

/// Starts the thread. Fails with the reason why it cannot.
pub(super) fn start(url: Url, resource: &Resource) -> Result<(SpanQueue, ExporterThread), String> {
    let client = outbound::client(&[b"h2", b"http/1.1"], TIMEOUT)?
        .timeout(TIMEOUT)
        .build()
        .map_err(|error| error.to_string())?;
    // A separate runtime: the program's runtime ends first, and the last spans are sent after that.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let (to, from) = mpsc::channel(QUEUE);
    let closing = CancellationToken::new();
    let mut sender = SpanSender {
        from,
        closing: closing.clone(),
        client,
        url,
        resource: resource.into(),
        is_unavailable: false,
    };
    let thread = std::thread::Builder::new()
        .name("traces".into())
        .spawn(move || runtime.block_on(sender.run()))
        .map_err(|error| error.to_string())?;
    let thread = Some(thread);
    Ok((SpanQueue(to), ExporterThread { closing, thread }))
}

/// The outcome of an attempt.
enum ExportOutcome {
    /// The collector accepted the batch, except this many spans.
    Accepted { refused: usize },
    /// It refused the batch, and would do so again.
    Refused(String),
    /// It cannot accept the batch now. The time is how long it asked to wait, if it did.
    Unavailable(String, Option<Duration>),
}

struct SpanSender {
    from: mpsc::Receiver<SpanData>,
    closing: CancellationToken,
    client: reqwest::Client,
    url: Url,
    resource: ResourceAttributesWithSchema,
    /// Whether the last request failed; logged only once.
    is_unavailable: bool,
}

impl SpanSender {
    async fn run(&mut self) {
        let closing = self.closing.clone();
        let deadline = async {
            closing.cancelled().await;
            tokio::time::sleep(SHUTDOWN_TIMEOUT).await;
        };
        let send_all = async {
            while let Some(batch) = self.gather().await {
                self.deliver(batch).await;
            }
        };
        tokio::select! {
            () = send_all => {}
            () = deadline => {
                tracing::warn!("trace spans lost: the collector did not accept them in time");
            }
        }
    }

    /// The next spans; `None` when the process ends and there are no more.
    async fn gather(&mut self) -> Option<Vec<SpanData>> {
        let mut batch = Vec::new();
        tokio::select! {
            _ = self.from.recv_many(&mut batch, BATCH) => {}
            // A closed queue still returns the spans it contains, and then reports its end.
            () = self.closing.cancelled() => self.from.close(),
        }
        let until = Instant::now() + GATHER_TIME;
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            let count = tokio::select! {
                count = self.from.recv_many(&mut batch, room) => count,
                () = tokio::time::sleep_until(until), if !batch.is_empty() => 0,
                () = self.closing.cancelled(), if !self.from.is_closed() => {
                    self.from.close();
                    continue;
                }
            };
            if count == 0 {
                break;
            }
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// Sends a batch until it is accepted, refused, or dropped after too long.
    async fn deliver(&mut self, batch: Vec<SpanData>) {
        let (count, since) = (batch.len(), Instant::now());
        let request = ExportTraceServiceRequest {
            resource_spans: group_spans_by_resource_and_scope(batch, &self.resource),
        };
        let body = Bytes::from(request.encode_to_vec());
        let mut pause = PAUSES.0;
        loop {
            let (why, asked) = match self.send(body.clone()).await {
                ExportOutcome::Accepted { refused } => {
                    counters::spans("sent", count.saturating_sub(refused));
                    counters::spans("refused", refused);
                    if std::mem::take(&mut self.is_unavailable) {
                        tracing::info!("the trace collector accepts spans again");
                    }
                    return;
                }
                ExportOutcome::Refused(why) => {
                    counters::spans("refused", count);
                    return self.note(&why);
                }
                ExportOutcome::Unavailable(why, asked) => (why, asked),
            };
            self.note(&why);
            let wait = pause.max(asked.unwrap_or_default());
            // A batch that cannot be sent is dropped. Otherwise all later spans would be lost as
            // well.
            if self.closing.is_cancelled() || since.elapsed() + wait > RETRY_LIMIT {
                counters::spans("lost", count);
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // The process is ending, so the last attempt is made at once.
                () = self.closing.cancelled() => {}
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Logs once that the collector accepts nothing.
    fn note(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_unavailable, true) {
            tracing::warn!(why, "the trace collector does not accept spans");
        }
    }

    async fn send(&self, body: Bytes) -> ExportOutcome {
        let request = self.client.post(self.url.clone()).body(body);
        let request = request.header(CONTENT_TYPE, "application/x-protobuf");
        let answer = match request.send().await {
            Ok(answer) => answer,
            // The collector's URL must not appear in the log.
            Err(error) => return ExportOutcome::Unavailable(error.without_url().to_string(), None),
        };
        let status = answer.status();
        match status.as_u16() {
            // OTLP: a collector may accept part of a batch. The spans that it refused must not be
            // sent again.
            200..=299 => {
                let body = answer.bytes().await.unwrap_or_default();
                ExportOutcome::Accepted {
                    refused: rejected_spans(&body),
                }
            }
            // OTLP over HTTP lists these statuses as retryable.
            429 | 502 | 503 | 504 => {
                let retry_after = outbound::retry_after(answer.headers(), None);
                ExportOutcome::Unavailable(status.to_string(), retry_after)
            }
            _ => ExportOutcome::Refused(status.to_string()),
        }
    }
}

/// The number of refused spans of a batch, according to the response.
fn rejected_spans(body: &[u8]) -> usize {
    let answer = ExportTraceServiceResponse::decode(body);
    let partial = answer.ok().and_then(|answer| answer.partial_success);
    let rejected = partial.map_or(0, |partial| partial.rejected_spans);
    usize::try_from(rejected).unwrap_or(0)
}
