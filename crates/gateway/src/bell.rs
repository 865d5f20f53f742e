//! The doorbell: wakes waiters in this process when something may have changed.
//!
//! The database is the source of truth; the bell only says "look again". A waiter subscribes first,
//! then looks, then sleeps until the bell or a poll, so that a lost ring costs a moment and never a
//! result.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, broadcast, watch};

use crate::ids::TaskId;

/// How long a sleeper waits before it looks by itself: another process may have made the change.
const POLL: Duration = Duration::from_millis(500);

/// The bells of one process. Cheap to clone.
#[derive(Clone, Default)]
pub struct Bell(Arc<Bells>);

struct Bells {
    tasks: Mutex<HashMap<TaskId, watch::Sender<u64>>>,
    work: Notify,
    upstream: Notify,
    deliveries: Notify,
    called_off: broadcast::Sender<TaskId>,
}

impl Default for Bells {
    fn default() -> Self {
        Self {
            tasks: Mutex::default(),
            work: Notify::new(),
            upstream: Notify::new(),
            deliveries: Notify::new(),
            called_off: broadcast::Sender::new(256),
        }
    }
}

impl Bell {
    pub fn ring(&self, task: TaskId) {
        let mut tasks = self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = tasks.get(&task) {
            sender.send_modify(|count| *count += 1);
            if sender.receiver_count() == 0 {
                tasks.remove(&task);
            }
        }
    }

    /// A task was cancelled: whoever works on it should stop.
    pub fn call_off(&self, task: TaskId) {
        self.ring(task);
        // Without workers in this process nobody listens.
        let _ = self.0.called_off.send(task);
    }

    /// Cancelled tasks from now on; misses some if there are very many.
    pub fn called_off(&self) -> broadcast::Receiver<TaskId> {
        self.0.called_off.subscribe()
    }

    /// Listens for changes of a task.
    pub fn listen(&self, task: TaskId) -> Listener {
        let mut tasks = self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = tasks
            .entry(task)
            .or_insert_with(|| watch::Sender::new(0))
            .subscribe();
        Listener {
            task,
            receiver,
            bell: self.clone(),
        }
    }

    pub fn ring_for_work(&self) {
        self.0.work.notify_one();
    }

    pub fn ring_for_upstream(&self) {
        self.0.upstream.notify_one();
    }

    pub fn ring_for_deliveries(&self) {
        self.0.deliveries.notify_one();
    }

    /// Sleeps until there may be webhooks to send.
    pub async fn wait_for_deliveries(&self) {
        drop(tokio::time::timeout(POLL, self.0.deliveries.notified()).await);
    }

    /// Sleeps until there may be work for hosted providers.
    pub async fn wait_for_upstream(&self) {
        drop(tokio::time::timeout(POLL, self.0.upstream.notified()).await);
    }

    /// Sleeps until there may be work.
    pub async fn wait_for_work(&self) {
        drop(tokio::time::timeout(POLL, self.0.work.notified()).await);
    }
}

/// Listens for changes of one task.
pub struct Listener {
    task: TaskId,
    receiver: watch::Receiver<u64>,
    bell: Bell,
}

impl Listener {
    /// Sleeps until the task may have changed.
    pub async fn changed(&mut self) {
        drop(tokio::time::timeout(POLL, self.receiver.changed()).await);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut tasks = self
            .bell
            .0
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // This listener's own receiver is still counted.
        if tasks
            .get(&self.task)
            .is_some_and(|sender| sender.receiver_count() <= 1)
        {
            tasks.remove(&self.task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_ring_between_listening_and_sleeping_is_heard() {
        let (bell, task) = (Bell::default(), TaskId::new());
        let mut listener = bell.listen(task);
        bell.ring(task);
        let start = tokio::time::Instant::now();
        listener.changed().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        listener.changed().await;
        assert_eq!(start.elapsed(), POLL);
    }

    #[test]
    fn nothing_is_kept_for_tasks_that_nobody_listens_to() {
        let (bell, task) = (Bell::default(), TaskId::new());
        drop((bell.listen(task), bell.listen(task)));
        bell.ring(task);
        assert!(bell.0.tasks.lock().unwrap().is_empty());
    }
}
