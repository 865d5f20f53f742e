//! The options of an order other than prompt, size and length, and the fields that an
//! operator can add: how each arrives at the provider, and what is refused before
//! anything is sent.

use reqwest::Method;
use serde_json::{Value, json};

use super::{film, gateway, order_film, provider, simulator, submissions, submitted_body};
use crate::support::{TestGateway, sound};

const CHAT: &str = "/v1/chat/completions";
const VIDEOS: &str = "/v1/videos";

fn picture() -> String {
    sound::data_url("image/png", &sound::png(320, 180))
}

/// Orders a video by the Videos API and waits for it; returns the task's record.
async fn order_finished(gateway: &TestGateway, body: &Value) -> Value {
    let answer = gateway.post(VIDEOS, body).await;
    let task = answer.header("x-task-id").map(str::to_owned);
    answer.ok();
    let view = gateway.finished(&task.unwrap()).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    view
}

fn order(fields: &Value) -> Value {
    let mut body = json!({"model": "film", "prompt": "a lake"});
    let fields = fields.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(fields);
    body
}

fn chat(video: &Value) -> Value {
    json!({"model": "film", "video": video, "messages": [{"role": "user", "content": "a lake"}]})
}

#[tokio::test]
async fn extra_fields_of_a_route_are_sent() {
    let simulator = simulator().await;
    let toml = provider("acme", "openai-videos", &simulator, "encoding = \"json\"")
        + &film(
            r#"{ provider = "acme", model = "wan", extra = { generate_audio = false, lora = { name = "ink" } } }"#,
        );
    let gateway = gateway(&toml).await;
    let task = order_film(&gateway, "a lake").await;
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    let body = submitted_body(&simulator);
    assert_eq!(body["generate_audio"], false);
    assert_eq!(body["lora"], json!({"name": "ink"}));
    assert_eq!(body["prompt"], "a lake");
    gateway.stop().await;
}

#[tokio::test]
async fn callers_can_set_the_fields_listed_in_pass() {
    let simulator = simulator().await;
    let toml = provider("acme", "openai-videos", &simulator, "encoding = \"json\"")
        + "[models.film]\nkind = \"video\"\nprice = \"free\"\npass = [\"style\", \"lora.scale\", \"steps\"]\n"
        + r#"routes = [{ provider = "acme", model = "wan", extra = { steps = 4 } }]"#;
    let gateway = gateway(&toml).await;
    for (options, param) in [
        (json!({"quality": "high"}), "provider_options.quality"),
        (
            json!({"style": "ink", "model": "dear"}),
            "provider_options.model",
        ),
        (json!({"lora": {"name": "x"}}), "provider_options.lora.name"),
    ] {
        let body = order(&json!({"provider_options": options}));
        let refused = gateway.post(VIDEOS, &body).await;
        refused.refused(400, "unsupported_value").on_param(param);
        let mut body = chat(&json!({"seconds": 4}));
        body["provider_options"] = options.clone();
        let refused = gateway.post(CHAT, &body).await;
        refused.refused(400, "unsupported_value").on_param(param);
        let in_video = chat(&json!({"provider_options": options}));
        let refused = gateway.post(CHAT, &in_video).await;
        let param = format!("video.{param}");
        refused.refused(400, "unsupported_value").on_param(&param);
    }
    let quote = json!({"endpoint": VIDEOS, "body": order(&json!({"provider_options": {"n": 2}}))});
    let refused = gateway.post("/v1/quote", &quote).await;
    refused
        .refused(400, "unsupported_value")
        .on_param("body.provider_options.n");
    assert_eq!(submissions(&simulator), 0);

    let options = json!({"style": {"name": "ink"}, "lora": {"scale": 0.5}, "steps": 99});
    order_finished(&gateway, &order(&json!({"provider_options": options}))).await;
    let body = submitted_body(&simulator);
    assert_eq!(body["style"], json!({"name": "ink"}));
    assert_eq!(body["lora"], json!({"scale": 0.5}));
    assert_eq!(body["steps"], 4, "the operator's value takes precedence");
    gateway.stop().await;
}

