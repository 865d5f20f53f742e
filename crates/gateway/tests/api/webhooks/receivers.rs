//! Receivers that fail in every way, and the effect on their and other deliveries.

use std::time::Duration;

use mediagate_model::clock::Timestamp;
use serde_json::{Value, json};
use simulator::{Reaction, WebhookReceiver};

use super::{builder, delivery_in, id, order, register, start, with_attempts};
use crate::support::{TestGateway, eventually};

async fn send_test(gateway: &TestGateway, endpoint: &Value) -> Value {
    let path = format!("/v1/webhooks/{}/test", id(endpoint));
    gateway.post(&path, &Value::Null).await.ok()
}

/// Waits until a delivery has this number of attempts.
async fn wait_for_attempts(gateway: &TestGateway, delivery: &Value, times: usize) -> Value {
    eventually("the delivery was tried", async || {
        let delivery_view = with_attempts(gateway, delivery).await;
        (delivery_view["attempts"].as_array().unwrap().len() == times).then_some(delivery_view)
    })
    .await
}

#[tokio::test]
async fn every_failure_is_logged_with_its_class_and_retried() {
    let gateway = builder()
        .set(|settings| settings.webhooks.timeout = Some(Duration::from_secs(1)))
        .start()
        .await;
    let answer = |status, body: &str| Reaction::Answer(status, Vec::new(), body.to_owned());
    let redirect =
        |url: &str| Reaction::Answer(302, vec![("location", url.to_owned())], String::new());
    let elsewhere = WebhookReceiver::start().await.unwrap();
    for (reaction, status, error, text) in [
        (answer(500, "no\u{0}pe"), json!(500), "status", "nope"),
        (redirect(&elsewhere.url("/")), json!(302), "status", ""),
        (answer(404, ""), json!(404), "status", ""),
        (Reaction::Hang, Value::Null, "timeout", ""),
        (
            Reaction::Drip(Duration::from_millis(200)),
            Value::Null,
            "timeout",
            "",
        ),
        (Reaction::Close, Value::Null, "broken", ""),
        (Reaction::BreakOff(503), json!(503), "status", "half"),
        (Reaction::Flood(500, 4_000_000), json!(500), "status", "x"),
    ] {
        let receiver = WebhookReceiver::start_with_script(move |_, _| reaction.clone())
            .await
            .unwrap();
        let endpoint = register(&gateway, &receiver, json!({})).await;
        let sent = send_test(&gateway, &endpoint).await;
        let delivery = wait_for_attempts(&gateway, &sent, 1).await;
        let attempt = &delivery["attempts"][0];
        assert_eq!(
            (&attempt["status"], &attempt["error"]),
            (&status, &json!(error)),
            "{delivery}"
        );
        let response = attempt["response"].as_str().unwrap_or_default();
        assert!(
            response.starts_with(text) && response.len() <= 1024,
            "{response}"
        );
        assert_eq!(delivery["state"], "waiting");
        let next: Timestamp =
            Timestamp::parse(delivery["next_attempt_at"].as_str().unwrap()).unwrap();
        let attempted_at = Timestamp::parse(attempt["at"].as_str().unwrap()).unwrap();
        let pause = next.since(attempted_at).as_millis();
        assert!((4000..=6000).contains(&pause), "{pause}");
        gateway
            .delete(&format!("/v1/webhooks/{}", id(&endpoint)))
            .await
            .ok();
    }
    // Redirects are not followed.
    assert!(elsewhere.received().is_empty());
    // A success status counts, even if the body breaks off.
    let receiver = WebhookReceiver::start_with_script(|_, _| Reaction::BreakOff(202))
        .await
        .unwrap();
    let endpoint = register(&gateway, &receiver, json!({})).await;
    let sent = send_test(&gateway, &endpoint).await;
    assert_eq!(
        wait_for_attempts(&gateway, &sent, 1).await["state"],
        "delivered"
    );
    // No receiver is listening.
    let url = receiver.url("/");
    drop(receiver);
    let task = order(&gateway, json!({"callback_url": url})).await;
    let waiting = delivery_in(&gateway, &task, "waiting").await;
    assert_eq!(
        wait_for_attempts(&gateway, &waiting, 1).await["attempts"][0]["error"],
        "unreachable"
    );
}

#[tokio::test]
async fn retry_after_of_a_receiver_is_respected() {
    let receiver = WebhookReceiver::start_with_script(|_, before| match before {
        0 => Reaction::Answer(503, vec![("retry-after", "0".into())], String::new()),
        1 => Reaction::Answer(429, vec![("retry-after", "7200".into())], String::new()),
        _ => Reaction::status(200),
    });
    let receiver = receiver.await.unwrap();
    let gateway = builder().start().await;
    let endpoint = register(&gateway, &receiver, json!({})).await;
    let sent = send_test(&gateway, &endpoint).await;
    let delivery = wait_for_attempts(&gateway, &sent, 2).await;
    let next = Timestamp::parse(delivery["next_attempt_at"].as_str().unwrap()).unwrap();
    let pause =
        next.since(Timestamp::parse(delivery["attempts"][1]["at"].as_str().unwrap()).unwrap());
    assert!((5700..=8700).contains(&pause.as_secs()), "{pause:?}");
    let posted = receiver.received();
    // The retry has the same identifier and a new signature.
    assert_eq!(
        posted[0].header("webhook-id"),
        posted[1].header("webhook-id")
    );
    assert_eq!(posted[0].body, posted[1].body);
}

