//! Jobs at a hosted provider, thousands at once: how late they are asked for,
//! how soon an end is written down, what that takes. The whole gateway on
//! `SQLite`, the provider in a process of its own on the same cores.
//!
//! ```text
//! cargo bench -p mediagate --bench upstream             10,000 jobs, then 1,000 against a loop
//! cargo bench -p mediagate --bench upstream -- 100000   that many, and no loop
//! ```

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark may fail loudly, and prints rounded figures"
)]

mod naive;
mod provider;
#[path = "../support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use mediagate::domain::idempotency::{self, Begun, Wanted};
use mediagate::domain::submit::{self, Draft, NewTask};
use mediagate::error::Error;
use mediagate::ids::RequestId;
use mediagate::model::intent::Body;
use mediagate::model::price::Quantity;
use mediagate::model::task::{Payload, VideoJob};
use mediagate::telemetry;
use mediagate::worker::Workers;
use provider::{Jobs, Provider};
use support::Gateway;

/// Most tasks that are ordered in one transaction.
const ORDER: usize = 500;

fn main() {
    support::engine_or_continue();
    provider::play_or_continue();
    let count = std::env::args().find_map(|word| word.parse().ok());
    support::runtime().block_on(async {
        let mut provider = Provider::start();
        let gateway = Gateway::with_settings(&settings(&provider.url)).await;
        let workers = Workers::start(&gateway.app).await;
        let many = count.unwrap_or(10_000);
        scale(&gateway, &mut provider, many).await;
        if count.is_none() {
            against_a_loop(&gateway, &mut provider, 1000).await;
        }
        workers.stop().await;
    });
}

fn settings(url: &str) -> String {
    let mut text = String::new();
    for name in ["many", "cold", "warm"] {
        let provider = if name == "warm" { "cold" } else { name };
        let _ = write!(
            text,
            "[providers.{provider}-{name}]\nprotocol = \"openai-videos\"\nbase_url = \"{url}\"\napi_key = \"k\"\n\
             [models.{name}]\nkind = \"video\"\nroutes = [{{ provider = \"{provider}-{name}\", model = \"film\" }}]\n"
        );
    }
    text
}

/// Many jobs open at once.
async fn scale(gateway: &Gateway, provider: &mut Provider, count: usize) {
    // All must have been taken before the first ends.
    let shortest = 40_000.max(count as u64 * 3);
    let jobs = Jobs {
        lengths: (shortest, shortest * 2),
        latency_ms: 100,
    };
    provider.plan(jobs);
    let (memory_before, cpu_before) = (memory(), support::cpu_time());
    let run = follow(gateway, "many", count).await;
    let cpu = support::cpu_time().checked_sub(cpu_before).unwrap();
    println!(
        "{count} jobs of {}–{} s, every answer after {} ms",
        shortest / 1000,
        shortest / 500,
        jobs.latency_ms
    );
    println!(
        "  taken by the provider    in {:.1} s, {:.0} a second; {} open at once",
        run.taken.as_secs_f64(),
        count as f64 / run.taken.as_secs_f64(),
        run.most_open
    );
    let lag = Histogram::read("poll_lag_seconds", "many-many");
    let settle = Histogram::read("settle_seconds", "many");
    println!(
        "  polls                    {}, {:.0} a second at most",
        lag.count(),
        run.most_polls
    );
    println!(
        "  due → left               {}   target: all within 2 s",
        lag.show(2.0)
    );
    println!(
        "  end shown → ended here   {}   target: 99 % within 1 s",
        settle.show(1.0)
    );
    let late = lateness(gateway, "many", provider).await;
    println!("  ended there → ended here {}", Spread::of(late));
    println!(
        "  memory                   {:.0} MB before, {:.0} MB at most, {:.1} kB a job   target: under 200 MB at 10,000",
        memory_before,
        run.most_memory,
        (run.most_memory - memory_before) * 1000.0 / count as f64
    );
    println!(
        "  CPU of the gateway       {:.1} s in {:.0} s; {:.0} µs a poll, all included",
        cpu.as_secs_f64(),
        run.whole.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / lag.count() as f64
    );
}

