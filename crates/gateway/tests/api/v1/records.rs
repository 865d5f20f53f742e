//! The order in a task's record, and the filters of the task list.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::error::ErrorCode;
use serde_json::{Value, json};

use crate::support::gateway::finished;
use crate::support::{TestGateway, sound, videos_order};

#[tokio::test]
async fn a_video_task_shows_its_order_and_key() {
    let gateway = TestGateway::start().await;
    let new = NewKey {
        name: "the app".into(),
        ..NewKey::default()
    };
    let caller = gateway.caller("default", new).await;
    let picture = sound::data_url("image/png", &sound::png(320, 180));
    let order = json!({
        "model": "animatic-1",
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "a lake at dawn"},
            {"type": "image_url", "image_url": {"url": picture}},
        ]}],
        "video": {"size": "480x480", "seconds": 1, "seed": 7},
    });
    let answer = caller.post("/v1/chat/completions", &order).await;
    let id = answer.header("x-task-id").unwrap().to_owned();
    let task = finished(&caller, &id).await;
    let input = &task["input"];
    assert_eq!(
        (
            &input["prompt"],
            &input["seconds"],
            &input["size"],
            &input["seed"]
        ),
        (
            &json!("a lake at dawn"),
            &json!(1.0),
            &json!("480x480"),
            &json!(7)
        )
    );
    assert!(input["negative_prompt"].is_null());
    assert!(input["image"]["id"].is_string());
    let stored_picture = gateway
        .without_key()
        .get(input["image"]["url"].as_str().unwrap())
        .await;
    assert_eq!(stored_picture.header("content-type"), Some("image/png"));
    assert_eq!(task["key"]["name"], "the app");
    let by_key = format!("/v1/tasks?key={}", task["key"]["id"].as_str().unwrap());
    let listed = caller.get(&by_key).await.ok();
    assert_eq!(listed["data"], json!([task]), "a list shows the same");
    assert_eq!(task["progress_estimated"], false);
    let poster = gateway
        .without_key()
        .get(task["poster_url"].as_str().unwrap())
        .await;
    assert_eq!(poster.header("content-type"), Some("image/jpeg"));
    let plain = gateway.post("/v1/videos", &videos_order()).await;
    let plain = gateway.finished(plain.header("x-task-id").unwrap()).await;
    assert_eq!(plain["input"].get("image"), None);
    gateway.stop().await;
}

/// Orders a video and waits for its record.
async fn film(gateway: &TestGateway, body: &Value) -> Value {
    let answer = gateway.post("/v1/videos", body).await;
    gateway.finished(answer.header("x-task-id").unwrap()).await
}

#[tokio::test]
async fn a_film_without_a_seed_gets_one_that_is_kept() {
    let gateway = TestGateway::start().await;
    let mut body = videos_order();
    body.as_object_mut().unwrap().remove("seed");
    let (first, second) = (film(&gateway, &body).await, film(&gateway, &body).await);
    let seed = |task: &Value| task["input"]["seed"].as_u64().unwrap();
    assert_ne!(seed(&first), seed(&second));
    assert_eq!(first["input"]["seed_drawn"], true);
    let poster = async |task: &Value| {
        let url = task["poster_url"].as_str().unwrap();
        gateway.without_key().get(url).await.bytes
    };
    assert_ne!(poster(&first).await, poster(&second).await);
    body["seed"] = seed(&first).into();
    let repeated = film(&gateway, &body).await;
    assert_eq!(seed(&repeated), seed(&first));
    assert_eq!(repeated["input"].get("seed_drawn"), None);
    gateway.stop().await;
}

