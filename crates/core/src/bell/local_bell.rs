//! The bell inside this process, and its listeners.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use locks::lock;
use tokio::sync::{Notify, broadcast, watch};

use crate::bell::message::BellMessage;
use mediagate_model::bounds;
use mediagate_model::ids::TaskId;
use mediagate_telemetry::counters;

pub(super) struct LocalBell {
    tasks: Mutex<TaskListeners>,
    pub(super) work: IdleWorkers,
    pub(super) upstream: IdleWorkers,
    pub(super) deliveries: IdleWorkers,
    pub(super) cancellations: broadcast::Sender<TaskId>,
    /// The time from which rings have not reached other processes.
    silent_since: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct TaskListeners {
    signals: HashMap<TaskId, watch::Sender<TaskSignals>>,
    /// Whether a poll for all listeners is running.
    is_polled: bool,
}

/// What is known about a task.
#[derive(Debug, Clone, Copy, Default)]
struct TaskSignals {
    rings: u64,
    /// The number of those rings after which it may have ended.
    ends: u64,
    /// The number of its newest event, as of the last look-up.
    newest: u32,
}

/// Workers that sleep until there is work.
#[derive(Default)]
pub(super) struct IdleWorkers {
    count: AtomicUsize,
    bell: Notify,
}

impl Default for LocalBell {
    fn default() -> Self {
        Self {
            tasks: Mutex::default(),
            work: IdleWorkers::default(),
            upstream: IdleWorkers::default(),
            deliveries: IdleWorkers::default(),
            cancellations: broadcast::Sender::new(bounds::CANCELLATIONS.total.count()),
            silent_since: Mutex::default(),
        }
    }
}

impl LocalBell {
    fn tasks(&self) -> MutexGuard<'_, TaskListeners> {
        lock(&self.tasks)
    }

    /// Notes whether rings reach other processes now.
    pub(super) fn set_connected(&self, is_connected: bool) {
        counters::bell_connected(is_connected);
        let mut since = lock(&self.silent_since);
        // Every failed attempt to connect reports again. The first one counts.
        *since = (!is_connected).then(|| since.unwrap_or_else(Instant::now));
    }

    pub(super) fn silent_since(&self) -> Option<Instant> {
        *lock(&self.silent_since)
    }

    pub(super) fn ring(&self, task: TaskId) {
        if let Some(sender) = self.tasks().signals.get(&task) {
            sender.send_modify(TaskSignals::ring);
        }
    }

    pub(super) fn ring_underway(&self, task: TaskId) {
        if let Some(sender) = self.tasks().signals.get(&task) {
            sender.send_modify(|signals| signals.rings += 1);
        }
    }

    pub(super) fn ring_all(&self) {
        for sender in self.tasks().signals.values() {
            sender.send_modify(TaskSignals::ring);
        }
    }

    pub(super) fn call_off(&self, task: TaskId) {
        self.ring(task);
        // Without workers in this process there is no receiver.
        let _ = self.cancellations.send(task);
    }

    /// Handles a ring from another process.
    pub(super) fn receive(&self, ring: BellMessage) {
        match ring {
            BellMessage::Task(task) => self.ring(task),
            BellMessage::Cancelled(task) => self.call_off(task),
            BellMessage::Work => drop(self.work.ring()),
            BellMessage::Upstream => drop(self.upstream.ring()),
            BellMessage::Deliveries => drop(self.deliveries.ring()),
        }
    }

    /// Listens to a task. Also returns whether the caller must start the poll for all listeners.
    pub(super) fn listen(self: &Arc<Self>, task: TaskId) -> (TaskListener, bool) {
        // Under the same lock as `listened_tasks_or_stop`: either the poll still sees this
        // listener, or the caller learns that it has to start one.
        let mut listeners = self.tasks();
        let receiver = listeners.signals.entry(task).or_default().subscribe();
        let TaskSignals { rings, ends, .. } = *receiver.borrow();
        let listener = TaskListener {
            task,
            signals: receiver,
            rings,
            ends,
            local: self.clone(),
        };
        (listener, !std::mem::replace(&mut listeners.is_polled, true))
    }

    /// The tasks that have listeners. If there are none, the caller must stop polling, and the next
    /// listener has to start it again.
    pub(super) fn listened_tasks_or_stop(&self) -> Option<Vec<TaskId>> {
        let mut listeners = self.tasks();
        listeners.is_polled = !listeners.signals.is_empty();
        listeners
            .is_polled
            .then(|| listeners.signals.keys().copied().collect())
    }

    /// Applies the result of a poll: the progress of these tasks. Tasks in `requested` that are
    /// missing from it no longer exist; their listeners are woken to find that out.
    pub(super) fn apply_progress(&self, requested: &[TaskId], progress: &[(TaskId, u32)]) {
        let tasks = self.tasks();
        let mut missing: HashSet<TaskId> = requested.iter().copied().collect();
        for (task, newest) in progress {
            missing.remove(task);
            if let Some(sender) = tasks.signals.get(task) {
                sender.send_if_modified(|signals| {
                    let has_news = signals.newest < *newest;
                    signals.newest = signals.newest.max(*newest);
                    has_news
                });
            }
        }
        for sender in missing.iter().filter_map(|task| tasks.signals.get(task)) {
            sender.send_modify(TaskSignals::ring);
        }
    }
}

impl TaskSignals {
    fn ring(&mut self) {
        self.rings += 1;
        self.ends += 1;
    }
}

