//! Rate limits: requests per minute for each key. Counted by the database if processes share one
//! ([`grants`](super::grants)), otherwise, or while it is unavailable, in this process.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use crate::limits::grants::RateGrants;
use mediagate_model::account::ApiKey;
use mediagate_model::ids::{AccountId, KeyId};
use mediagate_store::Store;

type RequestLimiter =
    RateLimiter<NotKeyed, InMemoryState, DefaultClock, StateInformationMiddleware>;

/// The state of recently used keys.
pub struct RateLimits {
    /// Keyed by the limit too, so that a changed limit starts afresh.
    limiters: moka::sync::Cache<(KeyId, NonZeroU32), Arc<RequestLimiter>>,
    clock: DefaultClock,
    /// Set if processes share the limits.
    shared: Option<RateGrants>,
}

/// The values of the `x-ratelimit-*` headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateState {
    /// Requests per minute.
    pub limit: u32,
    /// Requests that may be sent immediately.
    pub remaining: u32,
    /// Time until `remaining` is back at `limit`.
    pub reset: Duration,
}

impl RateLimits {
    /// `shared` is the store of processes that share the limits.
    pub fn new(shared: Option<Store>) -> Self {
        // After two idle minutes a key has its full limit again anyway, so removing its entry
        // changes nothing.
        let limiters = moka::sync::Cache::builder()
            .max_capacity(100_000)
            .time_to_idle(Duration::from_mins(2))
            .build();
        Self {
            limiters,
            clock: DefaultClock::default(),
            shared: shared.map(RateGrants::new),
        }
    }

    /// Counts a request of this key; `Err` is the wait until the next one.
    pub async fn count(&self, key: &ApiKey) -> (RateState, Result<(), Duration>) {
        let rpm = NonZeroU32::new(key.rpm).unwrap_or(NonZeroU32::MIN);
        if let Some(grants) = &self.shared
            && let Some(counted) = grants.count(key.id, rpm).await
        {
            return counted;
        }
        // Without an answer of the database each process counts alone. A key may then send more,
        // which is better than refusing everybody.
        self.count_here(key, rpm)
    }

    fn count_here(&self, key: &ApiKey, rpm: NonZeroU32) -> (RateState, Result<(), Duration>) {
        let limiter = self.limiters.get_with((key.id, rpm), || {
            Arc::new(
                RateLimiter::direct(Quota::per_minute(rpm))
                    .with_middleware::<StateInformationMiddleware>(),
            )
        });
        let (remaining, result) = match limiter.check() {
            Ok(state) => (state.remaining_burst_capacity(), Ok(())),
            Err(refusal) => (0, Err(refusal.wait_time_from(self.clock.now()))),
        };
        (RateState::new(rpm, remaining), result)
    }
}

impl RateState {
    pub(super) fn new(rpm: NonZeroU32, remaining: u32) -> Self {
        let missing = f64::from(rpm.get() - remaining.min(rpm.get()));
        Self {
            limit: rpm.get(),
            remaining,
            reset: Duration::from_secs_f64(missing * 60.0 / f64::from(rpm.get())),
        }
    }
}

/// Requests per minute of each address that sends them without a key. An address is what
/// [`AccountId::of_address`] takes for one.
pub struct AddressLimits {
    quota: Quota,
    limiters: moka::sync::Cache<AccountId, Arc<RequestLimiter>>,
    clock: DefaultClock,
}

impl AddressLimits {
    pub fn new(rpm: u32) -> Self {
        let limiters = moka::sync::Cache::builder()
            .max_capacity(100_000)
            .time_to_idle(Duration::from_mins(2))
            .build();
        Self {
            quota: Quota::per_minute(NonZeroU32::new(rpm).unwrap_or(NonZeroU32::MIN)),
            limiters,
            clock: DefaultClock::default(),
        }
    }

    /// Counts a request; `Err` is the wait until the next one.
    pub fn count(&self, address: IpAddr) -> Result<(), Duration> {
        let limiter = self.limiters.get_with(AccountId::of_address(address), || {
            Arc::new(
                RateLimiter::direct(self.quota).with_middleware::<StateInformationMiddleware>(),
            )
        });
        let refusal = limiter.check().err();
        refusal.map_or(Ok(()), |refusal| {
            Err(refusal.wait_time_from(self.clock.now()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mediagate_model::clock::Timestamp;

    #[tokio::test]
    async fn a_key_gets_its_requests_and_then_a_wait() {
        let key = ApiKey {
            id: KeyId::new(),
            account: AccountId::new(),
            name: String::new(),
            prefix: String::new(),
            sha256: String::new(),
            scopes: Vec::new(),
            models: None,
            networks: None,
            rpm: 2,
            max_running: 1,
            budget: None,
            budget_period: None,
            approve_above: None,
            refuses_housekeeping: false,
            created_at: Timestamp::from_seconds(0),
            expires_at: None,
            revoked_at: None,
        };
        let limits = RateLimits::new(None);
        assert_eq!(limits.count(&key).await.0.remaining, 1);
        assert_eq!(limits.count(&key).await.0.remaining, 0);
        let (state, result) = limits.count(&key).await;
        assert_eq!((state.limit, state.remaining), (2, 0));
        assert!(result.unwrap_err() > Duration::from_secs(20));
        assert!(
            limits
                .count(&ApiKey {
                    id: KeyId::new(),
                    ..key
                })
                .await
                .1
                .is_ok()
        );
    }
}
