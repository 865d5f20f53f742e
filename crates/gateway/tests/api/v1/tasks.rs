//! `/v1/tasks`.

use std::time::Duration;

use mediagate_core::domain::keys::NewKey;
use mediagate_model::error::ErrorCode;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::spec::assert_time;
use crate::support::sse::{Event, Events};
use crate::support::{TestGateway, eventually, videos_order};

/// A gateway without workers and with this many queued videos, oldest first.
async fn gateway_with_queued(count: usize) -> (TestGateway, Vec<String>) {
    let gateway = TestGateway::builder().without_workers().start().await;
    let mut tasks = Vec::new();
    for _ in 0..count {
        let answer = gateway.post("/v1/videos", &videos_order()).await;
        tasks.push(answer.header("x-task-id").unwrap().to_owned());
    }
    (gateway, tasks)
}

fn ids(list: &Value) -> Vec<&str> {
    let data = list["data"].as_array().unwrap();
    data.iter()
        .map(|task| task["id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_task_has_every_field() {
    let gateway = TestGateway::start().await;
    let request = gateway
        .request(Method::POST, "/v1/videos")
        .header("x-request-id", "my-request.1")
        .json(&videos_order());
    let answer = gateway.send(request).await;
    let id = answer.header("x-task-id").unwrap().to_owned();
    let task = gateway.finished(&id).await;
    assert_eq!(task["id"], id);
    assert_eq!(task["object"], "task");
    assert_eq!(
        (&task["kind"], &task["model"], &task["provider"]),
        (&json!("video"), &json!("animatic-1"), &json!("embedded"))
    );
    assert_eq!(
        (&task["status"], &task["progress"]),
        (&json!("succeeded"), &json!(100))
    );
    assert_eq!(task["request_id"], "my-request.1");
    assert_eq!(task["cost_usd"], "0.00");
    assert!(task["error"].is_null());
    for time in ["created_at", "started_at", "finished_at"] {
        assert_time(&task[time]);
    }
    assert!(task["created_at"].as_str() <= task["started_at"].as_str());
    assert!(task["started_at"].as_str() < task["finished_at"].as_str());
    assert!(task["output"]["direction"].is_array());
    gateway.stop().await;
}

#[tokio::test]
async fn the_list_has_filters_pages_and_a_cursor() {
    let (gateway, tasks) = gateway_with_queued(5).await;
    let clip = gateway.upload("Song").await;
    let music = gateway.separate(clip["id"].as_str().unwrap(), "two").await;
    let music = music["id"].as_str().unwrap();
    gateway
        .post(&format!("/v1/tasks/{}/cancel", tasks[0]), &json!({}))
        .await
        .ok();
    let newest_first: Vec<&str> = [music]
        .into_iter()
        .chain(tasks.iter().rev().map(String::as_str))
        .collect();

    let list = gateway.get("/v1/tasks").await.ok();
    assert_eq!(
        (&list["object"], &list["has_more"]),
        (&json!("list"), &json!(false))
    );
    assert_eq!(ids(&list), newest_first);
    assert_eq!(list["last_id"], tasks[0]);

    let mut paged = Vec::new();
    let mut after = String::new();
    loop {
        let page = gateway.get(&format!("/v1/tasks?limit=4{after}")).await.ok();
        paged.extend(ids(&page).into_iter().map(ToOwned::to_owned));
        after = format!("&after={}", page["last_id"].as_str().unwrap());
        if page["has_more"] == false {
            break;
        }
    }
    assert_eq!(paged, newest_first);

    let count = async |query: &str| {
        let list = gateway.get(&format!("/v1/tasks?{query}")).await.ok();
        list["data"].as_array().unwrap().len()
    };
    assert_eq!(count("kind=video").await, 5);
    assert_eq!(count("kind=music").await, 1);
    assert_eq!(count("status=queued").await, 5);
    assert_eq!(count("status=cancelled&kind=video").await, 1);
    assert_eq!(count("model=stems-dsp-1").await, 1);
    assert_eq!(count("model=nobody").await, 0);
    assert_eq!(count("limit=100").await, 6);
    for (query, param) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=few", "limit"),
        ("after=x", "after"),
        ("kind=voice", "kind"),
        ("status=done", "status"),
    ] {
        let answer = gateway.get(&format!("/v1/tasks?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        answer.on_param(param);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_wait_delays_the_answer_until_the_task_ends_or_time_runs_out() {
    let (gateway, tasks) = gateway_with_queued(1).await;
    let path = format!("/v1/tasks/{}", tasks[0]);
    let start = tokio::time::Instant::now();
    assert_eq!(
        gateway.get(&format!("{path}?wait=0.3")).await.ok()["status"],
        "queued"
    );
    assert!(start.elapsed() >= Duration::from_millis(300));
    let client = gateway.client.clone();
    let url = format!("{path}?wait=60");
    let waiting = tokio::spawn(async move { client.get(&url).await.ok() });
    let task = gateway.claim().await;
    gateway.fail(task.id, ErrorCode::GenerationFailed).await;
    let failed = waiting.await.unwrap();
    assert_eq!(failed["status"], "failed");
    assert_eq!(
        failed["error"],
        json!({"code": "generation_failed", "message": "The script says so."})
    );
    assert!(start.elapsed() < Duration::from_secs(30));
    for wait in ["61", "-1", "soon", "NaN"] {
        let answer = gateway.get(&format!("{path}?wait={wait}")).await;
        assert_eq!(answer.status, 400, "{wait}");
        answer.on_param("wait");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn events_show_every_change_and_resume_after_the_last_id() {
    let (gateway, tasks) = gateway_with_queued(1).await;
    let path = format!("/v1/tasks/{}/events", tasks[0]);
    let mut events = Events::open(gateway.request(Method::GET, &path)).await;
    let first = events.next().await.unwrap();
    assert_eq!(
        (first.name.as_deref(), first.id.as_deref()),
        (Some("task"), Some("1"))
    );
    assert_eq!(first.json()["status"], "queued");
    let task = gateway.claim().await;
    assert_eq!(events.next().await.unwrap().json()["status"], "running");
    for progress in [10, 35] {
        assert!(gateway.progress(task.id, progress).await);
        let event = events.next().await.unwrap().json();
        assert_eq!(
            (&event["status"], &event["progress"]),
            (&json!("running"), &json!(progress))
        );
        assert!(event["finished_at"].is_null());
    }
    assert!(!gateway.progress(task.id, 20).await, "progress never falls");
    gateway.fail(task.id, ErrorCode::GenerationFailed).await;
    let rest = events.rest().await;
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].json()["error"]["code"], "generation_failed");

    let resume = |last: &str| {
        gateway
            .request(Method::GET, &path)
            .header("last-event-id", last)
    };
    let numbers = |events: &[Event]| -> Vec<String> {
        events
            .iter()
            .map(|event| event.id.clone().unwrap())
            .collect()
    };
    let all = Events::open(resume("nonsense")).await.rest().await;
    assert_eq!(numbers(&all), ["1", "2", "3", "4", "5"]);
    let tail = Events::open(resume("3")).await.rest().await;
    assert_eq!(numbers(&tail), ["4", "5"]);
    assert_eq!(tail[0].json()["status"], "running");
    assert!(Events::open(resume("5")).await.rest().await.is_empty());
    gateway.stop().await;
}

#[tokio::test]
async fn an_open_task_can_be_cancelled_once() {
    let (gateway, tasks) = gateway_with_queued(2).await;
    let cancel = async |id: &str| {
        gateway
            .post(&format!("/v1/tasks/{id}/cancel"), &json!({}))
            .await
    };
    let claimed = gateway.claim().await;
    for id in &tasks {
        let answer = cancel(id).await;
        assert_eq!(answer.header("x-task-id"), Some(id.as_str()));
        let task = answer.ok();
        assert_eq!(
            (&task["status"], &task["error"]["code"]),
            (&json!("cancelled"), &json!("cancelled"))
        );
        assert_time(&task["finished_at"]);
        cancel(id).await.refused(409, "task_not_cancellable");
    }
    // A worker that is too late changes nothing.
    assert!(!gateway.progress(claimed.id, 50).await);
    assert_eq!(
        gateway.get(&format!("/v1/tasks/{}", claimed.id)).await.ok()["progress"],
        0
    );
    gateway.stop().await;
}

#[tokio::test]
async fn cancelling_stops_the_engine_and_frees_its_slot() {
    let gateway = TestGateway::builder()
        .set(|settings| settings.workers = Some(1))
        .start()
        .await;
    let long = json!({"prompt": "a city", "size": "1920x1080", "seconds": "20"});
    let answer = gateway.post("/v1/videos", &long).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    let path = format!("/v1/tasks/{task}");
    eventually("it runs", async || {
        (gateway.get(&path).await.ok()["status"] == "running").then_some(())
    })
    .await;
    gateway
        .post(&format!("{path}/cancel"), &json!({}))
        .await
        .ok();
    // There is one slot, and the cancelled film would have kept it for long.
    let next = gateway.post("/v1/videos", &videos_order()).await;
    let next = gateway.finished(next.header("x-task-id").unwrap()).await;
    assert_eq!(next["status"], "succeeded");
    assert_eq!(gateway.get(&path).await.ok()["status"], "cancelled");
    gateway.stop().await;
}

#[tokio::test]
async fn a_task_is_hidden_from_other_accounts() {
    let (gateway, tasks) = gateway_with_queued(1).await;
    let stranger = gateway.caller("stranger", NewKey::default()).await;
    let id = &tasks[0];
    let unknown = "0193a000-0000-7000-8000-000000000099";
    for id in [id.as_str(), unknown, "x", "%00", "%F0%9F%92%A9"] {
        stranger
            .get(&format!("/v1/tasks/{id}"))
            .await
            .refused(404, "task_not_found");
        stranger
            .get(&format!("/v1/tasks/{id}/events"))
            .await
            .refused(404, "task_not_found");
        stranger
            .post(&format!("/v1/tasks/{id}/cancel"), &json!({}))
            .await
            .refused(404, "task_not_found");
        stranger
            .get(&format!("/musicgen/tasks/{id}"))
            .await
            .refused(404, "task_not_found");
        stranger
            .get(&format!("/musicgen/fetch/{id}"))
            .await
            .refused(404, "task_not_found");
    }
    let video = format!("video_{}", id.replace('-', ""));
    stranger
        .get(&format!("/v1/videos/{video}"))
        .await
        .refused(404, "task_not_found");
    stranger
        .get(&format!("/v1/videos/{video}/content"))
        .await
        .refused(404, "task_not_found");
    stranger
        .delete(&format!("/v1/videos/{video}"))
        .await
        .refused(404, "task_not_found");
    assert_eq!(stranger.get("/v1/tasks").await.ok()["data"], json!([]));
    assert_eq!(stranger.get("/v1/videos").await.ok()["data"], json!([]));
    assert_eq!(
        gateway.get(&format!("/v1/tasks/{id}")).await.ok()["status"],
        "queued"
    );
    gateway.stop().await;
}
