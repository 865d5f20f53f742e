//! The queue of work that waits for a Postgres connection, and its scheduling.

use std::collections::{HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

use crate::StoreError;
use crate::postgres::MAX_QUEUE_TIME;
use crate::postgres::in_doubt::DoubtQueue;
use crate::postgres::pending_work::PendingWork;
use crate::postgres::write_group::QueuedWrite;
use locks::{ignore_poison, lock};
use mediagate_model::bounds;

/// Maximum number of waiting reads, and of waiting writes; more are refused at once.
const MAX_WAITING: usize = bounds::WAITING_STATEMENTS.total.count();
/// Maximum number of long reads that run together: they must leave connections for others.
const MAX_LONG_READS: usize = 4;

pub(super) struct WorkQueue {
    state: Mutex<QueueState>,
    wake: Condvar,
    doubts: DoubtQueue,
}

#[derive(Default)]
struct QueueState {
    reads: VecDeque<(Instant, Box<dyn PendingWork>)>,
    long_reads: VecDeque<(Instant, Box<dyn PendingWork>)>,
    writes: VecDeque<QueuedWrite>,
    /// The account locks whose group is being written.
    locked: HashSet<i32>,
    long_reads_running: usize,
    is_closed: bool,
}

/// What a thread does next.
pub(super) enum QueuedJob {
    Read(Box<dyn PendingWork>),
    LongRead(Box<dyn PendingWork>),
    /// The first of a group.
    Write(QueuedWrite),
}

impl WorkQueue {
    pub(super) fn new(doubts: DoubtQueue) -> Self {
        Self {
            state: Mutex::default(),
            wake: Condvar::new(),
            doubts,
        }
    }

    /// Queues a read.
    pub(super) fn push_read(
        &self,
        read: Box<dyn PendingWork>,
        is_long: bool,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let waiting = if is_long {
            &mut state.long_reads
        } else {
            &mut state.reads
        };
        if waiting.len() >= MAX_WAITING {
            return Err(StoreError::Busy);
        }
        waiting.push_back((Instant::now(), read));
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    pub(super) fn push_write(&self, write: QueuedWrite) -> Result<(), StoreError> {
        let mut state = self.state();
        // While many commits are in doubt the database accepts nothing, and further writes would
        // only queue up.
        if state.writes.len() >= MAX_WAITING || self.doubts.is_full() {
            return Err(StoreError::Busy);
        }
        state.writes.push_back(write);
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// Waits for a job; `None` once the queue is closed. Refuses work that has waited too long.
    pub(super) fn next(&self) -> Option<QueuedJob> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.take() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state = ignore_poison(self.wake.wait(state));
        }
    }

    /// The next write with this lock, whose group is being written.
    pub(super) fn next_of_group(&self, account_lock: i32) -> Option<QueuedWrite> {
        let mut state = self.state();
        let mut waiting = state.writes.iter();
        let index = waiting.position(|write| write.account_lock == Some(account_lock))?;
        state.writes.remove(index)
    }

    /// Notes that the group with this lock is written, so that the next one may start.
    pub(super) fn end_group(&self, account_lock: i32) {
        self.state().locked.remove(&account_lock);
        self.wake.notify_one();
    }

    /// Notes that a long read has ended.
    pub(super) fn end_long_read(&self) {
        self.state().long_reads_running -= 1;
        self.wake.notify_one();
    }

    /// Closes the queue; the threads stop when everything is done.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.wake.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }
}

impl QueueState {
    /// The next job that can be done now: the oldest read or write, or else a long read.
    fn take(&mut self) -> Option<QueuedJob> {
        self.refuse_late();
        // A second group with the same lock would only wait for the first one, and occupy a
        // connection.
        let write_index = self.writes.iter().position(|write| {
            write
                .account_lock
                .is_none_or(|lock| !self.locked.contains(&lock))
        });
        let write_since = write_index
            .and_then(|index| self.writes.get(index))
            .map(|write| write.since);
        let read_since = self.reads.front().map(|(since, _)| *since);
        // By age, so that neither reads nor writes starve the other.
        if let (Some(index), true) = (write_index, is_first(write_since, read_since)) {
            let first = self.writes.remove(index)?;
            self.locked.extend(first.account_lock);
            return Some(QueuedJob::Write(first));
        }
        if let Some((_, read)) = self.reads.pop_front() {
            return Some(QueuedJob::Read(read));
        }
        if self.long_reads_running < MAX_LONG_READS
            && let Some((_, read)) = self.long_reads.pop_front()
        {
            self.long_reads_running += 1;
            return Some(QueuedJob::LongRead(read));
        }
        None
    }

    /// Refuses work that has waited too long, while its caller still waits.
    fn refuse_late(&mut self) {
        let is_late = |since: Instant| since.elapsed() > MAX_QUEUE_TIME;
        for reads in [&mut self.reads, &mut self.long_reads] {
            while reads.front().is_some_and(|(since, _)| is_late(*since)) {
                if let Some((_, read)) = reads.pop_front() {
                    read.reply(Err(StoreError::Busy));
                }
            }
        }
        while self
            .writes
            .front()
            .is_some_and(|write| is_late(write.since))
        {
            if let Some(write) = self.writes.pop_front() {
                write.reply(Err(StoreError::Busy));
            }
        }
    }
}

fn is_first(write_since: Option<Instant>, read_since: Option<Instant>) -> bool {
    match (write_since, read_since) {
        (Some(write_since), Some(read_since)) => write_since <= read_since,
        (write_since, _) => write_since.is_some(),
    }
}