#[tokio::test]
async fn callers_choose_sound_and_the_price_can_depend_on_it() {
    let simulator = simulator().await;
    let toml = provider("acme", "replicate", &simulator, "")
        + r#"
[models.film]
kind = "video"
price = { unit = "second", usd = "0.40", usd_without_audio = "0.20" }
routes = [{ provider = "acme", model = "google/veo-3" }]
[models.mute]
kind = "video"
price = "free"
routes = [{ provider = "acme", model = "google/veo-3", limits = { audio = false } }]
"#;
    let gateway = gateway(&toml).await;
    let model = gateway.get("/v1/models/film").await.ok();
    assert_eq!(model["capabilities"]["audio"], true);
    assert_eq!(model["price"]["usd_without_audio"], "0.20");
    let mut mute = chat(&json!({"audio": true}));
    mute["model"] = "mute".into();
    let refused = gateway.post(CHAT, &mute).await;
    refused
        .refused(400, "unsupported_value")
        .on_param("video.audio");
    let mut mute = order(&json!({"audio": false}));
    mute["model"] = "mute".into();
    let refused = gateway.post(VIDEOS, &mute).await;
    refused.refused(400, "unsupported_value").on_param("audio");

    for (fields, cost) in [
        (json!({}), "1.60"),
        (json!({"audio": true}), "1.60"),
        (json!({"audio": false}), "0.80"),
    ] {
        let mut body = order(&fields);
        body["seconds"] = "4".into();
        let quote_request = json!({"endpoint": VIDEOS, "body": body});
        let quote = gateway.post("/v1/quote", &quote_request).await.ok();
        assert_eq!(quote["cost_usd"], cost, "{fields}");
        assert_eq!(quote["reserve_usd"], cost, "{fields}");
    }
    let view = order_finished(&gateway, &order(&json!({"audio": false, "seconds": "4"}))).await;
    assert_eq!(view["billing"]["reserved_usd"], "0.80");
    assert_eq!(view["cost_usd"], "0.80");
    assert_eq!(submitted_body(&simulator)["input"]["generate_audio"], false);
    gateway.stop().await;
}

