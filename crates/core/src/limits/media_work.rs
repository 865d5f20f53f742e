//! A work pool for callers' media: slots and memory, for which accounts take turns.
//!
//! Memory is reserved before a decoder allocates anything, by what the header says it will need,
//! and belongs to the work, not to the request: if the caller disconnects, it is released only when
//! the work has stopped.

use std::sync::Arc;

use crate::limits::fair_queue::{FairShareQueue, QueuePermit};
use mediagate_media::engines::EngineControl;
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
    memory: FairShareQueue,
    pictures: FairShareQueue,
    recordings: FairShareQueue,
    checks: FairShareQueue,
}

/// Granularity of the memory, in bytes.
const UNIT: u64 = 64 * 1024;
/// Recordings at once, in total and per account.
const RECORDINGS: (u64, u64) = (2, 1);

/// A slot in use.
pub struct WorkSlot {
    room: MediaWorkPool,
    account: AccountId,
    watch: Arc<EngineControl>,
}

impl MediaWorkPool {
    /// A pool with this much memory, on a machine with `cores` cores.
    pub fn new(memory_bytes: u64, cores: usize) -> Self {
        let units = (memory_bytes / UNIT).max(1);
        let cores = cores as u64;
        Self {
            memory: FairShareQueue::new(units, units),
            // One more than an account may have, so that many requests of one account leave a slot
            // free.
            pictures: FairShareQueue::new(cores + 1, cores),
            recordings: FairShareQueue::new(RECORDINGS.0, RECORDINGS.1),
            checks: FairShareQueue::new(1, 1),
        }
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
        let place = match kind {
            WorkKind::Picture => Some(self.pictures.wait(account, 1).await),
            WorkKind::Recording => Some(self.recordings.wait(account, 1).await),
            WorkKind::Check => Some(self.checks.wait(account, 1).await),
            WorkKind::Result => None,
        };
        // After the slot: otherwise work that waits for a slot would hold unused memory.
        let memory = match memory_bytes {
            0 => None,
            bytes => Some(self.memory.wait(account, units(bytes)).await),
        };
        let watch = Arc::new(EngineControl::default());
        // Dropped with this future: if the caller disconnects, the work is signalled to stop.
        let _stopping = watch.stop_on_drop();
        let workplace = WorkSlot {
            room: self.clone(),
            account,
            watch,
        };
        let work = tokio::task::spawn_blocking(move || {
            let made = work(&workplace);
            // Released by the work itself. After a disconnect its child uses the memory until it
            // has stopped.
            drop((place, memory));
            made
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
        self.room.memory.wait_blocking(self.account, units(bytes))
    }
}

const fn units(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_caller_who_leaves_gives_nothing_back_before_the_work_has_stopped() {
        let (room, account) = (MediaWorkPool::new(1 << 20, 2), AccountId::new());
        let (stopped, stops) = mpsc::channel();
        let (go_on, waits) = mpsc::channel::<()>();
        let held = room.work(account, WorkKind::Result, 1 << 20, move |place| {
            while !place.watch().is_stopped() {
                std::thread::sleep(Duration::from_millis(1));
            }
            stopped.send(()).unwrap();
            waits.recv().unwrap();
        });
        // The caller leaves after the work has begun.
        let gone = tokio::time::timeout(Duration::from_millis(100), held).await;
        assert!(gone.is_err());
        tokio::task::spawn_blocking(move || stops.recv())
            .await
            .unwrap()
            .unwrap();
        let next = room.work(account, WorkKind::Result, 1, |_| ());
        tokio::pin!(next);
        let early = tokio::time::timeout(Duration::from_millis(20), &mut next).await;
        assert!(early.is_err(), "the room is still taken");
        go_on.send(()).unwrap();
        next.await.unwrap();
    }

    #[tokio::test]
    async fn what_takes_more_than_there_is_runs_alone() {
        let (room, account) = (MediaWorkPool::new(1 << 20, 1), AccountId::new());
        let all = room
            .work(account, WorkKind::Recording, u64::MAX, |_| 7)
            .await;
        assert_eq!(all.unwrap(), 7);
        let told = room.work(account, WorkKind::Picture, 0, |place| {
            let _held = place.reserve(u64::MAX);
            8
        });
        assert_eq!(told.await.unwrap(), 8);
    }

    /// Even if one account uses all its slots, one slot is left for others.
    #[tokio::test]
    async fn a_crowd_of_one_account_keeps_nobody_else_waiting() {
        let (room, crowd) = (MediaWorkPool::new(64 << 20, 2), AccountId::new());
        let (go_on, waits) = mpsc::channel::<()>();
        let waits = Arc::new(std::sync::Mutex::new(waits));
        let mut busy = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let (room, waits) = (room.clone(), waits.clone());
            busy.spawn(async move {
                let work = room.work(crowd, WorkKind::Picture, 1, move |_| {
                    let _ = waits.lock().unwrap().recv();
                });
                work.await.unwrap();
            });
        }
        tokio::task::yield_now().await;
        let other = room
            .work(AccountId::new(), WorkKind::Picture, 1, |_| 7)
            .await;
        assert_eq!(other.unwrap(), 7);
        drop(go_on);
        busy.join_all().await;
    }
}
