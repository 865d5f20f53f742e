//! Chats that make no film: requests for something else, connection tests, and the housekeeping
//! requests of chat interfaces.

use mediagate_core::domain::keys::NewKey;
use reqwest::Method;
use serde_json::{Value, json};

use crate::money::PRICES;
use crate::support::spec::{CHAT, USAGE, assert_fields};
use crate::support::sse::Events;
use crate::support::{Answer, Client, TestGateway, video_order};

const PATH: &str = "/v1/chat/completions";

/// A gateway with prices and without workers.
async fn priced_gateway() -> TestGateway {
    let builder = TestGateway::builder().without_workers().toml(PRICES);
    let wait = std::time::Duration::from_millis(20);
    builder
        .set(|settings| settings.wait_limit = Some(wait))
        .start()
        .await
}

fn order_with(fields: &Value) -> Value {
    let mut order = video_order();
    for (name, value) in fields.as_object().unwrap() {
        order[name] = value.clone();
    }
    order
}

/// Asserts that there are no tasks, and that no money is held or spent.
async fn assert_nothing_made(gateway: &TestGateway) {
    let tasks = gateway.get("/v1/tasks").await.ok();
    assert_eq!(tasks["data"], json!([]));
    let account = gateway.get("/v1/account").await.ok();
    assert_eq!(
        (&account["held_usd"], &account["spent_usd"]),
        (&json!("0.00"), &json!("0.00"))
    );
}

fn assert_refused(answer: &Answer, param: &str) {
    answer.refused(400, "unsupported_value").on_param(param);
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    assert_eq!(answer.header("x-task-id"), None);
}

#[tokio::test]
async fn requests_that_cannot_be_films_are_refused_before_anything_is_made() {
    let gateway = priced_gateway().await;
    let tool = json!({"type": "function", "function": {"name": "Answer", "parameters": {}}});
    let named_tool = json!({"type": "function", "function": {"name": "Answer"}});
    let schema = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": {}}});
    for (field, value) in [
        ("tool_choice", json!("required")),
        ("tool_choice", named_tool),
        ("function_call", json!({"name": "Answer"})),
        ("response_format", json!({"type": "json_object"})),
        ("response_format", schema),
        ("modalities", json!(["audio"])),
    ] {
        let order = order_with(&json!({"tools": [tool], field: value}));
        assert_refused(&gateway.post(PATH, &order).await, field);
        let streamed = order_with(&json!({"stream": true, field: value}));
        assert_refused(&gateway.post(PATH, &streamed).await, field);
        // The field is refused in a connection test, too.
        let short = order_with(&json!({"max_tokens": 5, field: value}));
        assert_refused(&gateway.post(PATH, &short).await, field);
        let quote = json!({"endpoint": PATH, "body": order});
        let quote = gateway.post("/v1/quote", &quote).await;
        assert_refused(&quote, &format!("body.{field}"));
    }
    // All errors are named at once.
    let answer = gateway
        .post(
            PATH,
            &order_with(
                &json!({"tool_choice": "required", "response_format": {"type": "json_object"},
                "modalities": ["image"], "n": 9}),
            ),
        )
        .await;
    for name in ["tool_choice", "response_format", "modalities", "n"] {
        assert!(answer.message().contains(name), "{}", answer.message());
    }
    assert_nothing_made(&gateway).await;

    // Optional tools and formats are not an obstacle.
    let offered = json!({"tools": [tool], "tool_choice": "auto", "function_call": "none",
        "response_format": {"type": "text"}, "modalities": ["text", "audio"]});
    let film = gateway.post(PATH, &order_with(&offered)).await;
    film.refused(503, "still_running");
    assert!(film.header("x-task-id").is_some());
    gateway.stop().await;
}

