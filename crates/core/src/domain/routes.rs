//! Routes to providers as an operator sees and controls them: pausing, retrying, refused keys.
//!
//! State that applies to every process is in the database; each process reads it again every
//! second. A process that cannot read it continues with what it last read.

use std::collections::HashMap;
use std::time::Duration;

use providers::{ErrorClass, ProviderError};
use serde_json::{Value, json};

use crate::app::{App, AppParts, Ctx};
use crate::domain::operator::OperatorAction;
use crate::domain::route_states::{self, CombinedRouteState, PeerRouteStates};
use mediagate_model::catalog::Route;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::price::PASS_THROUGH_MODEL;
use mediagate_model::route::{
    COUNT_PERIOD, COUNT_PERIODS, RouteError, RouteRecord, StoredRouteState,
};
use mediagate_store as store;
use mediagate_store::routes::RouteKey;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// Longest message that is kept, in characters.
const MAX_MESSAGE_CHARS: usize = 1000;

/// A route, the models that it serves, and its state and results.
pub struct RouteSummary {
    pub route: Route,
    pub models: Vec<String>,
    pub stored: StoredRouteState,
    pub record: RouteRecord,
    /// Its state in all processes.
    pub combined: CombinedRouteState,
}

/// Every route in the settings, by provider and model.
pub async fn all(app: &App) -> Result<Vec<RouteSummary>, Error> {
    let peers = route_states::peer_states(app).await?;
    summaries(app, |route| {
        route_states::combined_state(app, route, &peers)
    })
    .await
}

/// Like [`all`], for a command, with the states in the `servers`.
pub async fn all_across_servers(
    app: &App,
    servers: &PeerRouteStates,
) -> Result<Vec<RouteSummary>, Error> {
    summaries(app, |route| {
        route_states::combined_server_state(servers, route)
    })
    .await
}

async fn summaries(
    app: &App,
    combine: impl Fn(&Route) -> CombinedRouteState,
) -> Result<Vec<RouteSummary>, Error> {
    let mut summaries: Vec<RouteSummary> = Vec::new();
    let catalog = app.models.catalog.load_full();
    for model in catalog.models() {
        for route in model.routes() {
            let is_same_route = |summary: &&mut RouteSummary| {
                (&summary.route.provider, &summary.route.model) == (&route.provider, &route.model)
            };
            // A route that serves several models is one route, with one health.
            match summaries.iter_mut().find(is_same_route) {
                Some(summary) => summary.models.push(model.id.clone()),
                None => summaries.push(RouteSummary {
                    route: route.clone(),
                    models: vec![model.id.clone()],
                    stored: StoredRouteState::default(),
                    record: RouteRecord::default(),
                    combined: combine(route),
                }),
            }
        }
    }
    summaries.sort_by_key(|a| key(&a.route));
    let mut records = records(
        app,
        summaries
            .iter()
            .map(|summary| summary.route.provider.clone()),
    )
    .await?;
    let stored_states: HashMap<RouteKey, StoredRouteState> =
        read_stored_states(app).await?.into_iter().collect();
    for summary in &mut summaries {
        let key = key(&summary.route);
        summary.record = records.remove(&key).unwrap_or_default();
        summary.stored = stored_states.get(&key).cloned().unwrap_or_default();
    }
    Ok(summaries)
}

/// One of the routes.
pub async fn get(app: &App, provider: &str, model: &str) -> Result<RouteSummary, Error> {
    let summary = all(app)
        .await?
        .into_iter()
        .find(|summary| summary.route.provider == provider && summary.route.model == model);
    summary.ok_or_else(not_found)
}

fn not_found() -> Error {
    let message = "There is no route with this provider and model.";
    Error::plain(ErrorCode::ProviderNotFound, message)
}

fn key(route: &Route) -> RouteKey {
    (route.provider.clone(), route.model.clone())
}

async fn read_stored_states(app: &Ctx) -> Result<Vec<(RouteKey, StoredRouteState)>, Error> {
    Ok(app.store.long_read(store::routes::stored_states).await?)
}

async fn records(
    app: &Ctx,
    providers: impl Iterator<Item = String>,
) -> Result<HashMap<RouteKey, RouteRecord>, Error> {
    let mut providers: Vec<String> = providers.collect();
    providers.dedup();
    let now = app.clock.now();
    let read = app.store.long_read(move |conn| -> Result<_, Error> {
        let mut records: HashMap<RouteKey, RouteRecord> = HashMap::new();
        let mut durations: HashMap<RouteKey, Vec<i64>> = HashMap::new();
        for provider in providers {
            let key = |model: String| (provider.clone(), model);
            let hour = store::routes::outcomes(conn, &provider, now.minus(HOUR), COUNT_PERIOD)?;
            for (model, index, counts) in hour {
                let parts = &mut records.entry(key(model)).or_default().last_hour;
                // Results from just after `now` belong to the last period.
                parts[index.min(COUNT_PERIODS - 1)].add(counts);
            }
            // A period longer than the requested time, so that everything falls into one period.
            let day = store::routes::outcomes(conn, &provider, now.minus(DAY), 2 * DAY)?;
            for (model, _, counts) in day {
                let record = records.entry(key(model)).or_default();
                record.last_day.add(counts);
            }
            for (model, _, open) in store::submissions::count_open(conn, &provider)? {
                records.entry(key(model)).or_default().open_jobs += open;
            }
            for (model, duration) in
                store::routes::success_durations(conn, &provider, now.minus(DAY))?
            {
                durations.entry(key(model)).or_default().push(duration);
            }
        }
        for (key, mut sorted) in durations {
            sorted.sort_unstable();
            let record = records.entry(key).or_default();
            record.p50 = percentile(&sorted, 50);
            record.p95 = percentile(&sorted, 95);
        }
        Ok(records)
    });
    store::await_within_limit(read).await
}

