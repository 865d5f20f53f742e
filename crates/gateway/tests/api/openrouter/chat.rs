//! `POST /api/v1/chat/completions`.

use mediagate_model::error::ErrorCode;
use reqwest::Method;
use serde_json::json;

use super::{CHAT, chat_order, gateway, without_workers};
use crate::support::sse::Events;

#[tokio::test]
async fn a_chat_answers_as_at_v1() {
    let gateway = gateway().await;
    let completion = gateway.post(CHAT, &chat_order("a lake")).await.ok();
    let message = &completion["choices"][0]["message"];
    assert_eq!(message["content"], message["video"]["url"]);
    assert_eq!(completion["usage"]["cost"], 0.1);
    gateway.stop().await;
}

/// The dialect's SDKs reject a chunk whose usage is null, and read the usage without asking for it.
#[tokio::test]
async fn a_stream_ends_with_the_usage_and_has_no_other() {
    let gateway = gateway().await;
    let mut short = chat_order("a lake");
    short["max_tokens"] = json!(5);
    for mut body in [chat_order("a lake"), short] {
        body["stream"] = json!(true);
        let request = gateway.request(Method::POST, CHAT).json(&body);
        let mut events = Events::open(request).await.rest().await;
        assert_eq!(events.pop().unwrap().data, "[DONE]");
        let usage = events.pop().unwrap().json();
        assert!(usage["usage"]["total_tokens"].as_u64() > Some(0), "{usage}");
        assert!(events.len() >= 3);
        for event in events {
            let chunk = event.json();
            assert!(chunk.get("usage").is_none(), "{chunk}");
            assert_eq!(chunk["choices"].as_array().unwrap().len(), 1);
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_stream_that_fails_ends_with_a_chunk_that_says_why() {
    let gateway = without_workers().await;
    let mut body = chat_order("a lake");
    body["stream"] = json!(true);
    let mut events = Events::open(gateway.request(Method::POST, CHAT).json(&body)).await;
    let first = events.next().await.unwrap().json();
    let task = gateway.claim().await;
    gateway.fail(task.id, ErrorCode::ContentPolicy).await;
    let last = events.rest().await.pop().unwrap().json();
    assert_eq!(last["id"], first["id"]);
    assert_eq!(
        last["choices"],
        json!([{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}])
    );
    assert_eq!(last["error"]["code"], 422);
    let metadata = &last["error"]["metadata"];
    assert_eq!(metadata["error_type"], "content_policy_violation");
    assert_eq!(metadata["code"], "content_policy");
    assert_eq!(metadata["task_id"], task.id.to_string());
    gateway.stop().await;
}
