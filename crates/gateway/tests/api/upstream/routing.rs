//! Who is asked, in which order, and when another may be asked instead.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use simulator::{Fault, PlannedEnd, RequestRole, Simulator};

use super::{
    arrives, assert_failed, at_submission, chat_order, film, gateway, one_provider, ordered, plan,
    provider, simulator, status, submissions, two_providers,
};
use crate::support::{TestGateway, eventually};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn the_first_route_goes_first_and_weights_share() {
    let (first, second) = (simulator().await, simulator().await);
    let gateway = gateway(&two_providers(&first, &second)).await;
    for _ in 0..3 {
        ordered(&gateway, "a lake").await;
    }
    arrives(&first, RequestRole::Submit, 3).await;
    assert_eq!(submissions(&second), 0);

    let toml = two_providers(&first, &second);
    let (providers, _) = toml.split_once("[models").unwrap();
    let routes = r#"{ provider = "first", model = "sora-2", weight = 1 }, { provider = "second", model = "sora-2", weight = 1 }"#;
    gateway.reconfigure(&(providers.to_owned() + &film(routes)));
    for _ in 0..24 {
        ordered(&gateway, "a lake").await;
    }
    eventually("all are sent", async || {
        (submissions(&first) + submissions(&second) == 27).then_some(())
    })
    .await;
    // 1 in 8 million that either gets none of 24.
    assert!(submissions(&first) > 3 && submissions(&second) > 0);
    gateway.stop().await;
}

