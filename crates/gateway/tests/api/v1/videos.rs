//! `/v1/videos`: the Videos API of `OpenAI`.

use mediagate_model::error::ErrorCode;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::support::files::Files;
use crate::support::{TestGateway, sound, videos_order};

const PATH: &str = "/v1/videos";

#[tokio::test]
async fn a_video_is_made_polled_and_downloaded() {
    let gateway = TestGateway::start().await;
    let answer = gateway.post(PATH, &videos_order()).await;
    let poll: u64 = answer
        .header("openai-poll-after-ms")
        .unwrap()
        .parse()
        .unwrap();
    assert!((200..=5000).contains(&poll));
    let task = answer.header("x-task-id").unwrap().to_owned();
    let video = answer.ok();
    let id = video["id"].as_str().unwrap();
    assert_eq!(id, format!("video_{}", task.replace('-', "")));
    assert_eq!(
        (&video["object"], &video["status"], &video["progress"]),
        (&json!("video"), &json!("queued"), &json!(0))
    );
    assert_eq!(
        (&video["seconds"], &video["size"]),
        (&json!("1"), &json!("480x480"))
    );
    assert_eq!(
        (&video["model"], &video["prompt"]),
        (&json!("animatic-1"), &json!("a lake at dawn"))
    );
    for empty in [
        "completed_at",
        "expires_at",
        "error",
        "remixed_from_video_id",
    ] {
        assert!(video[empty].is_null(), "{empty}");
    }
    gateway.finished(&task).await;
    let answer = gateway.get(&format!("{PATH}/{id}")).await;
    assert!(answer.header("openai-poll-after-ms").is_none());
    let completed = answer.ok();
    assert_eq!(
        (&completed["status"], &completed["progress"]),
        (&json!("completed"), &json!(100))
    );
    assert!(completed["completed_at"].as_i64() >= completed["created_at"].as_i64());
    assert!(completed["expires_at"].as_i64() > completed["completed_at"].as_i64());

    let content = gateway.get(&format!("{PATH}/{id}/content")).await;
    assert_eq!(
        (content.status, content.header("content-type")),
        (200, Some("video/mp4"))
    );
    assert_eq!(
        content.bytes.len() as u64,
        completed["video"]["bytes"].as_u64().unwrap()
    );
    for variant in ["thumbnail", "spritesheet"] {
        let picture = gateway
            .get(&format!("{PATH}/{id}/content?variant={variant}"))
            .await;
        assert_eq!(
            (picture.status, picture.header("content-type")),
            (200, Some("image/jpeg"))
        );
        assert_eq!(picture.bytes[..2], [0xff, 0xd8]);
    }
    let part = gateway
        .request(Method::GET, &format!("{PATH}/{id}/content"))
        .header("range", "bytes=4-7");
    let part = gateway.send(part).await;
    assert_eq!((part.status, &part.bytes[..]), (206, &b"ftyp"[..]));
    let invalid = gateway
        .get(&format!("{PATH}/{id}/content?variant=gif"))
        .await;
    invalid.refused(400, "invalid_value").on_param("variant");

    let deleted = gateway.delete(&format!("{PATH}/{id}")).await.ok();
    assert_eq!(
        deleted,
        json!({"id": id, "object": "video.deleted", "deleted": true})
    );
    gateway
        .get(&format!("{PATH}/{id}"))
        .await
        .refused(404, "task_not_found");
    gateway
        .get(&format!("{PATH}/{id}/content"))
        .await
        .refused(404, "task_not_found");
    gateway
        .delete(&format!("{PATH}/{id}"))
        .await
        .refused(404, "task_not_found");
    assert_eq!(gateway.get(PATH).await.ok()["data"], json!([]));
    // The video's URL expires, too, and no other one is promised. The task's record stays.
    let gone = gateway
        .get(completed["video"]["url"].as_str().unwrap())
        .await;
    gone.refused(410, "link_expired");
    assert_eq!(gone.message(), "The file has expired or was deleted.");
    assert_eq!(
        gateway.get(&format!("/v1/tasks/{task}")).await.ok()["status"],
        "succeeded"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn every_form_of_a_reference_is_accepted() {
    let gateway = TestGateway::builder()
        .without_workers()
        .allow_loopback()
        .start()
        .await;
    let files = Files::start().await;
    let url = files.url("/picture.png");
    let form = || {
        Form::new()
            .text("prompt", "hold")
            .text("seconds", "2")
            .text("model", "animatic-1")
    };
    let send = async |form: Form| {
        gateway
            .send(gateway.request(Method::POST, PATH).multipart(form))
            .await
            .ok()
    };
    let file = Part::bytes(sound::png(64, 48))
        .file_name("a.png")
        .mime_str("image/png")
        .unwrap();
    let videos = [
        send(form().part("input_reference", file)).await,
        send(form().text("input_reference[image_url]", url.clone())).await,
        send(form().text("input_reference", json!({"image_url": url}).to_string())).await,
        send(form().text(
            "input_reference[image_url]",
            sound::data_url("image/png", &sound::png(64, 48)),
        ))
        .await,
        gateway
            .post(
                PATH,
                &json!({"prompt": "hold", "seconds": 2, "input_reference": {"image_url": url}}),
            )
            .await
            .ok(),
        gateway
            .post(
                PATH,
                &json!({"prompt": "hold", "seconds": "2", "input_reference": url}),
            )
            .await
            .ok(),
    ];
    for video in &videos {
        assert_eq!(
            (&video["status"], &video["seconds"]),
            (&json!("queued"), &json!("2"))
        );
        // The video has the aspect ratio of the picture.
        let (width, height) = video["size"].as_str().unwrap().split_once('x').unwrap();
        assert_eq!(
            width.parse::<u32>().unwrap() * 3,
            height.parse::<u32>().unwrap() * 4
        );
    }
    let plain = send(form().text("size", "480x854").text("seed", "7")).await;
    assert_eq!(plain["size"], "480x854");
    gateway.stop().await;
}

/// A browser sends every field of a form, also those that were left empty.
#[tokio::test]
async fn what_a_form_leaves_empty_is_absent() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let send = async |form: Form| {
        gateway
            .send(gateway.request(Method::POST, PATH).multipart(form))
            .await
    };
    let empty_file = |name: &'static str| Part::bytes(Vec::new()).file_name(name);
    let mut form = Form::new()
        .text("prompt", "hold")
        .part("input_reference", empty_file(""))
        .part("images[]", empty_file(""));
    for name in [
        "model",
        "seconds",
        "duration",
        "size",
        "seed",
        "audio",
        "n",
        "label",
        "negative_prompt",
        "provider_options",
        "callback_url",
        "end_image",
        "input_reference[image_url]",
        "reference_images[]",
    ] {
        form = form.text(name, "");
    }
    assert_eq!(send(form).await.ok()["model"], "animatic-1");
    send(Form::new().text("prompt", ""))
        .await
        .refused(400, "missing_field")
        .on_param("prompt");
    // A file with a name was chosen.
    let form = Form::new().text("prompt", "hold");
    send(form.part("input_reference", empty_file("a.png")))
        .await
        .refused(422, "image_invalid")
        .on_param("input_reference");
    let form = Form::new().text("prompt", "hold");
    send(form.text("input_reference", "{\"image_url\": "))
        .await
        .refused(400, "invalid_json")
        .on_param("input_reference");
    // An object in a form has the limits of a JSON body: in memory this one takes a hundred times
    // its text.
    let many = format!("{{\"a\": [{}1]}}", "{\"b\":1},".repeat(100_000));
    let form = Form::new().text("prompt", "hold");
    send(form.text("provider_options", many))
        .await
        .refused(413, "body_too_large")
        .on_param("provider_options");
    gateway.stop().await;
}

#[tokio::test]
async fn wrong_fields_are_named_in_both_forms() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let cases = [
        ("prompt", json!(null), "missing_field", "prompt"),
        ("prompt", json!(""), "invalid_value", "prompt"),
        ("prompt", json!(1), "invalid_type", "prompt"),
        ("model", json!("nobody"), "model_not_found", "model"),
        ("model", json!("stems-dsp-1"), "unsupported_value", "model"),
        ("seconds", json!("soon"), "invalid_value", "seconds"),
        ("seconds", json!("60"), "unsupported_value", "seconds"),
        ("seconds", json!(true), "invalid_type", "seconds"),
        ("size", json!("big"), "invalid_value", "size"),
        ("size", json!("123x456"), "unsupported_value", "size"),
        ("seed", json!(-1), "invalid_value", "seed"),
        (
            "input_reference",
            json!(1),
            "invalid_type",
            "input_reference",
        ),
        (
            "input_reference",
            json!({}),
            "missing_field",
            "input_reference.image_url",
        ),
        (
            "input_reference",
            json!({"file_id": "f"}),
            "unsupported_value",
            "input_reference.file_id",
        ),
        (
            "input_reference",
            json!("data:x"),
            "image_invalid",
            "input_reference",
        ),
    ];
    for (field, value, code, param) in cases {
        let mut order = videos_order();
        order[field] = value;
        let answer = gateway.post(PATH, &order).await;
        let status = match code {
            "model_not_found" => 404,
            "image_invalid" => 422,
            _ => 400,
        };
        answer.refused(status, code).on_param(param);
    }
    let send = async |form: Form| {
        gateway
            .send(gateway.request(Method::POST, PATH).multipart(form))
            .await
    };
    send(Form::new().text("size", "480x480"))
        .await
        .refused(400, "missing_field")
        .on_param("prompt");
    send(Form::new().text("prompt", "x").text("seed", "x"))
        .await
        .refused(400, "invalid_type")
        .on_param("seed");
    let bad = Part::bytes(b"not a picture".to_vec()).file_name("a.png");
    send(Form::new().text("prompt", "x").part("input_reference", bad))
        .await
        .refused(422, "image_invalid")
        .on_param("input_reference");
    let broken = gateway
        .request(Method::POST, PATH)
        .header("content-type", "multipart/form-data; boundary=b")
        .body("--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\nhalf");
    gateway.send(broken).await.refused(400, "invalid_value");
    let unbounded = gateway
        .request(Method::POST, PATH)
        .header("content-type", "multipart/form-data")
        .body("x");
    gateway.send(unbounded).await.refused(400, "invalid_value");
    assert_eq!(gateway.get("/v1/tasks").await.ok()["data"], json!([]));
    gateway.stop().await;
}

