//! `/v1/models`.

use serde_json::json;

use crate::support::TestGateway;

#[tokio::test]
async fn the_list_has_each_models_kind_input_and_price() {
    let gateway = TestGateway::builder()
        .without_workers()
        .toml("[models.stems-dsp-1]\nprice = { unit = \"stem\", usd = \"0.05\" }")
        .start()
        .await;
    let list = gateway.get("/v1/models").await.ok();
    assert_eq!(list["object"], "list");
    let models = list["data"].as_array().unwrap();
    let video = models
        .iter()
        .find(|model| model["id"] == "animatic-1")
        .unwrap();
    assert_eq!(
        (&video["object"], &video["kind"]),
        (&json!("model"), &json!("video"))
    );
    assert!(video["price"].is_null());
    assert_eq!(video["available"], true);
    assert_eq!(video["capabilities"]["input"], json!(["text", "image"]));
    assert!(
        video["capabilities"]["sizes"]
            .as_array()
            .unwrap()
            .contains(&json!("1280x720"))
    );
    let music = models
        .iter()
        .find(|model| model["id"] == "stems-dsp-1")
        .unwrap();
    assert_eq!(music["price"], json!({"unit": "stem", "usd": "0.05"}));
    assert_eq!(
        music["capabilities"]["stems"],
        json!(["Vocals", "Drums", "Bass"])
    );
    assert_eq!(music["aliases"], json!(["chirp-*"]));

    assert_eq!(gateway.get("/v1/models/animatic-1").await.ok(), *video);
    gateway
        .get("/v1/models/nobody-1")
        .await
        .refused(404, "model_not_found");
    gateway
        .without_key()
        .get("/v1/models")
        .await
        .refused(401, "missing_api_key");
    gateway.stop().await;
}

#[tokio::test]
async fn the_median_time_is_that_of_finished_tasks() {
    let gateway = TestGateway::start().await;
    let before = gateway.get("/v1/models/animatic-1").await.ok();
    assert!(before["median_seconds"].is_null());
    gateway
        .post("/v1/chat/completions", &crate::support::video_order())
        .await
        .ok();
    let after = gateway.get("/v1/models/animatic-1").await.ok();
    assert!(after["median_seconds"].as_f64().unwrap() > 0.0);
    gateway.stop().await;
}
