//! The log of deliveries, and redelivery on request.

use std::time::Duration;

use serde_json::{Value, json};
use simulator::{Reaction, WebhookReceiver};

use super::{body, builder, delivery_in, id, order, register, start, with_attempts};
use crate::support::{TestGateway, eventually};

#[tokio::test]
async fn the_log_has_every_delivery_and_every_attempt() {
    let (gateway, receiver) = start().await;
    let endpoint = register(&gateway, &receiver, json!({})).await;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(order(&gateway, json!({})).await);
    }
    for task in &tasks {
        delivery_in(&gateway, task, "delivered").await;
    }
    let path = format!("/v1/webhooks/{}/deliveries", id(&endpoint));
    let page = gateway
        .get(&format!("{path}?limit=2&state=delivered"))
        .await
        .ok();
    assert_eq!(page["has_more"], true);
    let next = format!("{path}?after={}", page["last_id"].as_str().unwrap());
    assert_eq!(
        gateway.get(&next).await.ok()["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        gateway.get(&format!("{path}?state=held")).await.ok()["data"],
        json!([])
    );
    gateway
        .get(&format!("{path}?state=lost"))
        .await
        .refused(400, "invalid_value")
        .on_param("state");
    let delivery = with_attempts(&gateway, &page["data"][0]).await;
    assert_eq!(delivery["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(delivery["attempts"][0]["status"], 204);
    assert_eq!(delivery["event"]["type"], "task.succeeded");
    let posted = receiver.received();
    assert!(
        posted
            .iter()
            .any(|post| post.header("webhook-id") == delivery["event"]["id"])
    );
    // A redelivery has the same identifier.
    let redeliver = format!("/v1/webhooks/deliveries/{}/redeliver", id(&delivery));
    gateway.post(&redeliver, &Value::Null).await.ok();
    let posted = receiver.wait_for_count(4).await;
    assert_eq!(posted[3].header("webhook-id"), delivery["event"]["id"]);
    let other = gateway
        .caller("other", mediagate_core::domain::keys::NewKey::default())
        .await;
    other
        .post(&redeliver, &Value::Null)
        .await
        .refused(404, "delivery_not_found");
}

async fn check_gone(gateway: TestGateway) {
    let receiver = WebhookReceiver::start_with_script(|_, _| Reaction::status(410))
        .await
        .unwrap();
    let watcher = WebhookReceiver::start().await.unwrap();
    let endpoint = register(&gateway, &receiver, json!({})).await;
    let watching = register(&gateway, &watcher, json!({"events": ["endpoint.disabled"]})).await;
    let first = order(&gateway, json!({})).await;
    delivery_in(&gateway, &first, "held").await;
    let event = body(&watcher.wait_for_count(1).await[0]);
    assert_eq!(event["type"], "endpoint.disabled");
    assert_eq!(event["data"]["endpoint_id"], endpoint["id"]);
    let path = format!("/v1/webhooks/{}", id(&endpoint));
    let shown = gateway.get(&path).await.ok();
    assert_eq!(
        (&shown["enabled"], &shown["disabled_reason"]),
        (&json!(false), &json!("gone"))
    );
    let second = order(&gateway, json!({})).await;
    delivery_in(&gateway, &second, "held").await;
    // Enabling it sends no held delivery.
    receiver.set_script(|_, _| Reaction::status(200));
    let enable = gateway
        .request(reqwest::Method::PATCH, &path)
        .json(&json!({"enabled": true}));
    assert_eq!(
        gateway.send(enable).await.ok()["disabled_reason"],
        Value::Null
    );
    let third = order(&gateway, json!({})).await;
    delivery_in(&gateway, &third, "delivered").await;
    delivery_in(&gateway, &first, "held").await;
    let since = json!({"since": "2020-01-01T00:00:00Z"});
    let recovered = gateway.post(&format!("{path}/recover"), &since).await.ok();
    assert_eq!(recovered["recovered"], 2);
    for task in [&first, &second] {
        delivery_in(&gateway, task, "delivered").await;
    }
    let later = json!({"since": "2099-01-01T00:00:00Z"});
    assert_eq!(
        gateway.post(&format!("{path}/recover"), &later).await.ok()["recovered"],
        0
    );
    let bad = gateway
        .post(&format!("{path}/recover"), &json!({"since": "soon"}))
        .await;
    bad.refused(400, "invalid_value").on_param("since");
    assert_eq!(watcher.received().len(), 1);
    assert_eq!(
        gateway
            .get(&format!("/v1/webhooks/{}", id(&watching)))
            .await
            .ok()["enabled"],
        true
    );
}

#[tokio::test]
async fn a_gone_endpoint_is_disabled_and_its_events_are_held_on_sqlite() {
    check_gone(builder().start().await).await;
}

#[tokio::test]
async fn a_gone_endpoint_is_disabled_and_its_events_are_held_on_postgres() {
    let gateway = builder().on_postgres().start().await;
    check_gone(gateway).await;
}

#[tokio::test]
async fn deliveries_of_a_disabled_endpoint_are_held() {
    let gateway = builder().without_workers().start().await;
    let receiver = WebhookReceiver::start().await.unwrap();
    let endpoint = register(&gateway, &receiver, json!({})).await;
    let task = order(&gateway, json!({})).await;
    gateway
        .post(&format!("/v1/tasks/{task}/cancel"), &Value::Null)
        .await
        .ok();
    let path = format!("/v1/webhooks/{}", id(&endpoint));
    let disable = gateway
        .request(reqwest::Method::PATCH, &path)
        .json(&json!({"enabled": false}));
    let shown = gateway.send(disable).await.ok();
    assert_eq!(
        (&shown["enabled"], &shown["disabled_reason"]),
        (&json!(false), &Value::Null)
    );
    delivery_in(&gateway, &task, "held").await;
}

#[tokio::test]
async fn old_deliveries_are_deleted() {
    let gateway = builder().manual_clock().start().await;
    let receiver = WebhookReceiver::start().await.unwrap();
    let endpoint = register(&gateway, &receiver, json!({})).await;
    let task = order(&gateway, json!({"callback_url": "https://nobody.invalid/"})).await;
    eventually("the endpoint has received the event", async || {
        let path = format!("/v1/webhooks/{}/deliveries?state=delivered", id(&endpoint));
        let list = gateway.get(&path).await.ok();
        (list["data"].as_array()?.len() == 1).then_some(())
    })
    .await;
    let count = async || {
        let list = gateway
            .get(&format!("/v1/tasks/{task}/deliveries"))
            .await
            .ok();
        list["data"].as_array().unwrap().len()
    };
    gateway.app.clock.advance(Duration::from_hours(6 * 24));
    mediagate_core::domain::webhooks::delivery_log::forget_old(&gateway.app)
        .await
        .unwrap();
    assert_eq!(count().await, 2);
    gateway.app.clock.advance(Duration::from_hours(2 * 24));
    mediagate_core::domain::webhooks::delivery_log::forget_old(&gateway.app)
        .await
        .unwrap();
    // The callback still waits for its next attempt.
    assert_eq!(count().await, 1);
}
