//! Jobs at a hosted provider, thousands at once: how late an end is seen, what polling costs, and
//! how soon all are polled again after a crash.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use benches::gateway_process::GatewayProcess;
use mediagate_model::clock::Clock;

use crate::figures::DelaySpread;
use crate::orders::order;
use crate::polling_loop;
use crate::provider::{Jobs, Provider};

/// Jobs that are open at once.
const OPEN_JOBS: usize = 10_000;
/// Jobs of the comparison with a loop.
const FEW_JOBS: usize = 1000;

pub(crate) async fn measure() {
    let mut provider = Provider::start();
    let program = GatewayProcess::start(&models(&provider.url));
    println!(
        "## Open jobs\n\n| jobs | accepted by the provider a second | polls a second | from the end at the provider \
         to the end here: p50, s | p99, s | max, s | CPU per poll, µs | peak memory, MiB |\n|---|---|---|---|---|---|---|---|"
    );
    // Lets the gateway learn how long a job takes, as it has on any day but the first.
    provider.plan(slow_jobs());
    follow(&program, &mut provider, "open", 500).await;
    let run = follow(&program, &mut provider, "open", OPEN_JOBS).await;
    run.print(&format!(
        "{OPEN_JOBS} jobs of 40 to 80 s, every response takes 100 ms"
    ));
    drop(program);
    against_a_loop(&mut provider).await;
    after_a_crash(&mut provider).await;
}

fn slow_jobs() -> Jobs {
    Jobs {
        lengths: (40_000, 80_000),
        latency_ms: 100,
    }
}

fn models(url: &str) -> String {
    format!(
        "[providers.acme]\nprotocol = \"openai-videos\"\nbase_url = \"{url}\"\napi_key = \"k\"\n\
         [models.open]\nkind = \"video\"\nprice = \"free\"\nroutes = [{{ provider = \"acme\", model = \"film\" }}]\n"
    )
}

/// What was seen while jobs ran.
struct JobRun {
    accepted_per_second: f64,
    polls_per_second: f64,
    cpu_per_poll: f64,
    peak_memory: f64,
    lateness: DelaySpread,
}

impl JobRun {
    fn print(&self, name: &str) {
        println!(
            "| {name} | {:.0} | {:.0} | {:.2} | {:.2} | {:.2} | {:.0} | {:.0} |",
            self.accepted_per_second,
            self.polls_per_second,
            self.lateness.at(50),
            self.lateness.at(99),
            self.lateness.at(100),
            self.cpu_per_poll,
            self.peak_memory,
        );
    }
}

/// Orders jobs and waits until all have ended.
async fn follow(
    program: &GatewayProcess,
    provider: &mut Provider,
    model: &str,
    count: usize,
) -> JobRun {
    let earlier = ended_here(program);
    let earlier_polls = polls(provider);
    let (started, cpu) = (Instant::now(), program.cpu());
    let ordering = order(program, model, count);
    tokio::pin!(ordering);
    let mut is_ordering = true;
    let mut accepted_in = Duration::ZERO;
    let mut peak_memory = 0.0_f64;
    let ended = loop {
        tokio::select! {
            () = &mut ordering, if is_ordering => is_ordering = false,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
        peak_memory = peak_memory.max(program.resident());
        if accepted_in.is_zero() && provider.polls().len() >= earlier.len() + count {
            accepted_in = started.elapsed();
        }
        let ended = ended_here(program);
        if ended.len() == earlier.len() + count {
            break ended;
        }
        assert!(
            started.elapsed() < Duration::from_mins(20),
            "{} ended",
            ended.len()
        );
    };
    let cpu = program.cpu_seconds_since(cpu);
    let polls = (polls(provider) - earlier_polls) as f64;
    let ends = provider.ends();
    let new = ended.iter().filter(|(id, _)| !earlier.contains_key(*id));
    let late = new.map(|(id, ended)| (ended - ends[id]) as f64 / 1e6);
    JobRun {
        accepted_per_second: count as f64 / accepted_in.as_secs_f64(),
        polls_per_second: polls / started.elapsed().as_secs_f64(),
        cpu_per_poll: cpu * 1e6 / polls,
        peak_memory,
        lateness: DelaySpread::of(late.collect()),
    }
}

/// How often the provider was asked about its jobs.
fn polls(provider: &mut Provider) -> u64 {
    provider
        .polls()
        .values()
        .map(|polls| u64::from(*polls))
        .sum()
}

/// When each job's task ended here, in microseconds since the epoch, by the provider's id.
fn ended_here(program: &GatewayProcess) -> HashMap<String, i64> {
    let database = program.database();
    let sql = "SELECT s.handle, t.finished_at FROM submissions s JOIN tasks t ON t.id = s.task_id
               WHERE t.state = 'succeeded'";
    let mut statement = database.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)));
    let ended = rows.unwrap().map(|row| {
        let (handle, at) = row.unwrap();
        let handle: serde_json::Value = serde_json::from_str(&handle).unwrap();
        (handle["id"].as_str().unwrap().to_owned(), at)
    });
    ended.collect()
}

