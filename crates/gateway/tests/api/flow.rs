//! The three endpoints of the specification in turn, on each database.

use serde_json::json;

use crate::support::spec::{CHAT, assert_fields, assert_persona, assert_task_record};
use crate::support::{TestGateway, sound, video_order};

async fn run_flow(gateway: TestGateway) {
    let mut order = video_order();
    let url = sound::data_url("image/png", &sound::png(64, 48));
    order["messages"][0]["content"] = json!([
        {"type": "text", "text": "slow dolly in"}, {"type": "image_url", "image_url": {"url": url}}]);
    let video = gateway.post("/v1/chat/completions", &order).await.ok();
    assert_fields(&video, CHAT, &[]);
    let file = gateway
        .without_key()
        .get(video["choices"][0]["message"]["content"].as_str().unwrap())
        .await;
    assert_eq!(&file.bytes[4..8], b"ftyp");

    let source = gateway.upload("Song").await;
    let record = gateway
        .separate(source["id"].as_str().unwrap(), "two")
        .await;
    assert_task_record(&record);
    let task = record["id"].as_str().unwrap();
    assert_eq!(gateway.finished(task).await["status"], "succeeded");
    let record = gateway.get(&format!("/musicgen/tasks/{task}")).await.ok();
    assert_task_record(&record);
    for clip in record["clips"].as_array().unwrap() {
        let stem = gateway
            .without_key()
            .get(clip["audio_url"].as_str().unwrap())
            .await;
        assert!(sound::is_flac(&stem.bytes));
    }

    let body =
        json!({"root_clip_id": record["clips"][0]["id"], "name": "Voice", "clips": [source["id"]]});
    let persona = gateway.post("/musicgen/persona/create", &body).await.ok();
    assert_persona(&persona, "is_service_persona");
    assert_eq!(persona["clip_count"], 2);

    let tasks = gateway.get("/v1/tasks?status=succeeded").await.ok();
    assert_eq!(tasks["data"].as_array().unwrap().len(), 2);
    assert_eq!(
        gateway.get("/musicgen/clips").await.ok()["data"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(
        gateway.get("/musicgen/personas").await.ok()["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let pricing = gateway.get("/pricing.json").await.ok();
    assert!(
        pricing["data"]
            .as_array()
            .unwrap()
            .iter()
            .all(|model| model["median_seconds"].is_f64())
    );
    assert_eq!(gateway.get("/readyz").await.status, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn video_stems_and_persona_on_sqlite() {
    run_flow(TestGateway::start().await).await;
}

#[tokio::test]
async fn video_stems_and_persona_on_postgres() {
    run_flow(TestGateway::builder().on_postgres().start().await).await;
}
