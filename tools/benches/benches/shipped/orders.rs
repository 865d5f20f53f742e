//! Orders: `POST /v1/videos` for a provider whose jobs take an hour, with none and with many of
//! them open.

use std::time::{Duration, Instant};

use benches::gateway_process::GatewayProcess;
use benches::{ClientLoad, NUMBER};

use crate::provider::{Jobs, Provider};

const SECONDS: f64 = 4.0;
/// Tasks that are open for the second row.
const OPEN_JOBS: usize = 10_000;

pub(crate) async fn measure() {
    println!(
        "## Orders\n\n| `POST /v1/videos`, 32 callers | accepted a second | CPU per order, µs |\n|---|---|---|"
    );
    let mut provider = Provider::start();
    provider.plan(Jobs {
        lengths: (3_600_000, 3_600_001),
        latency_ms: 0,
    });
    // The first model's orders wait: its provider takes one job at a time. So the orders are only
    // accepted, and what is done for them afterwards does not count.
    let program = GatewayProcess::start(&models(&provider.url));
    let (rate, cpu) = run(&program, "waiting").await;
    println!("| accepted only | {rate:.0} | {cpu:.0} |");
    drop(program);
    let program = GatewayProcess::start(&models(&provider.url));
    order(&program, "open", OPEN_JOBS).await;
    let started = Instant::now();
    while provider.polls().len() < OPEN_JOBS {
        assert!(started.elapsed() < Duration::from_mins(3));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let idle = idle_cpu(&program).await;
    let (rate, cpu) = run(&program, "waiting").await;
    println!("| accepted only, {OPEN_JOBS} jobs open at a provider | {rate:.0} | {cpu:.0} |");
    println!(
        "\nThe {OPEN_JOBS} open jobs are polled meanwhile; without orders that takes {:.0} % of a core.\n",
        idle * 100.0
    );
}

fn models(url: &str) -> String {
    ["waiting", "open"]
        .map(|name| {
            let limit = if name == "waiting" { ", max_running = 1" } else { "" };
            format!(
                "[providers.{name}]\nprotocol = \"openai-videos\"\nbase_url = \"{url}\"\napi_key = \"k\"\n\
                 [models.{name}]\nkind = \"video\"\nprice = \"free\"\n\
                 routes = [{{ provider = \"{name}\", model = \"film\"{limit} }}]\n"
            )
        })
        .concat()
}

/// Accepted orders a second, and microseconds of CPU for each.
async fn run(program: &GatewayProcess, model: &str) -> (f64, f64) {
    let request = program.post("/v1/videos", &body(model));
    let load = ClientLoad::new(program.address, 32, SECONDS, request);
    let before = program.cpu();
    let rate = benches::throughput(&load).await;
    let cpu = program.cpu_seconds_since(before) * 1e6;
    (rate, cpu / (rate * SECONDS))
}

fn body(model: &str) -> String {
    format!(r#"{{"model":"{model}","prompt":"a lake, take {NUMBER}"}}"#)
}

/// Orders this many videos.
pub(crate) async fn order(program: &GatewayProcess, model: &str, count: usize) {
    const CALLERS: usize = 25;
    let request = program.post("/v1/videos", &body(model));
    let mut load = ClientLoad::new(program.address, CALLERS, 600.0, request);
    load.requests_each = count / CALLERS;
    benches::throughput(&load).await;
}

/// The share of a core that the program uses while nobody calls it.
async fn idle_cpu(program: &GatewayProcess) -> f64 {
    let (before, started) = (program.cpu(), Instant::now());
    tokio::time::sleep(Duration::from_secs(4)).await;
    program.cpu_seconds_since(before) / started.elapsed().as_secs_f64()
}
