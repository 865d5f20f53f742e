//! Hands new orders to the workers of this process at once: the claim is written in the transaction
//! that accepts the order, which saves a separate commit and a look-up of work.
//!
//! The code that accepts orders does not know the workers. While they run, they register an offer
//! here; tasks that they do not take are claimed later by any process with free capacity.

use std::sync::{Arc, RwLock};

use locks::ignore_poison;
use mediagate_model::catalog::EMBEDDED;
use mediagate_model::task::Task;

/// Claims these new tasks, all of one model, if they can be started now.
type DispatchOffer = Box<dyn Fn(&[Task]) -> Option<TaskClaim> + Send + Sync>;

/// A claim on new tasks; dropping it gives the tasks up.
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
    /// Offers new tasks to these workers from now on.
    pub fn open(&self, offer: impl Fn(&[Task]) -> Option<TaskClaim> + Send + Sync + 'static) {
        *ignore_poison(self.0.write()) = Some(Box::new(offer));
    }

    /// Stops offering tasks to the workers.
    pub fn close(&self) {
        *ignore_poison(self.0.write()) = None;
    }

    /// Claims new tasks for hosted providers, all of one model, and counts that as their first
    /// attempt.
    pub fn claim(&self, tasks: &mut [Task]) -> Option<TaskClaim> {
        // Tasks for engines wait in one queue shared by all processes, so none may bypass it.
        tasks.first().filter(|task| task.provider != EMBEDDED)?;
        let offer = ignore_poison(self.0.read());
        let claim = offer.as_ref()?(tasks)?;
        for task in tasks {
            task.attempts += 1;
        }
        Some(claim)
    }
}
