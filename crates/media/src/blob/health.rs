//! Availability of the media store, derived from the outcomes of requests to it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use locks::lock;

/// How long no requests are sent to a bucket that failed, so that callers do not each wait for the
/// same timeout.
const BACKOFF: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct StoreHealth(Mutex<HealthState>);

#[derive(Default)]
struct HealthState {
    answered_at: Option<Instant>,
    /// The start of the latest failed request, if no later request was answered.
    failed_at: Option<Instant>,
    /// The start of the first failed request since the last answer.
    unavailable_since: Option<Instant>,
}

impl StoreHealth {
    /// Whether the latest request failed.
    pub(super) fn is_unavailable(&self) -> bool {
        self.state().failed_at.is_some()
    }

    /// When the current series of failed requests began, if the latest one failed.
    pub(super) fn unavailable_since(&self) -> Option<Instant> {
        self.state().unavailable_since
    }

    /// Whether a request failed less than the backoff ago, and none was answered since.
    pub(super) fn is_paused(&self) -> bool {
        self.state()
            .failed_at
            .is_some_and(|at| at.elapsed() < BACKOFF)
    }

    /// Whether the store has answered within the last `time`.
    pub(super) fn answered_within(&self, time: Duration) -> bool {
        self.state()
            .answered_at
            .is_some_and(|at| at.elapsed() < time)
    }

    pub(super) fn note_answer(&self) {
        let mut state = self.state();
        state.answered_at = Some(Instant::now());
        state.unavailable_since = None;
        if state.failed_at.take().is_some() {
            tracing::info!("the media store is available again");
        }
        set_reachable(true);
    }

    /// Notes that a request made at `started` failed. If another request was answered meanwhile,
    /// the failure only concerns this request.
    pub(super) fn note_failure(&self, started: Instant, operation: &'static str, reason: &str) {
        metrics::counter!("mediagate_media_store_failures_total", "operation" => operation)
            .increment(1);
        let mut state = self.state();
        if state.answered_at.is_some_and(|at| at > started) {
            tracing::warn!(
                operation,
                why = reason,
                "a request to the media store failed"
            );
            return;
        }
        // The store was unavailable since the request was made, not only since it failed.
        state.unavailable_since.get_or_insert(started);
        if state.failed_at.replace(Instant::now()).is_none() {
            tracing::warn!(operation, why = reason, "the media store is unavailable");
        }
        set_reachable(false);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, HealthState> {
        lock(&self.0)
    }
}

fn set_reachable(is_reachable: bool) {
    metrics::gauge!("mediagate_media_store_reachable").set(f64::from(u8::from(is_reachable)));
}
