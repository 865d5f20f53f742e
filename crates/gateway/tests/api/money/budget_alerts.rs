//! Webhooks and operators learn when half of a budget, four fifths of it and all of it are used.

use mediagate_core::domain::accounting;
use mediagate_core::domain::accounts;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::keys::NewKey;
use mediagate_model::error::ErrorCode;
use reqwest::Method;
use serde_json::{Value, json};
use simulator::{ReceivedPost, WebhookReceiver};

use super::{PRICES, verify_and_stop, videos};
use crate::admin::operator;
use crate::support::gateway::Builder;
use crate::support::sse::Events;
use crate::support::{TestGateway, videos_order};

#[tokio::test]
async fn every_threshold_is_reported_once() {
    reported(TestGateway::builder()).await;
}

#[tokio::test]
async fn every_threshold_is_reported_once_on_postgres() {
    reported(TestGateway::builder().on_postgres()).await;
}

/// Whose budget an event is about, and the threshold.
fn alert(event: &Value) -> (String, u64) {
    let owner = event["owner"].as_str().unwrap();
    (owner.to_owned(), event["percent"].as_u64().unwrap())
}

fn data(post: &ReceivedPost) -> Value {
    let event: Value = serde_json::from_str(&post.body).unwrap();
    assert_eq!(event["type"], "budget.threshold");
    event["data"].clone()
}

async fn reported(builder: Builder) {
    let builder = builder.allow_loopback().toml(PRICES);
    let mut gateway = builder.without_workers().start().await;
    let operator = operator(&gateway).await;
    let receiver = WebhookReceiver::start().await.unwrap();
    let events = operator.request(Method::GET, "/v1/admin/events");
    let mut events = Events::open(events).await;
    let new = NewKey {
        budget: Some("0.50".parse().unwrap()),
        ..NewKey::default()
    };
    let caller = gateway.caller("owls", new).await;
    let hook = json!({"url": receiver.url("/hook"), "events": ["budget.threshold"]});
    caller.post("/v1/webhooks", &hook).await.ok();
    let limits = json!({"budget_usd": "0.20"});
    let path = "/v1/admin/users/ada?account=owls";
    let request = operator.request(Method::PUT, path).json(&limits);
    operator.send(request).await.ok();

    let mut order = videos_order();
    order["user"] = json!("ada");
    // Half of the user's budget. It is released and held again, which is not reported again.
    caller.post("/v1/videos", &order).await.ok();
    let task = gateway.claim().await;
    gateway.fail(task.id, ErrorCode::GenerationFailed).await;
    caller.post("/v1/videos", &order).await.ok();
    // All of the user's budget, and 0.20 of the key's 0.50.
    caller.post("/v1/videos", &order).await.ok();
    // A refused order reaches nothing.
    caller
        .post("/v1/videos", &order)
        .await
        .refused(402, "budget_exceeded");
    // 0.40 of the key's budget.
    let request = caller.request(Method::POST, "/v1/videos");
    let mut longer = videos_order();
    longer["seconds"] = json!("2");
    caller.send(request.json(&longer)).await.ok();
    // The account becomes prepaid with 0.50, of which the next order uses all.
    let owls = accounts::ensure(&gateway.app, "owls").await.unwrap();
    let author = ChangeAuthor::command("a test").into();
    let credit = "0.50".parse().unwrap();
    accounting::credit(&gateway.app, author, owls.id, credit, None)
        .await
        .unwrap();
    caller.post("/v1/videos", &videos_order()).await.ok();
    caller
        .post("/v1/chat/completions", &videos(1))
        .await
        .refused(402, "budget_exceeded");

    let expected = [
        ("account", 100),
        ("key", 50),
        ("key", 80),
        ("key", 100),
        ("user", 50),
        ("user", 80),
        ("user", 100),
    ];
    let mut expected = expected.map(|(owner, percent)| (owner.to_owned(), percent));
    expected.sort();
    let mut seen = Vec::new();
    while seen.len() < expected.len() {
        let event = events.next().await.expect("the stream goes on").json();
        if event["type"] == "budget.threshold" {
            assert_eq!(event["budget"]["account"], "owls");
            seen.push(alert(&event["budget"]));
        }
    }
    seen.sort();
    assert_eq!(seen, expected);
    drop(events);
    gateway.start_workers().await;
    let posts = receiver.wait_for_count(expected.len()).await;
    let posts: Vec<Value> = posts.iter().map(data).collect();
    let mut told: Vec<_> = posts.iter().map(alert).collect();
    told.sort();
    assert_eq!(told, expected);
    let of_user = posts
        .iter()
        .find(|post| post["owner"] == "user" && post["percent"] == 50);
    let of_user = of_user.unwrap();
    assert_eq!(of_user["user"], "ada");
    assert_eq!(
        [&of_user["budget_usd"], &of_user["used_usd"]],
        [&json!("0.20"), &json!("0.10")]
    );
    assert_eq!(of_user["period_start"], Value::Null);
    verify_and_stop(gateway).await;
}
