//! Chats: a provider answers at once with a link to its film, through the gateway and through nginx
//! and `HAProxy`, in front of the same upstream.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use benches::ClientLoad;
use benches::gateway_process::{GatewayProcess, chat_models, post};
use serde_json::{Value, json};

use crate::{peers, upstream};

/// [`benches::NUMBER`] makes each request a different order.
const PROMPT: &str = "a lake at dawn, take ############";
/// Side of the picture.
const PIXELS: u32 = 512;
/// Duration of each measurement.
const SECONDS: f64 = 4.0;

/// The gateway or a peer.
pub(crate) struct ChatTarget {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    /// The process whose CPU time is counted; `None` for the upstream itself.
    pub(crate) process: Option<String>,
    pub(crate) model: String,
    pub(crate) key: String,
    /// Complete header lines, each after a line break.
    pub(crate) headers: String,
}

impl ChatTarget {
    fn gateway(program: &GatewayProcess, model: &str) -> Self {
        Self {
            name: format!("Mediagate `{model}`"),
            address: program.address,
            path: peers::CHAT.into(),
            process: Some(program.process()),
            model: model.into(),
            key: program.key.clone(),
            headers: String::new(),
        }
    }

    fn request(&self, is_stream: bool, content: &Value) -> String {
        let message = json!({"role": "user", "content": content});
        let body = json!({"model": self.model, "stream": is_stream, "messages": [message]});
        let authorization = format!("{}{}", self.key, self.headers);
        post(&self.path, &authorization, &body.to_string())
    }

    /// Chats a second, the median wait, and microseconds of CPU for each.
    async fn run(&self, connections: usize, request: String) -> (benches::LoadResult, f64) {
        let load = ClientLoad::new(self.address, connections, SECONDS, request);
        let cpu = || self.process.as_deref().map(benches::cpu_time_of);
        let before = cpu();
        let result = benches::measure(&load).await;
        let used = cpu()
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        let micros = used.unwrap_or(Duration::ZERO).as_secs_f64() * 1e6;
        (result, micros / (result.per_second * SECONDS))
    }

    async fn chat(&self, connections: usize) -> (benches::LoadResult, f64) {
        self.run(connections, self.request(false, &json!(PROMPT)))
            .await
    }
}

pub(crate) async fn measure() {
    let at_once = upstream::start(Duration::ZERO);
    let slow = upstream::start(Duration::from_millis(50));
    println!("## Chats\n\nupstream: http://{}/v1\n", at_once.address);
    at_once_table(&at_once).await;
    many_callers(&slow).await;
}

fn models(upstream: SocketAddr) -> String {
    let link = "results = \"link\"";
    let known = "results = \"link\"\nidempotency = true";
    let models = chat_models(
        upstream,
        &[("kept", ""), ("linked", link), ("known", known)],
    );
    // The upstream is on this machine, and callers get its links.
    models + "[fetch]\nallow_networks = [\"127.0.0.0/8\"]\n"
}

async fn at_once_table(upstream: &upstream::Upstream) {
    println!(
        "| through | 32 callers: chats a second | 32 callers: CPU per chat, µs | 1 caller: p50, µs | \
         1 caller: p50 above direct, µs | 1 caller, streamed: p50 above direct, µs | \
         32 callers, picture of {PIXELS} × {PIXELS}: CPU per chat, µs |\n\
         |---|---|---|---|---|---|---|"
    );
    let peers = peers::start(upstream.address);
    let direct = peers.direct();
    let (base, _) = direct.chat(1).await;
    let (rate, _) = direct.chat(32).await;
    println!(
        "| direct | {:.0} | | {:.0} | | | |",
        rate.per_second, base.p50
    );
    for peer in peers.targets().into_iter().chain(peers::targets_from_env()) {
        let (one, _) = peer.chat(1).await;
        let (many, cpu) = peer.chat(32).await;
        println!(
            "| {} | {:.0} | {cpu:.0} | {:.0} | {:.0} | | |",
            peer.name,
            many.per_second,
            one.p50,
            one.p50 - base.p50
        );
    }
    let program = GatewayProcess::start(&models(upstream.address));
    let at_rest = program.resident();
    for model in ["known", "linked", "kept"] {
        gateway_row(&ChatTarget::gateway(&program, model), base.p50).await;
    }
    println!(
        "\nMemory: {at_rest:.0} MiB at rest, {:.0} MiB after these callers.\n",
        program.resident()
    );
}

async fn gateway_row(gateway: &ChatTarget, direct: f64) {
    // The single caller goes first: films of 32 callers get their posters and fingerprints
    // afterwards, and that work would disturb it.
    let (one, _) = gateway.chat(1).await;
    let (streamed, _) = gateway.run(1, gateway.request(true, &json!(PROMPT))).await;
    let (many, cpu) = gateway.chat(32).await;
    let avatar = artwork::avatar(animatic::FONT, "race", "a lake", PIXELS).unwrap();
    let picture = format!("data:image/png;base64,{}", STANDARD.encode(avatar));
    let picture = json!({"type": "image_url", "image_url": {"url": picture}});
    let content = json!([{"type": "text", "text": PROMPT}, picture]);
    let (_, with_picture) = gateway.run(32, gateway.request(false, &content)).await;
    println!(
        "| {} | {:.0} | {cpu:.0} | {:.0} | {:.0} | {:.0} | {with_picture:.0} |",
        gateway.name,
        many.per_second,
        one.p50,
        one.p50 - direct,
        streamed.p50 - direct
    );
}

/// 500 callers of an upstream that takes 50 ms.
async fn many_callers(upstream: &upstream::Upstream) {
    println!(
        "| 500 callers, upstream takes 50 ms | chats a second | ratio to direct | p50, ms | CPU per chat, µs |\n|---|---|---|---|---|"
    );
    let peers = peers::start(upstream.address);
    let mut targets = vec![peers.direct()];
    targets.extend(peers.targets());
    let program = GatewayProcess::start(&models(upstream.address));
    targets.extend(["linked", "kept"].map(|model| ChatTarget::gateway(&program, model)));
    let mut direct = None;
    for target in &targets {
        let (many, cpu) = target.chat(500).await;
        let share = many.per_second / *direct.get_or_insert(many.per_second);
        println!(
            "| {} | {:.0} | {share:.3} | {:.0} | {cpu:.0} |",
            target.name,
            many.per_second,
            many.p50 / 1000.0
        );
    }
    println!(
        "\nMemory after 500 callers: {:.0} MiB.\n",
        program.resident()
    );
}
