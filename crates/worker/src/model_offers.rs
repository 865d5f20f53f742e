//! Runnable models: this process claims only tasks of its own models, and publishes their names.
//! Tasks that no process can run fail after a while.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::WorkerContext;
use mediagate_core::app::App;
use mediagate_core::domain::endings;
use mediagate_media::engines;
use mediagate_model::catalog::Model;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::task::{Task, TaskFailure, TaskState};
use mediagate_store as store;
use mediagate_store::tasks::TaskEnding;
use mediagate_telemetry::counters;

/// How long a task waits for a process that has its model.
const STRANDED_AFTER: Duration = Duration::from_mins(10);
/// How often to look for such tasks.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of tasks failed per transaction.
const BATCH: u32 = 100;

/// The embedded models that this process can run.
fn embedded_models(app: &App) -> Vec<String> {
    let built_in = engines::embedded_models().into_iter();
    built_in
        .chain(app.models.installed_models.models())
        .map(|model| model.id)
        .collect()
}

/// [`embedded_models()`] as a JSON array.
pub(super) fn embedded_models_json(app: &App) -> String {
    serde_json::Value::from(embedded_models(app)).to_string()
}

/// Whether this process has a route for a model.
pub(super) fn has_route(app: &App, model: &str) -> bool {
    let catalog = app.models.catalog.load();
    let sites = app.models.upstream.sites();
    let routes = catalog.with_id(model).map_or(&[][..], Model::routes);
    routes
        .iter()
        .any(|route| sites.contains_key(&route.provider))
}

/// Every model whose tasks this process claims, as a JSON array.
pub(super) fn offered_models_json(app: &App) -> String {
    let mut models = embedded_models(app);
    let catalog = app.models.catalog.load();
    let hosted = catalog.models().iter().map(|model| &model.id);
    models.extend(hosted.filter(|id| has_route(app, id)).cloned());
    serde_json::Value::from(models).to_string()
}

/// Fails tasks that no process can run, as long as this process runs.
pub(super) async fn fail_stranded(context: Arc<WorkerContext>) {
    let mut stranded_since = HashMap::new();
    while !context.stop.is_cancelled() {
        context.pause(CHECK_INTERVAL).await;
        if let Err(error) = check_stranded(&context.app, &mut stranded_since).await {
            tracing::warn!(inside = ?error.internal_cause(), "cannot search for tasks that no process can run");
        }
    }
}

/// Fails tasks whose models have had no process for too long. `stranded_since` contains when each
/// model was first found without a process, by
/// [`Clock::monotonic_time`](mediagate_model::clock::Clock::monotonic_time).
async fn check_stranded(
    app: &App,
    stranded_since: &mut HashMap<String, Duration>,
) -> Result<(), Error> {
    let now = app.clock.now();
    let due = now.minus(STRANDED_AFTER);
    let (waiting_models, offered_models) = app
        .store
        .long_read(move |conn| -> Result<_, Error> {
            let database_now = store::workers::now(conn, now)?;
            let offered_models = store::workers::offered_models(conn, database_now)?;
            Ok((store::tasks::models_waiting(conn, due)?, offered_models))
        })
        .await?;
    let is_unoffered = |model: &String| !offered_models.contains(model);
    let stranded: HashSet<String> = waiting_models.into_iter().filter(is_unoffered).collect();
    // The time of a model that came back in between starts from zero again.
    stranded_since.retain(|model, _| stranded.contains(model));
    for model in stranded {
        let monotonic_now = app.clock.monotonic_time();
        let first_seen = *stranded_since.entry(model.clone()).or_insert(monotonic_now);
        // Ten minutes must have passed both by the wall clock and by this process's own timer. With
        // the wall clock alone, setting it forward would fail tasks that were just accepted.
        if monotonic_now.saturating_sub(first_seen) >= STRANDED_AFTER {
            fail_all(app, &model, due).await?;
        }
    }
    Ok(())
}

async fn fail_all(app: &App, model: &str, due: Timestamp) -> Result<(), Error> {
    loop {
        let (name, now, shared_app) = (model.to_owned(), app.clock.now(), app.clone());
        let failed = app
            .store
            .write(move |conn| -> Result<Vec<Task>, Error> {
                let tasks = store::tasks::waiting(conn, &name, due, BATCH)?;
                for task in &tasks {
                    // `waiting` has locked these rows, so none is claimed before this commit.
                    let ending = stranded_ending(task);
                    endings::end(conn, &shared_app, task, None, &ending, now, |_| {
                        Ok::<_, Error>(())
                    })?;
                }
                Ok(tasks)
            })
            .await?;
        // None may be left: they may have been claimed meanwhile.
        if failed.is_empty() {
            return Ok(());
        }
        tracing::error!(
            model,
            tasks = failed.len(),
            "no process has this model; its tasks failed"
        );
        for task in &failed {
            counters::task_ended(task, TaskState::Failed);
            app.bell.ring(task.id);
        }
        app.bell.ring_for_deliveries();
        if failed.len() < BATCH as usize {
            return Ok(());
        }
    }
}

fn stranded_ending(task: &Task) -> TaskEnding {
    let message = "The model was not available for ten minutes. Nothing was charged.";
    let failure = TaskFailure {
        code: ErrorCode::ProviderUnavailable,
        message: message.into(),
    };
    endings::failed_ending(task, failure)
}
