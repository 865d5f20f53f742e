//! Probes: is the process alive, is it ready for requests.

use axum::Json;
use axum::extract::{RawQuery, State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ErrorResponse;
use mediagate_core::app::App;
use mediagate_core::domain::readiness;
use mediagate_model::clock::Timestamp;

/// Response of the liveness probe.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    /// Always `ok`.
    status: &'static str,
}

/// Response of a process that can serve.
#[derive(Serialize, ToSchema)]
pub(super) struct Readiness {
    /// Always `ok`.
    status: &'static str,
    /// Components that currently do not respond: `database`, `media`. Requests that need one of
    /// them get 503.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    away: Vec<&'static str>,
    /// Details. Only with `verbose`.
    #[serde(skip_serializing_if = "Option::is_none")]
    verbose: Option<ReadinessDetails>,
}

/// Details of the readiness probe.
#[derive(Serialize, ToSchema)]
struct ReadinessDetails {
    /// Components that are down: `database`, `media` or `bell`. Without `bell`, changes by other
    /// processes are seen a quarter of a second later.
    away: Vec<DegradedSince>,
    /// Settings that differ in another process on the same database: `signing_secret`, `models` or
    /// `brand`.
    settings_differ: Vec<DegradedSince>,
    /// What the processes that decode media are not kept from, because the kernel cannot: `files`,
    /// `network` or `processes`. Empty if they are fully confined.
    unconfined: Vec<&'static str>,
}

/// A problem.
#[derive(Serialize, ToSchema)]
struct DegradedSince {
    name: &'static str,
    /// RFC 3339.
    since: String,
}

impl DegradedSince {
    fn list(entries: Vec<(&'static str, Timestamp)>) -> Vec<Self> {
        let entries = entries.into_iter();
        let objects = entries.map(|(name, since)| Self {
            name,
            since: since.rfc3339(),
        });
        objects.collect()
    }
}

/// Check whether the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "health", security(()),
    responses((status = 200, description = "The process is alive", body = Health)))]
pub(super) async fn alive() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Check whether the process can serve requests, and which components are down.
#[utoipa::path(get, path = "/readyz", tag = "health", security(()),
    params(("verbose" = Option<bool>, Query, description = "Whether to add details: when components went down, and settings that differ in another process. `?verbose` without a value is enough")),
    responses((status = 200, description = "The process is ready", body = Readiness)))]
pub(super) async fn ready(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Json<Readiness>, ErrorResponse> {
    let away = readiness::check(&app).await?;
    let verbose = is_verbose(query.as_deref().unwrap_or_default()).then(|| ReadinessDetails {
        away: DegradedSince::list(readiness::unavailable_parts(&app, &away)),
        settings_differ: DegradedSince::list(app.models.settings.differing()),
        unconfined: app.process.unconfined.get().cloned().unwrap_or_default(),
    });
    Ok(Json(Readiness {
        status: "ok",
        away,
        verbose,
    }))
}

fn is_verbose(query: &str) -> bool {
    // `Query` is not used: `?verbose` has no value, and a probe must never fail because of its
    // parameters.
    let mut fields = url::form_urlencoded::parse(query.as_bytes());
    fields.any(|(name, value)| name == "verbose" && value != "false")
}
