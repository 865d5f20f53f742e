//! What an endpoint receives: events that its key may read, while the key is valid.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use reqwest::Method;
use serde_json::{Value, json};
use simulator::WebhookReceiver;

use super::{body, builder, delivery_in, id, order, register};
use crate::admin::operator;
use crate::support::{Client, TestGateway};

const PROMPT: &str = "a secret lake";

async fn start(postgres: bool) -> TestGateway {
    let mut builder = builder();
    if postgres {
        builder = builder.on_postgres();
    }
    builder.start().await
}

/// A caller of the default account with the scope for webhooks and these scopes.
async fn manager(gateway: &TestGateway, scopes: &[Scope]) -> Client {
    let new = NewKey {
        scopes: [&[Scope::WebhooksManage], scopes].concat(),
        ..NewKey::default()
    };
    gateway.caller("default", new).await
}

async fn receiver() -> WebhookReceiver {
    WebhookReceiver::start().await.unwrap()
}

fn prompt() -> Value {
    json!({"prompt": PROMPT})
}

/// Orders a film, and waits until `watcher`, which may read it, has received its event.
async fn order_seen_by(
    gateway: &TestGateway,
    caller: &Client,
    count: usize,
    watcher: &WebhookReceiver,
) -> String {
    let task = order(caller, prompt()).await;
    let posted = watcher.wait_for_count(count).await;
    assert_eq!(body(&posted[count - 1])["data"]["id"], task);
    gateway.finished(&task).await;
    task
}

async fn change(client: &Client, endpoint: &Value, change: Value) -> Value {
    let path = format!("/v1/webhooks/{}", id(endpoint));
    let request = client.request(Method::PATCH, &path).json(&change);
    client.send(request).await.ok()
}

async fn deliveries(client: &Client, endpoint: &Value) -> Vec<Value> {
    let path = format!("/v1/webhooks/{}/deliveries", id(endpoint));
    let list = client.get(&path).await.ok();
    list["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn an_endpoint_receives_only_what_its_key_may_read() {
    for postgres in [false, true] {
        let gateway = start(postgres).await;
        let limited = manager(&gateway, &[]).await;
        let reader = manager(&gateway, &[Scope::TasksRead]).await;
        let (limited_receiver, reader_receiver) = (receiver().await, receiver().await);
        let limited_hook = register(&limited, &limited_receiver, json!({})).await;
        let reader_hook = register(&reader, &reader_receiver, json!({})).await;
        order_seen_by(&gateway, &gateway, 1, &reader_receiver).await;
        assert_eq!(
            body(&reader_receiver.received()[0])["data"]["input"]["prompt"],
            PROMPT
        );
        assert!(deliveries(&limited, &limited_hook).await.is_empty());
        // It receives events that are not about tasks.
        let test = format!("/v1/webhooks/{}/test", id(&limited_hook));
        limited.post(&test, &Value::Null).await.ok();
        assert_eq!(
            body(&limited_receiver.wait_for_count(1).await[0])["type"],
            "test"
        );
        // A key that changes an endpoint's URL becomes its key, so that another key's endpoint
        // gives no access.
        let elsewhere = json!({"url": limited_receiver.url("/taken")});
        let moved = change(&limited, &reader_hook, elsewhere).await;
        assert_eq!(moved["key_id"], limited_hook["key_id"]);
        let witness = receiver().await;
        register(&reader, &witness, json!({})).await;
        order_seen_by(&gateway, &gateway, 1, &witness).await;
        assert_eq!(limited_receiver.received().len(), 1);
        // The deliveries recorded before give no access, either.
        let since = json!({"since": "2020-01-01T00:00:00Z"});
        let old = &deliveries(&reader, &reader_hook).await[0];
        let redeliver = format!("/v1/webhooks/deliveries/{}/redeliver", id(old));
        limited.post(&redeliver, &Value::Null).await.ok();
        let recover = format!("/v1/webhooks/{}/recover", id(&reader_hook));
        limited.post(&recover, &since).await.ok();
        let task = old["task_id"].as_str().unwrap();
        delivery_in(&reader, task, "held").await;
        assert_eq!(
            limited_receiver.received().len(),
            1,
            "{:?}",
            limited_receiver.received()
        );
    }
}

#[tokio::test]
async fn an_endpoint_of_a_revoked_key_receives_nothing_until_another_key_takes_it_over() {
    for postgres in [false, true] {
        let gateway = start(postgres).await;
        let operator = operator(&gateway).await;
        let leaving = manager(&gateway, &[Scope::TasksRead]).await;
        let staying = manager(&gateway, &[Scope::TasksRead]).await;
        let (leaving_receiver, staying_receiver) = (receiver().await, receiver().await);
        let hook = register(&leaving, &leaving_receiver, json!({})).await;
        register(&staying, &staying_receiver, json!({})).await;
        order_seen_by(&gateway, &gateway, 1, &staying_receiver).await;
        leaving_receiver.wait_for_count(1).await;
        let path = format!("/v1/admin/keys/{}", hook["key_id"].as_str().unwrap());
        let revoked = operator.delete(&path).await.ok();
        assert_eq!(revoked["webhooks"][0]["id"], hook["id"]);
        let missed = order_seen_by(&gateway, &gateway, 2, &staying_receiver).await;
        assert_eq!(leaving_receiver.received().len(), 1);
        let held = deliveries(&staying, &hook).await;
        assert_eq!(
            (&held[0]["task_id"], &held[0]["state"]),
            (&json!(missed), &json!("held"))
        );
        let taken_over = change(&staying, &hook, json!({"enabled": true})).await;
        assert_ne!(taken_over["key_id"], hook["key_id"]);
        let recover = format!("/v1/webhooks/{}/recover", id(&hook));
        let since = json!({"since": "2020-01-01T00:00:00Z"});
        let recovered = staying.post(&recover, &since).await.ok();
        assert_eq!(recovered["recovered"], 1);
        assert_eq!(
            body(&leaving_receiver.wait_for_count(2).await[1])["data"]["id"],
            missed
        );
    }
}

#[tokio::test]
async fn a_callback_of_a_key_that_may_not_read_shows_the_stems_but_not_their_source() {
    let gateway = start(false).await;
    let source = gateway.upload("Secret Song").await;
    let new = NewKey {
        scopes: vec![Scope::MusicCreate],
        ..NewKey::default()
    };
    let maker = gateway.caller("default", new).await;
    for (caller, reads) in [(&maker, false), (&gateway.client, true)] {
        let receiver = receiver().await;
        let submission = json!({"task": "gen_stem", "continue_clip_id": source["id"],
            "notify_hook": receiver.url("/hook")});
        let answer = caller.post("/musicgen/submit/music", &submission).await;
        let answered = answer.whole_text();
        assert_eq!(answered.contains("Secret"), reads, "{answered}");
        let posted = receiver.wait_for_count(1).await;
        let task = &body(&posted[0])["data"];
        assert_eq!(task["status"], "succeeded", "{task}");
        assert_eq!(task["input"]["clip"]["id"], source["id"]);
        assert_eq!(task["input"]["clip"]["url"].is_string(), reads, "{task}");
        assert_eq!(task.to_string().contains("Secret"), reads, "{task}");
        let stems = task["output"]["clips"].as_array().unwrap();
        assert_eq!(stems.len(), 2);
        for stem in stems {
            let audio = stem["audio_url"].as_str().unwrap();
            assert_eq!(gateway.without_key().get(audio).await.status, 200);
        }
    }
    gateway.stop().await;
}
