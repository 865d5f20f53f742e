//! Text reply to a chat whose token limit is too small for a video's URL: a sentence, cut to fit.
//! Clients send such requests to test a connection. Nothing is made, held or sent to a provider.

use std::convert::Infallible;

use axum::Json;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};

use super::{StreamFormat, data, usage_of_texts, vocabulary};
use crate::wire::chat::{
    ChatAnswer, ChatChoice, ChatChunk, ChatCompletion, ChunkChoice, ChunkDelta,
};
use mediagate_core::app::App;
use mediagate_core::domain::task_acceptance;
use mediagate_core::domain::video::VideoOrder;
use mediagate_model::catalog::Model;
use mediagate_model::ids::TaskId;

/// Has more tokens than any limit to which it is cut.
const SENTENCE: &str = "The connection works. No video was made, and nothing was charged: the token \
                        limit is too small for a video URL.";

/// The sentence for each video that was ordered, cut to this many tokens.
pub(super) fn answer(app: &App, model: &Model, order: &VideoOrder, limit: usize) -> ChatCompletion {
    let sentence = cut(limit);
    let choices: Vec<ChatChoice> = (0..order.count)
        .map(|index| ChatChoice {
            index,
            message: ChatAnswer {
                role: "assistant",
                content: sentence.clone(),
                video: None,
            },
            // What text models return when `max_tokens` cut the answer off.
            finish_reason: "length",
        })
        .collect();
    let contents = choices.iter().map(|choice| choice.message.content.as_str());
    ChatCompletion {
        // The format requires an id. No task has it, because none was made.
        id: TaskId::new().chat_completion(),
        object: "chat.completion",
        created: app.clock.now().seconds(),
        model: order.model.clone().unwrap_or_else(|| model.id.clone()),
        system_fingerprint: task_acceptance::fingerprint(model, model.routes().first()),
        usage: usage_of_texts(&order.prompt, contents),
        choices,
        incomplete: None,
    }
}

fn cut(limit: usize) -> String {
    let text = vocabulary().and_then(|vocabulary| {
        let tokens = vocabulary.encode(SENTENCE);
        let kept_tokens = tokens.get(..limit).unwrap_or(&tokens);
        vocabulary.decode_to_string(kept_tokens).ok()
    });
    text.unwrap_or_default()
}

/// The whole answer or, if `stream` is set, chunks; `Some(true)` adds one with the usage.
pub(super) fn write(
    completion: ChatCompletion,
    stream: Option<bool>,
    format: StreamFormat,
) -> Response {
    let Some(include_usage) = stream else {
        return Json(completion).into_response();
    };
    let events = chunks(completion, include_usage, format).into_iter();
    let events = events.chain([Event::default().data("[DONE]")]);
    let events = events.map(Ok::<_, Infallible>);
    Sse::new(futures_util::stream::iter(events)).into_response()
}

fn chunks(completion: ChatCompletion, include_usage: bool, format: StreamFormat) -> Vec<Event> {
    let blank = ChatChunk {
        id: completion.id,
        object: "chat.completion.chunk",
        created: completion.created,
        model: completion.model,
        system_fingerprint: completion.system_fingerprint,
        choices: Vec::new(),
        task: None,
        incomplete: None,
        usage: (include_usage && format.has_null_usage()).then_some(None),
        error: None,
    };
    let mut events = Vec::new();
    for choice in completion.choices {
        let ChatAnswer { role, content, .. } = choice.message;
        let role_delta = ChunkDelta {
            role: Some(role),
            ..ChunkDelta::default()
        };
        let content_delta = ChunkDelta {
            content: Some(content),
            ..ChunkDelta::default()
        };
        let deltas = [
            (role_delta, None),
            (content_delta, None),
            (ChunkDelta::default(), Some(choice.finish_reason)),
        ];
        for (delta, finish_reason) in deltas {
            let choice = ChunkChoice {
                index: choice.index,
                delta,
                finish_reason,
            };
            events.push(data(&ChatChunk {
                choices: vec![choice],
                ..blank.clone()
            }));
        }
    }
    if include_usage {
        events.push(data(&ChatChunk {
            usage: Some(Some(completion.usage)),
            ..blank
        }));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_is_as_long_as_it_may_be() {
        for limit in 1..16 {
            let cut = cut(limit);
            assert!(SENTENCE.starts_with(&cut), "{cut}");
            assert_eq!(vocabulary().unwrap().count(&cut), limit, "{cut}");
        }
    }
}
