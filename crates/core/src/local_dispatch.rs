//! Hands new orders to the workers of this process at once: the claim is written in the transaction
//! that accepts the order, which saves a commit of its own and a look for work.
//!
//! Whoever accepts orders knows no workers. While they run, they leave an offer here; what they do
//! not take is claimed later, by whichever process has room.

use std::sync::{Arc, PoisonError, RwLock};

use mediagate_model::catalog::EMBEDDED;
use mediagate_model::task::Task;

/// Claims these new tasks, all of one model, if they would be started now.
type DispatchOffer = Box<dyn Fn(&[Task]) -> Option<TaskClaim> + Send + Sync>;

/// A promise to work on new tasks. Dropped, it is taken back.
pub struct TaskClaim {
    owner: Arc<str>,
    start: Box<dyn FnOnce(Vec<Task>) + Send>,
}

impl TaskClaim {
    /// `start` runs once the tasks are on disk under this lease.
    pub fn new(owner: Arc<str>, start: impl FnOnce(Vec<Task>) + Send + 'static) -> Self {
        Self {
            owner,
            start: Box::new(start),
        }
    }

    /// The name of the lease.
    pub fn owner(&self) -> Arc<str> {
        self.owner.clone()
    }

    pub fn start(self, tasks: Vec<Task>) {
        (self.start)(tasks);
    }
}

/// The offer of this process's workers, while they run.
#[derive(Default)]
pub struct LocalDispatch(RwLock<Option<DispatchOffer>>);

impl LocalDispatch {
    /// New tasks are offered to these workers from now on.
    pub fn open(&self, offer: impl Fn(&[Task]) -> Option<TaskClaim> + Send + Sync + 'static) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(offer));
    }

    /// The workers take no more.
    pub fn close(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Claims new tasks for hosted providers, all of one model, and counts that as their first
    /// attempt.
    pub fn claim(&self, tasks: &mut [Task]) -> Option<TaskClaim> {
        // Tasks of the engines take turns in one queue of all processes, so none may start ahead of
        // it.
        tasks.first().filter(|task| task.provider != EMBEDDED)?;
        let offer = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let claim = offer.as_ref()?(tasks)?;
        for task in tasks {
            task.attempts += 1;
        }
        Some(claim)
    }
}
