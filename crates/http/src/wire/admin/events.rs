//! Events of the gateway.

use serde::Serialize;
use utoipa::ToSchema;

use crate::wire::admin::audit::AuditObject;
use crate::wire::admin::providers::RouteErrorObject;
use mediagate_core::event_feed::FeedEntry;
use mediagate_core::records::budget_alert::BudgetAlertView;
use mediagate_model::clock::Timestamp;
use mediagate_model::feed::{FeedEvent, RouteStatus, SubmissionSent, TaskAccepted, TaskEnded};

/// An event. Only the fields that apply to its `type` are present.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct GatewayEvent {
    /// Event type: `task.accepted`, `task.submitted`, `task.failed_over`, `task.ended`,
    /// `route.changed`, `change`, `budget.threshold` or `missed`.
    pub r#type: &'static str,
    /// Time of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The task, in events of type `task.*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskEventObject>,
    /// The current state of the route, in events of type `route.changed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteEventObject>,
    /// The audit log entry, in events of type `change`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<AuditObject>,
    /// The budget, in events of type `budget.threshold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetEventObject>,
    /// Number of events that were dropped because the client read too slowly, or was away
    /// for too long. The client should reload its data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
}

/// The task of an event.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct TaskEventObject {
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
    /// The provider that received the task or produced the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The provider's own model name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_model: Option<String>,
    /// Number of the attempt, starting at 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Final status: `succeeded`, `failed` or `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// Error code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Amount charged, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<String>,
}

/// A part of a budget that was used up.
#[derive(Debug, Serialize, ToSchema)]
pub struct BudgetEventObject {
    /// The handle of the account.
    pub account: String,
    #[serde(flatten)]
    pub alert: BudgetAlertView,
}

/// The state of a route.
#[derive(Debug, Serialize, ToSchema)]
pub struct RouteEventObject {
    /// Name of the provider in the configuration.
    pub provider: String,
    /// The provider's own model name.
    pub model: String,
    /// Whether tasks are sent to this route.
    pub available: bool,
    /// State of the circuit breaker in the process where it is worst.
    pub breaker: String,
    /// Time when an operator paused the route. Null if it is not paused.
    #[schema(required = true)]
    pub paused_at: Option<String>,
    /// Time since which the provider rejects the key or the model. Null if it accepts both.
    #[schema(required = true)]
    pub key_refused_at: Option<String>,
    /// The last error.
    #[schema(required = true)]
    pub last_error: Option<RouteErrorObject>,
}

impl GatewayEvent {
    pub fn new(entry: &FeedEntry) -> Self {
        let at = Some(entry.event.at().rfc3339());
        let handle = entry.handle.clone().unwrap_or_default();
        let task_event = |r#type, task: TaskEventObject| Self {
            r#type,
            task: Some(TaskEventObject {
                account: handle,
                ..task
            }),
            ..Self::default()
        };
        let happening = match &entry.event {
            FeedEvent::Accepted(event) => task_event("task.accepted", accepted_event(event)),
            FeedEvent::Sent(event) if event.attempt > 1 => {
                task_event("task.failed_over", sent_event(event))
            }
            FeedEvent::Sent(event) => task_event("task.submitted", sent_event(event)),
            FeedEvent::Ended(event) => task_event("task.ended", ended_event(event)),
            FeedEvent::Route(state, _) => Self {
                r#type: "route.changed",
                route: Some(route(state)),
                ..Self::default()
            },
            FeedEvent::AuditLogged(entry) => Self {
                r#type: "change",
                change: Some(AuditObject::new(entry.as_ref().clone(), None)),
                ..Self::default()
            },
            FeedEvent::BudgetUsed(alert) => Self {
                r#type: "budget.threshold",
                budget: Some(BudgetEventObject {
                    account: entry.handle.clone().unwrap_or_default(),
                    alert: BudgetAlertView::new(alert),
                }),
                ..Self::default()
            },
        };
        Self { at, ..happening }
    }

    /// Reports events that were dropped because the reader was too slow or away for too long.
    pub fn missed_events(count: u64) -> Self {
        Self {
            r#type: "missed",
            missed: Some(count),
            ..Self::default()
        }
    }

    /// The subject of the event: `task`, `route`, `change`, `budget` or `missed`.
    pub fn subject(&self) -> &'static str {
        self.r#type.split('.').next().unwrap_or(self.r#type)
    }
}

fn accepted_event(task: &TaskAccepted) -> TaskEventObject {
    TaskEventObject {
        id: task.task.to_string(),
        key_id: task.key.to_string(),
        kind: task.kind.name(),
        model: task.model.clone(),
        ..TaskEventObject::default()
    }
}

fn sent_event(submission: &SubmissionSent) -> TaskEventObject {
    TaskEventObject {
        id: submission.task.to_string(),
        key_id: submission.key.to_string(),
        kind: submission.kind.name(),
        model: submission.model.clone(),
        provider: Some(submission.provider.clone()),
        provider_model: Some(submission.route_model.clone()),
        attempt: Some(submission.attempt),
        ..TaskEventObject::default()
    }
}

fn ended_event(task: &TaskEnded) -> TaskEventObject {
    TaskEventObject {
        id: task.task.to_string(),
        key_id: task.key.to_string(),
        kind: task.kind.name(),
        model: task.model.clone(),
        provider: Some(task.provider.clone()),
        status: Some(task.state.name()),
        error: task.error.clone(),
        cost_usd: Some(task.cost.to_string()),
        ..TaskEventObject::default()
    }
}

fn route(state: &RouteStatus) -> RouteEventObject {
    RouteEventObject {
        provider: state.provider.clone(),
        model: state.model.clone(),
        available: state.is_available,
        breaker: state.breaker.clone(),
        paused_at: state.paused_at.map(Timestamp::rfc3339),
        key_refused_at: state.refused_at.map(Timestamp::rfc3339),
        last_error: state.error.as_ref().map(RouteErrorObject::new),
    }
}
