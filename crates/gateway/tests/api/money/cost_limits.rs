//! `max_cost_usd`: an order that may cost more makes nothing. And what is left of a budget.

use mediagate_core::domain::accounting;
use mediagate_core::domain::accounts;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::keys::NewKey;
use reqwest::Method;
use serde_json::{Value, json};

use super::{PRICES, quote, quote_request, rows, verify_and_stop, videos};
use crate::support::{Answer, Client, TestGateway, sound, videos_order};

const CHAT: &str = "/v1/chat/completions";
const MUSIC: &str = "/musicgen/submit/music";
const PERSONA: &str = "/musicgen/persona/create";
const HEADER: &str = "x-max-cost-usd";

async fn gateway() -> TestGateway {
    TestGateway::builder()
        .without_workers()
        .toml(PRICES)
        .start()
        .await
}

fn with(body: &Value, max_cost: impl Into<Value>) -> Value {
    let mut body = body.clone();
    body["max_cost_usd"] = max_cost.into();
    body
}

async fn post_with_header(caller: &Client, path: &str, body: &Value, amount: &str) -> Answer {
    let request = caller.request(Method::POST, path).json(body);
    caller.send(request.header(HEADER, amount)).await
}

#[tokio::test]
async fn an_order_that_is_dearer_than_its_limit_makes_nothing() {
    let gateway = gateway().await;
    let clip = gateway.upload("Ferry").await["id"].clone();
    let before = rows(&gateway).await;
    let mut with_picture = videos_order();
    let picture = sound::data_url("image/png", &sound::png(320, 180));
    with_picture["input_reference"] = json!({"image_url": picture});
    let split = json!({"task": "gen_stem", "continue_clip_id": clip, "stem_task": "twelve"});
    let split_price = quote(&gateway, MUSIC, &split).await["reserve_usd"].clone();
    let orders = [
        (CHAT, videos(3), "0.30"),
        ("/v1/videos", videos_order(), "0.10"),
        ("/v1/videos", with_picture, "0.10"),
        (MUSIC, split.clone(), split_price.as_str().unwrap()),
    ];
    for (path, body, price) in &orders {
        for answer in [
            gateway.post(path, &with(body, "0.09")).await,
            gateway.post(path, &with(body, 0.09)).await,
        ] {
            answer.refused(402, "cost_limit").on_param("max_cost_usd");
            let message = answer.message();
            assert!(
                message.contains(&format!("may cost {price} USD")),
                "{message}"
            );
            assert_eq!(answer.json["error"]["type"], "budget_error");
            assert_eq!(answer.header("x-should-retry"), Some("false"));
        }
        let answer = post_with_header(&gateway, path, body, "0.09").await;
        answer.refused(402, "cost_limit");
        assert!(answer.message().contains(HEADER), "{}", answer.message());
        // The lower of the two holds.
        let answer = post_with_header(&gateway, path, &with(body, "9"), "0.09").await;
        answer.refused(402, "cost_limit");
        let answer = post_with_header(&gateway, path, &with(body, "0.09"), "9").await;
        answer.refused(402, "cost_limit");
    }
    assert_eq!(rows(&gateway).await, before, "nothing was made or held");
    // A limit may be reached.
    let order = with(&videos_order(), "0.10");
    let answer = post_with_header(&gateway, "/v1/videos", &order, "0.1").await;
    assert_eq!(answer.header("x-cost-usd"), Some("0.10"));
    answer.ok();
    let free = json!({"root_clip_id": clip, "name": "Ferry", "max_cost_usd": "0"});
    gateway.post(PERSONA, &free).await.ok();
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn a_form_has_a_limit_too() {
    let gateway = gateway().await;
    let form = |max_cost: &'static str| {
        let form = reqwest::multipart::Form::new()
            .text("model", "animatic-1")
            .text("prompt", "a lake at dawn")
            .text("size", "480x480")
            .text("seconds", "1")
            .text("max_cost_usd", max_cost);
        gateway.request(Method::POST, "/v1/videos").multipart(form)
    };
    let answer = gateway.send(form("0.099999")).await;
    answer.refused(402, "cost_limit").on_param("max_cost_usd");
    let answer = gateway.send(form("cheap")).await;
    answer
        .refused(400, "invalid_value")
        .on_param("max_cost_usd");
    let answer = gateway.send(form("1").header(HEADER, "0.01")).await;
    answer.refused(402, "cost_limit");
    gateway.send(form("0.10")).await.ok();
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn a_malformed_amount_names_its_field_or_header() {
    let gateway = gateway().await;
    let clip = gateway.upload("Ferry").await["id"].clone();
    let orders = [
        (CHAT, videos(1)),
        ("/v1/videos", videos_order()),
        (MUSIC, json!({"task": "gen_stem", "continue_clip_id": clip})),
        (MUSIC, json!({"prompt": "rain"})),
        (PERSONA, json!({"root_clip_id": clip, "name": "Ferry"})),
    ];
    for (path, body) in &orders {
        for bad in [json!("cheap"), json!(-1), json!("0.0000001"), json!("")] {
            let answer = gateway.post(path, &with(body, bad)).await;
            answer
                .refused(400, "invalid_value")
                .on_param("max_cost_usd");
        }
        let answer = gateway.post(path, &with(body, json!([1]))).await;
        answer.refused(400, "invalid_type").on_param("max_cost_usd");
        for bad in ["cheap", "-1", "", "1,00"] {
            let answer = post_with_header(&gateway, path, body, bad).await;
            answer.refused(400, "invalid_value");
            assert!(answer.message().contains(HEADER), "{}", answer.message());
        }
        let quoted = quote_request(path, &with(body, "cheap"));
        let answer = gateway.post("/v1/quote", &quoted).await;
        answer
            .refused(400, "invalid_value")
            .on_param("body.max_cost_usd");
    }
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn a_quote_says_whether_the_price_is_within_the_limit() {
    let gateway = gateway().await;
    let plain = quote(&gateway, CHAT, &videos(3)).await;
    assert_eq!(plain.get("max_cost_usd"), None);
    for (max_cost, is_within) in [("0.29", false), ("0.3", true)] {
        let quoted = quote(&gateway, CHAT, &with(&videos(3), max_cost)).await;
        let shown: mediagate_model::money::MicroDollars = max_cost.parse().unwrap();
        assert_eq!(quoted["max_cost_usd"], shown.to_string());
        assert_eq!(quoted["within_max_cost"], is_within, "{quoted}");
        assert_eq!(quoted["reserve_usd"], "0.30");
    }
    let request = quote_request(CHAT, &with(&videos(3), "1"));
    let answer = post_with_header(&gateway, "/v1/quote", &request, "0.01").await;
    let quoted = answer.ok();
    assert_eq!(quoted["max_cost_usd"], "0.01");
    assert_eq!(quoted["within_max_cost"], false);
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn a_refused_order_may_be_sent_again_with_a_higher_limit() {
    let gateway = gateway().await;
    let post = async |body: &Value| {
        let request = gateway.request(Method::POST, "/v1/videos").json(body);
        gateway.send(request.header("idempotency-key", "one")).await
    };
    post(&with(&videos_order(), "0.01"))
        .await
        .refused(402, "cost_limit");
    let made = post(&with(&videos_order(), "0.10")).await;
    let task = made.header("x-task-id").unwrap().to_owned();
    made.ok();
    // The limit does not decide what is made, so this is the same order again.
    let again = post(&with(&videos_order(), "0.01")).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.header("x-task-id"), Some(task.as_str()));
    let mut other = with(&videos_order(), "0.10");
    other["prompt"] = json!("a lake at dusk");
    post(&other).await.refused(409, "idempotency_conflict");
    let tasks = gateway.get("/v1/tasks").await.ok();
    assert_eq!(tasks["data"].as_array().unwrap().len(), 1);
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn answers_to_orders_say_what_is_left_of_the_budget() {
    const LEFT: &str = "x-budget-remaining-usd";
    let gateway = gateway().await;
    let unlimited = gateway.post("/v1/videos", &videos_order()).await;
    assert_eq!(unlimited.header(LEFT), None);
    let new = NewKey {
        budget: Some("0.35".parse().unwrap()),
        ..NewKey::default()
    };
    let caller = gateway.caller("owls", new).await;
    let answer = caller.post("/v1/videos", &videos_order()).await;
    assert_eq!(answer.header(LEFT), Some("0.25"));
    let clip = crate::support::gateway::upload(&caller, "Ferry", sound::wav(2, 1)).await;
    let split = json!({"task": "gen_stem", "continue_clip_id": clip["id"]});
    let answer = caller.post(MUSIC, &split).await;
    assert_eq!(answer.header(LEFT), Some("0.15"));
    // The account has less than the key.
    let owls = accounts::ensure(&gateway.app, "owls").await.unwrap();
    let author = ChangeAuthor::command("a test").into();
    let amount = "0.32".parse().unwrap();
    accounting::credit(&gateway.app, author, owls.id, amount, None)
        .await
        .unwrap();
    let post = async || {
        let request = caller.request(Method::POST, "/v1/videos");
        let request = request.json(&videos_order());
        caller.send(request.header("idempotency-key", "one")).await
    };
    assert_eq!(post().await.header(LEFT), Some("0.02"));
    // A repeated order shows what is left now.
    let again = post().await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.header(LEFT), Some("0.02"));
    // A refusal shows it as well.
    let mut other = videos_order();
    other["prompt"] = json!("a lake at dusk");
    let refused = caller.post("/v1/videos", &other).await;
    refused.refused(402, "budget_exceeded");
    assert_eq!(refused.header(LEFT), Some("0.02"));
    other["max_cost_usd"] = json!("0.01");
    let refused = caller.post("/v1/videos", &other).await;
    refused.refused(402, "cost_limit");
    assert_eq!(refused.header(LEFT), Some("0.02"));
    let stream = json!({"model": "animatic-1", "stream": true, "max_tokens": 3,
        "messages": [{"role": "user", "content": "hello"}]});
    assert_eq!(caller.post(CHAT, &stream).await.header(LEFT), Some("0.02"));
    verify_and_stop(gateway).await;
}
