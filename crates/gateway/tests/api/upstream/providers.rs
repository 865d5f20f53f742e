//! What an operator sees of routes to providers, and does to them.

use reqwest::Method;
use serde_json::{Value, json};
use simulator::{Fault, PlannedEnd};

use super::{
    LONG, at_submission, chat_order, film, gateway, one_provider, plan, provider, simulator,
    status, submissions, two_providers,
};
use crate::admin::{audited, keyed, operator};
use crate::support::program::{output, program, text};
use crate::support::sse::Events;
use crate::support::{Client, TestGateway, eventually};

const CHAT: &str = "/v1/chat/completions";
const ROUTES: &str = "/v1/admin/providers";

async fn route(operator: &Client, provider: &str) -> Value {
    let list = operator.get(ROUTES).await.ok();
    let all = list["data"].as_array().unwrap();
    let found = all.iter().find(|route| route["provider"] == provider);
    found.unwrap().clone()
}

async fn is_available(gateway: &TestGateway) -> [bool; 2] {
    let models = gateway.get("/v1/models").await.ok();
    let prices = gateway.without_key().get("/pricing.json").await.ok();
    [models, prices].map(|list| {
        let all = list["data"].as_array().unwrap();
        let film = all.iter().find(|model| model["id"] == "film").unwrap();
        film["available"].as_bool().unwrap()
    })
}

#[tokio::test]
async fn a_refused_key_is_said_until_an_order_is_taken() {
    let acme = simulator().await;
    // The first try, and the one after the breaker's first pause.
    at_submission(&acme, status(401), 2);
    let gateway = gateway(&one_provider(&acme)).await;
    let staff = operator(&gateway).await;
    assert_eq!(is_available(&gateway).await, [true, true]);
    let refused = gateway.post(CHAT, &chat_order("a lake")).await;
    refused.refused(503, "provider_unavailable");
    let standing = route(&staff, "acme").await;
    assert!(standing["key_refused_at"].is_string(), "{standing}");
    assert_eq!(standing["last_error"]["class"], "credentials");
    assert_ne!(standing["last_error"]["message"], "");
    assert_eq!(
        (&standing["last_hour"]["refused"], &standing["available"]),
        (&json!(2), &json!(false))
    );
    assert!(standing["next_try_at"].is_string(), "{standing}");
    let gateway = gateway.restart(None).await;
    let staff = gateway.with_key(staff.key.as_deref().unwrap());
    let again = route(&staff, "acme").await;
    assert_eq!(again["key_refused_at"], standing["key_refused_at"]);
    eventually("it is known", async || {
        (is_available(&gateway).await == [false, false]).then_some(())
    })
    .await;
    gateway.post(CHAT, &chat_order("a sea")).await.ok();
    let standing = route(&staff, "acme").await;
    assert_eq!(standing["key_refused_at"], Value::Null);
    assert_eq!(
        (
            &standing["breaker"]["state"],
            &standing["last_hour"]["succeeded"]
        ),
        (&json!("closed"), &json!(1))
    );
    assert!(
        standing["p50_seconds"].as_f64().unwrap() > 0.0,
        "{standing}"
    );
    assert_eq!(is_available(&gateway).await, [true, true]);
    gateway.stop().await;
}

