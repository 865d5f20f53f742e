//! The simulator's own API, under `/_`, for programs outside its process.
//!
//! ```text
//! GET    /_/health      {"ok": true} if it runs
//! POST   /_/reset       restores the initial state
//! GET    /_/faults      the faults that have not occurred yet
//! POST   /_/faults      adds a FaultOrder: {"fault": …, "provider"?, "role"?, "after"?, "times"?}
//! DELETE /_/faults      removes them
//! POST   /_/plan        sets a JobPlan: {"queued"?, "running"?, "polls"?, "end"?};
//!                       with ?provider= for one
//! GET    /_/journal     the received requests; with ?provider= those of one
//! PUT    /_/journal     true or false: whether requests are recorded
//! DELETE /_/journal     empties it
//! GET    /_/jobs        the ordered jobs; with ?provider= those of one
//!
//! GET    /_/proxies     the TCP proxies, each with its number, address and traffic
//! POST   /_/proxies     adds one: {"to": "127.0.0.1:5432", "listen"?}
//! GET    /_/proxies/N   one of them
//! PUT    /_/proxies/N   sets a NetworkState:
//!                       {"up"?, "down"?: {"delay"?, "bytes_per_second"?, "held"?}, "refuses"?}
//! POST   /_/proxies/N/cuts     adds a ConnectionCut:
//!                              {"bytes", "side"?, "after"?, "times"?, "passes"?, "then"?}
//! DELETE /_/proxies/N/cuts     removes those that have not taken effect
//! POST   /_/proxies/N/reset    resets its open connections
//! POST   /_/proxies/N/release  lets connections continue that a cut holds
//! POST   /_/proxies/N/heal     removes all network faults and cuts
//! DELETE /_/proxies/N   removes it
//! ```

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fault::FaultOrder;
use crate::world::{JobPlan, World};

mod proxies;

pub(crate) use proxies::ProxyRegistry;

/// The provider that a call asks about; all if omitted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderQuery {
    provider: Option<String>,
}

type WorldState = State<Arc<World>>;

pub(crate) fn router(world: &Arc<World>, proxies: Arc<ProxyRegistry>) -> Router {
    Router::new()
        .route("/health", get(async || axum::Json(json!({"ok": true}))))
        .route("/reset", axum::routing::post(reset))
        .route("/faults", get(faults).post(place).delete(clear_faults))
        .route("/plan", axum::routing::post(plan))
        .route(
            "/journal",
            get(journal).put(set_journal).delete(clear_journal),
        )
        .route("/jobs", get(jobs))
        .with_state(world.clone())
        .nest("/proxies", proxies::router(proxies))
}

async fn reset(State(world): WorldState) -> StatusCode {
    world.reset();
    StatusCode::NO_CONTENT
}

async fn faults(State(world): WorldState) -> axum::Json<Vec<FaultOrder>> {
    axum::Json(world.fault_orders())
}

async fn place(State(world): WorldState, body: Bytes) -> Response {
    apply_body(&body, |order| world.place(order))
}

async fn clear_faults(State(world): WorldState) -> StatusCode {
    world.clear_faults();
    StatusCode::NO_CONTENT
}

async fn plan(
    State(world): WorldState,
    Query(query): Query<ProviderQuery>,
    body: Bytes,
) -> Response {
    apply_body(&body, |plan: JobPlan| match query.provider {
        Some(provider) => world.set_plan_of(&provider, plan),
        None => world.set_plan(plan),
    })
}

async fn journal(
    State(world): WorldState,
    Query(query): Query<ProviderQuery>,
) -> axum::Json<Vec<Value>> {
    let journal = world.journal();
    let matching = journal.iter().filter(|request| {
        let provider = query.provider.as_deref();
        provider.is_none_or(|name| name == request.provider)
    });
    axum::Json(matching.map(crate::ReceivedRequest::to_json).collect())
}

async fn set_journal(State(world): WorldState, body: Bytes) -> Response {
    apply_body(&body, |on| world.set_journal(on))
}

async fn clear_journal(State(world): WorldState) -> StatusCode {
    world.clear_journal();
    StatusCode::NO_CONTENT
}

async fn jobs(
    State(world): WorldState,
    Query(query): Query<ProviderQuery>,
) -> axum::Json<Vec<Value>> {
    let jobs = match query.provider {
        Some(provider) => world.jobs(&provider),
        None => world.all_jobs(),
    };
    axum::Json(jobs.iter().map(crate::Job::to_json).collect())
}

/// Reads a body, whatever its media type says, and applies it.
pub(crate) fn apply_body<T: DeserializeOwned>(body: &Bytes, apply: impl FnOnce(T)) -> Response {
    match read(body) {
        Ok(value) => {
            apply(value);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(response) => response,
    }
}

/// The parsed body, or the answer that refuses it.
#[expect(
    clippy::result_large_err,
    reason = "the answer is made to be sent, once"
)]
pub(crate) fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Response> {
    // Not axum's `Json`, which requires the media type of JSON: `curl -d` sends another one.
    serde_json::from_slice(body).map_err(|error| {
        let body = axum::Json(json!({"error": error.to_string()}));
        (StatusCode::BAD_REQUEST, body).into_response()
    })
}
