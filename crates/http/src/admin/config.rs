//! `/v1/admin/config`: the settings in effect.

use axum::Json;
use axum::extract::State;

use crate::auth::{Admin, AllowedCaller};
use crate::error::ErrorResponse;
use crate::wire::admin::config::ConfigObject;
use mediagate_core::app::App;

/// Get the settings in effect and the result of the last reload.
///
/// The settings are those of the process that responds. Secrets are masked.
#[utoipa::path(get, path = "/v1/admin/config", tag = "admin",
    responses((status = 200, description = "The settings", body = ConfigObject)))]
pub(crate) async fn get(
    _: AllowedCaller<Admin>,
    State(app): State<App>,
) -> Result<Json<ConfigObject>, ErrorResponse> {
    Ok(Json(ConfigObject::new(&app)))
}
