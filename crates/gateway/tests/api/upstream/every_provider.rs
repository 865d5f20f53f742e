//! Each protocol through the endpoints: the video is in the gateway's own store,
//! measured, paid once, and plays when the provider is gone.

use mediagate_core::domain::assets::sha256_hex;
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    chat_order, chat_order_with_picture, film, gateway, music, provider, simulated, simulator,
    songs, submissions,
};
use crate::support::sse::Events;
use crate::support::{Client, TestGateway};

/// A video provider.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) protocol: &'static str,
    pub(super) model: &'static str,
    /// Lines of its table.
    pub(super) options: &'static str,
    /// Whether the orders have a picture.
    pub(super) picture: bool,
}

/// A test for each protocol, and for each interface of one that has several.
macro_rules! videos {
    ($($name:ident: $protocol:literal $model:literal $options:expr, $picture:literal;)*) => {
        /// The protocols tested here.
        const VIDEOS: &[&str] = &[$($protocol),*];

        /// The protocols with their models and options.
        pub(super) const CASES: &[Case] = &[
            $(Case { protocol: $protocol, model: $model, options: $options, picture: $picture }),*
        ];

        $(#[tokio::test]
        async fn $name() {
            let case = Case { protocol: $protocol, model: $model, options: $options, picture: $picture };
            check_case(case).await;
        })*
    };
}

videos! {
    openai_videos: "openai-videos" "sora-2" "", true;
    chat_video: "chat-video" "veo3" "", true;
    chat_video_whole: "chat-video" "veo3" "stream = false", true;
    fal: "fal" "fal-ai/veo3.1" PAIR, false;
    fal_with_a_picture: "fal" "fal-ai/kling-video/v2.5-turbo/pro/image-to-video" PAIR, true;
    replicate: "replicate" "google/veo-3.1" "", true;
    runway: "runway" "gen4.5" "", true;
    luma: "luma" "ray-3.2" "", true;
    luma_dream_machine: "luma" "ray-flash-2" "api = \"dream-machine\"", false;
    kling: "kling" "kling-v2-6" "api_key = \"simulated-access:simulated-secret\"", true;
    minimax: "minimax" "MiniMax-Hailuo-2.3" "", true;
    minimax_v2: "minimax" "MiniMax-H3" "api = \"v2\"", true;
    modelark: "modelark" "seedance-1-5-pro-251215" "", true;
    xai: "xai" "grok-imagine-video" "", true;
    dashscope: "dashscope" "wan2.6-t2v" "", false;
    dashscope_with_a_picture: "dashscope" "wan2.6-i2v" "", true;
    gemini_veo: "gemini-veo" "veo-3.1-generate-preview" "", true;
    gemini_veo_by_vertex: "gemini-veo" "veo-3.1-generate-001" VERTEX, true;
    gemini_veo_by_interactions: "gemini-veo" "gemini-omni-1.2-flash" "api = \"interactions\"", true;
    comfyui: "comfyui" "wan" GRAPH, false;
    recipe: "recipe" "any" RECIPE, true;
    recipe_openrouter: "recipe:openrouter" "google/veo-3.1" "", true;
    recipe_wavespeed: "recipe:wavespeed" "alibaba/wan-3.0/text-to-video" "", false;
    recipe_kie: "recipe:kie" "bytedance/seedance-2-5" "", false;
    recipe_pixverse: "recipe:pixverse" "v6" "", true;
    recipe_hunyuan: "recipe:hunyuan" "hunyuan" "api_key = \"simulated-id:simulated-key\"", true;
    recipe_vidu: "recipe:vidu" "viduq3-turbo" "", true;
    recipe_ltx: "recipe:ltx" "ltx-2-5-fast" "", true;
}

const VERTEX: &str = concat!(
    "api = \"vertex\"\nproject = \"simulated\"\nlocation = \"europe-west4\"\napi_key = \"file:",
    env!("CARGO_MANIFEST_DIR"),
    "/../providers/tests/data/service-account.json\""
);
/// A key that consists of an identifier and a secret.
const PAIR: &str = "api_key = \"simulated-id:simulated-secret\"";

/// A graph in the format that `ComfyUI` exports.
const GRAPH: &str = r#"
fps = 16
patch = { prompt = "6.inputs.text", seed = "3.inputs.seed", width = "50.inputs.width", height = "50.inputs.height", frames = "50.inputs.length" }
graph = '''
{"3": {"class_type": "KSampler", "inputs": {"seed": 1, "steps": 20, "model": ["37", 0], "latent_image": ["50", 0]}},
 "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "", "clip": ["38", 0]}},
 "50": {"class_type": "WanImageToVideo", "inputs": {"width": 832, "height": 480, "length": 81}},
 "57": {"class_type": "CreateVideo", "inputs": {"fps": 16, "images": ["8", 0]}},
 "58": {"class_type": "SaveVideo", "inputs": {"filename_prefix": "video/mediagate", "video": ["57", 0]}}}
'''
"#;

/// The Videos API once more, by the recipe that comes with the gateway.
const RECIPE: &str = concat!(
    "recipe = \"file:",
    env!("CARGO_MANIFEST_DIR"),
    "/../../recipes/openai-videos.toml\""
);

