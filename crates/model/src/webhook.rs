//! Webhooks: endpoints, events, deliveries and attempts.

use std::time::Duration;

use crate::account::{ApiKey, Scope};
use crate::clock::Timestamp;
use crate::ids::{AccountId, DeliveryId, EndpointId, EventId, KeyId, TaskId};
use crate::task::TaskState;

/// The type of an event.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(const_into_str)]
pub enum EventType {
    #[strum(serialize = "task.succeeded")]
    TaskSucceeded,
    #[strum(serialize = "task.failed")]
    TaskFailed,
    #[strum(serialize = "task.cancelled")]
    TaskCancelled,
    /// A task was accepted that waits for approval.
    #[strum(serialize = "task.approval_requested")]
    ApprovalRequested,
    /// Another endpoint of the account was disabled because it does not respond.
    #[strum(serialize = "endpoint.disabled")]
    EndpointDisabled,
    /// A part of the budget of one of the account's keys or end users, or of its own, was used up.
    #[strum(serialize = "budget.threshold")]
    BudgetThreshold,
    /// Sent on request, whatever events the endpoint subscribed to.
    #[strum(serialize = "test")]
    Test,
}

impl EventType {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }

    /// Whether it is about a task.
    pub const fn is_of_task(self) -> bool {
        match self {
            Self::TaskSucceeded
            | Self::TaskFailed
            | Self::TaskCancelled
            | Self::ApprovalRequested => true,
            Self::EndpointDisabled | Self::BudgetThreshold | Self::Test => false,
        }
    }

    /// Whether it reports the end of a task, which happens once.
    pub const fn is_task_end(self) -> bool {
        matches!(
            self,
            Self::TaskSucceeded | Self::TaskFailed | Self::TaskCancelled
        )
    }

    /// The event at a task's end; `None` while it is open.
    pub const fn for_state(state: TaskState) -> Option<Self> {
        match state {
            TaskState::Queued | TaskState::Running => None,
            TaskState::Succeeded => Some(Self::TaskSucceeded),
            TaskState::Failed => Some(Self::TaskFailed),
            TaskState::Cancelled => Some(Self::TaskCancelled),
        }
    }
}

/// How an endpoint's deliveries are signed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum SignatureScheme {
    /// HMAC-SHA256 with a secret that both sides know: `v1`.
    Hmac,
    /// With a key pair of which the receiver has the public half: `v1a`.
    Ed25519,
}

impl SignatureScheme {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// A URL that an account registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEndpoint {
    pub id: EndpointId,
    pub account: AccountId,
    /// The key with which its URL was set: the endpoint receives what that key may see. `None` if
    /// the operator set it by command: then it receives everything about its account.
    pub key: Option<KeyId>,
    pub url: String,
    pub description: String,
    /// Events that it receives; all if `None`.
    pub events: Option<Vec<EventType>>,
    pub scheme: SignatureScheme,
    /// Its signing keys, encrypted.
    pub secrets: String,
    pub enabled: bool,
    /// Why it was disabled, unless its owner disabled it.
    pub disabled_why: Option<DisableReason>,
    /// Failed attempts since the latest success.
    pub failures: u32,
    /// When the first of them failed.
    pub failing_since: Option<Timestamp>,
    pub created_at: Timestamp,
}

impl WebhookEndpoint {
    pub fn listens_to(&self, event: EventType) -> bool {
        self.events
            .as_ref()
            .is_none_or(|events| events.contains(&event))
    }
}

/// Whether an endpoint of this key may be sent an event now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryClearance {
    Granted,
    /// Refused while the key is in its current state: waiting deliveries are held.
    Withheld,
}

impl DeliveryClearance {
    /// `key` is the endpoint's, `None` for the operator's own; with `is_about_task` the event is
    /// about a task, which requires the scope to read tasks.
    pub fn for_key(key: Option<&ApiKey>, is_about_task: bool, now: Timestamp) -> Self {
        let is_cleared = |key: &ApiKey| {
            let may_see = !is_about_task || key.may(Scope::TasksRead);
            key.is_valid_at(now) && may_see
        };
        if key.is_none_or(is_cleared) {
            Self::Granted
        } else {
            Self::Withheld
        }
    }
}

/// Why the gateway disabled an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum DisableReason {
    /// The receiver answered 410.
    Gone,
    /// It failed for days without a success.
    Failing,
}

impl DisableReason {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// An event, with the body that is sent and signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEvent {
    pub id: EventId,
    pub account: AccountId,
    pub task: Option<TaskId>,
    pub kind: EventType,
    /// JSON, which never changes.
    pub body: String,
    pub created_at: Timestamp,
}

/// The state of a delivery.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum DeliveryState {
    /// It is sent when it is due.
    Waiting,
    /// The receiver answered with a 2xx.
    Delivered,
    /// All attempts failed.
    Failed,
    /// Its endpoint was disabled.
    Held,
}