/// The first provider answers an order so; the second takes it.
async fn fails_over(fault: Fault) {
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
async fn another_is_asked_when_it_is_certain_that_nothing_was_taken() {
    tokio::join!(
        fails_over(status(429)),
        fails_over(status(401)),
        fails_over(status(402)),
    );
}

#[tokio::test]
async fn another_is_asked_when_nobody_is_there() {
    let second = simulator().await;
    let first = simulator().await;
    let toml = two_providers(&first, &second);
    drop(first);
    let gateway = gateway(&toml).await;
    gateway.post(CHAT, &chat_order("a lake")).await.ok();
    assert_eq!(submissions(&second), 1);
    gateway.stop().await;
}

/// What an order comes to when the first provider does this to it; nobody else
/// is asked.
async fn stays(fault: Option<Fault>, prompt: &str, refused: (u16, &str)) {
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
async fn nobody_else_is_asked_when_it_may_have_been_taken() {
    let unclear = (424, "submission_unconfirmed");
    let bare = Fault::Status {
        status: 500,
        retry_after: None,
        bare: true,
    };
    tokio::join!(
        stays(Some(status(500)), "a lake", unclear),
        stays(Some(status(503)), "a lake", unclear),
        stays(Some(status(409)), "a lake", unclear),
        stays(Some(bare), "a lake", unclear),
        stays(Some(Fault::DropBefore), "a lake", unclear),
    );
}

/// What an order comes to whose answer was lost after the provider took it.
async fn is_found(fault: Fault) {
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
async fn what_was_taken_all_the_same_is_found_at_the_provider() {
    tokio::join!(
        is_found(Fault::StatusAfter(502)),
        is_found(Fault::DropAfter),
        is_found(Fault::DropInBody),
    );
}

#[tokio::test]
async fn nobody_else_is_asked_for_what_is_wrong_with_the_order() {
    tokio::join!(
        stays(None, "a forbidden lake", (422, "content_policy")),
        stays(Some(status(400)), "a lake", (422, "provider_rejected")),
    );
}

/// Whether the two lists of models say that `film` is available.
async fn is_available(gateway: &TestGateway) -> bool {
    let anyone = gateway.without_key();
    let list = gateway.get("/v1/models").await.ok();
    let prices = anyone.get("/pricing.json").await.ok();
    let film = |list: &Value| {
        let mut models = list["data"].as_array().unwrap().iter();
        let film = models.find(|model| model["id"] == "film").unwrap();
        film["available"].as_bool().unwrap()
    };
    // Asked one after the other; they may differ for a moment.
    film(&list) && film(&prices)
}

async fn becomes(gateway: &TestGateway, available: bool) {
    let found = eventually("availability changes", async || {
        (is_available(gateway).await == available).then_some(())
    });
    tokio::time::timeout(Duration::from_secs(5), found)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_provider_that_is_gone_is_known_to_be_and_known_when_it_is_back() {
    let simulator = simulator().await;
    let gateway = gateway(&one_provider(&simulator)).await;
    assert!(is_available(&gateway).await);
    let address = simulator.address();
    drop(simulator);
    becomes(&gateway, false).await;
    let page = gateway
        .without_key()
        .request(Method::GET, "/pricing")
        .header("accept", "text/html");
    let page = gateway.without_key().send(page).await;
    assert!(page.text().len() > 100 && page.status == 200);
    // Nothing waits for what is known to be down.
    let order = chat_order("a lake");
    let refused = tokio::time::timeout(Duration::from_secs(2), gateway.post(CHAT, &order));
    refused.await.unwrap().refused(503, "provider_unavailable");
    let list = gateway.get("/v1/tasks").await.ok();
    assert_eq!(list["data"], json!([]), "nothing was accepted");

    let back = Simulator::listen(address).await.unwrap();
    becomes(&gateway, true).await;
    gateway.post(CHAT, &chat_order("a lake")).await.ok();
    assert_eq!(submissions(&back), 1);
    gateway.stop().await;
}

/// Two providers of which a document says that they take nothing under 503 with
/// their own code.
fn two_that_say_when_they_are_full(first: &Simulator, second: &Simulator) -> String {
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
async fn a_task_that_nobody_takes_fails_for_now_and_can_be_asked_for_again() {
    let (first, second) = (simulator().await, simulator().await);
    for simulator in [&first, &second] {
        at_submission(simulator, status(503), 100);
    }
    let gateway = gateway(&two_that_say_when_they_are_full(&first, &second)).await;
    let refused = gateway.post(CHAT, &chat_order("a lake")).await;
    refused.refused(503, "provider_unavailable");
    let list = gateway.get("/v1/tasks").await.ok();
    assert_failed(&list["data"][0], "provider_unavailable");
    // Each was tried several times before it was given up, and its breaker opened.
    assert!(submissions(&first) >= 3 && submissions(&second) >= 3);
    assert_eq!(first.world().accepted_count("openai-videos"), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn a_breaker_opens_shows_itself_and_lets_one_trial_through() {
    let simulator = simulator().await;
    let toml = format!("show_providers = true\n{}", one_provider(&simulator));
    // The pause lasts until the test says so.
    let gateway = TestGateway::builder()
        .manual_clock()
        .toml(&toml)
        .start()
        .await;
    // One failure proves that the next would fail too.
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
    assert_eq!(submissions(&simulator), 1, "it is left alone");

    gateway.app.clock.advance(Duration::from_secs(6));
    // The pause is over; that the key is good is believed when an order is taken.
    assert!(!is_available(&gateway).await);
    // The trial takes its time, and nobody else is sent meanwhile.
    at_submission(&simulator, Fault::Latency(Duration::from_secs(2)), 1);
    let trial = ordered(&gateway, "a trial").await;
    arrives(&simulator, RequestRole::Submit, 2).await;
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
async fn the_price_of_the_route_that_made_it_is_what_is_paid() {
    let (first, second) = (simulator().await, simulator().await);
    at_submission(&first, status(429), 1);
    let routes = r#"{ provider = "first", model = "sora-2", price = { unit = "video", usd = "9" } },
        { provider = "second", model = "*", price = { unit = "second", usd = "0.03" } }"#;
    let toml = provider("first", "openai-videos", &first, "")
        + &provider("second", "openai-videos", &second, "")
        + &film(&routes.replace('\n', " "));
    let gateway = gateway(&toml).await;
    let task = ordered(&gateway, "a lake").await;
    let open = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    if open["status"] == "queued" || open["status"] == "running" {
        assert_eq!(
            open["cost_usd"], "9.00",
            "reserved is what it may cost at most"
        );
    }
    let done = gateway.finished(&task).await;
    assert_eq!(
        (&done["status"], &done["cost_usd"]),
        (&json!("succeeded"), &json!("0.12"))
    );
    let order = second.world().journal();
    assert_eq!(
        order[0].body["model"], "film",
        "the name goes on as it was asked for"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_provider_with_too_much_to_do_is_waited_for() {
    let simulator = simulator().await;
    let limited = Fault::Status {
        status: 429,
        retry_after: Some(1),
        bare: false,
    };
    at_submission(&simulator, limited, 5);
    plan(&simulator, Duration::from_millis(20), PlannedEnd::Success);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = ordered(&gateway, "a lake").await;
    arrives(&simulator, RequestRole::Submit, 4).await;
    assert!(is_available(&gateway).await, "it works");
    let done = gateway.finished(&task).await;
    assert_eq!(done["status"], "succeeded", "{done}");
    assert_eq!(submissions(&simulator), 6);
    gateway.stop().await;
}
