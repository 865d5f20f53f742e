//! A movement of money, before it is an entry.

use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, KeyId, TaskId};
use mediagate_model::money::Micros;
use mediagate_model::task::TaskState;

/// Whose money an entry moves, and for which task.
#[derive(Debug, Clone, Copy)]
pub struct Of<'a> {
    pub account: AccountId,
    pub key: Option<KeyId>,
    pub task: Option<TaskId>,
    pub model: Option<&'a str>,
}

/// How an entry changes the sums.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change {
    /// Change of the held sum.
    pub held: Micros,
    /// Change of the spent sum.
    pub spent: Micros,
    /// Change of the credit sum.
    pub credit: Micros,
    /// The task's final state, if this entry ends it.
    pub ended: Option<TaskState>,
    /// When it counts, if not now: a correction counts where what it corrects does.
    pub counted_at: Option<Timestamp>,
}
