//! Routes to providers as an operator sees them.

use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use mediagate_core::domain::routes::RouteSummary;
use mediagate_model::clock::Timestamp;
use mediagate_model::route::{BreakerSnapshot, RouteCounts, RouteError, RouteNote};

/// A route to a provider.
#[derive(Debug, Serialize, ToSchema)]
pub struct RouteStanding {
    /// Provider and model.
    pub id: String,
    /// Always `route`.
    pub object: &'static str,
    /// The operator's name for the provider.
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    /// The models of the price list that it serves.
    pub models: Vec<String>,
    /// Whether it is believed to take orders now, sent by any process.
    pub available: bool,
    /// The circuit breakers of all processes.
    pub breaker: BreakerObject,
    /// Since when an operator has it paused.
    #[schema(required = true)]
    pub paused_at: Option<String>,
    /// Since when the provider refuses the key; said until an order is taken.
    #[schema(required = true)]
    pub key_refused_at: Option<String>,
    /// Its last error.
    #[schema(required = true)]
    pub last_error: Option<RouteErrorObject>,
    /// How orders of the last hour ended.
    pub last_hour: RouteOutcomes,
    /// The same for each five minutes of it, the newest last.
    pub last_hour_by_minutes: Vec<RouteOutcomes>,
    /// How orders of the last day ended.
    pub last_day: RouteOutcomes,
    /// Half of the last day's successes took at most so many seconds.
    #[schema(required = true)]
    pub p50_seconds: Option<f64>,
    /// 19 of 20 of the last day's successes took at most so many seconds.
    #[schema(required = true)]
    pub p95_seconds: Option<f64>,
    /// Jobs at the provider now.
    pub open_jobs: u32,
    /// When it is tried next, if it is not used now.
    #[schema(required = true)]
    pub next_try_at: Option<String>,
}

/// The circuit breakers of a route: each process has its own.
#[derive(Debug, Serialize, ToSchema)]
pub struct BreakerObject {
    /// `closed`: used; `open`: not used after failures; `trial`: one order is tried; `busy`: the
    /// provider asked for a pause; `unreachable`: its host takes no connections. Of the process that
    /// uses the route least.
    pub state: String,
    /// Failures in a row, in that process.
    pub failures: u32,
    /// The processes that do not use the route as usual, as they said a second ago at most.
    pub processes: Vec<ProcessBreaker>,
}

/// The circuit breaker of one process.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProcessBreaker {
    /// The process's name.
    pub process: String,
    /// As the route's.
    pub state: String,
    /// Failures in a row.
    pub failures: u32,
    /// When it is tried next, if it is not used now.
    #[schema(required = true)]
    pub next_try_at: Option<String>,
}

impl ProcessBreaker {
    fn new((process, stance): &(String, BreakerSnapshot)) -> Self {
        Self {
            process: process.clone(),
            state: stance.state.clone(),
            failures: stance.failures,
            next_try_at: next_try(stance),
        }
    }
}

fn next_try(stance: &BreakerSnapshot) -> Option<String> {
    let next = stance.next_try.map(Timestamp::from_micros);
    next.map(Timestamp::rfc3339)
}

/// A provider's error.
#[derive(Debug, Serialize, ToSchema)]
pub struct RouteErrorObject {
    /// What kind of error it is.
    pub class: String,
    /// The provider's words, without secrets.
    pub message: String,
    /// When it happened.
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

/// How orders ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct RouteOutcomes {
    /// The provider made it.
    pub succeeded: u64,
    /// The provider took it and failed.
    pub failed: u64,
    /// Nobody knows whether the provider took it, or it turned out too late.
    pub unconfirmed: u64,
    /// The provider took nothing.
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
    pub fn new(standing: &RouteSummary) -> Self {
        let (route, note, record) = (&standing.route, &standing.note, &standing.record);
        let together = &standing.together;
        let mut last_hour = RouteCounts::default();
        for part in record.last_hour {
            last_hour.add(part);
        }
        let is_believed = note.paused_at.is_none() && note.refused_at.is_none();
        Self {
            id: format!("{}/{}", route.provider, route.model),
            object: "route",
            provider: route.provider.clone(),
            model: route.model.clone(),
            models: standing.models.clone(),
            available: together.is_up && is_believed,
            breaker: BreakerObject {
                state: together.worst.state.clone(),
                failures: together.worst.failures,
                processes: together.unusual.iter().map(ProcessBreaker::new).collect(),
            },
            paused_at: note.paused_at.map(Timestamp::rfc3339),
            key_refused_at: note.refused_at.map(Timestamp::rfc3339),
            last_error: note.error.as_ref().map(RouteErrorObject::new),
            last_hour: RouteOutcomes::new(last_hour),
            last_hour_by_minutes: record.last_hour.map(RouteOutcomes::new).into(),
            last_day: RouteOutcomes::new(record.last_day),
            p50_seconds: record.p50.map(seconds),
            p95_seconds: record.p95.map(seconds),
            open_jobs: record.open_jobs,
            next_try_at: next_try(&together.worst).filter(|_| note.paused_at.is_none()),
        }
    }
}

/// To the millisecond.
fn seconds(time: Duration) -> f64 {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).as_secs_f64()
}

/// What an operator did to a route.
#[derive(Debug, Serialize, ToSchema)]
pub struct RouteChange {
    /// Always `route`.
    pub object: &'static str,
    /// The operator's name for the provider.
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    /// Since when it is paused.
    #[schema(required = true)]
    pub paused_at: Option<String>,
    /// When it was last to be tried again.
    #[schema(required = true)]
    pub tried_at: Option<String>,
}

impl RouteChange {
    pub fn new(provider: &str, model: &str, note: &RouteNote) -> Self {
        Self {
            object: "route",
            provider: provider.to_owned(),
            model: model.to_owned(),
            paused_at: note.paused_at.map(Timestamp::rfc3339),
            tried_at: note.tried_at.map(Timestamp::rfc3339),
        }
    }
}
