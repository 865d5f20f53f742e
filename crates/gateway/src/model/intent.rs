//! Intents: what a caller wanted made, however often it asked.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::ids::{AccountId, ClipId, IntentId, KeyId, PersonaId, TaskId};
use crate::model::task::UnknownWord;

/// How far an intent has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntentState {
    /// Its first request is being worked on; nothing is made yet.
    Working,
    /// What it wanted exists.
    Made,
}

impl IntentState {
    /// The name that the store keeps.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Made => "made",
        }
    }
}

impl FromStr for IntentState {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        [Self::Working, Self::Made]
            .into_iter()
            .find(|state| state.name() == text)
            .ok_or(UnknownWord)
    }
}

/// What an intent led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Made {
    /// Tasks, in their order.
    Tasks(Vec<TaskId>),
    /// An uploaded clip.
    Clip(ClipId),
    /// A persona.
    Persona(PersonaId),
}

/// What a caller wanted made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Names it.
    pub id: IntentId,
    /// Whose it is.
    pub account: AccountId,
    /// The API key that asked first.
    pub key: KeyId,
    /// The `Idempotency-Key`, as long as it leads here.
    pub idempotency_key: Option<String>,
    /// Names endpoint and body.
    pub fingerprint: String,
    /// How far it has come.
    pub state: IntentState,
    /// What it led to.
    pub made: Option<Made>,
    /// The first answer, as [`StoredAnswer`] in JSON, of an intent with a key.
    pub answer: Option<String>,
    /// The server whose caller waits for the answer, or that works on it.
    pub holder: Option<String>,
    /// How many requests it had.
    pub visits: u32,
    /// Until when a request with the same body leads here; open when `None`.
    pub joinable_until: Option<Timestamp>,
    /// When something that is no task was about to be sent to a provider.
    pub sent_at: Option<Timestamp>,
    /// When it was first asked.
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
