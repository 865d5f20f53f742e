//! A fair queue, in which accounts take turns.
//!
//! It distributes a fixed amount of a resource: slots, bytes of memory. A freed amount goes to the
//! account that holds least; among equals to the one that was served longest ago, or came first;
//! within an account to the request that came first. An account that neither held nor waited for
//! anything counts as served when it comes, so those that come again and again overtake nobody. A
//! request is never skipped because a smaller
//! one would fit: the next request waits until enough is free, so that large requests are served
//! too.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use mediagate_model::bounds::Bound;
use mediagate_model::ids::AccountId;

/// The queue. Cheap to clone.
#[derive(Clone)]
pub struct FairShareQueue(Arc<Mutex<FairQueueState>>);

struct FairQueueState {
    capacity: u64,
    free: u64,
    /// Maximum that one account may hold.
    account_limit: u64,
    /// Counts up with each request, and with each grant.
    requests: u64,
    grants: u64,
    accounts: HashMap<AccountId, AccountQueue>,
}

#[derive(Default)]
struct AccountQueue {
    held: u64,
    /// The number of its latest grant, or of the queue's latest when the account came.
    served: u64,
    waiting: VecDeque<QueueRequest>,
}

struct QueueRequest {
    /// Increasing: the first request has the lowest number.
    number: u64,
    amount: u64,
    permit_sender: oneshot::Sender<QueuePermit>,
}

/// A granted amount, returned when dropped.
pub struct QueuePermit {
    queue: FairShareQueue,
    account: AccountId,
    amount: u64,
}

impl FairShareQueue {
    /// A queue for `total`, of which one account may hold `per_account`.
    pub fn new(total: u64, per_account: u64) -> Self {
        Self(Arc::new(Mutex::new(FairQueueState {
            capacity: total,
            free: total,
            account_limit: per_account.clamp(1, total),
            requests: 0,
            grants: 0,
            accounts: HashMap::new(),
        })))
    }

    /// A queue for a resource whose amounts are in the table.
    pub fn for_bound(bound: &Bound) -> Self {
        Self::new(bound.total.get(), bound.per_account.get())
    }

    /// Waits for the account's turn. An amount above the account's limit counts as the limit.
    pub async fn wait(&self, account: AccountId, amount: u64) -> QueuePermit {
        loop {
            if let Ok(permit) = self.enter(account, amount).await {
                return permit;
            }
        }
    }

    /// Like [`Self::wait`], on a thread that may block.
    pub fn wait_blocking(&self, account: AccountId, amount: u64) -> QueuePermit {
        loop {
            if let Ok(permit) = self.enter(account, amount).blocking_recv() {
                return permit;
            }
        }
    }

    fn enter(&self, account: AccountId, amount: u64) -> oneshot::Receiver<QueuePermit> {
        let (permit_sender, permit_receiver) = oneshot::channel();
        let mut state = self.state();
        state.requests += 1;
        let request = QueueRequest {
            number: state.requests,
            amount: amount.clamp(1, state.account_limit),
            permit_sender,
        };
        let served = state.grants;
        let entry = state.accounts.entry(account);
        let queue = entry.or_insert_with(|| AccountQueue {
            served,
            ..AccountQueue::default()
        });
        queue.waiting.push_back(request);
        drop(state);
        self.grant();
        permit_receiver
    }

    /// Grants free amounts to the requests whose turn it is.
    fn grant(&self) {
        loop {
            let mut state = self.state();
            let Some((account, request)) = state.next() else {
                return;
            };
            drop(state);
            let permit = QueuePermit {
                queue: self.clone(),
                account,
                amount: request.amount,
            };
            // If the waiter is gone, the permit is dropped here, and its `drop` takes the lock. So
            // this must happen outside of the lock.
            drop(request.permit_sender.send(permit));
        }
    }

    fn state(&self) -> MutexGuard<'_, FairQueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FairQueueState {
    /// The request whose turn it is, if there is enough for it; it counts as granted.
    fn next(&mut self) -> Option<(AccountId, QueueRequest)> {
        // First remove callers that have left, so that they delay no other caller.
        for account in self.accounts.values_mut() {
            account
                .waiting
                .retain(|request| !request.permit_sender.is_closed());
        }
        self.accounts
            .retain(|_, account| account.held > 0 || !account.waiting.is_empty());
        let limit = self.account_limit;
        // An account that already holds its maximum is not a candidate, and blocks no other
        // account.
        let candidates = self.accounts.iter_mut().filter(|(_, account)| {
            let amount = account.waiting.front().map(|request| request.amount);
            amount.is_some_and(|amount| account.held + amount <= limit)
        });
        let (id, account) = candidates.min_by_key(|(_, account)| {
            let first = account.waiting.front().map(|request| request.number);
            (account.held, account.served, first)
        })?;
        let request = account
            .waiting
            // If there is not enough for the next request, none is served. Small requests would
            // otherwise keep a large one waiting indefinitely.
            .pop_front_if(|request| request.amount <= self.free)?;
        self.grants += 1;
        self.free -= request.amount;
        account.held += request.amount;
        account.served = self.grants;
        Some((*id, request))
    }
}

