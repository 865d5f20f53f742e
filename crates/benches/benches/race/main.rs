//! A race: a chat whose provider answers at once with a link to its film, through the gateway and
//! through what a user might put there instead, in front of the same upstream and in one run.
//!
//! ```text
//! cargo bench -p benches --bench race
//! RACE_UPSTREAM=127.0.0.1:5990 RACE_PEERS="litellm|http://127.0.0.1:4000/v1/chat/completions|1234|film" \
//!     cargo bench -p benches --bench race
//! ```
//!
//! nginx and `HAProxy` run if they are on the PATH. Others that already listen are named in
//! `RACE_PEERS`: a name, where it listens, its process, whose CPU is counted, and its model; headers
//! that one of them wants are in `RACE_HEADERS` (`x-a: 1;x-b: 2`). They send to the upstream at
//! `RACE_UPSTREAM`, and are left out of what takes 50 ms. Start them with `taskset -c 0`. With
//! `taskset` and two processors the gateway and each peer have one to themselves, and the load and
//! the upstream the other.
//!
//! Peers hand the link on. The gateway enters the order into its books before it is sent, fetches
//! the film, checks it, keeps it, and says so: `kept`. With `results = "link"` it does all but the
//! fetching and keeping: `linked`. `known` is the same for a provider that makes one job of two
//! orders with one key (`idempotency = true`), so that orders travel on kept connections, as those
//! of all peers do.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark may fail loudly"
)]

mod peers;
mod upstream;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use benches::{BenchGateway, ClientLoad, NUMBER};
use mediagate_http as http;
use mediagate_store as store;
use mediagate_worker::WorkerPool;
use serde_json::{Value, json};

/// Its [`NUMBER`] makes each another order.
const PROMPT: &str = "a lake at dawn, take ############";
/// A side of the picture.
const PIXELS: u32 = 512;
/// How long each measurement takes.
const SECONDS: f64 = 4.0;

fn main() {
    benches::client_or_continue();
    upstream::serve_or_continue();
    alone();
    benches::runtime().block_on(race());
}

/// Starts this program again on a processor of its own, where there are two and `taskset`.
fn alone() {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if processors < 2 || std::env::var_os(benches::OTHER_CPU_VAR).is_some() {
        return;
    }
    // If there is no `taskset`, all share all processors.
    let _ = std::process::Command::new("taskset")
        .args(["-c", "0"])
        .args(std::env::args_os())
        .env(benches::OTHER_CPU_VAR, "1")
        .exec();
}

/// Who is in the race.
struct Runner {
    name: String,
    address: SocketAddr,
    path: String,
    /// Whose CPU time is counted; nobody's for the upstream itself.
    process: Option<String>,
    model: String,
    key: String,
    /// Whole lines.
    headers: String,
}

impl Runner {
    fn is_ours(&self) -> bool {
        self.process.as_deref() == Some("self")
    }

    fn request(&self, is_stream: bool) -> String {
        self.asks(is_stream, &json!(PROMPT))
    }

    fn request_with(&self, picture: &str) -> String {
        let picture = json!({"type": "image_url", "image_url": {"url": picture}});
        self.asks(false, &json!([{"type": "text", "text": PROMPT}, picture]))
    }

    fn asks(&self, is_stream: bool, content: &Value) -> String {
        let message = json!({"role": "user", "content": content});
        let body = json!({"model": self.model, "stream": is_stream, "messages": [message]});
        let authorization = format!("{}{}", self.key, self.headers);
        post(&self.path, &authorization, &body.to_string())
    }

    async fn run(&self, connections: usize) -> (benches::LoadResult, f64) {
        self.run_with(connections, self.request(false)).await
    }

    async fn run_with(&self, connections: usize, request: String) -> (benches::LoadResult, f64) {
        let load = ClientLoad {
            address: self.address,
            connections,
            seconds: SECONDS,
            requests: vec![request],
        };
        let used = || self.process.as_deref().map(benches::cpu_time_of);
        let before = used();
        let answered = benches::measured(&load).await;
        let cpu = used()
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        let cpu = cpu.unwrap_or(Duration::ZERO).as_secs_f64() * 1e6;
        (answered, cpu / (answered.per_second * SECONDS))
    }
}

