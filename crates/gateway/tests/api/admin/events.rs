//! `GET /v1/admin/events`.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::start;
use crate::support::sse::{Event, Events};
use crate::support::{Client, eventually, videos_order};
use mediagate_core::event_feed::MOST_FOLLOWERS;
use mediagate_model::audit::{Actor, ActorKind, AuditEntry};
use mediagate_model::ids::AuditId;
use mediagate_store::{self as store, StoreError};

async fn follow(operator: &Client, last_event_id: Option<&str>) -> Events {
    let request = operator.request(Method::GET, "/v1/admin/events");
    let request = match last_event_id {
        Some(last_event_id) => request.header("last-event-id", last_event_id),
        None => request,
    };
    Events::open(request).await
}

/// Reads events until one matches.
async fn until(events: &mut Events, matches: impl Fn(&Value) -> bool) -> Event {
    while let Some(event) = events.next().await {
        if matches(&event.json()) {
            return event;
        }
    }
    panic!("the stream ended before");
}

#[tokio::test]
async fn events_are_streamed_and_resumed_after_an_interruption() {
    for postgres in [false, true] {
        let (gateway, operator) = start(postgres).await;
        let mut events = follow(&operator, None).await;
        let order = gateway.post("/v1/videos", &videos_order()).await;
        let task = json!(order.header("x-task-id").unwrap());
        let is_task_event = |r#type: &'static str| {
            let task = task.clone();
            move |event: &Value| event["type"] == r#type && event["task"]["id"] == task
        };
        let accepted = until(&mut events, is_task_event("task.accepted")).await;
        assert_eq!(accepted.name.as_deref(), Some("task"));
        assert_eq!(accepted.json()["task"]["account"], "default");
        let cancel = format!("/v1/tasks/{}/cancel", task.as_str().unwrap());
        gateway.post(&cancel, &json!({})).await.ok();
        let ended = until(&mut events, is_task_event("task.ended")).await;
        assert_eq!(ended.json()["task"]["status"], "cancelled");
        let account = json!({"handle": "owls"});
        operator.post("/v1/admin/accounts", &account).await.ok();
        let is_change_of_owls = |event: &Value| event["change"]["target"] == "owls";
        let change = until(&mut events, is_change_of_owls).await;
        assert_eq!(change.name.as_deref(), Some("change"));
        assert_eq!(change.json()["change"]["action"], "account.create");
        drop(events);

        let foxes = json!({"handle": "foxes"});
        operator.post("/v1/admin/accounts", &foxes).await.ok();
        let mut resumed = follow(&operator, change.id.as_deref()).await;
        until(&mut resumed, |event| event["change"]["target"] == "foxes").await;
        gateway.app.process.closing.cancel();
        let last_event = resumed.rest().await.pop().unwrap();
        assert_eq!(last_event.json()["error"]["code"], "shutting_down");
    }
}

#[tokio::test]
async fn a_resumed_stream_has_every_event_however_many_there_were() {
    let (gateway, operator) = start(false).await;
    let count = 1200;
    let last_read = gateway.app.clock.now().minus(Duration::from_mins(1));
    let entry = move |number: u64| AuditEntry {
        id: AuditId::new(),
        at: last_read.plus(Duration::from_millis(number)),
        actor: Actor {
            kind: ActorKind::Command,
            id: None,
            name: "test".to_owned(),
        },
        action: "key.create".to_owned(),
        target: format!("key {number}"),
        before: None,
        after: None,
        request_id: None,
        address: None,
        account: None,
    };
    let inserted = gateway
        .app
        .store
        .write(move |conn| -> Result<_, StoreError> {
            (0..count).try_for_each(|number| store::audit::insert(conn, &entry(number)))
        });
    inserted.await.unwrap();
    let mut resumed = follow(&operator, Some(&last_read.micros().to_string())).await;
    for number in 0..count {
        let target = format!("key {number}");
        until(&mut resumed, |event| {
            assert_ne!(event["type"], "missed");
            event["change"]["target"] == target
        })
        .await;
    }
    drop(resumed);
    gateway.stop().await;
}

#[tokio::test]
async fn streams_have_a_limit_and_end_with_their_readers() {
    let (gateway, operator) = start(false).await;
    for _ in 1..MOST_FOLLOWERS {
        gateway.app.process.feed.join().unwrap();
    }
    let events = follow(&operator, None).await;
    let full = operator.get("/v1/admin/events").await;
    full.refused(503, "overloaded");
    drop(events);
    eventually("the place is free", async || {
        let joined = gateway.app.process.feed.join();
        joined.map(|_| gateway.app.process.feed.leave())
    })
    .await;
}