#[tokio::test]
async fn a_connection_test_is_answered_with_a_sentence_and_costs_nothing() {
    let gateway = priced_gateway().await;
    for (limits, tokens) in [
        (json!({"max_tokens": 5}), 5),
        (json!({"max_completion_tokens": 1}), 1),
        (json!({"max_tokens": 15}), 15),
        (json!({"max_tokens": 1000, "max_completion_tokens": 15}), 15),
        (json!({"max_tokens": 3, "max_completion_tokens": null}), 3),
    ] {
        let mut order = order_with(&limits);
        order["messages"][0]["content"] = json!("ping");
        let answer = gateway.post(PATH, &order).await;
        assert_eq!(answer.header("x-task-id"), None);
        let body = answer.ok();
        assert_fields(&body, CHAT, &[]);
        assert_fields(&body["usage"], USAGE, &["cost"]);
        assert_eq!(body["choices"].as_array().unwrap().len(), 1);
        let choice = &body["choices"][0];
        assert_eq!(choice["finish_reason"], "length");
        assert_eq!(choice["message"]["role"], "assistant");
        assert_eq!(choice["message"].get("video"), None);
        let sentence = choice["message"]["content"].as_str().unwrap();
        let tokenizer = tiktoken::get_encoding("o200k_base").unwrap();
        assert_eq!(tokenizer.count(sentence), tokens, "{sentence}");
        let usage = &body["usage"];
        assert_eq!(usage["completion_tokens"], tokens);
        assert_eq!(usage["prompt_tokens"], 1);
        assert_eq!(usage["total_tokens"], tokens + 1);
        assert_eq!(usage["cost"], 0.0);
    }
    // With an idempotency key a test is answered anew each time, and the key stays free for a film.
    for _ in 0..2 {
        let request = gateway.request(Method::POST, PATH);
        let request = request.header("idempotency-key", "a");
        let answer = gateway
            .send(request.json(&order_with(&json!({"max_tokens": 5}))))
            .await;
        assert_eq!(answer.header("idempotent-replayed"), None);
        answer.ok();
    }
    let several = gateway
        .post(PATH, &order_with(&json!({"max_tokens": 2, "n": 3})))
        .await;
    let several = several.ok();
    let indices = several["choices"].as_array().unwrap().iter();
    let indices: Vec<_> = indices.map(|choice| choice["index"].as_u64()).collect();
    assert_eq!(indices, [Some(0), Some(1), Some(2)]);
    assert_eq!(several["usage"]["completion_tokens"], 6);

    let quote = json!({"endpoint": PATH, "body": order_with(&json!({"max_tokens": 5}))});
    let quote = gateway.post("/v1/quote", &quote).await.ok();
    assert_eq!(
        (&quote["cost_usd"], &quote["reserve_usd"], &quote["tasks"]),
        (&json!("0.00"), &json!("0.00"), &json!(0))
    );
    assert_eq!(quote["model"], "animatic-1");
    assert!(quote["note"].as_str().unwrap().contains("no video is made"));
    assert_nothing_made(&gateway).await;

    let unknown = json!({"max_tokens": 5, "model": "no-such"});
    let answer = gateway.post(PATH, &order_with(&unknown)).await;
    answer.refused(404, "model_not_found").on_param("model");
    let answer = gateway
        .post(PATH, &order_with(&json!({"max_tokens": 0})))
        .await;
    answer.refused(400, "invalid_value").on_param("max_tokens");
    let answer = gateway
        .post(PATH, &order_with(&json!({"max_completion_tokens": "5"})))
        .await;
    answer
        .refused(400, "invalid_type")
        .on_param("max_completion_tokens");
    let reader = NewKey {
        name: "reader".into(),
        scopes: vec![mediagate_model::account::Scope::TasksRead],
        ..NewKey::default()
    };
    let reader = gateway.caller("default", reader).await;
    let answer = reader
        .post(PATH, &order_with(&json!({"max_tokens": 5})))
        .await;
    answer.refused(403, "insufficient_scope");
    let answer = gateway.without_key();
    let answer = answer
        .post(PATH, &order_with(&json!({"max_tokens": 5})))
        .await;
    answer.refused(401, "missing_api_key");

    // A limit of sixteen tokens makes the request an order of a film.
    let film = gateway
        .post(PATH, &order_with(&json!({"max_tokens": 16})))
        .await;
    film.refused(503, "still_running");
    gateway.stop().await;
}

