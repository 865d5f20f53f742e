//! What is known of a route, beyond its settings: whether it may be used, and how it does.

use std::time::Duration;

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

/// How a route does.
#[derive(Debug, Clone, Default)]
pub struct RouteRecord {
    pub last_hour: RouteCounts,
    pub last_day: RouteCounts,
    /// From the submission to the stored result, of the latest successes within a day; half of them
    /// took this long, and 19 of 20.
    pub p50: Option<Duration>,
    pub p95: Option<Duration>,
    /// Jobs of all processes.
    pub open_jobs: u32,
}
