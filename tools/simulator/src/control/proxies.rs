//! Proxies for programs outside the simulator's process, under `/_/proxies`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use locks::lock;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{apply_body, read};
use crate::fault::{ConnectionCut, FaultProxy, NetworkState};

/// The proxies of a simulator, by their numbers from 0.
#[derive(Debug, Default)]
pub(crate) struct ProxyRegistry(Mutex<Vec<Option<Arc<FaultProxy>>>>);

impl ProxyRegistry {
    /// Keeps a proxy until it is removed; returns its number.
    pub(crate) fn keep(&self, proxy: FaultProxy) -> usize {
        let mut proxies = self.lock();
        // A removed proxy leaves its slot empty, so a number never means another proxy later.
        proxies.push(Some(Arc::new(proxy)));
        proxies.len() - 1
    }

    fn find(&self, number: usize) -> Option<Arc<FaultProxy>> {
        self.lock().get(number).cloned().flatten()
    }

    fn remove(&self, number: usize) -> bool {
        let mut proxies = self.lock();
        proxies
            .get_mut(number)
            .is_some_and(|slot| slot.take().is_some())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Arc<FaultProxy>>>> {
        lock(&self.0)
    }
}

/// The settings of a new proxy.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProxyRequest {
    to: SocketAddr,
    listen: Option<SocketAddr>,
}

type ProxiesState = State<Arc<ProxyRegistry>>;

pub(crate) fn router(proxies: Arc<ProxyRegistry>) -> Router {
    Router::new()
        .route("/", get(list).post(add))
        .route("/{number}", get(show_proxy).put(set).delete(remove))
        .route("/{number}/cuts", post(cut).delete(clear_cuts))
        .route("/{number}/reset", post(reset))
        .route("/{number}/release", post(release))
        .route("/{number}/heal", post(heal))
        .with_state(proxies)
}

async fn list(State(proxies): ProxiesState) -> axum::Json<Vec<Value>> {
    let registered = proxies.lock();
    let entries = registered.iter().enumerate();
    let entries = entries.filter_map(|(number, proxy)| Some(show(number, proxy.as_deref()?)));
    axum::Json(entries.collect())
}

async fn add(State(proxies): ProxiesState, body: Bytes) -> Response {
    let settings: ProxyRequest = match read(&body) {
        Ok(settings) => settings,
        Err(response) => return response,
    };
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    match FaultProxy::listen(settings.listen.unwrap_or(any_port), settings.to).await {
        Ok(proxy) => {
            let address = proxy.address();
            let number = proxies.keep(proxy);
            axum::Json(json!({"number": number, "address": address})).into_response()
        }
        Err(error) => {
            // Usually the port is taken. The request itself was well-formed, so this is no 400.
            let body = axum::Json(json!({"error": error.to_string()}));
            (StatusCode::CONFLICT, body).into_response()
        }
    }
}

async fn show_proxy(State(proxies): ProxiesState, Path(number): Path<usize>) -> Response {
    match proxies.find(number) {
        Some(proxy) => axum::Json(show(number, &proxy)).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn set(State(proxies): ProxiesState, Path(number): Path<usize>, body: Bytes) -> Response {
    with_proxy(&proxies, number, |proxy| {
        apply_body(&body, |network: NetworkState| proxy.set(network))
    })
}

async fn cut(State(proxies): ProxiesState, Path(number): Path<usize>, body: Bytes) -> Response {
    with_proxy(&proxies, number, |proxy| {
        apply_body(&body, |cut: ConnectionCut| proxy.cut(cut))
    })
}

async fn clear_cuts(State(proxies): ProxiesState, Path(number): Path<usize>) -> Response {
    command_proxy(&proxies, number, FaultProxy::clear_cuts)
}

async fn reset(State(proxies): ProxiesState, Path(number): Path<usize>) -> Response {
    command_proxy(&proxies, number, FaultProxy::reset)
}

async fn release(State(proxies): ProxiesState, Path(number): Path<usize>) -> Response {
    command_proxy(&proxies, number, FaultProxy::release)
}

async fn heal(State(proxies): ProxiesState, Path(number): Path<usize>) -> Response {
    command_proxy(&proxies, number, FaultProxy::heal)
}

async fn remove(State(proxies): ProxiesState, Path(number): Path<usize>) -> StatusCode {
    if proxies.remove(number) {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::NOT_FOUND
    }
}

fn with_proxy(
    proxies: &ProxyRegistry,
    number: usize,
    answer: impl FnOnce(&FaultProxy) -> Response,
) -> Response {
    match proxies.find(number) {
        Some(proxy) => answer(&proxy),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn command_proxy(
    proxies: &ProxyRegistry,
    number: usize,
    command: impl FnOnce(&FaultProxy),
) -> Response {
    with_proxy(proxies, number, |proxy| {
        command(proxy);
        StatusCode::NO_CONTENT.into_response()
    })
}

fn show(number: usize, proxy: &FaultProxy) -> Value {
    json!({
        "number": number, "address": proxy.address(), "to": proxy.target(),
        "network": proxy.network(), "cuts": proxy.cuts(), "traffic": proxy.traffic(),
    })
}
