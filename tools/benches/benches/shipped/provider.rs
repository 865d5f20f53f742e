//! The provider: the simulator in a process of its own (this program, started
//! again), so that the gateway's memory and CPU time are its own.
//!
//! Commands on its standard input set how long jobs take from now on, and ask
//! when they ended and how often each was polled.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::num::ParseIntError;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mediagate_model::clock::Clock;
use simulator::{Fault, JobPlan, PlannedEnd, Simulator, World};

const PROVIDER: &str = "MEDIAGATE_BENCH_PROVIDER";
const PROTOCOL: &str = "openai-videos";

/// How long jobs and answers take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Jobs {
    /// The shortest and the longest, in milliseconds; lengths are spread evenly.
    pub lengths: (u64, u64),
    /// How long every answer takes.
    pub latency_ms: u64,
}

/// The provider's process. Dropping this ends it.
pub(crate) struct Provider {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Its base URL.
    pub url: String,
}

impl Provider {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(PROVIDER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let mut url = String::new();
        answers.read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        Self {
            child,
            orders,
            answers,
            url,
        }
    }

    /// Sets how long jobs take that are ordered from now on.
    pub(crate) fn plan(&mut self, jobs: Jobs) {
        let (from, to) = jobs.lengths;
        self.ask(&format!("plan {from} {to} {}", jobs.latency_ms));
    }

    /// When each job ended, in microseconds since the epoch.
    pub(crate) fn ends(&mut self) -> HashMap<String, i64> {
        self.of_each("ends")
    }

    /// How often each job was polled.
    pub(crate) fn polls(&mut self) -> HashMap<String, u32> {
        self.of_each("polls")
    }

    /// A number for each job.
    fn of_each<T: FromStr<Err = ParseIntError>>(&mut self, order: &str) -> HashMap<String, T> {
        let lines = self.ask(order);
        let numbers = lines.iter().map(|line| {
            let (id, number) = line.split_once(' ').unwrap();
            (id.to_owned(), number.parse().unwrap())
        });
        numbers.collect()
    }

    fn ask(&mut self, order: &str) -> Vec<String> {
        writeln!(self.orders, "{order}").unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            self.answers.read_line(&mut line).unwrap();
            match line.trim() {
                "." => return lines,
                line => lines.push(line.to_owned()),
            }
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// In the provider's process: plays it until the other end hangs up. Returns at
/// once in the benchmark's own process.
pub(crate) fn play_or_continue() {
    if std::env::var_os(PROVIDER).is_none() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let simulator = runtime.block_on(Simulator::start()).unwrap();
    let world = simulator.world().clone();
    world.set_journal(false);
    println!("{}", simulator.url(PROTOCOL));
    let lengths = Arc::new(Mutex::new((1000, 2000)));
    let (spread, planned) = (lengths.clone(), world.clone());
    std::thread::spawn(move || vary(&spread, &planned));
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["plan", from, to, latency] => {
                *lengths.lock().unwrap() = (from.parse().unwrap(), to.parse().unwrap());
                world.clear_faults();
                let latency = Duration::from_millis(latency.parse().unwrap());
                if !latency.is_zero() {
                    world.order_fault(Fault::Latency(latency), None, None, u32::MAX);
                }
                // `vary` makes a plan every millisecond. Wait until one has the new lengths.
                std::thread::sleep(Duration::from_millis(20));
            }
            ["polls"] => {
                let mut out = std::io::stdout().lock();
                for job in world.jobs(PROTOCOL) {
                    writeln!(out, "{} {}", job.id, job.polls).unwrap();
                }
            }
            _ => tell_ends(&world),
        }
        println!(".");
    }
    std::process::exit(0);
}

/// Gives jobs lengths spread evenly: the plan changes about as fast as orders come. (Faster
/// changes would use processor time that is being measured.)
fn vary(lengths: &Mutex<(u64, u64)>, world: &World) {
    static STATE: AtomicU64 = AtomicU64::new(0x9E37_79B9);
    loop {
        let (from, to) = *lengths.lock().unwrap();
        let state = STATE.load(Ordering::Relaxed);
        let next = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        STATE.store(next, Ordering::Relaxed);
        world.set_plan(JobPlan {
            queued: Duration::ZERO,
            running: Duration::from_millis(from + (next >> 33) % (to - from)),
            end: PlannedEnd::Success,
            ..JobPlan::default()
        });
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn tell_ends(world: &World) {
    let now = Clock::system().now();
    let mut out = std::io::stdout().lock();
    for job in world.jobs(PROTOCOL) {
        let began = now.minus(job.accepted_at.elapsed());
        let end = began.plus(job.plan.queued + job.plan.running);
        writeln!(out, "{} {}", job.id, end.micros()).unwrap();
    }
}
