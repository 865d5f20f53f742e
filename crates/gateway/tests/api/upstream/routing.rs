//! Which provider gets an order, and when an order may go to another one.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use simulator::{Fault, PlannedEnd, RequestRole, Simulator};

use super::{
    assert_failed, at_submission, chat_order, film, gateway, one_provider, order_film, plan,
    provider, simulator, status, submissions, two_providers, wait_for_requests,
};
use crate::support::{TestGateway, eventually};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn the_first_route_is_preferred_and_weights_share_orders() {
    let (first, second) = (simulator().await, simulator().await);
    let gateway = gateway(&two_providers(&first, &second)).await;
    for _ in 0..3 {
        order_film(&gateway, "a lake").await;
    }
    wait_for_requests(&first, RequestRole::Submit, 3).await;
    assert_eq!(submissions(&second), 0);

    let toml = two_providers(&first, &second);
    let (providers, _) = toml.split_once("[models").unwrap();
    let routes = r#"{ provider = "first", model = "sora-2", weight = 1 }, { provider = "second", model = "sora-2", weight = 1 }"#;
    gateway.reconfigure(&(providers.to_owned() + &film(routes)));
    for _ in 0..24 {
        order_film(&gateway, "a lake").await;
    }
    eventually("all orders are sent", async || {
        (submissions(&first) + submissions(&second) == 27).then_some(())
    })
    .await;
    // The chance that one of them gets none of the 24 is 1 in 8 million.
    assert!(submissions(&first) > 3 && submissions(&second) > 0);
    gateway.stop().await;
}

