//! Named crash points in turn: the process stands still there, as in a machine
//! that swaps or a virtual one that is moved. Its lease runs out, its work goes to
//! others, and then it goes on where it stood. Nobody pays twice.

use std::time::Duration;

use crate::crash_points::{PointSelection, crowd, walk};
use crate::dice::Dice;
use crate::knobs::{Kept, wants};
use crate::program::{At, Server};
use crate::run::Run;
use crate::stage::Stage;

/// Longer than a lease and the four beats after which another process judges it.
const STILL: Duration = Duration::from_secs(8);

/// The only process there is: it finds its own lease gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_points_alone() {
    walk_alone(PointSelection::Third).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the long form: every point"]
async fn long_stop_points_alone() {
    walk_alone(PointSelection::All).await;
}

/// One of two: the other one takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_points_beside_another() {
    walk_beside_another(PointSelection::Third).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the long form: every point"]
async fn long_stop_points_beside_another() {
    walk_beside_another(PointSelection::All).await;
}

async fn walk_alone(points: PointSelection) {
    let stage = Stage::prepare(Kept::Sqlite).await;
    walk(points, |point, dice| {
        let stage = stage.copy();
        async move { one(stage, dice, &point, Kept::Sqlite).await }
    })
    .await;
}

async fn walk_beside_another(points: PointSelection) {
    if !wants(Kept::Postgres) {
        return;
    }
    walk(points, |point, dice| async move {
        let stage = Stage::prepare(Kept::Postgres).await;
        one(stage, dice, &point, Kept::Postgres).await
    })
    .await;
}

async fn one(stage: Stage, dice: Dice, point: &str, kept: Kept) -> Vec<String> {
    let mut run = Run::new(stage, dice);
    let stops = At::Stop(point.to_owned());
    run.bring_up_at(Some(stops)).await;
    let stands = |run: &mut Run| run.server.as_ref().is_none_or(Server::is_stopped);
    let crowd = crowd(&mut run, stands).await;
    let Some(still) = run.server.take() else {
        return run.found.0;
    };
    run.found
        .unless(still.is_stopped(), || "nothing passes this point".into());
    if kept == Kept::Postgres {
        run.bring_up(None).await;
    }
    tokio::time::sleep(STILL).await;
    still.signal("-CONT");
    let aside = if run.server.is_some() {
        Some(still)
    } else {
        run.server = Some(still);
        None
    };
    crowd.leave(&mut run).await;
    if let Some(server) = aside {
        run.end(server).await;
    }
    run.settle().await;
    run.found.0
}
