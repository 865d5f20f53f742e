//! What is posted, to whom and when: events of tasks to endpoints and callbacks.

use serde_json::{Value, json};
use simulator::WebhookReceiver;

use super::{body, builder, delivery_in, id, is_signed, order, register, start};
use crate::support::{TestGateway, sound, video_order};

async fn whoever_listens_is_told(gateway: TestGateway) {
    let receiver = WebhookReceiver::start().await.unwrap();
    let endpoint = register(&gateway, &receiver, json!({})).await;
    let called = receiver.url("/called?token=1");
    let task = order(&gateway, json!({"callback_url": called})).await;
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
        // The task as it is shown, frozen.
        let event = body(post);
        assert_eq!(event["type"], "task.succeeded");
        let shown = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
        assert_eq!(event["data"], shown);
        assert_eq!(shown["callback_url"], called);
        let film = event["data"]["output"]["videos"][0]["url"]
            .as_str()
            .unwrap();
        assert_eq!(gateway.without_key().get(film).await.status, 200);
    }
    // One event has one id, whoever it goes to.
    assert_eq!(
        posted[0].header("webhook-id"),
        posted[1].header("webhook-id")
    );
    assert!(posted[0].header("webhook-id").starts_with("msg_"));
    assert_ne!(posted[0].path, posted[1].path);
}

#[tokio::test]
async fn on_sqlite() {
    whoever_listens_is_told(builder().start().await).await;
}

#[tokio::test]
async fn on_postgres() {
    whoever_listens_is_told(builder().on_postgres().start().await).await;
}

#[tokio::test]
async fn every_dialect_names_a_callback() {
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
        .map(|it| it.path)
        .collect();
    paths.sort();
    assert_eq!(paths, ["/chat", "/form", "/stems"]);
    let job = gateway
        .get(&format!("/musicgen/fetch/{}", id(&record)))
        .await
        .ok();
    assert_eq!(job["data"]["notify_hook"], url("/stems"));
    let posted = receiver
        .posted()
        .into_iter()
        .find(|it| it.path == "/stems")
        .unwrap();
    let clips = &body(&posted)["data"]["output"]["clips"];
    assert_eq!(clips.as_array().unwrap().len(), 2);
    assert_ne!(clips[0]["audio_url"], "");
}

#[tokio::test]
async fn a_music_callback_may_have_the_job_record() {
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
async fn every_end_is_told_once_and_only_to_who_listens() {
    let gateway = builder().without_workers().start().await;
    let receiver = WebhookReceiver::start().await.unwrap();
    let failures = register(&gateway, &receiver, json!({"events": ["task.failed"]})).await;
    let all = register(&gateway, &receiver, json!({"description": "all"})).await;
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
    for (task, told) in [
        (failed, vec![id(&failures), id(&all)]),
        (cancelled, vec![id(&all)]),
    ] {
        let list = gateway
            .get(&format!("/v1/tasks/{task}/deliveries"))
            .await
            .ok();
        let list = list["data"].as_array().unwrap().clone();
        let mut to: Vec<&str> = list
            .iter()
            .map(|it| it["endpoint_id"].as_str().unwrap())
            .collect();
        to.sort_unstable();
        assert_eq!(to, told);
        assert!(
            list.iter()
                .all(|it| it["state"] == "waiting" && it["attempts"] == 0)
        );
        // Of another account's task nothing is said.
        let path = format!("/v1/tasks/{task}/deliveries");
        other.get(&path).await.refused(404, "task_not_found");
    }
}

#[tokio::test]
async fn each_video_of_an_order_calls() {
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
async fn what_waits_is_sent_after_a_restart() {
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
async fn an_address_that_must_not_be_called_is_refused() {
    let gateway = TestGateway::start().await;
    let long = format!("https://example.com/{}", "x".repeat(2000));
    let bad = [
        "http://example.com/",
        "https://127.0.0.1/",
        "https://10.0.0.1/hook",
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
        let made = gateway.post("/v1/webhooks", &json!({"url": url})).await;
        made.refused(400, "invalid_value").on_param("url");
    }
    let mut two = crate::support::videos_order();
    (two["callback_url"], two["webhook_url"]) =
        ("https://example.com/".into(), "https://example.com/".into());
    gateway
        .post("/v1/videos", &two)
        .await
        .refused(400, "invalid_value")
        .on_param("webhook_url");
    // An empty one is none; a name that nobody knows is found out by its tries.
    (two["callback_url"], two["webhook_url"]) = ("".into(), "https://nobody.invalid/".into());
    gateway.post("/v1/videos", &two).await.ok();
    let picture = sound::data_url("image/png", &sound::png(8, 8));
    two["input_reference"] = picture.into();
    gateway.post("/v1/videos", &two).await.ok();
}
