//! Webhook endpoints and their deliveries.

use serde::Serialize;
use utoipa::ToSchema;

use mediagate_model::clock::Timestamp;
use mediagate_model::secret::Secret;
use mediagate_model::webhook::{
    AttemptError, Delivery, DeliveryAttempt, DeliveryState, DisableReason, EventType,
    WebhookEndpoint,
};

/// A webhook endpoint.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookObject {
    /// The endpoint's id.
    pub id: String,
    /// Always `webhook`.
    pub object: &'static str,
    /// URL that receives the events.
    pub url: String,
    /// Display name.
    pub description: String,
    /// Event types that the endpoint receives. Null if it receives all.
    #[schema(required = true)]
    pub events: Option<Vec<&'static str>>,
    /// Signature scheme: `hmac` or `ed25519`.
    pub scheme: &'static str,
    /// Key for verifying signatures: the secret `whsec_…`, or for `ed25519` the public key
    /// `whpk_…`. Returned once, on creation and rotation; otherwise null.
    #[schema(required = true)]
    pub secret: Option<String>,
    /// The public key `whpk_…`, if the scheme has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// The API key that set the URL. The endpoint receives what this key may see. Null if the
    /// operator set the URL; the endpoint then receives all events of the account.
    #[schema(required = true)]
    pub key_id: Option<String>,
    /// Whether the endpoint receives events.
    pub enabled: bool,
    /// Why the gateway disabled the endpoint: `gone` (it responded with 410) or `failing` (all
    /// attempts for five days failed).
    #[schema(required = true)]
    pub disabled_reason: Option<&'static str>,
    /// Number of failed attempts since the last success.
    pub failures: u32,
    /// Time of the first of these failed attempts.
    #[schema(required = true)]
    pub failing_since: Option<String>,
    /// Time of creation, RFC 3339.
    pub created_at: String,
}

impl WebhookObject {
    pub fn new(
        endpoint: &WebhookEndpoint,
        public_key: Option<&Secret>,
        secret: Option<&Secret>,
    ) -> Self {
        let expose = |key: &Secret| key.expose().to_owned();
        let events = endpoint.events.as_ref();
        Self {
            id: endpoint.id.to_string(),
            object: "webhook",
            url: endpoint.url.clone(),
            description: endpoint.description.clone(),
            events: events.map(|events| events.iter().copied().map(EventType::name).collect()),
            scheme: endpoint.scheme.name(),
            secret: secret.map(expose),
            public_key: public_key.map(expose),
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

/// The secret that signs an account's callbacks.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookSecret {
    /// Always `webhook_secret`.
    pub object: &'static str,
    /// The secret, `whsec_…`.
    pub secret: String,
}

/// The result of a recovery.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookRecovery {
    /// Always `webhook.recovery`.
    pub object: &'static str,
    /// Number of deliveries that will be sent again.
    pub recovered: u64,
}

/// The event of a delivery.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeliveryEvent {
    /// The `webhook-id` header, `msg_…`. It is the same for all receivers and attempts.
    pub id: String,
    /// Event type, for example `task.succeeded`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Time of the event.
    pub timestamp: String,
}

/// A delivery. A list and a single delivery differ in what they report about attempts.
macro_rules! delivery {
    ($(#[doc = $about:literal])+ $name:ident, $(#[doc = $says:literal])+ $attempts:ty) => {
        $(#[doc = $about])+
        #[derive(Debug, Serialize, ToSchema)]
        pub struct $name {
            /// The delivery's id.
            pub id: String,
            /// The id of the endpoint. Null for a callback.
            #[schema(required = true)]
            pub endpoint_id: Option<String>,
            /// URL that receives the delivery.
            pub url: String,
            /// The id of the task that the event is about.
            #[schema(required = true)]
            pub task_id: Option<String>,
            /// The event.
            pub event: DeliveryEvent,
            /// Status: `waiting`, `delivered`, `failed` or `held`.
            pub state: &'static str,
            $(#[doc = $says])+
            pub attempts: $attempts,
            /// Time of the next attempt.
            #[schema(required = true)]
            pub next_attempt_at: Option<String>,
            /// Time of creation, RFC 3339.
            pub created_at: String,
        }

        impl $name {
            fn with(delivery: &Delivery, attempts: $attempts) -> Self {
                let is_waiting = delivery.state == DeliveryState::Waiting;
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
                    next_attempt_at: is_waiting.then(|| delivery.due_at.rfc3339()),
                    created_at: delivery.created_at.rfc3339(),
                }
            }
        }
    };
}

delivery! {
    /// Delivery of an event to one receiver.
    DeliverySummary,
    /// Number of attempts.
    u32
}

delivery! {
    /// Delivery of an event to one receiver, with its attempts.
    DeliveryObject,
    /// The last 50 attempts, oldest first.
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

/// One attempt of a delivery.
#[derive(Debug, Serialize, ToSchema)]
pub struct AttemptObject {
    /// Number of the attempt, starting at 1.
    pub number: u32,
    /// Time of the attempt, RFC 3339.
    pub at: String,
    /// HTTP status of the response.
    #[schema(required = true)]
    pub status: Option<u16>,
    /// Duration in milliseconds.
    pub took_ms: u64,
    /// Why the attempt failed: `status`, `blocked`, `unreachable`, `timeout`, `broken` or
    /// `unsigned`. Null if it was delivered.
    #[schema(required = true)]
    pub error: Option<&'static str>,
    /// The first 1,024 bytes of the response.
    #[schema(required = true)]
    pub response: Option<String>,
}
