//! Trace context (W3C Trace Context), as callers send it and as it is stored with tasks.
//!
//! Only the ids of a caller's context are used, so that its trace continues here. Whether the trace
//! is recorded depends on the operator's sampling rate, because the caller may be untrusted. A
//! caller can only request that the trace is not recorded. The contents of `tracestate`, written by
//! other systems, are not passed on.

use opentelemetry::Context;
use opentelemetry::propagation::Extractor;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{SpanContext, TraceContextExt as _, TraceFlags, TraceState};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use reqwest::header::HeaderMap;

/// The `traceparent` header.
struct TraceparentCarrier<'a> {
    parent: &'a str,
}

impl Extractor for TraceparentCarrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == "traceparent").then_some(self.parent)
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent"]
    }
}

impl TraceparentCarrier<'_> {
    /// The context in the header; empty if the header is not well-formed.
    fn context(&self) -> Context {
        if !is_well_formed(self.parent) {
            return Context::new();
        }
        TraceContextPropagator::new().extract_with_context(&Context::new(), self)
    }
}

/// The caller's trace context; empty if its headers contain none or more than one. If the caller
/// samples its trace, `is_kept` decides whether it is recorded here.
pub(super) fn context_from_headers(headers: &HeaderMap, is_kept: impl FnOnce() -> bool) -> Context {
    let mut parents = headers.get_all("traceparent").iter();
    let (Some(parent), None) = (parents.next(), parents.next()) else {
        return Context::new();
    };
    let parent = parent.to_str().unwrap_or_default().trim();
    let context = TraceparentCarrier { parent }.context();
    if !context.has_active_span() {
        return context;
    }
    let remote = context.span().span_context().clone();
    let flags = if remote.is_sampled() && is_kept() {
        TraceFlags::SAMPLED
    } else {
        TraceFlags::NOT_SAMPLED
    };
    let (trace, span) = (remote.trace_id(), remote.span_id());
    let adopted = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    Context::new().with_remote_span_context(adopted)
}

/// The trace that is stored with a task; empty if there is none.
pub(super) fn context_from_stored(text: Option<&str>) -> Context {
    let parent = text.unwrap_or_default();
    TraceparentCarrier { parent }.context()
}

/// The `traceparent` of the current span, to be stored with a task.
pub fn current_traceparent() -> Option<String> {
    if !super::is_on() {
        return None;
    }
    let mut headers = HeaderMap::new();
    spans::inject_headers(&mut headers);
    let parent = headers.get("traceparent")?;
    parent.to_str().ok().map(ToOwned::to_owned)
}

/// Whether the header follows the standard; the propagator is less strict about lengths, and
/// accepts signs as digits.
fn is_well_formed(parent: &str) -> bool {
    let mut parts = parent.split('-');
    let mut is_hex = |length| {
        let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        let part = parts.next();
        part.is_some_and(|part| part.len() == length && part.bytes().all(is_digit))
    };
    let is_whole = is_hex(2) && is_hex(32) && is_hex(16) && is_hex(2);
    // Later versions may append fields (W3C Trace Context, versioning of traceparent).
    is_whole && (parts.next().is_none() || !parent.starts_with("00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let all = all.iter();
        all.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn malformed_headers_are_ignored() {
        let long = format!("{PARENT}-00");
        let upper = PARENT.to_uppercase();
        for parent in [
            "",
            "hello",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "+0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "000-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            &long,
            &upper,
        ] {
            let context = context_from_headers(&headers(&[("traceparent", parent)]), || true);
            assert!(!context.has_active_span(), "{parent}");
            assert!(
                !context_from_stored(Some(parent)).has_active_span(),
                "{parent}"
            );
        }
        let twice = headers(&[("traceparent", PARENT), ("traceparent", PARENT)]);
        assert!(!context_from_headers(&twice, || true).has_active_span());
        assert!(!context_from_stored(None).has_active_span());
    }

    #[test]
    fn later_versions_are_read_and_sampling_follows_is_kept() {
        let later = format!("cc{}-what-comes", &PARENT[2..]);
        let unsampled = format!("{}00", &PARENT[..53]);
        for (parent, is_kept, is_sampled) in [
            (PARENT, true, true),
            (&later, true, true),
            (PARENT, false, false),
            (&unsampled, true, false),
        ] {
            let sent = headers(&[("traceparent", parent), ("tracestate", "a=1,b=2")]);
            let context = context_from_headers(&sent, || is_kept);
            let span = context.span();
            assert_eq!(span.span_context().is_sampled(), is_sampled);
            assert_eq!(&span.span_context().trace_id().to_string(), &PARENT[3..35]);
            assert_eq!(span.span_context().trace_state().header(), "");
        }
        let context = context_from_stored(Some(PARENT));
        assert!(context.span().span_context().is_sampled());
    }
}
