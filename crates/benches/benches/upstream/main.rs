//! Jobs at a hosted provider, thousands at once: how late they are asked for,
//! how soon an end is written down, what that takes. The whole gateway on
//! `SQLite`, the provider in a process of its own on the same cores.
//!
//! ```text
//! cargo bench -p benches --bench upstream               10,000 jobs, then 1,000 against a loop, then a crash
//! cargo bench -p benches --bench upstream -- 100000     that many, and no loop
//! cargo bench -p benches --bench upstream -- 10000 4000 with max_polls = 4000
//! ```

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark may fail loudly, and prints rounded figures"
)]

mod crash;
mod figures;
mod naive;
mod orders;
mod provider;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use benches::BenchGateway;
use figures::{Histogram, Spread, memory};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_telemetry::counters;
use mediagate_worker::WorkerPool;
use provider::{Jobs, Provider};

fn main() {
    benches::engine_or_continue();
    provider::play_or_continue();
    crash::play_or_continue();
    let mut numbers = std::env::args().filter_map(|word| word.parse().ok());
    let (count, most_polls) = (numbers.next(), numbers.next().unwrap_or(1000));
    benches::runtime().block_on(async {
        let mut provider = Provider::start();
        let gateway = BenchGateway::with_settings(&settings(&provider.url, most_polls)).await;
        let workers = WorkerPool::start(&gateway.app).await;
        let many = count.unwrap_or(10_000);
        scale(&gateway, &mut provider, many).await;
        if count.is_none() {
            against_a_loop(&gateway, &mut provider, 1000).await;
        }
        workers.stop().await;
        crash::run(&mut provider, many, most_polls).await;
    });
}

fn settings(url: &str, most_polls: usize) -> String {
    let mut text = String::new();
    for name in ["many", "cold", "warm"] {
        let provider = if name == "warm" { "cold" } else { name };
        let _ = write!(
            text,
            "[providers.{provider}-{name}]\nprotocol = \"openai-videos\"\nbase_url = \"{url}\"\napi_key = \"k\"\n\
             max_polls = {most_polls}\n[models.{name}]\nkind = \"video\"\nroutes = [{{ provider = \"{provider}-{name}\", model = \"film\" }}]\n"
        );
    }
    text
}

/// Many jobs open at once.
async fn scale(gateway: &BenchGateway, provider: &mut Provider, count: usize) {
    // No job may end before the last is taken, or they would never all be open at once.
    let shortest = 40_000.max(count as u64 * 3);
    let jobs = Jobs {
        lengths: (shortest, shortest * 2),
        latency_ms: 100,
    };
    provider.plan(jobs);
    // Not measured: these jobs teach the gateway how long one takes, as on any day but the first.
    let _ = follow(gateway, "many", 500).await;
    let asked_before = Histogram::read("poll_lag_seconds", "many-many").count();
    let (memory_before, cpu_before) = (memory(), benches::cpu_time());
    let began = gateway.app.clock.now();
    let run = follow(gateway, "many", count).await;
    let cpu = benches::cpu_time().checked_sub(cpu_before).unwrap();
    println!(
        "{count} jobs of {}–{} s (500 others are known), every answer after {} ms",
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
    let asked = lag.count() - asked_before;
    println!(
        "  polls                    {}, {:.0} a second at most",
        asked, run.most_polls
    );
    println!(
        "  due → left               {}   target: all within 2 s",
        lag.show(2.0)
    );
    println!(
        "  end shown → ended here   {}   target: 99 % within 1 s",
        settle.show(1.0)
    );
    let late = lateness(gateway, "many", began, provider).await;
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
        cpu.as_secs_f64() * 1e6 / asked as f64
    );
}

/// From the end upstream to the end here, against the loop, at the same time.
async fn against_a_loop(gateway: &BenchGateway, provider: &mut Provider, count: usize) {
    let jobs = Jobs {
        lengths: (15_000, 30_000),
        latency_ms: 0,
    };
    provider.plan(jobs);
    let (url, began) = (provider.url.clone(), gateway.app.clock.now());
    // At the same time, so that both share the machine and the provider.
    let (_, looped) = tokio::join!(follow(gateway, "cold", count), naive::run(&url, count));
    let cold = Spread::of(lateness(gateway, "cold", began, provider).await);
    let _ = follow(gateway, "warm", count).await;
    let warm = Spread::of(lateness(gateway, "warm", began, provider).await);
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

/// Orders taken by the provider, tasks that ended well, polls: as `/metrics` tells.
fn counts(model: &str) -> [usize; 3] {
    let text = counters::metrics_recorder().render();
    let value = |line: String| {
        let found = text.lines().find_map(|one| one.strip_prefix(&line));
        found.map_or(0, |value| value.trim().parse::<usize>().unwrap())
    };
    let site = if model == "warm" {
        "cold-warm".into()
    } else {
        format!("{model}-{model}")
    };
    [
        format!(
            "mediagate_upstream_calls_total{{provider=\"{site}\",stage=\"submit\",outcome=\"ok\"}}"
        ),
        format!(
            "mediagate_tasks_ended_total{{kind=\"video\",model=\"{model}\",outcome=\"succeeded\"}}"
        ),
        format!("mediagate_upstream_poll_lag_seconds_count{{provider=\"{site}\"}}"),
    ]
    .map(value)
}

/// Orders tasks and waits until all have ended.
async fn follow(gateway: &BenchGateway, model: &str, count: usize) -> Run {
    let (started, before) = (Instant::now(), counts(model));
    orders::place(gateway, model, count).await;
    let mut run = Run {
        taken: Duration::ZERO,
        whole: Duration::ZERO,
        most_open: 0,
        most_polls: 0.0,
        most_memory: 0.0,
    };
    let mut looked = started;
    let mut polls = 0;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = counts(model);
        let [submitted, ended, asked] = std::array::from_fn(|of| now[of] - before[of]);
        if submitted == count && run.taken.is_zero() {
            run.taken = started.elapsed();
        }
        run.most_open = run.most_open.max(submitted.saturating_sub(ended));
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

/// Seconds from the end of each job at the provider to the end of its task, of those ordered since.
async fn lateness(
    gateway: &BenchGateway,
    model: &str,
    since: Timestamp,
    provider: &mut Provider,
) -> Vec<f64> {
    let ends = provider.ends();
    let name = model.to_owned();
    let here: HashMap<String, i64> = gateway
        .app
        .store
        .read(move |conn| -> Result<_, Error> {
            let sql =
                "SELECT s.handle, t.finished_at FROM submissions s JOIN tasks t ON t.id = s.task_id
                       WHERE t.model = ?1 AND t.state = 'succeeded' AND t.created_at >= ?2";
            Ok(
                conn.all(sql, &[(&name).into(), since.micros().into()], |row| {
                    let handle: serde_json::Value = row.json(0, "handle")?;
                    Ok((
                        handle["id"].as_str().unwrap_or_default().to_owned(),
                        row.int(1)?,
                    ))
                })?,
            )
        })
        .await
        .unwrap()
        .into_iter()
        .collect();
    let late = here.iter().map(|(id, here)| (here - ends[id]) as f64 / 1e6);
    late.collect()
}
