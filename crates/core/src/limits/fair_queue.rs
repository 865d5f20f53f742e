//! A fair queue, in which accounts take turns.
//!
//! It distributes a fixed amount of a resource: slots, bytes of memory. A freed amount goes to the
//! account that holds least; among equals to the one that was served longest ago, or came first;
//! within an account to the request that came first. An account that neither held nor waited for
//! anything counts as served when it comes, but before the account that was served last: so a
//! newcomer waits for no backlog, and those that come again and again overtake nobody. A
//! request is never skipped because a smaller
//! one would fit: the next request waits until enough is free, so that large requests are served
//! too.
//!
//! A resource may also be divided by provider. Within an account, a freed amount then goes to the
//! request at the provider of which the account holds least. A quarter of all, and of each provider's
//! share, is kept for accounts that hold none of it: whoever holds the rest for long does not make
//! them wait.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use locks::lock;
use tokio::sync::oneshot;

use mediagate_model::bounds::{Amount, Bound};
use mediagate_model::ids::AccountId;

/// The queue. Cheap to clone.
#[derive(Clone)]
pub struct FairShareQueue(Arc<Mutex<FairQueueState>>);

struct FairQueueState {
    capacity: u64,
    free: u64,
    shares: QueueShares,
    /// Counts up with each request, and with each grant.
    requests: u64,
    grants: u64,
    accounts: HashMap<AccountId, AccountQueue>,
    /// How much is held for each provider.
    providers: HashMap<Arc<str>, u64>,
}

/// How much one of them may hold.
#[derive(Debug, Clone, Copy)]
struct QueueShares {
    account: u64,
    provider: u64,
    /// Whether a quarter of all, and of each provider's share, is only for accounts that hold none
    /// of it.
    has_reserve: bool,
    /// Whether an account may exceed its share: with one request that is larger, and with all of
    /// its requests while no other account holds or waits for anything.
    is_lent: bool,
}

#[derive(Default)]
struct AccountQueue {
    held: u64,
    /// How much of it is held for each provider.
    held_for: HashMap<Arc<str>, u64>,
    /// Twice the number of its latest grant. For an account that has just come, one less than twice
    /// the number of the queue's latest.
    served: u64,
    waiting: VecDeque<QueueRequest>,
}

struct QueueRequest {
    /// Increasing: the first request has the lowest number.
    number: u64,
    amount: u64,
    provider: Option<Arc<str>>,
    permit_sender: oneshot::Sender<QueuePermit>,
}

/// A granted amount, returned when dropped.
pub struct QueuePermit {
    queue: FairShareQueue,
    account: AccountId,
    provider: Option<Arc<str>>,
    amount: u64,
}

impl FairShareQueue {
    /// A queue for `total`, of which one account may hold `per_account`.
    pub fn new(total: u64, per_account: u64) -> Self {
        Self::with_shares(
            total,
            QueueShares {
                account: per_account.clamp(1, total),
                provider: total,
                has_reserve: false,
                is_lent: false,
            },
        )
    }

    /// Like [`Self::new`], but an account may exceed its share while no other needs anything, or
    /// with a single request.
    pub fn lending(total: u64, per_account: u64) -> Self {
        Self::with_shares(
            total,
            QueueShares {
                account: per_account.clamp(1, total),
                provider: total,
                has_reserve: false,
                is_lent: true,
            },
        )
    }

    /// A queue for a resource whose amounts are in the table.
    pub fn for_bound(bound: &Bound) -> Self {
        let total = bound.total.get();
        Self::with_shares(
            total,
            QueueShares {
                account: bound.per_account.get().min(total),
                provider: bound.per_provider.get().min(total),
                has_reserve: bound.per_provider != Amount::Unlimited,
                is_lent: false,
            },
        )
    }

    fn with_shares(total: u64, shares: QueueShares) -> Self {
        Self(Arc::new(Mutex::new(FairQueueState {
            capacity: total,
            free: total,
            shares,
            requests: 0,
            grants: 0,
            accounts: HashMap::new(),
            providers: HashMap::new(),
        })))
    }

    /// Waits for the account's turn. An amount above the most that the account can get counts as
    /// that.
    pub async fn wait(&self, account: AccountId, amount: u64) -> QueuePermit {
        loop {
            if let Ok(permit) = self.enter(account, None, amount).await {
                return permit;
            }
        }
    }

    /// Waits for one slot, when it is the account's turn and the provider has one left.
    pub async fn wait_at(&self, account: AccountId, provider: &str) -> QueuePermit {
        let provider: Arc<str> = provider.into();
        loop {
            if let Ok(permit) = self.enter(account, Some(provider.clone()), 1).await {
                return permit;
            }
        }
    }

    /// Like [`Self::wait`], on a thread that may block.
    pub fn wait_blocking(&self, account: AccountId, amount: u64) -> QueuePermit {
        loop {
            if let Ok(permit) = self.enter(account, None, amount).blocking_recv() {
                return permit;
            }
        }
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        let state = self.state();
        state
            .accounts
            .values()
            .map(|queue| queue.waiting.len())
            .sum()
    }

