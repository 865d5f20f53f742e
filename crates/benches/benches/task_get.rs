//! `GET /v1/tasks/{id}` of a finished task, against a bare axum handler that
//! returns the same bytes from the same server.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark may fail loudly"
)]

use axum::Router;
use axum::http::header;
use axum::routing::get;
use benches::{BenchGateway, ClientLoad};
use mediagate_http as http;

fn main() {
    benches::client_or_continue();
    benches::runtime().block_on(async {
        let gateway = BenchGateway::open().await;
        let task = benches::finished_tasks::video(&gateway).await;
        let ours = benches::listen(http::router(&gateway.app)).await;
        let path = format!("/v1/tasks/{task}");
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\n\r\n",
            gateway.key
        );
        let body = reqwest::Client::new()
            .get(format!("http://{ours}{path}"))
            .bearer_auth(&gateway.key);
        let body = body.send().await.unwrap().text().await.unwrap();
        let answer = move || {
            std::future::ready(([(header::CONTENT_TYPE, "application/json")], body.clone()))
        };
        let bare = benches::listen(Router::new().route("/v1/tasks/{id}", get(answer))).await;
        let load = |address| ClientLoad {
            address,
            connections: 32,
            seconds: 4.0,
            requests: vec![request.clone()],
        };
        let mut rates = (0.0_f64, 0.0_f64);
        // The best of three, in turn: what disturbs a run can only make it slower.
        for _ in 0..3 {
            rates.0 = rates.0.max(benches::throughput(&load(ours)).await);
            rates.1 = rates.1.max(benches::throughput(&load(bare)).await);
        }
        println!("answers a second, 32 connections, client in its own process on the same cores");
        println!("  GET /v1/tasks/{{id}}                {:9.0}", rates.0);
        println!("  bare axum handler, same bytes     {:9.0}", rates.1);
        println!(
            "  ratio                             {:9.2}",
            rates.0 / rates.1
        );
    });
}