/// From the end upstream to the end here, against the loop, at the same time.
async fn against_a_loop(gateway: &Gateway, provider: &mut Provider, count: usize) {
    let jobs = Jobs {
        lengths: (15_000, 30_000),
        latency_ms: 0,
    };
    provider.plan(jobs);
    let url = provider.url.clone();
    let (_, looped) = tokio::join!(follow(gateway, "cold", count), naive::run(&url, count));
    let cold = Spread::of(lateness(gateway, "cold", provider).await);
    let _ = follow(gateway, "warm", count).await;
    let warm = Spread::of(lateness(gateway, "warm", provider).await);
    let ends = provider.ends();
    let seconds = |micros: i64| micros as f64 / 1e6;
    let late = looped.iter().map(|(id, here)| seconds(here - ends[id]));
    let looped_late = Spread::of(late.collect());
    let first = looped.iter().map(|(id, _)| ends[id]).min().unwrap_or(0);
    // The first order was about the shortest job's length before the first end.
    let ends: Vec<f64> = looped
        .iter()
        .map(|(id, _)| seconds(ends[id] - first) + 15.0)
        .collect();
    let slow = Spread::of(naive::worked_out(&ends, 1.0));
    println!("{count} jobs of 15–30 s open: ended there → ended here");
    println!("  this gateway, first day       {cold}");
    println!("  this gateway, knows the model {warm}");
    println!("  a loop every 15 s, measured   {looped_late}");
    println!("  … with 1 s a job, worked out  {slow}");
    println!(
        "  ratio of the means            {:.1} (first day {:.1}), with 1 s a job {:.0}",
        looped_late.mean / warm.mean,
        looped_late.mean / cold.mean,
        slow.mean / warm.mean
    );
}

/// What was seen while jobs ran.
struct Run {
    taken: Duration,
    whole: Duration,
    most_open: usize,
    most_polls: f64,
    most_memory: f64,
}

/// Orders tasks and waits until all have ended.
async fn follow(gateway: &Gateway, model: &str, count: usize) -> Run {
    let started = Instant::now();
    for first in (0..count).step_by(ORDER) {
        let new = (first..count.min(first + ORDER)).map(|_| order(gateway, model));
        let request = RequestId::generate();
        let wanted = Wanted {
            body: Body {
                key: gateway.caller.key.id,
                fingerprint: request.as_str().to_owned(),
            },
            idempotency_key: None,
            tries: 0,
            is_new: std::sync::Arc::default(),
            line: mediagate::attendance::Line::default(),
        };
        let (app, caller) = (&gateway.app, &gateway.caller);
        let begun = idempotency::begin(app, caller, &wanted, false)
            .await
            .unwrap();
        let Begun::New(visit) = begun else {
            panic!("an intent that nobody had");
        };
        let draft = Draft {
            tasks: new
                .map(|new| submit::task(app, caller, &request, new))
                .collect(),
            ..Draft::default()
        };
        submit::accept(app, caller, &visit, draft).await.unwrap();
    }
    let mut run = Run {
        taken: Duration::ZERO,
        whole: Duration::ZERO,
        most_open: 0,
        most_polls: 0.0,
        most_memory: 0.0,
    };
    let name = model.to_owned();
    let label = format!("{{kind=\"video\",model=\"{name}\",outcome=\"succeeded\"}}");
    let (mut polls, mut looked) = (0, started);
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let text = telemetry::count().render();
        let value = |line: &str| {
            let found = text.lines().find_map(|one| one.strip_prefix(line));
            found.map_or(0, |value| value.trim().parse::<usize>().unwrap())
        };
        let site = if model == "warm" {
            "cold-warm".into()
        } else {
            format!("{model}-{model}")
        };
        let submitted = value(&format!(
            "mediagate_upstream_calls_total{{provider=\"{site}\",stage=\"submit\",outcome=\"ok\"}}"
        ));
        let ended = value(&format!("mediagate_tasks_ended_total{label}"));
        let asked = value(&format!(
            "mediagate_upstream_poll_lag_seconds_count{{provider=\"{site}\"}}"
        ));
        if submitted == count && run.taken.is_zero() {
            run.taken = started.elapsed();
        }
        run.most_open = run.most_open.max(submitted - ended);
        run.most_polls = run
            .most_polls
            .max((asked - polls) as f64 / looked.elapsed().as_secs_f64());
        (polls, looked) = (asked, Instant::now());
        run.most_memory = run.most_memory.max(memory());
        if std::env::var_os("BENCH_TRACE").is_some() {
            println!(
                "{:.0} s: {submitted} taken, {ended} ended, {asked} polls, {:.0} MB",
                started.elapsed().as_secs_f64(),
                memory()
            );
        }
        if ended == count {
            run.whole = started.elapsed();
            return run;
        }
        assert!(
            started.elapsed() < Duration::from_hours(1),
            "{ended} of {count} ended"
        );
    }
}

