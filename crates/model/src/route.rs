//! Route health beyond the settings: pauses, errors, outcome counts, circuit breaker state.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// What the database keeps of a route, for every process and over restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteNote {
    /// Since when an operator has it paused.
    pub paused_at: Option<Timestamp>,
    /// When an operator last said to try it again.
    pub tried_at: Option<Timestamp>,
    /// Since when the provider refuses the key, or the account behind it.
    pub refused_at: Option<Timestamp>,
    pub error: Option<RouteError>,
}

/// The last error of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteError {
    /// As in `docs/providers`: `credentials`, `unavailable`, …
    pub class: String,
    /// In the provider's words, without secrets.
    pub message: String,
    pub at: Timestamp,
}

/// How a route's submissions ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouteCounts {
    pub succeeded: u64,
    pub failed: u64,
    /// Nobody knows whether the provider took them, or it turned out too late.
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

/// A part of the last hour, and how many there are.
pub const COUNT_PERIOD: Duration = Duration::from_mins(5);
pub const COUNT_PERIODS: usize = 12;

/// How a route does.
#[derive(Debug, Clone, Default)]
pub struct RouteRecord {
    /// In parts of [`COUNT_PERIOD`], the newest last.
    pub last_hour: [RouteCounts; COUNT_PERIODS],
    pub last_day: RouteCounts,
    /// From the submission to the stored result, of the latest successes within a day; half of them
    /// took this long, and 19 of 20.
    pub p50: Option<Duration>,
    pub p95: Option<Duration>,
    /// Jobs of all processes.
    pub open_jobs: u32,
}

/// How a process stands to a route: what its circuit breaker does with the next order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BreakerSnapshot {
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    /// `closed`, `busy`, `trial`, `open` or `unreachable`.
    pub state: String,
    /// Failures in a row.
    pub failures: u32,
    /// Whether an order may be sent.
    pub is_up: bool,
    /// When it is tried next, in microseconds, if it is not used now.
    pub next_try: Option<i64>,
}

impl BreakerSnapshot {
    /// The route is used.
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

    /// The higher, the less it is used.
    pub fn rank(&self) -> (usize, u32) {
        let states = ["closed", "busy", "trial", "open", "unreachable"];
        let place = states.iter().position(|state| *state == self.state);
        // A state of another version that is not known here counts as in use.
        (place.unwrap_or_default(), self.failures)
    }
}
