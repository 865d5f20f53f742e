//! `POST /v1/chat/completions`.

use std::time::Duration;

use mediagate_model::clock::Clock;
use mediagate_model::error::ErrorCode;
use mediagate_model::task::{PictureRole, TaskPayload};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::files::Files;
use crate::support::spec::{CHAT, USAGE, assert_fields};
use crate::support::sse::{Event, Events};
use crate::support::{Answer, TestGateway, eventually, sound, video_order};

const PATH: &str = "/v1/chat/completions";

/// A gateway without workers and with a short wait: accepted orders are answered
/// with 503 `still_running`.
async fn gateway_with_short_wait() -> TestGateway {
    let builder = TestGateway::builder().without_workers().allow_loopback();
    builder
        .set(|settings| settings.wait_limit = Some(Duration::from_millis(20)))
        .start()
        .await
}

/// Asserts that a task was accepted, and returns its view.
async fn assert_accepted(gateway: &TestGateway, answer: &Answer) -> Value {
    answer.refused(503, "still_running");
    let task = answer.header("x-task-id").unwrap();
    gateway.get(&format!("/v1/tasks/{task}")).await.ok()
}

#[tokio::test]
async fn the_answer_has_every_field_and_its_url_needs_no_key() {
    let gateway = TestGateway::start().await;
    let before = Clock::system().now().seconds();
    let answer = gateway.post(PATH, &video_order()).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    let body = answer.ok();
    assert_fields(&body, CHAT, &[]);
    assert_eq!(body["id"], format!("chatcmpl-{task}"));
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["model"], "animatic-1");
    let created = body["created"].as_i64().unwrap();
    assert!((before..=before + 60).contains(&created));
    let fingerprint = body["system_fingerprint"].as_str().unwrap();
    let digits = fingerprint.strip_prefix("fp_").unwrap();
    assert!(
        digits.len() == 10
            && digits
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    );

    assert_eq!(body["choices"].as_array().unwrap().len(), 1);
    let choice = &body["choices"][0];
    assert_eq!(choice["index"], 0);
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(choice["message"]["role"], "assistant");
    let url = choice["message"]["content"].as_str().unwrap();
    let video = &choice["message"]["video"];
    assert!(
        url.starts_with(&gateway.base) && url.ends_with(".mp4"),
        "{url}"
    );
    assert_eq!(video["url"], url);
    assert_eq!(video["mime_type"], "video/mp4");
    assert_eq!(video["codec"], "h264");
    assert_eq!(
        (&video["width"], &video["height"]),
        (&json!(480), &json!(480))
    );
    assert!(
        (video["seconds"].as_f64().unwrap() - 1.0).abs() < 0.05,
        "{video}"
    );
    assert_eq!(video["id"], format!("video_{}", task.replace('-', "")));
    let file = gateway.without_key().get(url).await;
    assert_eq!(
        (file.status, file.header("content-type")),
        (200, Some("video/mp4"))
    );
    assert_eq!(video["bytes"], file.bytes.len());
    let hex = mediagate_core::domain::assets::sha256_hex(&file.bytes);
    assert_eq!(video["sha256"], hex);
    assert_eq!(&file.bytes[4..8], b"ftyp");

    let usage = &body["usage"];
    assert_fields(usage, USAGE, &["cost"]);
    // "a lake at dawn" in the o200k_base vocabulary.
    assert_eq!(usage["prompt_tokens"], 4);
    let tokens = usage["completion_tokens"].as_u64().unwrap();
    assert!(tokens > 10);
    assert_eq!(usage["total_tokens"], tokens + 4);
    assert_eq!(
        usage["completion_tokens_details"]["video_seconds"],
        video["seconds"]
    );
    assert_eq!(usage["cost"], 0.0);

    let repeated = gateway.post(PATH, &video_order()).await.ok();
    assert_eq!(repeated["system_fingerprint"], fingerprint);
    assert_ne!(
        repeated["id"], body["id"],
        "a repetition of an answered request is a new intent"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn n_makes_different_videos_and_the_answer_has_the_first_tasks_id() {
    let gateway = TestGateway::start().await;
    let mut order = video_order();
    order["n"] = json!(2);
    let answer = gateway.post(PATH, &order).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    let body = answer.ok();
    assert_eq!(body["id"], format!("chatcmpl-{task}"));
    let choices = body["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 2);
    assert_eq!(
        (&choices[0]["index"], &choices[1]["index"]),
        (&json!(0), &json!(1))
    );
    let video = |n: usize| &choices[n]["message"]["video"];
    assert_ne!(video(0)["sha256"], video(1)["sha256"], "the seeds differ");
    assert_eq!(video(0)["id"], format!("video_{}", task.replace('-', "")));
    let list = gateway.get("/v1/tasks").await.ok();
    assert_eq!(list["data"].as_array().unwrap().len(), 2);
    gateway.stop().await;
}

#[tokio::test]
async fn the_options_and_the_seed_are_applied() {
    // Each film's watermark is different.
    let unmarked =
        TestGateway::builder().set(|settings| settings.provenance.watermark = Some(false));
    let gateway = unmarked.start().await;
    let mut order = video_order();
    order["video"] = json!({"size": "640x480", "seconds": 1.5, "seed": 7});
    let video = gateway.post(PATH, &order).await.ok()["choices"][0]["message"]["video"].take();
    assert_eq!(
        (&video["width"], &video["height"]),
        (&json!(640), &json!(480))
    );
    assert!(
        (video["seconds"].as_f64().unwrap() - 1.5).abs() < 0.05,
        "{video}"
    );
    let repeated = gateway.post(PATH, &order).await.ok()["choices"][0]["message"]["video"].take();
    // A signature contains its time, so no two files are equal; their frames are.
    let is_same = video["sha256"] == repeated["sha256"];
    assert_eq!(is_same, !cfg!(feature = "c2pa"));
    let film_frames = async |video: &Value| {
        let file = gateway.get(video["url"].as_str().unwrap()).await.bytes;
        frames(&file).to_vec()
    };
    let frames_shown = film_frames(&video).await;
    assert!(
        frames_shown.len() > 1000 && frames_shown == film_frames(&repeated).await,
        "a seed determines the film"
    );
    gateway.stop().await;
}

/// The encoded frames of an MP4.
fn frames(file: &[u8]) -> &[u8] {
    let mut rest = file;
    loop {
        let (size, kind) = (rest[..4].try_into().unwrap(), &rest[4..8]);
        let size = u32::from_be_bytes(size) as usize;
        if kind == b"mdat" {
            return &rest[8..size];
        }
        rest = &rest[size..];
    }
}

#[tokio::test]
async fn pictures_can_be_urls_and_data_urls() {
    let gateway = gateway_with_short_wait().await;
    let files = Files::start().await;
    let picture = sound::png(64, 48);
    for url in [
        files.url("/picture.png"),
        files.url("/redirect/3"),
        format!("http://localhost:{}/picture.png", files.port),
        sound::data_url("image/png", &picture),
        // The bytes determine the type, not its name.
        sound::data_url("text/plain", &picture),
    ] {
        let content = json!([
            {"type": "text", "text": "slow"}, {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
            {"type": "text", "text": "dolly in"},
        ]);
        let order = json!({"model": "animatic-1", "max_tokens": 1000, "messages": [{"role": "user", "content": content}]});
        assert_accepted(&gateway, &gateway.post(PATH, &order).await).await;
        let task = gateway.claim().await;
        let TaskPayload::VideoV1(job) = task.payload else {
            panic!("no video");
        };
        assert_eq!(job.prompt, "slow\ndolly in");
        assert!(job.picture(PictureRole::FirstFrame).is_some());
        assert_eq!(
            job.width * 3,
            job.height * 4,
            "the video has the picture's aspect ratio"
        );
    }
    assert_eq!(files.hits(), 1 + 4 + 1, "each redirect is a request");
    gateway.stop().await;
}

#[tokio::test]
async fn a_picture_becomes_the_first_frame() {
    let gateway = TestGateway::start().await;
    let red = image::RgbImage::from_pixel(96, 96, image::Rgb([200, 30, 30]));
    let mut bytes = std::io::Cursor::new(Vec::new());
    red.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    let url = sound::data_url("image/png", &bytes.into_inner());
    let mut order = video_order();
    order["messages"][0]["content"] = json!([
        {"type": "text", "text": "hold"}, {"type": "image_url", "image_url": {"url": url}}]);
    let body = gateway.post(PATH, &order).await.ok();
    let video = &body["choices"][0]["message"]["video"];
    let poster = gateway.get(video["poster_url"].as_str().unwrap()).await;
    let poster = animatic::picture::decode(&poster.bytes, &animatic::PictureLimits::default());
    assert_eq!(poster.unwrap().size(), (480, 480));
    gateway.stop().await;
}

#[tokio::test]
async fn the_prompt_is_the_last_user_message_and_extras_of_other_apis_are_ignored() {
    let gateway = gateway_with_short_wait().await;
    let order = json!({
        "model": "animatic-1",
        "messages": [
            {"role": "system", "content": "be brief"}, {"role": "user", "content": "first"},
            {"role": "assistant", "content": null}, {"role": "user", "content": "second"},
            {"role": "assistant", "content": "third"},
        ],
        "temperature": 1, "top_p": 0.5, "stop": ["a", "b"], "logit_bias": null, "presence_penalty": -2,
        "frequency_penalty": 0.5, "max_tokens": 16, "stream": null, "n": null, "user": "someone",
        "tools": [{"type": "function"}], "logprobs": 5, "seed": "what",
    });
    let view = assert_accepted(&gateway, &gateway.post(PATH, &order).await).await;
    assert_eq!(view["user"], "someone");
    let TaskPayload::VideoV1(job) = gateway.claim().await.payload else {
        panic!("no video");
    };
    assert_eq!(job.prompt, "second");
    gateway.stop().await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
async fn a_wrong_field_is_named_with_its_code() {
    let gateway = gateway_with_short_wait().await;
    let user = |content: Value| json!([{"role": "user", "content": content}]);
    let part =
        |part: Value| json!([{"role": "user", "content": [{"type": "text", "text": "x"}, part]}]);
    let cases = [
        ("model", json!(null), "missing_field", "model"),
        ("model", json!(5), "invalid_type", "model"),
        ("model", json!(""), "invalid_value", "model"),
        ("messages", json!(null), "missing_field", "messages"),
        ("messages", json!("x"), "invalid_type", "messages"),
        ("messages", json!([]), "invalid_value", "messages"),
        ("messages", json!(["x"]), "invalid_type", "messages[0]"),
        (
            "messages",
            json!([{"content": "x"}]),
            "missing_field",
            "messages[0].role",
        ),
        (
            "messages",
            json!([{"role": "user"}]),
            "missing_field",
            "messages[0].content",
        ),
        (
            "messages",
            json!([{"role": "robot", "content": "x"}, {"role": "user", "content": "x"}]),
            "invalid_value",
            "messages[0].role",
        ),
        (
            "messages",
            json!([{"role": "system", "content": "x"}]),
            "invalid_value",
            "messages",
        ),
        (
            "messages",
            user(json!(" ")),
            "invalid_value",
            "messages[0].content",
        ),
        (
            "messages",
            user(json!([])),
            "invalid_value",
            "messages[0].content",
        ),
        (
            "messages",
            user(json!(1)),
            "invalid_type",
            "messages[0].content",
        ),
        (
            "messages",
            user(json!("x".repeat(32_001))),
            "invalid_value",
            "messages[0].content",
        ),
        (
            "messages",
            user(json!("nul \u{0}")),
            "invalid_value",
            "messages[0].content",
        ),
        (
            "messages",
            part(json!("x")),
            "invalid_type",
            "messages[0].content[1]",
        ),
        (
            "messages",
            part(json!({})),
            "missing_field",
            "messages[0].content[1].type",
        ),
        (
            "messages",
            part(json!({"type": "video_url"})),
            "unsupported_value",
            "messages[0].content[1].type",
        ),
        (
            "messages",
            part(json!({"type": "text"})),
            "missing_field",
            "messages[0].content[1].text",
        ),
        (
            "messages",
            part(json!({"type": "image_url"})),
            "missing_field",
            "messages[0].content[1].image_url",
        ),
        (
            "messages",
            part(json!({"type": "image_url", "image_url": "http://x"})),
            "invalid_type",
            "messages[0].content[1].image_url",
        ),
        (
            "messages",
            part(json!({"type": "image_url", "image_url": {}})),
            "missing_field",
            "messages[0].content[1].image_url.url",
        ),
        (
            "messages",
            part(json!({"type": "image_url", "image_url": {"url": ""}})),
            "invalid_value",
            "messages[0].content[1].image_url.url",
        ),
        ("stream", json!("yes"), "invalid_type", "stream"),
        ("stream_options", json!(1), "invalid_type", "stream_options"),
        (
            "stream_options",
            json!({"include_usage": 1}),
            "invalid_type",
            "stream_options.include_usage",
        ),
        ("temperature", json!("hot"), "invalid_type", "temperature"),
        ("temperature", json!(2.1), "invalid_value", "temperature"),
        ("temperature", json!(-0.1), "invalid_value", "temperature"),
        ("top_p", json!(1.1), "invalid_value", "top_p"),
        ("n", json!(0), "invalid_value", "n"),
        ("n", json!(5), "invalid_value", "n"),
        ("n", json!(1.5), "invalid_type", "n"),
        ("stop", json!(1), "invalid_type", "stop"),
        ("stop", json!([1]), "invalid_type", "stop"),
        (
            "stop",
            json!(["a", "b", "c", "d", "e"]),
            "invalid_value",
            "stop",
        ),
        ("max_tokens", json!(0), "invalid_value", "max_tokens"),
        ("max_tokens", json!("many"), "invalid_type", "max_tokens"),
        (
            "presence_penalty",
            json!(3),
            "invalid_value",
            "presence_penalty",
        ),
        (
            "frequency_penalty",
            json!(-3),
            "invalid_value",
            "frequency_penalty",
        ),
        ("logit_bias", json!([]), "invalid_type", "logit_bias"),
        ("user", json!(1), "invalid_type", "user"),
        ("video", json!("x"), "invalid_type", "video"),
        (
            "video",
            json!({"seconds": "x"}),
            "invalid_value",
            "video.seconds",
        ),
        (
            "video",
            json!({"seconds": 0.5}),
            "unsupported_value",
            "video.seconds",
        ),
        (
            "video",
            json!({"seconds": 21}),
            "unsupported_value",
            "video.seconds",
        ),
        (
            "video",
            json!({"size": "wide"}),
            "invalid_value",
            "video.size",
        ),
        (
            "video",
            json!({"size": "100x100"}),
            "unsupported_value",
            "video.size",
        ),
        ("video", json!({"seed": -1}), "invalid_value", "video.seed"),
        ("video", json!({"seed": "x"}), "invalid_type", "video.seed"),
        (
            "video",
            json!({"negative_prompt": "rain"}),
            "unsupported_value",
            "video.negative_prompt",
        ),
    ];
    for (field, value, code, param) in cases {
        let mut order = json!({"model": "animatic-1", "messages": user(json!("x"))});
        order[field] = value;
        let answer = gateway.post(PATH, &order).await;
        answer.refused(400, code).on_param(param);
        assert_eq!(answer.json["error"]["type"], "invalid_request_error");
    }
    let list = gateway.get("/v1/tasks").await.ok();
    assert_eq!(list["data"], json!([]), "no task was accepted");
    gateway.stop().await;
}

#[tokio::test]
async fn all_errors_are_named_at_once() {
    let gateway = gateway_with_short_wait().await;
    let order =
        json!({"messages": [{"role": "user"}], "n": 9, "temperature": "x", "video": {"seed": "x"}});
    let answer = gateway.post(PATH, &order).await;
    answer.refused(400, "missing_field").on_param("model");
    for field in [
        "model",
        "messages[0].content",
        "n",
        "temperature",
        "video.seed",
    ] {
        assert!(
            answer.message().contains(&format!("{field}:")),
            "{}",
            answer.message()
        );
    }
    let urls = [
        sound::data_url("image/png", &sound::png(9, 9)),
        "http://127.0.0.1/x".into(),
    ];
    let parts: Vec<Value> = urls
        .iter()
        .map(|url| json!({"type": "image_url", "image_url": {"url": url}}))
        .collect();
    let order = json!({"model": "animatic-1", "messages": [{"role": "user", "content": parts}]});
    let answer = gateway.post(PATH, &order).await;
    answer
        .refused(400, "unsupported_value")
        .on_param("messages[0].content[1].image_url.url");
    gateway.stop().await;
}

#[tokio::test]
async fn an_unknown_model_or_one_without_videos_is_refused() {
    let gateway = gateway_with_short_wait().await;
    let mut order = video_order();
    order["model"] = json!("sora-9");
    let answer = gateway.post(PATH, &order).await;
    answer.refused(404, "model_not_found").on_param("model");
    assert_eq!(answer.json["error"]["type"], "not_found_error");
    order["model"] = json!("stems-dsp-1");
    gateway
        .post(PATH, &order)
        .await
        .refused(400, "unsupported_value")
        .on_param("model");
    gateway.stop().await;
}

#[tokio::test]
async fn the_end_of_a_wait_does_not_end_the_task() {
    let mut gateway = gateway_with_short_wait().await;
    let answer = gateway.post(PATH, &video_order()).await;
    answer.refused(503, "still_running");
    let task = answer.header("x-task-id").unwrap().to_owned();
    assert!(answer.message().contains(&task));
    assert_eq!(answer.json["error"]["task_id"], task);
    assert_eq!(answer.header("x-should-retry"), Some("true"));
    assert!(
        answer
            .header("retry-after")
            .unwrap()
            .parse::<u32>()
            .unwrap()
            > 0
    );
    gateway.start_workers().await;
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded");
    assert_eq!(view["output"]["videos"][0]["width"], 480);
    gateway.stop().await;
}

/// A gateway without workers, a request that waits for its task, and the task.
async fn gateway_with_waiting_request() -> (TestGateway, tokio::task::JoinHandle<Answer>, String) {
    let gateway = TestGateway::builder().without_workers().start().await;
    let client = gateway.client.clone();
    let waiting = tokio::spawn(async move { client.post(PATH, &video_order()).await });
    let task = eventually("the task is accepted", async || {
        let list = gateway.get("/v1/tasks").await.ok();
        list["data"][0]["id"].as_str().map(ToOwned::to_owned)
    });
    let task = task.await;
    (gateway, waiting, task)
}

#[tokio::test]
async fn a_waiting_request_is_answered_when_its_task_is_cancelled() {
    let (gateway, waiting, task) = gateway_with_waiting_request().await;
    gateway
        .post(&format!("/v1/tasks/{task}/cancel"), &json!({}))
        .await
        .ok();
    let answer = waiting.await.unwrap();
    answer.refused(409, "cancelled");
    assert_eq!(answer.header("x-task-id"), Some(task.as_str()));
    gateway.stop().await;
}

#[tokio::test]
async fn a_waiting_request_is_answered_when_its_task_fails() {
    let (gateway, waiting, task) = gateway_with_waiting_request().await;
    let claimed = gateway.claim().await;
    gateway.fail(claimed.id, ErrorCode::GenerationFailed).await;
    let answer = waiting.await.unwrap();
    answer.refused(503, "generation_failed");
    assert_eq!(answer.header("x-task-id"), Some(task.as_str()));
    assert_eq!(answer.message(), "The script says so.");
    gateway.stop().await;
}

#[tokio::test]
async fn a_price_is_charged_by_the_second_and_shown() {
    let gateway = TestGateway::builder()
        .toml("[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.123456\" }")
        .start()
        .await;
    let answer = gateway.post(PATH, &video_order()).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    assert_eq!(answer.ok()["usage"]["cost"], 0.123_456);
    let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    assert_eq!(view["cost_usd"], "0.123456");
    gateway.stop().await;
}

fn stream_request(
    gateway: &TestGateway,
    change: impl FnOnce(&mut Value),
) -> reqwest::RequestBuilder {
    let mut order = video_order();
    order["stream"] = json!(true);
    change(&mut order);
    gateway.request(Method::POST, PATH).json(&order)
}

#[tokio::test]
async fn a_stream_has_role_progress_url_stop_usage_and_done() {
    let gateway = TestGateway::start().await;
    let request = stream_request(&gateway, |order| {
        order["stream_options"] = json!({"include_usage": true});
    });
    let events = Events::open(request).await;
    let task = events.response.headers()["x-task-id"]
        .to_str()
        .unwrap()
        .to_owned();
    let mut events = events.rest().await;
    assert_eq!(events.pop().unwrap().data, "[DONE]");
    let chunks: Vec<Value> = events.iter().map(Event::json).collect();
    for chunk in &chunks {
        assert_eq!(chunk["id"], format!("chatcmpl-{task}"));
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk["model"], "animatic-1");
        assert!(chunk["created"].is_i64());
        assert_eq!(chunk["system_fingerprint"], chunks[0]["system_fingerprint"]);
    }
    let (first, rest) = chunks.split_first().unwrap();
    assert_eq!(
        first["choices"],
        json!([{"index": 0, "delta": {"role": "assistant"}, "finish_reason": null}])
    );
    let (usage, rest) = rest.split_last().unwrap();
    assert_eq!(usage["choices"], json!([]));
    assert_fields(&usage["usage"], USAGE, &["cost"]);
    let (stop, rest) = rest.split_last().unwrap();
    assert_eq!(
        stop["choices"],
        json!([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    );
    assert!(stop["usage"].is_null());
    let (content, progress) = rest.split_last().unwrap();
    let delta = &content["choices"][0]["delta"];
    assert_eq!(delta["content"], delta["video"]["url"]);
    let file = gateway
        .without_key()
        .get(delta["content"].as_str().unwrap())
        .await;
    assert_eq!(file.status, 200);
    assert!(content["choices"][0]["finish_reason"].is_null());
    let steps: Vec<(&str, u64)> = progress
        .iter()
        .map(|chunk| {
            assert_eq!(
                chunk["choices"],
                json!([{"index": 0, "delta": {}, "finish_reason": null}])
            );
            assert_eq!(chunk["task"]["id"], task);
            let status = chunk["task"]["status"].as_str().unwrap();
            (status, chunk["task"]["progress"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(steps[0], ("queued", 0));
    assert_eq!(steps.last(), Some(&("succeeded", 100)));
    assert!(
        steps.is_sorted_by_key(|(_, progress)| *progress),
        "{steps:?}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_stream_without_usage_ends_with_stop() {
    let gateway = TestGateway::start().await;
    let mut events = Events::open(stream_request(&gateway, |_| {}))
        .await
        .rest()
        .await;
    assert_eq!(events.pop().unwrap().data, "[DONE]");
    let last = events.pop().unwrap().json();
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert!(last.get("usage").is_none());
    gateway.stop().await;
}

#[tokio::test]
async fn a_failure_during_a_stream_is_its_last_event() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let mut events = Events::open(stream_request(&gateway, |_| {})).await;
    assert_eq!(
        events.next().await.unwrap().json()["choices"][0]["delta"]["role"],
        "assistant"
    );
    assert_eq!(
        events.next().await.unwrap().json()["task"]["status"],
        "queued"
    );
    let task = gateway.claim().await;
    assert_eq!(
        events.next().await.unwrap().json()["task"]["status"],
        "running"
    );
    gateway.progress(task.id, 40).await;
    assert_eq!(events.next().await.unwrap().json()["task"]["progress"], 40);
    gateway.fail(task.id, ErrorCode::GenerationFailed).await;
    let mut rest = events.rest().await;
    let error = rest.pop().unwrap().json();
    assert_eq!(error["error"]["code"], "generation_failed");
    assert_eq!(error["error"]["type"], "provider_error");
    assert_eq!(error["error"]["task_id"], task.id.to_string());
    assert!(rest.iter().all(|event| event.data != "[DONE]"));
    gateway.stop().await;
}

#[tokio::test]
async fn a_refused_request_is_not_streamed() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let answer = gateway
        .send(stream_request(&gateway, |order| order["n"] = json!(7)))
        .await;
    answer.refused(400, "invalid_value").on_param("n");
    gateway.stop().await;
}
