//! Named crash points in turn: the process crashes there and restarts, and
//! nobody pays twice.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::callers::{CallerHistory, cancel_randomly};
use crate::dice::Dice;
use crate::faults;
use crate::intent::{Intent, Kind, RetryStyle};
use crate::knobs::{DatabaseKind, Knobs};
use crate::run::Run;
use crate::settings::SONGS;
use crate::stage::Stage;

/// How long callers try.
const CALLER_TIME: Duration = Duration::from_secs(45);
/// Maximum number of waves of orders until the point is reached: a busy machine may need several
/// tries to cancel a job while it runs.
const WAVES: u32 = 12;
/// How long a wave lasts.
const WAVE_TIME: Duration = Duration::from_secs(10);
/// How long jobs of the first wave run; those of each later wave run longer by this much.
const RUN_TIME: Duration = Duration::from_secs(2);
/// Points that are visited at the same time; each mostly waits.
const POINTS_AT_ONCE: usize = 4;

/// The names of all points; none in a build that leaves them out.
pub(crate) fn names() -> Vec<String> {
    if cfg!(not(debug_assertions)) {
        println!("NOT RUN: this build leaves crash points out");
        return Vec::new();
    }
    let names = mediagate_core::crash::POINTS.iter().map(|point| point.0);
    names.map(str::to_owned).collect()
}

/// Which of the points a walk visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointSelection {
    /// A third of them, drawn from the seed; each run draws others.
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
    let stage = Stage::prepare(DatabaseKind::Sqlite).await;
    walk(points, |point, dice| {
        let stage = stage.copy();
        async move { crash_at(stage, dice, &point).await }
    })
    .await;
}

/// Visits these points, some at once; fails with all violations.
pub(crate) async fn walk<One, Found>(points: PointSelection, run_point: One)
where
    One: Fn(String, Dice) -> Found,
    Found: Future<Output = Vec<String>> + Send + 'static,
{
    let knobs = Knobs::read();
    println!("MEDIAGATE_TORTURE_SEED={}", knobs.seed);
    let mut dice = Dice::new(knobs.seed);
    let mut remaining = names();
    let count = match points {
        PointSelection::All => remaining.len(),
        PointSelection::Third => remaining.len().div_ceil(3),
    };
    let slots = Arc::new(Semaphore::new(POINTS_AT_ONCE));
    let mut walks = JoinSet::new();
    for _ in 0..count {
        let index = dice.roll(remaining.len() as u64);
        let point = remaining.swap_remove(usize::try_from(index).unwrap());
        let (slots, walk) = (slots.clone(), run_point(point.clone(), dice.fork()));
        walks.spawn(async move {
            let _slot = slots.acquire().await.unwrap();
            let violations = walk.await;
            println!("{point}: {} violations", violations.len());
            let labelled = violations
                .into_iter()
                .map(|violation| format!("{point}: {violation}"));
            labelled.collect::<Vec<_>>()
        });
    }
    let violations = walks.join_all().await.concat();
    assert!(
        violations.is_empty(),
        "{} violations:\n{}",
        violations.len(),
        violations.join("\n")
    );
}

/// The gateway crashes at this point under a mix of orders; returns the violations.
async fn crash_at(stage: Stage, dice: Dice, point: &str) -> Vec<String> {
    let mut run = Run::new(stage, dice);
    run.bring_up(Some(point.to_owned())).await;
    let callers = spawn_callers(&mut run, Run::has_died).await;
    let is_reached = run.totals.crashes.contains_key(point);
    run.violations
        .unless(is_reached, || "nothing passes this point".into());
    if run.server.is_none() {
        run.bring_up(None).await;
    }
    callers.finish(&mut run).await;
    run.settle().await;
    run.violations.0
}

/// Running callers, and those that cancel the tasks of others.
pub(crate) struct CallerGroup {
    callers: JoinSet<CallerHistory>,
    cancelling: Vec<JoinHandle<Vec<(String, String)>>>,
}

/// Starts waves of callers with a mix of orders until `is_reached`.
pub(crate) async fn spawn_callers(
    run: &mut Run,
    mut is_reached: impl FnMut(&mut Run) -> bool,
) -> CallerGroup {
    let mut group = CallerGroup {
        callers: JoinSet::new(),
        cancelling: Vec::new(),
    };
    for wave in 0..WAVES {
        // Long enough to cancel a job while it runs, however busy the machine is.
        run.default_plan.running = RUN_TIME * (wave + 1);
        faults::reset_providers(run.stage.simulator.world(), run.default_plan);
        let until = Instant::now() + CALLER_TIME;
        for intent in workload(run) {
            let caller = run.caller(intent, until);
            group.callers.spawn(caller.run());
        }
        let (http, address, seen) = (
            run.http.clone(),
            run.stage.address.clone(),
            run.seen_tasks.clone(),
        );
        let (keys, dice) = (run.stage.keys.clone(), run.dice.fork());
        let cancelling = cancel_randomly(http, address, keys, seen, dice, 12);
        group.cancelling.push(tokio::spawn(cancelling));
        let next = Instant::now() + WAVE_TIME;
        while Instant::now() < next {
            if is_reached(run) {
                return group;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    group
}

impl CallerGroup {
    /// Waits until every caller has its result or has given up.
    pub(crate) async fn finish(self, run: &mut Run) {
        for history in self.callers.join_all().await {
            run.record(history);
        }
        for cancelling in self.cancelling {
            run.cancelled_tasks.extend(cancelling.await.unwrap());
        }
    }
}

/// Orders that together pass every point.
fn workload(run: &mut Run) -> Vec<Intent> {
    let mix = [
        (Kind::Videos, RetryStyle::Keyed, "film-safe"),
        (Kind::Chat, RetryStyle::Counting, "film-safe"),
        (Kind::Videos, RetryStyle::Counting, "film-plain"),
        (Kind::Chat, RetryStyle::Plain, "film-plain"),
        (Kind::Stream, RetryStyle::Keyed, "film-mixed"),
        (Kind::Videos, RetryStyle::Plain, "film-either"),
        (Kind::Chat, RetryStyle::Keyed, "animatic-1"),
        (Kind::Stems, RetryStyle::Counting, "band-split"),
        (Kind::Stems, RetryStyle::Keyed, "band-either"),
        (Kind::Song, RetryStyle::Plain, SONGS),
        (Kind::Persona, RetryStyle::Keyed, ""),
        (Kind::Persona, RetryStyle::Counting, ""),
        (Kind::Upload, RetryStyle::Keyed, ""),
        (Kind::Upload, RetryStyle::Counting, ""),
    ];
    let (stage, dice) = (&run.stage, &mut run.dice);
    let intents = mix.into_iter().map(|(kind, style, model)| {
        let intent = Intent::new(dice, kind, style, 0, &stage.keys[0], &stage.recording);
        if model.is_empty() {
            intent
        } else {
            intent.with_model(model)
        }
    });
    intents.collect()
}
