//! Probes: is the process alive, is it ready for requests.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::error::ErrorResponse;
use crate::fields::parameters::parameters;
use crate::fields::types::BooleanField;
use crate::fields::{BodyFields, FieldType};
use crate::query::Query;
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

parameters! {
    /// The parameters of the readiness probe.
    pub(super) struct ReadinessParameters {
        /// Whether to add details: when components went down, and settings that differ in another
        /// process. `?verbose` without a value is enough
        verbose: PresenceField,
    }
}

/// Whether a parameter is there, with any value except `false`.
pub(super) struct PresenceField;

impl FieldType for PresenceField {
    type Value = bool;

    fn read(query: &BodyFields<'_>, name: &str) -> Option<bool> {
        query.value(name).map(|value| value != "false")
    }

    fn schema() -> RefOr<Schema> {
        BooleanField::schema()
    }
}

/// Check whether the process can serve requests, and which components are down.
#[utoipa::path(get, path = "/readyz", tag = "health", security(()),
    params(ReadinessParameters),
    responses((status = 200, description = "The process is ready", body = Readiness)))]
pub(super) async fn ready(
    State(app): State<App>,
    Query(query): Query<ReadinessParameters>,
) -> Result<Json<Readiness>, ErrorResponse> {
    let away = readiness::check(&app).await?;
    let verbose = query.verbose.unwrap_or(false).then(|| ReadinessDetails {
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
