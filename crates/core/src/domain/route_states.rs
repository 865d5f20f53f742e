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
    let stances = routes.map(|route| app.models.upstream.stance(route, now));
    let mut stances: Vec<BreakerSnapshot> = stances.filter(|stance| !stance.is_healthy()).collect();
    // Several models may share a route, which would be listed once for each.
    stances.sort();
    stances.dedup();
    stances
}

/// Adds them to the marks of this process.
pub(super) fn mark(app: &AppParts, marks: &mut ReplicaMarks) {
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
        // By the database's clock, by which the others wrote when they were last seen.
        let now = store::workers::now(conn, clock)?;
        store::replicas::other_replicas(conn, &name, now)
    });
    let others = store::await_commit(read).await?;
    Ok(others
        .into_iter()
        .map(|(name, marks)| (name, parse_mark(&marks)))
        .collect())
}

/// An entry in another version's format is ignored.
fn parse_mark(marks: &ReplicaMarks) -> HashMap<RouteKey, BreakerSnapshot> {
    let text = marks.get(MARK).map_or("[]", String::as_str);
    let stances: Vec<BreakerSnapshot> = serde_json::from_str(text).unwrap_or_default();
    stances
        .into_iter()
        .map(|one| ((one.provider.clone(), one.model.clone()), one))
        .collect()
}

/// The combined state of a route in all processes.
pub struct CombinedRouteState {
    /// The state in the process that uses it least.
    pub worst: BreakerSnapshot,
    /// Whether any process sends orders by it.
    pub is_up: bool,
    /// The processes that do not use it normally.
    pub unusual: Vec<(String, BreakerSnapshot)>,
}

/// The state of a route in this process and in the `others`.
pub fn combined_state(
    app: &AppParts,
    route: &Route,
    others: &PeerRouteStates,
) -> CombinedRouteState {
    let own = app.models.upstream.stance(route, app.clock.now());
    let name = app.server.name().to_owned();
    joined(Some((name, own)), route, others)
}

/// The state of a route in the `servers`, for a command, which sends no orders itself.
pub fn combined_server_state(servers: &PeerRouteStates, route: &Route) -> CombinedRouteState {
    joined(None, route, servers)
}

fn joined(
    own: Option<(String, BreakerSnapshot)>,
    route: &Route,
    others: &PeerRouteStates,
) -> CombinedRouteState {
    let usual = BreakerSnapshot::closed(&route.provider, &route.model);
    let key = (route.provider.clone(), route.model.clone());
    let theirs = others.iter().map(|(name, stances)| {
        // Processes publish only unusual states, so a route that is not listed is in normal use.
        let stance = stances.get(&key).cloned();
        (name.clone(), stance.unwrap_or_else(|| usual.clone()))
    });
    let all: Vec<(String, BreakerSnapshot)> = own.into_iter().chain(theirs).collect();
    // As long as one process uses the route, orders get through.
    let is_up = all.iter().any(|(_, stance)| stance.is_up);
    let worst = all
        .iter()
        .map(|(_, stance)| stance)
        .max_by_key(|stance| stance.rank());
    CombinedRouteState {
        worst: worst.cloned().unwrap_or(usual),
        is_up,
        unusual: all
            .into_iter()
            .filter(|(_, stance)| !stance.is_healthy())
            .collect(),
    }
}
