//! Route states of each process. A circuit breaker is a process's own, and only it acts by
//! it; on a database that several share each writes down what it does not use as usual, so that an
//! operator sees all of them, whoever answers.

use std::collections::HashMap;

use crate::app::{App, AppParts};
use mediagate_config::DatabaseTarget;
use mediagate_model::catalog::{Model, Route};
use mediagate_model::error::Error;
use mediagate_model::route::BreakerSnapshot;
use mediagate_store as store;
use mediagate_store::replicas::ReplicaMarks;
use mediagate_store::routes::RouteKey;

/// The mark under which a process has its stances, as JSON.
const MARK: &str = "routes";

/// Processes, each with what it does not use as usual, by provider and model.
pub type PeerRouteStates = Vec<(String, HashMap<RouteKey, BreakerSnapshot>)>;

/// What this process does not use as usual.
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

/// Writes them among the marks of this process.
pub(super) fn mark(app: &AppParts, marks: &mut ReplicaMarks) {
    let text = serde_json::to_string(&own_states(app)).unwrap_or_default();
    marks.insert(MARK.to_owned(), text);
}

/// What the other processes do not use as usual; a server on `SQLite` is alone.
pub async fn peer_states(app: &App) -> Result<PeerRouteStates, Error> {
    if app.config.database == DatabaseTarget::Sqlite {
        return Ok(Vec::new());
    }
    server_states(app).await
}

/// What those do not use as usual that run beside this process, which may be a command.
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

/// One that another version wrote otherwise is not known.
fn parse_mark(marks: &ReplicaMarks) -> HashMap<RouteKey, BreakerSnapshot> {
    let text = marks.get(MARK).map_or("[]", String::as_str);
    let stances: Vec<BreakerSnapshot> = serde_json::from_str(text).unwrap_or_default();
    stances
        .into_iter()
        .map(|one| ((one.provider.clone(), one.model.clone()), one))
        .collect()
}

/// How all processes stand to a route.
pub struct CombinedRouteState {
    /// The one that uses it least.
    pub worst: BreakerSnapshot,
    /// Whether any of them sends orders by it.
    pub is_up: bool,
    /// Those that do not use it as usual.
    pub unusual: Vec<(String, BreakerSnapshot)>,
}

/// The stance of this process to a route, and of the `others`.
pub fn combined_state(
    app: &AppParts,
    route: &Route,
    others: &PeerRouteStates,
) -> CombinedRouteState {
    let own = app.models.upstream.stance(route, app.clock.now());
    let name = app.server.name().to_owned();
    joined(Some((name, own)), route, others)
}

/// The stances of the `servers` to a route, for a command, which sends no orders itself.
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
        // Processes write down only what is unusual, so a route that one does not mention is in
        // use.
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
