//! Runs tasks: as many at once as the settings allow.
//!
//! Each slot claims a task with a lease, runs it, and ends it by compare-and-set
//! (`finish`). One heartbeat prolongs all leases of the process; a process that
//! dies stops prolonging, and whoever claims next takes its tasks over.

mod finish;
mod run;
mod upkeep;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::app::App;
use crate::error::Error;
use crate::ids::{AssetId, TaskId};
use crate::model::task::Task;
use crate::engines::Watch;
use crate::store;

pub use upkeep::{remove_expired_media, sweep_orphans};

/// How long a lease holds without a heartbeat. A restarted process takes its
/// tasks up again once this is over, so it bounds the pause after a crash.
const LEASE: Duration = Duration::from_secs(3);
/// How often leases are prolonged, and cancellations noticed.
const HEARTBEAT: Duration = Duration::from_millis(750);

/// The workers of one process.
pub struct Workers {
    slots: TaskTracker,
    stop: CancellationToken,
}

/// What the slots of one process share.
struct Crew {
    app: App,
    /// Names this process in leases.
    name: String,
    running: Mutex<HashMap<TaskId, Arc<Watch>>>,
    stop: CancellationToken,
}

impl Workers {
    /// Starts the slots, the heartbeat and the upkeep.
    pub fn start(app: &App) -> Self {
        let stop = CancellationToken::new();
        let crew = Arc::new(Crew {
            app: app.clone(),
            name: format!("{}-{}", std::process::id(), AssetId::new().simple()),
            running: Mutex::default(),
            stop: stop.clone(),
        });
        let slots = TaskTracker::new();
        for _ in 0..app.config.workers {
            slots.spawn(work(crew.clone()));
        }
        slots.spawn(heartbeat(crew));
        slots.spawn(upkeep::run(app.clone(), stop.clone()));
        slots.close();
        Self { slots, stop }
    }

    /// Stops: running tasks are given back, to be resumed at the next start.
    pub async fn stop(self) {
        self.stop.cancel();
        self.slots.wait().await;
    }
}

/// One slot: takes a task, runs it, takes the next.
async fn work(crew: Arc<Crew>) {
    while !crew.stop.is_cancelled() {
        match claim(&crew).await {
            Ok(Some(task)) => {
                // There may be more; another slot shall look.
                crew.app.bell.ring_for_work();
                let span =
                    tracing::info_span!("task", task_id = %task.id, request_id = %task.request_id);
                run_one(&crew, task).instrument(span).await;
            }
            Ok(None) => {
                tokio::select! {
                    () = crew.app.bell.wait_for_work() => {}
                    () = crew.stop.cancelled() => {}
                }
            }
            Err(error) => {
                tracing::error!(inside = ?error.inside(), "cannot claim a task");
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(1)) => {}
                    () = crew.stop.cancelled() => {}
                }
            }
        }
    }
}

async fn claim(crew: &Crew) -> Result<Option<Task>, Error> {
    let now = crew.app.clock.now();
    // Looking first keeps an idle process from writing.
    if !crew
        .app
        .store
        .read(move |conn| store::tasks::any_due(conn, now).map_err(Error::from))
        .await?
    {
        return Ok(None);
    }
    let owner = crew.name.clone();
    let until = now.plus(LEASE);
    crew.app
        .store
        .write(move |conn| store::tasks::claim(conn, &owner, now, until).map_err(Error::from))
        .await
}

async fn run_one(crew: &Crew, task: Task) {
    let id = task.id;
    crew.app.bell.ring(id);
    let watch = Arc::new(Watch::default());
    crew.running
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(id, watch.clone());
    let outcome = tokio::select! {
        outcome = run::run(&crew.app, &task, &watch) => outcome,
        () = report_progress(crew, &task, &watch) => run::Outcome::Stopped,
        () = crew.stop.cancelled() => {
            watch.stop();
            run::Outcome::Stopped
        }
    };
    if let Err(error) = finish::finish(&crew.app, &crew.name, &task, outcome).await {
        // The lease runs out, and the task is taken up again.
        tracing::error!(inside = ?error.inside(), "cannot end a task");
    }
    crew.running
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .remove(&id);
    crew.app.bell.ring(id);
}

/// Writes the progress down as it rises; returns only when the task is to stop.
async fn report_progress(crew: &Crew, task: &Task, watch: &Watch) {
    const INTERVAL: Duration = Duration::from_millis(200);
    let mut shown = task.progress;
    let mut listener = crew.app.bell.listen(task.id);
    loop {
        tokio::time::sleep(INTERVAL).await;
        let progress = watch.progress();
        if progress > shown {
            shown = progress;
            let (id, owner) = (task.id, crew.name.clone());
            let write = crew
                .app
                .store
                .write(move |conn| store::tasks::raise_progress(conn, id, &owner, progress));
            match write.await {
                Ok(true) => crew.app.bell.ring(id),
                // Cancelled, or somebody else's by now; the heartbeat stops it.
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "cannot write progress"),
            }
        }
        // A cancellation in this process is heard at once.
        if tokio::time::timeout(Duration::ZERO, listener.changed())
            .await
            .is_ok()
            && ended(crew, task).await
        {
            watch.stop();
            return;
        }
    }
}

async fn ended(crew: &Crew, task: &Task) -> bool {
    let (id, account) = (task.id, task.account);
    let found = crew
        .app
        .store
        .read(move |conn| store::tasks::by_id(conn, id, account))
        .await;
    matches!(found, Ok(Some(task)) if task.state.is_terminal())
}

/// Prolongs the leases, and stops what is no longer this process's.
async fn heartbeat(crew: Arc<Crew>) {
    while !crew.stop.is_cancelled() {
        tokio::select! {
            () = tokio::time::sleep(HEARTBEAT) => {}
            () = crew.stop.cancelled() => return,
        }
        let running: Vec<TaskId> = {
            let running = crew.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.keys().copied().collect()
        };
        if running.is_empty() {
            continue;
        }
        let (owner, until) = (crew.name.clone(), crew.app.clock.now().plus(LEASE));
        match crew
            .app
            .store
            .write(move |conn| store::tasks::heartbeat(conn, &owner, until))
            .await
        {
            Ok(held) => {
                let watches = crew.running.lock().unwrap_or_else(PoisonError::into_inner);
                for id in running.iter().filter(|id| !held.contains(id)) {
                    if let Some(watch) = watches.get(id) {
                        watch.stop();
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "cannot prolong leases"),
        }
    }
}
