//! Route states of each process. Each process has its own circuit breakers, and only that process
//! acts on them. On a shared database each process publishes the routes that it does not use
//! normally, so that an operator sees all of them, whichever process answers.

use std::collections::HashMap;

use crate::app::{App, AppParts};
use mediagate_config::DatabaseTarget;
use mediagate_model::catalog::{Model, Route};
use mediagate_model::error::Error;
use mediagate_model::route::BreakerSnapshot;
use mediagate_store as store;
use mediagate_store::replicas::ReplicaMarks;
use mediagate_store::routes::RouteKey;

/// The mark under which a process publishes its route states, as JSON.
const MARK: &str = "routes";

/// Processes, each with the routes that it does not use normally, by provider and model.
pub type PeerRouteStates = Vec<(String, HashMap<RouteKey, BreakerSnapshot>)>;

/// The routes that this process does not use normally.
pub fn own_states(app: &AppParts) -> Vec<BreakerSnapshot> {
    let now = app.clock.now();
    let catalog = app.models.catalog.load();
    let routes = catalog.models().iter().flat_map(Model::routes);
    let states = routes.map(|route| app.models.upstream.breaker_state(route, now));
    let mut states: Vec<BreakerSnapshot> = states.filter(|state| !state.is_healthy()).collect();
    // Several models may share a route, which would be listed once for each.
    states.sort();
    states.dedup();
    states
}

/// Adds the states of this process to its marks.
pub(super) fn add_mark(app: &AppParts, marks: &mut ReplicaMarks) {
    let text = serde_json::to_string(&own_states(app)).unwrap_or_default();
    marks.insert(MARK.to_owned(), text);
}

/// The routes that the other processes do not use normally; a server on `SQLite` has no others.
pub async fn peer_states(app: &App) -> Result<PeerRouteStates, Error> {
    if app.config.database == DatabaseTarget::Sqlite {
        return Ok(Vec::new());
    }
    server_states(app).await
}

/// The routes that running servers do not use normally, read by this process, which may be a
/// command.
pub async fn server_states(app: &App) -> Result<PeerRouteStates, Error> {
    if app.models.upstream.sites().is_empty() {
        return Ok(Vec::new());
    }
    let (clock, name) = (app.clock.now(), app.server.name().to_owned());
    let read = app.store.long_read(move |conn| {
        // The database's clock is used: the others' last-seen times were written by it too.
        let now = store::workers::now(conn, clock)?;
        store::replicas::other_replicas(conn, &name, now)
    });
    let peers = store::await_within_limit(read).await?;
    Ok(peers
        .into_iter()
        .map(|(name, marks)| (name, parse_mark(&marks)))
        .collect())
}

/// An entry in another version's format is ignored.
fn parse_mark(marks: &ReplicaMarks) -> HashMap<RouteKey, BreakerSnapshot> {
    let text = marks.get(MARK).map_or("[]", String::as_str);
    let states: Vec<BreakerSnapshot> = serde_json::from_str(text).unwrap_or_default();
    states
        .into_iter()
        .map(|state| ((state.provider.clone(), state.model.clone()), state))
        .collect()
}

/// The combined state of a route in all processes.
pub struct CombinedRouteState {
    /// The state in the process that uses it least.
    pub worst: BreakerSnapshot,
    /// Whether any process sends orders through it.
    pub is_up: bool,
    /// The processes that do not use it normally.
    pub unusual: Vec<(String, BreakerSnapshot)>,
}

/// The state of a route in this process and in the `peers`.
pub fn combined_state(
    app: &AppParts,
    route: &Route,
    peers: &PeerRouteStates,
) -> CombinedRouteState {
    let own = app.models.upstream.breaker_state(route, app.clock.now());
    let name = app.server.name().to_owned();
    combine(Some((name, own)), route, peers)
}

/// The state of a route in the `servers`, for a command, which sends no orders itself.
pub fn combined_server_state(servers: &PeerRouteStates, route: &Route) -> CombinedRouteState {
    combine(None, route, servers)
}

fn combine(
    own: Option<(String, BreakerSnapshot)>,
    route: &Route,
    peers: &PeerRouteStates,
) -> CombinedRouteState {
    let closed = BreakerSnapshot::closed(&route.provider, &route.model);
    let key = (route.provider.clone(), route.model.clone());
    let peer_states = peers.iter().map(|(name, states)| {
        // Processes publish only unusual states, so a route that is not listed is in normal use.
        let state = states.get(&key).cloned();
        (name.clone(), state.unwrap_or_else(|| closed.clone()))
    });
    let all_states: Vec<(String, BreakerSnapshot)> = own.into_iter().chain(peer_states).collect();
    // As long as one process uses the route, orders get through.
    let is_up = all_states.iter().any(|(_, state)| state.is_up);
    let worst = all_states
        .iter()
        .map(|(_, state)| state)
        .max_by_key(|state| state.rank());
    CombinedRouteState {
        worst: worst.cloned().unwrap_or(closed),
        is_up,
        unusual: all_states
            .into_iter()
            .filter(|(_, state)| !state.is_healthy())
            .collect(),
    }
}
