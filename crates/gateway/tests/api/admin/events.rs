//! `GET /v1/admin/events`.

use reqwest::Method;
use serde_json::{Value, json};

use super::start;
use crate::support::sse::{Event, Events};
use crate::support::{Client, eventually, videos_order};
use mediagate_core::event_feed::MOST_FOLLOWERS;

async fn follow(operator: &Client, last: Option<&str>) -> Events {
    let request = operator.request(Method::GET, "/v1/admin/events");
    let request = match last {
        Some(last) => request.header("last-event-id", last),
        None => request,
    };
    Events::open(request).await
}

/// Reads on until an event is wanted.
async fn until(events: &mut Events, wanted: impl Fn(&Value) -> bool) -> Event {
    while let Some(event) = events.next().await {
        if wanted(&event.json()) {
            return event;
        }
    }
    panic!("the stream ended before");
}

#[tokio::test]
async fn what_happens_is_told_as_it_happens_and_again_after_an_interruption() {
    for postgres in [false, true] {
        let (gateway, operator) = start(postgres).await;
        let mut events = follow(&operator, None).await;
        let order = gateway.post("/v1/videos", &videos_order()).await;
        let task = json!(order.header("x-task-id").unwrap());
        let of_task = |r#type: &'static str| {
            let task = task.clone();
            move |told: &Value| told["type"] == r#type && told["task"]["id"] == task
        };
        let accepted = until(&mut events, of_task("task.accepted")).await;
        assert_eq!(accepted.name.as_deref(), Some("task"));
        assert_eq!(accepted.json()["task"]["account"], "default");
        let cancel = format!("/v1/tasks/{}/cancel", task.as_str().unwrap());
        gateway.post(&cancel, &json!({})).await.ok();
        let ended = until(&mut events, of_task("task.ended")).await;
        assert_eq!(ended.json()["task"]["status"], "cancelled");
        let account = json!({"handle": "owls"});
        operator.post("/v1/admin/accounts", &account).await.ok();
        let of_owls = |told: &Value| told["change"]["target"] == "owls";
        let change = until(&mut events, of_owls).await;
        assert_eq!(change.name.as_deref(), Some("change"));
        assert_eq!(change.json()["change"]["action"], "account.create");
        drop(events);

        let foxes = json!({"handle": "foxes"});
        operator.post("/v1/admin/accounts", &foxes).await.ok();
        let mut again = follow(&operator, change.id.as_deref()).await;
        until(&mut again, |told| told["change"]["target"] == "foxes").await;
        gateway.app.process.closing.cancel();
        let last = again.rest().await.pop().unwrap();
        assert_eq!(last.json()["error"]["code"], "shutting_down");
    }
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
