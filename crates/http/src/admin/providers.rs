//! `/v1/admin/providers`: every route to a provider, its state, and the operator's actions on it.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;

use super::write::OperatorWrite;
use crate::auth::{Admin, AllowedCaller};
use crate::error::ErrorResponse;
use crate::wire::admin::providers::{RouteChange, RouteStanding};
use crate::wire::list::List;
use mediagate_core::app::App;
use mediagate_core::domain::operator::OperatorAction;
use mediagate_core::domain::routes::{self, RouteCommand};
use mediagate_model::error::Error;
use mediagate_model::route::StoredRouteState;

/// List all routes to providers with their state, last error and outcomes.
#[utoipa::path(get, path = "/v1/admin/providers", tag = "admin",
    responses((status = 200, description = "All routes", body = List<RouteStanding>)))]
pub(crate) async fn list(
    _: AllowedCaller<Admin>,
    State(app): State<App>,
) -> Result<Json<List<RouteStanding>>, ErrorResponse> {
    let summaries = routes::all(&app).await?;
    let routes = summaries.iter().map(RouteStanding::new).collect();
    Ok(Json(List::new(routes, false, |route: &RouteStanding| {
        route.id.clone()
    })))
}

/// Close the breakers of a route, so that the next task is sent to it.
#[utoipa::path(post, path = "/v1/admin/providers/{provider}/{model}/try", tag = "admin", params(
    ("provider" = String, Path, description = "Name of the provider in the configuration"),
    ("model" = String, Path, description = "The provider's own model name, percent-encoded"),
), responses((status = 200, description = "The new state of the route", body = RouteChange)))]
pub(crate) async fn try_again(
    write: OperatorWrite,
    Path(route): Path<(String, String)>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    Ok(run_command(write, &app, route, RouteCommand::Retry).await?)
}

/// Pause a route in every process until it is resumed.
///
/// Jobs that are already at the provider continue.
#[utoipa::path(post, path = "/v1/admin/providers/{provider}/{model}/pause", tag = "admin", params(
    ("provider" = String, Path, description = "Name of the provider in the configuration"),
    ("model" = String, Path, description = "The provider's own model name, percent-encoded"),
), responses((status = 200, description = "The new state of the route", body = RouteChange)))]
pub(crate) async fn pause(
    write: OperatorWrite,
    Path(route): Path<(String, String)>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    Ok(run_command(write, &app, route, RouteCommand::Pause).await?)
}

/// Resume a paused route.
#[utoipa::path(post, path = "/v1/admin/providers/{provider}/{model}/resume", tag = "admin", params(
    ("provider" = String, Path, description = "Name of the provider in the configuration"),
    ("model" = String, Path, description = "The provider's own model name, percent-encoded"),
), responses((status = 200, description = "The new state of the route", body = RouteChange)))]
pub(crate) async fn resume(
    write: OperatorWrite,
    Path(route): Path<(String, String)>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    Ok(run_command(write, &app, route, RouteCommand::Resume).await?)
}

async fn run_command(
    write: OperatorWrite,
    app: &App,
    (provider, model): (String, String),
    command: RouteCommand,
) -> Result<Response, Error> {
    let fingerprint = write.fingerprint();
    let change = async |operation: OperatorAction<'_, StoredRouteState>| {
        routes::run_command(app, operation, &provider, &model, command).await
    };
    let (shown_provider, shown_model) = (provider.clone(), model.clone());
    let show =
        move |stored: &StoredRouteState, _| RouteChange::new(&shown_provider, &shown_model, stored);
    write.change(app, fingerprint, change, show).await
}
