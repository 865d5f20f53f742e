//! The ledger: every movement of money is one entry, and entries never change.

use crate::attribution::Attribution;
use crate::clock::Timestamp;
use crate::ids::{AccountId, KeyId, TaskId};
use crate::money::MicroDollars;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::EnumString, strum::IntoStaticStr)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum EntryKind {
    /// A task was accepted: its price is held.
    Reserve,
    /// A task made something: it is charged, and its hold ends.
    Settle,
    /// A task made nothing: its hold ends.
    Release,
    /// The operator corrected a task's cost.
    Adjust,
    /// Money was paid in or withdrawn.
    Credit,
}

impl EntryKind {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// A change of the held, spent and credited sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoneyEntry {
    /// Sorts by time.
    pub id: String,
    /// The account whose sums change.
    pub account: AccountId,
    /// The key that spends it.
    pub key: Option<KeyId>,
    /// The task it is spent on.
    pub task: Option<TaskId>,
    pub kind: EntryKind,
    /// Change of the held sum.
    pub held: MicroDollars,
    /// Change of the spent sum.
    pub spent: MicroDollars,
    /// Change of the credit sum.
    pub credit: MicroDollars,
    /// The operator's note.
    pub note: Option<String>,
    pub created_at: Timestamp,
    /// The end user and the metadata of the task's order.
    pub attribution: Attribution,
}
