//! Lengths, pictures and other options under the names and at the places that other services use.

use std::sync::atomic::{AtomicUsize, Ordering};

use mediagate_core::domain::keys::NewKey;
use mediagate_model::task::{Choice, PictureRole, TaskPayload, VideoJob};
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::money::PRICES;
use crate::support::files::Files;
use crate::support::{Answer, TestGateway, sound};

const CHAT: &str = "/v1/chat/completions";
const VIDEOS: &str = "/v1/videos";

async fn priced_gateway() -> TestGateway {
    let builder = TestGateway::builder().without_workers().toml(PRICES);
    let wait = std::time::Duration::from_millis(20);
    let builder = builder.set(|settings| settings.wait_limit = Some(wait));
    builder.allow_loopback().start().await
}

/// The same fields in each of the three places, with the endpoint. Each prompt is another one:
/// identical orders are one order, however they are written.
fn in_each_place(fields: &Value) -> [(&'static str, Value); 3] {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let prompt = || format!("a lake at dawn {}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let with_fields = |mut body: Value| {
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let chat =
        || json!({"model": "animatic-1", "messages": [{"role": "user", "content": prompt()}]});
    let mut nested = chat();
    nested["video"] = fields.clone();
    let video = json!({"model": "animatic-1", "prompt": prompt()});
    [
        (VIDEOS, with_fields(video)),
        (CHAT, with_fields(chat())),
        (CHAT, nested),
    ]
}

/// The job of an accepted order, and its reservation.
async fn accepted_job(gateway: &TestGateway, answer: Answer) -> (VideoJob, Value) {
    let task = answer
        .header("x-task-id")
        .unwrap_or_else(|| panic!("{}", answer.text()));
    let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    let TaskPayload::VideoV1(job) = gateway.claim().await.payload else {
        panic!("no video");
    };
    (job, view["billing"]["reserved_usd"].clone())
}

fn has_only_first_frame(job: &VideoJob) -> bool {
    let roles: Vec<_> = job.pictures.iter().map(|picture| picture.role).collect();
    roles == [Choice::Default(PictureRole::FirstFrame)]
}

#[tokio::test]
async fn a_length_is_accepted_under_any_name() {
    let gateway = priced_gateway().await;
    for name in [
        "duration",
        "durationSeconds",
        "duration_seconds",
        "n_seconds",
        "seconds",
    ] {
        for (endpoint, body) in in_each_place(&json!({ name: "2" })) {
            let quote = json!({"endpoint": endpoint, "body": body});
            let quote = gateway.post("/v1/quote", &quote).await.ok();
            assert_eq!(quote["reserve_usd"], "0.20", "{body}");
            let (job, reserved) = accepted_job(&gateway, gateway.post(endpoint, &body).await).await;
            assert_eq!(
                (job.milliseconds, reserved),
                (2000, json!("0.20")),
                "{body}"
            );
        }
    }
    // In a form every value is text.
    let form = Form::new().text("prompt", "a lake").text("n_seconds", "3");
    let request = gateway.request(Method::POST, VIDEOS).multipart(form);
    let (job, reserved) = accepted_job(&gateway, gateway.send(request).await).await;
    assert_eq!((job.milliseconds, reserved), (3000, json!("0.30")));
    // An unsupported value is refused under the field's own name.
    for (endpoint, body) in in_each_place(&json!({"duration": 3000})) {
        let answer = gateway.post(endpoint, &body).await;
        answer.refused(400, "unsupported_value");
        let param = answer.json["error"]["param"].as_str().unwrap();
        assert!(param.ends_with("duration"), "{param}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn contradicting_lengths_are_refused_under_the_native_name() {
    let gateway = priced_gateway().await;
    let fields = json!({"duration": 2, "n_seconds": "4"});
    for ((endpoint, body), param) in
        in_each_place(&fields)
            .into_iter()
            .zip(["seconds", "video.seconds", "video.seconds"])
    {
        let answer = gateway.post(endpoint, &body).await;
        answer.refused(400, "invalid_value").on_param(param);
        assert!(answer.message().contains(param), "{}", answer.message());
    }
    let form = Form::new().text("prompt", "a lake");
    let form = form.text("seconds", "4").text("duration", "2");
    let request = gateway.request(Method::POST, VIDEOS).multipart(form);
    let answer = gateway.send(request).await;
    answer.refused(400, "invalid_value").on_param("seconds");
    // The same length twice is not a contradiction.
    for (endpoint, body) in in_each_place(&json!({"seconds": "2", "duration": 2.0})) {
        let (job, _) = accepted_job(&gateway, gateway.post(endpoint, &body).await).await;
        assert_eq!(job.milliseconds, 2000);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_first_frame_is_accepted_under_any_name() {
    let gateway = priced_gateway().await;
    let files = Files::start().await;
    let url = files.url("/picture.png");
    let mut hits = 0;
    for (name, value) in [
        ("image", json!(url)),
        ("image_url", json!({"url": url})),
        ("input_image", json!({"image_url": {"url": url}})),
        ("first_frame_image", json!(url)),
        ("images", json!([url])),
        (
            "frame_images",
            json!([{"type": "image_url", "image_url": {"url": url}, "frame_type": "first_frame"}]),
        ),
    ] {
        for (endpoint, body) in in_each_place(&json!({ name: value })) {
            let (job, _) = accepted_job(&gateway, gateway.post(endpoint, &body).await).await;
            hits += 1;
            assert!(has_only_first_frame(&job), "{body}");
            assert_eq!(files.hits(), hits, "{body}");
        }
    }
    // Checked like any other URL.
    for (endpoint, body) in in_each_place(&json!({"images": ["http://10.0.0.1/a.png"]})) {
        let answer = gateway.post(endpoint, &body).await;
        answer.refused(422, "image_fetch_blocked");
        let param = answer.json["error"]["param"].as_str().unwrap();
        assert!(param.ends_with("images[0]"), "{param}");
    }
    // An empty field counts as absent.
    for empty in [json!(null), json!(""), json!([])] {
        for (endpoint, body) in in_each_place(&json!({ "images": empty })) {
            let (job, _) = accepted_job(&gateway, gateway.post(endpoint, &body).await).await;
            assert!(job.pictures.is_empty(), "{body}");
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn pictures_of_a_form_are_accepted_under_any_name() {
    let gateway = priced_gateway().await;
    let picture = |shade: u32| Part::bytes(sound::png(64 + shade, 48)).file_name("a.png");
    let send = async |form: Form| {
        let request = gateway.request(Method::POST, VIDEOS);
        gateway.send(request.multipart(form)).await
    };
    for name in [
        "image",
        "first_frame_image",
        "images[]",
        "frame_images",
        "input_image",
    ] {
        let form = Form::new().text("prompt", "a lake").part(name, picture(0));
        let (job, _) = accepted_job(&gateway, send(form).await).await;
        assert!(has_only_first_frame(&job), "{name}");
    }
    let url = sound::data_url("image/png", &sound::png(64, 48));
    for name in ["image", "image_url[url]", "images[]", "images[0]"] {
        let form = Form::new().text("prompt", "a lake").text(name, url.clone());
        let (job, _) = accepted_job(&gateway, send(form).await).await;
        assert!(job.picture(PictureRole::FirstFrame).is_some(), "{name}");
    }
    for name in ["end_image", "last_frame_image"] {
        let two_ends = Form::new().text("prompt", "a lake");
        let two_ends = two_ends
            .part("image", picture(0))
            .part("end_image", picture(0));
        let answer = send(two_ends.part(name, picture(8))).await;
        answer.refused(400, "invalid_value").on_param("end_image");
    }
    let two_pictures = Form::new().text("prompt", "a lake");
    let two_pictures = two_pictures
        .part("images[]", picture(0))
        .part("images[]", picture(8));
    send(two_pictures)
        .await
        .refused(400, "invalid_value")
        .on_param("input_reference");
    let two_pictures = Form::new().text("prompt", "a lake");
    let two_pictures = two_pictures
        .part("image", picture(0))
        .part("input_reference", picture(8));
    send(two_pictures)
        .await
        .refused(400, "invalid_value")
        .on_param("input_reference");
    let same_picture = Form::new().text("prompt", "a lake");
    let same_picture = same_picture
        .part("image", picture(0))
        .part("input_reference", picture(0));
    let (job, _) = accepted_job(&gateway, send(same_picture).await).await;
    assert!(has_only_first_frame(&job));
    gateway.stop().await;
}

#[tokio::test]
async fn too_many_pictures_are_refused_under_the_native_name() {
    let gateway = priced_gateway().await;
    let url = |width: u32| sound::data_url("image/png", &sound::png(width, 48));
    for fields in [
        json!({"images": [url(64), url(72)]}),
        json!({"frame_images": [{"image_url": {"url": url(64)}}, {"image_url": {"url": url(72)}}]}),
        json!({"image": url(64), "image_url": {"url": url(72)}}),
    ] {
        for ((endpoint, body), param) in
            in_each_place(&fields)
                .into_iter()
                .zip(["input_reference", "messages", "messages"])
        {
            let answer = gateway.post(endpoint, &body).await;
            answer.refused(400, "invalid_value").on_param(param);
            assert!(answer.message().contains(param), "{}", answer.message());
        }
    }
    // A last frame is refused by a model that supports none.
    for ((endpoint, body), param) in in_each_place(&json!({"last_frame_image": url(64)}))
        .into_iter()
        .zip([
            "last_frame_image",
            "last_frame_image",
            "video.last_frame_image",
        ])
    {
        let answer = gateway.post(endpoint, &body).await;
        answer.refused(400, "unsupported_value").on_param(param);
    }
    for (endpoint, body) in
        in_each_place(&json!({"last_frame_image": url(64), "end_image": url(72)}))
    {
        let answer = gateway.post(endpoint, &body).await;
        answer.refused(400, "invalid_value");
        assert!(answer.message().contains("end_image"));
    }
    assert_eq!(gateway.get("/v1/tasks").await.ok()["data"], json!([]));
    gateway.stop().await;
}

#[tokio::test]
async fn a_keyframe_at_the_beginning_is_the_first_frame() {
    let gateway = priced_gateway().await;
    let picture = sound::data_url("image/png", &sound::png(64, 48));
    for at in [json!("first"), json!(0)] {
        let keyframes = json!([{"url": picture, "at": at}]);
        for (endpoint, body) in in_each_place(&json!({ "keyframes": keyframes })) {
            let (job, _) = accepted_job(&gateway, gateway.post(endpoint, &body).await).await;
            assert!(has_only_first_frame(&job), "{body}");
        }
    }
    // In a form, the list or each of its items is JSON text.
    let item = json!({"url": picture, "at": "first"}).to_string();
    for (name, value) in [("keyframes", format!("[{item}]")), ("keyframes[]", item)] {
        let form = Form::new().text("prompt", format!("a lake, {name}"));
        let request = gateway.request(Method::POST, VIDEOS);
        let request = request.multipart(form.text(name, value));
        let (job, _) = accepted_job(&gateway, gateway.send(request).await).await;
        assert!(has_only_first_frame(&job), "{name}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_shot_may_be_the_whole_video() {
    let gateway = priced_gateway().await;
    for number in 0..2 {
        let prompt = format!("a harbour {number}");
        let shots = json!([{"prompt": prompt, "seconds": 2}]);
        let chat = json!({"model": "animatic-1", "video": {"shots": shots},
            "messages": [{"role": "user", "content": prompt}]});
        let video = json!({"model": "animatic-1", "prompt": prompt, "shots": shots});
        let (endpoint, body) = [(CHAT, chat), (VIDEOS, video)][number].clone();
        let quote = json!({"endpoint": endpoint, "body": body});
        let quote = gateway.post("/v1/quote", &quote).await.ok();
        assert_eq!(quote["reserve_usd"], "0.20", "{body}");
        let (job, _) = accepted_job(&gateway, gateway.post(endpoint, &body).await).await;
        assert_eq!(job.milliseconds, 2000);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn inputs_that_no_model_takes_are_refused_by_name() {
    let gateway = priced_gateway().await;
    let files = Files::start().await;
    let url = files.url("/picture.png");
    let shot = |prompt: &str| json!({"prompt": prompt, "seconds": 2});
    for (fields, param) in [
        (
            json!({"references": [{"type": "video", "url": url}]}),
            "references[0].type",
        ),
        (
            json!({"references": [{"type": "audio", "url": url}]}),
            "references[0].type",
        ),
        (
            json!({"references": [{"type": "image", "url": url, "role": "style"}]}),
            "references[0].role",
        ),
        // This model takes no references, and no last frame.
        (
            json!({"references": [{"type": "image", "url": url}]}),
            "references[0].url",
        ),
        (
            json!({"keyframes": [{"url": url, "at": 0}, {"url": url, "at": "last"}]}),
            "keyframes[1].url",
        ),
        (
            json!({"keyframes": [{"url": url, "at": 1.5}], "seconds": 4}),
            "keyframes[0].at",
        ),
        (json!({"shots": [shot("a lake"), shot("a sea")]}), "shots"),
        (json!({"shots": [shot("another prompt")]}), "shots"),
        (json!({"keyframe": {"id": "x"}}), "keyframe"),
        (json!({"multi_shots": true}), "multi_shots"),
    ] {
        for (endpoint, body) in in_each_place(&fields) {
            let quote = json!({"endpoint": endpoint, "body": body});
            for answer in [
                gateway.post("/v1/quote", &quote).await,
                gateway.post(endpoint, &body).await,
            ] {
                answer.refused(400, "unsupported_value");
                let named = answer.json["error"]["param"].as_str().unwrap();
                assert!(named.ends_with(param), "{named}");
            }
        }
    }
    // The same holds for the other dialect, which has none of these fields.
    for name in ["references", "keyframes", "shots"] {
        let body = json!({"model": "animatic-1", "prompt": "a lake", name: [{"id": "x"}]});
        let answer = gateway.post("/api/v1/videos", &body).await;
        answer.refused(400, "unsupported_value").on_param(name);
    }
    assert_eq!(files.hits(), 0);
    assert_eq!(gateway.get("/v1/tasks").await.ok()["data"], json!([]));
    gateway.stop().await;
}

#[tokio::test]
async fn an_image_of_an_earlier_task_is_named_by_its_id() {
    let gateway = priced_gateway().await;
    let picture = sound::data_url("image/png", &sound::png(64, 48));
    let body = json!({"model": "animatic-1", "prompt": "a lake", "image": picture});
    let answer = gateway.post(VIDEOS, &body).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    accepted_job(&gateway, answer).await;
    let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    let by_id = |id: &Value| json!({"keyframes": [{"id": id, "at": "first"}]});
    let fields = by_id(&view["input"]["image"]["id"]);
    for (endpoint, body) in in_each_place(&fields) {
        let (job, _) = accepted_job(&gateway, gateway.post(endpoint, &body).await).await;
        assert!(has_only_first_frame(&job), "{body}");
    }
    // Another account has no such image, and nobody has one with another id.
    let stranger = gateway.caller("stranger", NewKey::default()).await;
    for (caller, fields) in [
        (&stranger, fields),
        (&gateway.client, by_id(&json!(uuid()))),
    ] {
        for (endpoint, body) in in_each_place(&fields) {
            let quote = json!({"endpoint": endpoint, "body": body});
            for answer in [
                caller.post("/v1/quote", &quote).await,
                caller.post(endpoint, &body).await,
            ] {
                answer.refused(404, "media_not_found");
                let param = answer.json["error"]["param"].as_str().unwrap();
                assert!(param.ends_with("keyframes[0].id"), "{param}");
            }
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn options_are_accepted_or_refused_at_each_place() {
    let gateway = priced_gateway().await;
    for fields in [
        json!({"size": "480x854"}),
        json!({"resolution": "480p", "aspect_ratio": "9:16"}),
        json!({"resolution": "480p", "aspectRatio": "9:16"}),
    ] {
        for (endpoint, body) in in_each_place(&fields) {
            let (job, _) = accepted_job(&gateway, gateway.post(endpoint, &body).await).await;
            assert_eq!((job.width, job.height), (480, 854), "{body}");
        }
    }
    for (field, value) in [
        ("fps", json!(24)),
        ("num_frames", json!(120)),
        ("negative_prompt", json!("rain")),
        ("size", json!("100x100")),
    ] {
        for (endpoint, body) in in_each_place(&json!({ field: value })) {
            let answer = gateway.post(endpoint, &body).await;
            answer.refused(400, "unsupported_value");
            let param = answer.json["error"]["param"].as_str().unwrap();
            assert!(param.ends_with(field), "{param}");
        }
    }
    // This API makes one video for each request.
    for name in ["n", "num_videos"] {
        let order = |count: u32| json!({"model": "animatic-1", "prompt": "a lake", name: count});
        let answer = gateway.post(VIDEOS, &order(2)).await;
        answer.refused(400, "unsupported_value").on_param(name);
        accepted_job(&gateway, gateway.post(VIDEOS, &order(1)).await).await;
    }
    let chat = json!({"model": "animatic-1", "num_videos": 2, "size": "480x480", "seconds": 1,
        "audio": {"voice": "alloy", "format": "wav"},
        "messages": [{"role": "user", "content": "a lake"}]});
    let quote = json!({"endpoint": CHAT, "body": chat});
    let quote = gateway.post("/v1/quote", &quote).await.ok();
    assert_eq!(quote["reserve_usd"], "0.20");
    gateway.stop().await;
}

#[tokio::test]
async fn the_openapi_document_has_these_names() {
    let gateway = priced_gateway().await;
    let document = gateway.get("/openapi.json").await.ok();
    for request in ["ChatRequest", "VideoOptions", "VideoRequest"] {
        let fields = &document["components"]["schemas"][request]["properties"];
        for name in [
            "duration",
            "durationSeconds",
            "duration_seconds",
            "n_seconds",
            "seconds",
            "image",
            "image_url",
            "input_image",
            "first_frame_image",
            "images",
            "frame_images",
            "last_frame_image",
            "aspectRatio",
            "generate_audio",
            "end_image",
            "reference_images",
            "references",
            "keyframes",
            "shots",
            "size",
            "audio",
            "negative_prompt",
        ] {
            assert!(fields[name].is_object(), "{request}.{name}");
        }
    }
    let chat = &document["components"]["schemas"]["ChatRequest"]["properties"];
    for name in [
        "tool_choice",
        "response_format",
        "modalities",
        "max_completion_tokens",
    ] {
        assert!(chat[name].is_object(), "{name}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_unknown_field_that_says_what_is_made_is_refused_everywhere() {
    let mut gateway = priced_gateway().await;
    let files = Files::start().await;
    let url = files.url("/picture.png");
    for (name, value, ours) in [
        ("last_frame", json!(url), "end_image"),
        ("first_frame_url", json!("http://127.0.0.1:9/none.png"), "i"),
        (
            "input_references",
            json!([{"type": "image_url", "image_url": {"url": url}}]),
            "reference_images",
        ),
        ("reference_videos", json!([url]), "reference_images"),
        ("generateAudio", json!(false), "audio"),
        ("sound", json!(false), "audio"),
        ("enable_audio", json!(false), "audio"),
        ("whatever", json!({"of": [url]}), "seconds"),
    ] {
        for (endpoint, body) in in_each_place(&json!({ name: value })) {
            for (endpoint, body) in [
                (
                    "/v1/quote",
                    &json!({"endpoint": endpoint, "body": body.clone()}),
                ),
                (endpoint, &body),
            ] {
                let answer = gateway.post(endpoint, body).await;
                answer.refused(400, "unsupported_value");
                let param = answer.json["error"]["param"].as_str().unwrap();
                assert!(param.ends_with(name), "{param}");
                assert!(answer.message().contains(ours), "{}", answer.message());
            }
        }
    }
    // A file under a name that takes none.
    let file = Part::bytes(sound::png(64, 48)).file_name("last.png");
    let form = Form::new()
        .text("prompt", "a lake")
        .part("last_frame", file);
    let request = gateway.request(Method::POST, VIDEOS).multipart(form);
    let answer = gateway.send(request).await;
    answer
        .refused(400, "unsupported_value")
        .on_param("last_frame");
    let form = Form::new().text("prompt", "a lake").text("sound", "false");
    let request = gateway.request(Method::POST, VIDEOS).multipart(form);
    let answer = gateway.send(request).await;
    answer.refused(400, "unsupported_value").on_param("sound");
    let separation = json!({"task": "gen_stem", "continue_clip_id": uuid(), "audio_url": url});
    let answer = gateway.post("/musicgen/submit/music", &separation).await;
    answer
        .refused(400, "unsupported_value")
        .on_param("audio_url");
    let persona = json!({"root_clip_id": uuid(), "name": "x", "avatar_image": url});
    let answer = gateway.post("/musicgen/persona/create", &persona).await;
    answer
        .refused(400, "unsupported_value")
        .on_param("avatar_image");
    assert_eq!(files.hits(), 0);
    // Other fields of other services go on being ignored, and empty ones are absent.
    gateway.client.documented = false;
    for (endpoint, body) in in_each_place(&json!({
        "store": true, "user_id": "u", "generation_id": 7, "last_frame": null, "images_list": [],
        "metadata": {"page": url}
    })) {
        accepted_job(&gateway, gateway.post(endpoint, &body).await).await;
    }
    gateway.stop().await;
}

/// An id that nothing has.
fn uuid() -> &'static str {
    "0193a000-0000-7000-8000-000000000020"
}

#[tokio::test]
async fn a_body_may_begin_with_a_byte_order_mark() {
    let gateway = priced_gateway().await;
    for (endpoint, body) in in_each_place(&json!({"seconds": 2})) {
        let request = gateway.request(Method::POST, endpoint);
        let request = request.header("content-type", "application/json");
        let request = request.body(format!("\u{feff}{body}"));
        let (job, _) = accepted_job(&gateway, gateway.send(request).await).await;
        assert_eq!(job.milliseconds, 2000);
    }
    gateway.stop().await;
}
