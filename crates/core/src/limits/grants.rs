//! Rate limits shared by all processes on one database: a process takes grants of a few requests
//! per key from the database; a grant that it does not use soon is lost.

use std::num::NonZeroU32;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::limits::RateState;
use mediagate_model::ids::KeyId;
use mediagate_store::rates::{self, RateGrant, RateRule};
use mediagate_store::{Store, StoreError};

/// How long a grant can be used.
const GRANT_TTL: Duration = Duration::from_secs(1);
/// Grants per minute: each covers one second's share of the requests.
const GRANTS_PER_MINUTE: u32 = 60;
/// Timeout for the database; after it, the process counts on its own.
const DATABASE_TIMEOUT: Duration = Duration::from_millis(500);
/// How long it counts on its own before it tries the database again.
const DATABASE_RETRY: Duration = Duration::from_secs(1);

pub(super) struct RateGrants {
    store: Store,
    /// Keyed by the limit too, so that a changed limit starts afresh.
    keys: moka::sync::Cache<(KeyId, NonZeroU32), Arc<Mutex<GrantState>>>,
    /// Until then the database is not tried again.
    unavailable_until: std::sync::Mutex<Option<Instant>>,
}

/// The grants of a key in this process.
#[derive(Debug, Default)]
struct GrantState {
    /// Requests that were granted and not used yet.
    unused: u32,
    /// Requests that the key has left besides these, in all processes.
    left: u32,
    /// When the unused requests lapse.
    until: Option<Instant>,
    /// Until then the key has no requests left.
    none_before: Option<Instant>,
}

impl RateGrants {
    pub(super) fn new(store: Store) -> Self {
        let keys = moka::sync::Cache::builder()
            .max_capacity(100_000)
            .time_to_idle(Duration::from_mins(2))
            .build();
        Self {
            store,
            keys,
            unavailable_until: std::sync::Mutex::default(),
        }
    }

    /// Counts a request; `None` if the database is unavailable.
    pub(super) async fn count(
        &self,
        key: KeyId,
        rpm: NonZeroU32,
    ) -> Option<(RateState, Result<(), Duration>)> {
        let state = self.keys.get_with((key, rpm), Arc::default);
        // Locked during the database call, so that simultaneous requests of a key share one grant.
        let mut state = state.lock().await;
        if !state.has_one(Instant::now()) {
            // The key has none left anywhere. Asking again before then would only load the
            // database.
            if let Some(wait) = state.wait(Instant::now()) {
                return Some((RateState::new(rpm, 0), Err(wait)));
            }
            let granted = self.ask(key, rpm).await?;
            state.take(granted, Instant::now());
        }
        if !state.has_one(Instant::now()) {
            let wait = state.wait(Instant::now()).unwrap_or_default();
            return Some((RateState::new(rpm, 0), Err(wait)));
        }
        state.unused -= 1;
        let remaining = state.unused.saturating_add(state.left);
        Some((RateState::new(rpm, remaining), Ok(())))
    }

    /// `None` if the database does not answer, or did not a moment ago.
    async fn ask(&self, key: KeyId, rpm: NonZeroU32) -> Option<RateGrant> {
        let away_before = || {
            let lock = self.unavailable_until.lock();
            lock.unwrap_or_else(PoisonError::into_inner)
        };
        // Shared by all keys: while the database is unavailable, only one request per second waits
        // for it.
        if away_before().is_some_and(|before| Instant::now() < before) {
            return None;
        }
        let rule = RateRule {
            rpm: rpm.get(),
            most: (rpm.get() / GRANTS_PER_MINUTE).max(1),
        };
        let grant = self
            .store
            .write(move |conn| rates::grant(conn, key, rule, None));
        let granted: Result<Result<RateGrant, StoreError>, _> =
            tokio::time::timeout(DATABASE_TIMEOUT, grant).await;
        let granted = granted.ok().and_then(Result::ok);
        if granted.is_none() {
            *away_before() = Some(Instant::now() + DATABASE_RETRY);
        }
        granted
    }
}

impl GrantState {
    fn has_one(&self, now: Instant) -> bool {
        self.unused > 0 && self.until.is_some_and(|until| now < until)
    }

    /// How long until the key has requests again.
    fn wait(&self, now: Instant) -> Option<Duration> {
        let before = self.none_before.filter(|before| now < *before);
        before.map(|before| before - now)
    }

    fn take(&mut self, grant: RateGrant, now: Instant) {
        // The rest of the previous grant has lapsed. The database counted it as used.
        *self = Self {
            unused: grant.granted,
            left: grant.left,
            until: Some(now + GRANT_TTL),
            none_before: (grant.granted == 0).then(|| now + grant.wait),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_used_soon_is_lost_and_nobody_asks_in_vain() {
        let (mut state, now) = (GrantState::default(), Instant::now());
        assert!(!state.has_one(now) && state.wait(now).is_none());
        let some = RateGrant {
            granted: 10,
            left: 590,
            wait: Duration::ZERO,
        };
        state.take(some, now);
        assert!(state.has_one(now) && !state.has_one(now + GRANT_TTL));
        let none = RateGrant {
            granted: 0,
            left: 0,
            wait: Duration::from_secs(5),
        };
        state.take(none, now);
        assert!(!state.has_one(now));
        assert_eq!(state.wait(now), Some(Duration::from_secs(5)));
        assert_eq!(state.wait(now + Duration::from_secs(5)), None);
    }
}
