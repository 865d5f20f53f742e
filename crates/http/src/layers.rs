//! Layers around every endpoint: request id, rate-limit and security headers, error bodies, catching
//! panics, and the record of the request (`access_log`).

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use spans::TraceSpan;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};
use tracing::Instrument as _;

use crate::access_log::{CompletedRequest, is_probe, is_scrape};
use crate::context::{RateSlot, RequestFacts};
use crate::displacement::RequestConnection;
use crate::error;
use crate::error::ErrorResponse;
use crate::openrouter;
use crate::refusal_log;
use crate::server::OverflowConnection;
use mediagate_core::app::App;
use mediagate_core::domain::keys::PREFIX as KEY_PREFIX;
use mediagate_core::limits::RateState;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::RequestId;
use mediagate_telemetry::traces;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Adds the layers around all endpoints.
pub(super) fn with_layers(router: Router<App>, app: &App) -> Router<App> {
    // axum would stop every body at 2 MB; here each reader has its own limit. Later layers are
    // outside of earlier ones: `log_refusal` needs the request id that `request_layer` chooses, and
    // errors whose body `request_layer` has not written yet. `translate_errors` needs written ones.
    let router = router
        .layer(DefaultBodyLimit::disable())
        .layer(axum::middleware::from_fn_with_state(
            app.clone(),
            refusal_log::log_refusal,
        ))
        .layer(axum::middleware::from_fn_with_state(
            app.clone(),
            request_layer,
        ))
        .layer(axum::middleware::from_fn(openrouter::translate_errors));
    match cors(&app.config.cors_origins) {
        Some(cors) => router
            .layer(cors)
            // Outside of `CorsLayer`, which mirrors whatever headers the preflight asks for.
            .layer(axum::middleware::from_fn(only_allowed_headers)),
        None => router,
    }
}

async fn request_layer(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let request_id = request_id(request.headers());
    let (rate, facts) = (RateSlot::default(), RequestFacts::default());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    request.extensions_mut().insert(request_id.clone());
    request.extensions_mut().insert(rate.clone());
    request.extensions_mut().insert(facts.clone());
    let trace_span = trace(&request, &request_id);
    // `tracing` records only declared fields, so the trace id gets an empty place first.
    let span = tracing::info_span!("request", %request_id, trace_id = tracing::field::Empty);
    traces::record_trace_id(&span, &trace_span);
    let connection: RequestConnection = request.extensions().get().cloned().unwrap_or_default();
    let started = tokio::time::Instant::now();
    // Decided before the router: an overloaded gateway does nothing else for the request.
    let is_refused = request.extensions().get::<OverflowConnection>().is_some() && !is_probe(&path);
    let answer = async {
        let answer = if is_refused {
            Ok(ErrorResponse::from(too_many_connections()).into_response())
        } else {
            // A panic must end this request alone, with an answer that contains its id. Locks of
            // shared state recover from poisoning.
            AssertUnwindSafe(connection.answer(method.is_safe(), next.run(request)))
                .catch_unwind()
                .await
        };
        let answer = answer.unwrap_or_else(|panic| {
            ErrorResponse::from(Error::internal(panic_text(&*panic))).into_response()
        });
        // Written and logged within the span, so that both log lines name the request.
        let answer = error::write(answer, &request_id);
        let answer = connection.end_stream(answer, &request_id);
        let completed = CompletedRequest {
            method: &method,
            path: &path,
            route: route.as_ref().map(MatchedPath::as_str),
            request_id: &request_id,
            facts: &facts,
            response: &answer,
            took: started.elapsed(),
        };
        completed.record(&app);
        answer
    };
    let mut answer = trace_span.around(answer.instrument(span)).await;
    traces::record_status(&trace_span, answer.status().as_u16());
    let headers = answer.headers_mut();
    if let Ok(value) = HeaderValue::try_from(request_id.as_str()) {
        headers.insert(REQUEST_ID, value);
    }
    if let Some(rate) = rate.0.get() {
        rate_headers(headers, rate);
    }
    headers
        .entry(header::X_CONTENT_TYPE_OPTIONS)
        .or_insert(HeaderValue::from_static("nosniff"));
    headers
        .entry(header::REFERRER_POLICY)
        .or_insert(HeaderValue::from_static("no-referrer"));
    if is_event_stream(headers) {
        // Proxies that compress, and nginx by default, would hold events back until they have a
        // buffer full.
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("no-cache, no-transform"),
        );
        headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    }
    headers
        // Most responses contain data of one account. Handlers of files set their own value.
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    answer
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}

/// Begins the request's span. Probes and scrapes get none.
fn trace(request: &Request, id: &RequestId) -> TraceSpan {
    let path = request.uri().path();
    if is_probe(path) || is_scrape(path) {
        return TraceSpan::none();
    }
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map(MatchedPath::as_str);
    traces::request(request.headers(), request.method().as_str(), route, id)
}

/// The error for requests on a connection beyond the limits.
fn too_many_connections() -> Error {
    let message = "Too many open connections. Try again in a moment.";
    Error::retry_later(ErrorCode::Overloaded, message, 2)
}

