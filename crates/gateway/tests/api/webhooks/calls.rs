//! Deliveries of task events to endpoints and callbacks.

use serde_json::{Value, json};
use simulator::WebhookReceiver;

use super::{body, builder, delivery_in, id, is_signed, order, register, start};
use crate::support::{TestGateway, sound, video_order};

async fn check_delivery(gateway: TestGateway) {
    let receiver = WebhookReceiver::start().await.unwrap();
    let endpoint = register(&gateway, &receiver, json!({})).await;
    let callback_url = receiver.url("/called?token=1");
    let task = order(&gateway, json!({"callback_url": callback_url})).await;
    let posted = receiver.wait_for_count(2).await;
    let secret = gateway.get("/v1/webhooks/secret").await.ok();
    for post in &posted {
        let is_callback = post.path == "/called?token=1";
        let secret = if is_callback { &secret } else { &endpoint };
        assert!(
            is_signed(post, secret["secret"].as_str().unwrap()),
            "{post:?}"
        );
        assert_eq!(post.header("content-type"), "application/json");
        assert!(post.header("user-agent").starts_with("mediagate/"));
        // The event has the task as the API shows it at its end.
        let event = body(post);
        assert_eq!(event["type"], "task.succeeded");
        let shown = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
        assert_eq!(event["data"], shown);
        assert_eq!(shown["callback_url"], callback_url);
        let film = event["data"]["output"]["videos"][0]["url"]
            .as_str()
            .unwrap();
        assert_eq!(gateway.without_key().get(film).await.status, 200);
    }
    // An event has the same identifier for every receiver.
    assert_eq!(
        posted[0].header("webhook-id"),
        posted[1].header("webhook-id")
    );
    assert!(posted[0].header("webhook-id").starts_with("msg_"));
    assert_ne!(posted[0].path, posted[1].path);
}

#[tokio::test]
async fn on_sqlite() {
    check_delivery(builder().start().await).await;
}

#[tokio::test]
async fn on_postgres() {
    check_delivery(builder().on_postgres().start().await).await;
}

#[tokio::test]
async fn every_api_has_a_callback_field() {
    let (gateway, receiver) = start().await;
    let url = |path: &str| receiver.url(path);
    let mut chat = video_order();
    chat["webhook_url"] = url("/chat").into();
    gateway.post("/v1/chat/completions", &chat).await.ok();
    let form = reqwest::multipart::Form::new()
        .text("model", "animatic-1")
        .text("prompt", "a lake")
        .text("size", "480x480")
        .text("seconds", "1")
        .text("callback_url", url("/form"));
    let request = gateway.request(reqwest::Method::POST, "/v1/videos");
    gateway.send(request.multipart(form)).await.ok();
    let clip = gateway.upload("Song").await;
    let separation =
        json!({"task": "gen_stem", "continue_clip_id": id(&clip), "notify_hook": url("/stems")});
    let record = gateway
        .post("/musicgen/submit/music", &separation)
        .await
        .ok();
    let mut paths: Vec<String> = receiver
        .wait_for_count(3)
        .await
        .into_iter()
        .map(|post| post.path)
        .collect();
    paths.sort();
    assert_eq!(paths, ["/chat", "/form", "/stems"]);
    let job = gateway
        .get(&format!("/musicgen/fetch/{}", id(&record)))
        .await
        .ok();
    assert_eq!(job["data"]["notify_hook"], url("/stems"));
    let posted = receiver
        .received()
        .into_iter()
        .find(|post| post.path == "/stems")
        .unwrap();
    let clips = &body(&posted)["data"]["output"]["clips"];
    assert_eq!(clips.as_array().unwrap().len(), 2);
    assert_ne!(clips[0]["audio_url"], "");
}

#[tokio::test]
async fn a_music_callback_can_have_the_job_record() {
    let gateway = builder()
        .set(|settings| {
            settings.webhooks.notify_hook_body = Some(mediagate_config::NotifyHookBody::Job);
        })
        .start()
        .await;
    let receiver = WebhookReceiver::start().await.unwrap();
    register(&gateway, &receiver, json!({})).await;
    let clip = gateway.upload("Song").await;
    let separation = json!({"task": "gen_stem", "continue_clip_id": id(&clip), "notify_hook": receiver.url("/job")});
    let record = gateway
        .post("/musicgen/submit/music", &separation)
        .await
        .ok();
    for post in receiver.wait_for_count(2).await {
        if post.path == "/hook" {
            assert_eq!(body(&post)["data"]["id"], record["id"]);
            continue;
        }
        let job = gateway
            .get(&format!("/musicgen/fetch/{}", id(&record)))
            .await
            .ok();
        assert_eq!(body(&post), job["data"]);
        let secret = gateway.get("/v1/webhooks/secret").await.ok();
        assert!(is_signed(&post, secret["secret"].as_str().unwrap()));
    }
}