    fn enter(
        &self,
        account: AccountId,
        provider: Option<Arc<str>>,
        amount: u64,
    ) -> oneshot::Receiver<QueuePermit> {
        let (permit_sender, permit_receiver) = oneshot::channel();
        let mut state = self.state();
        state.requests += 1;
        let most = if state.shares.is_lent {
            state.capacity
        } else {
            state.shares.account
        };
        let request = QueueRequest {
            number: state.requests,
            amount: amount.clamp(1, most),
            provider,
            permit_sender,
        };
        let served = (2 * state.grants).saturating_sub(1);
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
                provider: request.provider,
                amount: request.amount,
            };
            // If the waiter is gone, the permit is dropped here, and its `drop` takes the lock. So
            // this must happen outside of the lock.
            drop(request.permit_sender.send(permit));
        }
    }

    fn state(&self) -> MutexGuard<'_, FairQueueState> {
        lock(&self.0)
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
        let is_alone = self.accounts.len() == 1;
        // An account or a provider that already holds its maximum is not a candidate, and blocks
        // nobody else.
        let candidates = self.accounts.iter().filter_map(|(id, account)| {
            let used = self.capacity - self.free;
            let index = account.next(
                self.shares,
                is_alone,
                (self.capacity, used),
                &self.providers,
            )?;
            let first = account.waiting.front().map(|request| request.number);
            Some(((account.held, account.served, first), *id, index))
        });
        let (_, id, index) = candidates.min_by_key(|(order, ..)| *order)?;
        let account = self.accounts.get_mut(&id)?;
        // If there is not enough for the next request, none is served. Small requests would
        // otherwise keep a large one waiting indefinitely.
        if account.waiting.get(index)?.amount > self.free {
            return None;
        }
        let request = account.waiting.remove(index)?;
        self.grants += 1;
        self.free -= request.amount;
        account.held += request.amount;
        account.served = 2 * self.grants;
        if let Some(provider) = &request.provider {
            *account.held_for.entry(provider.clone()).or_default() += request.amount;
            *self.providers.entry(provider.clone()).or_default() += request.amount;
        }
        Some((id, request))
    }

    fn take_back(&mut self, permit: &QueuePermit) {
        self.free = (self.free + permit.amount).min(self.capacity);
        let account = self.accounts.get_mut(&permit.account);
        if let Some(provider) = &permit.provider {
            give_back(&mut self.providers, provider, permit.amount);
        }
        if let Some(account) = account {
            account.held = account.held.saturating_sub(permit.amount);
            if let Some(provider) = &permit.provider {
                give_back(&mut account.held_for, provider, permit.amount);
            }
        }
    }
}

impl AccountQueue {
    /// The index of the account's next request that fits its share and that of its provider.
    fn next(
        &self,
        shares: QueueShares,
        is_alone: bool,
        (capacity, used): (u64, u64),
        providers: &HashMap<Arc<str>, u64>,
    ) -> Option<usize> {
        // How much of `most` may be in use with the next request of an account that holds this much.
        let open =
            |most: u64, held: u64| most - most / 4 * u64::from(shares.has_reserve && held > 0);
        let fits = |request: &QueueRequest| {
            let is_lent = shares.is_lent && (is_alone || self.held == 0);
            let provider = request.provider.as_ref();
            let of_provider = held_for(providers, provider);
            let own_of_provider = held_for(&self.held_for, provider);
            (is_lent || self.held + request.amount <= shares.account)
                && (!shares.has_reserve || used + request.amount <= open(capacity, self.held))
                && of_provider + request.amount <= open(shares.provider, own_of_provider)
        };
        let requests = self.waiting.iter().enumerate();
        // The first of equal ones, which came first.
        let next = match self.waiting.front()?.provider {
            Some(_) => requests
                .filter(|(_, request)| fits(request))
                .min_by_key(|(_, request)| held_for(&self.held_for, request.provider.as_ref())),
            // Without providers the first request is never skipped.
            None => requests.take(1).find(|(_, request)| fits(request)),
        };
        next.map(|(index, _)| index)
    }
}

fn held_for(providers: &HashMap<Arc<str>, u64>, provider: Option<&Arc<str>>) -> u64 {
    let held = provider.and_then(|provider| providers.get(provider));
    held.copied().unwrap_or_default()
}

/// Subtracts an amount. Unused entries are removed: the map would grow with every provider ever
/// seen.
fn give_back(providers: &mut HashMap<Arc<str>, u64>, provider: &Arc<str>, amount: u64) {
    if let Some(held) = providers.get_mut(provider) {
        *held = held.saturating_sub(amount);
        if *held == 0 {
            providers.remove(provider);
        }
    }
}

impl Drop for QueuePermit {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.take_back(self);
        drop(state);
        self.queue.grant();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use mediagate_model::bounds;

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

