//! Availability of the media store, judged by the outcomes of the requests to it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long nobody asks a bucket that failed, so that callers do not each wait for the same.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct StoreHealth(Mutex<HealthState>);

#[derive(Default)]
struct HealthState {
    answered: Option<Instant>,
    /// The latest failure, if nothing was answered after it was asked.
    failed: Option<Instant>,
    /// The first failure since then.
    unavailable_since: Option<Instant>,
}

impl StoreHealth {
    /// Whether it failed when it was last asked.
    pub(super) fn is_unavailable(&self) -> bool {
        self.state().failed.is_some()
    }

    /// Since when it has failed, if it did when it was last asked.
    pub(super) fn unavailable_since(&self) -> Option<Instant> {
        self.state().unavailable_since
    }

    /// Whether it failed just now.
    pub(super) fn is_paused(&self) -> bool {
        self.state().failed.is_some_and(|at| at.elapsed() < PAUSE)
    }

    /// Whether it answered within this time.
    pub(super) fn answered_within(&self, time: Duration) -> bool {
        self.state().answered.is_some_and(|at| at.elapsed() < time)
    }

    pub(super) fn note_answer(&self) {
        let mut state = self.state();
        state.answered = Some(Instant::now());
        state.unavailable_since = None;
        if state.failed.take().is_some() {
            tracing::info!("the media store is available again");
        }
        set_reachable(true);
    }

    /// A request failed that was made at `asked`. Where another was answered meanwhile, it is this
    /// request's own misfortune.
    pub(super) fn note_failure(&self, asked: Instant, operation: &'static str, why: &str) {
        metrics::counter!("mediagate_media_store_failures_total", "operation" => operation)
            .increment(1);
        let mut state = self.state();
        if state.answered.is_some_and(|at| at > asked) {
            tracing::warn!(operation, why, "a request to the media store failed");
            return;
        }
        // It was away when the request was made, not only when that failed.
        state.unavailable_since.get_or_insert(asked);
        if state.failed.replace(Instant::now()).is_none() {
            tracing::warn!(operation, why, "the media store is unavailable");
        }
        set_reachable(false);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, HealthState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set_reachable(is: bool) {
    metrics::gauge!("mediagate_media_store_reachable").set(f64::from(u8::from(is)));
}
