//! Webhook endpoints, and what was sent to them.

use serde::Serialize;
use utoipa::ToSchema;

use mediagate_model::clock::Timestamp;
use mediagate_model::secret::Secret;
use mediagate_model::webhook::{
    AttemptError, Delivery, DeliveryAttempt, DeliveryState, DisableReason, EventType,
    WebhookEndpoint,
};

/// An endpoint.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookObject {
    /// The endpoint's id.
    pub id: String,
    /// Always `webhook`.
    pub object: &'static str,
    /// Where events are posted.
    pub url: String,
    /// Name for people.
    pub description: String,
    /// The events that it is sent; null: all.
    #[schema(required = true)]
    pub events: Option<Vec<&'static str>>,
    /// `hmac` or `ed25519`.
    pub scheme: &'static str,
    /// What its receiver checks signatures with: `whsec_…`, or for `ed25519` the public key, `whpk_…`.
    /// Shown once, when it is made and at a rotation; otherwise null.
    #[schema(required = true)]
    pub secret: Option<String>,
    /// The public half of its key, `whpk_…`, where the scheme has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// The API key whose holder gave it its address: it is told what that key may see. Null: the
    /// operator did, and it is told of everything in the account.
    #[schema(required = true)]
    pub key_id: Option<String>,
    /// Whether it is sent anything.
    pub enabled: bool,
    /// Why the gateway disabled it: `gone` (it answered 410) or `failing` (five days of nothing else).
    #[schema(required = true)]
    pub disabled_reason: Option<&'static str>,
    /// Tries that failed since the latest success.
    pub failures: u32,
    /// When the first of them failed.
    #[schema(required = true)]
    pub failing_since: Option<String>,
    /// RFC 3339.
    pub created_at: String,
}

impl WebhookObject {
    pub fn new(
        endpoint: &WebhookEndpoint,
        public_key: Option<&Secret>,
        secret: Option<&Secret>,
    ) -> Self {
        let told = |key: &Secret| key.expose().to_owned();
        let events = endpoint.events.as_ref();
        Self {
            id: endpoint.id.to_string(),
            object: "webhook",
            url: endpoint.url.clone(),
            description: endpoint.description.clone(),
            events: events.map(|events| events.iter().copied().map(EventType::name).collect()),
            scheme: endpoint.scheme.name(),
            secret: secret.map(told),
            public_key: public_key.map(told),
            key_id: endpoint.key.map(|key| key.to_string()),
            enabled: endpoint.enabled,
            disabled_reason: endpoint.disabled_why.map(DisableReason::name),
            failures: endpoint.failures,
            failing_since: endpoint.failing_since.map(Timestamp::rfc3339),
            created_at: endpoint.created_at.rfc3339(),
        }
    }
}

/// A deleted endpoint.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookDeleted {
    /// The endpoint's id.
    pub id: String,
    /// Always `webhook.deleted`.
    pub object: &'static str,
    /// Always true.
    pub deleted: bool,
}

/// What an account's callbacks are signed with.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookSecret {
    /// Always `webhook_secret`.
    pub object: &'static str,
    /// `whsec_…`
    pub secret: String,
}

/// How many deliveries are sent again.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookRecovery {
    /// Always `webhook.recovery`.
    pub object: &'static str,
    /// Deliveries that are due now.
    pub recovered: u64,
}

/// The event of a delivery.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeliveryEvent {
    /// `msg_…`: the `webhook-id`, the same for all receivers and tries.
    pub id: String,
    /// The event's type, as `task.succeeded`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// When it happened.
    pub timestamp: String,
}

/// A delivery; a list and a single one differ in what they say of its tries.
macro_rules! delivery {
    ($(#[doc = $about:literal])+ $name:ident, $(#[doc = $says:literal])+ $attempts:ty) => {
        $(#[doc = $about])+
        #[derive(Debug, Serialize, ToSchema)]
        pub struct $name {
            /// The delivery's id.
            pub id: String,
            /// The endpoint; null for a callback.
            #[schema(required = true)]
            pub endpoint_id: Option<String>,
            /// Where it is posted.
            pub url: String,
            /// The task that it tells of.
            #[schema(required = true)]
            pub task_id: Option<String>,
            /// What it tells.
            pub event: DeliveryEvent,
            /// `waiting`, `delivered`, `failed` or `held`.
            pub state: &'static str,
            $(#[doc = $says])+
            pub attempts: $attempts,
            /// When it is tried next.
            #[schema(required = true)]
            pub next_attempt_at: Option<String>,
            /// RFC 3339.
            pub created_at: String,
        }

        impl $name {
            fn with(delivery: &Delivery, attempts: $attempts) -> Self {
                let waits = delivery.state == DeliveryState::Waiting;
                Self {
                    id: delivery.id.to_string(),
                    endpoint_id: delivery.endpoint.map(|id| id.to_string()),
                    url: delivery.url.clone(),
                    task_id: delivery.task.map(|id| id.to_string()),
                    event: DeliveryEvent {
                        id: delivery.event.message(),
                        kind: delivery.kind.name(),
                        timestamp: delivery.event_at.rfc3339(),
                    },
                    state: delivery.state.name(),
                    attempts,
                    next_attempt_at: waits.then(|| delivery.due_at.rfc3339()),
                    created_at: delivery.created_at.rfc3339(),
                }
            }
        }
    };
}

delivery! {
    /// An event on its way to one receiver.
    DeliverySummary,
    /// How often it was tried.
    u32
}

delivery! {
    /// An event on its way to one receiver, with its tries.
    DeliveryObject,
    /// The latest 50 tries, in their order.
    Vec<AttemptObject>
}

impl DeliverySummary {
    pub fn new(delivery: &Delivery) -> Self {
        Self::with(delivery, delivery.attempts)
    }
}

impl DeliveryObject {
    pub fn new(delivery: &Delivery, attempts: &[DeliveryAttempt]) -> Self {
        let attempts = attempts.iter().map(|attempt| AttemptObject {
            number: attempt.number,
            at: attempt.at.rfc3339(),
            status: attempt.status,
            took_ms: attempt.took_ms,
            error: attempt.error.map(AttemptError::name),
            response: attempt.response.clone(),
        });
        Self::with(delivery, attempts.collect())
    }
}

/// One try.
#[derive(Debug, Serialize, ToSchema)]
pub struct AttemptObject {
    /// Counts from 1.
    pub number: u32,
    /// RFC 3339.
    pub at: String,
    /// The answer's HTTP status.
    #[schema(required = true)]
    pub status: Option<u16>,
    /// Milliseconds.
    pub took_ms: u64,
    /// `status`, `blocked`, `unreachable`, `timeout`, `broken` or `unsigned`; null: delivered.
    #[schema(required = true)]
    pub error: Option<&'static str>,
    /// The first 1,024 bytes of the answer.
    #[schema(required = true)]
    pub response: Option<String>,
}
