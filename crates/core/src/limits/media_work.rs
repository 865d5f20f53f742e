//! A work pool for callers' media: slots and memory, for which accounts take turns.
//!
//! Memory is reserved before a decoder allocates anything, by what the header says it will need,
//! and belongs to the work, not to the request: if the caller disconnects, it is released only when
//! the work has stopped.

use std::sync::Arc;

use crate::limits::fair_queue::{FairShareQueue, QueuePermit};
use mediagate_media::engines::EngineControl;
use mediagate_model::bounds;
use mediagate_model::error::Error;
use mediagate_model::ids::AccountId;

/// A kind of work. Each kind has its own slots, so that no kind waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// A picture is decoded.
    Picture,
    /// A recording is decoded, measured, encoded.
    Recording,
    /// The origin of a file is checked.
    Check,
    /// A result is processed, to be stored.
    Result,
}

/// The slots and the memory of one process. Cheap to clone.
#[derive(Clone)]
pub struct MediaWorkPool {
    memory: DecodingMemory,
    pictures: FairShareQueue,
    recordings: FairShareQueue,
    checks: FairShareQueue,
    results: FairShareQueue,
}

/// Granularity of the memory, in bytes.
const UNIT: u64 = 64 * 1024;
/// The part of the memory that is for small requests: one in eight.
const SMALL_PART: u64 = 8;
/// How many of the largest small requests fit into it.
const SMALL_REQUESTS: u64 = 4;

/// A slot in use.
pub struct WorkSlot {
    pool: MediaWorkPool,
    account: AccountId,
    watch: Arc<EngineControl>,
}

impl MediaWorkPool {
    /// A pool with this much memory, on a machine with `cores` cores.
    pub fn new(memory_bytes: u64, cores: usize) -> Self {
        let cores = cores as u64;
        Self {
            memory: DecodingMemory::new(memory_bytes),
            // One more than an account may have, so that many requests of one account leave a slot
            // free.
            pictures: FairShareQueue::new(cores + 1, cores),
            recordings: FairShareQueue::for_bound(&bounds::RECORDINGS),
            checks: FairShareQueue::for_bound(&bounds::CHECKS),
            // Like pictures: many results that arrive together must not start as many processes.
            results: FairShareQueue::new(cores + 1, cores),
        }
    }

    /// How many requests wait for memory.
    pub fn waiting_for_memory(&self) -> usize {
        self.memory.small.waiting() + self.memory.large.waiting()
    }

    /// Runs work off the async threads, when it is the account's turn and `memory_bytes` are free;
    /// work that needs more than the total runs alone. The work is signalled to stop when no caller
    /// waits for it any more.
    pub async fn work<T: Send + 'static>(
        &self,
        account: AccountId,
        kind: WorkKind,
        memory_bytes: u64,
        work: impl FnOnce(&WorkSlot) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let slots = match kind {
            WorkKind::Picture => &self.pictures,
            WorkKind::Recording => &self.recordings,
            WorkKind::Check => &self.checks,
            WorkKind::Result => &self.results,
        };
        let slot_permit = slots.wait(account, 1).await;
        // After the slot: otherwise work that waits for a slot would hold unused memory.
        let memory = match memory_bytes {
            0 => None,
            bytes => {
                let (room, units) = self.memory.room(bytes);
                Some(room.wait(account, units).await)
            }
        };
        let watch = Arc::new(EngineControl::default());
        // Dropped with this future: if the caller disconnects, the work is signalled to stop.
        let _stopping = watch.stop_on_drop();
        let slot = WorkSlot {
            pool: self.clone(),
            account,
            watch,
        };
        let work = tokio::task::spawn_blocking(move || {
            let result = work(&slot);
            // Released by the work itself. After a disconnect its child uses the memory until it
            // has stopped.
            drop((slot_permit, memory));
            result
        });
        work.await.map_err(Error::internal)
    }
}

impl WorkSlot {
    /// Signals the work to stop when no caller waits for it any more.
    pub fn watch(&self) -> &EngineControl {
        &self.watch
    }

