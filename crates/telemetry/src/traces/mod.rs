//! Traces: spans of a request from its arrival to its webhook, which a collector gets over OTLP.
//! Off unless `[telemetry] otlp` names a collector; if off, no trace context is read, stored or
//! passed on.
//!
//! A trace continues in other processes and after a restart: the caller's context comes with its
//! request (`context`), is stored with the task, and is sent to providers and to receivers of
//! webhooks. `export` sends the spans.

mod context;
mod export;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use opentelemetry::trace::{SpanBuilder, SpanKind};
use opentelemetry::{KeyValue, global};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use reqwest::header::HeaderMap;
use spans::TraceSpan;

use mediagate_config::{Config, ConfigError};
use mediagate_model::ids::{AssetId, RequestId};
use mediagate_model::task::Task;
use mediagate_model::webhook::DueDelivery;

pub use context::current_traceparent;

/// Whether this process traces.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// The fraction of traces that are recorded.
static SHARE: OnceLock<f64> = OnceLock::new();

/// Exports spans. When dropped, it sends the remaining spans within a few seconds and stops.
#[must_use]
pub struct TraceGuard(
    #[expect(dead_code, reason = "its drop sends the rest")] Option<export::ExporterThread>,
);

/// Starts exporting if the settings name a collector.
pub fn start(config: &Config) -> Result<TraceGuard, ConfigError> {
    let Some(url) = config.telemetry.traces() else {
        return Ok(TraceGuard(None));
    };
    let resource = resource();
    let started = export::start(url, &resource);
    let (queue, exporter) = started.map_err(|message| ConfigError::Value {
        key: "telemetry.otlp".into(),
        message,
    })?;
    let share = *SHARE.get_or_init(|| config.telemetry.sample);
    let share = Sampler::TraceIdRatioBased(share);
    let provider = SdkTracerProvider::builder()
        .with_span_processor(queue)
        .with_sampler(Sampler::ParentBased(Box::new(share)))
        .with_resource(resource)
        .build();
    global::set_text_map_propagator(TraceContextPropagator::new());
    global::set_tracer_provider(provider);
    IS_ON.store(true, Ordering::Relaxed);
    Ok(TraceGuard(Some(exporter)))
}

/// The attributes of this process that every span has; `OTEL_SERVICE_NAME` and
/// `OTEL_RESOURCE_ATTRIBUTES` add to them.
fn resource() -> Resource {
    let mut resource = Resource::builder().with_attributes([
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", AssetId::new().to_string()),
    ]);
    // The SDK reads this variable by itself, and a name set here would override it.
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name("mediagate");
    }
    resource.build()
}

pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Whether a trace that a caller began is recorded. Decided at random, not by the trace's id, which
/// the caller chose.
fn is_sampled() -> bool {
    let share = SHARE.get().copied().unwrap_or(0.0);
    let mut bits = [0; 4];
    // Without randomness nothing is recorded.
    let drawn = getrandom::fill(&mut bits).map_or(1.0, |()| {
        f64::from(u32::from_le_bytes(bits)) / f64::from(u32::MAX)
    });
    // A share of 1.0 must record all traces, but the random number can be 1.0, which is not below
    // it.
    share >= 1.0 || drawn < share
}

/// A span for a request, until its response begins. `route` is the path as the API declares it.
pub fn request(
    headers: &HeaderMap,
    method: &str,
    route: Option<&str>,
    id: &RequestId,
) -> TraceSpan {
    if !is_on() {
        return TraceSpan::none();
    }
    // A method may be any word, and callers must not choose the names of spans.
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    let known_method = methods.into_iter().find(|known| *known == method);
    let method = known_method.unwrap_or("_OTHER");
    let name = match route {
        Some(route) => format!("{method} {route}"),
        None => known_method.unwrap_or("HTTP").to_owned(),
    };
    let builder = SpanBuilder::from_name(name).with_kind(SpanKind::Server);
    let span = TraceSpan::begin_under(&context::context_from_headers(headers, is_sampled), builder);
    span.set("http.request.method", method);
    if let Some(route) = route {
        span.set("http.route", route.to_owned());
    }
    span.set("mediagate.request_id", id.as_str().to_owned());
    span
}

/// Records the status with which the request was answered.
pub fn record_status(request: &TraceSpan, status: u16) {
    request.set("http.response.status_code", i64::from(status));
    if status >= 500 {
        request.fail("server_error");
    }
}

/// A span for a task while a process works on it, from its claim on.
pub fn run_span(task: &Task) -> TraceSpan {
    if !is_on() {
        return TraceSpan::none();
    }
    let builder = SpanBuilder::from_name("run").with_kind(SpanKind::Consumer);
    let span = TraceSpan::begin_under(
        &context::context_from_stored(task.trace.as_deref()),
        builder,
    );
    span.set("mediagate.task_id", task.id.to_string());
    span.set("mediagate.kind", task.kind().name());
    span.set("mediagate.model", task.model.clone());
    span.set("mediagate.attempt", i64::from(task.attempts));
    span
}

/// A span for an attempt to deliver a webhook.
pub fn webhook(due: &DueDelivery) -> TraceSpan {
    if !is_on() {
        return TraceSpan::none();
    }
    let builder = SpanBuilder::from_name("webhook").with_kind(SpanKind::Client);
    let span = TraceSpan::begin_under(&context::context_from_stored(due.trace.as_deref()), builder);
    span.set("mediagate.delivery_id", due.id.to_string());
    span.set("mediagate.attempt", i64::from(due.attempts) + 1);
    span
}

/// Adds the trace id to log lines of the span.
pub fn record_trace_id(line: &tracing::Span, of: &TraceSpan) {
    if let Some(id) = of.trace_id() {
        line.record("trace_id", tracing::field::display(id));
    }
}
