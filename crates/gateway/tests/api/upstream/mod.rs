//! Hosted providers, simulated, behind the gateway's endpoints.
//!
//! The settings are read from a file, as an operator writes them; what arrived
//! at a provider is in the simulator's journal.

mod approval;
mod attempts;
mod cancel;
mod changes;
mod config;
mod corruptions;
mod costs;
mod ended_keys;
mod ends;
mod equal_orders;
mod every_provider;
mod gone;
mod hosted;
mod kept_marks;
mod leases;
mod limits;
mod lives;
mod margin;
mod music;
mod names;
mod odd_answers;
mod optional_settings;
mod partitions;
mod personas;
mod prices;
mod providers;
mod reload;
mod results;
mod routing;
mod second_gateway;
mod song_prices;
mod songs;
mod storage;
mod surplus;
mod throttle;
mod turns;

use std::time::Duration;

use mediagate_store::StoreError;
use serde_json::{Value, json};
use simulator::{Fault, JobPlan, PlannedEnd, RequestRole, Simulator};

use crate::support::{TestGateway, eventually, sound};

/// A key as providers give them.
const KEY: &str = "sk-simulated-0123456789";
/// The duration of a job that outlasts every test.
const LONG: Duration = Duration::from_hours(1);
/// The duration of a job that a test interrupts.
const BRIEF: Duration = Duration::from_secs(3);

/// Simulated providers.
pub(crate) async fn simulator() -> Simulator {
    Simulator::start().await.unwrap()
}

/// The simulator's name of a protocol's provider. The operator's recipe is for the Videos
/// API here.
fn simulated(protocol: &str) -> &str {
    match protocol {
        "recipe" => "openai-videos",
        _ => protocol.strip_prefix("recipe:").unwrap_or(protocol),
    }
}

/// A provider's table: its protocol, the simulator's URL, a key and extra lines.
fn provider(name: &str, protocol: &str, simulator: &Simulator, extra_lines: &str) -> String {
    let url = simulator.url(simulated(protocol));
    let key = if extra_lines.contains("api_key") {
        String::new()
    } else {
        format!("api_key = \"{KEY}\"\n")
    };
    format!(
        "[providers.{name}]\nprotocol = \"{protocol}\"\nbase_url = \"{url}\"\n{key}{extra_lines}\n"
    )
}

/// The table of the video model `film` with these routes, at 0.10 USD a second.
fn film(routes: &str) -> String {
    format!(
        "[models.film]\nkind = \"video\"\nprice = {{ unit = \"second\", usd = \"0.10\" }}\nroutes = [{routes}]\n"
    )
}

/// One provider, `acme`, of the protocol `openai-videos`, and the model `film` routed to it.
fn one_provider(simulator: &Simulator) -> String {
    provider("acme", "openai-videos", simulator, "")
        + &film(r#"{ provider = "acme", model = "sora-2" }"#)
}

/// Two such providers, `first` and `second`, each with its own simulator.
fn two_providers(first: &Simulator, second: &Simulator) -> String {
    provider("first", "openai-videos", first, "")
        + &provider("second", "openai-videos", second, "")
        + &film(
            r#"{ provider = "first", model = "sora-2" }, { provider = "second", model = "sora-2" }"#,
        )
}

/// A gateway with these settings.
async fn gateway(toml: &str) -> TestGateway {
    TestGateway::builder().toml(toml).start().await
}

/// Like [`gateway`], without workers until the test starts them.
async fn without_workers(toml: &str) -> TestGateway {
    TestGateway::builder()
        .without_workers()
        .toml(toml)
        .start()
        .await
}

/// The number of orders that arrived, accepted or not.
fn submissions(simulator: &Simulator) -> usize {
    request_count(simulator, RequestRole::Submit)
}

/// The number of requests of a role that arrived.
fn request_count(simulator: &Simulator, role: RequestRole) -> usize {
    let journal = simulator.world().journal();
    journal
        .iter()
        .filter(|request| request.role == role)
        .count()
}

/// The API keys of the requests of a role that arrived, in order.
fn keys(simulator: &Simulator, role: RequestRole) -> Vec<String> {
    let journal = simulator.world().journal();
    let requests = journal.iter().filter(|request| request.role == role);
    requests
        .map(|request| {
            let header = request.headers["authorization"].to_str().unwrap();
            header.trim_start_matches("Bearer ").to_owned()
        })
        .collect()
}

/// Sets how later jobs run and end.
fn plan(simulator: &Simulator, running: Duration, end: PlannedEnd) {
    simulator.world().set_plan(JobPlan {
        running,
        end,
        ..JobPlan::default()
    });
}

/// An error status with the provider's usual body.
fn status(status: u16) -> Fault {
    Fault::Status {
        status,
        retry_after: None,
        bare: false,
    }
}

/// A gateway on this database, with its own folder.
async fn replica(url: &str, toml: &str) -> TestGateway {
    let builder = TestGateway::builder().on_database(url).toml(toml);
    builder.start().await
}

/// The body of the only submission that arrived.
fn submitted_body(simulator: &Simulator) -> Value {
    let journal = simulator.world().journal();
    let mut submissions = journal
        .iter()
        .filter(|request| request.role == RequestRole::Submit);
    let body = submissions.next().unwrap().body.clone();
    assert!(submissions.next().is_none());
    body
}

/// Applies a fault to the next orders.
fn at_submission(simulator: &Simulator, fault: Fault, times: u32) {
    simulator
        .world()
        .order_fault(fault, None, Some(RequestRole::Submit), times);
}

/// An order of `film` by chat.
fn chat_order(prompt: &str) -> Value {
    json!({"model": "film", "messages": [{"role": "user", "content": prompt}]})
}

/// An order of `film` by chat with a picture.
fn chat_order_with_picture(prompt: &str) -> Value {
    let picture = sound::data_url("image/png", &sound::png(320, 180));
    json!({"model": "film", "messages": [{"role": "user", "content": [
        {"type": "text", "text": prompt},
        {"type": "image_url", "image_url": {"url": picture}},
    ]}]})
}

/// Orders `film` by the Videos API; returns the task's identifier.
async fn order_film(gateway: &TestGateway, prompt: &str) -> String {
    let body = json!({"model": "film", "prompt": prompt});
    let answer = gateway.post("/v1/videos", &body).await;
    let task = answer.header("x-task-id").map(str::to_owned);
    answer.ok();
    task.unwrap()
}

/// Runs a statement that changes one row, with one value.
async fn change(gateway: &TestGateway, sql: &'static str, value: &str) {
    let value = value.to_owned();
    let changed = gateway
        .app
        .store
        .write(move |conn| conn.execute(sql, &[(&value).into()]));
    let changed: Result<u64, StoreError> = changed.await;
    assert_eq!(changed.unwrap(), 1);
}

/// Waits until this many requests of a role have arrived.
async fn wait_for_requests(simulator: &Simulator, role: RequestRole, count: usize) {
    eventually("requests arrive at the provider", async || {
        (request_count(simulator, role) >= count).then_some(())
    })
    .await;
}

/// Asserts that the task failed with this code and cost nothing.
#[track_caller]
fn assert_failed(task: &Value, code: &str) {
    assert_eq!(
        (&task["status"], &task["error"]["code"], &task["cost_usd"]),
        (&json!("failed"), &json!(code), &json!("0.00")),
        "{task}"
    );
}
