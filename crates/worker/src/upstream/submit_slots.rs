//! Submission slots: how many tasks of a model this process submits at once, and whether tasks wait
//! in the database. New tasks do not overtake those.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use locks::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The submission slots of all models.
pub(super) struct SubmitSlots {
    slots_per_model: usize,
    models: Mutex<HashMap<String, Arc<ModelSlots>>>,
}

/// The submission slots of one model.
pub(super) struct ModelSlots {
    free: Arc<Semaphore>,
    /// Whether there may be unclaimed tasks of the model.
    has_queue: AtomicBool,
}

impl SubmitSlots {
    pub(super) fn new(slots_per_model: usize) -> Self {
        Self {
            slots_per_model,
            models: Mutex::default(),
        }
    }

    pub(super) fn for_model(&self, model: &str) -> Arc<ModelSlots> {
        let mut models = lock(&self.models);
        if let Some(slots) = models.get(model) {
            return slots.clone();
        }
        let slots = Arc::new(ModelSlots {
            free: Arc::new(Semaphore::new(self.slots_per_model)),
            // Tasks of an earlier process may be waiting. The first poll will show that.
            has_queue: AtomicBool::new(true),
        });
        models.insert(model.to_owned(), slots.clone());
        slots
    }

    /// Marks all queues as empty before they are polled: the claims then show whether tasks remain.
    pub(super) fn clear_queued(&self) {
        self.mark(false);
    }

    /// Marks all queues as possibly non-empty after a failed poll.
    pub(super) fn assume_queued(&self) {
        self.mark(true);
    }

    fn mark(&self, has_queue: bool) {
        let models = lock(&self.models);
        for slots in models.values() {
            slots.has_queue.store(has_queue, Ordering::Relaxed);
        }
    }
}

impl ModelSlots {
    /// Reserves up to this many slots for tasks that are about to be claimed, so that new tasks do
    /// not get them meanwhile.
    pub(super) fn hold(&self, max_slots: u32) -> Option<OwnedSemaphorePermit> {
        let free = u32::try_from(self.free.available_permits()).unwrap_or(u32::MAX);
        // Other tasks may take permits between the two calls, so fewer are tried then.
        let mut counts = (1..=max_slots.min(free)).rev();
        counts.find_map(|count| self.free.clone().try_acquire_many_owned(count).ok())
    }

    /// Reserves slots for new tasks, unless other tasks came first.
    pub(super) fn reserve(&self, tasks: usize) -> Option<OwnedSemaphorePermit> {
        // A new task must not overtake tasks that wait in the database.
        if self.has_queue.load(Ordering::Relaxed) {
            return None;
        }
        let tasks = u32::try_from(tasks).ok()?;
        let slots = self.free.clone().try_acquire_many_owned(tasks).ok();
        if slots.is_none() {
            // The new tasks are accepted without a claim and wait in the database.
            self.queue();
        }
        slots
    }

    /// Records that tasks of the model wait to be claimed.
    pub(super) fn queue(&self) {
        self.has_queue.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_held_before_tasks_are_claimed() {
        let slots = SubmitSlots::new(3);
        let film = slots.for_model("film");
        slots.clear_queued();
        let new = film.reserve(1);
        let held = film.hold(256).unwrap();
        assert_eq!(held.num_permits(), 2, "the remaining slots");
        assert!(film.hold(1).is_none() && film.reserve(1).is_none());
        drop((new, held));
        assert_eq!(film.hold(1).unwrap().num_permits(), 1);
        assert!(film.hold(0).is_none());
    }

    #[test]
    fn new_tasks_do_not_overtake_waiting_ones() {
        let slots = SubmitSlots::new(2);
        let film = slots.for_model("film");
        assert!(film.reserve(1).is_none(), "not polled yet");
        slots.clear_queued();
        let first = film.reserve(2);
        assert!(first.is_some());
        assert!(film.reserve(1).is_none(), "it is full");
        drop(first);
        assert!(film.reserve(1).is_none(), "a task came while it was full");
        assert!(film.hold(1).is_some());
        slots.clear_queued();
        assert!(film.reserve(2).is_some());
        film.queue();
        assert!(film.reserve(1).is_none());
        assert!(slots.for_model("another").reserve(1).is_none());
        slots.clear_queued();
        slots.assume_queued();
        assert!(film.reserve(1).is_none(), "the poll failed");
    }
}
