//! Every named crash point in turn: the process dies there, comes back, and
//! nobody pays twice.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::callers::call_off;
use crate::dice::Dice;
use crate::faults;
use crate::intent::{Intent, Kind, Way};
use crate::knobs::{Kept, Knobs};
use crate::run::Run;
use crate::settings::SONGS;
use crate::stage::Stage;

/// How long callers try.
const CALLERS: Duration = Duration::from_secs(45);
/// How often there is a bit of everything, at most, until the point is reached: a
/// busy machine may need more than one try to call off a job while it runs.
const WAVES: u32 = 12;
/// How long each has.
const WAVE: Duration = Duration::from_secs(10);
/// Points at once: most of the time of each is spent waiting.
const AT_ONCE: usize = 4;

/// The names of all points; none in a build that leaves them out.
pub(crate) fn names() -> Vec<String> {
    if cfg!(not(debug_assertions)) {
        println!("NOT RUN: this build leaves crash points out");
        return Vec::new();
    }
    let names = mediagate::crash::POINTS.iter().map(|point| point.0);
    names.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points() {
    let points = names();
    if points.is_empty() {
        return;
    }
    let knobs = Knobs::read();
    println!("MEDIAGATE_TORTURE_SEED={}", knobs.seed);
    let mut dice = Dice::new(knobs.seed);
    let stage = Stage::prepare(Kept::Sqlite).await;
    let places = std::sync::Arc::new(Semaphore::new(AT_ONCE));
    let mut all = JoinSet::new();
    for point in points {
        let (stage, dice, places) = (stage.copy(), dice.fork(), places.clone());
        all.spawn(async move {
            let _place = places.acquire().await.unwrap();
            let found = one(stage, dice, &point).await;
            println!("{point}: {} violations", found.len());
            found
                .into_iter()
                .map(move |what| format!("{point}: {what}"))
                .collect::<Vec<_>>()
        });
    }
    let found = all.join_all().await.concat();
    assert!(
        found.is_empty(),
        "{} violations:\n{}",
        found.len(),
        found.join("\n")
    );
}

/// The gateway dies at this point under a bit of everything; what is wrong then.
async fn one(stage: Stage, dice: Dice, point: &str) -> Vec<String> {
    let mut run = Run::new(stage, dice);
    // Long enough for something to be called off.
    run.calm.running = Duration::from_secs(2);
    faults::calm(run.stage.simulator.world(), run.calm);
    run.bring_up(Some(point.to_owned())).await;
    let mut callers = JoinSet::new();
    let mut cancelling = Vec::new();
    for _ in 0..WAVES {
        let until = Instant::now() + CALLERS;
        for intent in workload(&mut run) {
            let caller = run.caller(intent, until);
            callers.spawn(caller.ask());
        }
        let (http, door, seen) = (run.http.clone(), run.stage.door.clone(), run.seen.clone());
        let (keys, dice) = (run.stage.keys.clone(), run.dice.fork());
        cancelling.push(tokio::spawn(call_off(http, door, keys, seen, dice, 12)));
        let next = Instant::now() + WAVE;
        while Instant::now() < next && !run.has_died() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if run.server.is_none() {
            break;
        }
    }
    let reached = run.totals.crashes.contains_key(point);
    run.found
        .unless(reached, || "nothing passes this point".into());
    if run.server.is_none() {
        run.bring_up(None).await;
    }
    for told in callers.join_all().await {
        run.hear(told);
    }
    for cancelling in cancelling {
        run.called_off.extend(cancelling.await.unwrap());
    }
    run.settle().await;
    run.found.0
}

/// Something that passes each point.
fn workload(run: &mut Run) -> Vec<Intent> {
    let wanted = [
        (Kind::Videos, Way::Keyed, "film-safe"),
        (Kind::Chat, Way::Counting, "film-safe"),
        (Kind::Videos, Way::Counting, "film-plain"),
        (Kind::Chat, Way::Plain, "film-plain"),
        (Kind::Stream, Way::Keyed, "film-mixed"),
        (Kind::Videos, Way::Plain, "film-either"),
        (Kind::Chat, Way::Keyed, "animatic-1"),
        (Kind::Stems, Way::Counting, "band-split"),
        (Kind::Stems, Way::Keyed, "band-either"),
        (Kind::Song, Way::Plain, SONGS),
        (Kind::Persona, Way::Keyed, ""),
        (Kind::Persona, Way::Counting, ""),
        (Kind::Upload, Way::Keyed, ""),
        (Kind::Upload, Way::Counting, ""),
    ];
    let (stage, dice) = (&run.stage, &mut run.dice);
    let intents = wanted.into_iter().map(|(kind, way, model)| {
        let intent = Intent::new(dice, kind, way, 0, &stage.keys[0], &stage.recording);
        if model.is_empty() {
            intent
        } else {
            intent.by(model)
        }
    });
    intents.collect()
}
