//! The simulator's own API, under `/_`, for those who are not in its process.
//!
//! ```text
//! GET    /_/health      {"ok": true}: it is there
//! POST   /_/reset       back to the beginning
//! GET    /_/faults      what is ordered and has not struck yet
//! POST   /_/faults      an Order: {"fault": …, "provider"?, "role"?, "after"?, "times"?}
//! DELETE /_/faults      calls them off
//! POST   /_/plan        a Plan: {"queued"?, "running"?, "polls"?, "end"?}; with ?provider= for one
//! GET    /_/journal     what was received; with ?provider= by one
//! PUT    /_/journal     true or false: whether requests are written down
//! DELETE /_/journal     empties it
//! GET    /_/jobs        what was ordered; with ?provider= of one
//!
//! GET    /_/proxies     the TCP proxies, each with its number, address and traffic
//! POST   /_/proxies     a new one: {"to": "127.0.0.1:5432", "listen"?}
//! GET    /_/proxies/N   one
//! PUT    /_/proxies/N   a Network: {"up"?, "down"?: {"delay"?, "bytes_per_second"?, "held"?}, "refuses"?}
//! POST   /_/proxies/N/cuts     a Cut: {"bytes", "side"?, "after"?, "times"?, "passes"?, "then"?}
//! DELETE /_/proxies/N/cuts     calls off those that have not struck
//! POST   /_/proxies/N/reset    resets its open connections
//! POST   /_/proxies/N/release  lets connections go on that a cut holds
//! POST   /_/proxies/N/heal     a network without a fault, and no cuts
//! DELETE /_/proxies/N   takes it away
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

/// Whom a call is about.
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
    Query(about): Query<ProviderQuery>,
    body: Bytes,
) -> Response {
    apply_body(&body, |plan: JobPlan| match about.provider {
        Some(provider) => world.set_plan_of(&provider, plan),
        None => world.set_plan(plan),
    })
}

async fn journal(
    State(world): WorldState,
    Query(about): Query<ProviderQuery>,
) -> axum::Json<Vec<Value>> {
    let all = world.journal();
    let wanted = all.iter().filter(|one| {
        let provider = about.provider.as_deref();
        provider.is_none_or(|name| name == one.provider)
    });
    axum::Json(wanted.map(crate::ReceivedRequest::to_json).collect())
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
    Query(about): Query<ProviderQuery>,
) -> axum::Json<Vec<Value>> {
    let jobs = match about.provider {
        Some(provider) => world.jobs(&provider),
        None => world.all_jobs(),
    };
    axum::Json(jobs.iter().map(crate::Job::to_json).collect())
}

/// Reads a body, whatever its media type says, and does something with it.
pub(crate) fn apply_body<T: DeserializeOwned>(body: &Bytes, then: impl FnOnce(T)) -> Response {
    match read(body) {
        Ok(value) => {
            then(value);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(refused) => refused,
    }
}

/// What a body says, or the answer that refuses it.
#[expect(
    clippy::result_large_err,
    reason = "the answer is made to be sent, once"
)]
pub(crate) fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Response> {
    // Not axum's `Json`, which insists on the media type: `curl -d` sends another one.
    serde_json::from_slice(body).map_err(|error| {
        let body = axum::Json(json!({"error": error.to_string()}));
        (StatusCode::BAD_REQUEST, body).into_response()
    })
}
