//! The operator's view of routes to providers, and the actions on them.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use simulator::{Fault, PlannedEnd};

use super::{
    LONG, at_submission, chat_order, film, gateway, one_provider, plan, provider, simulator,
    status, submissions, two_providers,
};
use crate::admin::{audit_entries, operator, send_with_key};
use crate::support::program::{output, program, text};
use crate::support::sse::Events;
use crate::support::{Client, TestGateway, eventually};

const CHAT: &str = "/v1/chat/completions";
const ROUTES: &str = "/v1/admin/providers";

async fn route(operator: &Client, provider: &str) -> Value {
    let list = operator.get(ROUTES).await.ok();
    let routes = list["data"].as_array().unwrap();
    let route = routes.iter().find(|route| route["provider"] == provider);
    route.unwrap().clone()
}

async fn is_available(gateway: &TestGateway) -> [bool; 2] {
    let models = gateway.get("/v1/models").await.ok();
    let prices = gateway.without_key().get("/pricing.json").await.ok();
    [models, prices].map(|list| {
        let models = list["data"].as_array().unwrap();
        let film = models.iter().find(|model| model["id"] == "film").unwrap();
        film["available"].as_bool().unwrap()
    })
}

#[tokio::test]
async fn a_refused_key_is_shown_until_an_order_is_accepted() {
    let acme = simulator().await;
    // Refuses the first attempt, and the one after the breaker's first pause.
    at_submission(&acme, status(401), 2);
    let gateway = gateway(&one_provider(&acme)).await;
    let staff = operator(&gateway).await;
    assert_eq!(is_available(&gateway).await, [true, true]);
    let refused = gateway.post(CHAT, &chat_order("a lake")).await;
    refused.refused(503, "provider_unavailable");
    let state = route(&staff, "acme").await;
    assert!(state["key_refused_at"].is_string(), "{state}");
    assert_eq!(state["last_error"]["class"], "credentials");
    assert_ne!(state["last_error"]["message"], "");
    assert_eq!(
        (&state["last_hour"]["refused"], &state["available"]),
        (&json!(2), &json!(false))
    );
    assert!(state["next_try_at"].is_string(), "{state}");
    let gateway = gateway.restart(None).await;
    let staff = gateway.with_key(staff.key.as_deref().unwrap());
    let state_after_restart = route(&staff, "acme").await;
    assert_eq!(
        state_after_restart["key_refused_at"],
        state["key_refused_at"]
    );
    eventually("the refusal is known", async || {
        (is_available(&gateway).await == [false, false]).then_some(())
    })
    .await;
    gateway.post(CHAT, &chat_order("a sea")).await.ok();
    let state = route(&staff, "acme").await;
    assert_eq!(state["key_refused_at"], Value::Null);
    assert_eq!(
        (&state["breaker"]["state"], &state["last_hour"]["succeeded"]),
        (&json!("closed"), &json!(1))
    );
    assert!(state["p50_seconds"].as_f64().unwrap() > 0.0, "{state}");
    assert_eq!(is_available(&gateway).await, [true, true]);
    gateway.stop().await;
}

#[tokio::test]
async fn a_rejected_model_is_not_offered_until_an_order_is_accepted() {
    let acme = simulator().await;
    let error = json!({"code": "model_not_found", "message": "The model sora-2 does not exist."});
    let unknown = Fault::Says {
        status: 404,
        retry_after: None,
        body: json!({"error": error}).to_string(),
    };
    at_submission(&acme, unknown, 2);
    let gateway = gateway(&one_provider(&acme)).await;
    let staff = operator(&gateway).await;
    for prompt in ["a lake", "a river"] {
        let refused = gateway.post(CHAT, &chat_order(prompt)).await;
        refused.refused(422, "provider_rejected");
    }
    let state = route(&staff, "acme").await;
    assert!(state["key_refused_at"].is_string(), "{state}");
    assert_eq!(state["last_error"]["class"], "rejected");
    assert_eq!(state["available"], json!(false));
    assert_eq!(state["breaker"]["state"], "closed");
    assert_eq!(is_available(&gateway).await, [false, false]);
    // It is tried all the same.
    gateway.post(CHAT, &chat_order("a sea")).await.ok();
    let state = route(&staff, "acme").await;
    assert_eq!(state["key_refused_at"], Value::Null);
    assert_eq!(is_available(&gateway).await, [true, true]);
    gateway.stop().await;
}

