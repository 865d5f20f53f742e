//! What several gateways on one Postgres cost and do: idle streams, how soon a change at one is
//! seen at another with and without `NOTIFY`, orders a second, and how exactly a limit holds for
//! all of them.
//!
//! Starts a `PostgreSQL` of its own. `MEDIAGATE_BENCH_PROGRAM` names a gateway that is built
//! already, `MEDIAGATE_BENCH_PARTS` the parts to run, of `idle chats bells orders limits`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark may fail loudly"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "all of it ends with the benchmark"
)]

#[path = "../../../../crates/gateway/tests/api/support/cluster.rs"]
#[expect(dead_code, reason = "nothing fails here")]
mod cluster;
mod gateway;
#[path = "../../../../crates/gateway/tests/process/mod.rs"]
#[expect(dead_code, reason = "only the tests use all of it")]
mod process;

use std::time::{Duration, Instant};

use benches::gateway_process::post;
use benches::{ClientLoad, NUMBER};
use futures_util::StreamExt as _;
use gateway::{Deployment, Gateway, Model, Stream};
use serde_json::json;
use tokio::net::TcpListener;

/// How long a gateway is observed.
const WATCH_TIME: Duration = Duration::from_secs(20);
/// Changes that are timed, with and without `NOTIFY`.
const CHANGES: usize = 150;

fn main() {
    benches::client_or_continue();
    benches::runtime().block_on(async {
        let parts = std::env::var("MEDIAGATE_BENCH_PARTS").ok();
        let is_wanted = |part: &str| parts.as_ref().is_none_or(|parts| parts.contains(part));
        if is_wanted("idle") {
            idle(&Deployment::start().await).await;
        }
        if is_wanted("chats") {
            chats(&Deployment::start().await).await;
        }
        if is_wanted("bells") {
            bells(&Deployment::start().await).await;
        }
        if is_wanted("orders") {
            orders().await;
        }
        if is_wanted("limits") {
            limits(&Deployment::start().await).await;
        }
    });
}

/// A gateway with nothing to do, and streams of tasks at which nothing happens.
async fn idle(deployment: &Deployment) {
    println!("streams   statements a second   KiB each   % of a core");
    // The tasks of a full model wait. Jobs at a provider would be polled, which is not idle.
    let maker = deployment.gateway("maker", Model::Full, "").await;
    let tasks = maker.order(5000).await;
    // The gateways below do not have the model, so no worker looks for these tasks.
    drop(maker);
    for count in [0, 200, 5000] {
        let idle = deployment.gateway("idle", Model::Other, "").await;
        // Leaves out what a gateway does once after it has started.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = idle.resident();
        let opening = tasks.iter().take(count).map(|task| idle.stream(task));
        let streams = all_of(opening).await;
        let statements_before = deployment.statements().await;
        let used = share_of_a_core(&idle).await;
        let statements = deployment.statements().await - statements_before;
        let statements = statements as f64 / WATCH_TIME.as_secs_f64();
        let kib_each = idle.resident().saturating_sub(before) as f64 / 1024.0 / count.max(1) as f64;
        println!(
            "{count:>7}   {statements:>19.1}   {kib_each:>8.1}   {:>11.1}",
            used * 100.0
        );
        drop(streams);
    }
}

/// Streams of chats that a provider never answers.
async fn chats(deployment: &Deployment) {
    const CHATS: usize = 2000;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let provider = silent.local_addr().unwrap();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            held.push(connection);
        }
    });
    let settings = format!(
        "max_submitting = {CHATS}\n[providers.silent]\nprotocol = \"chat-video\"\nstream = false\n\
         base_url = \"http://{provider}/v1\"\napi_key = \"k\"\n[models.silent]\nkind = \"video\"\nprice = \"free\"\n\
         routes = [{{ provider = \"silent\", model = \"film\" }}]\n"
    );
    let gateway = deployment.gateway("chats", Model::Other, &settings).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = gateway.resident();
    let opening = (0..CHATS).map(|number| gateway.chat("silent", &format!("lake {number}")));
    let streams = all_of(opening).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let used = share_of_a_core(&gateway).await * 100.0;
    let kib_each = gateway.resident().saturating_sub(before) as f64 / 1024.0 / CHATS as f64;
    println!("{CHATS} chats that a provider has: {kib_each:.1} KiB each, {used:.1} % of a core");
    drop(streams);
}

