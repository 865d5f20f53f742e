//! Route health beyond the settings: pauses, errors, outcome counts, circuit breaker state.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// The state of a route that is stored in the database, so that every process has it and it
/// survives restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredRouteState {
    /// When an operator paused it, if it is paused.
    pub paused_at: Option<Timestamp>,
    /// When an operator last asked to retry it.
    pub retry_requested_at: Option<Timestamp>,
    /// When the provider first refused the key, the account behind it, or the model, if it still
    /// does.
    pub refused_at: Option<Timestamp>,
    pub error: Option<RouteError>,
}

impl StoredRouteState {
    /// Whether the provider refuses the model and not the key.
    pub fn is_model_refused(&self) -> bool {
        let error = self.error.as_ref();
        self.refused_at.is_some() && error.is_some_and(|error| error.class == "rejected")
    }
}

/// The last error of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteError {
    /// As in `docs/providers`: `credentials`, `unavailable`, …
    pub class: String,
    /// The provider's message, without secrets.
    pub message: String,
    pub at: Timestamp,
}

/// The outcomes of a route's submissions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouteCounts {
    pub succeeded: u64,
    pub failed: u64,
    /// Unclear and found submissions: whether the provider accepted them was not known when their
    /// tasks ended.
    pub unconfirmed: u64,
    pub refused: u64,
}

impl RouteCounts {
    pub const fn add(&mut self, more: Self) {
        self.succeeded += more.succeeded;
        self.failed += more.failed;
        self.unconfirmed += more.unconfirmed;
        self.refused += more.refused;
    }
}

/// The length of one counting period, and the number of periods in the last hour.
pub const COUNT_PERIOD: Duration = Duration::from_mins(5);
pub const COUNT_PERIODS: usize = 12;

/// The recent results of a route.
#[derive(Debug, Clone, Default)]
pub struct RouteRecord {
    /// Counts per [`COUNT_PERIOD`], the newest last.
    pub last_hour: [RouteCounts; COUNT_PERIODS],
    pub last_day: RouteCounts,
    /// Median and 95th percentile of the time from the submission to the stored result, for the
    /// latest successes within a day.
    pub p50: Option<Duration>,
    pub p95: Option<Duration>,
    /// Jobs of all processes.
    pub open_jobs: u32,
}

/// The state of a route in one process: what its circuit breaker does with the next order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BreakerSnapshot {
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    /// `closed` (in normal use), `busy` (the provider asked for a pause), `trial` (half-open: one
    /// order is sent to see whether the route works again), `open` (not used) or `unreachable`.
    pub state: String,
    /// Failures in a row.
    pub failures: u32,
    /// Whether an order may be sent.
    pub is_up: bool,
    /// When it is tried next, in microseconds, if it is not used now.
    pub next_try: Option<i64>,
}

impl BreakerSnapshot {
    /// A snapshot of a route in normal use.
    pub fn closed(provider: &str, model: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            state: "closed".to_owned(),
            failures: 0,
            is_up: true,
            next_try: None,
        }
    }

    pub fn is_healthy(&self) -> bool {
        self.state == "closed" && self.failures == 0
    }

    /// A rank for comparison: the less available the state, the higher the rank.
    pub fn rank(&self) -> (usize, u32) {
        let states = ["closed", "busy", "trial", "open", "unreachable"];
        let index = states.iter().position(|state| *state == self.state);
        // An unknown state, from another version, counts as in use.
        (index.unwrap_or_default(), self.failures)
    }
}
