//! Proxies for those who are not in the simulator's process, under `/_/proxies`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{read, take};
use crate::fault::{Cut, Network, Proxy};

/// The proxies of a simulator, by their numbers from 0.
#[derive(Debug, Default)]
pub(crate) struct Proxies(Mutex<Vec<Option<Arc<Proxy>>>>);

impl Proxies {
    /// Keeps a proxy until it is taken away; its number.
    pub(crate) fn keep(&self, proxy: Proxy) -> usize {
        let mut all = self.lock();
        all.push(Some(Arc::new(proxy)));
        all.len() - 1
    }

    fn find(&self, number: usize) -> Option<Arc<Proxy>> {
        self.lock().get(number).cloned().flatten()
    }

    fn take_away(&self, number: usize) -> bool {
        let mut all = self.lock();
        all.get_mut(number).is_some_and(|one| one.take().is_some())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Arc<Proxy>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a new proxy is to be.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    to: SocketAddr,
    listen: Option<SocketAddr>,
}

type Shared = State<Arc<Proxies>>;

pub(crate) fn router(proxies: Arc<Proxies>) -> Router {
    Router::new()
        .route("/", get(list).post(add))
        .route("/{number}", get(one).put(set).delete(remove))
        .route("/{number}/cuts", post(cut).delete(clear_cuts))
        .route("/{number}/reset", post(reset))
        .route("/{number}/release", post(release))
        .route("/{number}/heal", post(heal))
        .with_state(proxies)
}

async fn list(State(proxies): Shared) -> axum::Json<Vec<Value>> {
    let all = proxies.lock();
    let shown = all.iter().enumerate();
    let shown = shown.filter_map(|(number, proxy)| Some(show(number, proxy.as_deref()?)));
    axum::Json(shown.collect())
}

async fn add(State(proxies): Shared, body: Bytes) -> Response {
    let wanted: Wanted = match read(&body) {
        Ok(wanted) => wanted,
        Err(refused) => return refused,
    };
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    match Proxy::listen(wanted.listen.unwrap_or(free), wanted.to).await {
        Ok(proxy) => {
            let address = proxy.address();
            let number = proxies.keep(proxy);
            axum::Json(json!({"number": number, "address": address})).into_response()
        }
        Err(error) => {
            let body = axum::Json(json!({"error": error.to_string()}));
            (StatusCode::CONFLICT, body).into_response()
        }
    }
}

async fn one(State(proxies): Shared, Path(number): Path<usize>) -> Response {
    match proxies.find(number) {
        Some(proxy) => axum::Json(show(number, &proxy)).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn set(State(proxies): Shared, Path(number): Path<usize>, body: Bytes) -> Response {
    with(&proxies, number, |proxy| {
        take(&body, |network: Network| proxy.set(network))
    })
}

async fn cut(State(proxies): Shared, Path(number): Path<usize>, body: Bytes) -> Response {
    with(&proxies, number, |proxy| {
        take(&body, |cut: Cut| proxy.cut(cut))
    })
}

async fn clear_cuts(State(proxies): Shared, Path(number): Path<usize>) -> Response {
    order(&proxies, number, Proxy::clear_cuts)
}

async fn reset(State(proxies): Shared, Path(number): Path<usize>) -> Response {
    order(&proxies, number, Proxy::reset)
}

async fn release(State(proxies): Shared, Path(number): Path<usize>) -> Response {
    order(&proxies, number, Proxy::release)
}

async fn heal(State(proxies): Shared, Path(number): Path<usize>) -> Response {
    order(&proxies, number, Proxy::heal)
}

async fn remove(State(proxies): Shared, Path(number): Path<usize>) -> StatusCode {
    if proxies.take_away(number) {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::NOT_FOUND
    }
}

fn with(proxies: &Proxies, number: usize, then: impl FnOnce(&Proxy) -> Response) -> Response {
    match proxies.find(number) {
        Some(proxy) => then(&proxy),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn order(proxies: &Proxies, number: usize, what: impl FnOnce(&Proxy)) -> Response {
    with(proxies, number, |proxy| {
        what(proxy);
        StatusCode::NO_CONTENT.into_response()
    })
}

fn show(number: usize, proxy: &Proxy) -> Value {
    json!({
        "number": number, "address": proxy.address(), "to": proxy.target(),
        "network": proxy.network(), "cuts": proxy.cuts(), "traffic": proxy.traffic(),
    })
}
