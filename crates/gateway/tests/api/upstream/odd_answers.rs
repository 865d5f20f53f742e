//! Answers that no protocol documents: they prove nothing about an order and end no
//! job. One gateway has routes to all video protocols.

use futures_util::future::join_all;
use mediagate_core::domain::keys::NewKey;
use serde_json::{Value, json};
use simulator::{Fault, FaultOrder, PlannedEnd, RequestRole, Simulator};

use super::every_provider::{CASES, Case};
use super::{
    assert_failed, chat_order_with_picture, film, gateway, plan, provider, simulated, simulator,
    status, submissions,
};
use crate::support::gateway::finished;
use crate::support::{Client, TestGateway};

/// The tables of a case's provider and model, named by the case's number.
fn tables(number: usize, case: Case, simulator: &Simulator) -> String {
    let (name, model) = (format!("acme-{number}"), case.model);
    provider(&name, case.protocol, simulator, case.options)
        + &format!(
            "[models.film-{number}]\nkind = \"video\"\nprice = {{ unit = \"second\", usd = \"0.10\" }}\nroutes = [{{ provider = \"{name}\", model = \"{model}\" }}]\n"
        )
}

/// A gateway with the providers and models of all included cases, at one simulator.
async fn gateway_for_cases(simulator: &Simulator, includes: fn(Case) -> bool) -> TestGateway {
    let cases = (0..).zip(CASES.iter().copied());
    let cases = cases.filter(|(_, case)| includes(*case));
    let toml: String = cases
        .map(|(number, case)| tables(number, case, simulator))
        .collect();
    gateway(&toml).await
}

/// Orders a film of a case; returns the finished task.
async fn finished_order(gateway: &TestGateway, number: usize, case: Case) -> Value {
    let mut body = json!({"model": format!("film-{number}"), "prompt": "a lighthouse in a storm"});
    if case.picture {
        let order = chat_order_with_picture("");
        let picture = &order["messages"][0]["content"][1]["image_url"]["url"];
        body["input_reference"] = json!({"image_url": picture});
    }
    let answer = gateway.post("/v1/videos", &body).await;
    let task = answer.header("x-task-id").map(str::to_owned);
    answer.ok();
    gateway.finished(&task.unwrap()).await
}

/// Orders one film of each included case, concurrently.
async fn order_each(gateway: &TestGateway, includes: fn(Case) -> bool) -> Vec<(Case, Value)> {
    let cases = (0..).zip(CASES.iter().copied());
    let cases = cases.filter(|(_, case)| includes(*case));
    join_all(cases.map(async |(number, case)| (case, finished_order(gateway, number, case).await)))
        .await
}

const fn any(_: Case) -> bool {
    true
}

/// Chat providers answer with the result and name no job.
fn names_a_job(case: Case) -> bool {
    case.protocol != "chat-video"
}

/// A 503 proves nothing, whatever its body, so no order is sent twice: none of these
/// protocols has a refusal rule for it, and none deduplicates orders.
async fn check_503_is_unconfirmed(body: &str) {
    let simulator = simulator().await;
    let fault = Fault::Says {
        status: 503,
        retry_after: Some(1),
        body: body.to_owned(),
    };
    let world = simulator.world();
    world.order_fault(fault, None, Some(RequestRole::Submit), 10_000);
    let gateway = gateway_for_cases(&simulator, any).await;
    for (case, view) in order_each(&gateway, any).await {
        let code = &view["error"]["code"];
        assert_eq!(code, "submission_unconfirmed", "{} {view}", case.protocol);
        assert_failed(&view, "submission_unconfirmed");
    }
    assert_eq!(submissions(&simulator), CASES.len(), "one for each order");
    gateway.stop().await;
}