    /// Whoever waits from now on.
    fn waiter(
        queue: &FairShareQueue,
        account: AccountId,
        amount: u64,
    ) -> std::pin::Pin<Box<impl Future<Output = QueuePermit> + use<>>> {
        let queue = queue.clone();
        let mut waiter = Box::pin(async move { queue.wait(account, amount).await });
        assert!(waiter.as_mut().now_or_never().is_none());
        waiter
    }

    #[tokio::test]
    async fn a_newcomer_waits_for_no_backlog() {
        let queue = FairShareQueue::lending(10, 5);
        let [a, b] = [AccountId::new(), AccountId::new()];
        let held = permit_now(&queue, a, 10).expect("it is alone");
        let mut backlog: Vec<_> = (0..3).map(|_| waiter(&queue, a, 10)).collect();
        let mut newcomer = waiter(&queue, b, 1);
        drop(held);
        let held = newcomer.as_mut().now_or_never().expect("it wins the tie");
        assert!(backlog[0].as_mut().now_or_never().is_none());
        drop(held);
        assert!(backlog[0].as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_share_is_lent_only_while_nobody_else_needs_anything() {
        let queue = FairShareQueue::lending(10, 5);
        let [a, b] = [AccountId::new(), AccountId::new()];
        let mut held: Vec<_> = (0..3)
            .map(|_| permit_now(&queue, a, 3).expect("it is alone"))
            .collect();
        let mut own = waiter(&queue, a, 2);
        let mut other = waiter(&queue, b, 4);
        held.pop();
        let others = other.as_mut().now_or_never().expect("there is enough");
        // It holds six of its five.
        assert!(own.as_mut().now_or_never().is_none());
        held.pop();
        let own = own.as_mut().now_or_never().expect("five of five");
        // A request above the share is served alone, when its account holds nothing.
        let mut large = waiter(&queue, a, 8);
        drop((held, own));
        assert!(large.as_mut().now_or_never().is_none(), "six are free");
        drop(others);
        assert_eq!(large.as_mut().now_or_never().unwrap().amount, 8);
    }

    #[tokio::test]
    async fn a_provider_holds_no_more_than_its_share_and_blocks_no_other() {
        let queue = FairShareQueue::for_bound(&Bound {
            total: Amount::Count(4),
            per_account: Amount::Count(3),
            per_provider: Amount::Count(2),
            ..bounds::DOWNLOADS
        });
        let [a, b] = [AccountId::new(), AccountId::new()];
        let slot = |account, provider| queue.wait_at(account, provider).now_or_never();
        let slow = [slot(a, "slow").unwrap(), slot(a, "slow").unwrap()];
        let mut waiting = [a, b].map(|account| Box::pin(queue.wait_at(account, "slow")));
        for waiter in &mut waiting {
            assert!(waiter.as_mut().now_or_never().is_none());
        }
        let good = [slot(a, "good").unwrap(), slot(b, "good").unwrap()];
        drop(good);
        drop(slow);
        // The account that holds least comes first, then both.
        for waiter in &mut waiting {
            assert!(waiter.as_mut().now_or_never().is_some());
        }
        drop(waiting);
        let state = queue.state();
        assert_eq!((state.free, state.providers.len()), (4, 0));
    }

    #[tokio::test]
    async fn a_quarter_is_kept_for_accounts_that_hold_none() {
        let queue = FairShareQueue::for_bound(&bounds::DOWNLOADS);
        let [a, b, c] = [AccountId::new(), AccountId::new(), AccountId::new()];
        let slot = |account, provider| queue.wait_at(account, provider).now_or_never();
        let take_all = |account, provider| -> Vec<QueuePermit> {
            std::iter::from_fn(|| slot(account, provider)).collect()
        };
        let first = take_all(a, "slow");
        assert_eq!(first.len(), 24);
        let newcomer = slot(b, "slow").expect("a slot of the provider is left");
        assert!(slot(b, "slow").is_none(), "it holds one now");
        let second = take_all(a, "also slow");
        let third = take_all(b, "slow too");
        assert_eq!((second.len(), third.len()), (24, 23), "72 of 96");
        assert!(slot(a, "good").is_none() && slot(b, "good").is_none());
        let other = slot(c, "good").expect("a slot of all is left");
        drop((first, newcomer, second, third, other));
        assert_eq!(queue.state().free, 96);
    }

    #[tokio::test]
    async fn within_an_account_providers_take_turns() {
        let queue = FairShareQueue::new(2, 2);
        let account = AccountId::new();
        let enter = |provider| {
            let mut waiter = Box::pin(queue.wait_at(account, provider));
            (waiter.as_mut().now_or_never(), waiter)
        };
        let (first, _done) = enter("slow");
        let (second, _also_done) = enter("slow");
        let (_, mut slow) = enter("slow");
        let (_, mut good) = enter("good");
        drop(first);
        let good = good
            .as_mut()
            .now_or_never()
            .expect("it has none at this one");
        assert!(slow.as_mut().now_or_never().is_none());
        drop((second, good));
        assert!(slow.as_mut().now_or_never().is_some());
    }
}
