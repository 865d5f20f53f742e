//! `GET /metrics`.

use axum::http::header;
use axum::response::IntoResponse;

use crate::auth::{Admin, AllowedCaller};
use mediagate_telemetry::counters;

/// Get the metrics of this process in the Prometheus text format.
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, description = "The metrics", body = String, content_type = "text/plain")))]
pub(super) async fn metrics(_: AllowedCaller<Admin>) -> impl IntoResponse {
    metrics_without_key().await
}

/// Like [`metrics()`], on the listener that needs no key.
pub(super) async fn metrics_without_key() -> impl IntoResponse {
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    (
        [(header::CONTENT_TYPE, content_type)],
        counters::metrics_recorder().render(),
    )
}
