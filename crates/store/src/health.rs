//! Database health: the time of the last answer, and whether writes are accepted.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use locks::lock;

use crate::StoreError;

/// Derived from the results of reads and writes.
pub(super) struct DatabaseHealth(Mutex<HealthState>);

#[derive(Clone, Copy)]
struct HealthState {
    answered_at: Instant,
    is_unavailable: bool,
    takes_writes: bool,
}

impl DatabaseHealth {
    pub(super) fn new() -> Self {
        Self(Mutex::new(HealthState {
            answered_at: Instant::now(),
            is_unavailable: false,
            takes_writes: true,
        }))
    }

    pub(super) fn note_answer(&self) {
        let before = self.change(|state| {
            state.answered_at = Instant::now();
            state.is_unavailable = false;
        });
        if before.is_unavailable {
            tracing::info!("the database is available again");
        }
    }

    /// Notes that the database did not answer.
    pub(super) fn note_failure(&self, error: &StoreError) {
        let before = self.change(|state| state.is_unavailable = true);
        // Logged once, however many calls fail.
        if !before.is_unavailable {
            tracing::error!(%error, "the database is unavailable");
        }
    }

    /// Notes whether a write succeeded.
    pub(super) fn note_write(&self, is_accepted: bool) {
        let before = self.change(|state| state.takes_writes = is_accepted);
        if before.takes_writes && !is_accepted {
            tracing::error!("the database accepts no writes");
        }
    }

    /// Whether the last write succeeded.
    pub(super) fn takes_writes(&self) -> bool {
        self.change(|_| {}).takes_writes
    }

    /// Time since the database last answered.
    pub(super) fn time_since_answer(&self) -> Duration {
        self.change(|_| {}).answered_at.elapsed()
    }

    /// Returns the value before the change.
    fn change(&self, change: impl FnOnce(&mut HealthState)) -> HealthState {
        let mut state = lock(&self.0);
        let before = *state;
        change(&mut state);
        before
    }
}
