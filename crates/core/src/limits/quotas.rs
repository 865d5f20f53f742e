//! Shares scarce resources between accounts: no account can use more than its share at once.
//!
//! Counted per process. A share is returned when its guard is dropped, so the guard belongs to the
//! work, not to the caller that waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use locks::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use mediagate_model::bounds::Bound;
use mediagate_model::ids::AccountId;

/// A resource of which each account may use a part.
#[derive(Clone)]
pub struct QuotaPool(Arc<PoolState>);

struct PoolState {
    total: u64,
    per_account: u64,
    usage: Mutex<PoolUsage>,
}

#[derive(Default)]
struct PoolUsage {
    total: u64,
    by_account: HashMap<AccountId, u64>,
}

/// A part of a [`QuotaPool`], returned when dropped.
pub struct QuotaShare {
    pool: QuotaPool,
    account: AccountId,
    amount: u64,
}

/// Why there is not enough left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaExhausted {
    /// The account has used up its share.
    Account,
    /// Everything is in use.
    All,
}

impl QuotaPool {
    /// A pool of this resource, for all accounts together and for each.
    pub fn new(bound: &Bound) -> Self {
        Self(Arc::new(PoolState {
            total: bound.total.get(),
            per_account: bound.per_account.get(),
            usage: Mutex::default(),
        }))
    }

    /// An empty share that can grow.
    pub fn open(&self, account: AccountId) -> QuotaShare {
        QuotaShare {
            pool: self.clone(),
            account,
            amount: 0,
        }
    }

    fn usage(&self) -> MutexGuard<'_, PoolUsage> {
        lock(&self.0.usage)
    }
}

impl QuotaShare {
    pub fn grow(&mut self, amount: u64) -> Result<(), QuotaExhausted> {
        let mut usage = self.pool.usage();
        if usage.total + amount > self.pool.0.total {
            return Err(QuotaExhausted::All);
        }
        let account_usage = usage.by_account.entry(self.account).or_default();
        if *account_usage + amount > self.pool.0.per_account {
            return Err(QuotaExhausted::Account);
        }
        *account_usage += amount;
        usage.total += amount;
        self.amount += amount;
        Ok(())
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        let mut usage = self.pool.usage();
        usage.total -= self.amount;
        if let Some(account_usage) = usage.by_account.get_mut(&self.account) {
            *account_usage -= self.amount;
            // Otherwise the map would grow with every account ever seen.
            if *account_usage == 0 {
                usage.by_account.remove(&self.account);
            }
        }
    }
}

/// Semaphores: each account may do a fixed number of things at once; further ones queue per
/// account.
pub struct AccountSemaphores {
    per_account: usize,
    semaphores: Mutex<HashMap<AccountId, Weak<Semaphore>>>,
}

impl AccountSemaphores {
    /// `per_account` permits at once for each account.
    pub fn new(per_account: usize) -> Self {
        Self {
            per_account,
            semaphores: Mutex::default(),
        }
    }

    /// Waits for the account's turn, which lasts until the guard is dropped. Never `None`: the
    /// semaphores are never closed.
    pub async fn wait(&self, account: AccountId) -> Option<OwnedSemaphorePermit> {
        self.semaphore(account).acquire_owned().await.ok()
    }

    fn semaphore(&self, account: AccountId) -> Arc<Semaphore> {
        let mut semaphores = lock(&self.semaphores);
        if let Some(semaphore) = semaphores.get(&account).and_then(Weak::upgrade) {
            return semaphore;
        }
        // Weak, so that a semaphore lives as long as a turn is held or awaited. Unused ones are
        // removed here.
        semaphores.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(self.per_account));
        semaphores.insert(account, Arc::downgrade(&semaphore));
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use mediagate_model::bounds::{self, Amount};

    use super::*;

    #[test]
    fn an_account_gets_its_share_and_no_more_than_there_is() {
        let pool = QuotaPool::new(&Bound {
            total: Amount::Bytes(25),
            per_account: Amount::Bytes(10),
            ..bounds::BODIES
        });
        let [a, b, c] = [AccountId::new(), AccountId::new(), AccountId::new()];
        let mut first = pool.open(a);
        assert_eq!(first.grow(10), Ok(()));
        assert_eq!(pool.open(a).grow(1), Err(QuotaExhausted::Account));
        let mut second = pool.open(b);
        assert_eq!(second.grow(10), Ok(()));
        let mut third = pool.open(c);
        assert_eq!(third.grow(6), Err(QuotaExhausted::All));
        assert_eq!(third.grow(5), Ok(()));
        drop(first);
        assert_eq!(pool.open(a).grow(5), Ok(()));
        drop((second, third));
        assert_eq!(pool.usage().total, 0);
        assert!(pool.usage().by_account.is_empty());
    }

    #[tokio::test]
    async fn accounts_do_not_wait_for_each_other() {
        let semaphores = AccountSemaphores::new(2);
        let [a, b] = [AccountId::new(), AccountId::new()];
        let held = [
            semaphores.wait(a).await.unwrap(),
            semaphores.wait(a).await.unwrap(),
        ];
        assert!(semaphores.wait(a).now_or_never().is_none());
        assert!(semaphores.wait(b).now_or_never().flatten().is_some());
        drop(held);
        assert!(semaphores.wait(a).now_or_never().flatten().is_some());
        assert_eq!(semaphores.semaphores.lock().unwrap().len(), 1);
    }
}
