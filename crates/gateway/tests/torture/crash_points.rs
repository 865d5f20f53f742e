//! Every named crash point in turn: the process dies there, comes back, and
//! nobody pays twice.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::callers::{Told, call_off};
use crate::dice::Dice;
use crate::faults;
use crate::intent::{Intent, Kind, Way};
use crate::knobs::{Kept, Knobs};
use crate::program::{output, program};
use crate::run::Run;
use crate::settings::SONGS;
use crate::stage::Stage;

/// How long callers try.
const CALLERS: Duration = Duration::from_secs(25);
/// How long it may take until the point is reached.
const REACHED: Duration = Duration::from_secs(40);
/// Points at once: most of the time of each is spent waiting.
const AT_ONCE: usize = 4;

/// The names of all points of this build.
pub(crate) async fn names() -> Vec<String> {
    let output = output(program(&["crash-points"])).await;
    if output.status.code() == Some(2) {
        println!("NOT RUN: this build knows no crash points");
        return Vec::new();
    }
    assert!(output.status.success(), "{output:?}");
    let names = String::from_utf8(output.stdout).unwrap();
    names
        .lines()
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points() {
    let points = names().await;
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
    faults::calm(run.stage.simulator.world());
    run.bring_up(Some(point.to_owned())).await;
    let mut callers = JoinSet::new();
    let until = Instant::now() + CALLERS;
    for intent in workload(&mut run) {
        let caller = run.caller(intent, until);
        callers.spawn(caller.ask());
    }
    let (http, door, seen) = (run.http.clone(), run.stage.door.clone(), run.seen.clone());
    let dice = run.dice.fork();
    let cancelling = tokio::spawn(call_off(http, door, run.stage.keys.clone(), seen, dice, 8));
    let is_reached = |run: &Run| run.totals.crashes.contains_key(point);
    let give_up = Instant::now() + REACHED;
    while !is_reached(&run) && run.found.0.is_empty() && Instant::now() < give_up {
        if run.has_died() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    if run.server.is_none() {
        run.bring_up(None).await;
    }
    let reached = is_reached(&run);
    run.found
        .unless(reached, || "nothing passes this point".into());
    let told: Vec<Told> = callers.join_all().await;
    for told in told {
        run.hear(told);
    }
    run.called_off = cancelling.await.unwrap();
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
