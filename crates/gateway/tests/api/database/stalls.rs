//! A server all of whose processes stand still: it takes connections, and says nothing.

use std::time::Duration;

use tokio::time::Instant;

use crate::support::Client;
use crate::support::cluster::Cluster;
use crate::support::program::Server;

use super::{add_up, hosted, jobs, order, provider, succeed};

/// Callers at once.
const CALLERS: u32 = 100;
/// What they may cost, each with a request that waits.
const MEMORY: u64 = 100 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_is_503_for_everybody() {
    stall(Duration::from_secs(3)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the long form: half a minute"]
async fn long_stall() {
    stall(Duration::from_secs(30)).await;
}

#[expect(clippy::print_stdout, reason = "a measurement, which is read")]
async fn stall(time: Duration) {
    let cluster = Cluster::start();
    let (simulator, toml) = provider().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let toml = format!("database = \"{}\"\n{toml}", cluster.url());
    std::fs::write(&file, toml).unwrap();
    let data = folder.path().join("data");
    let words = ["--config", file.to_str().unwrap()];
    let server = Server::start(&data, &words).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    let tasks = order(&client, 0..6).await;
    let before = server.peak_memory();
    cluster.signal("-STOP", "");
    let until = Instant::now() + time;
    let callers = (0..CALLERS).map(|number| ask(&client, number, until));
    let waited = futures_util::future::join_all(callers).await.concat();
    cluster.signal("-CONT", "");
    let most = waited.iter().max().unwrap();
    println!("{} answers, the slowest after {most:.2?}", waited.len());
    let grown = server.peak_memory().saturating_sub(before);
    println!("{} MiB more", grown >> 20);
    assert!(grown < MEMORY, "{grown} bytes more");
    succeed(&client, &tasks).await;
    assert_eq!(
        jobs(&simulator),
        tasks.len(),
        "what was refused was not made"
    );
    let data = data.to_str().unwrap();
    server.stop().await;
    add_up(&["--config", words[1], "--data", data]).await;
}

/// Asks until then, once at least; how long each answer took.
async fn ask(client: &Client, number: u32, until: Instant) -> Vec<Duration> {
    let mut waited = Vec::new();
    loop {
        let begun = Instant::now();
        let answer = if number.is_multiple_of(2) {
            client.post("/v1/videos", &hosted(1000 + number)).await
        } else {
            client.get("/v1/tasks").await
        };
        answer.refused(503, "overloaded");
        waited.push(begun.elapsed());
        if Instant::now() >= until {
            return waited;
        }
    }
}
