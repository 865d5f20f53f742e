//! The options of a video: what a caller may choose besides its prompt, its pictures and its frame.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ConversationMessage;

/// The options of a video. The caller's order, the task and the provider's order embed them whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VideoOptions {
    /// What the video must not show.
    pub negative_prompt: Option<String>,
    /// The random seed. `None` if the provider chooses one.
    #[serde(skip)]
    pub seed: Option<Choice<u64>>,
    /// With or without sound. `None` if the model does not offer the choice.
    #[serde(skip)]
    pub audio: Option<Choice<bool>>,
    /// Whether it has a visible AI label.
    pub label: bool,
    /// Fields for the provider's request body.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub provider_options: Map<String, Value>,
    /// The messages before the prompt, for providers with a chat API.
    pub conversation: Vec<ConversationMessage>,
    /// The caller's id for its end user.
    pub user: Option<String>,
}

/// The value of an option that a caller may leave open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice<T> {
    /// The caller chose it.
    Asked(T),
    /// The caller left it open, and the gateway filled it in.
    Default(T),
}

impl<T: Copy> Choice<T> {
    /// The value, whoever chose it.
    pub const fn value(self) -> T {
        match self {
            Self::Asked(value) | Self::Default(value) => value,
        }
    }

    /// The value, if the caller chose it.
    pub const fn asked(self) -> Option<T> {
        match self {
            Self::Asked(value) => Some(value),
            Self::Default(_) => None,
        }
    }

    /// The same choice of another value.
    #[must_use]
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Choice<U> {
        match self {
            Self::Asked(value) => Choice::Asked(change(value)),
            Self::Default(value) => Choice::Default(change(value)),
        }
    }
}
