//! Hosted providers, played by the simulator, behind the gateway's endpoints.
//!
//! The settings are read from a file, as an operator writes them; what arrived
//! at a provider is told by the simulator's journal.

mod attempts;
mod cancel;
mod changes;
mod config;
mod corruptions;
mod costs;
mod every_provider;
mod hosted;
mod kept_marks;
mod leases;
mod limits;
mod lives;
mod margin;
mod music;
mod names;
mod odd_answers;
mod partitions;
mod personas;
mod prices;
mod providers;
mod reload;
mod results;
mod routing;
mod second_gateway;
mod songs;
mod surplus;
mod throttle;
mod turns;
mod wishes;

use std::time::Duration;

use mediagate_store::StoreError;
use serde_json::{Value, json};
use simulator::{Fault, JobPlan, PlannedEnd, RequestRole, Simulator};

use crate::support::{TestGateway, eventually, sound};

/// A key as providers give them.
const KEY: &str = "sk-simulated-0123456789";
/// How long a job takes that never ends by itself.
const LONG: Duration = Duration::from_hours(1);
/// How long a job takes that something comes in between.
const SOME: Duration = Duration::from_secs(3);

/// Providers, played.
pub(crate) async fn simulator() -> Simulator {
    Simulator::start().await.unwrap()
}

/// The simulator's model of a protocol's provider; a recipe of the operator's is for the
/// Videos API here.
fn simulated(protocol: &str) -> &str {
    match protocol {
        "recipe" => "openai-videos",
        _ => protocol.strip_prefix("recipe:").unwrap_or(protocol),
    }
}

/// A provider's table: a protocol at its simulator, and more lines.
fn provider(name: &str, protocol: &str, simulator: &Simulator, more: &str) -> String {
    let url = simulator.url(simulated(protocol));
    let key = if more.contains("api_key") {
        String::new()
    } else {
        format!("api_key = \"{KEY}\"\n")
    };
    format!("[providers.{name}]\nprotocol = \"{protocol}\"\nbase_url = \"{url}\"\n{key}{more}\n")
}

/// The table of the video model `film` with these routes, a dime a second.
fn film(routes: &str) -> String {
    format!(
        "[models.film]\nkind = \"video\"\nprice = {{ unit = \"second\", usd = \"0.10\" }}\nroutes = [{routes}]\n"
    )
}

/// One provider, `acme`, that speaks `openai-videos`; and `film` made there.
fn one_provider(simulator: &Simulator) -> String {
    provider("acme", "openai-videos", simulator, "")
        + &film(r#"{ provider = "acme", model = "sora-2" }"#)
}

/// Two of them, each at its own simulator: `first` and `second`.
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

/// The same, and nobody works until the test says so.
async fn without_workers(toml: &str) -> TestGateway {
    TestGateway::builder()
        .without_workers()
        .toml(toml)
        .start()
        .await
}

/// Orders that arrived, taken or not.
fn submissions(simulator: &Simulator) -> usize {
    arrived(simulator, RequestRole::Submit)
}

/// Requests for something that arrived.
fn arrived(simulator: &Simulator, role: RequestRole) -> usize {
    let journal = simulator.world().journal();
    journal.iter().filter(|one| one.role == role).count()
}

/// The keys by which requests for something arrived, in order.
fn keys(simulator: &Simulator, role: RequestRole) -> Vec<String> {
    let journal = simulator.world().journal();
    let asked = journal.iter().filter(|one| one.role == role);
    asked
        .map(|one| {
            let header = one.headers["authorization"].to_str().unwrap();
            header.trim_start_matches("Bearer ").to_owned()
        })
        .collect()
}

/// How jobs go from now on.
fn plan(simulator: &Simulator, running: Duration, end: PlannedEnd) {
    simulator.world().set_plan(JobPlan {
        running,
        end,
        ..JobPlan::default()
    });
}

/// A status, in the provider's own words.
fn status(status: u16) -> Fault {
    Fault::Status {
        status,
        retry_after: None,
        bare: false,
    }
}

/// The next orders meet this.
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

/// Orders `film` by the Videos API; the task.
async fn ordered(gateway: &TestGateway, prompt: &str) -> String {
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

/// Waits until orders have arrived.
async fn arrives(simulator: &Simulator, role: RequestRole, count: usize) {
    eventually("requests arrive at the provider", async || {
        (arrived(simulator, role) >= count).then_some(())
    })
    .await;
}

/// The failure of a task that cost nothing.
#[track_caller]
fn assert_failed(task: &Value, code: &str) {
    assert_eq!(
        (&task["status"], &task["error"]["code"], &task["cost_usd"]),
        (&json!("failed"), &json!(code), &json!("0.00")),
        "{task}"
    );
}
