//! Intents: one record for all requests that ask for the same thing, retries included.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::ids::{AccountId, ClipId, EndpointId, IntentId, KeyId, PersonaId, TaskId};

/// What a request is known by when it has no key: who sent what to which endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestFingerprint {
    /// The API key.
    pub key: KeyId,
    /// SHA-256 of endpoint and body, in hexadecimal.
    pub fingerprint: String,
}

/// Requests with one body that were refused before anything was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedOrders {
    pub body: RequestFingerprint,
    /// How many; 0 when only retries of such requests were refused once more.
    pub count: u32,
    /// When the first of them was refused.
    pub since: Timestamp,
    /// Until when their retries are expected.
    pub until: Timestamp,
}

/// What an intent led to.
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
    /// A change by an operator: all there is to tell of it is the answer.
    Change,
}

/// Something that a caller wants made, however often it asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    pub id: IntentId,
    pub account: AccountId,
    /// Of the first request.
    pub body: RequestFingerprint,
    /// Until another request takes it.
    pub idempotency_key: Option<String>,
    /// `None` while its first request is being worked on.
    pub result: Option<IntentResult>,
    /// The first answer, as [`StoredAnswer`] in JSON, of an intent with a key.
    pub answer: Option<String>,
    /// The process whose caller waits for the answer, or that works on it.
    pub holder: Option<String>,
    /// How many requests it had.
    pub visits: u32,
    /// Until when a request with the same body joins it; open when `None`.
    pub joinable_until: Option<Timestamp>,
    /// When something that is no task was about to be sent to a provider.
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
