//! Probes: is the process alive, is it ready for requests.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::error::Error;

/// The answer of a probe.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    /// Always `ok`.
    status: &'static str,
}

/// Whether the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "health", security(()),
    responses((status = 200, description = "It is", body = Health)))]
pub(super) async fn alive() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether the process can serve: the database answers, and it is not going down.
#[utoipa::path(get, path = "/readyz", tag = "health", security(()),
    responses((status = 200, description = "It can", body = Health)))]
pub(super) async fn ready(State(app): State<App>) -> Result<Json<Health>, Error> {
    if app.closing.is_cancelled() {
        return Err(Error::shutting_down());
    }
    app.store.ping().await?;
    Ok(Json(Health { status: "ok" }))
}
