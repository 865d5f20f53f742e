//! Work poll: one look-up for everything that this process may have to do, twice a second.
//!
//! The poll finds work that no ring announced: tasks of other processes, postponed ones, and those
//! that were freed. The workers themselves sleep until their bell rings, so an idle process asks
//! the database one question instead of one for each worker.

use std::sync::Arc;
use std::time::Duration;

use crate::{WorkerContext, model_offers};
use mediagate_store as store;

/// How often to look. A worker learns of unannounced work after this time at the latest.
const INTERVAL: Duration = Duration::from_millis(500);

/// Looks until the process stops.
pub(crate) async fn poll(context: Arc<WorkerContext>) {
    if context.until_registered().await.is_none() {
        return;
    }
    let app = &context.app;
    while !context.stop.is_cancelled() {
        context.pause(INTERVAL).await;
        let (models, now) = (model_offers::embedded_models_json(app), app.clock.now());
        let due = app
            .store
            .read(move |conn| store::tasks::due_work(conn, &models, now));
        match due.await {
            Ok(due) => app.bell.wake(due),
            // Each worker then looks by itself and reports what is wrong.
            Err(_) => app.bell.wake(store::tasks::DueWork::ALL),
        }
    }
}
