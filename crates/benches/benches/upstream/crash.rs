//! A crash with many jobs open: how soon all of them are asked about again. The
//! gateway that is killed is this program, started again.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mediagate_telemetry::counters;
use mediagate_worker::WorkerPool;

use crate::figures::Spread;
use crate::provider::{Jobs, Provider};
use crate::{orders, settings};
use benches::{self, BenchGateway};

/// Where the one that is to be killed has its data, the provider's address, how many jobs, and polls a second.
const VICTIM: &str = "MEDIAGATE_BENCH_VICTIM";

/// Kills a gateway with that many jobs open, starts another and watches it.
pub(crate) async fn run(provider: &mut Provider, count: usize, most_polls: usize) {
    // Jobs take ten minutes, so none ends while the gateway is down.
    provider.plan(Jobs {
        lengths: (600_000, 601_000),
        latency_ms: 100,
    });
    let data = benches::folder_on_disk();
    kill_one(data.path(), &provider.url, count, most_polls);
    let before = provider.polls();
    let killed = Instant::now();
    let app = benches::app_in(data.path(), None, &settings(&provider.url, most_polls));
    let workers = WorkerPool::start(&app).await;
    let up = killed.elapsed();
    let mut waited: HashMap<String, f64> = HashMap::new();
    let open = provider.polls().len() - ended(provider);
    while waited.len() < open.min(count) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = killed.elapsed();
        for (id, polls) in provider.polls() {
            if polls > before.get(&id).copied().unwrap_or_default() {
                waited.entry(id).or_insert(now.as_secs_f64());
            }
        }
        assert!(now < Duration::from_mins(5), "{} of {count}", waited.len());
    }
    println!("{count} jobs open, and the gateway is killed (kill -9) and started again");
    println!("  workers running          after {:.1} s", up.as_secs_f64());
    println!(
        "  asked about again        {}",
        Spread::of(waited.into_values().collect())
    );
    // Dropped without waiting: the jobs would take ten minutes to end.
    drop(workers);
}

/// Jobs of earlier rounds.
fn ended(provider: &mut Provider) -> usize {
    let now = mediagate_model::clock::Clock::system().now().micros();
    provider.ends().values().filter(|end| **end < now).count()
}

/// Has a gateway take the jobs, and kills it.
fn kill_one(data: &Path, url: &str, count: usize, most_polls: usize) {
    let words = format!(
        "{}\u{1f}{url}\u{1f}{count}\u{1f}{most_polls}",
        data.display()
    );
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .env(VICTIM, words)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(victim.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(said, "open\n", "all jobs are open when it is killed");
}

/// In the process that is to be killed: orders, says when all jobs are at the
/// provider, and waits for its end. Returns at once in the benchmark's own process.
pub(crate) fn play_or_continue() {
    let Ok(words) = std::env::var(VICTIM) else {
        return;
    };
    let words: Vec<&str> = words.split('\u{1f}').collect();
    let (data, url) = (PathBuf::from(words[0]), words[1]);
    let (count, most_polls): (usize, usize) =
        (words[2].parse().unwrap(), words[3].parse().unwrap());
    benches::runtime().block_on(async {
        let gateway = BenchGateway::from_app(benches::app_in(&data, None, &settings(url, most_polls))).await;
        let _workers = WorkerPool::start(&gateway.app).await;
        orders::place(&gateway, "many", count).await;
        let line = "mediagate_upstream_calls_total{provider=\"many-many\",stage=\"submit\",outcome=\"ok\"} ";
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let text = counters::metrics_recorder().render();
            let taken = text.lines().find_map(|one| one.strip_prefix(line));
            if taken.is_some_and(|taken| taken.trim().parse() == Ok(count)) {
                break;
            }
        }
        // The counter runs ahead of the database: the handles of the last jobs are written a moment
        // later.
        tokio::time::sleep(Duration::from_secs(5)).await;
        println!("open");
        std::future::pending::<()>().await;
    });
}