#[test]
fn each_protocol_is_tested() {
    let tested = [VIDEOS, music::STEMS, songs::SONG_PROTOCOLS].concat();
    let protocols = providers::PROTOCOLS
        .iter()
        .chain(providers::SHIPPED_RECIPES);
    let missing: Vec<&str> = protocols
        .map(|protocol| protocol.name)
        .filter(|name| !tested.contains(name))
        .collect();
    assert!(
        missing.is_empty(),
        "no case here, in music.rs or in songs.rs: {missing:?}"
    );
}

async fn check_case(case: Case) {
    let simulator = simulator().await;
    let table = provider("acme", case.protocol, &simulator, case.options);
    let route = format!("{{ provider = \"acme\", model = \"{}\" }}", case.model);
    let gateway = gateway(&(table + &film(&route))).await;
    let capabilities = gateway.get("/v1/models/film").await.ok()["capabilities"].clone();
    let seconds = capabilities["default_seconds"].as_u64().unwrap();

    let (by_chat, by_stream, by_videos) = tokio::join!(
        order_by_chat(&gateway, case.picture),
        order_by_stream(&gateway, case.picture),
        order_by_videos_api(&gateway, case.picture)
    );
    assert_eq!(submissions(&simulator), 3, "one for each order");
    assert_eq!(
        simulator.world().accepted_count(simulated(case.protocol)),
        3
    );
    drop(simulator);

    let cost = format!("{}.{}0", seconds / 10, seconds % 10);
    for (task, video) in [by_chat, by_stream, by_videos] {
        check_video(&gateway, &video, seconds).await;
        let task = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
        assert_eq!(
            (&task["status"], &task["cost_usd"], &task["provider"]),
            (&json!("succeeded"), &json!(cost), &json!("hosted")),
            "{task}"
        );
    }
    gateway.stop().await;
}

fn order(picture: bool) -> Value {
    if picture {
        chat_order_with_picture("a lighthouse in a storm")
    } else {
        chat_order("a lighthouse in a storm")
    }
}

/// The task and the video's description.
async fn order_by_chat(gateway: &TestGateway, picture: bool) -> (String, Value) {
    let answer = gateway.post("/v1/chat/completions", &order(picture)).await;
    let task = answer.header("x-task-id").map(str::to_owned);
    let completion = answer.ok();
    let message = completion["choices"][0]["message"].clone();
    assert_eq!(message["content"], message["video"]["url"]);
    assert_eq!(completion["model"], "film");
    (task.unwrap(), message["video"].clone())
}

async fn order_by_stream(gateway: &TestGateway, picture: bool) -> (String, Value) {
    let mut body = order(picture);
    body["stream"] = json!(true);
    let request = gateway.request(Method::POST, "/v1/chat/completions");
    let events = Events::open(request.json(&body)).await;
    let task = events.response.headers()["x-task-id"].to_str().unwrap();
    let task = task.to_owned();
    let events = events.rest().await;
    assert_eq!(events.last().unwrap().data, "[DONE]");
    let chunks = &events[..events.len() - 1];
    let videos: Vec<Value> = chunks
        .iter()
        .map(|chunk| chunk.json()["choices"][0]["delta"]["video"].clone())
        .filter(|video| !video.is_null())
        .collect();
    assert_eq!(videos.len(), 1, "{chunks:?}");
    (task, videos[0].clone())
}

async fn order_by_videos_api(gateway: &TestGateway, picture: bool) -> (String, Value) {
    let mut body = json!({"model": "film", "prompt": "a lighthouse in a storm"});
    if picture {
        let content = &order(true)["messages"][0]["content"][1]["image_url"]["url"];
        body["input_reference"] = json!({"image_url": content});
    }
    let answer = gateway.post("/v1/videos", &body).await;
    let task = answer.header("x-task-id").map(str::to_owned);
    let id = answer.ok()["id"].as_str().unwrap().to_owned();
    let task = task.unwrap();
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    let path = format!("/v1/videos/{id}");
    assert_eq!(gateway.get(&path).await.ok()["status"], "completed");
    let content = gateway.get(&format!("{path}/content")).await;
    assert_eq!((content.status, &content.bytes[4..8]), (200, &b"ftyp"[..]));
    (task, view["output"]["videos"][0].clone())
}

/// Checks that the gateway serves the video and that it matches its description.
async fn check_video(client: &Client, video: &Value, seconds: u64) {
    let (width, height) = simulator::media::VIDEO_SIZE;
    assert_eq!(
        (&video["width"], &video["height"]),
        (&json!(width), &json!(height)),
        "measured, not as ordered: {video}"
    );
    assert_eq!(
        video["seconds"].as_f64(),
        Some(f64::from(u32::try_from(seconds).unwrap())),
        "{video}"
    );
    let url = video["url"].as_str().unwrap();
    assert!(url.starts_with(&client.base), "{url}");
    let file = client.without_key().get(url).await;
    assert_eq!(
        (file.status, file.header("content-type")),
        (200, Some("video/mp4"))
    );
    assert_eq!(video["bytes"], file.bytes.len());
    assert_eq!(video["sha256"], sha256_hex(&file.bytes));
}