impl Drop for QueuePermit {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.free = (state.free + self.amount).min(state.capacity);
        if let Some(account) = state.accounts.get_mut(&self.account) {
            account.held = account.held.saturating_sub(self.amount);
        }
        drop(state);
        self.queue.grant();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn permit_now(queue: &FairShareQueue, account: AccountId, amount: u64) -> Option<QueuePermit> {
        queue.wait(account, amount).now_or_never()
    }

    #[tokio::test]
    async fn a_freed_amount_goes_to_the_account_that_holds_least() {
        let queue = FairShareQueue::new(2, 2);
        let [a, b] = [AccountId::new(), AccountId::new()];
        let (first, second) = (
            permit_now(&queue, a, 1).unwrap(),
            permit_now(&queue, a, 1).unwrap(),
        );
        let mut waiters: Vec<_> = (0..10).map(|_| Box::pin(queue.wait(a, 1))).collect();
        for waiter in &mut waiters {
            assert!(waiter.as_mut().now_or_never().is_none());
        }
        let mut other = Box::pin(queue.wait(b, 1));
        assert!(other.as_mut().now_or_never().is_none());
        drop(first);
        let others_permit = other.as_mut().now_or_never().expect("it is their turn");
        assert!(waiters[0].as_mut().now_or_never().is_none());
        drop(second);
        let own_permit = waiters[0].as_mut().now_or_never().expect("one each");
        drop((others_permit, own_permit, waiters));
        assert_eq!(queue.state().free, 2);
    }

    #[tokio::test]
    async fn accounts_with_nothing_take_turns_by_who_was_served_longest_ago() {
        let queue = FairShareQueue::new(1, 1);
        let accounts = [AccountId::new(), AccountId::new(), AccountId::new()];
        let mut held = permit_now(&queue, accounts[0], 1);
        let mut waiting: Vec<_> = [0, 0, 1, 1, 2, 2]
            .map(|number: usize| (number, Box::pin(queue.wait(accounts[number], 1))))
            .into();
        for (_, waiter) in &mut waiting {
            assert!(waiter.as_mut().now_or_never().is_none());
        }
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(held.take());
            let ready = waiting
                .iter_mut()
                .enumerate()
                .find_map(|(index, (_, waiter))| {
                    waiter.as_mut().now_or_never().map(|permit| (index, permit))
                });
            let (index, permit) = ready.unwrap();
            order.push(waiting.remove(index).0);
            held = Some(permit);
        }
        let rounds = [order[..3].to_vec(), order[3..].to_vec()];
        for mut round in rounds {
            round.sort_unstable();
            assert_eq!(round, [0, 1, 2]);
        }
    }

    #[tokio::test]
    async fn accounts_that_come_again_and_again_overtake_no_backlog() {
        let queue = FairShareQueue::new(1, 1);
        let [a, b, busy] = [AccountId::new(), AccountId::new(), AccountId::new()];
        let enter = |account| {
            let mut waiter = Box::pin(queue.wait(account, 1));
            assert!(waiter.as_mut().now_or_never().is_none());
            (account, waiter)
        };
        let mut held = (a, permit_now(&queue, a, 1).unwrap());
        let mut waiting = vec![enter(busy), enter(busy), enter(busy), enter(b)];
        let mut served = Vec::new();
        for _ in 0..9 {
            let (previous, permit) = held;
            drop(permit);
            let next = waiting
                .iter_mut()
                .enumerate()
                .find_map(|(index, (_, waiter))| {
                    let permit = waiter.as_mut().now_or_never()?;
                    Some((index, permit))
                });
            let (index, permit) = next.unwrap();
            if previous != busy {
                waiting.push(enter(previous));
            }
            held = (waiting.remove(index).0, permit);
            served.push(held.0);
        }
        let count = served.iter().filter(|account| **account == busy).count();
        assert_eq!(count, 3, "one in three: {served:?}");
    }

    #[tokio::test]
    async fn an_account_keeps_to_its_share_and_a_large_request_comes_to_its_turn() {
        let queue = FairShareQueue::new(10, 8);
        let [a, b, c] = [AccountId::new(), AccountId::new(), AccountId::new()];
        let permit = permit_now(&queue, a, 6).unwrap();
        assert!(permit_now(&queue, a, 3).is_none(), "it may hold eight");
        let mut large = Box::pin(queue.wait(b, 100));
        assert!(large.as_mut().now_or_never().is_none());
        let mut small = Box::pin(queue.wait(c, 1));
        assert!(small.as_mut().now_or_never().is_none(), "b came first");
        drop(permit);
        let large = large.as_mut().now_or_never().unwrap();
        assert_eq!(large.amount, 8);
        assert!(small.as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_cancelled_request_is_skipped_and_nothing_is_lost() {
        let queue = FairShareQueue::new(1, 1);
        let [a, b] = [AccountId::new(), AccountId::new()];
        let held = permit_now(&queue, a, 1).unwrap();
        let mut cancelled = Box::pin(queue.wait(b, 1));
        assert!(cancelled.as_mut().now_or_never().is_none());
        drop(cancelled);
        drop(held);
        assert!(permit_now(&queue, a, 1).is_some());
        assert_eq!(queue.state().free, 1);
        queue.grant();
        assert!(queue.state().accounts.is_empty());
    }
}
