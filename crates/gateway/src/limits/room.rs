//! The memory budget for decoding callers' media, and the number of recordings processed at once.
//!
//! Memory is reserved before a decoder allocates anything, by what the header says it will need,
//! and belongs to the work, not to the request: if the caller disconnects, it is released only when
//! the work has stopped.

use std::sync::Arc;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::error::Error;

/// The budget of one process.
#[derive(Debug, Clone)]
pub struct Room {
    /// A permit per [`UNIT`].
    memory: Arc<Semaphore>,
    units: u32,
    recordings: Arc<Semaphore>,
}

/// Granularity of the budget, in bytes.
const UNIT: u64 = 64 * 1024;

impl Room {
    /// A budget of so many bytes and so many recordings.
    pub fn new(memory_bytes: u64, recordings: usize) -> Self {
        let units = u32::try_from(memory_bytes / UNIT)
            .unwrap_or(u32::MAX)
            .max(1);
        Self {
            memory: Arc::new(Semaphore::new(units as usize)),
            units,
            recordings: Arc::new(Semaphore::new(recordings)),
        }
    }

    /// Runs work that needs at most `bytes`, off the async threads, once that much is free. Work
    /// that needs more than the whole budget runs alone. The token passed to the work is cancelled
    /// when nobody waits for it any more.
    pub async fn work<T: Send + 'static>(
        &self,
        memory_bytes: u64,
        work: impl FnOnce(&CancellationToken) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let permit = self.memory(memory_bytes).await.map_err(Error::internal)?;
        run(permit, work).await
    }

    /// Like [`Room::work`], for a recording: only a few are processed at once.
    pub async fn recording<T: Send + 'static>(
        &self,
        memory_bytes: u64,
        work: impl FnOnce(&CancellationToken) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let turn = self.recordings.clone().acquire_owned().await;
        let turn = turn.map_err(Error::internal)?;
        let permit = self.memory(memory_bytes).await.map_err(Error::internal)?;
        run((turn, permit), work).await
    }

    async fn memory(&self, bytes: u64) -> Result<OwnedSemaphorePermit, AcquireError> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let units = units.clamp(1, self.units);
        self.memory.clone().acquire_many_owned(units).await
    }
}

async fn run<T: Send + 'static>(
    room: impl Send + 'static,
    work: impl FnOnce(&CancellationToken) -> T + Send + 'static,
) -> Result<T, Error> {
    let left = CancellationToken::new();
    let _waiting = left.clone().drop_guard();
    let work = tokio::task::spawn_blocking(move || {
        let made = work(&left);
        drop(room);
        made
    });
    work.await.map_err(Error::internal)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_caller_who_leaves_gives_nothing_back_before_the_work_has_stopped() {
        let room = Room::new(1 << 20, 2);
        let (stopped, stops) = mpsc::channel();
        let (go_on, waits) = mpsc::channel::<()>();
        let held = room.work(1 << 20, move |left| {
            while !left.is_cancelled() {
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
        let next = room.work(1, |_| ());
        tokio::pin!(next);
        let early = tokio::time::timeout(Duration::from_millis(20), &mut next).await;
        assert!(early.is_err(), "the room is still taken");
        go_on.send(()).unwrap();
        next.await.unwrap();
    }

    #[tokio::test]
    async fn what_takes_more_than_there_is_runs_alone() {
        let room = Room::new(1 << 20, 1);
        assert_eq!(room.work(u64::MAX, |_| 7).await.unwrap(), 7);
        assert_eq!(room.recording(1, |_| 8).await.unwrap(), 8);
    }
}
