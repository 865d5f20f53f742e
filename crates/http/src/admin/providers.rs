//! `/v1/admin/providers`: every route to a provider, its state, and the operator's actions on it.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;

use super::write::OperatorWrite;
use crate::auth::{Admin, AllowedCaller};
use crate::error::ErrorResponse;
use crate::fields::parameters::parameters;
use crate::fields::types::{IntegerField, OptionalText};
use crate::page_params::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::query::Query;
use crate::wire::admin::providers::{RouteChange, RouteStanding};
use crate::wire::list::List;
use mediagate_core::app::App;
use mediagate_core::domain::operator::OperatorAction;
use mediagate_core::domain::routes::{self, RouteCommand};
use mediagate_model::error::Error;
use mediagate_model::route::StoredRouteState;

parameters! {
    /// A page of the list of routes.
    pub(crate) struct RoutePage {
        /// Number of routes, 1 to 100. Default: all of them, or 20 with `after`
        limit: IntegerField<1, MAX_LIMIT>,
        /// `last_id` of the previous page
        after: OptionalText<500>,
    }
}

impl RoutePage {
    /// Removes the routes that are not on the page, and returns whether more follow.
    fn apply(&self, routes: &mut Vec<RouteStanding>) -> Result<bool, Error> {
        if let Some(after) = &self.after {
            let last = routes.iter().position(|route| route.id == *after);
            routes.drain(..=last.ok_or_else(Error::unknown_cursor)?);
        }
        let default = self.after.as_ref().map(|_| DEFAULT_LIMIT);
        let Some(limit) = self.limit.or(default) else {
            return Ok(false);
        };
        // Its range was checked when it was read.
        let limit = usize::try_from(limit).unwrap_or(1);
        let has_more = routes.len() > limit;
        routes.truncate(limit);
        Ok(has_more)
    }
}

/// List all routes to providers with their state, last error and outcomes.
///
/// With `limit` or `after` it is paged as other lists are, by provider and model.
#[utoipa::path(get, path = "/v1/admin/providers", tag = "admin", params(RoutePage),
    responses((status = 200, description = "The routes", body = List<RouteStanding>)))]
pub(crate) async fn list(
    _: AllowedCaller<Admin>,
    Query(page): Query<RoutePage>,
    State(app): State<App>,
) -> Result<Json<List<RouteStanding>>, ErrorResponse> {
    let summaries = routes::all(&app).await?;
    let mut routes: Vec<RouteStanding> = summaries.iter().map(RouteStanding::new).collect();
    let has_more = page.apply(&mut routes)?;
    Ok(Json(List::new(
        routes,
        has_more,
        |route: &RouteStanding| route.id.clone(),
    )))
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
