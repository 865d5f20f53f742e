//! What operators follow as it happens.

use crate::audit::AuditEntry;
use crate::clock::Timestamp;
use crate::ids::{AccountId, KeyId, SubmissionId, TaskId};
use crate::money::Micros;
use crate::route::RouteError;
use crate::task::{Kind, TaskState};

/// A task was accepted.
#[derive(Debug, Clone)]
pub struct Accepted {
    pub task: TaskId,
    pub account: AccountId,
    pub key: KeyId,
    pub kind: Kind,
    pub model: String,
    pub at: Timestamp,
}

/// A task was sent to a provider, or was about to be.
#[derive(Debug, Clone)]
pub struct Sent {
    pub id: SubmissionId,
    pub task: TaskId,
    pub account: AccountId,
    pub key: KeyId,
    pub kind: Kind,
    pub model: String,
    /// Counts from 1; a later one follows a refusal.
    pub attempt: u32,
    /// The operator's name for the provider.
    pub provider: String,
    /// The provider's name for the model.
    pub route_model: String,
    pub at: Timestamp,
}

/// A task ended.
#[derive(Debug, Clone)]
pub struct Ended {
    pub task: TaskId,
    pub account: AccountId,
    pub key: KeyId,
    pub kind: Kind,
    pub model: String,
    pub provider: String,
    pub state: TaskState,
    /// The code of its error.
    pub error: Option<String>,
    pub cost: Micros,
    pub at: Timestamp,
}

/// How a route stands, as far as a change of it is worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteState {
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    pub is_available: bool,
    /// Of the process that uses it least.
    pub breaker: String,
    pub paused_at: Option<Timestamp>,
    /// Since when the provider refuses the key.
    pub refused_at: Option<Timestamp>,
    pub error: Option<RouteError>,
}

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Happening {
    Accepted(Accepted),
    Sent(Sent),
    Ended(Ended),
    Route(Box<RouteState>, Timestamp),
    Changed(Box<AuditEntry>),
}

impl Happening {
    pub const fn at(&self) -> Timestamp {
        match self {
            Self::Accepted(one) => one.at,
            Self::Sent(one) => one.at,
            Self::Ended(one) => one.at,
            Self::Route(_, at) => *at,
            Self::Changed(entry) => entry.at,
        }
    }

    /// The account that it is about.
    pub const fn account(&self) -> Option<AccountId> {
        match self {
            Self::Accepted(one) => Some(one.account),
            Self::Sent(one) => Some(one.account),
            Self::Ended(one) => Some(one.account),
            Self::Route(..) | Self::Changed(_) => None,
        }
    }
}