#[tokio::test]
async fn end_and_reference_images_arrive_in_their_fields() {
    let simulator = simulator().await;
    let toml = provider("acme", "replicate", &simulator, "")
        + &film(r#"{ provider = "acme", model = "bytedance/seedance-2.0" }"#);
    let gateway = gateway(&toml).await;
    let capabilities = gateway.get("/v1/models/film").await.ok()["capabilities"].clone();
    assert_eq!(capabilities["end_image"], true);
    assert_eq!(capabilities["max_reference_images"], 9);
    for (fields, param) in [
        (json!({"end_image": picture()}), "end_image"),
        (
            json!({"input_reference": picture(), "reference_images": [picture()]}),
            "reference_images",
        ),
        (
            json!({"reference_images": vec![picture(); 10]}),
            "reference_images[9]",
        ),
    ] {
        let refused = gateway.post(VIDEOS, &order(&fields)).await;
        refused.refused(400, "unsupported_value").on_param(param);
    }
    // These pictures are checked like any other.
    for (fields, status, code, param) in [
        (
            json!({"input_reference": picture(), "end_image": "http://169.254.169.254/a.png"}),
            422,
            "image_fetch_blocked",
            "end_image",
        ),
        (
            json!({"reference_images": [picture(), "data:image/png;base64,aGk="]}),
            422,
            "image_invalid",
            "reference_images[1]",
        ),
    ] {
        let refused = gateway.post(VIDEOS, &order(&fields)).await;
        refused.refused(status, code).on_param(param);
    }
    assert_eq!(submissions(&simulator), 0);

    let frames = json!({"input_reference": picture(), "end_image": picture()});
    order_finished(&gateway, &order(&frames)).await;
    let input = submitted_body(&simulator)["input"].clone();
    assert!(input["image"].is_string() && input["last_frame_image"].is_string());
    assert_eq!(input.get("reference_images"), None);
    gateway.stop().await;
}

/// A second picture without a role is sent as the last frame, and its task says the same.
#[tokio::test]
async fn a_second_picture_of_a_message_is_recorded_as_the_last_frame() {
    let simulator = simulator().await;
    let toml = provider("acme", "replicate", &simulator, "")
        + &film(r#"{ provider = "acme", model = "bytedance/seedance-2.0" }"#);
    let gateway = gateway(&toml).await;
    let part = || json!({"type": "image_url", "image_url": {"url": picture()}});
    let content = json!([{"type": "text", "text": "a lake"}, part(), part()]);
    let body = json!({"model": "film", "messages": [{"role": "user", "content": content}]});
    let answer = gateway.post(CHAT, &body).await;
    let task = answer.header("x-task-id").map(str::to_owned);
    answer.ok();
    let view = gateway.finished(&task.unwrap()).await;
    let input = &view["input"];
    assert!(input["image"]["url"].is_string(), "{view}");
    assert!(input["end_image"]["url"].is_string(), "{view}");
    assert_eq!(input.get("reference_images"), None);
    assert!(submitted_body(&simulator)["input"]["last_frame_image"].is_string());
    gateway.stop().await;
}

#[tokio::test]
async fn a_form_has_the_same_fields_as_json() {
    let simulator = simulator().await;
    let toml = provider("acme", "replicate", &simulator, "")
        + "[models.film]\nkind = \"video\"\nprice = \"free\"\npass = [\"input.seed\"]\n"
        + r#"routes = [{ provider = "acme", model = "bytedance/seedance-2.0" }]"#;
    let gateway = gateway(&toml).await;
    let png = sound::png(320, 180);
    let file = || reqwest::multipart::Part::bytes(png.clone()).file_name("a.png");
    let form = reqwest::multipart::Form::new()
        .text("model", "film")
        .text("prompt", "a lake")
        .text("audio", "false")
        .text("resolution", "480p")
        .text("aspect_ratio", "9:16")
        .text("provider_options", r#"{"input": {"seed": 7}}"#)
        .text("reference_images[]", picture())
        .part("reference_images[]", file());
    let request = gateway.request(Method::POST, VIDEOS).multipart(form);
    let answer = gateway.send(request).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    assert_eq!(answer.ok()["size"], "480x854");
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    let input = submitted_body(&simulator)["input"].clone();
    assert_eq!(input["generate_audio"], false);
    assert_eq!(input["resolution"], "480p");
    assert_eq!(input["aspect_ratio"], "9:16");
    assert_eq!(input["seed"], 7);
    assert_eq!(input["reference_images"].as_array().unwrap().len(), 2);
    gateway.stop().await;
}

#[tokio::test]
async fn resolution_and_aspect_ratio_replace_the_size() {
    let simulator = simulator().await;
    let toml = provider("acme", "runway", &simulator, "")
        + &film(r#"{ provider = "acme", model = "seedance2" }"#);
    let gateway = gateway(&toml).await;
    for (video, param) in [
        (json!({"resolution": "540p"}), "video.resolution"),
        (json!({"aspect_ratio": "2:1"}), "video.aspect_ratio"),
    ] {
        let refused = gateway.post(CHAT, &chat(&video)).await;
        refused.refused(400, "unsupported_value").on_param(param);
    }
    let both = chat(&json!({"size": "1280x720", "aspect_ratio": "16:9"}));
    let refused = gateway.post(CHAT, &both).await;
    refused
        .refused(400, "invalid_value")
        .on_param("video.aspect_ratio");
    // The embedded model supports them too.
    let body =
        json!({"model": "animatic-1", "prompt": "a lake", "seconds": "1", "resolution": "480p"});
    let video_object = gateway.post(VIDEOS, &body).await.ok();
    assert!(
        video_object["size"].as_str().unwrap().ends_with("x480"),
        "{video_object}"
    );
    let body = chat(&json!({"resolution": "1080p", "aspect_ratio": "9:16"}));
    let body = gateway.post(CHAT, &body).await.ok();
    assert_eq!(body["object"], "chat.completion", "{body}");
    assert_eq!(submitted_body(&simulator)["ratio"], "1080:1920");
    gateway.stop().await;
}