/// The time within which this percentage of tasks ended; `sorted` is in microseconds.
fn percentile(sorted: &[i64], per_cent: usize) -> Option<Duration> {
    let index = (sorted.len() * per_cent).div_ceil(100).checked_sub(1)?;
    let micros = *sorted.get(index)?;
    Some(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
}

/// What an operator can do with a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteCommand {
    /// Use it for the next order, whatever its state.
    Retry,
    /// Send nothing to it; running jobs continue.
    Pause,
    Resume,
}

impl RouteCommand {
    const fn action(self) -> &'static str {
        match self {
            Self::Retry => "route.try",
            Self::Pause => "route.pause",
            Self::Resume => "route.resume",
        }
    }
}

/// Runs a command, which takes effect in every process within seconds.
pub async fn run_command(
    app: &App,
    operation: OperatorAction<'_, StoredRouteState>,
    provider: &str,
    model: &str,
    command: RouteCommand,
) -> Result<StoredRouteState, Error> {
    // Only a route in the settings can be controlled. A typo would otherwise be stored and do
    // nothing.
    let summary = get(app, provider, model).await?;
    let key = key(&summary.route);
    let now = app.clock.now();
    let stored = operation
        .write(app, move |conn, author| {
            let before = store::routes::stored_state(conn, &key)?;
            match command {
                RouteCommand::Retry => store::routes::set_retry_requested(conn, &key, now)?,
                RouteCommand::Pause => {
                    let since = before.paused_at.unwrap_or(now);
                    store::routes::set_paused(conn, &key, Some(since))?;
                }
                RouteCommand::Resume => store::routes::set_paused(conn, &key, None)?,
            }
            let after = store::routes::stored_state(conn, &key)?;
            let target = format!("{}/{}", key.0, key.1);
            let changed = (Some(audit_value(&before)), Some(audit_value(&after)));
            author.note(conn, command.action(), &target, changed, now)?;
            Ok(after)
        })
        .await?;
    // The others read it within a second. This process applies it before it answers.
    refresh(app).await?;
    Ok(stored)
}

fn audit_value(stored: &StoredRouteState) -> Value {
    json!({
        "paused_at": stored.paused_at.map(Timestamp::rfc3339),
        "tried_at": stored.retry_requested_at.map(Timestamp::rfc3339),
    })
}

/// Reads the state that applies to every process again.
pub async fn refresh(app: &AppParts) -> Result<(), Error> {
    let stored_states = read_stored_states(app).await?;
    app.models
        .upstream
        .update_stored_states(stored_states.into_iter().collect());
    Ok(())
}

/// Records that a provider did not accept an order through this route, and whether it refuses the
/// key.
pub async fn record_failure(app: &App, route: &Route, error: &ProviderError) {
    let refuses_key = matches!(error.class, ErrorClass::Credentials | ErrorClass::Account);
    write_error(app, route, error, refuses_key).await;
}

/// Records an error of one order. It says nothing about the next one if the provider refused its
/// content, its job failed, or its outcome is unclear; but if the provider has no such model, it
/// refuses the next one too.
pub async fn record_order_error(app: &App, route: &Route, error: &ProviderError) {
    // Where callers name the provider's model, another name may work.
    let refuses_model = route.model != PASS_THROUGH_MODEL && error.rejects_model();
    write_error(app, route, error, refuses_model).await;
}

/// Stores the last error of a route. Written at once; a failed write is only logged.
async fn write_error(app: &App, route: &Route, error: &ProviderError, refuses_all: bool) {
    let (key, now) = (key(route), app.clock.now());
    let route_error = RouteError {
        class: error.class.name().to_owned(),
        message: error.message.chars().take(MAX_MESSAGE_CHARS).collect(),
        at: now,
    };
    // In memory first: it applies to the next order even while the database is unavailable.
    app.models.upstream.with_stored_state(route, |stored| {
        stored.error = Some(route_error.clone());
        if refuses_all && stored.refused_at.is_none() {
            stored.refused_at = Some(now);
        }
    });
    let write = app.store.write(move |conn| -> Result<(), Error> {
        Ok(store::routes::set_error(
            conn,
            &key,
            &route_error,
            refuses_all,
        )?)
    });
    if let Err(error) = write.await {
        tracing::warn!(inside = ?error.internal_cause(), provider = %route.provider, "cannot store the error of a route");
    }
}

/// Records that a provider accepted an order through this route, and so the key and the model too.
pub async fn record_acceptance(app: &App, route: &Route) {
    // Nearly always nothing was refused before, so an accepted order costs no write here.
    if app
        .models
        .upstream
        .with_stored_state(route, |stored| stored.refused_at.take())
        .is_none()
    {
        return;
    }
    let key = key(route);
    let write = app
        .store
        .write(move |conn| store::routes::clear_refusal(conn, &key).map_err(Error::from));
    if let Err(error) = write.await {
        tracing::warn!(inside = ?error.internal_cause(), provider = %route.provider, "cannot record that a provider accepts the key");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_few_durations() {
        assert_eq!(percentile(&[], 50), None);
        assert_eq!(percentile(&[7], 95), Some(Duration::from_micros(7)));
        let many: Vec<i64> = (1..=100).collect();
        assert_eq!(percentile(&many, 50), Some(Duration::from_micros(50)));
        assert_eq!(percentile(&many, 95), Some(Duration::from_micros(95)));
    }
}
