//! A server all of whose processes are stopped: it accepts connections, and answers nothing.

use std::time::Duration;

use tokio::time::Instant;

use crate::support::Client;
use crate::support::cluster::Cluster;
use crate::support::program::Server;

use super::{assert_all_succeed, film_order, order, provider, submission_count, verify_ledger};

/// Number of simultaneous callers.
const CALLERS: u32 = 100;
/// The memory that all their waiting requests may use together.
const MEMORY: u64 = 100 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_is_503_for_everybody() {
    stall(Duration::from_secs(3)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the long form: half a minute"]
async fn long_stall() {
    stall(Duration::from_secs(30)).await;
}

#[expect(clippy::print_stdout, reason = "a measurement for whoever runs it")]
async fn stall(time: Duration) {
    let cluster = Cluster::start();
    let (simulator, toml) = provider().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let toml = format!("database = \"{}\"\n{toml}", cluster.url());
    std::fs::write(&file, toml).unwrap();
    let data = folder.path().join("data");
    let args = ["--config", file.to_str().unwrap()];
    let server = Server::start(&data, &args).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    let tasks = order(&client, 0..6).await;
    let before = server.peak_memory();
    cluster.signal("-STOP", "");
    let until = Instant::now() + time;
    let callers = (0..CALLERS).map(|number| request_until(&client, number, until));
    let durations = futures_util::future::join_all(callers).await.concat();
    cluster.signal("-CONT", "");
    let slowest = durations.iter().max().unwrap();
    println!(
        "{} answers, the slowest after {slowest:.2?}",
        durations.len()
    );
    let growth = server.peak_memory().saturating_sub(before);
    println!("{} MiB more", growth >> 20);
    assert!(growth < MEMORY, "{growth} bytes more");
    assert_all_succeed(&client, &tasks).await;
    assert_eq!(
        submission_count(&simulator),
        tasks.len(),
        "rejected orders were not submitted"
    );
    let data = data.to_str().unwrap();
    server.stop().await;
    verify_ledger(&["--config", args[1], "--data", data]).await;
}

/// Sends requests until `until`, at least one; returns how long each answer took.
async fn request_until(client: &Client, number: u32, until: Instant) -> Vec<Duration> {
    let mut durations = Vec::new();
    loop {
        let started = Instant::now();
        let answer = if number.is_multiple_of(2) {
            client.post("/v1/videos", &film_order(1000 + number)).await
        } else {
            client.get("/v1/tasks").await
        };
        answer.refused(503, "overloaded");
        durations.push(started.elapsed());
        if Instant::now() >= until {
            return durations;
        }
    }
}
