//! A complete deployment: three gateways and a worker behind `HAProxy`, two Postgres servers of
//! which one follows the other, and a bucket. Processes are killed, stopped, cut off and restarted
//! by SIGTERM; the servers crash, change places and are stopped. Callers order meanwhile.
//!
//! A round is one order of one caller, from its first try until it has the result or has given up.
//! After some rounds all tasks end, and everything is checked.

mod faults;
mod parts;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use simulator::JobPlan;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::callers::cancel_randomly;
use crate::check::views::Views;
use crate::dice::Dice;
use crate::faults::{reset_providers, spread};
use crate::intent::{Intent, Kind, RetryStyle};
use crate::knobs::{DatabaseKind, Knobs, LONG, wants};
use crate::run::{Run, SETTLE_TIMEOUT};
use crate::stage::Stage;
use parts::Deployment;

/// Number of simultaneous callers.
const CALLERS: u64 = 60;
/// How long a caller retries.
const CALLER_TIMEOUT: Duration = Duration::from_secs(45);
/// How long it runs together with all other tests.
const SHORT_RUN: Duration = Duration::from_secs(20);
/// What the prepaid account is given between two checks: it should not limit most orders.
const CREDIT: &str = "300.00";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployment() {
    torture(SHORT_RUN, u32::MAX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the long form: MEDIAGATE_TORTURE_ROUNDS, or MEDIAGATE_TORTURE_SECONDS, or an hour"]
async fn long_deployment() {
    let rounds = std::env::var("MEDIAGATE_TORTURE_ROUNDS").map(|rounds| rounds.parse());
    torture(LONG, rounds.map_or(u32::MAX, Result::unwrap)).await;
}

/// A run and its progress.
struct Scene {
    run: Arc<tokio::sync::Mutex<Run>>,
    done: Arc<AtomicU32>,
    dice: Dice,
}

async fn torture(default_time: Duration, rounds: u32) {
    if !wants(DatabaseKind::Postgres) {
        return;
    }
    let knobs = Knobs::read();
    let until = Instant::now() + knobs.duration_or(default_time);
    println!("MEDIAGATE_TORTURE_SEED={}", knobs.seed);
    let (mut deployment, stage) = Deployment::start().await;
    stage.address.publish(&deployment.balancer.base);
    let mut dice = Dice::new(knobs.seed);
    let mut run = Run::new(stage, dice.fork());
    // Two requests with one retry count, a late error and a proxy that disconnects can together
    // create two tasks, and no SDK sends one count twice.
    run.sends_duplicates = false;
    let mut scene = Scene {
        run: Arc::new(tokio::sync::Mutex::new(run)),
        done: Arc::default(),
        dice,
    };
    loop {
        let done = scene.done.load(Ordering::SeqCst);
        let wave = rounds.min(done.saturating_add(40 * knobs.settle_every));
        deployment = scene.wave(deployment, wave, until).await;
        scene.settle(&mut deployment).await;
        let done = scene.done.load(Ordering::SeqCst);
        println!("{done} rounds, {:?}", deployment.counts);
        if done >= rounds || Instant::now() >= until {
            break;
        }
    }
    let run = scene.run.lock().await;
    println!("{}", run.totals.table());
    println!("faults of the parts: {:#?}", deployment.counts);
}

impl Scene {
    /// Callers order, and parts fail, until this many rounds are done.
    async fn wave(&mut self, deployment: Deployment, rounds: u32, until: Instant) -> Deployment {
        let stop = CancellationToken::new();
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (run, completed, stop) = (self.run.clone(), self.done.clone(), stop.clone());
            callers.spawn(async move {
                while !stop.is_cancelled()
                    && Instant::now() < until
                    && completed.load(Ordering::SeqCst) < rounds
                {
                    let caller = {
                        let mut run = run.lock().await;
                        let intent = intent(&mut run);
                        run.caller(intent, Instant::now() + CALLER_TIMEOUT)
                    };
                    let history = caller.run().await;
                    run.lock().await.record(history);
                    completed.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let provider_faults = tokio::spawn(vary_faults(self.run.clone(), stop.clone()));
        let cancelling = tokio::spawn(cancel_now_and_then(self.run.clone(), stop.clone()));
        let part_faults = tokio::spawn(deployment.inject_faults(self.dice.fork(), stop.clone()));
        while let Some(caller) = callers.join_next().await {
            caller.unwrap();
        }
        stop.cancel();
        provider_faults.await.unwrap();
        cancelling.await.unwrap();
        part_faults.await.unwrap()
    }

    /// Lets all tasks end, and checks everything.
    async fn settle(&mut self, deployment: &mut Deployment) {
        let mut run = self.run.lock().await;
        reset_providers(run.stage.simulator.world(), JobPlan::default());
        // A job is polled only by processes with the settings with which it was ordered; any other
        // process that claims it postpones it by a tenth of its age. While the settings change, a
        // process that still has the first ones may order with them, so both are used twice.
        for is_moved in [false, true, false, true] {
            for log in deployment.heal(is_moved).await {
                run.read_log(&log);
            }
            let count_open = async |stage: &Stage| stage.count_open_with(is_moved).await;
            wait_until_idle(&mut run, deployment, count_open).await;
            if run.stage.count_open().await == 0 {
                break;
            }
        }
        run.totals.rounds = self.done.load(Ordering::SeqCst).into();
        for message in std::mem::take(&mut deployment.unexpected_exits) {
            run.violations.add(message);
        }
        wait_until_idle(&mut run, deployment, Stage::count_open).await;
        run.repeat_some().await;
        wait_until_idle(&mut run, deployment, Stage::count_open).await;
        let views = Views::read(&deployment.balancer.base, &run.stage.keys).await;
        run.check(&views).await;
        run.assert_no_violations();
        run.stage.credit(CREDIT).await;
        run.stage.new_budget().await;
    }
}

/// Waits until nothing is open.
async fn wait_until_idle(
    run: &mut Run,
    deployment: &Deployment,
    count_open: impl AsyncFn(&Stage) -> u64,
) {
    let started = Instant::now();
    while count_open(&run.stage).await > 0 {
        if started.elapsed() > SETTLE_TIMEOUT {
            let logs = deployment.logs();
            let message = format!("tasks or deliveries are open after {SETTLE_TIMEOUT:?}:\n{logs}");
            run.violations.add(message);
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A random intent, mostly with the unlimited key. Behind a proxy the gateway cannot tell that
/// an answer did not arrive, so callers mark their repetitions.
fn intent(run: &mut Run) -> Intent {
    let key = match run.dice.roll(20) {
        0 => 1,
        1..6 => 2,
        _ => 0,
    };
    let style = if run.dice.chance(60) {
        RetryStyle::Keyed
    } else {
        RetryStyle::Counting
    };
    let kind = match run.dice.roll(100) {
        0..25 => Kind::Chat,
        25..45 => Kind::Stream,
        45..75 => Kind::Videos,
        75..82 => Kind::Stems,
        82..88 => Kind::Song,
        88..94 => Kind::Persona,
        _ => Kind::Upload,
    };
    let (stage, dice) = (&run.stage, &mut run.dice);
    let intent = Intent::new(dice, kind, style, key, &stage.keys[key], &stage.recording);
    // The embedded model uses a core that the other processes need.
    let is_made_here = intent.body["model"] == "animatic-1";
    if is_made_here && dice.chance(80) {
        return intent.with_model("film-plain");
    }
    intent
}

/// Changes the providers' faults every few seconds.
async fn vary_faults(run: Arc<tokio::sync::Mutex<Run>>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        {
            let run = &mut *run.lock().await;
            let world = run.stage.simulator.world();
            spread(world, &mut run.dice, &mut run.totals.faults);
        }
        wait(Duration::from_secs(5), &stop).await;
    }
}

/// Cancels some tasks every few seconds.
async fn cancel_now_and_then(run: Arc<tokio::sync::Mutex<Run>>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let cancelling = {
            let mut run = run.lock().await;
            let (http, address) = (run.http.clone(), run.stage.address.clone());
            let (keys, seen) = (run.stage.keys.clone(), run.seen_tasks.clone());
            cancel_randomly(http, address, keys, seen, run.dice.fork(), 3)
        };
        let cancelled_tasks = cancelling.await;
        run.lock().await.cancelled_tasks.extend(cancelled_tasks);
        wait(Duration::from_secs(2), &stop).await;
    }
}

/// Waits this long, or until `stop`.
async fn wait(time: Duration, stop: &CancellationToken) {
    drop(tokio::time::timeout(time, stop.cancelled()).await);
}