fn post(path: &str, key: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn race() {
    let at_once = upstream::start(Duration::ZERO);
    let in_time = upstream::start(Duration::from_millis(50));
    println!("upstream: http://{}/v1", at_once.address);
    let gateway = BenchGateway::with_settings(&settings(at_once.address, in_time.address)).await;
    let workers = WorkerPool::start(&gateway.app).await;
    let ours = benches::listen(http::router(&gateway.app)).await;
    println!("memory at rest: {} MiB", resident());

    let near = peers::start(at_once.address);
    let far = peers::start(in_time.address);
    let us = |name: &str, model: &str| Runner {
        name: name.into(),
        address: ours,
        path: peers::CHAT.into(),
        process: Some("self".into()),
        model: model.into(),
        key: gateway.key.clone(),
        headers: String::new(),
    };
    let mut runners = vec![near.direct()];
    runners.extend(near.own());
    runners.extend(peers::named());
    runners.extend([
        us("mediagate, known", "known"),
        us("mediagate, linked", "linked"),
        us("mediagate, kept", "kept"),
    ]);
    println!("\nA chat that is answered at once, {SECONDS} s each");
    println!("                       32 callers              1 caller");
    println!("                        a second   CPU, µs     p50, µs   added, µs");
    let mut direct = None;
    for runner in &runners {
        // The single caller goes first. The films of 32 callers get their posters and fingerprints
        // afterwards, and that work would disturb it.
        let (one, _) = runner.run(1).await;
        let (many, cpu) = runner.run(32).await;
        let added = one.p50 - *direct.get_or_insert(one.p50);
        println!(
            "  {:20} {:9.0} {cpu:9.0}   {:9.0} {added:11.0}",
            runner.name, many.per_second, one.p50
        );
    }
    println!("memory after 32 callers: {} MiB", resident());
    println!("\nThe same as a stream, 1 caller: the whole of it, p50 and over direct, µs");
    for runner in runners.iter().filter(|runner| runner.is_ours()) {
        let (one, _) = runner.run_with(1, runner.request(true)).await;
        let added = one.p50 - direct.unwrap_or_default();
        println!("  {:20} {:9.0} {added:11.0}", runner.name, one.p50);
    }
    println!("\nThe same with a picture of {PIXELS} × {PIXELS}, the same each time, 32 callers");
    let avatar = artwork::avatar(animatic::FONT, "race", "a lake", PIXELS).unwrap();
    let picture = format!("data:image/png;base64,{}", STANDARD.encode(avatar));
    for runner in runners.iter().filter(|runner| runner.is_ours()) {
        let request = runner.request_with(&picture);
        let (many, cpu) = runner.run_with(32, request).await;
        let name = &runner.name;
        println!(
            "  {name:20} {:9.0} a second {cpu:9.0} µs CPU",
            many.per_second
        );
    }
    pictures(&gateway).await;

    println!("\n500 callers, the upstream takes 50 ms: answers a second, and the share of direct");
    let mut runners = vec![far.direct()];
    runners.extend(far.own());
    runners.extend([
        us("mediagate, linked", "linked-in-time"),
        us("mediagate, kept", "kept-in-time"),
    ]);
    let mut direct = None;
    for runner in &runners {
        let (many, _) = runner.run(500).await;
        let share = many.per_second / *direct.get_or_insert(many.per_second);
        println!("  {:20} {:9.0} {share:9.3}", runner.name, many.per_second);
    }
    println!("\nPOST /v1/videos, 32 callers");
    orders(&gateway, ours, "with what is already made of them").await;
    workers.stop().await;
    orders(&gateway, ours, "accepting alone").await;
}

/// What is left to do of the films that were kept: a poster and a fingerprint of each, in a child.
async fn pictures(gateway: &BenchGateway) {
    const ENOUGH: usize = 400;
    let used = || benches::cpu_times_of("self").iter().sum::<Duration>();
    let unseen = async || {
        let read = |conn: &mut store::Conn<'_>| {
            store::fingerprints::without_fingerprint(conn, None, u32::MAX)
        };
        gateway.app.store.read(read).await.unwrap().len()
    };
    let (cpu, films) = (used(), unseen().await);
    let mut left = films;
    while left > 0 && films - left < ENOUGH {
        tokio::time::sleep(Duration::from_secs(1)).await;
        left = unseen().await;
    }
    let (cpu, films) = (used().saturating_sub(cpu), films - left);
    let each = cpu.as_secs_f64() * 1e6 / films as f64;
    println!("a picture of each film, afterwards: {each:.0} µs CPU ({films} films)");
}

/// Orders that are answered before they are worked on.
async fn orders(gateway: &BenchGateway, address: SocketAddr, what: &str) {
    let body = format!(r#"{{"model":"kept-in-time","prompt":"a lake, take {NUMBER}"}}"#);
    let load = ClientLoad {
        address,
        connections: 32,
        seconds: SECONDS,
        requests: vec![post("/v1/videos", &gateway.key, &body)],
    };
    let before = benches::cpu_time();
    let rate = benches::throughput(&load).await;
    let cpu = benches::cpu_time().saturating_sub(before).as_secs_f64() * 1e6;
    let each = cpu / (rate * SECONDS);
    println!("  {what:34} {rate:6.0} a second {each:6.0} µs CPU for each");
}

/// MiB of memory of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line
        .and_then(|line| line.split_whitespace().next())
        .unwrap()
        .parse()
        .unwrap();
    kib / 1024
}

fn settings(at_once: SocketAddr, in_time: SocketAddr) -> String {
    let mut text = "max_submitting = 1024\n".to_owned();
    for (suffix, address) in [("", at_once), ("-in-time", in_time)] {
        for (name, results) in [("kept", "keep"), ("linked", "link"), ("known", "link")] {
            let idempotency = name == "known";
            let _ = write!(
                text,
                "[providers.{name}{suffix}]\nprotocol = \"chat-video\"\nstream = false\n\
                 idempotency = {idempotency}\n\
                 base_url = \"http://{address}/v1\"\napi_key = \"k\"\nresults = \"{results}\"\n\
                 [models.{name}{suffix}]\nkind = \"video\"\n\
                 routes = [{{ provider = \"{name}{suffix}\", model = \"film\" }}]\n"
            );
        }
    }
    text
}
