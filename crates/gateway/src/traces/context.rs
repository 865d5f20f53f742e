//! Which trace something belongs to (W3C Trace Context), as callers send it and as tasks keep it.

use opentelemetry::Context;
use opentelemetry::propagation::Extractor;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use reqwest::header::HeaderMap;

/// Longest `tracestate` that is passed on, in characters: no shorter limit is allowed, and longer
/// ones would be stored and sent for a caller without end.
const LONGEST_STATE: usize = 512;

/// The two headers.
struct Carrier<'a> {
    parent: &'a str,
    state: String,
}

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => Some(self.parent),
            "tracestate" => Some(&self.state),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

impl Carrier<'_> {
    /// Empty if the headers are not what they must be.
    fn context(&self) -> Context {
        if !is_well_formed(self.parent) {
            return Context::new();
        }
        TraceContextPropagator::new().extract_with_context(&Context::new(), self)
    }
}

/// The caller's trace; empty if it names none or more than one.
pub(super) fn of_headers(headers: &HeaderMap) -> Context {
    let mut parents = headers.get_all("traceparent").iter();
    let (Some(parent), None) = (parents.next(), parents.next()) else {
        return Context::new();
    };
    let members = headers.get_all("tracestate").iter();
    let members = members.filter_map(|value| value.to_str().ok());
    let members = members.flat_map(|value| value.split(',')).map(str::trim);
    let members: Vec<&str> = members.filter(|member| !member.is_empty()).collect();
    let state = Some(members.join(",")).filter(|state| state.len() <= LONGEST_STATE);
    let parent = parent.to_str().unwrap_or_default().trim();
    let state = state.unwrap_or_default();
    Carrier { parent, state }.context()
}

/// The trace that is stored with a task; empty if there is none.
pub(super) fn of_stored(text: Option<&str>) -> Context {
    let text = text.unwrap_or_default();
    let (parent, state) = text.split_once(' ').unwrap_or((text, ""));
    let state = state.to_owned();
    Carrier { parent, state }.context()
}

/// The trace of what is done now, to be stored with a task.
pub fn carried() -> Option<String> {
    if !super::is_on() {
        return None;
    }
    let mut headers = HeaderMap::new();
    providers::trace::carry(&mut headers);
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let parent = text("traceparent")?;
    Some(match text("tracestate") {
        Some(state) => format!("{parent} {state}"),
        None => parent.to_owned(),
    })
}

/// As the standard has it; the propagator is less strict with lengths, and takes signs for digits.
fn is_well_formed(parent: &str) -> bool {
    let mut parts = parent.split('-');
    let mut is_hex = |length| {
        let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        let part = parts.next();
        part.is_some_and(|part| part.len() == length && part.bytes().all(is_digit))
    };
    let is_whole = is_hex(2) && is_hex(32) && is_hex(16) && is_hex(2);
    // Later versions may go on.
    is_whole && (parts.next().is_none() || !parent.starts_with("00"))
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TraceContextExt as _;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let all = all.iter();
        all.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn what_is_malformed_is_ignored() {
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
            let context = of_headers(&headers(&[("traceparent", parent)]));
            assert!(!context.has_active_span(), "{parent}");
            assert!(!of_stored(Some(parent)).has_active_span(), "{parent}");
        }
        let twice = headers(&[("traceparent", PARENT), ("traceparent", PARENT)]);
        assert!(!of_headers(&twice).has_active_span());
        assert!(!of_stored(None).has_active_span());
    }

    #[test]
    fn flags_state_and_later_versions_are_read() {
        let later = format!("cc{}-what-comes", &PARENT[2..]);
        let unsampled = format!("{}00", &PARENT[..53]);
        for (parent, is_sampled) in [(PARENT, true), (&later, true), (&unsampled, false)] {
            let context = of_headers(&headers(&[("traceparent", parent)]));
            let span = context.span();
            assert_eq!(span.span_context().is_sampled(), is_sampled);
            assert_eq!(&span.span_context().trace_id().to_string(), &PARENT[3..35]);
        }
        let state = |context: &Context| context.span().span_context().trace_state().header();
        let many = headers(&[
            ("traceparent", PARENT),
            ("tracestate", "a=1 , b=2"),
            ("tracestate", "c@d=3,"),
        ]);
        assert_eq!(state(&of_headers(&many)), "a=1,b=2,c@d=3");
        assert_eq!(
            state(&of_stored(Some(&format!("{PARENT} a=1,b=2")))),
            "a=1,b=2"
        );
        let long = format!("a={}", "x".repeat(LONGEST_STATE));
        for wrong in ["A B", long.as_str()] {
            let wrong = headers(&[("traceparent", PARENT), ("tracestate", wrong)]);
            let context = of_headers(&wrong);
            assert!(context.has_active_span() && state(&context).is_empty());
        }
    }
}
