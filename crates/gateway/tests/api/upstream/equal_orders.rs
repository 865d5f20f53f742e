//! Equal orders at once, with answers that are late, lost or wrong: a job belongs to one order, and
//! none gets the film of another order.

use std::collections::BTreeSet;
use std::time::Duration;

use mediagate_core::domain::keys::NewKey;
use mediagate_store::StoreError;
use serde_json::{Value, json};
use simulator::{Fault, RequestRole, Simulator};

use super::{
    assert_failed, at_submission, film, one_provider, order_film, provider, simulator, status,
    submissions, wait_for_requests,
};
use crate::support::client::{Answer, Client};
use crate::support::{TestGateway, sound};

/// An answer that comes while the order after it is looked up.
const LATE: Fault = Fault::Latency(Duration::from_secs(3));
/// An answer that comes after the look-ups of the order after it.
const VERY_LATE: Fault = Fault::Latency(Duration::from_secs(15));

async fn gateway_on(postgres: bool, toml: &str) -> TestGateway {
    let builder = TestGateway::builder().toml(toml);
    let builder = if postgres {
        builder.on_postgres()
    } else {
        builder
    };
    builder.start().await
}

/// The ids of the jobs that submissions have, each as often as it occurs.
async fn jobs_of_submissions(gateway: &TestGateway) -> Vec<String> {
    let handles = gateway.app.store.read(|conn| {
        let sql = "SELECT handle FROM submissions WHERE handle IS NOT NULL ORDER BY id";
        conn.all(sql, &[], |row| row.text(0))
    });
    let handles: Result<Vec<String>, StoreError> = handles.await;
    let id = |handle: String| {
        let handle: Value = serde_json::from_str(&handle).unwrap();
        handle["id"].as_str().unwrap().to_owned()
    };
    handles.unwrap().into_iter().map(id).collect()
}

/// Orders two equal films; the answer to the first is late and that to the second is lost.
async fn order_pair(gateway: &TestGateway, simulator: &Simulator, late: Fault) -> [Value; 2] {
    at_submission(simulator, late, 1);
    let first = order_film(gateway, "a lake").await;
    wait_for_requests(simulator, RequestRole::Submit, 1).await;
    at_submission(simulator, Fault::DropAfter, 1);
    let second = order_film(gateway, "a lake").await;
    let second = gateway.finished(&second).await;
    [gateway.finished(&first).await, second]
}

async fn check_pair_is_told_apart(postgres: bool) {
    let simulator = simulator().await;
    let gateway = gateway_on(postgres, &one_provider(&simulator)).await;
    let films = order_pair(&gateway, &simulator, LATE).await;
    for film in &films {
        assert_eq!(film["status"], "succeeded", "{film}");
    }
    let jobs = jobs_of_submissions(&gateway).await;
    let made = simulator.world().jobs("openai-videos");
    let made: BTreeSet<String> = made.into_iter().map(|job| job.id).collect();
    assert_eq!((jobs.len(), submissions(&simulator)), (2, 2));
    assert_eq!(BTreeSet::from_iter(jobs), made, "each job was delivered");
    gateway.stop().await;
}

#[tokio::test]
async fn a_lost_answer_is_looked_up_once_an_equal_order_has_its_own() {
    Box::pin(check_pair_is_told_apart(false)).await;
}

#[tokio::test]
async fn a_lost_answer_is_looked_up_once_an_equal_order_has_its_own_on_postgres() {
    Box::pin(check_pair_is_told_apart(true)).await;
}

