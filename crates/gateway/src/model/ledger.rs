//! The ledger: every movement of money, one entry each, added and never changed.

use std::str::FromStr;

use crate::clock::Timestamp;
use crate::ids::{AccountId, KeyId, TaskId};
use crate::model::money::Micros;
use crate::model::task::UnknownWord;

/// What an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A task was accepted: its price is held.
    Reserve,
    /// A task made something: that is paid for, and nothing held any more.
    Settle,
    /// A task made nothing: nothing is held any more.
    Release,
    /// The operator put an amount right.
    Adjust,
    /// Money was paid in, or paid back.
    Credit,
}

impl EntryKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Reserve,
        Self::Settle,
        Self::Release,
        Self::Adjust,
        Self::Credit,
    ];

    /// The name that the store keeps and people see.
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

/// One movement of money: how it changes what is held, spent and credited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Names it; later entries sort after earlier ones.
    pub id: String,
    /// Whose money it is.
    pub account: AccountId,
    /// The key that spends it.
    pub key: Option<KeyId>,
    /// The task that it is spent on.
    pub task: Option<TaskId>,
    /// What it is about.
    pub kind: EntryKind,
    /// Change of what is held.
    pub held: Micros,
    /// Change of what is spent.
    pub spent: Micros,
    /// Change of what is credited.
    pub credit: Micros,
    /// For people.
    pub note: Option<String>,
    /// When it was written.
    pub created_at: Timestamp,
}
