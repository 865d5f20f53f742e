//! `/api/v1/…`: the dialect of `OpenRouter`.

mod chat;
mod errors;
mod intents;
mod models;
mod videos;

use serde_json::{Value, json};

use crate::support::TestGateway;

const VIDEOS: &str = "/api/v1/videos";
const CHAT: &str = "/api/v1/chat/completions";
/// A price for the embedded model, so that money moves.
const PRICED: &str = "[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }\n";

/// A gateway at which a second costs 0.10 USD.
async fn gateway() -> TestGateway {
    let builder = TestGateway::builder().allow_loopback();
    builder.toml(PRICED).start().await
}

/// Like [`gateway`], without workers until the test starts them.
async fn without_workers() -> TestGateway {
    let builder = TestGateway::builder().allow_loopback();
    builder.without_workers().toml(PRICED).start().await
}

fn order(prompt: &str) -> Value {
    json!({"model": "animatic-1", "prompt": prompt, "duration": 1, "size": "480x480"})
}

fn chat_order(prompt: &str) -> Value {
    json!({
        "model": "animatic-1",
        "messages": [{"role": "user", "content": prompt}],
        "video": {"size": "480x480", "seconds": 1},
    })
}

fn member_names(object: &Value) -> Vec<&str> {
    let members = object.as_object().unwrap();
    members.keys().map(String::as_str).collect()
}
