//! Rounds of torture: callers at random, faults at random, `kill -9` at random
//! instants, from a seed.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::callers::{CallerHistory, cancel_randomly};
use crate::crash_points::names;
use crate::dice::Dice;
use crate::intent::{Intent, RetryStyle};
use crate::knobs::{DatabaseKind, Knobs, LONG, wants};
use crate::run::Run;
use crate::stage::Stage;
use crate::{faults, sdk, twins};

/// How long callers have in a round.
const ROUND: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn torture_on_sqlite() {
    torture(DatabaseKind::Sqlite, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn torture_on_postgres() {
    torture(DatabaseKind::Postgres, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the long form: an hour, or MEDIAGATE_TORTURE_SECONDS"]
async fn long_torture_on_sqlite() {
    torture(DatabaseKind::Sqlite, Some(LONG)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the long form: an hour, or MEDIAGATE_TORTURE_SECONDS"]
async fn long_torture_on_postgres() {
    torture(DatabaseKind::Postgres, Some(LONG)).await;
}

/// A number of rounds, or as many as fit into `time`.
async fn torture(database_kind: DatabaseKind, time: Option<Duration>) {
    if !wants(database_kind) {
        return;
    }
    let mut knobs = Knobs::read();
    knobs.clocks |= time.is_some();
    println!(
        "MEDIAGATE_TORTURE_SEED={} on {}",
        knobs.seed,
        database_kind.name()
    );
    let points = names();
    let mut repeat = Repeat {
        knobs,
        database_kind,
        round: 0,
    };
    let stage = Stage::prepare(database_kind).await;
    let mut run = Run::new(stage, Dice::new(knobs.seed));
    run.clocks = knobs.clocks;
    let until = time.map(|default_time| Instant::now() + knobs.duration_or(default_time));
    let is_last = |round| until.map_or(round >= knobs.rounds, |until| Instant::now() >= until);
    for round in 1.. {
        repeat.round = round;
        play_round(&mut run, &points).await;
        let is_last = is_last(round);
        if round % knobs.settle_every == 0 || is_last {
            run.settle().await;
            run.assert_no_violations();
            run.stage.top_up().await;
            run.stage.new_budget().await;
        }
        if is_last {
            break;
        }
    }
    println!(
        "torture on {}, seed {}:\n{}",
        database_kind.name(),
        knobs.seed,
        run.totals.table()
    );
}

/// Says how to repeat it when it fails.
struct Repeat {
    knobs: Knobs,
    database_kind: DatabaseKind,
    round: u32,
}

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!(
                "failed at round {}; repeat it with\n  {}",
                self.round,
                self.knobs.repeat(self.database_kind, self.round)
            );
        }
    }
}

async fn play_round(run: &mut Run, points: &[String]) {
    let dice = run.dice.fork();
    run.totals.rounds += 1;
    faults::spread(
        run.stage.simulator.world(),
        &mut run.dice,
        &mut run.totals.faults,
    );
    if run.change_clock() {
        run.kill();
    }
    if run.server.is_none() {
        run.bring_up(None).await;
    }
    let mut callers = JoinSet::new();
    let until = Instant::now() + ROUND;
    for _ in 0..run.dice.between(5, 20) {
        let mut intent = Intent::any(&mut run.dice, &run.stage.keys, &run.stage.recording);
        // For the other styles the checks compare times, which a wrong clock spoils.
        if run.clock.is_some() {
            intent.style = RetryStyle::Keyed;
        }
        let caller = run.caller(intent, until);
        callers.spawn(async move { vec![caller.run().await] });
    }
    if let Some(python) = sdk::python()
        && run.clock.is_none()
        && run.dice.chance(30)
    {
        let orders = sdk::Orders::any(&mut run.dice, &run.stage);
        callers.spawn(async move { orders.run(&python).await });
    }
    let cancelling = tokio::spawn(cancel_randomly(
        run.http.clone(),
        run.stage.address.clone(),
        run.stage.keys.clone(),
        run.seen_tasks.clone(),
        dice,
        run.dice.roll(6),
    ));
    let twins = run.dice.chance(50).then(|| {
        let (http, address) = (run.http.clone(), run.stage.address.clone());
        tokio::spawn(twins::order(
            http,
            address,
            run.stage.keys.clone(),
            run.dice.fork(),
        ))
    });
    for _ in 0..run.dice.between(1, 3) {
        let pause = run.dice.millis(10, 1600);
        let_time_pass(run, &mut callers, pause).await;
        run.kill();
        run.change_settings();
        if run.stage.can_be_copied() && run.dice.chance(5) {
            run.run_a_copy().await;
        }
        let point = if points.is_empty() || run.dice.chance(60) {
            None
        } else {
            let point = run.dice.pick(points).clone();
            Some(format!("{point}:{}", run.dice.between(1, 3)))
        };
        run.bring_up(point).await;
    }
    while !callers.is_empty() {
        let_time_pass(run, &mut callers, Duration::from_millis(200)).await;
    }
    run.cancelled_tasks.extend(cancelling.await.unwrap());
    if let Some(twins) = twins {
        run.totals.twins += twins.await.unwrap();
    }
}

/// Lets this much time pass; restarts a gateway that crashes meanwhile.
async fn let_time_pass(run: &mut Run, callers: &mut JoinSet<Vec<CallerHistory>>, pause: Duration) {
    let until = Instant::now() + pause;
    while Instant::now() < until {
        if run.has_died() {
            run.bring_up(None).await;
        }
        let step = until.min(Instant::now() + Duration::from_millis(20));
        match tokio::time::timeout_at(step, callers.join_next()).await {
            Ok(Some(histories)) => histories
                .unwrap()
                .into_iter()
                .for_each(|history| run.record(history)),
            // All callers are done already.
            Ok(None) => tokio::time::sleep_until(step).await,
            Err(_) => {}
        }
    }
}
