//! A simulated provider's routes, and everything between them and HTTP.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::RawPathParams;
use axum::routing::{MethodFilter, on};
use http::Method;
use serde_json::{Value, json};

use crate::fault::RequestRole;
use crate::world::World;

mod message;
mod wire;

pub(crate) use message::Route;
pub use message::{RouteHandler, SimulatedReply, SimulatedRequest};
pub(crate) use wire::{ConnectionReset, DropConnection, MAX_REQUEST_BYTES};

/// A builder of a provider's routes.
pub struct SimulatedSite {
    name: &'static str,
    scheme: &'static str,
    world: Arc<World>,
    error: fn(u16) -> Value,
    last_submission: message::LastSubmission,
    router: Router,
}

impl SimulatedSite {
    pub(crate) fn new(name: &'static str, scheme: &'static str, world: Arc<World>) -> Self {
        Self {
            name,
            scheme,
            world,
            error: |status| json!({"error": status}),
            last_submission: Arc::default(),
            router: Router::new(),
        }
    }

    /// Sets the provider's own format of errors, for statuses of faults and for unknown paths. It
    /// applies to routes added afterwards.
    #[must_use]
    pub fn error(mut self, body: fn(u16) -> Value) -> Self {
        self.error = body;
        self
    }

    /// Adds a route below the provider's base: `{name}` is one segment, `{*name}` the rest.
    #[must_use]
    pub fn route(
        mut self,
        method: &str,
        path: &str,
        role: RequestRole,
        handler: RouteHandler,
    ) -> Self {
        let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
        let filter = MethodFilter::try_from(method).unwrap_or(MethodFilter::GET);
        let route = self.route_for(role, handler);
        let service = move |params: RawPathParams, request: axum::extract::Request| {
            let params = params
                .iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            wire::serve(route.clone(), params, request)
        };
        self.router = self.router.route(path, on(filter, service));
        self
    }

    /// Adds a route whose role depends on a header: the header's values, with their roles and
    /// handlers.
    #[must_use]
    pub fn route_by(
        mut self,
        method: &str,
        path: &str,
        header: &'static str,
        actions: [(&'static str, RequestRole, RouteHandler); 2],
    ) -> Self {
        let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
        let filter = MethodFilter::try_from(method).unwrap_or(MethodFilter::GET);
        // An unknown action has a route too, so that it is in the journal and faults apply to it.
        let other = self.route_for(RequestRole::Other, |_| SimulatedReply::empty(404));
        let actions = actions.map(|(value, role, handler)| (value, self.route_for(role, handler)));
        let service = move |request: axum::extract::Request| {
            let requested = request.headers().get(header);
            let action = actions
                .iter()
                .find(|(value, _)| requested.is_some_and(|requested| requested == value));
            let route = action.map_or(&other, |(_, route)| route).clone();
            wire::serve(route, HashMap::new(), request)
        };
        self.router = self.router.route(path, on(filter, service));
        self
    }

    fn route_for(&self, role: RequestRole, handler: RouteHandler) -> Route {
        Route {
            provider: self.name,
            scheme: self.scheme,
            world: self.world.clone(),
            role,
            handler,
            error: self.error,
            last_submission: self.last_submission.clone(),
        }
    }

    /// All routes, and an answer in the provider's form for unknown paths and methods, which are in
    /// the journal too.
    pub(crate) fn into_router(self) -> Router {
        let error = self.error;
        let service = move |route: Route, status: u16| {
            move |request: axum::extract::Request| async move {
                wire::refuse(
                    &route,
                    request,
                    SimulatedReply::json(status, &error(status)),
                )
                .await
            }
        };
        // Never called: `refuse` sends the reply that it is given.
        let no_handler: RouteHandler = |_| SimulatedReply::empty(404);
        // axum's own 404 would leave no trace. An adapter that calls a wrong path must show up in
        // the journal.
        let (not_found, wrong_method) = (
            self.route_for(RequestRole::Other, no_handler),
            self.route_for(RequestRole::Other, no_handler),
        );
        self.router
            .fallback(service(not_found, 404))
            .method_not_allowed_fallback(service(wrong_method, 405))
    }
}