impl DeliveryState {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// The target of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryTarget {
    Endpoint(EndpointId),
    /// The callback URL of a request, encrypted.
    Callback(String),
}

/// The delivery of an event to one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub account: AccountId,
    pub event: EventId,
    pub kind: EventType,
    pub event_at: Timestamp,
    /// `None` for a callback.
    pub endpoint: Option<EndpointId>,
    pub url: String,
    pub task: Option<TaskId>,
    pub state: DeliveryState,
    /// Attempts so far.
    pub attempts: u32,
    /// When it is sent next, while it is waiting.
    pub due_at: Timestamp,
    pub created_at: Timestamp,
}

/// A delivery that is due now, with everything needed to send it.
#[derive(Debug, Clone)]
pub struct DueDelivery {
    pub id: DeliveryId,
    pub account: AccountId,
    pub endpoint: Option<EndpointId>,
    pub event: EventId,
    /// Encrypted for a callback, and the body if it contains a callback's URL.
    pub url: String,
    pub body: String,
    pub scheme: SignatureScheme,
    /// The signing keys, encrypted; `None` for an account that has none yet.
    pub secrets: Option<String>,
    pub lane: String,
    /// Attempts so far.
    pub attempts: u32,
    /// Attempts before it was resent by hand.
    pub earlier_attempts: u32,
    pub due_at: Timestamp,
    /// The trace of its task, as stored there.
    pub trace: Option<String>,
}

/// Why an attempt failed, in words that reveal nothing about the operator's network.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum AttemptError {
    /// The response was not a 2xx.
    Status,
    /// The rules forbid the URL.
    Blocked,
    /// No connection could be made.
    Unreachable,
    /// No answer in time.
    Timeout,
    /// The connection broke before the response was complete.
    Broken,
    /// The gateway cannot sign it.
    Unsigned,
}

impl AttemptError {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// One delivery attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryAttempt {
    /// Counts from 1.
    pub number: u32,
    pub at: Timestamp,
    pub took_ms: u64,
    /// The response's status, if there was one.
    pub status: Option<u16>,
    /// `None`: delivered.
    pub error: Option<AttemptError>,
    /// The beginning of the response, as text.
    pub response: Option<String>,
}

/// Attempts per delivery.
pub const TRIES: u32 = 8;
/// The longest pause that a receiver may ask for.
const LONGEST_WAIT: Duration = Duration::from_hours(6);

/// The pause after `tries` failed attempts; `None` if there are no more. `chance` is between 0 and
/// 1 and varies the pause by up to a fifth in both directions. A pause that the receiver asked for
/// replaces the scheduled one, and `chance` only lengthens it.
pub fn pause_after(tries: u32, requested: Option<Duration>, chance: f64) -> Option<Duration> {
    // Eight attempts in just under a day: close together at first, for a receiver that only
    // restarts, then further and further apart.
    const PAUSES: [u64; TRIES as usize - 1] = [5, 60, 600, 3_600, 10_800, 25_200, 45_000];
    let index = usize::try_from(tries).ok()?.checked_sub(1)?;
    let pause = Duration::from_secs(*PAUSES.get(index)?);
    let chance = chance.clamp(0.0, 1.0);
    Some(match requested {
        // Spread in both directions, so that deliveries that failed together are not all retried
        // together.
        None => pause.mul_f64(0.8 + 0.4 * chance),
        Some(requested) => {
            let requested = requested.min(LONGEST_WAIT);
            requested.mul_f64(1.0 + 0.2 * chance).min(LONGEST_WAIT)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_tried_eight_times_in_a_day() {
        let middle = |tries| pause_after(tries, None, 0.5);
        let total: Duration = (1..TRIES).map(|tries| middle(tries).unwrap()).sum();
        assert_eq!(middle(1), Some(Duration::from_secs(5)));
        assert_eq!(total, Duration::from_secs(23 * 3600 + 41 * 60 + 5));
        assert_eq!(middle(TRIES), None);
        assert_eq!(pause_after(1, None, 0.0), Some(Duration::from_secs(4)));
        assert_eq!(pause_after(1, None, 1.0), Some(Duration::from_secs(6)));
    }

    #[test]
    fn a_receiver_may_shorten_a_pause_and_lengthen_it_to_six_hours() {
        let requested =
            |seconds, chance| pause_after(2, Some(Duration::from_secs(seconds)), chance).unwrap();
        assert_eq!(requested(10, 0.0), Duration::from_secs(10), "no earlier");
        assert_eq!(requested(10, 1.0), Duration::from_secs(12));
        for chance in [0.0, 1.0] {
            assert_eq!(requested(1_000_000, chance), Duration::from_hours(6));
        }
        assert_eq!(pause_after(TRIES, Some(Duration::ZERO), 0.5), None);
    }
}
