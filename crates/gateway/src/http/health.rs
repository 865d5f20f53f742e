//! Probes: is the process alive, is it ready for requests.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::domain::readiness;
use crate::error::Error;

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
    /// What is not answering now: `database`, `media`. Requests that need it get 503.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    away: Vec<&'static str>,
}

/// Whether the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "health", security(()),
    responses((status = 200, description = "It is", body = Health)))]
pub(super) async fn alive() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether the process can serve, and what is unavailable at the moment.
#[utoipa::path(get, path = "/readyz", tag = "health", security(()),
    responses((status = 200, description = "It can", body = Readiness)))]
pub(super) async fn ready(State(app): State<App>) -> Result<Json<Readiness>, Error> {
    let away = readiness::check(&app).await?;
    Ok(Json(Readiness { status: "ok", away }))
}
