//! When the database last answered, and whether it takes writes.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::store::StoreError;

/// What is known of the database from the work that was done on it.
pub(super) struct Pulse(Mutex<Known>);

#[derive(Clone, Copy)]
struct Known {
    answered: Instant,
    is_away: bool,
    takes_writes: bool,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Known {
            answered: Instant::now(),
            is_away: false,
            takes_writes: true,
        }))
    }

    /// It answered just now.
    pub(super) fn answered(&self) {
        let before = self.change(|known| {
            known.answered = Instant::now();
            known.is_away = false;
        });
        if before.is_away {
            tracing::info!("the database answers again");
        }
    }

    /// It did not.
    pub(super) fn failed(&self, error: &StoreError) {
        let before = self.change(|known| known.is_away = true);
        if !before.is_away {
            tracing::error!(%error, "the database does not answer");
        }
    }

    /// It took a write, or can take none.
    pub(super) fn wrote(&self, is_taken: bool) {
        let before = self.change(|known| known.takes_writes = is_taken);
        if before.takes_writes && !is_taken {
            tracing::error!("the database takes no writes");
        }
    }

    /// Whether it took the last write.
    pub(super) fn takes_writes(&self) -> bool {
        self.change(|_| {}).takes_writes
    }

    /// How long ago it answered last.
    pub(super) fn silence(&self) -> Duration {
        self.change(|_| {}).answered.elapsed()
    }

    /// Changes what is known and returns what was before.
    fn change(&self, change: impl FnOnce(&mut Known)) -> Known {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *known;
        change(&mut known);
        before
    }
}
