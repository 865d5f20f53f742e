//! The process dies between every two steps of a webhook's way, a thousand times: the end of every task is
//! told.

use std::time::Duration;

use simulator::JobPlan;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::callers::Told;
use crate::dice::Dice;
use crate::faults::calm;
use crate::intent::{Intent, Kind, Way};
use crate::knobs::{Kept, Knobs};
use crate::run::Run;
use crate::stage::Stage;

/// Where it dies: around the end itself, and around each step of telling it.
const POINTS: [&str; 4] = [
    "task-ended",
    "delivery-claimed",
    "delivery-sent",
    "delivery-written",
];
const ROUNDS: u32 = 1000;
/// Orders in a round.
const ORDERS: u32 = 3;
/// How long a point is waited for, after which the process is killed wherever it is.
const REACHED: Duration = Duration::from_secs(8);
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the long form: 1,000 rounds, or MEDIAGATE_TORTURE_ROUNDS"]
async fn long_deliveries() {
    let rounds = std::env::var("MEDIAGATE_TORTURE_ROUNDS").map(|rounds| rounds.parse());
    let rounds = rounds.map_or(ROUNDS, Result::unwrap);
    let knobs = Knobs::read();
    println!("MEDIAGATE_TORTURE_SEED={}", knobs.seed);
    let stage = Stage::prepare(Kept::Sqlite).await;
    let mut run = Run::new(stage, Dice::new(knobs.seed));
    run.calm = JobPlan {
        queued: Duration::from_millis(20),
        running: Duration::from_millis(100),
        ..JobPlan::default()
    };
    calm(run.stage.simulator.world(), run.calm);
    let mut callers = JoinSet::new();
    for round in 1..=rounds {
        one(&mut run, &mut callers).await;
        if round % 100 == 0 || round == rounds {
            run.kill();
            run.bring_up(None).await;
            for told in std::mem::take(&mut callers).join_all().await {
                run.hear(told);
            }
            run.totals.rounds = round.into();
            run.settle().await;
            run.must_be_clean();
        }
    }
    println!("{}", run.totals.table());
}

async fn one(run: &mut Run, callers: &mut JoinSet<Told>) {
    let point = format!("{}:{}", run.dice.pick(&POINTS), run.dice.between(1, 3));
    run.kill();
    run.bring_up(Some(point)).await;
    for _ in 0..ORDERS {
        let key = &run.stage.keys[0];
        let intent = Intent::new(&mut run.dice, Kind::Videos, Way::Keyed, 0, key, &[]);
        let caller = run.caller(intent.by("film-safe"), Instant::now() + PATIENCE);
        callers.spawn(caller.ask());
    }
    let begun = Instant::now();
    while !run.has_died() && begun.elapsed() < REACHED {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    while let Some(told) = callers.try_join_next() {
        run.hear(told.unwrap());
    }
}