/// Checks that after this fault at the first provider the second gets the order.
async fn check_failover(fault: Fault) {
    let (first, second) = (simulator().await, simulator().await);
    at_submission(&first, fault.clone(), 1);
    let gateway = gateway(&two_providers(&first, &second)).await;
    let answer = gateway.post(CHAT, &chat_order("a lake")).await;
    assert_eq!(answer.status, 200, "{fault:?}: {}", answer.text());
    assert_eq!(
        (
            submissions(&first),
            first.world().accepted_count("openai-videos")
        ),
        (1, 0),
        "{fault:?}"
    );
    assert_eq!(
        second.world().accepted_count("openai-videos"),
        1,
        "{fault:?}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_certain_refusal_fails_over() {
    tokio::join!(
        check_failover(status(429)),
        check_failover(status(401)),
        check_failover(status(402)),
    );
}

#[tokio::test]
async fn an_unreachable_provider_fails_over() {
    let second = simulator().await;
    let first = simulator().await;
    let toml = two_providers(&first, &second);
    drop(first);
    let gateway = gateway(&toml).await;
    gateway.post(CHAT, &chat_order("a lake")).await.ok();
    assert_eq!(submissions(&second), 1);
    gateway.stop().await;
}

/// Checks that this fault at the first provider ends the order with this error, and
/// that the second provider is not asked.
async fn check_no_failover(fault: Option<Fault>, prompt: &str, refused: (u16, &str)) {
    let (first, second) = (simulator().await, simulator().await);
    if let Some(fault) = fault.clone() {
        at_submission(&first, fault, 1);
    }
    let gateway = gateway(&two_providers(&first, &second)).await;
    let answer = gateway.post(CHAT, &chat_order(prompt)).await;
    answer.refused(refused.0, refused.1);
    let list = gateway.get("/v1/tasks").await.ok();
    assert_eq!(list["data"].as_array().unwrap().len(), 1);
    assert_failed(&list["data"][0], refused.1);
    assert_eq!(
        (submissions(&first), submissions(&second)),
        (1, 0),
        "{fault:?}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn an_unconfirmed_order_does_not_fail_over() {
    let unclear = (424, "submission_unconfirmed");
    let bare = Fault::Status {
        status: 500,
        retry_after: None,
        bare: true,
    };
    tokio::join!(
        check_no_failover(Some(status(500)), "a lake", unclear),
        check_no_failover(Some(status(503)), "a lake", unclear),
        check_no_failover(Some(status(409)), "a lake", unclear),
        check_no_failover(Some(bare), "a lake", unclear),
        check_no_failover(Some(Fault::DropBefore), "a lake", unclear),
    );
}

/// Checks that an order is found if its answer was lost after the provider accepted it.
async fn check_found(fault: Fault) {
    let (first, second) = (simulator().await, simulator().await);
    at_submission(&first, fault.clone(), 1);
    let gateway = gateway(&two_providers(&first, &second)).await;
    gateway.post(CHAT, &chat_order("a lake")).await.ok();
    assert_eq!(
        (submissions(&first), submissions(&second)),
        (1, 0),
        "{fault:?}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn an_accepted_order_with_a_lost_answer_is_found_at_the_provider() {
    tokio::join!(
        check_found(Fault::StatusAfter(502)),
        check_found(Fault::DropAfter),
        check_found(Fault::DropInBody),
    );
}

#[tokio::test]
async fn an_invalid_order_does_not_fail_over() {
    tokio::join!(
        check_no_failover(None, "a forbidden lake", (422, "content_policy")),
        check_no_failover(Some(status(400)), "a lake", (422, "provider_rejected")),
    );
}

/// Whether both lists of models show `film` as available.
async fn is_available(gateway: &TestGateway) -> bool {
    let anyone = gateway.without_key();
    let list = gateway.get("/v1/models").await.ok();
    let prices = anyone.get("/pricing.json").await.ok();
    let film = |list: &Value| {
        let mut models = list["data"].as_array().unwrap().iter();
        let film = models.find(|model| model["id"] == "film").unwrap();
        film["available"].as_bool().unwrap()
    };
    // Read one after the other; they may differ for a moment.
    film(&list) && film(&prices)
}

async fn wait_for_availability(gateway: &TestGateway, available: bool) {
    let change = eventually("availability changes", async || {
        (is_available(gateway).await == available).then_some(())
    });
    tokio::time::timeout(Duration::from_secs(5), change)
        .await
        .unwrap();
}

#[tokio::test]
async fn availability_follows_a_provider_that_goes_and_comes_back() {
    let simulator = simulator().await;
    let gateway = gateway(&one_provider(&simulator)).await;
    assert!(is_available(&gateway).await);
    let address = simulator.address();
    drop(simulator);
    wait_for_availability(&gateway, false).await;
    let page = gateway
        .without_key()
        .request(Method::GET, "/pricing")
        .header("accept", "text/html");
    let page = gateway.without_key().send(page).await;
    assert!(page.text().len() > 100 && page.status == 200);
    // No order waits for a provider that is known to be down.
    let order = chat_order("a lake");
    let refused = tokio::time::timeout(Duration::from_secs(2), gateway.post(CHAT, &order));
    refused.await.unwrap().refused(503, "provider_unavailable");
    let list = gateway.get("/v1/tasks").await.ok();
    assert_eq!(list["data"], json!([]), "nothing was accepted");

    let restarted = Simulator::listen(address).await.unwrap();
    wait_for_availability(&gateway, true).await;
    gateway.post(CHAT, &chat_order("a lake")).await.ok();
    assert_eq!(submissions(&restarted), 1);
    gateway.stop().await;
}

/// Two providers whose recipe documents that a 503 with the code 503 is a certain
/// refusal.
fn two_with_a_refusal_rule(first: &Simulator, second: &Simulator) -> String {
    let recipe = include_str!("../../../../../recipes/openai-videos.toml").to_owned()
        + "\n[[submit.refusal]]\nstatuses = [503]\ncodes = [\"503\"]\nsource = \"the simulator\"\n";
    let provider = |name, simulator: &Simulator| {
        let url = simulator.url("openai-videos");
        format!(
            "[providers.{name}]\nprotocol = \"recipe\"\nbase_url = \"{url}\"\napi_key = \"k\"\nrecipe = '''\n{recipe}'''\n"
        )
    };
    provider("first", first)
        + &provider("second", second)
        + &film(
            r#"{ provider = "first", model = "sora-2" }, { provider = "second", model = "sora-2" }"#,
        )
}

#[tokio::test]
async fn a_task_that_every_provider_refuses_fails_as_unavailable() {
    let (first, second) = (simulator().await, simulator().await);
    for simulator in [&first, &second] {
        at_submission(simulator, status(503), 100);
    }
    let gateway = gateway(&two_with_a_refusal_rule(&first, &second)).await;
    let refused = gateway.post(CHAT, &chat_order("a lake")).await;
    refused.refused(503, "provider_unavailable");
    let list = gateway.get("/v1/tasks").await.ok();
    assert_failed(&list["data"][0], "provider_unavailable");
    // Each was tried several times before its breaker opened.
    assert!(submissions(&first) >= 3 && submissions(&second) >= 3);
    assert_eq!(first.world().accepted_count("openai-videos"), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn a_breaker_opens_is_shown_and_admits_one_trial() {
    let simulator = simulator().await;
    let toml = format!("show_providers = true\n{}", one_provider(&simulator));
    // The pause lasts until the test moves the clock.
    let gateway = TestGateway::builder()
        .manual_clock()
        .toml(&toml)
        .start()
        .await;
    // One refused key is enough: the next order would fail, too.
    at_submission(&simulator, status(401), 1);
    gateway
        .post(CHAT, &chat_order("a lake"))
        .await
        .refused(503, "provider_unavailable");
    assert_eq!(submissions(&simulator), 1);
    let film = gateway.get("/v1/models/film").await.ok();
    assert_eq!(
        (&film["available"], &film["routes"][0]["available"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(
        (&film["routes"][0]["provider"], &film["routes"][0]["model"]),
        (&json!("acme"), &json!("sora-2"))
    );
    assert!(film["routes"][0]["paused_until"].is_string(), "{film}");
    gateway
        .post(CHAT, &chat_order("a lake"))
        .await
        .refused(503, "provider_unavailable");
    assert_eq!(submissions(&simulator), 1, "no order goes there");

    gateway.app.clock.advance(Duration::from_secs(6));
    // The pause is over; the route is available again only once an order is accepted.
    assert!(!is_available(&gateway).await);
    // The trial takes a while, and no other order is sent meanwhile.
    at_submission(&simulator, Fault::Latency(Duration::from_secs(2)), 1);
    let trial = order_film(&gateway, "a trial").await;
    wait_for_requests(&simulator, RequestRole::Submit, 2).await;
    let refused = gateway.post(CHAT, &chat_order("another")).await;
    refused.refused(503, "provider_unavailable");
    assert_eq!(submissions(&simulator), 2);
    assert_eq!(gateway.finished(&trial).await["status"], "succeeded");
    let film = gateway.get("/v1/models/film").await.ok();
    assert_eq!(film["available"], true);
    assert!(film["routes"][0].get("paused_until").is_none(), "it closed");
    assert_eq!(
        gateway.get(&format!("/v1/tasks/{trial}")).await.ok()["provider"],
        "acme"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn the_price_of_the_route_that_made_it_is_charged() {
    let (first, second) = (simulator().await, simulator().await);
    at_submission(&first, status(429), 1);
    let routes = r#"{ provider = "first", model = "sora-2", price = { unit = "video", usd = "9" } },
        { provider = "second", model = "*", price = { unit = "second", usd = "0.03" } }"#;
    let toml = provider("first", "openai-videos", &first, "")
        + &provider("second", "openai-videos", &second, "")
        + &film(&routes.replace('\n', " "));
    let gateway = gateway(&toml).await;
    let task = order_film(&gateway, "a lake").await;
    let open = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    if open["status"] == "queued" || open["status"] == "running" {
        assert_eq!(
            open["cost_usd"], "9.00",
            "the highest possible cost is reserved"
        );
    }
    let finished = gateway.finished(&task).await;
    assert_eq!(
        (&finished["status"], &finished["cost_usd"]),
        (&json!("succeeded"), &json!("0.12"))
    );
    let order = second.world().journal();
    assert_eq!(
        order[0].body["model"], "film",
        "the requested name is forwarded"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_rate_limited_provider_is_waited_for() {
    let simulator = simulator().await;
    let limited = Fault::Status {
        status: 429,
        retry_after: Some(1),
        bare: false,
    };
    at_submission(&simulator, limited, 5);
    plan(&simulator, Duration::from_millis(20), PlannedEnd::Success);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = order_film(&gateway, "a lake").await;
    wait_for_requests(&simulator, RequestRole::Submit, 4).await;
    assert!(is_available(&gateway).await, "it works");
    let finished = gateway.finished(&task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    assert_eq!(submissions(&simulator), 6);
    gateway.stop().await;
}
