//! The HTTP interface of the gateway.
//!
//! Only this crate serves HTTP. A handler extracts, calls one function of the domain and builds the
//! response. [`orders`] declares the requests, [`wire`] the responses, `layers` adds what every
//! response has, [`ErrorResponse`] turns errors into responses, and [`server`] accepts connections.
//! Begin with `api` in this file, which lists the endpoints; those of operators are in `admin`.
//!
//! This crate must not know SQL, providers' protocols or how a task is run. It decides nothing
//! about money: the functions of `mediagate-core` do.

mod access_log;
mod account;
mod admin;
pub mod auth;
pub mod body;
mod chat;
mod client_address;
mod compression;
mod context;
mod cookie;
mod displacement;
mod docs;
mod endpoint_suggestions;
mod error;
mod event_stream;
pub mod fields;
mod health;
mod idempotency;
mod layers;
mod links;
mod media;
mod metrics;
mod models;
mod music;
mod openrouter;
pub mod orders;
mod page_params;
mod personas;
mod provenance;
mod query;
mod quotes;
mod refusal_log;
mod requests;
pub mod server;
mod session;
mod tasks;
mod uploads;
mod usage;
mod videos;
mod web;
mod webhooks;
pub mod wire;
mod zip;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse as _;
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::compression::CompressedBodies;
use crate::context::PublicRequest;
use crate::docs::ServedDocument;
use crate::endpoint_suggestions::EndpointPaths;
use crate::query::ParameterlessOperations;
use mediagate_core::app::App;

pub use docs::openapi;
pub use error::ErrorResponse;

pub fn router(app: &App) -> Router {
    let (router, document) = api(&app.config.brand).split_for_parts();
    let endpoints = Arc::new(EndpointPaths::from_document(&document));
    let parameterless = ParameterlessOperations::new(&document).with_open(web::DOCUMENT_PATH);
    let parameterless = Arc::new(parameterless);
    let served = ServedDocument::new();
    // Shared, so that their size has one bound.
    let bodies = Arc::new(CompressedBodies::new());
    let router = router
        .route("/v1/models/{owner}/{name}", get(models::get_with_slash))
        .merge(web::document(served.clone(), &bodies))
        .route_layer(from_fn_with_state(parameterless, query::refuse_any))
        .merge(web::router(served, &bodies))
        .fallback(
            async move |method: Method,
                        uri: Uri,
                        headers: HeaderMap,
                        request: PublicRequest,
                        State(app): State<App>| {
                if method == Method::GET && query::is_page_view(&headers) {
                    return web::missing_page(&request.links, &app);
                }
                error::route_not_found(&method, uri.path(), &endpoints).into_response()
            },
        )
        .method_not_allowed_fallback(error::method_not_allowed);
    with_layers(router, app)
}

/// The paths that are served at `metrics_listen`.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Probes and metrics, for a separate listener: anyone who can reach it may read them.
pub fn probes(app: &App) -> Router {
    let paths = PROBES.map(|path| (path.to_owned(), vec![Method::GET]));
    let paths = Arc::new(EndpointPaths::new(paths.into_iter()));
    // The readiness probe reads its own query.
    let parameterless = ParameterlessOperations::default();
    let parameterless = Arc::new(parameterless.with_open("/healthz").with_open("/metrics"));
    let endpoints = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::metrics_without_key))
        .route_layer(from_fn_with_state(parameterless, query::refuse_any))
        .fallback(move |method: Method, uri: Uri| async move {
            error::route_not_found(&method, uri.path(), &paths)
        })
        .method_not_allowed_fallback(error::method_not_allowed);
    with_layers(endpoints, app)
}

/// Adds to `endpoints` the layers of every request and response, but no other endpoints.
pub fn with_layers(endpoints: Router<App>, app: &App) -> Router {
    layers::with_layers(endpoints, app).with_state(app.clone())
}

/// The endpoints that the `OpenAPI` document lists.
fn api(brand: &str) -> OpenApiRouter<App> {
    let video = OpenApiRouter::new()
        .routes(routes!(chat::complete))
        .routes(routes!(videos::create, videos::list))
        .routes(routes!(videos::get, videos::delete))
        .routes(routes!(videos::content));
    let music = OpenApiRouter::new()
        .routes(routes!(music::submit))
        .routes(routes!(uploads::audio))
        .routes(routes!(music::task))
        .routes(routes!(music::fetch))
        .routes(routes!(music::fetch_many))
        .routes(routes!(music::feed))
        .routes(routes!(music::clips))
        .routes(routes!(music::clip, music::trash))
        .routes(routes!(music::stems))
        .routes(routes!(music::restore))
        .routes(routes!(personas::create))
        .routes(routes!(personas::list))
        .routes(routes!(personas::get, personas::delete));
    let tasks = OpenApiRouter::new()
        .routes(routes!(tasks::list))
        .routes(routes!(tasks::get))
        .routes(routes!(tasks::events))
        .routes(routes!(tasks::attempts))
        .routes(routes!(tasks::cancel))
        .routes(routes!(tasks::approve))
        .routes(routes!(tasks::reject));
    let requests = OpenApiRouter::new().routes(routes!(requests::list_requests));
    let webhooks = OpenApiRouter::new()
        .routes(routes!(webhooks::create, webhooks::list))
        .routes(routes!(webhooks::secret))
        .routes(routes!(webhooks::rotate_secret))
        .routes(routes!(webhooks::get, webhooks::change, webhooks::delete))
        .routes(routes!(webhooks::rotate))
        .routes(routes!(webhooks::test))
        .routes(routes!(webhooks::recover))
        .routes(routes!(webhooks::deliveries))
        .routes(routes!(webhooks::delivery))
        .routes(routes!(webhooks::redeliver))
        .routes(routes!(webhooks::of_task));
    let provenance = OpenApiRouter::new().routes(routes!(provenance::check));
    let money = OpenApiRouter::new()
        .routes(routes!(quotes::quote))
        .routes(routes!(account::account))
        .routes(routes!(usage::usage))
        .routes(routes!(session::begin, session::get, session::end));
    let general = OpenApiRouter::new()
        .routes(routes!(models::list))
        .routes(routes!(models::get))
        .routes(routes!(models::pricing))
        .routes(routes!(models::pricing_json))
        .routes(routes!(media::file))
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::metrics));
    OpenApiRouter::with_openapi(docs::base())
        .merge(video)
        .merge(openrouter::api())
        .nest(&format!("/{brand}"), music)
        .merge(tasks)
        .merge(requests)
        .merge(webhooks)
        .merge(provenance)
        .merge(money)
        .merge(admin::api())
        .merge(general)
}