#[tokio::test]
async fn a_connection_test_can_be_streamed() {
    let gateway = priced_gateway().await;
    let order = order_with(&json!({"max_tokens": 4, "n": 2, "stream": true,
        "stream_options": {"include_usage": true}}));
    let request = gateway.request(Method::POST, PATH).json(&order);
    let mut events = Events::open(request).await;
    let mut sentences = [String::new(), String::new()];
    let mut finish_reasons = Vec::new();
    let mut usage = Value::Null;
    loop {
        let event = events.next().await.unwrap();
        if event.data == "[DONE]" {
            break;
        }
        let chunk = event.json();
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk.get("task"), None);
        if chunk["usage"].is_object() {
            usage = chunk["usage"].clone();
        }
        for choice in chunk["choices"].as_array().unwrap() {
            let index = usize::try_from(choice["index"].as_u64().unwrap()).unwrap();
            sentences[index] += choice["delta"]["content"].as_str().unwrap_or_default();
            finish_reasons.extend(choice["finish_reason"].as_str().map(ToOwned::to_owned));
        }
    }
    assert!(events.next().await.is_none());
    assert_eq!(sentences[0], sentences[1]);
    assert!(!sentences[0].is_empty());
    assert_eq!(finish_reasons, ["length", "length"]);
    assert_eq!(
        (&usage["completion_tokens"], &usage["cost"]),
        (&json!(8), &json!(0.0))
    );
    assert_nothing_made(&gateway).await;
    gateway.stop().await;
}

const TITLE: &str = "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat \
                     history.\n### Output:\nJSON format: { \"title\": \"…\" }\n### Chat History:\n\
                     <chat_history>\nUSER: a lake\n</chat_history>";

fn order_of(prompt: &str) -> Value {
    let mut order = video_order();
    order["messages"] = json!([{"role": "user", "content": prompt}]);
    order
}

/// A caller whose key refuses housekeeping, and one whose does not.
async fn strict_and_usual(gateway: &TestGateway) -> [Client; 2] {
    let mut callers = Vec::new();
    for refuses_housekeeping in [true, false] {
        let new = NewKey {
            name: "chat".into(),
            refuses_housekeeping,
            ..NewKey::default()
        };
        callers.push(gateway.caller("default", new).await);
    }
    callers.try_into().unwrap_or_else(|_| panic!("two"))
}

#[tokio::test]
async fn a_key_can_refuse_housekeeping_requests() {
    let gateway = priced_gateway().await;
    let [strict, usual] = strict_and_usual(&gateway).await;
    let summarizer = "You are a professional conversation summarizer. Generate a concise title that \
                      captures the essence of the conversation.";
    let mut with_system_message = order_of("user: a lake");
    with_system_message["messages"] = json!([{"role": "system", "content": summarizer},
        {"role": "user", "content": "user: a lake"}]);
    let mut in_parts = order_of(TITLE);
    in_parts["messages"][0]["content"] = json!([{"type": "text", "text": TITLE}]);
    let title = "Provide a concise, 5-word-or-less title for the conversation, using title case \
                 conventions. Only return the title itself.\n\nConversation:\nUser: a lake";
    for order in [
        order_of(TITLE),
        in_parts,
        order_of(title),
        with_system_message,
    ] {
        assert_refused(&strict.post(PATH, &order).await, "messages");
        let quote = json!({"endpoint": PATH, "body": order});
        assert_refused(&strict.post("/v1/quote", &quote).await, "body.messages");
    }
    assert_nothing_made(&gateway).await;
    strict
        .post(PATH, &order_of("### Task:\nMake a film of a lake."))
        .await
        .refused(503, "still_running");
    usual
        .post(PATH, &order_of(TITLE))
        .await
        .refused(503, "still_running");
    gateway.stop().await;
}
