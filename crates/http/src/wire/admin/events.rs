//! Events of the gateway.

use serde::Serialize;
use utoipa::ToSchema;

use crate::wire::admin::audit::AuditObject;
use crate::wire::admin::providers::RouteErrorObject;
use mediagate_core::event_feed::FeedEntry;
use mediagate_model::clock::Timestamp;
use mediagate_model::feed::{FeedEvent, RouteStatus, SubmissionSent, TaskAccepted, TaskEnded};

/// Something that happened. What it is not about is absent.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct AdminHappening {
    /// `task.accepted`, `task.submitted`, `task.failed_over`, `task.ended`, `route.changed`,
    /// `change` or `missed`.
    pub r#type: &'static str,
    /// When it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Of a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskHappening>,
    /// How the route stands now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteHappening>,
    /// The audit log's entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<AuditObject>,
    /// How many events the reader was too slow for: it should look at what it shows anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
}

/// What happened to a task.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct TaskHappening {
    /// The task's id.
    pub id: String,
    /// The account's handle.
    pub account: String,
    /// The API key's id.
    pub key_id: String,
    /// `video` or `music`.
    pub kind: &'static str,
    /// The model's canonical name.
    pub model: String,
    /// The provider it was sent to, or that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The provider's name for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_model: Option<String>,
    /// Which order of the task it was, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// How it ended: `succeeded`, `failed` or `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// The code of its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Dollars charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<String>,
}

/// How a route stands.
#[derive(Debug, Serialize, ToSchema)]
pub struct RouteHappening {
    /// The operator's name for the provider.
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    /// Whether orders are sent.
    pub available: bool,
    /// The breaker's state, in the process that uses the route least.
    pub breaker: String,
    /// Since when an operator has it paused.
    #[schema(required = true)]
    pub paused_at: Option<String>,
    /// Since when the provider refuses the key.
    #[schema(required = true)]
    pub key_refused_at: Option<String>,
    /// Its last error.
    #[schema(required = true)]
    pub last_error: Option<RouteErrorObject>,
}

impl AdminHappening {
    pub fn new(told: &FeedEntry) -> Self {
        let at = Some(told.what.at().rfc3339());
        let handle = told.handle.clone().unwrap_or_default();
        let of_task = |r#type, task: TaskHappening| Self {
            r#type,
            task: Some(TaskHappening {
                account: handle,
                ..task
            }),
            ..Self::default()
        };
        let what = match &told.what {
            FeedEvent::Accepted(one) => of_task("task.accepted", accepted(one)),
            FeedEvent::Sent(one) if one.attempt > 1 => of_task("task.failed_over", sent(one)),
            FeedEvent::Sent(one) => of_task("task.submitted", sent(one)),
            FeedEvent::Ended(one) => of_task("task.ended", ended(one)),
            FeedEvent::Route(state, _) => Self {
                r#type: "route.changed",
                route: Some(route(state)),
                ..Self::default()
            },
            FeedEvent::Changed(entry) => Self {
                r#type: "change",
                change: Some(AuditObject::new(entry.as_ref().clone())),
                ..Self::default()
            },
        };
        Self { at, ..what }
    }

    /// The reader was too slow.
    pub fn missed(count: u64) -> Self {
        Self {
            r#type: "missed",
            missed: Some(count),
            ..Self::default()
        }
    }

    /// What it is about, by which events are told apart: `task`, `route` or `change`.
    pub fn subject(&self) -> &'static str {
        self.r#type.split('.').next().unwrap_or(self.r#type)
    }
}

fn accepted(one: &TaskAccepted) -> TaskHappening {
    TaskHappening {
        id: one.task.to_string(),
        key_id: one.key.to_string(),
        kind: one.kind.name(),
        model: one.model.clone(),
        ..TaskHappening::default()
    }
}

fn sent(one: &SubmissionSent) -> TaskHappening {
    TaskHappening {
        id: one.task.to_string(),
        key_id: one.key.to_string(),
        kind: one.kind.name(),
        model: one.model.clone(),
        provider: Some(one.provider.clone()),
        provider_model: Some(one.route_model.clone()),
        attempt: Some(one.attempt),
        ..TaskHappening::default()
    }
}

fn ended(one: &TaskEnded) -> TaskHappening {
    TaskHappening {
        id: one.task.to_string(),
        key_id: one.key.to_string(),
        kind: one.kind.name(),
        model: one.model.clone(),
        provider: Some(one.provider.clone()),
        status: Some(one.state.name()),
        error: one.error.clone(),
        cost_usd: Some(one.cost.to_string()),
        ..TaskHappening::default()
    }
}

fn route(state: &RouteStatus) -> RouteHappening {
    RouteHappening {
        provider: state.provider.clone(),
        model: state.model.clone(),
        available: state.is_available,
        breaker: state.breaker.clone(),
        paused_at: state.paused_at.map(Timestamp::rfc3339),
        key_refused_at: state.refused_at.map(Timestamp::rfc3339),
        last_error: state.error.as_ref().map(RouteErrorObject::new),
    }
}
