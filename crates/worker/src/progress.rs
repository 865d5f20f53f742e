//! Progress of the tasks that run here: every half second, what has risen is written together. What rises after that is written when the run ends (`finish`).

use std::sync::Arc;
use std::time::Duration;

use crate::WorkerContext;
use crate::runs::ProgressUpdate;
use mediagate_core::app::App;
use mediagate_model::ids::TaskId;
use mediagate_store::{self as store, StoreError};

const WRITE_INTERVAL: Duration = Duration::from_millis(500);
/// Tasks of one transaction, which must end within a statement's patience.
const BATCH: usize = 250;

pub(super) async fn write_regularly(crew: Arc<WorkerContext>) {
    while !crew.stop.is_cancelled() {
        crew.pause(WRITE_INTERVAL).await;
        for risen in crew.runs.progress_updates().chunks(BATCH) {
            write(&crew.app, risen).await;
        }
    }
}

/// Writes progress and rings for the tasks where it rose.
async fn write(app: &App, risen: &[ProgressUpdate]) {
    let news = risen.iter();
    let news: Vec<_> = news
        .map(|task| (task.id, task.owner(), task.progress))
        .collect();
    let write = app
        .store
        .write(move |conn| -> Result<Vec<TaskId>, StoreError> {
            let mut rose = Vec::new();
            for (id, owner, progress) in news {
                // Not if it was cancelled or is no longer ours; the heartbeat stops it.
                if store::tasks::raise_progress(conn, id, &owner, progress)? {
                    rose.push(id);
                }
            }
            Ok(rose)
        });
    match write.await {
        Ok(rose) => {
            // Also those that did not rise: they are cancelled or somebody else's, and stay so.
            risen.iter().for_each(ProgressUpdate::mark_written);
            for task in rose {
                app.bell.ring_underway(task);
            }
        }
        Err(error) => tracing::warn!(%error, "cannot write progress; trying again"),
    }
}
