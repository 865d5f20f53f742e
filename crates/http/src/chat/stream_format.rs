//! Formats of a stream: what the SDKs of `OpenAI` and those of `OpenRouter` read.

use axum::response::sse::Event;

use super::data;
use crate::error;
use crate::wire::chat::{ChatChunk, ChunkChoice, ChunkDelta};
use crate::wire::openrouter::OpenRouterErrorObject;
use mediagate_model::error::Error;
use mediagate_model::ids::RequestId;

/// The API to which a chat was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamFormat {
    OpenAi,
    OpenRouter,
}

impl StreamFormat {
    /// Whether the usage is null, and not absent, in the chunks before the usage chunk.
    pub(super) fn has_null_usage(self) -> bool {
        // OpenRouter's SDKs reject a chunk in which it is null.
        self == Self::OpenAi
    }

    /// The last event of a stream that cannot continue; `blank` is a chunk of this stream.
    pub(super) fn failure_event(
        self,
        blank: Option<&ChatChunk>,
        error: &Error,
        request_id: &RequestId,
    ) -> Event {
        error::log(error);
        let body = error::body(error, request_id);
        match blank.filter(|_| self == Self::OpenRouter) {
            None => data(&body),
            Some(blank) => {
                let choice = ChunkChoice {
                    index: 0,
                    delta: ChunkDelta {
                        content: Some(String::new()),
                        ..ChunkDelta::default()
                    },
                    finish_reason: Some("error"),
                };
                data(&ChatChunk {
                    choices: vec![choice],
                    error: Some(OpenRouterErrorObject::new(error.status(), body.error)),
                    ..blank.clone()
                })
            }
        }
    }
}