#[tokio::test]
async fn every_end_is_delivered_once_and_only_to_subscribed_endpoints() {
    let gateway = builder().without_workers().start().await;
    let receiver = WebhookReceiver::start().await.unwrap();
    let failures = register(&gateway, &receiver, json!({"events": ["task.failed"]})).await;
    let all_events = register(&gateway, &receiver, json!({"description": "all"})).await;
    let other = gateway
        .caller("other", mediagate_core::domain::keys::NewKey::default())
        .await;
    register(&other, &receiver, json!({})).await;
    let failed = order(&gateway, json!({})).await;
    let claimed = gateway.claim().await;
    gateway
        .fail(claimed.id, mediagate_model::error::ErrorCode::ContentPolicy)
        .await;
    let cancelled = order(&gateway, json!({})).await;
    let path = format!("/v1/tasks/{cancelled}/cancel");
    gateway.post(&path, &Value::Null).await.ok();
    gateway
        .post(&path, &Value::Null)
        .await
        .refused(409, "task_not_cancellable");
    for (task, expected) in [
        (failed, vec![id(&failures), id(&all_events)]),
        (cancelled, vec![id(&all_events)]),
    ] {
        let answer = gateway.get(&format!("/v1/tasks/{task}/deliveries")).await;
        assert_eq!(answer.header("x-task-id"), Some(task.as_str()));
        let list = answer.ok();
        let list = list["data"].as_array().unwrap().clone();
        let mut endpoints: Vec<&str> = list
            .iter()
            .map(|delivery| delivery["endpoint_id"].as_str().unwrap())
            .collect();
        endpoints.sort_unstable();
        assert_eq!(endpoints, expected);
        assert!(
            list.iter()
                .all(|delivery| delivery["state"] == "waiting" && delivery["attempts"] == 0)
        );
        // Another account sees no deliveries.
        let path = format!("/v1/tasks/{task}/deliveries");
        other.get(&path).await.refused(404, "task_not_found");
    }
}

#[tokio::test]
async fn each_video_of_an_order_has_a_callback() {
    let (gateway, receiver) = start().await;
    let mut chat = video_order();
    chat["n"] = 2.into();
    chat["callback_url"] = receiver.url("/n").into();
    gateway.post("/v1/chat/completions", &chat).await.ok();
    let posted = receiver.wait_for_count(2).await;
    assert_ne!(
        body(&posted[0])["data"]["id"],
        body(&posted[1])["data"]["id"]
    );
}

#[tokio::test]
async fn a_waiting_delivery_is_sent_after_a_restart() {
    let gateway = builder().without_workers().start().await;
    let receiver = WebhookReceiver::start().await.unwrap();
    let task = order(&gateway, json!({"callback_url": receiver.url("/late")})).await;
    let path = format!("/v1/tasks/{task}/cancel");
    gateway.post(&path, &Value::Null).await.ok();
    let gateway = gateway.restart(None).await;
    let posted = receiver.wait_for_count(1).await;
    assert_eq!(body(&posted[0])["type"], "task.cancelled");
    let delivery = delivery_in(&gateway, &task, "delivered").await;
    assert_eq!(delivery["attempts"], 1);
    assert_eq!(delivery["endpoint_id"], Value::Null);
    assert_eq!(delivery["url"], receiver.url("/late"));
}

#[tokio::test]
async fn a_forbidden_callback_url_is_refused() {
    let gateway = TestGateway::start().await;
    let long = format!("https://example.com/{}", "x".repeat(2000));
    let bad = [
        "http://example.com/",
        "https://127.0.0.1/",
        "https://10.0.0.1/hook",
        "https://localhost/",
        "https://hooks.localhost./",
        "https://example.com:22/",
        "https://user:secret@example.com/",
        "ftp://example.com/",
        "example.com",
        &long,
    ];
    let clip = gateway.upload("Song").await;
    for url in bad {
        for name in ["callback_url", "notify_hook", "webhook_url"] {
            let mut orders = [
                ("/v1/videos", crate::support::videos_order()),
                ("/v1/chat/completions", video_order()),
                (
                    "/musicgen/submit/music",
                    json!({"task": "gen_stem", "continue_clip_id": id(&clip)}),
                ),
            ];
            for (path, order) in &mut orders {
                order[name] = url.into();
                let refused = gateway.post(path, order).await;
                refused.refused(400, "invalid_value").on_param(name);
            }
        }
        let answer = gateway.post("/v1/webhooks", &json!({"url": url})).await;
        answer.refused(400, "invalid_value").on_param("url");
    }
    let mut order = crate::support::videos_order();
    (order["callback_url"], order["webhook_url"]) =
        ("https://example.com/".into(), "https://example.com/".into());
    gateway
        .post("/v1/videos", &order)
        .await
        .refused(400, "invalid_value")
        .on_param("webhook_url");
    // An empty field counts as absent; an unknown host name is discovered only on delivery.
    (order["callback_url"], order["webhook_url"]) = ("".into(), "https://nobody.invalid/".into());
    gateway.post("/v1/videos", &order).await.ok();
    let picture = sound::data_url("image/png", &sound::png(8, 8));
    order["input_reference"] = picture.into();
    gateway.post("/v1/videos", &order).await.ok();
}
