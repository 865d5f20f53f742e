//! Deliveries beyond what was paid for: settings in prompts are not sent, and what a provider
//! delivers beyond the order is charged to the operator, logged and counted, and not charged to the
//! caller.

use serde_json::{Value, json};
use simulator::{Fault, RequestRole};

use super::{film, gateway, order_film, provider, simulator, submissions};
use crate::admin::operator;

/// Prompts with text that Seedance parses as settings, in both forms.
const SETTINGS: [&str; 9] = [
    "a lake --rs 1080p --dur 12",
    "a lake --resolution 1080p",
    "a lake --rt 1:1",
    "a lake --ratio=1:1",
    "a lake --Duration 12",
    "--fps 60 a lake",
    "a lake\n--wm false",
    "a lake --seed 5",
    "a lake --cf true",
];

#[tokio::test]
async fn settings_in_a_prompt_are_refused_where_the_provider_reads_them() {
    let simulator = simulator().await;
    let toml = provider("acme", "modelark", &simulator, "")
        + &provider("fal", "fal", &simulator, "api_key = \"simulated-id:simulated-secret\"")
        + &film(r#"{ provider = "acme", model = "seedance-1-5-pro-251215" }"#)
        // Every provider of the model forwards the prompt.
        + "[models.other]\nkind = \"video\"\nprice = \"free\"\nroutes = [{ provider = \"fal\", model = \"fal-ai/bytedance/seedance/v1/pro\" }]\n";
    let gateway = gateway(&toml).await;
    for (model, prompt) in SETTINGS
        .map(|prompt| ("film", prompt))
        .into_iter()
        .chain([("other", "a lake --dur 12")])
    {
        let video = json!({"model": model, "prompt": prompt});
        let answer = gateway.post("/v1/videos", &video).await;
        answer.refused(400, "unsupported_value").on_param("prompt");
        let message = json!([{"role": "user", "content": prompt}]);
        let chat = json!({"model": model, "messages": message});
        let answer = gateway.post("/v1/chat/completions", &chat).await;
        answer
            .refused(400, "unsupported_value")
            .on_param("messages");
        let quote = json!({"endpoint": "/v1/videos", "body": video});
        let quote = gateway.post("/v1/quote", &quote).await;
        assert_eq!(quote.status, 400, "{}", quote.text());
    }
    assert_eq!(submissions(&simulator), 0);
    // Similar words are not settings.
    let task = order_film(&gateway, "a durable--durable lake, in a ratio -- of gold").await;
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_prompt_with_settings_goes_to_a_provider_that_does_not_parse_it() {
    let simulator = simulator().await;
    let toml = provider("acme", "modelark", &simulator, "")
        + &provider("plain", "openai-videos", &simulator, "")
        + &film(
            r#"{ provider = "acme", model = "seedance-1-5-pro-251215", limits = { sizes = ["1280x720"], seconds = [4] } }, { provider = "plain", model = "sora-2", limits = { sizes = ["1280x720"], seconds = [4] } }"#,
        );
    let gateway = gateway(&toml).await;
    let task = order_film(&gateway, SETTINGS[0]).await;
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    let journal = simulator.world().journal();
    let order = journal
        .iter()
        .find(|request| request.role == RequestRole::Submit)
        .unwrap();
    assert_eq!(order.provider, "openai-videos");
    assert_eq!(order.body["prompt"], SETTINGS[0]);
    gateway.stop().await;
}

/// A film of twelve seconds with this frame size.
fn twelve_seconds(width: u32, height: u32) -> Vec<u8> {
    let mut film = simulator::media::video(12).to_vec();
    let track_header = film.windows(4).position(|kind| kind == b"tkhd").unwrap() + 4;
    film[track_header + 76..track_header + 80].copy_from_slice(&(width << 16).to_be_bytes());
    film[track_header + 80..track_header + 84].copy_from_slice(&(height << 16).to_be_bytes());
    film
}

#[tokio::test]
async fn a_delivery_beyond_the_order_costs_the_operator_and_is_counted() {
    let simulator = simulator().await;
    let toml = provider("acme", "openai-videos", &simulator, "")
        + "[models.film]\nkind = \"video\"\nprice = { unit = \"second\", usd = \"0.10\" }\n\
           routes = [{ provider = \"acme\", model = \"sora-2\", limits = { sizes = [\"864x480\"], seconds = [4] }, \
           cost = { unit = \"megapixel_second\", usd = \"0.01\" } }]\n";
    let gateway = gateway(&toml).await;
    let operator = operator(&gateway).await;
    let provider_cost = async || {
        let usage = operator.get("/v1/admin/usage?group_by=model").await.ok();
        usage["total"]["provider_cost_usd"].clone()
    };
    let as_ordered = Fault::Another(twelve_seconds(864, 496)[..].to_vec());
    let larger = Fault::Another(twelve_seconds(1920, 1080));
    let mut charged = Vec::new();
    for (fault, cost) in [
        // Twelve seconds instead of four, in the ordered size: 12 × 0.41472 × 0.01. A size that
        // differs by a few lines counts as the ordered one.
        (as_ordered, "0.049766"),
        // 12 × 2.0736 × 0.01 more.
        (larger, "0.298598"),
    ] {
        let world = simulator.world();
        world.order_fault(fault, None, Some(RequestRole::Download), 1);
        let task = order_film(&gateway, "a lake").await;
        let view = gateway.finished(&task).await;
        assert_eq!(view["status"], "succeeded", "{view}");
        let video = &view["output"]["videos"][0];
        assert_eq!(
            video["seconds"].as_f64(),
            Some(12.0),
            "the delivered length is shown"
        );
        charged.push(view["cost_usd"].clone());
        assert_eq!(provider_cost().await, json!(cost));
    }
    assert_eq!(charged, [json!("0.40"), json!("0.40")], "as ordered");
    let metrics = operator.get("/metrics").await.whole_text();
    for line in [
        r#"mediagate_delivered_beyond_order_total{provider="acme",what="length"} 2"#,
        r#"mediagate_delivered_beyond_order_total{provider="acme",what="size"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    // The hourly totals agree with the submissions too.
    let check: Value = operator.get("/v1/admin/ledger/verify").await.ok();
    assert_eq!(check["mismatches"], json!([]), "{check}");

    // A delivery as ordered is not counted.
    let task = order_film(&gateway, "a lake").await;
    gateway.finished(&task).await;
    let later_metrics = operator.get("/metrics").await.whole_text();
    assert!(
        later_metrics.contains(r#"what="length"} 2"#),
        "{later_metrics}"
    );
    gateway.stop().await;
}
