//! Rate limits shared by all processes on one database: a process takes grants of a few requests
//! per key from the database; a grant that it does not use soon is lost.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use locks::lock;
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
    /// The database is not tried again before this time.
    unavailable_until: std::sync::Mutex<Option<Instant>>,
}

/// The grants of a key in this process.
#[derive(Debug, Default)]
struct GrantState {
    /// Requests that were granted and not used yet.
    unused: u32,
    /// Requests that the key has left besides these, in all processes.
    remaining: u32,
    /// When the unused requests lapse.
    until: Option<Instant>,
    /// The key has no requests left before this time.
    exhausted_until: Option<Instant>,
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
        if !state.has_unused(Instant::now()) {
            // The key has no requests left in any process. Asking again before the wait is over
            // would only load the database.
            if let Some(wait) = state.wait(Instant::now()) {
                return Some((RateState::new(rpm, 0), Err(wait)));
            }
            let grant = self.request_grant(key, rpm).await?;
            state.replace(grant, Instant::now());
            // A grant pays for the request that asked for it, even if this process was paused since
            // and the rest of the grant has lapsed.
            if state.unused == 0 {
                let wait = state.wait(Instant::now()).unwrap_or_default();
                return Some((RateState::new(rpm, 0), Err(wait)));
            }
        }
        state.unused -= 1;
        let remaining = state.unused.saturating_add(state.remaining);
        Some((RateState::new(rpm, remaining), Ok(())))
    }

    /// `None` if the database does not answer, or did not a moment ago.
    async fn request_grant(&self, key: KeyId, rpm: NonZeroU32) -> Option<RateGrant> {
        let unavailable_until = || lock(&self.unavailable_until);
        // Shared by all keys: while the database is unavailable, only one request per second waits
        // for it.
        if unavailable_until().is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let rule = RateRule {
            rpm: rpm.get(),
            most: (rpm.get() / GRANTS_PER_MINUTE).max(1),
        };
        let grant = self
            .store
            .write(move |conn| rates::grant(conn, key, rule, None));
        let grant: Result<Result<RateGrant, StoreError>, _> =
            tokio::time::timeout(DATABASE_TIMEOUT, grant).await;
        let grant = grant.ok().and_then(Result::ok);
        if grant.is_none() {
            *unavailable_until() = Some(Instant::now() + DATABASE_RETRY);
        }
        grant
    }
}

impl GrantState {
    fn has_unused(&self, now: Instant) -> bool {
        self.unused > 0 && self.until.is_some_and(|until| now < until)
    }

    /// How long until the key has requests again.
    fn wait(&self, now: Instant) -> Option<Duration> {
        let until = self.exhausted_until.filter(|until| now < *until);
        until.map(|until| until - now)
    }

    fn replace(&mut self, grant: RateGrant, now: Instant) {
        // The rest of the previous grant has lapsed. The database counted it as used.
        *self = Self {
            unused: grant.granted,
            remaining: grant.left,
            until: Some(now + GRANT_TTL),
            exhausted_until: (grant.granted == 0).then(|| now + grant.wait),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_grant_lapses_and_an_exhausted_key_waits() {
        let (mut state, now) = (GrantState::default(), Instant::now());
        assert!(!state.has_unused(now) && state.wait(now).is_none());
        let grant = RateGrant {
            granted: 10,
            left: 590,
            wait: Duration::ZERO,
        };
        state.replace(grant, now);
        assert!(state.has_unused(now) && !state.has_unused(now + GRANT_TTL));
        let empty = RateGrant {
            granted: 0,
            left: 0,
            wait: Duration::from_secs(5),
        };
        state.replace(empty, now);
        assert!(!state.has_unused(now));
        assert_eq!(state.wait(now), Some(Duration::from_secs(5)));
        assert_eq!(state.wait(now + Duration::from_secs(5)), None);
    }
}