#[tokio::test]
async fn the_list_pages_in_both_orders() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(gateway.post(PATH, &videos_order()).await.ok()["id"].clone());
    }
    let pages = async |order: &str| {
        let mut paged: Vec<Value> = Vec::new();
        let mut after = String::new();
        loop {
            let page = gateway
                .get(&format!("{PATH}?limit=2&order={order}{after}"))
                .await
                .ok();
            let data = page["data"].as_array().unwrap();
            assert_eq!(page["first_id"], data[0]["id"]);
            paged.extend(data.iter().map(|video| video["id"].clone()));
            if page["has_more"] == false {
                return paged;
            }
            after = format!("&after={}", page["last_id"].as_str().unwrap());
        }
    };
    assert_eq!(pages("asc").await, ids);
    ids.reverse();
    assert_eq!(pages("desc").await, ids);
    gateway
        .get(&format!("{PATH}?order=up"))
        .await
        .refused(400, "invalid_value")
        .on_param("order");
    gateway
        .get(&format!("{PATH}?after=video_x"))
        .await
        .refused(400, "invalid_value")
        .on_param("after");
    gateway
        .get(&format!(
            "{PATH}/{}",
            "video_00000000000000000000000000000000"
        ))
        .await
        .refused(404, "task_not_found");
    gateway.stop().await;
}