fn order(gateway: &Gateway, model: &str) -> NewTask {
    NewTask {
        model: gateway
            .app
            .models
            .catalog
            .load()
            .named(model)
            .unwrap()
            .clone(),
        asked_model: model.into(),
        payload: Payload::VideoV1(VideoJob {
            prompt: "a lake under the mountains at first light, slow dolly in".repeat(5),
            width: 1280,
            height: 720,
            milliseconds: 4000,
            fps: 30,
            ..VideoJob::default()
        }),
        callback: None,
        quantity: Quantity {
            milliseconds: 4000,
            pixels: 1280 * 720,
            parts: 1,
            parts_asked: 1,
        },
    }
}

/// Seconds from the end of each job at the provider to the end of its task.
async fn lateness(gateway: &Gateway, model: &str, provider: &mut Provider) -> Vec<f64> {
    let ends = provider.ends();
    let name = model.to_owned();
    let here: HashMap<String, i64> = gateway
        .app
        .store
        .read(move |conn| -> Result<_, Error> {
            let sql =
                "SELECT s.handle, t.finished_at FROM submissions s JOIN tasks t ON t.id = s.task_id
                       WHERE t.model = ?1 AND t.state = 'succeeded'";
            Ok(conn.all(sql, &[(&name).into()], |row| {
                let handle: serde_json::Value = row.json(0, "handle")?;
                Ok((
                    handle["id"].as_str().unwrap_or_default().to_owned(),
                    row.int(1)?,
                ))
            })?)
        })
        .await
        .unwrap()
        .into_iter()
        .collect();
    let late = here.iter().map(|(id, here)| (here - ends[id]) as f64 / 1e6);
    late.collect()
}

/// Memory of this process, in MB.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<f64>().unwrap() / 1000.0
}

/// How figures are spread, in seconds.
struct Spread {
    mean: f64,
    sorted: Vec<f64>,
}

impl Spread {
    fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        Self {
            mean: figures.iter().sum::<f64>() / figures.len() as f64,
            sorted: figures,
        }
    }

    fn at(&self, percent: usize) -> f64 {
        let place = (self.sorted.len() * percent / 100).min(self.sorted.len() - 1);
        self.sorted[place]
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (half, most, all) = (self.at(50), self.at(99), self.at(100));
        write!(
            f,
            "mean {:7.2} s  p50 {half:7.2} s  p99 {most:7.2} s  max {all:7.2} s",
            self.mean
        )
    }
}

/// A histogram of `/metrics`, as an operator sees it: upper bounds and how many
/// are not above them.
struct Histogram(Vec<(f64, u64)>);

impl Histogram {
    fn read(name: &str, label: &str) -> Self {
        let text = telemetry::count().render();
        let start = format!("mediagate_upstream_{name}_bucket{{");
        let label = format!("=\"{label}\"");
        let buckets = text
            .lines()
            .filter(|line| line.starts_with(&start) && line.contains(&label));
        let bucket = |line: &str| {
            let (bound, count) = line
                .split_once("le=\"")
                .unwrap()
                .1
                .split_once("\"}")
                .unwrap();
            (bound.parse().unwrap(), count.trim().parse().unwrap())
        };
        Self(buckets.map(bucket).collect())
    }

    fn count(&self) -> u64 {
        self.0.last().map_or(0, |last| last.1)
    }

    /// The bound that this share is within.
    fn bound(&self, share: f64) -> f64 {
        let wanted = self.count() as f64 * share;
        let found = self.0.iter().find(|(_, count)| *count as f64 >= wanted);
        found.map_or(f64::INFINITY, |found| found.0)
    }

    fn show(&self, target: f64) -> String {
        let within = self
            .0
            .iter()
            .find(|(bound, _)| *bound >= target)
            .map_or(0, |found| found.1);
        format!(
            "p50 ≤ {} s  p99 ≤ {} s  max ≤ {} s  within {target} s: {:.2} %",
            self.bound(0.5),
            self.bound(0.99),
            self.bound(1.0),
            within as f64 * 100.0 / self.count() as f64
        )
    }
}
