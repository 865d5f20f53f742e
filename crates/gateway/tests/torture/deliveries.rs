//! The process crashes between every two steps of a webhook's delivery, a thousand times: the end
//! of every task is delivered.

use std::time::Duration;

use simulator::JobPlan;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::callers::CallerHistory;
use crate::dice::Dice;
use crate::faults::reset_providers;
use crate::intent::{Intent, Kind, RetryStyle};
use crate::knobs::{DatabaseKind, Knobs};
use crate::run::Run;
use crate::stage::Stage;

/// Where it crashes: around the end itself, and around each step of its delivery.
const POINTS: [&str; 4] = [
    "task-ended",
    "delivery-claimed",
    "delivery-sent",
    "delivery-written",
];
const ROUNDS: u32 = 1000;
/// Orders in a round.
const ORDERS: u32 = 3;
/// How long to wait for the point; then the process is killed wherever it is.
const POINT_TIMEOUT: Duration = Duration::from_secs(8);
const CALLER_TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the long form: 1,000 rounds, or MEDIAGATE_TORTURE_ROUNDS"]
async fn long_deliveries() {
    let rounds = std::env::var("MEDIAGATE_TORTURE_ROUNDS").map(|rounds| rounds.parse());
    let rounds = rounds.map_or(ROUNDS, Result::unwrap);
    let knobs = Knobs::read();
    println!("MEDIAGATE_TORTURE_SEED={}", knobs.seed);
    let stage = Stage::prepare(DatabaseKind::Sqlite).await;
    let mut run = Run::new(stage, Dice::new(knobs.seed));
    run.default_plan = JobPlan {
        queued: Duration::from_millis(20),
        running: Duration::from_millis(100),
        ..JobPlan::default()
    };
    reset_providers(run.stage.simulator.world(), run.default_plan);
    let mut callers = JoinSet::new();
    for round in 1..=rounds {
        play_round(&mut run, &mut callers).await;
        if round % 100 == 0 || round == rounds {
            run.kill();
            run.bring_up(None).await;
            for history in std::mem::take(&mut callers).join_all().await {
                run.record(history);
            }
            run.totals.rounds = round.into();
            run.settle().await;
            run.assert_no_violations();
        }
    }
    println!("{}", run.totals.table());
}

async fn play_round(run: &mut Run, callers: &mut JoinSet<CallerHistory>) {
    let point = format!("{}:{}", run.dice.pick(&POINTS), run.dice.between(1, 3));
    run.kill();
    run.bring_up(Some(point)).await;
    for _ in 0..ORDERS {
        let key = &run.stage.keys[0];
        let intent = Intent::new(&mut run.dice, Kind::Videos, RetryStyle::Keyed, 0, key, &[]);
        let caller = run.caller(
            intent.with_model("film-safe"),
            Instant::now() + CALLER_TIMEOUT,
        );
        callers.spawn(caller.run());
    }
    let started = Instant::now();
    while !run.has_died() && started.elapsed() < POINT_TIMEOUT {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    while let Some(history) = callers.try_join_next() {
        run.record(history.unwrap());
    }
}
