//! Progress of the tasks that run here: every half second, all increases are written together. The
//! last increase is written when the run ends (`finish`).

use std::sync::Arc;
use std::time::Duration;

use crate::WorkerContext;
use crate::runs::ProgressUpdate;
use mediagate_core::app::App;
use mediagate_model::ids::TaskId;
use mediagate_store::{self as store, StoreError};

const WRITE_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of tasks in one transaction, which must end within a statement's time limit.
const BATCH: usize = 250;

pub(super) async fn write_regularly(context: Arc<WorkerContext>) {
    while !context.stop.is_cancelled() {
        context.pause(WRITE_INTERVAL).await;
        for updates in context.runs.progress_updates().chunks(BATCH) {
            write(&context.app, updates).await;
        }
    }
}

/// Writes progress and rings the bell for the tasks whose progress rose.
async fn write(app: &App, updates: &[ProgressUpdate]) {
    let rows: Vec<_> = updates
        .iter()
        .map(|task| (task.id, task.owner(), task.progress))
        .collect();
    let write = app
        .store
        .write(move |conn| -> Result<Vec<TaskId>, StoreError> {
            let mut risen_tasks = Vec::new();
            for (id, owner, progress) in rows {
                // False if the task was cancelled or is no longer ours; the heartbeat stops it.
                if store::tasks::raise_progress(conn, id, &owner, progress)? {
                    risen_tasks.push(id);
                }
            }
            Ok(risen_tasks)
        });
    match write.await {
        Ok(risen_tasks) => {
            // This includes tasks whose progress did not rise in the database: they are cancelled
            // or belong to another process, and that does not change.
            updates.iter().for_each(ProgressUpdate::mark_written);
            for task in risen_tasks {
                app.bell.ring_underway(task);
            }
        }
        Err(error) => tracing::warn!(%error, "cannot write progress; trying again"),
    }
}
