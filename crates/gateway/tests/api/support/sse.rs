//! Reads server-sent events as they come.

use bytes::BytesMut;
use reqwest::{RequestBuilder, Response};
use serde_json::Value;

use super::schema;

/// An event, or a comment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) data: String,
}

impl Event {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|_| panic!("{:?}", self.data))
    }
}

/// A stream of events.
pub(crate) struct Events {
    pub(crate) response: Response,
    buffer: BytesMut,
}

impl Events {
    pub(crate) async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let status = response.status();
        assert!(
            status == 200,
            "{status}: {}",
            response.text().await.unwrap()
        );
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert!(response.headers().contains_key("x-request-id"));
        // Or proxies that buffer or compress hold events back.
        assert_eq!(
            response.headers()["cache-control"],
            "no-cache, no-transform"
        );
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self {
            response,
            buffer: BytesMut::new(),
        }
    }

    /// The next event; `None` when the stream ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|two| two == b"\n\n") {
                let block = self.buffer.split_to(end + 2);
                let event = parse(std::str::from_utf8(&block).unwrap());
                if let Some(event) = &event {
                    self.check(event);
                }
                if event.is_some() {
                    return event;
                }
                continue;
            }
            let Some(chunk) = self.response.chunk().await.unwrap() else {
                assert!(self.buffer.is_empty(), "half an event: {:?}", self.buffer);
                return None;
            };
            self.buffer.extend_from_slice(&chunk);
        }
    }

    /// Asserts that the event is as documented. The last event of a chat stream is not JSON.
    fn check(&self, event: &Event) {
        if event.data != "[DONE]" && !event.data.is_empty() {
            schema::check_event(self.response.url().path(), &event.json());
        }
    }

    pub(crate) async fn rest(mut self) -> Vec<Event> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

fn parse(block: &str) -> Option<Event> {
    let mut event = Event::default();
    let mut is_comment = true;
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => event.name = Some(value.to_owned()),
            "id" => event.id = Some(value.to_owned()),
            "data" => event.data += value,
            _ => continue,
        }
        is_comment = false;
    }
    (!is_comment).then_some(event)
}
