//! All that is deployed together: three gateways and a worker behind `HAProxy`, two Postgres servers of
//! which one follows the other, and a bucket. Processes are killed, stopped, cut off, restarted
//! politely; the servers die, change places, stand still. Callers order meanwhile.
//!
//! A round is one thing that one caller wants, from its first try until it has it or has given up. After
//! some of them everything comes to rest, and all of it is checked.

mod faults;
mod parts;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use simulator::JobPlan;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::callers::call_off;
use crate::check::views::Views;
use crate::dice::Dice;
use crate::faults::{calm, spread};
use crate::intent::{Intent, Kind, Way};
use crate::knobs::{Kept, Knobs, LONG, wants};
use crate::run::{REST, Run};
use crate::stage::Stage;
use parts::Deployment;

/// Callers at once.
const CALLERS: u64 = 60;
/// How long a caller goes on asking.
const PATIENCE: Duration = Duration::from_secs(45);
/// How long it runs when everything else does, too.
const SHORT: Duration = Duration::from_secs(20);
/// What the prepaid account is given between two checks: it shall not be what stops most.
const CREDIT: &str = "300.00";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployment() {
    torture(SHORT, u32::MAX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the long form: MEDIAGATE_TORTURE_ROUNDS, or MEDIAGATE_TORTURE_SECONDS, or an hour"]
async fn long_deployment() {
    let rounds = std::env::var("MEDIAGATE_TORTURE_ROUNDS").map(|rounds| rounds.parse());
    torture(LONG, rounds.map_or(u32::MAX, Result::unwrap)).await;
}

/// A run, and how far it is.
struct Scene {
    run: Arc<tokio::sync::Mutex<Run>>,
    done: Arc<AtomicU32>,
    dice: Dice,
}

async fn torture(usual: Duration, rounds: u32) {
    if !wants(Kept::Postgres) {
        return;
    }
    let knobs = Knobs::read();
    let until = Instant::now() + knobs.or(usual);
    println!("MEDIAGATE_TORTURE_SEED={}", knobs.seed);
    let (mut deployment, stage) = Deployment::start().await;
    stage.door.open(&deployment.balancer.base);
    let mut dice = Dice::new(knobs.seed);
    let mut run = Run::new(stage, dice.fork());
    // Two at once with one number, a refusal that is told late and a proxy that hangs up: of that two
    // tasks can come, and no SDK sends one number twice.
    run.twins = false;
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
    println!("what befell the parts: {:#?}", deployment.counts);
}

impl Scene {
    /// Callers order, and parts fail, until there were so many rounds.
    async fn wave(&mut self, deployment: Deployment, rounds: u32, until: Instant) -> Deployment {
        let over = CancellationToken::new();
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (run, done, over) = (self.run.clone(), self.done.clone(), over.clone());
            callers.spawn(async move {
                while !over.is_cancelled()
                    && Instant::now() < until
                    && done.load(Ordering::SeqCst) < rounds
                {
                    let caller = {
                        let mut run = run.lock().await;
                        let intent = intent(&mut run);
                        run.caller(intent, Instant::now() + PATIENCE)
                    };
                    let told = caller.ask().await;
                    run.lock().await.hear(told);
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let moody = tokio::spawn(moody_providers(self.run.clone(), over.clone()));
        let leaving = tokio::spawn(leavers(self.run.clone(), over.clone()));
        let failing = tokio::spawn(deployment.suffer(self.dice.fork(), over.clone()));
        while let Some(done) = callers.join_next().await {
            done.unwrap();
        }
        over.cancel();
        moody.await.unwrap();
        leaving.await.unwrap();
        failing.await.unwrap()
    }

    /// Lets everything come to its end, and checks it all.
    async fn settle(&mut self, deployment: &mut Deployment) {
        let mut run = self.run.lock().await;
        calm(run.stage.simulator.world(), JobPlan::default());
        // A job is asked for only by those whose settings it was ordered with, and whoever else takes it up
        // puts it off by a tenth of its age. While they change over, one that still has the first settings may
        // order with them: hence twice.
        for is_moved in [false, true, false, true] {
            for log in deployment.heal(is_moved).await {
                run.read_log(&log);
            }
            let open = async |stage: &Stage| stage.open_with(is_moved).await;
            rest(&mut run, deployment, open).await;
            if run.stage.open().await == 0 {
                break;
            }
        }
        run.totals.rounds = self.done.load(Ordering::SeqCst).into();
        for what in std::mem::take(&mut deployment.ended_alone) {
            run.found.add(what);
        }
        rest(&mut run, deployment, Stage::open).await;
        run.ask_again().await;
        rest(&mut run, deployment, Stage::open).await;
        let views = Views::ask(&deployment.balancer.base, &run.stage.keys).await;
        run.check(&views).await;
        run.must_be_clean();
        run.stage.credit(CREDIT).await;
        run.stage.new_budget().await;
    }
}

/// Waits until nothing is open.
async fn rest(run: &mut Run, deployment: &Deployment, open: impl AsyncFn(&Stage) -> u64) {
    let begun = Instant::now();
    while open(&run.stage).await > 0 {
        if begun.elapsed() > REST {
            let logs = deployment.logs();
            let said = format!("tasks are open, or not told, after {REST:?}:\n{logs}");
            run.found.add(said);
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Something that is wanted; mostly from who may spend what it likes. Behind a proxy nobody can tell that
/// an answer did not arrive, so callers say what they repeat.
fn intent(run: &mut Run) -> Intent {
    let key = match run.dice.roll(20) {
        0 => 1,
        1..6 => 2,
        _ => 0,
    };
    let way = if run.dice.chance(60) {
        Way::Keyed
    } else {
        Way::Counting
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
    let intent = Intent::new(dice, kind, way, key, &stage.keys[key], &stage.recording);
    // What is made here costs a core that the others need.
    let is_made_here = intent.body["model"] == "animatic-1";
    if is_made_here && dice.chance(80) {
        return intent.by("film-plain");
    }
    intent
}

/// Providers that fail now so, now so.
async fn moody_providers(run: Arc<tokio::sync::Mutex<Run>>, over: CancellationToken) {
    while !over.is_cancelled() {
        {
            let run = &mut *run.lock().await;
            let world = run.stage.simulator.world();
            spread(world, &mut run.dice, &mut run.totals.faults);
        }
        wait(Duration::from_secs(5), &over).await;
    }
}

/// Now and then somebody calls off what was ordered.
async fn leavers(run: Arc<tokio::sync::Mutex<Run>>, over: CancellationToken) {
    while !over.is_cancelled() {
        let calling = {
            let mut run = run.lock().await;
            let (http, door) = (run.http.clone(), run.stage.door.clone());
            let (keys, seen) = (run.stage.keys.clone(), run.seen.clone());
            call_off(http, door, keys, seen, run.dice.fork(), 3)
        };
        let called_off = calling.await;
        run.lock().await.called_off.extend(called_off);
        wait(Duration::from_secs(2), &over).await;
    }
}

/// Waits this long, or until it is over.
async fn wait(time: Duration, over: &CancellationToken) {
    drop(tokio::time::timeout(time, over.cancelled()).await);
}