    /// Waits for this much memory, for work that only now knows how much it needs. Blocks. Work
    /// that has reserved some already must not wait for more: two could wait for each other.
    pub fn reserve(&self, bytes: u64) -> QueuePermit {
        let (room, units) = self.pool.memory.room(bytes);
        room.wait_blocking(self.account, units)
    }
}

/// The memory, in two rooms: small requests never wait for large ones.
#[derive(Clone)]
struct DecodingMemory {
    small: FairShareQueue,
    large: FairShareQueue,
    /// The largest small request, in units.
    most_small: u64,
}

impl DecodingMemory {
    fn new(bytes: u64) -> Self {
        let units = (bytes / UNIT).max(2);
        let small = (units / SMALL_PART).max(1);
        // While others wait, an account gets half of a room.
        let room = |units: u64| FairShareQueue::lending(units, units / 2);
        Self {
            small: room(small),
            large: room(units - small),
            most_small: small / SMALL_REQUESTS,
        }
    }

    /// The room for this many bytes, and how many units of it they are.
    fn room(&self, bytes: u64) -> (&FairShareQueue, u64) {
        let units = units(bytes);
        let is_small = units <= self.most_small;
        (if is_small { &self.small } else { &self.large }, units)
    }
}

const fn units(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_caller_who_leaves_returns_nothing_before_the_work_has_stopped() {
        let (pool, account) = (MediaWorkPool::new(1 << 20, 2), AccountId::new());
        let (stopped, stop_receiver) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let held = pool.work(account, WorkKind::Result, 1 << 20, move |slot| {
            while !slot.watch().is_stopped() {
                std::thread::sleep(Duration::from_millis(1));
            }
            stopped.send(()).unwrap();
            released.recv().unwrap();
        });
        // The caller leaves after the work has begun.
        let abandoned = tokio::time::timeout(Duration::from_millis(100), held).await;
        assert!(abandoned.is_err());
        tokio::task::spawn_blocking(move || stop_receiver.recv())
            .await
            .unwrap()
            .unwrap();
        let next = pool.work(account, WorkKind::Result, 1, |_| ());
        tokio::pin!(next);
        let early = tokio::time::timeout(Duration::from_millis(20), &mut next).await;
        assert!(early.is_err(), "the memory is still in use");
        release.send(()).unwrap();
        next.await.unwrap();
    }

    #[tokio::test]
    async fn work_that_needs_more_than_the_total_runs_alone() {
        let (pool, account) = (MediaWorkPool::new(1 << 20, 1), AccountId::new());
        let result = pool
            .work(account, WorkKind::Recording, u64::MAX, |_| 7)
            .await;
        assert_eq!(result.unwrap(), 7);
        let reserving = pool.work(account, WorkKind::Picture, 0, |slot| {
            let _held = slot.reserve(u64::MAX);
            8
        });
        assert_eq!(reserving.await.unwrap(), 8);
    }

    /// Each starts a child process. The work of many accounts ends at the same time here.
    #[tokio::test]
    async fn a_hundred_results_are_not_processed_at_once() {
        let pool = MediaWorkPool::new(64 << 20, 2);
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut results = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let (pool, running, most) = (pool.clone(), running.clone(), most.clone());
            results.spawn(async move {
                let work = pool.work(AccountId::new(), WorkKind::Result, 0, move |_| {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(2));
                    running.fetch_sub(1, Ordering::SeqCst);
                });
                work.await.unwrap();
            });
        }
        assert_eq!(results.join_all().await.len(), 100);
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }

    /// Even if one account uses all its slots, one slot is left for others.
    #[tokio::test]
    async fn many_requests_of_one_account_keep_no_other_account_waiting() {
        let (pool, account) = (MediaWorkPool::new(64 << 20, 2), AccountId::new());
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(std::sync::Mutex::new(released));
        let mut busy = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let (pool, released) = (pool.clone(), released.clone());
            busy.spawn(async move {
                let work = pool.work(account, WorkKind::Picture, 1, move |_| {
                    let _ = released.lock().unwrap().recv();
                });
                work.await.unwrap();
            });
        }
        tokio::task::yield_now().await;
        let other = pool
            .work(AccountId::new(), WorkKind::Picture, 1, |_| 7)
            .await;
        assert_eq!(other.unwrap(), 7);
        drop(release);
        busy.join_all().await;
    }
}