#[tokio::test]
async fn the_last_error_is_shown_whatever_went_wrong() {
    let acme = simulator().await;
    let gateway = gateway(&one_provider(&acme)).await;
    let staff = operator(&gateway).await;
    assert_eq!(route(&staff, "acme").await["last_error"], Value::Null);
    let mut messages = Vec::new();
    let failures: [(&str, &dyn Fn()); 4] = [
        ("unclear", &|| at_submission(&acme, Fault::DropBefore, 1)),
        ("rejected", &|| at_submission(&acme, status(400), 1)),
        ("failed", &|| {
            plan(&acme, Duration::ZERO, PlannedEnd::Failure);
        }),
        ("refused", &|| {
            plan(&acme, Duration::ZERO, PlannedEnd::Refusal);
        }),
    ];
    for (class, fail) in failures {
        fail();
        let answer = gateway.post(CHAT, &chat_order(class)).await;
        assert_ne!(answer.status, 200, "{class}");
        let state = route(&staff, "acme").await;
        let error = &state["last_error"];
        assert_eq!(error["class"], class, "{state}");
        assert!(error["at"].is_string(), "{state}");
        messages.push(error["message"].clone());
        // An order that failed is no failure of the route.
        assert_eq!(state["breaker"]["state"], "closed", "{state}");
        assert_eq!(state["key_refused_at"], Value::Null);
    }
    let count = messages.len();
    messages.sort_by_key(Value::to_string);
    messages.dedup();
    assert_eq!(
        messages.len(),
        count,
        "each has its own words: {messages:?}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn an_operator_can_have_a_route_tried_at_once() {
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
    let route_state = staff.send(staff.request(Method::POST, &path)).await.ok();
    assert!(route_state["tried_at"].is_string(), "{route_state}");
    gateway.post(CHAT, &chat_order("a wood")).await.ok();
    assert_eq!(
        audit_entries(&staff, "route.try").await[0]["target"],
        "acme/sora-2"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_paused_route_stays_paused_after_a_restart() {
    let (first, second) = (simulator().await, simulator().await);
    let gateway = gateway(&two_providers(&first, &second)).await;
    let staff = operator(&gateway).await;
    let pause = format!("{ROUTES}/first/sora-2/pause");
    let paused = send_with_key(&staff, Method::POST, &pause, "p", &Value::Null)
        .await
        .ok();
    assert!(paused["paused_at"].is_string());
    let replayed = send_with_key(&staff, Method::POST, &pause, "p", &Value::Null).await;
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
    assert_eq!(replayed.ok(), paused);
    assert_eq!(audit_entries(&staff, "route.pause").await.len(), 1);
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
    // The operator's key sees which provider made it.
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
async fn a_breaker_that_opens_in_one_process_is_shown_by_the_others() {
    let acme = simulator().await;
    at_submission(&acme, status(401), 2);
    let gateway = TestGateway::builder()
        .on_postgres()
        .toml(&one_provider(&acme))
        .start()
        .await;
    let other = gateway.replica_without_workers().await;
    let staff = operator(&gateway).await;
    let staff = other.with_key(staff.key.as_deref().unwrap());
    assert_eq!(route(&staff, "acme").await["breaker"]["state"], "closed");
    let mut events = Events::open(staff.request(Method::GET, "/v1/admin/events")).await;
    let refused = gateway.post(CHAT, &chat_order("a lake")).await;
    refused.refused(503, "provider_unavailable");
    let reported = loop {
        let reported = events.next().await.expect("the stream goes on").json();
        if reported["type"] == "route.changed" && reported["route"]["breaker"] != "closed" {
            break reported["route"].clone();
        }
    };
    assert_eq!(reported["provider"], "acme");
    let state = eventually("the other process shows the state", async || {
        let state = route(&staff, "acme").await;
        (state["breaker"]["state"] != "closed").then_some(state)
    })
    .await;
    let processes = state["breaker"]["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 1, "{state}");
    assert_eq!(
        processes[0]["process"],
        gateway.app.server.name(),
        "{state}"
    );
    // A command has no breakers of its own: it shows those of the servers.
    let list = providers_list(&other).await;
    let reported = &list[0]["breaker"]["processes"];
    assert_eq!(reported[0]["process"], processes[0]["process"], "{list}");
    gateway.stop().await;
    eventually("a process that has ended is not shown", async || {
        (route(&staff, "acme").await["breaker"]["state"] == "closed").then_some(())
    })
    .await;
    other.stop().await;
}

/// The output of `providers list` on this gateway's database.
async fn providers_list(gateway: &TestGateway) -> Value {
    let options = gateway.options();
    let mut args = vec!["providers", "list", "--json"];
    args.extend(options.iter().map(String::as_str));
    let result = output(program(&args)).await;
    let stdout = text(&result.stdout);
    serde_json::from_str(stdout).unwrap_or_else(|_| panic!("{stdout}{}", text(&result.stderr)))
}

#[tokio::test]
async fn providers_list_shows_a_running_servers_breakers() {
    let acme = simulator().await;
    at_submission(&acme, status(401), 2);
    let gateway = gateway(&one_provider(&acme)).await;
    let state = async || providers_list(&gateway).await[0]["breaker"]["state"].clone();
    eventually("the server has registered", async || {
        (state().await == "closed").then_some(())
    })
    .await;
    let refused = gateway.post(CHAT, &chat_order("a lake")).await;
    refused.refused(503, "provider_unavailable");
    eventually("the command shows the state", async || {
        ["open", "trial"]
            .contains(&state().await.as_str()?)
            .then_some(())
    })
    .await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_models_name_can_be_percent_encoded() {
    let acme = simulator().await;
    let toml = provider("acme", "openai-videos", &acme, "")
        + &film(r#"{ provider = "acme", model = "fal-ai/veo3.1" }"#);
    let gateway = gateway(&toml).await;
    let staff = operator(&gateway).await;
    let pause = format!("{ROUTES}/acme/fal-ai%2Fveo3.1/pause");
    let paused = staff.send(staff.request(Method::POST, &pause)).await.ok();
    assert_eq!(paused["model"], "fal-ai/veo3.1");
    assert_orders_refused(&gateway).await;
    gateway.stop().await;
}

async fn assert_orders_refused(gateway: &TestGateway) {
    let refused = gateway.post(CHAT, &chat_order("a lake")).await;
    refused.refused(503, "provider_unavailable");
}

#[tokio::test]
async fn the_list_of_routes_can_be_paged() {
    let (first, second) = (simulator().await, simulator().await);
    let gateway = gateway(&two_providers(&first, &second)).await;
    let staff = operator(&gateway).await;
    let list = async |query: &str| staff.get(&format!("{ROUTES}{query}")).await.ok();
    let all = list("").await;
    assert_eq!(all["data"].as_array().unwrap().len(), 2);
    let page = list("?limit=1").await;
    assert_eq!(
        (&page["has_more"], &page["last_id"]),
        (&json!(true), &json!("first/sora-2"))
    );
    let rest = list("?after=first%2Fsora-2").await;
    assert_eq!(
        (&rest["has_more"], &rest["data"][0]["id"]),
        (&json!(false), &json!("second/sora-2"))
    );
    assert_eq!(rest["data"].as_array().unwrap().len(), 1);
    for (query, param) in [("?after=nobody", "after"), ("?limit=0", "limit")] {
        let refused = staff.get(&format!("{ROUTES}{query}")).await;
        refused.refused(400, "invalid_value").on_param(param);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn unconfirmed_submissions_are_listed() {
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
    let submission = &unconfirmed[0];
    assert_eq!(
        [
            &submission["state"],
            &submission["provider"],
            &submission["account"],
            &submission["task_status"]
        ],
        ["unclear", "acme", "default", "failed"]
    );
    assert_eq!(unclear.header("x-task-id"), submission["task_id"].as_str());
    assert_eq!(list("?limit=1").await[0]["state"], "ended");
    let invalid = staff.get(&format!("{path}?state=lost")).await;
    invalid.refused(400, "invalid_value").on_param("state");
    assert_eq!(route(&staff, "acme").await["last_hour"]["unconfirmed"], 1);
    gateway.stop().await;
}

#[tokio::test]
async fn an_unconfirmed_submission_is_resolved_by_hand() {
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
    let all = list("").await;
    let ids = [&all[0]["id"], &all[1]["id"]];
    let [ended, lost] = ids.map(|id| format!("{path}/{}/resolve", id.as_str().unwrap()));
    let body = json!({"note": "It was not billed.", "job": "video_1"});
    let unknown = format!("{path}/0193b000-0000-7000-8000-000000000001/resolve");
    for (path, body, status, code) in [
        (&unknown, &body, 404, "submission_not_found"),
        (
            &format!("{path}/zzz/resolve"),
            &body,
            404,
            "submission_not_found",
        ),
        (&ended, &body, 409, "not_unconfirmed"),
        (&lost, &json!({"job": "video_1"}), 400, "missing_field"),
        (&lost, &json!({"note": "a\nb"}), 400, "invalid_value"),
    ] {
        staff.post(path, body).await.refused(status, code);
    }
    let resolved = send_with_key(&staff, Method::POST, &lost, "r", &body)
        .await
        .ok();
    assert_eq!(
        [
            &resolved["state"],
            &resolved["job"],
            &resolved["resolved_job"],
            &resolved["resolved_note"]
        ],
        ["unclear", "video_1", "video_1", "It was not billed."]
    );
    assert!(resolved["resolved_at"].is_string(), "{resolved}");
    let repeated = send_with_key(&staff, Method::POST, &lost, "r", &body).await;
    assert_eq!(repeated.ok(), resolved);
    staff
        .post(&lost, &body)
        .await
        .refused(409, "not_unconfirmed");
    assert!(list("?state=unconfirmed").await.is_empty());
    assert_eq!(list("").await[1], resolved);
    let entries = audit_entries(&staff, "submission.resolve").await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(
        (&entries[0]["target"], &entries[0]["after"]["note"]),
        (&resolved["id"], &json!("It was not billed."))
    );
    let verified = staff.get("/v1/admin/ledger/verify").await.ok();
    assert_eq!(verified["adds_up"], true, "{verified}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_that_outlives_its_limit_is_unconfirmed() {
    let acme = simulator().await;
    plan(&acme, LONG, PlannedEnd::Success);
    let extra_lines = "job_limit = \"1s\"\n";
    let toml = provider("acme", "openai-videos", &acme, extra_lines)
        + &film(r#"{ provider = "acme", model = "sora-2" }"#);
    let gateway = gateway(&toml).await;
    let staff = operator(&gateway).await;
    let given_up = gateway.post(CHAT, &chat_order("a lake")).await;
    given_up.refused(424, "submission_unconfirmed");
    // The job may succeed later and must then be paid for, so the operator sees it.
    let path = "/v1/admin/submissions?state=unconfirmed";
    let page = staff.get(path).await.ok();
    assert_eq!(page["data"].as_array().unwrap().len(), 1, "{page}");
    assert_eq!(page["data"][0]["state"], "unclear");
    let verified = staff.get("/v1/admin/ledger/verify").await.ok();
    assert_eq!(verified["adds_up"], true, "{verified}");
    gateway.stop().await;
}
