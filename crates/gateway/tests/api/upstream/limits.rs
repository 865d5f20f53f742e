//! The limits of each model are known and published, and a request beyond them
//! is refused before anything is sent or written.

use serde_json::{Value, json};

use super::{
    chat_order_with_picture, film, gateway, one_provider, provider, simulator, submissions,
    submitted_body,
};
use crate::support::{TestGateway, sound};

const CHAT: &str = "/v1/chat/completions";

/// Asserts that no task was written and no request was sent.
async fn nothing_happened(gateway: &TestGateway, simulator: &simulator::Simulator) {
    let list = gateway.get("/v1/tasks").await.ok();
    assert_eq!(list["data"], json!([]));
    assert_eq!(simulator.world().journal().len(), 0);
    assert_eq!(submissions(simulator), 0);
}

fn chat(video: &Value) -> Value {
    json!({"model": "film", "video": video, "messages": [{"role": "user", "content": "a lake"}]})
}

#[tokio::test]
async fn unsupported_options_of_a_video_model_are_refused_by_field() {
    let simulator = simulator().await;
    let gateway = gateway(&one_provider(&simulator)).await;
    for (options, param) in [
        (json!({"seconds": 5}), "video.seconds"),
        (json!({"seconds": 4.5}), "video.seconds"),
        (json!({"seconds": 24}), "video.seconds"),
        (json!({"size": "480x480"}), "video.size"),
        (json!({"negative_prompt": "rain"}), "video.negative_prompt"),
        (json!({"seed": 7}), "video.seed"),
    ] {
        let refused = gateway.post(CHAT, &chat(&options)).await;
        refused.refused(400, "unsupported_value").on_param(param);
        assert!(refused.message().contains("film"), "{}", refused.message());
    }
    for (field, value) in [("seconds", json!("5")), ("size", json!("1920x1080"))] {
        let mut body = json!({"model": "film", "prompt": "a lake"});
        body[field] = value;
        let refused = gateway.post("/v1/videos", &body).await;
        refused.refused(400, "unsupported_value").on_param(field);
    }
    // All errors are named at once.
    let refused = gateway
        .post(
            CHAT,
            &chat(&json!({"seconds": 5, "size": "480x480", "seed": 1})),
        )
        .await;
    refused.refused(400, "unsupported_value");
    for field in ["seconds", "size", "seed"] {
        assert!(refused.message().contains(field), "{}", refused.message());
    }
    let mut two_pictures = chat_order_with_picture("a lake");
    let picture = two_pictures["messages"][0]["content"][1].clone();
    two_pictures["messages"][0]["content"]
        .as_array_mut()
        .unwrap()
        .push(picture);
    let refused = gateway.post(CHAT, &two_pictures).await;
    refused
        .refused(400, "unsupported_value")
        .on_param("messages[0].content[2].image_url.url");
    nothing_happened(&gateway, &simulator).await;

    // What the model supports is published.
    let capabilities = gateway.get("/v1/models/film").await.ok()["capabilities"].clone();
    assert_eq!(capabilities["seconds"], json!([4, 8, 12, 16, 20]));
    assert_eq!(
        (
            &capabilities["max_images"],
            &capabilities["seed"],
            &capabilities["negative_prompt"]
        ),
        (&json!(1), &json!(false), &json!(false))
    );
    for size in capabilities["sizes"].as_array().unwrap() {
        gateway
            .post(CHAT, &chat(&json!({"seconds": 4, "size": size})))
            .await
            .ok();
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_model_that_needs_a_picture_refuses_orders_without_one() {
    let simulator = simulator().await;
    let toml = provider("acme", "runway", &simulator, "")
        + &film(r#"{ provider = "acme", model = "gen4_turbo" }"#);
    let gateway = gateway(&toml).await;
    let capabilities = gateway.get("/v1/models/film").await.ok()["capabilities"].clone();
    assert_eq!(capabilities["needs_image"], true);
    gateway
        .post(CHAT, &chat(&json!({})))
        .await
        .refused(400, "unsupported_value");
    let body = json!({"model": "film", "prompt": "a lake"});
    gateway
        .post("/v1/videos", &body)
        .await
        .refused(400, "unsupported_value")
        .on_param("input_reference");
    let mut long_prompt = chat_order_with_picture("a lake");
    long_prompt["messages"][0]["content"][0]["text"] = "x".repeat(5_001).into();
    gateway
        .post(CHAT, &long_prompt)
        .await
        .refused(400, "unsupported_value");
    nothing_happened(&gateway, &simulator).await;
    gateway.stop().await;
}

#[tokio::test]
async fn keyframes_and_references_are_counted_and_refused_by_field() {
    let simulator = simulator().await;
    let toml = provider("acme", "replicate", &simulator, "")
        + &provider("other", "fal", &simulator, "")
        + &film(r#"{ provider = "acme", model = "bytedance/seedance-2.0" }"#)
        + "[models.subjects]\nkind = \"video\"\nprice = \"free\"\n"
        + r#"routes = [{ provider = "other", model = "fal-ai/kling-video/o1/reference-to-video" }]"#;
    let gateway = gateway(&toml).await;
    let facts = async |model: &str| {
        let view = gateway.get(&format!("/v1/models/{model}")).await.ok();
        let capabilities = &view["capabilities"];
        let names = ["keyframes", "shots", "reference_videos", "reference_audios"];
        names.map(|name| capabilities[name].as_u64().unwrap())
    };
    assert_eq!(facts("film").await, [2, 0, 0, 0]);
    assert_eq!(facts("subjects").await, [0, 0, 0, 0]);
    let picture = sound::data_url("image/png", &sound::png(320, 180));
    let keyframe = |at: &str| json!({"url": picture, "at": at});
    let reference = json!({"type": "image", "url": picture});
    for (model, video, param) in [
        (
            "subjects",
            json!({"keyframes": [keyframe("first")]}),
            "video.keyframes[0].url",
        ),
        (
            "subjects",
            json!({"keyframes": [keyframe("last")]}),
            "video.keyframes[0].url",
        ),
        (
            "film",
            json!({"keyframes": [keyframe("last")]}),
            "video.keyframes[0].url",
        ),
        (
            "film",
            json!({"references": vec![reference.clone(); 10]}),
            "video.references[9].url",
        ),
        (
            "film",
            json!({"references": [reference], "keyframes": [keyframe("first")]}),
            "video.references",
        ),
    ] {
        let mut body = chat(&video);
        body["model"] = model.into();
        let refused = gateway.post(CHAT, &body).await;
        refused.refused(400, "unsupported_value").on_param(param);
    }
    let frame =
        json!({"type": "image_url", "image_url": {"url": picture}, "frame_type": "first_frame"});
    let body = json!({"model": "subjects", "prompt": "a lake", "frame_images": [frame]});
    let refused = gateway.post("/api/v1/videos", &body).await;
    refused
        .refused(400, "unsupported_value")
        .on_param("frame_images[0].image_url.url");
    nothing_happened(&gateway, &simulator).await;

    let frames = json!({"keyframes": [keyframe("last"), keyframe("first")]});
    gateway.post(CHAT, &chat(&frames)).await.ok();
    let input = submitted_body(&simulator)["input"].clone();
    assert!(input["image"].is_string() && input["last_frame_image"].is_string());
    let list = gateway.get("/v1/tasks").await.ok();
    let id = &list["data"][0]["input"]["image"]["id"];
    let references = json!([reference, {"type": "image", "id": id}]);
    gateway
        .post(CHAT, &chat(&json!({"references": references})))
        .await
        .ok();
    let journal = simulator.world().journal();
    let order = journal
        .iter()
        .rfind(|request| request.role == simulator::RequestRole::Submit)
        .unwrap();
    let sent = &order.body["input"]["reference_images"];
    assert_eq!(sent.as_array().unwrap().len(), 2);
    gateway.stop().await;
}

#[tokio::test]
async fn a_provider_that_fetches_files_needs_a_public_url() {
    let simulator = simulator().await;
    let toml = provider("acme", "luma", &simulator, "api = \"dream-machine\"")
        + &film(r#"{ provider = "acme", model = "ray-2" }"#);
    let private = gateway(&toml).await;
    let refused = private.post(CHAT, &chat_order_with_picture("a lake")).await;
    refused
        .refused(400, "unsupported_value")
        .on_param("messages[0].content[1].image_url.url");
    nothing_happened(&private, &simulator).await;
    private.post(CHAT, &chat(&json!({}))).await.ok();
    private.stop().await;

    let public = gateway(&format!("public_url = \"https://media.example\"\n{toml}")).await;
    let answer = public.post(CHAT, &chat_order_with_picture("a lake")).await;
    answer.ok();
    let journal = simulator.world().journal();
    let order = journal
        .iter()
        .rfind(|request| request.role == simulator::RequestRole::Submit)
        .unwrap();
    let picture_url = order.body["keyframes"]["frame0"]["url"].as_str().unwrap();
    assert!(
        picture_url.starts_with("https://media.example/media/") && picture_url.ends_with(".png"),
        "{picture_url}"
    );
    // The URL serves the gateway's own copy, and needs no key.
    let path = picture_url.trim_start_matches("https://media.example");
    let copy = public.without_key().get(path).await;
    assert_eq!(copy.header("content-type"), Some("image/png"));
    public.stop().await;
}

#[tokio::test]
async fn an_order_goes_to_a_route_that_supports_it() {
    let (first, second) = (simulator().await, simulator().await);
    let routes =
        r#"{ provider = "first", model = "ray-2" }, { provider = "second", model = "ray-3.2" }"#;
    let toml = provider("first", "luma", &first, "api = \"dream-machine\"")
        + &provider("second", "luma", &second, "")
        + &film(routes);
    let gateway = gateway(&toml).await;
    gateway
        .post(CHAT, &chat_order_with_picture("a lake"))
        .await
        .ok();
    assert_eq!((submissions(&first), submissions(&second)), (0, 1));
    gateway.post(CHAT, &chat(&json!({"seconds": 5}))).await.ok();
    assert_eq!((submissions(&first), submissions(&second)), (1, 1));
    // Only the second provider makes films of ten seconds, only the first those of nine.
    gateway
        .post(CHAT, &chat(&json!({"seconds": 10})))
        .await
        .ok();
    gateway.post(CHAT, &chat(&json!({"seconds": 9}))).await.ok();
    assert_eq!((submissions(&first), submissions(&second)), (2, 2));
    gateway.stop().await;
}

#[tokio::test]
async fn the_operator_narrows_and_widens_the_capabilities() {
    let simulator = simulator().await;
    let routes = r#"{ provider = "acme", model = "sora-2", limits = { seconds = { min = 2, max = 6 }, default_seconds = 3, pictures = 0 } }"#;
    let toml = one_provider(&simulator);
    let (providers, _) = toml.split_once("[models").unwrap();
    let toml =
        providers.to_owned() + &film(routes) + "limits = { sizes = [\"640x360\"], seed = true }\n";
    let gateway = gateway(&toml).await;
    let capabilities = gateway.get("/v1/models/film").await.ok()["capabilities"].clone();
    let facts = json!([
        capabilities["sizes"],
        capabilities["min_seconds"],
        capabilities["max_seconds"],
        capabilities["default_seconds"],
        capabilities["seed"],
        capabilities["max_images"]
    ]);
    assert_eq!(facts, json!([["640x360"], 2, 6, 3, true, 0]));
    gateway
        .post(CHAT, &chat_order_with_picture("a lake"))
        .await
        .refused(400, "unsupported_value");
    gateway
        .post(CHAT, &chat(&json!({"seconds": 7})))
        .await
        .refused(400, "unsupported_value")
        .on_param("video.seconds");
    nothing_happened(&gateway, &simulator).await;
    gateway.post(CHAT, &chat(&json!({"seed": 7}))).await.ok();
    let order = simulator.world().journal()[0].body.clone();
    assert_eq!(
        json!([order["size"], order["seconds"], order["seed"]]),
        json!(["640x360", "3", "7"])
    );
    gateway.stop().await;
}

#[tokio::test]
async fn unsupported_stems_of_a_music_model_are_refused() {
    let simulator = simulator().await;
    let toml = provider(
        "acme",
        "musicai",
        &simulator,
        "stems = [\"vocals\", \"instrumental\"]",
    ) + "[models.band]\nkind = \"music\"\nprice = \"free\"\nroutes = [{ provider = \"acme\", model = \"two-stems\" }]\n";
    let gateway = gateway(&toml).await;
    let source = gateway.upload("Song").await;
    let submit = async |extra: Value| {
        let mut body = json!({"task": "gen_stem", "mv": "band", "continue_clip_id": source["id"]});
        body.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        gateway.post("/musicgen/submit/music", &body).await
    };
    let drums = submit(json!({"stem_type_group_name": "Drums"})).await;
    drums
        .refused(400, "unsupported_value")
        .on_param("stem_type_group_name");
    assert!(
        drums.message().contains("Vocals"),
        "it names the supported stems: {}",
        drums.message()
    );
    submit(json!({"stem_task": "twelve"}))
        .await
        .refused(400, "unsupported_value")
        .on_param("stem_task");
    let song = gateway
        .post(
            "/musicgen/submit/music",
            &json!({"task": "generate", "title": "x"}),
        )
        .await;
    song.refused(400, "unsupported_value").on_param("task");
    assert!(song.message().contains("gen_stem"));
    nothing_happened(&gateway, &simulator).await;
    gateway.stop().await;
}