#[tokio::test]
async fn a_record_and_its_quote_say_what_the_prompt_means() {
    let gateway = TestGateway::start().await;
    for (prompt, left, first) in [
        (
            "a cat playing piano",
            json!(["cat", "piano"]),
            "nothing in the prompt was understood",
        ),
        ("ein Wald im Nebel, static", json!([]), "static camera"),
    ] {
        let mut body = videos_order();
        body["prompt"] = prompt.into();
        let request = json!({"endpoint": "/v1/videos", "body": body});
        let quote = gateway.post("/v1/quote", &request).await.ok();
        let output = film(&gateway, &body).await["output"].take();
        assert_eq!(output["not_understood"], left);
        assert_eq!(output["direction"][0], first);
        assert_eq!(
            (&quote["direction"], &quote["not_understood"]),
            (&output["direction"], &output["not_understood"])
        );
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_separation_task_shows_its_clip() {
    let gateway = TestGateway::start().await;
    let clip = gateway.upload("Song of songs").await;
    let clip = clip["id"].as_str().unwrap();
    let music = gateway.separate(clip, "two").await;
    let task = gateway.finished(music["id"].as_str().unwrap()).await;
    let input = &task["input"];
    assert_eq!(
        (&input["task"], &input["stem_task"], &input["title"]),
        (&json!("gen_stem"), &json!("two"), &json!("Song of songs"))
    );
    assert_eq!(input["clip"]["id"], clip);
    assert!(input["prompt"].is_null());
    for url in [&input["clip"]["url"], &task["poster_url"]] {
        let file = gateway.without_key().get(url.as_str().unwrap()).await;
        assert_eq!(file.status, 200);
    }
    gateway.stop().await;
}

/// Orders a video, which stays queued.
async fn order(gateway: &TestGateway, prompt: &str) -> String {
    let mut body = videos_order();
    body["prompt"] = prompt.into();
    let answer = gateway.post("/v1/videos", &body).await;
    answer.header("x-task-id").unwrap().to_owned()
}

async fn listed_ids(gateway: &TestGateway, query: &str) -> Vec<String> {
    let list = gateway.get(&format!("/v1/tasks?{query}")).await.ok();
    let data = list["data"].as_array().unwrap();
    let id = |task: &Value| task["id"].as_str().unwrap().to_owned();
    data.iter().map(id).collect()
}

async fn check_filters(gateway: TestGateway) {
    let boat = order(&gateway, "A red Boat at dawn").await;
    let house = order(&gateway, "a house in the red desert").await;
    let lake = order(&gateway, "湖の船").await;
    let clip = gateway.upload("Red roses").await;
    let music = gateway.separate(clip["id"].as_str().unwrap(), "two").await;
    let stem = music["clips"][0]["id"].as_str().unwrap();
    let music = music["id"].as_str().unwrap();
    let claimed = gateway.claim().await;
    gateway.fail(claimed.id, ErrorCode::ContentPolicy).await;
    let failed = claimed.id.to_string();
    assert_eq!(failed, boat, "the first that was ordered");

    for (query, expected) in [
        ("q=red", vec![music, &*house, &*boat]),
        ("q=RED%20boat", vec![&*boat]),
        ("q=boat,%20dawn!", vec![&*boat]),
        ("q=red&kind=video&order=asc", vec![&*boat, &*house]),
        ("q=red&status=failed", vec![&*boat]),
        (
            "q=red&kind=music&model=stems-dsp-1&status=queued",
            vec![music],
        ),
        ("q=re", vec![]),
        ("q=boat%20house", vec![]),
        ("q=%E8%88%B9", vec![&*lake]),
        ("q=!", vec![]),
        ("error=content_policy", vec![&*boat]),
        (
            "error=content_policy&status=failed&kind=video",
            vec![&*boat],
        ),
        ("error=generation_failed", vec![]),
        ("since=2020-01-01&kind=video", vec![&*lake, &*house, &*boat]),
        ("until=2020-01-01", vec![]),
        ("since=2999-01-01T00:00:00Z", vec![]),
        ("until=2999-01-01&q=roses", vec![music]),
    ] {
        assert_eq!(listed_ids(&gateway, query).await, expected, "{query}");
    }
    let video = format!("video_{}", boat.replace('-', ""));
    for id in [&*boat, &video, &format!("chatcmpl-{boat}")] {
        assert_eq!(listed_ids(&gateway, &format!("q={id}")).await, [&*boat]);
    }
    assert_eq!(listed_ids(&gateway, &format!("q={stem}")).await, [music]);
    assert!(
        listed_ids(&gateway, &format!("q={boat}&kind=music"))
            .await
            .is_empty()
    );

    // `since` includes a task that was created at that time, and `until` excludes it.
    let created_at = gateway.get(&format!("/v1/tasks/{house}")).await.ok();
    let created_at = created_at["created_at"].as_str().unwrap().to_owned();
    let (ids_since, ids_until) = (
        listed_ids(&gateway, &format!("since={created_at}&kind=video")).await,
        listed_ids(&gateway, &format!("until={created_at}&kind=video")).await,
    );
    assert!(ids_since.contains(&house) && ids_since.contains(&lake));
    assert!(!ids_until.contains(&house) && !ids_until.contains(&lake));

    let page = gateway.get("/v1/tasks?q=red&limit=2").await.ok();
    assert_eq!(page["has_more"], true);
    let after = page["last_id"].as_str().unwrap();
    assert_eq!(
        listed_ids(&gateway, &format!("q=red&after={after}")).await,
        [&*boat]
    );

    let stranger = gateway.caller("stranger", NewKey::default()).await;
    for query in ["q=red".to_owned(), format!("q={boat}")] {
        let list = stranger.get(&format!("/v1/tasks?{query}")).await.ok();
        assert_eq!(list["data"], json!([]), "{query}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn filters_on_sqlite() {
    let gateway = TestGateway::builder().without_workers().start().await;
    check_filters(gateway).await;
}

#[tokio::test]
async fn filters_on_postgres() {
    let builder = TestGateway::builder().without_workers().on_postgres();
    check_filters(builder.start().await).await;
}

#[tokio::test]
async fn unknown_and_invalid_filters_are_refused() {
    let gateway = TestGateway::builder().without_workers().start().await;
    for (query, param) in [
        ("key=mine", "key"),
        ("error=nonsense", "error"),
        ("since=yesterday", "since"),
        ("until=1700000000", "until"),
        ("stauts=failed", "stauts"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
    ] {
        let answer = gateway.get(&format!("/v1/tasks?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        answer.on_param(param);
    }
    let answer = gateway.get("/v1/tasks?stauts=failed").await;
    for filter in ["status", "since", "q", "limit"] {
        assert!(answer.message().contains(filter), "{}", answer.message());
    }
    gateway.stop().await;
}