#[tokio::test]
async fn an_operator_has_a_route_tried_at_once() {
    let acme = simulator().await;
    at_submission(&acme, status(401), 2);
    let gateway = gateway(&one_provider(&acme)).await;
    let staff = operator(&gateway).await;
    let refused = gateway.post(CHAT, &chat_order("a lake")).await;
    refused.refused(503, "provider_unavailable");
    let refused = gateway.post(CHAT, &chat_order("a sea")).await;
    refused.refused(503, "provider_unavailable");
    assert_eq!(submissions(&acme), 2, "the breaker is open");
    assert_eq!(route(&staff, "acme").await["breaker"]["state"], "open");
    let path = format!("{ROUTES}/acme/sora-2/try");
    let tried = staff.send(staff.request(Method::POST, &path)).await.ok();
    assert!(tried["tried_at"].is_string(), "{tried}");
    gateway.post(CHAT, &chat_order("a wood")).await.ok();
    assert_eq!(
        audited(&staff, "route.try").await[0]["target"],
        "acme/sora-2"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_paused_route_gets_nothing_whatever_is_restarted() {
    let (first, second) = (simulator().await, simulator().await);
    let gateway = gateway(&two_providers(&first, &second)).await;
    let staff = operator(&gateway).await;
    let pause = format!("{ROUTES}/first/sora-2/pause");
    let paused = keyed(&staff, Method::POST, &pause, "p", &Value::Null)
        .await
        .ok();
    assert!(paused["paused_at"].is_string());
    let again = keyed(&staff, Method::POST, &pause, "p", &Value::Null).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.ok(), paused);
    assert_eq!(audited(&staff, "route.pause").await.len(), 1);
    gateway.post(CHAT, &chat_order("a lake")).await.ok();
    let gateway = gateway.restart(None).await;
    let staff = gateway.with_key(staff.key.as_deref().unwrap());
    gateway.post(CHAT, &chat_order("a sea")).await.ok();
    assert_eq!((submissions(&first), submissions(&second)), (0, 2));
    assert_eq!(
        route(&staff, "first").await["paused_at"],
        paused["paused_at"]
    );
    let resume = format!("{ROUTES}/first/sora-2/resume");
    let resumed = staff.send(staff.request(Method::POST, &resume)).await.ok();
    assert_eq!(resumed["paused_at"], Value::Null);
    gateway.post(CHAT, &chat_order("a wood")).await.ok();
    assert_eq!((submissions(&first), submissions(&second)), (1, 2));
    for path in ["nobody/sora-2/pause", "first/wan/resume"] {
        let request = staff.request(Method::POST, &format!("{ROUTES}/{path}"));
        staff.send(request).await.refused(404, "provider_not_found");
    }
    // The operator's key sees who made it.
    let tasks = staff.get("/v1/admin/tasks?provider=second").await.ok();
    assert_eq!(tasks["data"].as_array().unwrap().len(), 2);
    assert_eq!(tasks["data"][0]["provider"], "second");
    let own = gateway.get("/v1/tasks").await.ok();
    assert_eq!(own["data"][0]["provider"], "hosted");
    gateway.stop().await;
}

#[tokio::test]
async fn a_pause_holds_in_every_process() {
    let acme = simulator().await;
    let gateway = TestGateway::builder()
        .on_postgres()
        .toml(&one_provider(&acme))
        .start()
        .await;
    let replica = gateway.replica().await;
    let staff = operator(&gateway).await;
    let pause = format!("{ROUTES}/acme/sora-2/pause");
    staff.send(staff.request(Method::POST, &pause)).await.ok();
    assert_eq!(is_available(&gateway).await, [false, false]);
    eventually("the other process knows", async || {
        (is_available(&replica).await == [false, false]).then_some(())
    })
    .await;
    let refused = replica.post(CHAT, &chat_order("a lake")).await;
    refused.refused(503, "provider_unavailable");
    assert_eq!(submissions(&acme), 0);
    replica.stop().await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_breaker_that_opens_in_one_process_is_told_by_the_others() {
    let acme = simulator().await;
    at_submission(&acme, status(401), 2);
    let gateway = TestGateway::builder()
        .on_postgres()
        .toml(&one_provider(&acme))
        .start()
        .await;
    let other = gateway.idle_replica().await;
    let staff = operator(&gateway).await;
    let staff = other.with_key(staff.key.as_deref().unwrap());
    assert_eq!(route(&staff, "acme").await["breaker"]["state"], "closed");
    let mut events = Events::open(staff.request(Method::GET, "/v1/admin/events")).await;
    let refused = gateway.post(CHAT, &chat_order("a lake")).await;
    refused.refused(503, "provider_unavailable");
    let told = loop {
        let told = events.next().await.expect("the stream goes on").json();
        if told["type"] == "route.changed" && told["route"]["breaker"] != "closed" {
            break told["route"].clone();
        }
    };
    assert_eq!(told["provider"], "acme");
    let standing = eventually("the other process tells it", async || {
        let standing = route(&staff, "acme").await;
        (standing["breaker"]["state"] != "closed").then_some(standing)
    })
    .await;
    let processes = standing["breaker"]["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 1, "{standing}");
    assert_eq!(
        processes[0]["process"],
        gateway.app.server.name(),
        "{standing}"
    );
    // A command is no server: it tells the breakers of those that are.
    let list = listed(&other).await;
    let told = &list[0]["breaker"]["processes"];
    assert_eq!(told[0]["process"], processes[0]["process"], "{list}");
    gateway.stop().await;
    eventually("a process that is gone says nothing", async || {
        (route(&staff, "acme").await["breaker"]["state"] == "closed").then_some(())
    })
    .await;
    other.stop().await;
}

/// What `providers list` prints beside this gateway.
async fn listed(gateway: &TestGateway) -> Value {
    let options = gateway.options();
    let mut words = vec!["providers", "list", "--json"];
    words.extend(options.iter().map(String::as_str));
    let done = output(program(&words)).await;
    let out = text(&done.stdout);
    serde_json::from_str(out).unwrap_or_else(|_| panic!("{out}{}", text(&done.stderr)))
}

#[tokio::test]
async fn a_command_beside_a_server_tells_its_breakers() {
    let acme = simulator().await;
    at_submission(&acme, status(401), 2);
    let gateway = gateway(&one_provider(&acme)).await;
    let state = async || listed(&gateway).await[0]["breaker"]["state"].clone();
    eventually("the server has said that it is there", async || {
        (state().await == "closed").then_some(())
    })
    .await;
    let refused = gateway.post(CHAT, &chat_order("a lake")).await;
    refused.refused(503, "provider_unavailable");
    eventually("the command tells it", async || {
        ["open", "trial"]
            .contains(&state().await.as_str()?)
            .then_some(())
    })
    .await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_models_name_may_need_encoding() {
    let acme = simulator().await;
    let toml = provider("acme", "openai-videos", &acme, "")
        + &film(r#"{ provider = "acme", model = "fal-ai/veo3.1" }"#);
    let gateway = gateway(&toml).await;
    let staff = operator(&gateway).await;
    let pause = format!("{ROUTES}/acme/fal-ai%2Fveo3.1/pause");
    let paused = staff.send(staff.request(Method::POST, &pause)).await.ok();
    assert_eq!(paused["model"], "fal-ai/veo3.1");
    ordered_nowhere(&gateway).await;
    gateway.stop().await;
}

async fn ordered_nowhere(gateway: &TestGateway) {
    let refused = gateway.post(CHAT, &chat_order("a lake")).await;
    refused.refused(503, "provider_unavailable");
}

#[tokio::test]
async fn what_nobody_could_confirm_is_listed() {
    let acme = simulator().await;
    at_submission(&acme, Fault::DropBefore, 1);
    let gateway = gateway(&one_provider(&acme)).await;
    let staff = operator(&gateway).await;
    let unclear = gateway.post(CHAT, &chat_order("a lake")).await;
    unclear.refused(424, "submission_unconfirmed");
    gateway.post(CHAT, &chat_order("a sea")).await.ok();
    let path = "/v1/admin/submissions";
    let list = async |query: &str| {
        let page = staff.get(&format!("{path}{query}")).await.ok();
        page["data"].as_array().unwrap().clone()
    };
    let unconfirmed = list("?state=unconfirmed").await;
    assert_eq!(unconfirmed.len(), 1, "{unconfirmed:?}");
    let one = &unconfirmed[0];
    assert_eq!(
        [
            &one["state"],
            &one["provider"],
            &one["account"],
            &one["task_status"]
        ],
        ["unclear", "acme", "default", "failed"]
    );
    assert_eq!(unclear.header("x-task-id"), one["task_id"].as_str());
    assert_eq!(list("?limit=1").await[0]["state"], "ended");
    let wrong = staff.get(&format!("{path}?state=lost")).await;
    wrong.refused(400, "invalid_value").on_param("state");
    assert_eq!(route(&staff, "acme").await["last_hour"]["unconfirmed"], 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_that_outlives_its_limit_is_unconfirmed() {
    let acme = simulator().await;
    plan(&acme, LONG, PlannedEnd::Success);
    let more = "job_limit = \"1s\"\n";
    let toml = provider("acme", "openai-videos", &acme, more)
        + &film(r#"{ provider = "acme", model = "sora-2" }"#);
    let gateway = gateway(&toml).await;
    let staff = operator(&gateway).await;
    let given_up = gateway.post(CHAT, &chat_order("a lake")).await;
    given_up.refused(424, "submission_unconfirmed");
    // It may end well yet and is paid for then: the operator is told.
    let path = "/v1/admin/submissions?state=unconfirmed";
    let page = staff.get(path).await.ok();
    assert_eq!(page["data"].as_array().unwrap().len(), 1, "{page}");
    assert_eq!(page["data"][0]["state"], "unclear");
    let verified = staff.get("/v1/admin/ledger/verify").await.ok();
    assert_eq!(verified["adds_up"], true, "{verified}");
    gateway.stop().await;
}
