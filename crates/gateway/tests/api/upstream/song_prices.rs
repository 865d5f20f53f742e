//! Prices of songs: what is held before their length is known, and what is charged.

use mediagate_core::domain::keys::NewKey;
use serde_json::{Value, json};
use simulator::{Fault, JobPlan, RequestRole, Simulator};

use super::music::SUBMIT;
use super::{
    gateway, provider, request_count, simulator, submissions, submitted_body, wait_for_requests,
};
use crate::admin::operator;
use crate::support::{TestGateway, eventually};

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

#[tokio::test]
async fn joined_clips_are_one_complete_clip() {
    let simulator = simulator().await;
    let gateway = relay_gateway(&simulator, "task", "0.12").await;
    let song = order(&gateway, &json!({"prompt": "rain", "mv": "singer"})).await;
    let clips = clips_of(&gateway, &song).await;
    assert_eq!(clips.len(), 2);
    let body = json!({"task": "concat", "mv": "singer", "continue_clip_id": clips[0]["id"]});
    let accepted = gateway.post(SUBMIT, &body).await.ok();
    assert_eq!(accepted["clips"].as_array().unwrap().len(), 1, "{accepted}");
    let view = gateway.finished(accepted["id"].as_str().unwrap()).await;
    assert_complete(&view, "0.12");
    gateway.stop().await;
}

#[tokio::test]
async fn a_song_is_complete_with_the_clips_of_the_route_that_made_it() {
    let (pair, single) = (simulator().await, simulator().await);
    let toml = provider("pair", "recipe:kie-suno", &pair, "")
        + &provider("single", "recipe:mureka", &single, "")
        + "[models.singer]\nkind = \"music\"\nroutes = [\
           { provider = \"pair\", model = \"V5\", price = { unit = \"task\", usd = \"0.10\" } }, \
           { provider = \"single\", model = \"mureka-9\", price = { unit = \"task\", usd = \"0.06\" } }]\n";
    let gateway = gateway(&toml).await;
    super::at_submission(&pair, super::status(429), 1);
    let body = json!({"prompt": "[Verse] rain", "tags": "blues", "mv": "singer"});
    let view = order(&gateway, &body).await;
    assert_eq!((submissions(&pair), submissions(&single)), (1, 1));
    assert_complete(&view, "0.06");
    // The other clip was promised, so it stays, with its reason.
    let clips = clips_of(&gateway, &view).await;
    let statuses: Vec<&Value> = clips.iter().map(|clip| &clip["status"]).collect();
    assert_eq!(statuses, ["complete", "error"]);
    gateway.stop().await;
}

#[tokio::test]
async fn a_model_of_one_clip_at_another_gateway_is_declared() {
    let simulator = simulator().await;
    let far = gateway(
        &(provider("acme", "recipe:mureka", &simulator, "") + &singer("task", "0.05", "mureka-9")),
    )
    .await;
    let key = far.new_key("reseller", NewKey::default()).await;
    let toml = format!(
        "[providers.far]\nprotocol = \"suno-family\"\nbase_url = \"{}/musicgen\"\napi_key = \"{key}\"\nupload = \"direct\"\n\
         [models.singer]\nkind = \"music\"\nprice = {{ unit = \"task\", usd = \"0.12\" }}\n\
         limits = {{ clips = 1 }}\nroutes = [{{ provider = \"far\", model = \"singer\" }}]\n",
        far.base
    );
    let near = gateway(&toml).await;
    let view = order(&near, &json!({"prompt": "rain", "mv": "singer"})).await;
    assert_complete(&view, "0.12");
    near.stop().await;
    far.stop().await;
}

/// Orders a song, cancels it while its provider works on it, and returns the record when its job is
/// over.
async fn cancel_too_late(gateway: &TestGateway, simulator: &Simulator, body: &Value) -> Value {
    simulator.world().set_plan(JobPlan {
        polls: 2,
        ..JobPlan::default()
    });
    let polls = request_count(simulator, RequestRole::Poll);
    let record = gateway.post(SUBMIT, body).await.ok();
    let task = record["id"].as_str().unwrap();
    wait_for_requests(simulator, RequestRole::Poll, polls + 1).await;
    simulator.world().set_plan(JobPlan::default());
    let path = format!("/v1/tasks/{task}/cancel");
    gateway.post(&path, &json!({})).await.ok();
    eventually("the job is over", async || {
        let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
        (view["billing"]["status"] != "held").then_some(view)
    })
    .await
}

