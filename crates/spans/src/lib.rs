//! Trace spans that are propagated to other systems (W3C Trace Context). They are exported by an
//! OpenTelemetry exporter; without one no span begins.
//!
//! Attributes are names from the settings, ids, states and counts, never text of a caller or a
//! provider, a URL or a secret.

use std::borrow::Cow;
use std::future::Future;

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::context::{FutureExt as _, WithContext};
use opentelemetry::propagation::Injector;
use opentelemetry::trace::{
    Link, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt as _, TraceId, Tracer as _,
};
use opentelemetry::{Context, KeyValue, Value, global};

/// The instrumentation scope of the spans.
const SCOPE: &str = "mediagate";

/// A span of work; it ends when this is dropped.
#[derive(Debug)]
pub struct TraceSpan(Context);

impl TraceSpan {
    /// A span that records nothing.
    pub fn none() -> Self {
        Self(Context::new())
    }

    /// Begins a span below the current one, if there is one.
    pub fn begin(name: impl Into<Cow<'static, str>>, kind: SpanKind) -> Self {
        let parent = Context::current();
        if parent.has_active_span() {
            Self::begin_under(&parent, SpanBuilder::from_name(name).with_kind(kind))
        } else {
            Self::none()
        }
    }

    /// Like [`Self::begin`], with links to these other spans.
    pub fn begin_for(name: &'static str, linked: Vec<SpanContext>) -> Self {
        let parent = Context::current();
        if !parent.has_active_span() {
            return Self::none();
        }
        let linked = linked.into_iter().filter(SpanContext::is_valid);
        let links = linked.map(|span_context| Link::new(span_context, Vec::new(), 0));
        let builder = SpanBuilder::from_name(name).with_kind(SpanKind::Internal);
        Self::begin_under(&parent, builder.with_links(links.collect()))
    }

    /// Begins a span below `parent`, which may belong to another process or have ended. If `parent`
    /// is empty, the span begins a new trace.
    pub fn begin_under(parent: &Context, builder: SpanBuilder) -> Self {
        let span = global::tracer(SCOPE).build_with_context(builder, parent);
        Self(parent.with_span(span))
    }

    /// Runs a future within this span.
    pub fn around<F: Future>(&self, future: F) -> WithContext<F> {
        future.with_context(self.0.clone())
    }

    /// Turns the span into a context for a separate future. The span ends when the context is
    /// dropped.
    #[must_use]
    pub fn into_context(mut self) -> Context {
        std::mem::take(&mut self.0)
    }

    pub fn set(&self, name: &'static str, value: impl Into<Value>) {
        self.0.span().set_attribute(KeyValue::new(name, value));
    }

    /// Marks the span as failed, with this class as the reason.
    pub fn fail(&self, class: &'static str) {
        self.0.span().set_status(Status::error(class));
    }

    /// The trace of this span, whether it is sampled or not.
    pub fn trace_id(&self) -> Option<TraceId> {
        let span = self.0.span();
        let context = span.span_context();
        context.is_valid().then(|| context.trace_id())
    }
}

impl Drop for TraceSpan {
    fn drop(&mut self) {
        self.0.span().end();
    }
}

/// Adds an attribute to the current span.
pub fn set_attribute(name: &'static str, value: impl Into<Value>) {
    Context::map_current(|context| {
        if context.has_active_span() {
            context.span().set_attribute(KeyValue::new(name, value));
        }
    });
}

/// Marks the current span as failed, with this class as the reason.
pub fn mark_failed(class: &'static str) {
    Context::map_current(|context| context.span().set_status(Status::error(class)));
}

/// The context of the current span, for links from others.
pub fn current() -> SpanContext {
    Context::map_current(|context| context.span().span_context().clone())
}

/// Adds the current span's trace header to a request.
pub fn inject_headers(headers: &mut HeaderMap) {
    let context = Context::current();
    if context.has_active_span() {
        global::get_text_map_propagator(|propagator| {
            propagator.inject_context(&context, &mut HeaderInjector(headers));
        });
    }
}

struct HeaderInjector<'a>(&'a mut HeaderMap);

impl Injector for HeaderInjector<'_> {
    fn set(&mut self, key: &str, value: String) {
        // The contents of a foreign `tracestate` are not passed on.
        if key != "traceparent" {
            return;
        }
        let name = HeaderName::from_bytes(key.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::propagation::TraceContextPropagator;
    use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanProcessor};

    use super::*;

    /// The spans that have ended.
    #[derive(Debug, Clone, Default)]
    struct EndedSpans(Arc<Mutex<Vec<SpanData>>>);

    impl SpanProcessor for EndedSpans {
        fn on_start(&self, _: &mut opentelemetry_sdk::trace::Span, _: &Context) {}

        fn on_end(&self, span: SpanData) {
            self.0.lock().unwrap().push(span);
        }

        fn force_flush(&self) -> OTelSdkResult {
            Ok(())
        }

        fn shutdown_with_timeout(&self, _: std::time::Duration) -> OTelSdkResult {
            Ok(())
        }
    }

    /// A single test, because the exporter is global to the process.
    #[test]
    fn spans_nest_and_none_begins_outside_a_trace() {
        let ended = EndedSpans::default();
        let provider = SdkTracerProvider::builder().with_span_processor(ended.clone());
        global::set_tracer_provider(provider.build());
        global::set_text_map_propagator(TraceContextPropagator::new());

        let no_span = TraceSpan::begin("x", SpanKind::Client);
        assert_eq!(no_span.trace_id(), None);
        {
            let _guard = no_span.into_context().attach();
            assert_eq!(TraceSpan::begin_for("x", vec![]).trace_id(), None);
            set_attribute("a", 1);
            let mut headers = HeaderMap::new();
            inject_headers(&mut headers);
            assert!(headers.is_empty());
        }
        assert!(ended.0.lock().unwrap().is_empty());

        let root_span = |name: &'static str| {
            TraceSpan::begin_under(&Context::new(), SpanBuilder::from_name(name))
        };
        let other = root_span("other").into_context();
        let (other_id, others) = {
            let _guard = other.attach();
            (
                current().span_id(),
                vec![current(), SpanContext::empty_context()],
            )
        };
        let run = root_span("run");
        let trace_id = run.trace_id().unwrap();
        {
            let _guard = run.0.clone().attach();
            let polls = TraceSpan::begin_for("polls", others);
            assert_eq!(polls.trace_id(), Some(trace_id));
            let _guard = polls.into_context().attach();
            set_attribute("mediagate.jobs", 2);
            mark_failed("unavailable");
            let mut headers = HeaderMap::new();
            inject_headers(&mut headers);
            let parent = headers["traceparent"].to_str().unwrap();
            assert_eq!(parent, format!("00-{trace_id}-{}-01", current().span_id()));
            assert!(!headers.contains_key("tracestate"));
        }
        drop(run);
        let ended = ended.0.lock().unwrap();
        let names: Vec<&str> = ended.iter().map(|span| &*span.name).collect();
        assert_eq!(names, ["other", "polls", "run"]);
        let polls = &ended[1];
        assert_eq!(polls.parent_span_id, ended[2].span_context.span_id());
        let links: Vec<_> = polls
            .links
            .iter()
            .map(|link| link.span_context.span_id())
            .collect();
        assert_eq!(links, [other_id]);
        assert_eq!(polls.status, Status::error("unavailable"));
        assert_eq!(polls.attributes, [KeyValue::new("mediagate.jobs", 2)]);
    }
}
