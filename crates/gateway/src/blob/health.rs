//! Whether a bucket answers, from what became of the requests to it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long nobody asks a bucket that failed, so that callers do not each wait for the same.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Health(Mutex<State>);

#[derive(Default)]
struct State {
    answered: Option<Instant>,
    /// The first and the latest failure, if nothing was answered after it was asked.
    failed: Option<(Instant, Instant)>,
}

impl Health {
    /// For how long it has failed; `None` if it was answered last.
    pub(super) fn away_for(&self) -> Option<Duration> {
        self.state().failed.map(|(first, _)| first.elapsed())
    }

    /// Whether it failed just now.
    pub(super) fn is_paused(&self) -> bool {
        let failed = self.state().failed;
        failed.is_some_and(|(_, latest)| latest.elapsed() < PAUSE)
    }

    /// Whether it answered within this time.
    pub(super) fn answered_within(&self, time: Duration) -> bool {
        self.state().answered.is_some_and(|at| at.elapsed() < time)
    }

    pub(super) fn answered(&self) {
        let mut state = self.state();
        state.answered = Some(Instant::now());
        if state.failed.take().is_some() {
            tracing::info!("the media store answers again");
        }
        reachable(true);
    }

    /// A request failed that was made at `asked`. Where another was answered meanwhile, it is this
    /// request's own misfortune.
    pub(super) fn failed(&self, asked: Instant, operation: &'static str, why: &str) {
        metrics::counter!("mediagate_media_store_failures_total", "operation" => operation)
            .increment(1);
        let mut state = self.state();
        if state.answered.is_some_and(|at| at > asked) {
            tracing::warn!(operation, why, "a request to the media store failed");
            return;
        }
        let now = Instant::now();
        let first = state.failed.map_or(now, |(first, _)| first);
        if state.failed.replace((first, now)).is_none() {
            tracing::warn!(operation, why, "the media store is away");
        }
        reachable(false);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reachable(is: bool) {
    metrics::gauge!("mediagate_media_store_reachable").set(f64::from(u8::from(is)));
}
