//! Prices of hosted models: routes with their own prices, and deliveries that are
//! shorter than ordered.

use serde_json::{Value, json};
use simulator::{Fault, RequestRole};

use super::{
    chat_order, film, gateway, one_provider, provider, request_count, simulator, submissions,
};
use crate::support::TestGateway;

const ROUTES: &str = r#"{ provider = "dear", model = "sora-2", price = { unit = "second", usd = "0.30" } },
    { provider = "cheap", model = "sora-2", price = { unit = "video", usd = "0.20" } },
    { provider = "usual", model = "sora-2" }"#;

async fn quote(gateway: &TestGateway, body: &Value) -> Value {
    let quote_request = json!({"endpoint": "/v1/chat/completions", "body": body});
    gateway.post("/v1/quote", &quote_request).await.ok()
}

#[tokio::test]
async fn a_route_can_have_its_own_price_and_the_highest_is_reserved() {
    let (dear, cheap, usual) = (simulator().await, simulator().await, simulator().await);
    let providers = provider("dear", "openai-videos", &dear, "")
        + &provider("cheap", "openai-videos", &cheap, "")
        + &provider("usual", "openai-videos", &usual, "");
    let toml = format!("show_providers = true\n{providers}{}", film(ROUTES));
    let gateway = gateway(&toml).await;
    let quote = quote(&gateway, &chat_order("a lake")).await;
    assert_eq!(
        [
            &quote["unit"],
            &quote["unit_price_usd"],
            &quote["quantity"],
            &quote["cost_usd"]
        ],
        [
            &json!("second"),
            &json!("0.30"),
            &json!("4"),
            &json!("1.20")
        ]
    );
    assert_eq!(quote["reserve_usd"], "1.20");
    let routes = json!([
        {"provider": "dear", "model": "sora-2", "unit": "second", "unit_price_usd": "0.30", "cost_usd": "1.20", "available": true},
        {"provider": "cheap", "model": "sora-2", "unit": "video", "unit_price_usd": "0.20", "cost_usd": "0.20", "available": true},
        {"provider": "usual", "model": "sora-2", "unit": "second", "unit_price_usd": "0.10", "cost_usd": "0.40", "available": true},
    ]);
    assert_eq!(quote["routes"], routes);
    assert_eq!(
        submissions(&dear) + request_count(&dear, RequestRole::Poll),
        0,
        "no provider was asked"
    );

    // The first provider refuses the order; the second makes the film at its own price.
    dear.world().order_fault(
        Fault::Status {
            status: 429,
            retry_after: None,
            bare: false,
        },
        None,
        Some(RequestRole::Submit),
        1,
    );
    let answer = gateway
        .post("/v1/chat/completions", &chat_order("a lake"))
        .await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    assert_eq!(answer.ok()["usage"]["cost"], 0.2);
    let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    let billing = json!({
        "status": "settled", "reserved_usd": "1.20", "charged_usd": "0.20", "refunded_usd": "1.00",
        "unit": "video", "unit_price_usd": "0.20", "quantity": "1",
    });
    assert_eq!(view["billing"], billing);
    gateway.stop().await;
}

#[tokio::test]
async fn quotes_name_providers_only_where_they_are_shown() {
    let simulator = simulator().await;
    let gateway = gateway(&one_provider(&simulator)).await;
    let quoted = quote(&gateway, &chat_order("a lake")).await;
    let hosted = json!([{
        "provider": "hosted", "model": "film", "unit": "second", "unit_price_usd": "0.10",
        "cost_usd": "0.40", "available": true,
    }]);
    assert_eq!(quoted["routes"], hosted);
    let operator = mediagate_core::domain::keys::NewKey {
        scopes: vec![mediagate_model::account::Scope::Admin],
        ..Default::default()
    };
    let operator = gateway.caller("default", operator).await;
    let quote_request = json!({"endpoint": "/v1/chat/completions", "body": chat_order("a lake")});
    let quoted = operator.post("/v1/quote", &quote_request).await.ok();
    assert_eq!(quoted["routes"][0]["provider"], "acme");
    assert_eq!(quoted["routes"][0]["model"], "sora-2");
    gateway.stop().await;
}