fn request_id(headers: &HeaderMap) -> RequestId {
    // A caller's own id connects its log with ours. One that could forge a log line is replaced,
    // and one that contains a key: ids are stored and shown.
    let sent = headers
        .get(REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(|id| !id.contains(KEY_PREFIX));
    sent.and_then(RequestId::from_caller)
        .unwrap_or_else(RequestId::generate)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panic: {}", text.unwrap_or_default())
}

fn rate_headers(headers: &mut HeaderMap, rate: &RateState) {
    headers.insert("x-ratelimit-limit-requests", rate.limit.into());
    headers.insert("x-ratelimit-remaining-requests", rate.remaining.into());
    let reset = HeaderValue::try_from(reset_text(rate.reset));
    headers.insert(
        "x-ratelimit-reset-requests",
        reset.unwrap_or(HeaderValue::from_static("60s")),
    );
}

/// A duration as in the `OpenAI` headers: `120ms`, `4.5s`, `1m0s`.
fn reset_text(time: Duration) -> String {
    // From 59.95 s on, tenths of a second round up to a minute.
    match time.as_millis() {
        ms @ 0..1000 => format!("{ms}ms"),
        1000..59_950 => format!("{}s", (time.as_secs_f64() * 10.0).round() / 10.0),
        59_950..60_000 => "1m0s".to_owned(),
        ms => format!("{}m{}s", ms / 60_000, ms % 60_000 / 1000),
    }
}

fn cors(origins: &[String]) -> Option<CorsLayer> {
    let origins: Vec<HeaderValue> = origins
        .iter()
        .filter_map(|origin| HeaderValue::try_from(origin).ok())
        .collect();
    (!origins.is_empty()).then(|| {
        // Without `allow_credentials`: other origins use a key. The session cookie is for this
        // gateway's own pages.
        CorsLayer::new()
            .allow_origin(AllowOrigin::list(origins))
            .allow_methods([
                Method::GET,
                Method::POST,
                Method::PUT,
                Method::PATCH,
                Method::DELETE,
            ])
            // A list can only contain exact names, but `x-stainless-*` is a prefix:
            // `only_allowed_headers` filters the names, and the rest is mirrored.
            .allow_headers(AllowHeaders::mirror_request())
            // A page can read only these headers, and needs them to retry, to poll, to find its task
            // and to stay within its limits.
            .expose_headers([
                REQUEST_ID,
                HeaderName::from_static("x-task-id"),
                HeaderName::from_static("x-identical-task"),
                HeaderName::from_static("x-cost-usd"),
                HeaderName::from_static("x-budget-remaining-usd"),
                HeaderName::from_static("x-ratelimit-limit-requests"),
                HeaderName::from_static("x-ratelimit-remaining-requests"),
                HeaderName::from_static("x-ratelimit-reset-requests"),
                super::idempotency::REPLAYED,
                header::RETRY_AFTER,
                HeaderName::from_static("x-should-retry"),
                HeaderName::from_static("openai-poll-after-ms"),
            ])
            .max_age(Duration::from_hours(1))
    })
}

/// Headers that a page at an allowed origin may send. Those of `OpenAI`'s SDKs begin with
/// `x-stainless-`, those of `OpenRouter`'s with `x-openrouter-`, and a new version may add more.
fn may_be_sent(name: &str) -> bool {
    const NAMES: [&str; 13] = [
        "authorization",
        "content-type",
        "idempotency-key",
        "x-request-id",
        "x-max-cost-usd",
        "if-match",
        "last-event-id",
        "range",
        "user-agent",
        "openai-organization",
        "openai-project",
        "openai-beta",
        // OpenRouter's SDKs name the calling program in it.
        "http-referer",
    ];
    const PREFIXES: [&str; 2] = ["x-stainless-", "x-openrouter-"];
    let is_token = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let has_prefix = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    NAMES.contains(&name) || (has_prefix && name.chars().all(is_token))
}

/// Removes from a preflight request the headers that may not be sent; the rest is mirrored by the
/// answer.
async fn only_allowed_headers(mut request: Request, next: Next) -> Response {
    let name = header::ACCESS_CONTROL_REQUEST_HEADERS;
    // A list may be spread over several lines (RFC 9110, 5.3).
    let lines = request.headers().get_all(&name).iter();
    // A line with non-ASCII bytes names no allowed header.
    let requested: Vec<&str> = lines
        .map(|line| line.to_str().unwrap_or_default())
        .collect();
    if !requested.is_empty() {
        let requested = requested.join(",").to_ascii_lowercase();
        let allowed = requested
            .split(',')
            .map(str::trim)
            .filter(|name| may_be_sent(name));
        let allowed: Vec<&str> = allowed.collect();
        if let Ok(value) = HeaderValue::try_from(allowed.join(",")) {
            request.headers_mut().insert(name, value);
        }
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reset_times_read_as_in_the_openai_headers() {
        for (ms, text) in [
            (0, "0ms"),
            (120, "120ms"),
            (1000, "1s"),
            (4_460, "4.5s"),
            (59_949, "59.9s"),
            (59_950, "1m0s"),
            (60_000, "1m0s"),
            (362_000, "6m2s"),
        ] {
            assert_eq!(reset_text(Duration::from_millis(ms)), text);
        }
    }
}