async fn check_nothing_is_guessed(postgres: bool) {
    let simulator = simulator().await;
    let gateway = gateway_on(postgres, &one_provider(&simulator)).await;
    let [first, second] = order_pair(&gateway, &simulator, VERY_LATE).await;
    assert_eq!(first["status"], "succeeded", "{first}");
    assert_failed(&second, "submission_unconfirmed");
    assert_eq!(jobs_of_submissions(&gateway).await.len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_lost_answer_stays_unconfirmed_while_an_equal_order_has_none() {
    Box::pin(check_nothing_is_guessed(false)).await;
}

#[tokio::test]
async fn a_lost_answer_stays_unconfirmed_while_an_equal_order_has_none_on_postgres() {
    Box::pin(check_nothing_is_guessed(true)).await;
}

/// An order by chat with this prompt and a first frame of this width.
fn with_frame(prompt: &str, width: u32) -> Value {
    let picture = sound::data_url("image/png", &sound::png(width, 180));
    json!({"model": "film", "messages": [{"role": "user", "content": [
        {"type": "text", "text": prompt},
        {"type": "image_url", "image_url": {"url": picture}},
    ]}]})
}

fn chat(caller: &Client, body: &Value) -> tokio::task::JoinHandle<Answer> {
    let (caller, body) = (caller.clone(), body.clone());
    tokio::spawn(async move { caller.post("/v1/chat/completions", &body).await })
}

async fn check_accounts_get_no_film_of_each_other(postgres: bool) {
    let simulator = simulator().await;
    let gateway = gateway_on(postgres, &one_provider(&simulator)).await;
    let stranger = gateway.caller("stranger", NewKey::default()).await;
    // The answer to the first may also be lost: then both are in doubt at once.
    for (first_fault, round) in [(LATE, 1), (Fault::DropAfter, 2)] {
        let is_late = first_fault == LATE;
        // An order that just ended as unconfirmed is not made again.
        let prompt = format!("it moves {round} times");
        at_submission(&simulator, first_fault, 1);
        let first = chat(&gateway.client, &with_frame(&prompt, 320));
        wait_for_requests(&simulator, RequestRole::Submit, 2 * round - 1).await;
        at_submission(&simulator, Fault::DropAfter, 1);
        let second = chat(&stranger, &with_frame(&prompt, 240));
        let second = second.await.unwrap();
        second.refused(424, "submission_unconfirmed");
        let first = first.await.unwrap();
        if is_late {
            first.ok();
        } else {
            first.refused(424, "submission_unconfirmed");
        }
    }
    assert_eq!(jobs_of_submissions(&gateway).await.len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn an_order_with_a_picture_is_not_looked_up_by_its_prompt() {
    Box::pin(check_accounts_get_no_film_of_each_other(false)).await;
}

#[tokio::test]
async fn an_order_with_a_picture_is_not_looked_up_by_its_prompt_on_postgres() {
    Box::pin(check_accounts_get_no_film_of_each_other(true)).await;
}

/// The list does not show that the other job was made from a picture.
#[tokio::test]
async fn an_order_without_a_picture_does_not_get_the_film_of_one() {
    let simulator = simulator().await;
    let gateway = gateway_on(false, &one_provider(&simulator)).await;
    at_submission(&simulator, Fault::DropAfter, 1);
    let pictured = chat(&gateway.client, &with_frame("it moves", 320))
        .await
        .unwrap();
    pictured.refused(424, "submission_unconfirmed");
    at_submission(&simulator, Fault::DropBefore, 1);
    let plain = order_film(&gateway, "it moves").await;
    assert_failed(&gateway.finished(&plain).await, "submission_unconfirmed");
    assert_eq!(jobs_of_submissions(&gateway).await, Vec::<String>::new());
    gateway.stop().await;
}

/// Fields that the operator adds are not in the list either.
#[tokio::test]
async fn an_order_with_added_fields_is_not_looked_up() {
    let simulator = simulator().await;
    let toml = provider("acme", "openai-videos", &simulator, "")
        + &film(r#"{ provider = "acme", model = "sora-2", extra = { style = "noir" } }"#);
    let gateway = gateway_on(false, &toml).await;
    at_submission(&simulator, Fault::DropAfter, 1);
    let task = order_film(&gateway, "a lake").await;
    assert_failed(&gateway.finished(&task).await, "submission_unconfirmed");
    assert_eq!(super::request_count(&simulator, RequestRole::Find), 0);
    gateway.stop().await;
}

async fn check_a_job_is_given_once(postgres: bool) {
    let simulator = simulator().await;
    let gateway = gateway_on(postgres, &one_provider(&simulator)).await;
    let operator = crate::admin::operator(&gateway).await;
    let first = order_film(&gateway, "a lake").await;
    let first = gateway.finished(&first).await;
    assert_eq!(first["status"], "succeeded", "{first}");
    at_submission(&simulator, Fault::Duplicate, 2);
    // An order that just ended as unconfirmed is not made again, so each has a prompt of its own.
    for prompt in ["a mountain", "a valley"] {
        let task = order_film(&gateway, prompt).await;
        assert_failed(&gateway.finished(&task).await, "submission_unconfirmed");
    }
    let last = order_film(&gateway, "a river").await;
    assert_eq!(gateway.finished(&last).await["status"], "succeeded");
    assert_eq!(jobs_of_submissions(&gateway).await.len(), 2);
    let metrics = operator.get("/metrics").await.whole_text();
    assert!(
        metrics.contains("mediagate_submissions_taken_total{provider=\"acme\"} 2"),
        "{metrics}"
    );
    let shown = operator
        .get("/v1/admin/submissions?state=unconfirmed")
        .await;
    let shown = shown.whole_text();
    assert!(shown.contains("the job of submission"), "{shown}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_provider_that_answers_with_an_earlier_job_sells_it_once() {
    Box::pin(check_a_job_is_given_once(false)).await;
}

#[tokio::test]
async fn a_provider_that_answers_with_an_earlier_job_sells_it_once_on_postgres() {
    Box::pin(check_a_job_is_given_once(true)).await;
}

/// Two providers of the settings may be one server, whose list has the jobs of both.
#[tokio::test]
async fn a_job_of_another_provider_at_the_same_address_is_taken() {
    let simulator = simulator().await;
    let toml = provider("acme", "openai-videos", &simulator, "")
        + &provider("again", "openai-videos", &simulator, "")
        + &film(
            r#"{ provider = "acme", model = "sora-2" }, { provider = "again", model = "sora-2" }"#,
        );
    let gateway = gateway_on(false, &toml).await;
    let first = order_film(&gateway, "a lake").await;
    assert_eq!(gateway.finished(&first).await["status"], "succeeded");
    at_submission(&simulator, status(429), 1);
    at_submission(&simulator, Fault::DropBefore, 1);
    let second = order_film(&gateway, "a lake").await;
    assert_failed(&gateway.finished(&second).await, "submission_unconfirmed");
    assert_eq!(jobs_of_submissions(&gateway).await.len(), 1);
    gateway.stop().await;
}
