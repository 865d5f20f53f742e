//! A chat completion, whole or in server-sent events, possibly broken off.

use serde_json::Value;

use crate::response::{parse_json, percent_at, text_at};

/// The contents of a completion.
#[derive(Debug, Default)]
pub(super) struct ParsedCompletion {
    /// The assistant's words.
    pub(super) text: String,
    /// The reasoning text, in which some gateways report progress.
    pub(super) thoughts: String,
    /// The URL in `message.video`, which Mediagate adds for programs.
    pub(super) video: Option<String>,
    /// Why the last choice ended.
    pub(super) finish_reason: Option<String>,
    /// An error in place of a choice.
    pub(super) error: Option<Value>,
    /// Progress as Mediagate reports it, in per cent.
    pub(super) progress: Option<u8>,
    /// Whether the answer is complete.
    pub(super) ended: bool,
    /// Whether there is any sign that the order was accepted.
    pub(super) accepted: bool,
    /// Whether there was any choice at all.
    pub(super) has_choices: bool,
}

impl ParsedCompletion {
    /// Reads events; the first and the last may be incomplete.
    pub(super) fn from_events(body: &[u8]) -> Self {
        let body = String::from_utf8_lossy(body);
        let mut reply = Self::default();
        let mut data = String::new();
        for line in body.lines() {
            if line.is_empty() {
                reply.read_event(&data);
                data.clear();
            } else if let Some(more) = line.strip_prefix("data:") {
                if !data.is_empty() {
                    data.push('\n');
                }
                data.push_str(more.trim_start());
            }
        }
        // Some servers leave out the blank line at the very end; an incomplete event is not valid
        // JSON.
        reply.read_event(&data);
        reply
    }

    /// Reads a whole completion.
    pub(super) fn from_json(body: &Value) -> Self {
        let mut reply = Self::default();
        reply.read_object(body);
        reply.ended = true;
        reply
    }

    fn read_event(&mut self, data: &str) {
        if data == "[DONE]" {
            self.ended = true;
        } else if let Some(object) = parse_json(data.as_bytes()) {
            self.read_object(&object);
        }
    }

    fn read_object(&mut self, object: &Value) {
        if let Some(error) = object.get("error").filter(|error| !error.is_null()) {
            self.accepted |= text_at(error, "/task_id").is_some();
            self.error = Some(error.clone());
        }
        if let Some(task) = object.get("task") {
            self.accepted = true;
            self.progress = percent_at(task, "/progress", 100.0).or(self.progress);
        }
        let choices = object.get("choices").and_then(Value::as_array);
        for choice in choices.into_iter().flatten() {
            self.has_choices = true;
            for part in ["delta", "message"]
                .iter()
                .filter_map(|name| choice.get(name))
            {
                self.read_message(part);
            }
            if let Some(reason) = text_at(choice, "/finish_reason") {
                self.finish_reason = Some(reason);
                self.ended = true;
            }
        }
    }

    fn read_message(&mut self, message: &Value) {
        match &message["content"] {
            Value::String(text) => self.text.push_str(text),
            Value::Array(parts) => {
                for text in parts.iter().filter_map(|part| text_at(part, "/text")) {
                    self.text.push_str(&text);
                }
            }
            _ => {}
        }
        if let Some(thought) = message["reasoning_content"].as_str() {
            self.thoughts.push_str(thought);
        }
        self.video = text_at(message, "/video/url").or(self.video.take());
        let has_text = !self.text.trim().is_empty() || !self.thoughts.trim().is_empty();
        self.accepted |= has_text || self.video.is_some();
    }
}
