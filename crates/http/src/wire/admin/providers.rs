//! Routes to providers as an operator sees them.

use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use mediagate_core::domain::routes::RouteSummary;
use mediagate_model::clock::Timestamp;
use mediagate_model::route::{BreakerSnapshot, RouteCounts, RouteError, StoredRouteState};

/// A route to a provider.
#[derive(Debug, Serialize, ToSchema)]
pub struct RouteStanding {
    /// The provider and the model, separated by a slash.
    pub id: String,
    /// Always `route`.
    pub object: &'static str,
    /// Name of the provider in the configuration.
    pub provider: String,
    /// The provider's own model name.
    pub model: String,
    /// Models in the price list that this route serves.
    pub models: Vec<String>,
    /// Whether at least one process can currently send tasks to this route.
    pub available: bool,
    /// The circuit breakers of all processes.
    pub breaker: BreakerObject,
    /// Time when an operator paused the route. Null if it is not paused.
    #[schema(required = true)]
    pub paused_at: Option<String>,
    /// Time since which the provider rejects the key, or the model: `last_error` says which. Null
    /// once the provider accepts a task.
    #[schema(required = true)]
    pub key_refused_at: Option<String>,
    /// The last error of an order or a job, in the provider's words.
    #[schema(required = true)]
    pub last_error: Option<RouteErrorObject>,
    /// Outcomes of the last hour.
    pub last_hour: RouteOutcomes,
    /// Outcomes of the last hour in intervals of five minutes, oldest first.
    pub last_hour_by_minutes: Vec<RouteOutcomes>,
    /// Outcomes of the last 24 hours.
    pub last_day: RouteOutcomes,
    /// Median duration of the successful jobs of the last 24 hours, in seconds.
    #[schema(required = true)]
    pub p50_seconds: Option<f64>,
    /// 95th percentile of the durations of the successful jobs of the last 24 hours, in seconds.
    #[schema(required = true)]
    pub p95_seconds: Option<f64>,
    /// Number of jobs currently at the provider.
    pub open_jobs: u32,
    /// Time of the next try, if the route is currently not used.
    #[schema(required = true)]
    pub next_try_at: Option<String>,
}

/// The circuit breakers of a route. Each process has its own.
#[derive(Debug, Serialize, ToSchema)]
pub struct BreakerObject {
    /// State in the process where it is worst. `closed`: the route is used. `open`: not used after
    /// failures. `trial`: one task is tried. `busy`: the provider asked for a pause. `unreachable`:
    /// the provider's host accepts no connections.
    pub state: String,
    /// Consecutive failures in that process.
    pub failures: u32,
    /// The processes whose breaker is not `closed`, with a delay of at most one second.
    pub processes: Vec<ProcessBreaker>,
}

/// The circuit breaker of one process.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProcessBreaker {
    /// The process's name.
    pub process: String,
    /// State of the breaker: `closed`, `open`, `trial`, `busy` or `unreachable`.
    pub state: String,
    /// Consecutive failures.
    pub failures: u32,
    /// Time of the next try, if the route is currently not used.
    #[schema(required = true)]
    pub next_try_at: Option<String>,
}

impl ProcessBreaker {
    fn new((process, breaker): &(String, BreakerSnapshot)) -> Self {
        Self {
            process: process.clone(),
            state: breaker.state.clone(),
            failures: breaker.failures,
            next_try_at: next_try(breaker),
        }
    }
}

fn next_try(breaker: &BreakerSnapshot) -> Option<String> {
    let next = breaker.next_try.map(Timestamp::from_micros);
    next.map(Timestamp::rfc3339)
}

/// A provider's error.
#[derive(Debug, Serialize, ToSchema)]
pub struct RouteErrorObject {
    /// Error class.
    pub class: String,
    /// The provider's message, with secrets removed.
    pub message: String,
    /// Time of the error.
    pub at: String,
}

impl RouteErrorObject {
    pub fn new(error: &RouteError) -> Self {
        Self {
            class: error.class.clone(),
            message: error.message.clone(),
            at: error.at.rfc3339(),
        }
    }
}

/// Number of tasks per outcome.
#[derive(Debug, Serialize, ToSchema)]
pub struct RouteOutcomes {
    /// The provider delivered a result.
    pub succeeded: u64,
    /// The provider accepted the task, but it failed.
    pub failed: u64,
    /// It is unknown whether the provider accepted the task, or this was found out too late.
    pub unconfirmed: u64,
    /// The provider rejected the submission.
    pub refused: u64,
}

impl RouteOutcomes {
    const fn new(counts: RouteCounts) -> Self {
        Self {
            succeeded: counts.succeeded,
            failed: counts.failed,
            unconfirmed: counts.unconfirmed,
            refused: counts.refused,
        }
    }
}

impl RouteStanding {
    pub fn new(summary: &RouteSummary) -> Self {
        let (route, stored, record) = (&summary.route, &summary.stored, &summary.record);
        let combined = &summary.combined;
        let mut last_hour = RouteCounts::default();
        for part in record.last_hour {
            last_hour.add(part);
        }
        let is_usable = stored.paused_at.is_none() && stored.refused_at.is_none();
        Self {
            id: format!("{}/{}", route.provider, route.model),
            object: "route",
            provider: route.provider.clone(),
            model: route.model.clone(),
            models: summary.models.clone(),
            available: combined.is_up && is_usable,
            breaker: BreakerObject {
                state: combined.worst.state.clone(),
                failures: combined.worst.failures,
                processes: combined.unusual.iter().map(ProcessBreaker::new).collect(),
            },
            paused_at: stored.paused_at.map(Timestamp::rfc3339),
            key_refused_at: stored.refused_at.map(Timestamp::rfc3339),
            last_error: stored.error.as_ref().map(RouteErrorObject::new),
            last_hour: RouteOutcomes::new(last_hour),
            last_hour_by_minutes: record.last_hour.map(RouteOutcomes::new).into(),
            last_day: RouteOutcomes::new(record.last_day),
            p50_seconds: record.p50.map(seconds),
            p95_seconds: record.p95.map(seconds),
            open_jobs: record.open_jobs,
            // A paused route is not tried before an operator resumes it.
            next_try_at: next_try(&combined.worst).filter(|_| stored.paused_at.is_none()),
        }
    }
}

/// The time in seconds, rounded down to a millisecond.
fn seconds(time: Duration) -> f64 {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).as_secs_f64()
}

/// The state of a route after an operator's change.
#[derive(Debug, Serialize, ToSchema)]
pub struct RouteChange {
    /// Always `route`.
    pub object: &'static str,
    /// Name of the provider in the configuration.
    pub provider: String,
    /// The provider's own model name.
    pub model: String,
    /// Time when the route was paused. Null if it is not paused.
    #[schema(required = true)]
    pub paused_at: Option<String>,
    /// Time of the last request to try the route again.
    #[schema(required = true)]
    pub tried_at: Option<String>,
}

impl RouteChange {
    pub fn new(provider: &str, model: &str, stored: &StoredRouteState) -> Self {
        Self {
            object: "route",
            provider: provider.to_owned(),
            model: model.to_owned(),
            paused_at: stored.paused_at.map(Timestamp::rfc3339),
            tried_at: stored.retry_requested_at.map(Timestamp::rfc3339),
        }
    }
}
