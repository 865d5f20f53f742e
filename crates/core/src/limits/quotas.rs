//! Shares scarce resources between accounts: no account can use more than its share at once.
//!
//! Counted per process. A share is returned when its guard is dropped, so the guard belongs to the
//! work, not to the caller that waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use mediagate_model::ids::AccountId;

/// A resource of which each account may use a part.
#[derive(Clone)]
pub struct QuotaPool(Arc<PoolState>);

struct PoolState {
    in_all: u64,
    per_account: u64,
    taken: Mutex<PoolUsage>,
}

#[derive(Default)]
struct PoolUsage {
    in_all: u64,
    by_account: HashMap<AccountId, u64>,
}

/// A part of a [`QuotaPool`], returned when dropped.
pub struct QuotaShare {
    stock: QuotaPool,
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
    /// `in_all` in total, and at most `per_account` for each account.
    pub fn new(in_all: u64, per_account: u64) -> Self {
        Self(Arc::new(PoolState {
            in_all,
            per_account,
            taken: Mutex::default(),
        }))
    }

    /// An empty share that can grow.
    pub fn open(&self, account: AccountId) -> QuotaShare {
        QuotaShare {
            stock: self.clone(),
            account,
            amount: 0,
        }
    }

    fn taken(&self) -> MutexGuard<'_, PoolUsage> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuotaShare {
    pub fn grow(&mut self, amount: u64) -> Result<(), QuotaExhausted> {
        let mut taken = self.stock.taken();
        if taken.in_all + amount > self.stock.0.in_all {
            return Err(QuotaExhausted::All);
        }
        let of_account = taken.by_account.entry(self.account).or_default();
        if *of_account + amount > self.stock.0.per_account {
            return Err(QuotaExhausted::Account);
        }
        *of_account += amount;
        taken.in_all += amount;
        self.amount += amount;
        Ok(())
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        let mut taken = self.stock.taken();
        taken.in_all -= self.amount;
        if let Some(of_account) = taken.by_account.get_mut(&self.account) {
            *of_account -= self.amount;
            // Otherwise the map would grow with every account ever seen.
            if *of_account == 0 {
                taken.by_account.remove(&self.account);
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
    /// `each` turns at once per account.
    pub fn new(each: usize) -> Self {
        Self {
            per_account: each,
            semaphores: Mutex::default(),
        }
    }

    /// Waits for the account's turn, which lasts until the guard is dropped. Never `None`: the
    /// semaphores are never closed.
    pub async fn wait(&self, account: AccountId) -> Option<OwnedSemaphorePermit> {
        self.line(account).acquire_owned().await.ok()
    }

    fn line(&self, account: AccountId) -> Arc<Semaphore> {
        let mut lines = self
            .semaphores
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.get(&account).and_then(Weak::upgrade) {
            return line;
        }
        // Weak, so that a semaphore lives as long as a turn is held or awaited. Unused ones are
        // removed here.
        lines.retain(|_, line| line.strong_count() > 0);
        let line = Arc::new(Semaphore::new(self.per_account));
        lines.insert(account, Arc::downgrade(&line));
        line
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn an_account_gets_its_share_and_no_more_than_there_is() {
        let stock = QuotaPool::new(25, 10);
        let [a, b, c] = [AccountId::new(), AccountId::new(), AccountId::new()];
        let mut first = stock.open(a);
        assert_eq!(first.grow(10), Ok(()));
        assert_eq!(stock.open(a).grow(1), Err(QuotaExhausted::Account));
        let mut second = stock.open(b);
        assert_eq!(second.grow(10), Ok(()));
        let mut third = stock.open(c);
        assert_eq!(third.grow(6), Err(QuotaExhausted::All));
        assert_eq!(third.grow(5), Ok(()));
        drop(first);
        assert_eq!(stock.open(a).grow(5), Ok(()));
        drop((second, third));
        assert_eq!(stock.taken().in_all, 0);
        assert!(stock.taken().by_account.is_empty());
    }

    #[tokio::test]
    async fn accounts_do_not_wait_for_each_other() {
        let turns = AccountSemaphores::new(2);
        let [a, b] = [AccountId::new(), AccountId::new()];
        let held = [turns.wait(a).await.unwrap(), turns.wait(a).await.unwrap()];
        assert!(turns.wait(a).now_or_never().is_none());
        assert!(turns.wait(b).now_or_never().flatten().is_some());
        drop(held);
        assert!(turns.wait(a).now_or_never().flatten().is_some());
        assert_eq!(turns.semaphores.lock().unwrap().len(), 1);
    }
}