#[tokio::test]
async fn a_retry_after_without_a_date_header_uses_the_gateways_clock_and_is_not_early() {
    let gateway = builder().manual_clock().start().await;
    let until = gateway.app.clock.now().plus(Duration::from_hours(2));
    let until = jiff::Timestamp::from_second(until.seconds()).unwrap();
    let until = until.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    for (retry_after, shortest, longest) in [(until, 7199, 8640), ("12".to_owned(), 12, 15)] {
        let receiver = WebhookReceiver::start_with_script(move |_, _| {
            Reaction::Answer(
                503,
                vec![("retry-after", retry_after.clone())],
                String::new(),
            )
        });
        let receiver = receiver.await.unwrap();
        let endpoint = register(&gateway, &receiver, json!({})).await;
        let sent = send_test(&gateway, &endpoint).await;
        let delivery = wait_for_attempts(&gateway, &sent, 1).await;
        let time = |value: &Value| Timestamp::parse(value.as_str().unwrap()).unwrap();
        let pause = time(&delivery["next_attempt_at"]).since(time(&delivery["attempts"][0]["at"]));
        assert!((shortest..=longest).contains(&pause.as_secs()), "{pause:?}");
    }
}

#[tokio::test]
async fn a_delivery_fails_after_eight_attempts_and_can_be_redelivered() {
    let receiver = WebhookReceiver::start_with_script(|_, _| Reaction::status(500))
        .await
        .unwrap();
    let gateway = builder().manual_clock().start().await;
    let task = order(&gateway, json!({"callback_url": receiver.url("/")})).await;
    gateway.finished(&task).await;
    let sent = delivery_in(&gateway, &task, "waiting").await;
    for number in 1..8 {
        let delivery = wait_for_attempts(&gateway, &sent, number).await;
        assert_eq!(delivery["state"], "waiting");
        gateway.app.clock.advance(Duration::from_hours(16));
    }
    let delivery = wait_for_attempts(&gateway, &sent, 8).await;
    assert_eq!(
        (&delivery["state"], &delivery["next_attempt_at"]),
        (&json!("failed"), &Value::Null)
    );
    receiver.set_script(|_, _| Reaction::status(200));
    gateway.app.clock.advance(Duration::from_hours(1));
    let path = format!("/v1/webhooks/deliveries/{}/redeliver", id(&sent));
    assert_eq!(
        gateway.post(&path, &Value::Null).await.ok()["state"],
        "waiting"
    );
    let delivery = wait_for_attempts(&gateway, &sent, 9).await;
    assert_eq!(delivery["state"], "delivered");
}

#[tokio::test]
async fn five_days_of_failures_disable_an_endpoint() {
    let receiver = WebhookReceiver::start_with_script(|_, _| Reaction::status(500))
        .await
        .unwrap();
    let gateway = builder().manual_clock().start().await;
    let endpoint = register(&gateway, &receiver, json!({})).await;
    let path = format!("/v1/webhooks/{}", id(&endpoint));
    let mut sent = vec![
        send_test(&gateway, &endpoint).await,
        send_test(&gateway, &endpoint).await,
    ];
    let mut hours = 0;
    loop {
        for delivery in &sent {
            eventually("the delivery was tried", async || {
                let delivery_view = with_attempts(&gateway, delivery).await;
                let is_waiting = delivery_view["state"] == "waiting" && {
                    let due = Timestamp::parse(delivery_view["next_attempt_at"].as_str().unwrap());
                    due.unwrap() <= gateway.app.clock.now()
                };
                (!is_waiting).then_some(())
            })
            .await;
        }
        let shown = gateway.get(&path).await.ok();
        if shown["enabled"] == false {
            assert_eq!(shown["disabled_reason"], "failing");
            assert!(
                hours >= 5 * 24 && shown["failures"].as_u64().unwrap() >= 10,
                "{shown}"
            );
            break;
        }
        assert!(hours <= 6 * 24, "{shown}");
        gateway.app.clock.advance(Duration::from_hours(16));
        hours += 16;
        if hours == 5 * 16 {
            sent.push(send_test(&gateway, &endpoint).await);
        }
    }
    let held = gateway
        .get(&format!("{path}/deliveries?state=held"))
        .await
        .ok();
    assert!(!held["data"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn a_dead_receiver_delays_no_other() {
    let dead = WebhookReceiver::start_with_script(|_, _| Reaction::Hang)
        .await
        .unwrap();
    let (gateway, alive) = start().await;
    register(&gateway, &dead, json!({})).await;
    register(&gateway, &alive, json!({})).await;
    let mut tasks = Vec::new();
    for _ in 0..30 {
        let task = order(&gateway, json!({"model": "animatic-1"})).await;
        gateway
            .post(&format!("/v1/tasks/{task}/cancel"), &Value::Null)
            .await;
        tasks.push(task);
    }
    // All deliveries to the living receiver arrive while two to the dead one hang.
    alive.wait_for_count(30).await;
    assert_eq!(dead.wait_for_count(2).await.len(), 2);
}