/// Fewer jobs, beside a loop that polls all of them in turn.
async fn against_a_loop(provider: &mut Provider) {
    provider.plan(Jobs {
        lengths: (15_000, 30_000),
        latency_ms: 0,
    });
    let program = GatewayProcess::start(&models(&provider.url));
    follow(&program, provider, "open", FEW_JOBS).await;
    let run = follow(&program, provider, "open", FEW_JOBS).await;
    run.print(&format!("{FEW_JOBS} jobs of 15 to 30 s"));
    drop(program);
    let looped = polling_loop::run(&provider.url, FEW_JOBS).await;
    let ends = provider.ends();
    let late = looped
        .iter()
        .map(|(id, here)| (here - ends[id]) as f64 / 1e6);
    let looped = DelaySpread::of(late.collect());
    println!(
        "| the same by a loop that polls all, then waits {} s | | | {:.2} | {:.2} | {:.2} | | |\n\n\
         The loop's mean delay divided by the gateway's: {:.1}\n",
        polling_loop::PAUSE.as_secs(),
        looped.at(50),
        looped.at(99),
        looped.at(100),
        looped.mean / run.lateness.mean
    );
}

/// `kill -9` with all jobs open.
async fn after_a_crash(provider: &mut Provider) {
    // No job ends while the gateway is down.
    provider.plan(Jobs {
        lengths: (600_000, 601_000),
        latency_ms: 100,
    });
    let program = GatewayProcess::start(&models(&provider.url));
    let earlier = provider.polls().len();
    order(&program, "open", OPEN_JOBS).await;
    let started = Instant::now();
    while handles(&program) < OPEN_JOBS {
        assert!(started.elapsed() < Duration::from_mins(5));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let before = provider.polls();
    let killed = Instant::now();
    let program = program.crash_and_restart();
    let restarted = killed.elapsed();
    let now = Clock::system().now().micros();
    let open: Vec<String> = provider
        .ends()
        .into_iter()
        .filter(|(_, end)| *end > now)
        .map(|(id, _)| id)
        .collect();
    assert!(open.len() >= OPEN_JOBS && before.len() == earlier + OPEN_JOBS);
    let mut left = open;
    while !left.is_empty() {
        assert!(
            killed.elapsed() < Duration::from_mins(5),
            "{} left",
            left.len()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
        let polls = provider.polls();
        left.retain(|id| polls[id] <= before[id]);
    }
    println!(
        "`kill -9` with {OPEN_JOBS} jobs open: first response after {:.2} s, all jobs polled again after {:.1} s.\n",
        restarted.as_secs_f64(),
        killed.elapsed().as_secs_f64()
    );
    drop(program);
}

/// Jobs whose ids are stored.
fn handles(program: &GatewayProcess) -> usize {
    let database = program.database();
    let sql = "SELECT count(*) FROM submissions WHERE handle IS NOT NULL";
    let count: i64 = database.query_row(sql, [], |row| row.get(0)).unwrap();
    usize::try_from(count).unwrap()
}