impl IdleWorkers {
    /// Wakes one worker, or the next one that would sleep. Returns whether one was asleep.
    pub(super) fn ring(&self) -> bool {
        // The ring is stored if no worker sleeps, so a ring just before a worker falls asleep is
        // not lost.
        self.bell.notify_one();
        self.count.load(Ordering::Acquire) > 0
    }

    /// Sleeps until there is a ring, at most this long.
    pub(super) async fn wait(&self, limit: Duration) {
        let _asleep = IdleGuard::new(&self.count);
        drop(tokio::time::timeout(limit, self.bell.notified()).await);
    }

    /// Sleeps until `earliest`, and afterwards until there is a ring, at most this long.
    pub(super) async fn wait_until(&self, earliest: tokio::time::Instant, limit: Duration) {
        // The worker counts as asleep during the pause too: it looks for work afterwards anyway, so
        // no other process needs a ring.
        let _asleep = IdleGuard::new(&self.count);
        tokio::time::sleep_until(earliest).await;
        drop(tokio::time::timeout(limit, self.bell.notified()).await);
    }
}

/// Counts one sleeping worker as long as it exists.
struct IdleGuard<'a>(&'a AtomicUsize);

impl<'a> IdleGuard<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for IdleGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Listens for changes of one task.
pub struct TaskListener {
    task: TaskId,
    signals: watch::Receiver<TaskSignals>,
    /// The number of rings heard so far.
    rings: u64,
    ends: u64,
    local: Arc<LocalBell>,
}

impl TaskListener {
    /// Sleeps until the task may have changed since event number `last_seen`.
    pub async fn wait_for_change(&mut self, last_seen: u32) {
        let rings = self.rings;
        let has_news = |signals: &TaskSignals| signals.rings != rings || signals.newest > last_seen;
        // Never an error: the sender is kept as long as there is a listener.
        if let Ok(signals) = self.signals.wait_for(has_news).await {
            self.rings = signals.rings;
        }
    }

    /// Sleeps until the task may have ended. Returns whether there was a ring; otherwise a poll saw
    /// that the task has newer events than `last_seen`.
    pub async fn wait_for_end(&mut self, last_seen: u32) -> bool {
        let ends = self.ends;
        let has_news = |signals: &TaskSignals| signals.ends != ends || signals.newest > last_seen;
        if let Ok(signals) = self.signals.wait_for(has_news).await {
            self.ends = signals.ends;
        }
        self.ends != ends
    }

    /// Whether there was a ring since the last call. Does not wait.
    pub fn take_ring(&mut self) -> bool {
        let rings = self.signals.borrow().rings;
        std::mem::replace(&mut self.rings, rings) != rings
    }
}

impl Drop for TaskListener {
    fn drop(&mut self) {
        let mut listeners = self.local.tasks();
        // This listener's own receiver is still counted.
        let sender = listeners.signals.get(&self.task);
        if sender.is_some_and(|sender| sender.receiver_count() <= 1) {
            listeners.signals.remove(&self.task);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_ring_between_listening_and_sleeping_wakes_once() {
        let (local, task) = (Arc::new(LocalBell::default()), TaskId::new());
        let (mut listener, is_first) = local.listen(task);
        assert!(is_first && !local.listen(task).1);
        local.ring(task);
        assert!(listener.wait_for_change(7).now_or_never().is_some());
        assert!(listener.wait_for_change(7).now_or_never().is_none());
        local.apply_progress(&[task], &[(task, 7)]);
        assert!(listener.wait_for_change(7).now_or_never().is_none());
        // A listener that has seen fewer events has something to see.
        assert!(listener.wait_for_change(6).now_or_never().is_some());
        local.apply_progress(&[task], &[]);
        assert!(listener.wait_for_change(7).now_or_never().is_some());
    }

    #[test]
    fn a_ring_underway_does_not_wake_a_waiter_for_the_end() {
        let (local, task) = (Arc::new(LocalBell::default()), TaskId::new());
        let mut listener = local.listen(task).0;
        local.ring_underway(task);
        assert!(listener.wait_for_end(7).now_or_never().is_none());
        assert!(listener.wait_for_change(7).now_or_never().is_some());
        local.ring(task);
        assert_eq!(listener.wait_for_end(7).now_or_never(), Some(true));
        // The ring for its end may have been lost.
        local.apply_progress(&[task], &[(task, 8)]);
        assert_eq!(listener.wait_for_end(7).now_or_never(), Some(false));
        assert!(listener.wait_for_end(8).now_or_never().is_none());
        local.apply_progress(&[task], &[]);
        assert_eq!(listener.wait_for_end(8).now_or_never(), Some(true));
    }

    #[test]
    fn nothing_is_kept_for_tasks_that_nobody_listens_to() {
        let (local, task) = (Arc::new(LocalBell::default()), TaskId::new());
        drop((local.listen(task), local.listen(task)));
        local.ring(task);
        assert_eq!(local.listened_tasks_or_stop(), None);
    }

    #[tokio::test]
    async fn a_ring_for_work_returns_whether_a_worker_was_free() {
        let idle_workers = IdleWorkers::default();
        assert!(!idle_workers.ring());
        // The ring is kept for the next worker.
        idle_workers.wait(Duration::from_hours(1)).await;
        let mut wait = std::pin::pin!(idle_workers.wait(Duration::from_hours(1)));
        assert!((&mut wait).now_or_never().is_none());
        assert!(idle_workers.ring());
        wait.await;
        assert!(!idle_workers.ring());
    }
}