/// Opens streams, 100 at a time.
async fn all_of(
    streams: impl Iterator<Item = impl Future<Output = Stream> + Send + 'static>,
) -> Vec<Stream> {
    futures_util::stream::iter(streams)
        .buffer_unordered(100)
        .collect()
        .await
}

async fn share_of_a_core(gateway: &Gateway) -> f64 {
    let cpu_before = gateway.cpu_time();
    tokio::time::sleep(WATCH_TIME).await;
    gateway.cpu_time().saturating_sub(cpu_before).as_secs_f64() / WATCH_TIME.as_secs_f64()
}

/// Measures how soon a stream at one gateway shows that a task was cancelled at another one.
async fn bells(deployment: &Deployment) {
    println!("from a change here to the stream there     p50 ms   p99 ms");
    // Nothing listens there, so NOTIFY is off and only polling is left.
    let nobody = "[bell]\ndatabase = \"postgres://127.0.0.1:1/none\"\n";
    measure_bell("one look in 250 ms", deployment, nobody).await;
    measure_bell("NOTIFY", deployment, "").await;
}

async fn measure_bell(name: &str, deployment: &Deployment, bell: &str) {
    let here = deployment.gateway("here", Model::Hosted, bell).await;
    let there = deployment.gateway("there", Model::Hosted, bell).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut waited = Vec::new();
    for task in here.order(CHANGES).await {
        let mut stream = there.stream(&task).await;
        let called = Instant::now();
        here.post(&format!("/v1/tasks/{task}/cancel"), &json!({}))
            .await;
        // Counted from the answer to the cancellation. Before it nobody may expect to see the
        // change.
        let known = Instant::now();
        let seen = stream.until("cancelled").await;
        let since = seen.saturating_duration_since(known);
        waited.push((since, known - called));
    }
    waited.sort_unstable();
    let percentile = |percent: usize| waited[waited.len() * percent / 100].0.as_secs_f64() * 1e3;
    println!("{name:<40} {:>8.1} {:>8.1}", percentile(50), percentile(99));
}

/// Accepted orders a second; a provider gets them later. Each row has its own database, because one
/// that is full of orders is slower.
async fn orders() {
    println!("accounts   callers   gateways   orders a second");
    for (accounts, callers) in [(1, 48), (16, 48)] {
        for gateways in 1..=3 {
            let rate = order(accounts, callers, gateways).await;
            println!("{accounts:>8}   {callers:>7}   {gateways:>8}   {rate:>15.0}");
        }
    }
}

async fn order(accounts: usize, callers: usize, gateways: usize) -> f64 {
    let deployment = Deployment::start().await;
    let mut keys = Vec::new();
    for number in 0..accounts {
        let account = format!("customer-{number}");
        let words = ["--rpm", "4000000000", "--account", &account];
        keys.push(deployment.key(&words).await);
    }
    let body = format!(r#"{{"model":"film","prompt":"a lake {NUMBER}","seconds":"4"}}"#);
    let requests = keys.iter().map(|key| post("/v1/videos", key, &body));
    let requests: Vec<String> = requests.collect();
    let (mut running, mut loads): (Vec<Gateway>, Vec<ClientLoad>) = (Vec::new(), Vec::new());
    for number in 0..gateways {
        let name = format!("many-{number}");
        let gateway = deployment.gateway(&name, Model::Full, "").await;
        loads.push(ClientLoad {
            address: gateway.address,
            connections: callers / gateways,
            seconds: 8.0,
            requests_each: usize::MAX,
            requests: requests.clone(),
        });
        running.push(gateway);
    }
    let rates = futures_util::future::join_all(loads.iter().map(benches::throughput)).await;
    rates.iter().sum()
}

/// A key for 600 requests a minute, used as fast as three gateways can reject its requests.
async fn limits(deployment: &Deployment) {
    let key = deployment.key(&["--rpm", "600"]).await;
    let mut gateways = Vec::new();
    for number in 0..3 {
        let name = format!("limited-{number}");
        gateways.push(deployment.gateway(&name, Model::Hosted, "").await);
    }
    let begun = Instant::now();
    let asking = gateways
        .iter()
        .map(|gateway| gateway.ask_for(WATCH_TIME, &key));
    let passed: usize = futures_util::future::join_all(asking).await.iter().sum();
    let due = 600.0 + begun.elapsed().as_secs_f64() * 10.0;
    println!(
        "of {due:.0} requests that a key of 600 a minute had in {:.0} s, three gateways let {passed} through: {:+.1} %",
        begun.elapsed().as_secs_f64(),
        (passed as f64 / due - 1.0) * 100.0
    );
}