/// A failed video stays failed, so a program that repeats what can be retried must not repeat this.
#[tokio::test]
async fn the_content_of_a_failed_video_is_not_asked_for_again() {
    let gateway = TestGateway::builder().without_workers().start().await;
    for (code, status) in [
        (ErrorCode::GenerationFailed, 409),
        (ErrorCode::ProviderUnavailable, 409),
        (ErrorCode::ContentPolicy, 422),
        (ErrorCode::SubmissionUnconfirmed, 424),
    ] {
        let answer = gateway.post(PATH, &videos_order()).await;
        let video = answer.ok()["id"].as_str().unwrap().to_owned();
        let task = gateway.claim().await.id;
        gateway.fail(task, code).await;
        let answer = gateway.get(&format!("{PATH}/{video}/content")).await;
        answer.refused(status, code.name());
        assert_eq!(answer.message(), "The script says so.");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        assert_eq!(answer.header("retry-after"), None);
        assert_eq!(answer.header("x-task-id"), Some(task.to_string().as_str()));
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_unfinished_video_has_no_content_and_deleting_it_cancels_it() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let make = async || {
        let answer = gateway.post(PATH, &videos_order()).await;
        (
            answer.header("x-task-id").unwrap().to_owned(),
            answer.ok()["id"].as_str().unwrap().to_owned(),
        )
    };
    let (failed_task, failed) = make().await;
    gateway
        .get(&format!("{PATH}/{failed}/content"))
        .await
        .refused(409, "video_not_ready");
    let claimed = gateway.claim().await;
    assert_eq!(claimed.id.to_string(), failed_task);
    let running = gateway.get(&format!("{PATH}/{failed}")).await;
    assert!(running.header("openai-poll-after-ms").is_some());
    assert_eq!(running.ok()["status"], "in_progress");
    gateway.fail(claimed.id, ErrorCode::GenerationFailed).await;
    let view = gateway.get(&format!("{PATH}/{failed}")).await.ok();
    assert_eq!(
        (&view["status"], &view["error"]["code"]),
        (&json!("failed"), &json!("generation_failed"))
    );
    gateway
        .get(&format!("{PATH}/{failed}/content"))
        .await
        .refused(409, "generation_failed");

    for is_running in [false, true] {
        let (task, video) = make().await;
        if is_running {
            gateway.claim().await;
        }
        gateway.delete(&format!("{PATH}/{video}")).await.ok();
        gateway
            .get(&format!("{PATH}/{video}"))
            .await
            .refused(404, "task_not_found");
        assert_eq!(
            gateway.get(&format!("/v1/tasks/{task}")).await.ok()["status"],
            "cancelled"
        );
    }
    let (task, video) = make().await;
    gateway
        .post(&format!("/v1/tasks/{task}/cancel"), &json!({}))
        .await
        .ok();
    let view = gateway.get(&format!("{PATH}/{video}")).await.ok();
    assert_eq!(
        (&view["status"], &view["error"]["code"]),
        (&json!("failed"), &json!("cancelled"))
    );
    gateway.stop().await;
}
