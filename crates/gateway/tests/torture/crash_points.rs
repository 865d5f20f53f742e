//! Named crash points in turn: the process dies there, comes back, and
//! nobody pays twice.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::callers::{Told, call_off};
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
/// How long jobs of the first wave run; those of each later one as much longer.
const RUNNING: Duration = Duration::from_secs(2);
/// Points at once: most of the time of each is spent waiting.
const AT_ONCE: usize = 4;

/// The names of all points; none in a build that leaves them out.
pub(crate) fn names() -> Vec<String> {
    if cfg!(not(debug_assertions)) {
        println!("NOT RUN: this build leaves crash points out");
        return Vec::new();
    }
    let names = mediagate_model::crash::POINTS.iter().map(|point| point.0);
    names.map(str::to_owned).collect()
}

/// How many of the points a walk goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointSelection {
    /// A third of them, drawn from the seed: each run draws another.
    Third,
    All,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points() {
    walk_crashes(PointSelection::Third).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the long form: every point"]
async fn long_crash_points() {
    walk_crashes(PointSelection::All).await;
}

async fn walk_crashes(points: PointSelection) {
    let stage = Stage::prepare(Kept::Sqlite).await;
    walk(points, |point, dice| {
        let stage = stage.copy();
        async move { one(stage, dice, &point).await }
    })
    .await;
}

/// These points in turn, some at once; fails with all that was found.
pub(crate) async fn walk<One, Found>(points: PointSelection, one: One)
where
    One: Fn(String, Dice) -> Found,
    Found: Future<Output = Vec<String>> + Send + 'static,
{
    let knobs = Knobs::read();
    println!("MEDIAGATE_TORTURE_SEED={}", knobs.seed);
    let mut dice = Dice::new(knobs.seed);
    let mut points_left = names();
    let wanted = match points {
        PointSelection::All => points_left.len(),
        PointSelection::Third => points_left.len().div_ceil(3),
    };
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut all = JoinSet::new();
    for _ in 0..wanted {
        let drawn = dice.roll(points_left.len() as u64);
        let point = points_left.swap_remove(usize::try_from(drawn).unwrap());
        let (places, work) = (places.clone(), one(point.clone(), dice.fork()));
        all.spawn(async move {
            let _place = places.acquire().await.unwrap();
            let found = work.await;
            println!("{point}: {} violations", found.len());
            let named = found.into_iter().map(|what| format!("{point}: {what}"));
            named.collect::<Vec<_>>()
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
    run.bring_up(Some(point.to_owned())).await;
    let crowd = crowd(&mut run, Run::has_died).await;
    let reached = run.totals.crashes.contains_key(point);
    run.found
        .unless(reached, || "nothing passes this point".into());
    if run.server.is_none() {
        run.bring_up(None).await;
    }
    crowd.leave(&mut run).await;
    run.settle().await;
    run.found.0
}

/// Callers under way, and such as call off what others ordered.
pub(crate) struct Crowd {
    callers: JoinSet<Told>,
    cancelling: Vec<JoinHandle<Vec<(String, String)>>>,
}

/// Lets waves of callers ask for a bit of everything, until it has come to this.
pub(crate) async fn crowd(run: &mut Run, mut is_there: impl FnMut(&mut Run) -> bool) -> Crowd {
    let mut crowd = Crowd {
        callers: JoinSet::new(),
        cancelling: Vec::new(),
    };
    for wave in 0..WAVES {
        // Long enough for something to be called off while it runs, however busy the machine is.
        run.calm.running = RUNNING * (wave + 1);
        faults::calm(run.stage.simulator.world(), run.calm);
        let until = Instant::now() + CALLERS;
        for intent in workload(run) {
            let caller = run.caller(intent, until);
            crowd.callers.spawn(caller.ask());
        }
        let (http, door, seen) = (run.http.clone(), run.stage.door.clone(), run.seen.clone());
        let (keys, dice) = (run.stage.keys.clone(), run.dice.fork());
        let cancelling = call_off(http, door, keys, seen, dice, 12);
        crowd.cancelling.push(tokio::spawn(cancelling));
        let next = Instant::now() + WAVE;
        while Instant::now() < next {
            if is_there(run) {
                return crowd;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    crowd
}

impl Crowd {
    /// Waits until everybody has what they want or has given up.
    pub(crate) async fn leave(self, run: &mut Run) {
        for told in self.callers.join_all().await {
            run.hear(told);
        }
        for cancelling in self.cancelling {
            run.called_off.extend(cancelling.await.unwrap());
        }
    }
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
