//! `/v1/admin/config`: the settings in effect.

use axum::Json;
use axum::extract::State;

use crate::app::App;
use crate::error::Error;
use crate::http::auth::{Admin, Allowed};
use crate::http::wire::admin::config::ConfigObject;

/// Get the settings in effect in the process that answers, secrets masked, and how the last reload
/// went.
#[utoipa::path(get, path = "/v1/admin/config", tag = "admin",
    responses((status = 200, description = "The settings", body = ConfigObject)))]
pub(in crate::http) async fn get(
    _: Allowed<Admin>,
    State(app): State<App>,
) -> Result<Json<ConfigObject>, Error> {
    Ok(Json(ConfigObject::new(&app)))
}
