//! Changes of the ledger: the amounts of an entry before it is written.

use mediagate_model::attribution::Attribution;
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, KeyId, TaskId};
use mediagate_model::money::MicroDollars;
use mediagate_model::task::TaskState;

/// The account and key whose money an entry moves, and the task.
#[derive(Debug, Clone, Copy)]
pub struct EntrySubject<'a> {
    pub account: AccountId,
    pub key: Option<KeyId>,
    pub task: Option<TaskId>,
    pub model: Option<&'a str>,
    /// The task's.
    pub attribution: Option<&'a Attribution>,
}

/// How an entry changes the sums.
#[derive(Debug, Clone, Copy, Default)]
pub struct LedgerChange {
    /// Change of the held sum.
    pub held: MicroDollars,
    /// Change of the spent sum.
    pub spent: MicroDollars,
    /// Change of the credit sum.
    pub credit: MicroDollars,
    /// The task's final state, if this entry ends it.
    pub final_state: Option<TaskState>,
    /// When it counts, if not now: a correction counts at the time of the entry that it corrects.
    pub counted_at: Option<Timestamp>,
}
