//! `/v1/models` and `/pricing`.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

use crate::auth::{AllowedCaller, AnyKey};
use crate::context::PublicRequest;
use crate::error::ErrorResponse;
use crate::web;
use crate::wire::models::{ModelList, ModelObject, ModelStatus, RouteObject};
use mediagate_core::app::App;
use mediagate_core::catalog::Catalog;
use mediagate_core::domain::tasks;
use mediagate_model::account::{Caller, Scope};
use mediagate_model::catalog::{Model, Route};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};

/// List models.
#[utoipa::path(get, path = "/v1/models", tag = "models",
    responses((status = 200, description = "The models", body = ModelList)))]
pub(super) async fn list(
    allowed: AllowedCaller<AnyKey>,
    State(app): State<App>,
) -> Result<Json<ModelList>, ErrorResponse> {
    let is_operator = allowed.caller.key.may(Scope::Admin);
    Ok(all_models(&app, is_operator).await.map(Json)?)
}

/// Get a model.
#[utoipa::path(get, path = "/v1/models/{id}", tag = "models", params(("id" = String, Path, description = "The model's name")),
    responses((status = 200, description = "The model", body = ModelObject)))]
pub(super) async fn get(
    allowed: AllowedCaller<AnyKey>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Json<ModelObject>, ErrorResponse> {
    model_named(&app, &allowed.caller, &id).await
}

/// Get a model whose name has a slash that the client did not encode, such as `acme/film-1`.
pub(super) async fn get_with_slash(
    allowed: AllowedCaller<AnyKey>,
    Path((owner, name)): Path<(String, String)>,
    State(app): State<App>,
) -> Result<Json<ModelObject>, ErrorResponse> {
    model_named(&app, &allowed.caller, &format!("{owner}/{name}")).await
}

async fn model_named(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<Json<ModelObject>, ErrorResponse> {
    let models = all_models(app, caller.key.may(Scope::Admin)).await?;
    let model = models.data.into_iter().find(|model| model.id == id);
    let not_found = || {
        let name: String = id.chars().take(200).collect();
        let message = app.models.catalog.load().no_model_message(&name);
        Error::plain(ErrorCode::ModelNotFound, message)
    };
    Ok(model.map(Json).ok_or_else(not_found)?)
}

/// Get the current price list.
///
/// The response is an HTML page, or JSON with `Accept: application/json`.
#[utoipa::path(get, path = "/pricing", tag = "models", security(()),
    responses((status = 200, description = "The price list", content((String = "text/html"), (ModelList = "application/json")))))]
pub(super) async fn pricing(
    headers: HeaderMap,
    request: PublicRequest,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let models = all_models(&app, false).await?;
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    // A browser names text/html and gets the page, even if it accepts JSON too.
    let wants_json = accept.contains("application/json") && !accept.contains("text/html");
    let mut response = if wants_json {
        Json(models).into_response()
    } else {
        web::pricing(&models, &request.links, &app)
    };
    response
        .headers_mut()
        .insert(header::VARY, header::HeaderValue::from_static("accept"));
    Ok(response)
}

/// Get the current price list as JSON.
#[utoipa::path(get, path = "/pricing.json", tag = "models", security(()),
    responses((status = 200, description = "The price list", body = ModelList)))]
pub(super) async fn pricing_json(State(app): State<App>) -> Result<Json<ModelList>, ErrorResponse> {
    Ok(all_models(&app, false).await.map(Json)?)
}

async fn model_status(
    app: &App,
    catalog: &Catalog,
    model: &Model,
    is_operator: bool,
) -> Result<ModelStatus, Error> {
    let now = app.clock.now();
    let route_object = |route: &Route| RouteObject {
        provider: route.provider.clone(),
        model: route.model.clone(),
        available: app.models.upstream.is_expected_available(route, now),
        paused_until: app
            .models
            .upstream
            .breaker(route, |breaker| breaker.last_open_until())
            .map(Timestamp::rfc3339),
    };
    let routes = model.routes();
    let is_shown = (is_operator || catalog.shows_providers()) && !routes.is_empty();
    Ok(ModelStatus {
        available: app.models.upstream.is_offered(model, now),
        routes: is_shown.then(|| routes.iter().map(route_object).collect()),
        median: tasks::lengths(app, &model.id)
            .await?
            .map(|lengths| lengths.median),
        now,
    })
}

/// Every model, with its routes if the caller is an operator or all callers may see them.
pub(super) async fn all_models(app: &App, is_operator: bool) -> Result<ModelList, Error> {
    // One catalog for the whole list: a reload meanwhile must not mix the old and the new one.
    let catalog = app.models.catalog.load_full();
    let mut data = Vec::new();
    for model in catalog.models() {
        data.push(ModelObject::new(
            model,
            model_status(app, &catalog, model, is_operator).await?,
        ));
    }
    Ok(ModelList {
        object: "list",
        data,
    })
}
