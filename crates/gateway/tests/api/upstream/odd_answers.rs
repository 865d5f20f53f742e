//! What no document of a protocol has: answers that prove nothing about an order,
//! and answers that end no job. All protocols of videos stand behind one gateway.

use futures_util::future::join_all;
use serde_json::{Value, json};
use simulator::{Fault, FaultOrder, PlannedEnd, RequestRole, Simulator};

use super::every_provider::{CASES, Case};
use super::{
    assert_failed, chat_order_with_picture, gateway, plan, provider, simulated, simulator, status,
    submissions,
};
use crate::support::TestGateway;

/// The table of a case's provider and model, by their number.
fn tables(number: usize, case: Case, simulator: &Simulator) -> String {
    let (name, model) = (format!("acme-{number}"), case.model);
    provider(&name, case.protocol, simulator, case.options)
        + &format!(
            "[models.film-{number}]\nkind = \"video\"\nprice = {{ unit = \"second\", usd = \"0.10\" }}\nroutes = [{{ provider = \"{name}\", model = \"{model}\" }}]\n"
        )
}

/// All cases that hold `wanted`, at one simulator.
async fn behind_one(simulator: &Simulator, wanted: fn(Case) -> bool) -> TestGateway {
    let all = (0..).zip(CASES.iter().copied());
    let all = all.filter(|(_, case)| wanted(*case));
    let toml: String = all
        .map(|(number, case)| tables(number, case, simulator))
        .collect();
    gateway(&toml).await
}

/// Orders a film of a case; how its task ended.
async fn ended(gateway: &TestGateway, number: usize, case: Case) -> Value {
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

/// Orders one film of each case that holds `wanted`, at once.
async fn each(gateway: &TestGateway, wanted: fn(Case) -> bool) -> Vec<(Case, Value)> {
    let all = (0..).zip(CASES.iter().copied());
    let all = all.filter(|(_, case)| wanted(*case));
    join_all(all.map(async |(number, case)| (case, ended(gateway, number, case).await))).await
}

const fn any(_: Case) -> bool {
    true
}

/// Chats answer with the result and name no job.
fn names_a_job(case: Case) -> bool {
    case.protocol != "chat-video"
}

/// Whatever a 503 says, it proves nothing, so no order is sent twice: none of these
/// protocols has a row for it, and none makes one job of two orders.
async fn a_503_is_no_proof(body: &str) {
    let simulator = simulator().await;
    let fault = Fault::Says {
        status: 503,
        retry_after: Some(1),
        body: body.to_owned(),
    };
    let world = simulator.world();
    world.order_fault(fault, None, Some(RequestRole::Submit), 10_000);
    let gateway = behind_one(&simulator, any).await;
    for (case, view) in each(&gateway, any).await {
        let code = &view["error"]["code"];
        assert_eq!(code, "submission_unconfirmed", "{} {view}", case.protocol);
        assert_failed(&view, "submission_unconfirmed");
    }
    assert_eq!(submissions(&simulator), CASES.len(), "one for each order");
    gateway.stop().await;
}

#[tokio::test]
async fn a_503_of_a_front_door_is_no_proof() {
    a_503_is_no_proof(r#"{"message": "Service Unavailable"}"#).await;
}

#[tokio::test]
async fn a_503_with_an_error_is_no_proof() {
    a_503_is_no_proof(r#"{"error": {"code": "busy", "message": "busy"}}"#).await;
}

#[tokio::test]
async fn a_503_of_a_page_is_no_proof() {
    a_503_is_no_proof("<html><body>503</body></html>").await;
}

#[tokio::test]
async fn a_503_without_words_is_no_proof() {
    a_503_is_no_proof("").await;
}

/// The provider took the order, and says so under a status that says no.
async fn is_followed_under(status: u16) {
    let simulator = simulator().await;
    let world = simulator.world();
    world.order_fault(
        Fault::UnderStatus(status),
        None,
        Some(RequestRole::Submit),
        10_000,
    );
    let gateway = behind_one(&simulator, names_a_job).await;
    let made = each(&gateway, names_a_job).await;
    for (case, view) in &made {
        assert_eq!(view["status"], "succeeded", "{} {view}", case.protocol);
    }
    assert_eq!(submissions(&simulator), made.len(), "one for each order");
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_named_in_a_refusal_is_followed() {
    for status in [400, 409, 410] {
        is_followed_under(status).await;
    }
}

#[tokio::test]
async fn a_job_named_in_a_wish_to_wait_is_followed() {
    for status in [425, 429, 499] {
        is_followed_under(status).await;
    }
}

/// Whatever came once in the place of a good answer.
fn odd() -> impl Iterator<Item = Fault> + Clone {
    let statuses = [400, 404, 409, 410, 425, 429, 500, 502, 503].map(status);
    let bodies = ["<html>Welcome</html>", "", r#"{"status": "#].map(|body| Fault::Says {
        status: 200,
        retry_after: None,
        body: body.to_owned(),
    });
    statuses.into_iter().chain(bodies)
}

/// Each protocol meets one of them, at its first question.
#[tokio::test]
async fn one_odd_answer_to_a_poll_ends_nothing() {
    let simulator = simulator().await;
    for (case, fault) in CASES.iter().zip(odd().cycle()) {
        let provider = simulated(case.protocol);
        simulator
            .world()
            .order_fault(fault, Some(provider), Some(RequestRole::Poll), 1);
    }
    let gateway = behind_one(&simulator, any).await;
    for (case, view) in each(&gateway, any).await {
        assert_eq!(view["status"], "succeeded", "{} {view}", case.protocol);
    }
    assert_eq!(submissions(&simulator), CASES.len(), "one for each order");
    gateway.stop().await;
}

/// fal says COMPLETED, and where the result is. Asked for that, something says
/// something else, once.
#[tokio::test]
async fn one_odd_answer_in_the_place_of_a_result_ends_nothing() {
    let case = *CASES.iter().find(|case| case.protocol == "fal").unwrap();
    let simulators = join_all(odd().map(async |fault| {
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
    let all = simulators.iter().enumerate();
    let toml: String = all.map(|(number, one)| tables(number, case, one)).collect();
    let gateway = gateway(&toml).await;
    let ended = (0..simulators.len()).map(|number| ended(&gateway, number, case));
    for (view, fault) in join_all(ended).await.into_iter().zip(odd()) {
        assert_eq!(view["status"], "succeeded", "{fault:?}: {view}");
    }
    for simulator in &simulators {
        assert_eq!(submissions(simulator), 1);
    }
    gateway.stop().await;
}
