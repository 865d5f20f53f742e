//! Submissions: what was sent to a provider for a task, and what is known of
//! the outcome.

use std::str::FromStr;

use providers::Handle;
use serde_json::Value;

use crate::clock::Timestamp;
use crate::ids::{SubmissionId, TaskId};
use crate::model::task::UnknownWord;

/// Where a submission stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmissionState {
    /// The request was about to leave; nobody knows yet what became of it.
    Intended,
    /// The provider took it.
    Accepted,
    /// The provider took nothing, provably.
    Refused,
    /// Whether the provider took it cannot be found out.
    Unclear,
    /// It was unclear, its task has ended, and the provider has the job after all.
    Found,
    /// The provider's job is over.
    Ended,
}

impl SubmissionState {
    const ALL: [Self; 6] = [
        Self::Intended,
        Self::Accepted,
        Self::Refused,
        Self::Unclear,
        Self::Found,
        Self::Ended,
    ];

    /// Whether the provider has, or may have, a job of it that goes on.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Intended | Self::Accepted)
    }

    /// The name that the store keeps.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Intended => "intended",
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::Unclear => "unclear",
            Self::Found => "found",
            Self::Ended => "ended",
        }
    }
}

impl FromStr for SubmissionState {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL
            .into_iter()
            .find(|state| state.name() == text)
            .ok_or(UnknownWord)
    }
}

/// What a provider itself says that a job cost, for the operator's margin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldCost {
    /// The provider, by the operator's name for it.
    pub provider: String,
    /// In millionths of the unit.
    pub millionths: i64,
    /// What the provider counts, as `providers::Unit` names it.
    pub unit: String,
}

/// Something that was, or was about to be, sent to a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// Names it; a provider that deduplicates is given this.
    pub id: SubmissionId,
    /// The task that it is for.
    pub task: TaskId,
    /// Counts from 1 for each task.
    pub attempt: u32,
    /// The provider, by the operator's name for it.
    pub provider: String,
    /// The model, by the provider's name for it.
    pub route_model: String,
    /// The credential that it was made with, see `upstream::Credential`.
    pub credential: String,
    /// Where it stands.
    pub state: SubmissionState,
    /// Names the job at the provider.
    pub handle: Option<Handle>,
    /// What the provider's answer to it named as the result, where it did.
    pub results: Option<Value>,
    /// When it was about to leave.
    pub created_at: Timestamp,
    /// When the provider took it.
    pub accepted_at: Option<Timestamp>,
}
