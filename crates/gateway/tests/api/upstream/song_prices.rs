//! Prices of songs: what is held before their length is known, and what is charged.

use serde_json::{Value, json};
use simulator::{Fault, RequestRole, Simulator};

use super::music::SUBMIT;
use super::{gateway, provider, simulator, submissions};
use crate::support::TestGateway;

/// The table of the music model `singer` with this price and route.
fn singer(unit: &str, usd: &str, model: &str) -> String {
    format!(
        "[models.singer]\nkind = \"music\"\nprice = {{ unit = \"{unit}\", usd = \"{usd}\" }}\nroutes = [{{ provider = \"acme\", model = \"{model}\" }}]\n"
    )
}

/// A gateway with this model at a relay of the music API.
async fn relay_gateway(simulator: &Simulator, unit: &str, usd: &str) -> TestGateway {
    let toml = provider("acme", "suno-family", simulator, "") + &singer(unit, usd, "chirp-auk");
    gateway(&toml).await
}

/// The quote for a submission.
async fn quote(gateway: &TestGateway, body: &Value) -> Value {
    let quote_request = json!({"endpoint": SUBMIT, "body": body});
    gateway.post("/v1/quote", &quote_request).await.ok()
}

/// Submits an order and waits for its end; returns the task's record.
async fn order(gateway: &TestGateway, body: &Value) -> Value {
    let record = gateway.post(SUBMIT, body).await.ok();
    let view = gateway.finished(record["id"].as_str().unwrap()).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    view
}

#[tokio::test]
async fn an_impossible_length_is_refused_for_every_task() {
    let simulator = simulator().await;
    let gateway = relay_gateway(&simulator, "audio_minute", "0.10").await;
    for task in ["generate", "artist_consistency", "infill", "concat"] {
        for (seconds, code) in [
            (json!(0), "invalid_value"),
            (json!(-1), "invalid_value"),
            (json!(-1e300), "invalid_value"),
            (json!(1e300), "invalid_value"),
            (json!(1e15), "invalid_value"),
            (json!(3601), "invalid_value"),
            (json!("long"), "invalid_type"),
        ] {
            let body = json!({"task": task, "mv": "singer", "prompt": "rain", "seconds": seconds});
            let refused = gateway.post(SUBMIT, &body).await;
            refused.refused(400, code).on_param("seconds");
            let quote_request = json!({"endpoint": SUBMIT, "body": body});
            let refused = gateway.post("/v1/quote", &quote_request).await;
            refused.refused(400, code).on_param("body.seconds");
        }
    }
    assert_eq!(submissions(&simulator), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn a_length_that_a_relay_may_ignore_does_not_lower_what_is_held() {
    let simulator = simulator().await;
    let gateway = relay_gateway(&simulator, "audio_minute", "0.10").await;
    for task in ["generate", "artist_consistency"] {
        let body = json!({"task": task, "mv": "singer", "prompt": "rain", "seconds": 1});
        // Two clips of eight minutes.
        assert_eq!(quote(&gateway, &body).await["reserve_usd"], "1.60");
        let view = order(&gateway, &body).await;
        // Two clips of two seconds.
        let billing = &view["billing"];
        assert_eq!(
            [
                &billing["reserved_usd"],
                &billing["charged_usd"],
                &billing["unit_price_usd"],
                &billing["quantity"]
            ],
            ["1.60", "0.006667", "0.10", "0.066667"],
            "{view}"
        );
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_song_beyond_its_length_is_charged_as_held() {
    let simulator = simulator().await;
    let toml = provider(
        "acme",
        "fal",
        &simulator,
        "api_key = \"simulated-id:simulated-secret\"",
    ) + &singer(
        "audio_minute",
        "0.60",
        "fal-ai/stable-audio-25/text-to-audio",
    );
    let gateway = gateway(&toml).await;
    let body = json!({"prompt": "rain", "mv": "singer", "seconds": 1});
    assert_eq!(quote(&gateway, &body).await["reserve_usd"], "0.01");
    let two_seconds = Fault::Another(simulator::media::audio(2_000, 220.0).to_vec());
    let world = simulator.world();
    world.order_fault(two_seconds, None, Some(RequestRole::Download), 1);
    let view = order(&gateway, &body).await;
    let path = format!("/musicgen/tasks/{}", view["id"].as_str().unwrap());
    let record = gateway.get(&path).await.ok();
    let length = record["clips"][0]["metadata"]["duration"].as_f64();
    assert_eq!(length, Some(2.0), "{record}");
    let billing = &view["billing"];
    assert_eq!(
        [
            &billing["charged_usd"],
            &billing["unit_price_usd"],
            &billing["quantity"]
        ],
        ["0.01", "0.60", "0.016667"],
        "{view}"
    );
    gateway.stop().await;
}
