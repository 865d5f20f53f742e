//! What this process holds: the name of its lease, and how each of its tasks
//! is stopped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::engines::Watch;
use crate::ids::{AssetId, TaskId};

/// One task that this process runs.
#[derive(Debug, Clone)]
pub(super) struct Hold {
    /// The lease under which it was taken; only this one may end it.
    pub(super) owner: Arc<str>,
    /// Watches an engine.
    pub(super) watch: Arc<Watch>,
    /// Cancelled when the task ended elsewhere or is no longer this process's.
    pub(super) called_off: CancellationToken,
}

impl Hold {
    /// Stops the run.
    pub(super) fn stop(&self) {
        self.watch.stop();
        self.called_off.cancel();
    }
}

/// Everything that this process holds.
pub(super) struct Holds {
    name: Mutex<Arc<str>>,
    entered: watch::Sender<bool>,
    tasks: Mutex<HashMap<TaskId, Hold>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn new_name() -> Arc<str> {
    format!("{}-{}", std::process::id(), AssetId::new().simple()).into()
}

impl Holds {
    /// Nothing yet, under a new name.
    pub(super) fn new() -> Self {
        Self {
            name: Mutex::new(new_name()),
            entered: watch::Sender::new(false),
            tasks: Mutex::default(),
        }
    }

    /// The name of the lease.
    pub(super) fn name(&self) -> Arc<str> {
        lock(&self.name).clone()
    }

    /// Whether the lease stands in the database.
    pub(super) fn has_entered(&self) -> bool {
        *self.entered.borrow()
    }

    /// The lease stands in the database.
    pub(super) fn enter(&self) {
        self.entered.send_replace(true);
    }

    /// Waits until it does.
    pub(super) async fn entered(&self) {
        let mut entered = self.entered.subscribe();
        // The sender lives as long as this does.
        let _ = entered.wait_for(|entered| *entered).await;
    }

    /// The lease was lost: everything stops, and a new name is taken.
    pub(super) fn start_over(&self) {
        self.entered.send_replace(false);
        *lock(&self.name) = new_name();
        for hold in lock(&self.tasks).values() {
            hold.stop();
        }
    }

    /// Holds a task.
    pub(super) fn take(&self, id: TaskId, owner: Arc<str>) -> Hold {
        let hold = Hold {
            owner,
            watch: Arc::default(),
            called_off: CancellationToken::new(),
        };
        lock(&self.tasks).insert(id, hold.clone());
        hold
    }

    /// Holds a task no longer.
    pub(super) fn drop_hold(&self, id: TaskId) {
        lock(&self.tasks).remove(&id);
    }

    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.tasks).is_empty()
    }

    /// Stops those of these tasks that are held.
    pub(super) fn stop_all(&self, ids: &[TaskId]) {
        let tasks = lock(&self.tasks);
        for hold in ids.iter().filter_map(|id| tasks.get(id)) {
            hold.stop();
        }
    }
}