/// The catalogue says whether a provider charges for what it refuses; its source would name it.
#[tokio::test]
async fn lists_and_quotes_say_whether_refused_orders_are_charged() {
    let simulator = simulator().await;
    let providers = provider("acme", "runway", &simulator, "")
        + &provider("other", "openai-videos", &simulator, "");
    let two =
        r#"{ provider = "other", model = "sora-2" }, { provider = "acme", model = "gen4.5" }"#;
    let models = film(two)
        + "[models.unknown]\nkind = \"video\"\nprice = \"free\"\n\
           routes = [{ provider = \"other\", model = \"sora-2\" }]\n";
    for is_shown in [false, true] {
        let toml = format!("show_providers = {is_shown}\n{providers}{models}");
        let gateway = gateway(&toml).await;
        let list = gateway.without_key().get("/pricing.json").await.ok();
        let facts = |id: &str| {
            let mut models = list["data"].as_array().unwrap().iter();
            let model = models.find(|model| model["id"] == id).unwrap();
            (
                model["charged_when_refused"].clone(),
                model["charged_when_refused_source"].clone(),
            )
        };
        assert_eq!(facts("animatic-1"), (json!("no"), Value::Null));
        assert_eq!(facts("unknown").0, "unknown");
        let (charged, source) = facts("film");
        assert_eq!(charged, "yes");
        let quoted = quote(&gateway, &chat_order("a lake")).await;
        assert_eq!(quoted["charged_when_refused"], "yes", "{quoted}");
        assert_eq!(quoted["charged_when_refused_source"], source);
        let names_runway = source
            .as_str()
            .is_some_and(|text| text.contains("runwayml"));
        assert_eq!(names_runway, is_shown, "{source}");
        let page = gateway.without_key().get("/pricing").await;
        let page = String::from_utf8(page.bytes.to_vec()).unwrap();
        assert!(page.contains("Charged when refused"), "{page}");
        assert_eq!(page.contains("runwayml"), is_shown);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn an_unavailable_model_is_quoted_as_unavailable() {
    // No server listens there.
    let toml = "[providers.acme]\nprotocol = \"openai-videos\"\nbase_url = \"http://127.0.0.1:9\"\napi_key = \"k\"\n".to_owned()
        + &film(r#"{ provider = "acme", model = "sora-2" }"#);
    let gateway = gateway(&toml).await;
    let quoted = crate::support::eventually("the outage is known", async || {
        let quoted = quote(&gateway, &chat_order("a lake")).await;
        (quoted["available"] == false).then_some(quoted)
    });
    let quoted = quoted.await;
    assert_eq!(
        (&quoted["cost_usd"], &quoted["routes"][0]["available"]),
        (&json!("0.40"), &json!(false))
    );
    let refused = gateway
        .post("/v1/chat/completions", &chat_order("a lake"))
        .await;
    refused.refused(503, "provider_unavailable");
    gateway.stop().await;
}

#[tokio::test]
async fn a_short_delivery_is_charged_by_its_length() {
    let simulator = simulator().await;
    // A provider that ignores the ordered length and always makes four seconds.
    let recipe = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../recipes/openai-videos.toml"
    );
    let recipe = std::fs::read_to_string(recipe).unwrap();
    let without_length = recipe.replace(
        "seconds         = \"{seconds:text}\"",
        "length = \"{seconds:text}\"",
    );
    assert_ne!(without_length, recipe);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deaf.toml");
    std::fs::write(&file, without_length).unwrap();
    let toml = format!(
        "[providers.acme]\nprotocol = \"recipe\"\nbase_url = \"{}\"\napi_key = \"{}\"\nrecipe = \"file:{}\"\n{}",
        simulator.url("openai-videos"),
        super::KEY,
        file.display(),
        film(r#"{ provider = "acme", model = "sora-2" }"#)
    );
    let gateway = gateway(&toml).await;
    let mut order = chat_order("a lake");
    order["video"] = json!({"seconds": 12});
    let quoted = quote(&gateway, &order).await;
    assert_eq!(
        (&quoted["cost_usd"], &quoted["reserve_usd"]),
        (&json!("1.20"), &json!("1.20"))
    );
    let answer = gateway.post("/v1/chat/completions", &order).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    assert_eq!(answer.ok()["usage"]["cost"], 0.4);
    let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    assert_eq!(
        [
            &view["cost_usd"],
            &view["billing"]["quantity"],
            &view["billing"]["refunded_usd"]
        ],
        [&json!("0.40"), &json!("4"), &json!("0.80")]
    );
    let account = gateway.get("/v1/account").await.ok();
    assert_eq!(
        [&account["held_usd"], &account["spent_usd"]],
        [&json!("0.00"), &json!("0.40")]
    );
    gateway.stop().await;
}

/// The simulator's film with these bytes written behind each of its boxes of this kind.
fn changed_film(kind: [u8; 4], changes: &[(usize, u32)]) -> Fault {
    let mut film = simulator::media::video(4).to_vec();
    let starts: Vec<usize> = (0..film.len() - 4)
        .filter(|start| film[*start..].starts_with(&kind))
        .collect();
    assert!(!starts.is_empty());
    for start in starts {
        for (offset, number) in changes {
            let place = start + 4 + offset;
            film[place..place + 4].copy_from_slice(&number.to_be_bytes());
        }
    }
    Fault::Another(film)
}

#[tokio::test]
async fn a_film_is_not_free_because_its_file_tells_no_size_or_a_moment() {
    let simulator = simulator().await;
    let priced = |name: &str, unit: &str| {
        format!(
            "[models.{name}]\nkind = \"video\"\nprice = {{ unit = \"{unit}\", usd = \"0.10\" }}\nroutes = [{{ provider = \"acme\", model = \"sora-2\" }}]\n"
        )
    };
    let toml = provider("acme", "openai-videos", &simulator, "")
        + &priced("by-size", "megapixel_second")
        + &priced("by-length", "second");
    let gateway = gateway(&toml).await;
    // Width and height of a track.
    let without_size = changed_film(*b"tkhd", &[(76, 0), (80, 0)]);
    // The clock's ticks per second, and the length in ticks.
    let of_a_moment = changed_film(*b"mdhd", &[(12, 1000), (16, 90)]);
    for (model, fault, quantity) in [
        // A size that is not known is the ordered one: 4 × 0.9216.
        ("by-size", without_size, "3.6864"),
        ("by-length", of_a_moment, "0.1"),
    ] {
        let world = simulator.world();
        world.order_fault(fault, None, Some(RequestRole::Download), 1);
        let body = json!({"model": model, "prompt": "a lake"});
        let order = gateway.post("/v1/videos", &body).await;
        let task = order.header("x-task-id").unwrap().to_owned();
        let view = gateway.finished(&task).await;
        assert_eq!(view["status"], "succeeded", "{view}");
        assert_eq!(view["billing"]["quantity"], quantity, "{view}");
        assert_ne!(view["cost_usd"], "0.00", "{view}");
    }
    let verified = crate::admin::operator(&gateway).await;
    let verified = verified.get("/v1/admin/ledger/verify").await.ok();
    assert_eq!(verified["mismatches"], json!([]), "{verified}");
    gateway.stop().await;
}
