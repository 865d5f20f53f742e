//! Named crash points in turn: the process is stopped there, as on a machine
//! that swaps or a virtual one that is moved. Its lease expires, its tasks go to
//! others, and then it continues where it stopped. Nobody pays twice.

use std::time::Duration;

use crate::crash_points::{PointSelection, spawn_callers, walk};
use crate::dice::Dice;
use crate::knobs::{DatabaseKind, wants};
use crate::program::{PointAction, Server};
use crate::run::Run;
use crate::stage::Stage;

/// Longer than a lease and the four heartbeats after which another process considers it dead.
const STOP_DURATION: Duration = Duration::from_secs(8);

/// The only process: it finds its own lease expired.
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
    let stage = Stage::prepare(DatabaseKind::Sqlite).await;
    walk(points, |point, dice| {
        let stage = stage.copy();
        async move { stop_at(stage, dice, &point, DatabaseKind::Sqlite).await }
    })
    .await;
}

async fn walk_beside_another(points: PointSelection) {
    if !wants(DatabaseKind::Postgres) {
        return;
    }
    walk(points, |point, dice| async move {
        let stage = Stage::prepare(DatabaseKind::Postgres).await;
        stop_at(stage, dice, &point, DatabaseKind::Postgres).await
    })
    .await;
}

async fn stop_at(
    stage: Stage,
    dice: Dice,
    point: &str,
    database_kind: DatabaseKind,
) -> Vec<String> {
    let mut run = Run::new(stage, dice);
    let stops = PointAction::Stop(point.to_owned());
    run.bring_up_at(Some(stops)).await;
    let is_stopped = |run: &mut Run| run.server.as_ref().is_none_or(Server::is_stopped);
    let callers = spawn_callers(&mut run, is_stopped).await;
    let Some(stopped) = run.server.take() else {
        return run.violations.0;
    };
    run.violations
        .unless(stopped.is_stopped(), || "nothing passes this point".into());
    if database_kind == DatabaseKind::Postgres {
        run.bring_up(None).await;
    }
    tokio::time::sleep(STOP_DURATION).await;
    stopped.signal("-CONT");
    let other_server = if run.server.is_some() {
        Some(stopped)
    } else {
        run.server = Some(stopped);
        None
    };
    callers.finish(&mut run).await;
    if let Some(server) = other_server {
        run.end(server).await;
    }
    run.settle().await;
    run.violations.0
}
