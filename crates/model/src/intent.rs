//! Intents: one record for all requests that ask for the same thing, retries included.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::ids::{AccountId, ClipId, EndpointId, IntentId, KeyId, PersonaId, TaskId};

/// The identity of a request without an idempotency key: its API key, endpoint and body.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestFingerprint {
    /// The API key.
    pub key: KeyId,
    /// SHA-256 of endpoint and body, in hexadecimal.
    pub fingerprint: String,
}

/// Requests with the same body that were refused before anything was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedOrders {
    pub body: RequestFingerprint,
    /// How many; 0 if only retries of such requests were refused again.
    pub count: u32,
    /// When the first of them was refused.
    pub since: Timestamp,
    /// When their retries are no longer expected.
    pub until: Timestamp,
}

/// The result of an intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntentResult {
    /// Tasks, in their order.
    Tasks(Vec<TaskId>),
    /// An uploaded clip.
    Clip(ClipId),
    /// A persona.
    Persona(PersonaId),
    /// A webhook endpoint.
    Endpoint(EndpointId),
    /// A change by an operator, of which only the answer is stored.
    Change,
}

/// Something that a caller wants made once, however often it sends the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    pub id: IntentId,
    pub account: AccountId,
    /// The fingerprint of the first request.
    pub body: RequestFingerprint,
    /// The idempotency key, until another request takes the key over.
    pub idempotency_key: Option<String>,
    /// `None` while its first request is being worked on.
    pub result: Option<IntentResult>,
    /// The first answer, as [`StoredAnswer`] in JSON, of an intent with a key.
    pub answer: Option<String>,
    /// The process that works on the intent, or whose caller waits for the answer.
    pub holder: Option<String>,
    /// Number of requests for it so far, retries included. Each is an attempt, numbered from 1.
    pub attempts: u32,
    /// The time until which a request with the same body joins it; no end if `None`.
    pub joinable_until: Option<Timestamp>,
    /// When something other than a task was about to be sent to a provider.
    pub sent_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

/// An answer as it was given first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The headers that belong to it.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: String,
}