#[tokio::test]
async fn a_503_of_a_load_balancer_proves_nothing() {
    check_503_is_unconfirmed(r#"{"message": "Service Unavailable"}"#).await;
}

#[tokio::test]
async fn a_503_with_an_error_proves_nothing() {
    check_503_is_unconfirmed(r#"{"error": {"code": "busy", "message": "busy"}}"#).await;
}

#[tokio::test]
async fn a_503_with_a_page_proves_nothing() {
    check_503_is_unconfirmed("<html><body>503</body></html>").await;
}

#[tokio::test]
async fn a_503_with_an_empty_body_proves_nothing() {
    check_503_is_unconfirmed("").await;
}

/// The provider accepted the order, and answers so under an error status.
async fn check_job_followed_under(status: u16) {
    let simulator = simulator().await;
    let world = simulator.world();
    world.order_fault(
        Fault::UnderStatus(status),
        None,
        Some(RequestRole::Submit),
        10_000,
    );
    let gateway = gateway_for_cases(&simulator, names_a_job).await;
    let finished = order_each(&gateway, names_a_job).await;
    for (case, view) in &finished {
        assert_eq!(view["status"], "succeeded", "{} {view}", case.protocol);
    }
    assert_eq!(
        submissions(&simulator),
        finished.len(),
        "one for each order"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_named_in_a_refusal_is_followed() {
    for status in [400, 409, 410] {
        check_job_followed_under(status).await;
    }
}

#[tokio::test]
async fn a_job_named_in_a_request_to_wait_is_followed() {
    for status in [425, 429, 499] {
        check_job_followed_under(status).await;
    }
}

/// Answers that may come once in place of the usual one.
fn odd_answers() -> impl Iterator<Item = Fault> + Clone {
    let statuses = [400, 404, 409, 410, 425, 429, 500, 502, 503].map(status);
    let bodies = ["<html>Welcome</html>", "", r#"{"status": "#].map(|body| Fault::Says {
        status: 200,
        retry_after: None,
        body: body.to_owned(),
    });
    statuses.into_iter().chain(bodies)
}

/// Each protocol gets one odd answer, at its first poll.
#[tokio::test]
async fn one_odd_answer_to_a_poll_does_not_fail_the_task() {
    let simulator = simulator().await;
    for (case, fault) in CASES.iter().zip(odd_answers().cycle()) {
        let provider = simulated(case.protocol);
        simulator
            .world()
            .order_fault(fault, Some(provider), Some(RequestRole::Poll), 1);
    }
    let gateway = gateway_for_cases(&simulator, any).await;
    for (case, view) in order_each(&gateway, any).await {
        assert_eq!(view["status"], "succeeded", "{} {view}", case.protocol);
    }
    assert_eq!(submissions(&simulator), CASES.len(), "one for each order");
    gateway.stop().await;
}

/// A status of more than 256 kB is not received, so it says nothing about the job. Another account,
/// at another provider, does not notice.
#[tokio::test]
async fn a_status_of_megabytes_ends_no_job() {
    let (bad, good) = (simulator().await, simulator().await);
    let body = json!({"status": "failed", "more": "x".repeat(7_000_000)});
    let fault = Fault::Says {
        status: 200,
        retry_after: None,
        body: body.to_string(),
    };
    // Two tries of the first poll of each job.
    bad.world()
        .order_fault(fault, None, Some(RequestRole::Poll), 40);
    let tables = provider("bad", "openai-videos", &bad, "")
        + &provider("good", "openai-videos", &good, "")
        + &film(r#"{ provider = "bad", model = "sora-2" }"#)
        + &film(r#"{ provider = "good", model = "sora-2" }"#).replace("film", "good-film");
    let gateway = gateway(&tables).await;
    let other = gateway.caller("other", NewKey::default()).await;
    let order = async |client: &Client, model: &str| {
        let order = json!({"model": model, "prompt": "a lake"});
        let answer = client.post("/v1/videos", &order).await;
        let task = answer.header("x-task-id").map(str::to_owned);
        answer.ok();
        task.unwrap()
    };
    let tasks = join_all((0..20).map(|_| order(&gateway, "film"))).await;
    let others = order(&other, "good-film").await;
    assert_eq!(finished(&other, &others).await["status"], "succeeded");
    for task in &tasks {
        let view = gateway.finished(task).await;
        assert_eq!(view["status"], "succeeded", "{view}");
    }
    assert_eq!(submissions(&bad), tasks.len(), "one for each order");
    gateway.stop().await;
}

/// fal answers COMPLETED with the result's URL. The request for the result gets
/// another answer, once.
#[tokio::test]
async fn one_odd_answer_to_a_result_request_does_not_fail_the_task() {
    let case = *CASES.iter().find(|case| case.protocol == "fal").unwrap();
    let simulators = join_all(odd_answers().map(async |fault| {
        let simulator = simulator().await;
        plan(&simulator, std::time::Duration::ZERO, PlannedEnd::Success);
        simulator.world().place(FaultOrder {
            role: Some(RequestRole::Poll),
            after: 1,
            ..FaultOrder::new(fault)
        });
        simulator
    }))
    .await;
    let numbered = simulators.iter().enumerate();
    let toml: String = numbered
        .map(|(number, simulator)| tables(number, case, simulator))
        .collect();
    let gateway = gateway(&toml).await;
    let orders = (0..simulators.len()).map(|number| finished_order(&gateway, number, case));
    for (view, fault) in join_all(orders).await.into_iter().zip(odd_answers()) {
        assert_eq!(view["status"], "succeeded", "{fault:?}: {view}");
    }
    for simulator in &simulators {
        assert_eq!(submissions(simulator), 1);
    }
    gateway.stop().await;
}
