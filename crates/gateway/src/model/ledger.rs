//! The ledger: every movement of money is one entry, and entries never change.

use std::str::FromStr;

use crate::clock::Timestamp;
use crate::ids::{AccountId, KeyId, TaskId};
use crate::model::money::Micros;
use crate::model::task::UnknownWord;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    pub const ALL: [Self; 5] = [
        Self::Reserve,
        Self::Settle,
        Self::Release,
        Self::Adjust,
        Self::Credit,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::Settle => "settle",
            Self::Release => "release",
            Self::Adjust => "adjust",
            Self::Credit => "credit",
        }
    }
}

impl FromStr for EntryKind {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or(UnknownWord)
    }
}

/// A change of the held, spent and credited sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Sorts by time.
    pub id: String,
    /// Whose sums change.
    pub account: AccountId,
    /// The key that spends it.
    pub key: Option<KeyId>,
    /// The task it is spent on.
    pub task: Option<TaskId>,
    pub kind: EntryKind,
    /// Change of the held sum.
    pub held: Micros,
    /// Change of the spent sum.
    pub spent: Micros,
    /// Change of the credit sum.
    pub credit: Micros,
    /// The operator's note.
    pub note: Option<String>,
    pub created_at: Timestamp,
}
