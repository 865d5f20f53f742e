//! Events of the operator feed.

use crate::audit::AuditEntry;
use crate::budget::BudgetAlert;
use crate::clock::Timestamp;
use crate::ids::{AccountId, KeyId, SubmissionId, TaskId};
use crate::money::MicroDollars;
use crate::route::RouteError;
use crate::task::{MediaKind, TaskState};

/// A task was accepted.
#[derive(Debug, Clone)]
pub struct TaskAccepted {
    pub task: TaskId,
    pub account: AccountId,
    pub key: KeyId,
    pub kind: MediaKind,
    pub model: String,
    pub at: Timestamp,
}

/// A task was sent to a provider, or was about to be.
#[derive(Debug, Clone)]
pub struct SubmissionSent {
    pub id: SubmissionId,
    pub task: TaskId,
    pub account: AccountId,
    pub key: KeyId,
    pub kind: MediaKind,
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
pub struct TaskEnded {
    pub task: TaskId,
    pub account: AccountId,
    pub key: KeyId,
    pub kind: MediaKind,
    pub model: String,
    pub provider: String,
    pub state: TaskState,
    /// The code of its error.
    pub error: Option<String>,
    pub cost: MicroDollars,
    pub at: Timestamp,
}

/// The state of a route, as far as its changes are reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteStatus {
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    pub is_available: bool,
    /// The state of the breaker in the process where the route is least available.
    pub breaker: String,
    pub paused_at: Option<Timestamp>,
    /// When the provider first refused the key or the model, if it still does.
    pub refused_at: Option<Timestamp>,
    pub error: Option<RouteError>,
}

/// An event of the feed.
#[derive(Debug, Clone)]
pub enum FeedEvent {
    Accepted(TaskAccepted),
    Sent(SubmissionSent),
    Ended(TaskEnded),
    Route(Box<RouteStatus>, Timestamp),
    AuditLogged(Box<AuditEntry>),
    BudgetUsed(Box<BudgetAlert>),
}

impl FeedEvent {
    pub const fn at(&self) -> Timestamp {
        match self {
            Self::Accepted(accepted) => accepted.at,
            Self::Sent(sent) => sent.at,
            Self::Ended(ended) => ended.at,
            Self::Route(_, at) => *at,
            Self::AuditLogged(entry) => entry.at,
            Self::BudgetUsed(alert) => alert.at,
        }
    }

    /// The account that it is about.
    pub const fn account(&self) -> Option<AccountId> {
        match self {
            Self::Accepted(accepted) => Some(accepted.account),
            Self::Sent(sent) => Some(sent.account),
            Self::Ended(ended) => Some(ended.account),
            Self::BudgetUsed(alert) => Some(alert.account),
            Self::Route(..) | Self::AuditLogged(_) => None,
        }
    }
}
