//! `/api/v1/videos/models` and `/api/v1/models`.

use serde_json::{Value, json};

use crate::support::{TestGateway, path_of};

/// The embedded models, and a hosted one whose price depends on sound.
const HOSTED: &str = r#"
[providers.acme]
protocol = "recipe:openrouter"
base_url = "https://openrouter.example/api/v1"
api_key  = "a-key-of-the-provider"

[models."acme/veo"]
kind   = "video"
price  = { unit = "second", usd = "0.40", usd_without_audio = "0.20" }
pass   = ["style"]
routes = [{ provider = "acme", model = "google/veo-3.1" }]
"#;

async fn gateway() -> TestGateway {
    let builder = TestGateway::builder().without_workers();
    builder.toml(HOSTED).start().await
}

fn ids(list: &Value) -> Vec<&str> {
    let models = list["data"].as_array().unwrap().iter();
    models.map(|model| model["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn video_models_say_what_may_be_ordered_and_what_it_costs() {
    let gateway = gateway().await;
    let list = gateway.get("/api/v1/videos/models").await.ok();
    let mut names = ids(&list);
    names.sort_unstable();
    assert_eq!(names, ["acme/veo", "animatic-1"]);
    let model = |id: &str| {
        let mut models = list["data"].as_array().unwrap().iter();
        models.find(|model| model["id"] == id).unwrap()
    };
    let hosted = model("acme/veo");
    for (field, value) in [
        ("canonical_slug", json!("acme/veo")),
        ("name", json!("acme/veo")),
        ("supported_durations", json!([4, 6, 8])),
        (
            "supported_sizes",
            json!(["1280x720", "720x1280", "1920x1080", "1080x1920"]),
        ),
        ("supported_resolutions", json!(["720p", "1080p"])),
        ("supported_aspect_ratios", json!(["16:9", "9:16"])),
        (
            "supported_frame_images",
            json!(["first_frame", "last_frame"]),
        ),
        (
            "pricing_skus",
            json!({"duration_seconds_with_audio": "0.40", "duration_seconds_without_audio": "0.20"}),
        ),
        ("generate_audio", json!(true)),
        ("seed", json!(true)),
        ("allowed_passthrough_parameters", json!(["style"])),
        ("creativity", Value::Null),
        ("upscale_factor", Value::Null),
    ] {
        assert_eq!(hosted[field], value, "{field}");
    }
    let embedded = model("animatic-1");
    assert_eq!(embedded["pricing_skus"], json!({"generate": "0"}));
    assert_eq!(embedded["supported_frame_images"], json!(["first_frame"]));
    gateway.stop().await;
}

#[tokio::test]
async fn models_are_listed_by_page_and_filtered() {
    let gateway = gateway().await;
    let list = async |query: &str| gateway.get(&format!("/api/v1/models{query}")).await.ok();
    // What the dialect's SDK for TypeScript sends by itself.
    let all = list("?offset=0&limit=500").await;
    let names = ids(&all);
    assert!(names.contains(&"acme/veo") && names.contains(&"stems-dsp-1"));
    assert_eq!(all["total_count"], names.len());
    assert_eq!(all["links"], json!({"next": null}));
    assert_eq!(all, list("").await);

    let mut path = "/api/v1/models?limit=1&output_modalities=video,audio".to_owned();
    let mut paged = Vec::new();
    for _ in &names {
        let page = gateway.get(&path).await.ok();
        assert_eq!(page["total_count"], names.len());
        paged.extend(page["data"].as_array().unwrap().clone());
        match page["links"]["next"].as_str() {
            Some(next) => path = path_of(next),
            None => break,
        }
    }
    assert_eq!(json!(paged), all["data"]);

    let veo = list("?q=VEO").await;
    assert_eq!(ids(&veo), ["acme/veo"]);
    let model = &veo["data"][0];
    assert_eq!(
        model["architecture"],
        json!({"input_modalities": ["text", "image"], "output_modalities": ["video"],
            "modality": "text+image->video"})
    );
    assert_eq!(model["pricing"], json!({"prompt": "0", "completion": "0"}));
    assert_eq!(model["price"]["usd"], "0.40");
    let videos = list("?output_modalities=video&input_modalities=image").await;
    assert_eq!(videos["total_count"], 2);
    assert_eq!(list("?output_modalities=text").await["data"], json!([]));
    let refused = gateway.get("/api/v1/models?max_price=1").await;
    refused
        .refused(400, "unsupported_value")
        .on_param("max_price");
    gateway.stop().await;
}
