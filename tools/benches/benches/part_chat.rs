//! CPU that a whole chat request costs the gateway when the model answers at
//! once: HTTP, key, checks, durable submit, claim, finish, answer.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark may fail loudly"
)]

use benches::{BenchGateway, ClientLoad};
use mediagate_http as http;

fn main() {
    benches::client_or_continue();
    benches::runtime().block_on(async {
        let gateway = BenchGateway::open().await;
        benches::finished_tasks::answer_at_once(&gateway).await;
        let address = benches::listen(http::router(&gateway.app)).await;
        let body = r#"{"model":"animatic-1","messages":[{"role":"user","content":"a lake at dawn, slow dolly in"}]}"#;
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            gateway.key,
            body.len()
        );
        // One caller waits for every commit alone. Many share commits, so each costs less.
        for connections in [1, 16, 64] {
            let load = ClientLoad::new(address, connections, 4.0, request.clone());
            let before = benches::cpu_time();
            let rate = benches::throughput(&load).await;
            let cpu = benches::cpu_time().checked_sub(before).unwrap();
            let each = cpu.as_secs_f64() * 1000.0 / (rate * load.seconds);
            println!("{connections:3} connections  {rate:7.0} answers a second  {each:.3} ms CPU for each");
        }
    });
}
