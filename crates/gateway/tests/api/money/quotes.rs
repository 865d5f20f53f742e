//! `POST /v1/quote`.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use serde_json::{Value, json};

use super::{PRICES, quote, quote_request, rows, verify_and_stop, videos};
use crate::support::{TestGateway, sound, video_order, videos_order};

const CHAT: &str = "/v1/chat/completions";
const MUSIC: &str = "/musicgen/submit/music";

#[tokio::test]
async fn a_quote_equals_what_the_request_holds_and_costs() {
    let mut gateway = TestGateway::builder().without_workers().start().await;
    let clip = gateway.upload("Ferry").await["id"].clone();
    let split = json!({"task": "gen_stem", "continue_clip_id": clip});
    let mut tasks = Vec::new();
    for (unit, usd, endpoint, body, quantity, cost) in [
        ("second", "0.10", "/v1/videos", videos_order(), "1", "0.10"),
        ("video", "0.30", "/v1/videos", videos_order(), "1", "0.30"),
        (
            "megapixel_second",
            "0.25",
            "/v1/videos",
            videos_order(),
            "0.2304",
            "0.0576",
        ),
        ("task", "0.07", "/v1/videos", videos_order(), "1", "0.07"),
        (
            "audio_minute",
            "0.10",
            MUSIC,
            split.clone(),
            "0.033333",
            "0.003333",
        ),
        ("stem", "0.05", MUSIC, split.clone(), "2", "0.10"),
        ("task", "0.07", MUSIC, split.clone(), "1", "0.07"),
    ] {
        let model = if endpoint == MUSIC {
            "stems-dsp-1"
        } else {
            "animatic-1"
        };
        gateway.reconfigure(&format!(
            "[models.{model}]\nprice = {{ unit = \"{unit}\", usd = \"{usd}\" }}\n"
        ));
        let mut quoted = quote(&gateway, endpoint, &body).await;
        for reading in ["direction", "not_understood"] {
            let told = quoted.as_object_mut().unwrap().remove(reading);
            assert_eq!(told.is_some(), endpoint != MUSIC);
        }
        let expected = json!({
            "object": "quote", "endpoint": endpoint, "model": model, "unit": unit,
            "unit_price_usd": usd, "quantity": quantity, "cost_usd": cost, "reserve_usd": cost,
            "tasks": 1, "available": true, "affordable": true,
            "routes": [{
                "provider": "embedded", "model": model, "unit": unit, "unit_price_usd": usd,
                "cost_usd": cost, "available": true,
            }],
        });
        assert_eq!(quoted, expected);
        let answer = gateway.post(endpoint, &body).await;
        assert_eq!(answer.header("x-cost-usd"), Some(cost), "{unit}");
        let task = answer.header("x-task-id").unwrap().to_owned();
        let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
        assert_eq!(view["billing"]["reserved_usd"], cost);
        assert_eq!(view["billing"]["quantity"], quantity);
        tasks.push((task, cost));
    }
    // Their final costs are the quoted ones, although prices changed.
    gateway.start_workers().await;
    for (task, cost) in tasks {
        let view = gateway.finished(&task).await;
        assert_eq!(
            (&view["status"], &view["cost_usd"]),
            (&json!("succeeded"), &json!(cost)),
            "{view}"
        );
    }
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn several_videos_are_quoted_together() {
    let gateway = TestGateway::builder()
        .without_workers()
        .toml(PRICES)
        .start()
        .await;
    let quoted = quote(&gateway, CHAT, &videos(3)).await;
    assert_eq!(
        [
            &quoted["tasks"],
            &quoted["quantity"],
            &quoted["cost_usd"],
            &quoted["reserve_usd"]
        ],
        [&json!(3), &json!("3"), &json!("0.30"), &json!("0.30")]
    );
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn a_quote_creates_nothing() {
    let gateway = TestGateway::builder()
        .without_workers()
        .toml(PRICES)
        .start()
        .await;
    let clip = gateway.upload("Ferry").await["id"].clone();
    let before = rows(&gateway).await;
    let files = files(gateway.app.config.media_path());
    let mut with_picture = videos_order();
    let picture = sound::data_url("image/png", &sound::png(320, 180));
    with_picture["input_reference"] = json!({"image_url": picture});
    for (endpoint, body) in [
        (CHAT, video_order()),
        ("/v1/videos", with_picture),
        (
            MUSIC,
            json!({"task": "gen_stem", "continue_clip_id": clip, "stem_task": "twelve"}),
        ),
        (
            "/musicgen/persona/create",
            json!({"root_clip_id": clip, "name": "Ferry"}),
        ),
        (
            "/musicgen/uploads/audio",
            json!({"url": "https://example.com/song.mp3"}),
        ),
    ] {
        let quoted = quote(&gateway, endpoint, &body).await;
        assert_eq!(quoted["endpoint"], endpoint);
        if endpoint.contains("persona") || endpoint.contains("uploads") {
            let free = json!({
                "object": "quote", "endpoint": endpoint, "model": null, "unit": null,
                "unit_price_usd": null, "quantity": null, "cost_usd": "0.00", "reserve_usd": "0.00",
                "tasks": 0, "routes": [], "available": true, "affordable": true,
            });
            assert_eq!(quoted, free);
        }
    }
    assert_eq!(rows(&gateway).await, before);
    assert_eq!(self::files(gateway.app.config.media_path()), files);
    let account = gateway.get("/v1/account").await.ok();
    assert_eq!(account["held_usd"], "0.00");
    verify_and_stop(gateway).await;
}

fn files(folder: std::path::PathBuf) -> usize {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .map(|path| if path.is_dir() { files(path) } else { 1 })
        .sum()
}

#[tokio::test]
async fn a_quote_is_rejected_like_its_request() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let clip = "0193a000-0000-7000-8000-000000000020";
    for (endpoint, body) in [
        (CHAT, json!({})),
        (CHAT, json!({"model": 7, "messages": "hello"})),
        (
            CHAT,
            json!({"model": "nobody-1", "messages": [{"role": "user", "content": "x"}]}),
        ),
        ("/v1/videos", json!({"prompt": "a lake", "seconds": "900"})),
        (
            "/v1/videos",
            json!({"prompt": "x", "input_reference": {"image_url": "http://127.0.0.1/x"}}),
        ),
        (
            "/v1/videos",
            json!({"prompt": "x", "input_reference": {"image_url": "data:image/png;base64,AAAA"}}),
        ),
        (MUSIC, json!({"task": "gen_stem"})),
        (MUSIC, json!({"task": "gen_stem", "continue_clip_id": clip})),
        (MUSIC, json!({"task": "sing"})),
        (
            "/musicgen/persona/create",
            json!({"root_clip_id": clip, "name": "x"}),
        ),
        ("/musicgen/uploads/audio", json!({})),
    ] {
        let request_answer = gateway.post(endpoint, &body).await;
        let quote_answer = gateway
            .post("/v1/quote", &quote_request(endpoint, &body))
            .await;
        let error = |answer: &Value| {
            let error = &answer["error"];
            [error["code"].clone(), error["type"].clone()]
        };
        assert!(request_answer.status >= 400, "{body}");
        assert_eq!(
            quote_answer.status,
            request_answer.status,
            "{body}: {}",
            quote_answer.text()
        );
        assert_eq!(
            error(&quote_answer.json),
            error(&request_answer.json),
            "{body}"
        );
        let param = request_answer.json["error"]["param"].as_str();
        let expected = param.map_or(Value::Null, |param| json!(format!("body.{param}")));
        assert_eq!(quote_answer.json["error"]["param"], expected, "{body}");
    }
    for (body, code, param) in [
        (json!({}), "missing_field", "endpoint"),
        (json!({"endpoint": CHAT}), "missing_field", "body"),
        (json!({"endpoint": CHAT, "body": 7}), "invalid_type", "body"),
        (
            json!({"endpoint": 7, "body": {}}),
            "invalid_type",
            "endpoint",
        ),
        (
            json!({"endpoint": "/v1/tasks", "body": {}}),
            "unsupported_value",
            "endpoint",
        ),
    ] {
        let answer = gateway.post("/v1/quote", &body).await;
        answer.refused(400, code).on_param(param);
    }
    let scoped = NewKey {
        scopes: vec![Scope::MusicCreate],
        ..NewKey::default()
    };
    let caller = gateway.caller("default", scoped).await;
    let answer = caller
        .post("/v1/quote", &quote_request(CHAT, &video_order()))
        .await;
    answer.refused(403, "insufficient_scope");
    assert!(answer.message().contains("video:create"));
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn a_quote_says_what_cannot_be_afforded() {
    let gateway = TestGateway::builder()
        .without_workers()
        .toml(PRICES)
        .start()
        .await;
    let new = NewKey {
        budget: Some("0.25".parse().unwrap()),
        ..NewKey::default()
    };
    let caller = gateway.caller("default", new).await;
    for (count, affordable) in [(2, true), (3, false)] {
        let quoted = caller
            .post("/v1/quote", &quote_request(CHAT, &videos(count)))
            .await
            .ok();
        assert_eq!(quoted["affordable"], affordable, "{quoted}");
    }
    verify_and_stop(gateway).await;
}