#[tokio::test]
async fn a_cancelled_song_by_the_minute_is_charged_for_what_is_certain() {
    let simulator = simulator().await;
    let gateway = relay_gateway(&simulator, "audio_minute", "0.60").await;
    // The provider may ignore the length.
    let body = json!({"prompt": "rain", "mv": "singer", "seconds": 600});
    let view = cancel_too_late(&gateway, &simulator, &body).await;
    let billing = &view["billing"];
    // Two clips of at least a second. Held were two of eight minutes.
    assert_eq!(
        [
            &billing["status"],
            &billing["reserved_usd"],
            &billing["charged_usd"],
            &billing["quantity"]
        ],
        ["settled", "9.60", "0.02", "0.033333"],
        "{view}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_cancelled_song_is_charged_for_the_clips_that_were_made() {
    let simulator = simulator().await;
    let toml = provider("acme", "suno-family", &simulator, "")
        + "[models.singer]\nkind = \"music\"\nprice = { unit = \"task\", usd = \"0.12\" }\n\
           routes = [{ provider = \"acme\", model = \"chirp-auk\", cost = { unit = \"task\", usd = \"0.08\" } }]\n";
    let gateway = gateway(&toml).await;
    let operator = operator(&gateway).await;
    let body = json!({"prompt": "half a song", "mv": "singer"});
    let view = cancel_too_late(&gateway, &simulator, &body).await;
    let billing = &view["billing"];
    assert_eq!(billing["charged_usd"], "0.06", "{view}");
    let partial = billing["partial"].as_str().unwrap();
    assert!(partial.contains("1 of 2"), "{partial}");
    // It costs as much as if it was not cancelled.
    let view = order(&gateway, &body).await;
    assert_eq!(view["cost_usd"], "0.06");
    // The clip that is missing says why.
    let clips = clips_of(&gateway, &view).await;
    let missing = clips.iter().find(|clip| clip["status"] == "error");
    assert_eq!(
        missing.unwrap()["metadata"]["error_message"],
        "The provider did not make this clip: The clip could not be made. It was not charged."
    );
    let usage = operator.get("/v1/admin/usage?group_by=outcome").await.ok();
    assert_eq!(usage["total"]["provider_cost_usd"], "0.08", "{usage}");
    let check = operator.get("/v1/admin/ledger/verify").await.ok();
    assert_eq!(check["mismatches"], json!([]), "{check}");
    gateway.stop().await;
}

/// The clips of a task.
async fn clips_of(gateway: &TestGateway, view: &Value) -> Vec<Value> {
    let path = format!("/musicgen/tasks/{}", view["id"].as_str().unwrap());
    let record = gateway.get(&path).await.ok();
    record["clips"].as_array().unwrap().clone()
}

/// Asserts that this was charged for all of the order.
#[track_caller]
fn assert_complete(view: &Value, usd: &str) {
    let billing = &view["billing"];
    assert_eq!(
        (
            &view["status"],
            &billing["charged_usd"],
            &billing["quantity"]
        ),
        (&json!("succeeded"), &json!(usd), &json!("1")),
        "{view}"
    );
    assert!(billing["partial"].is_null(), "{view}");
}

#[tokio::test]
async fn a_song_has_a_cost_limit_that_its_provider_never_sees() {
    let simulator = simulator().await;
    let gateway = relay_gateway(&simulator, "task", "0.20").await;
    let song = |max_cost: &str| json!({"prompt": "rain", "mv": "singer", "task": "generate", "max_cost_usd": max_cost});
    let answer = gateway.post(SUBMIT, &song("0.19")).await;
    answer.refused(402, "cost_limit").on_param("max_cost_usd");
    let message = answer.message();
    assert!(message.contains("may cost 0.20 USD"), "{message}");
    let request = gateway.request(reqwest::Method::POST, SUBMIT);
    let request = request.json(&song("1")).header("x-max-cost-usd", "0.19");
    gateway.send(request).await.refused(402, "cost_limit");
    assert_eq!(submissions(&simulator), 0);
    order(&gateway, &song("0.20")).await;
    let sent = submitted_body(&simulator);
    assert_eq!(sent.get("max_cost_usd"), None, "{sent}");
    gateway.stop().await;
}
