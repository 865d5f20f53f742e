//! Runs tasks: those for the engines of this process in a few slots, those for
//! hosted providers as many as the providers take.
//!
//! A worker process holds its tasks by one lease, a row that its heartbeat
//! prolongs; a process that dies stops prolonging, and the others free its
//! tasks (`heartbeat`). Whoever runs a task ends it by compare-and-set (`finish`).

mod ability;
mod embedded;
mod finish;
mod heartbeat;
mod hold;
mod upkeep;
mod upstream;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::app::App;
use crate::domain::{intents, restored};
use crate::error::Error;
use crate::ids::TaskId;
use crate::model::task::Task;
use crate::store::{self, StoreError};
use crate::worker::heartbeat::{HEARTBEAT, Row, heartbeat, look_after, try_beat};
use crate::worker::hold::{Held, Hold, Holds};

pub use upkeep::{remove_expired_media, sweep_orphans, sweep_spool};

/// How often providers are tried. A provider that is gone is known to be within
/// 5 s: this, and the time that a probe takes at most.
const PROBE: Duration = Duration::from_secs(2);
/// How long callers that left are gathered before the database is told.
const LEAVING: Duration = Duration::from_millis(100);
/// Longest pause before an outcome is written again.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The workers of one process.
pub struct Workers {
    tracker: TaskTracker,
    crew: Arc<Crew>,
}

/// What the workers of one process share.
struct Crew {
    app: App,
    holds: Arc<Holds>,
    row: Row,
    /// One permit, for the task that runs alone.
    alone: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Workers {
    /// Starts everything: slots, dispatcher, heartbeat, upkeep. When it returns,
    /// other processes know of this one: its callers must not be taken for those
    /// of a process that died.
    pub async fn start(app: &App) -> Self {
        let crew = Arc::new(Crew {
            app: app.clone(),
            holds: Holds::new(),
            row: Row::default(),
            alone: Arc::new(Semaphore::new(1)),
            stop: CancellationToken::new(),
        });
        try_beat(&crew).await;
        let tracker = TaskTracker::new();
        for _ in 0..app.config.workers {
            tracker.spawn(work(crew.clone()));
        }
        tracker.spawn(upstream::dispatch(crew.clone(), tracker.clone()));
        tracker.spawn(hear(crew.clone(), app.bell.called_off()));
        tracker.spawn(heartbeat(crew.clone()));
        tracker.spawn(look_after(crew.clone()));
        tracker.spawn(ability::fail_stranded(crew.clone()));
        tracker.spawn(note_leavers(crew.clone()));
        tracker.spawn(probe(crew.clone()));
        tracker.spawn(restored::keep_mark(app.clone(), crew.stop.clone()));
        upkeep::start(app, &tracker, &crew.stop);
        tracker.close();
        Self { tracker, crew }
    }

    /// Stops: running tasks are given back, to be resumed at the next start.
    /// Submissions that are under way are waited for, up to `shutdown_grace`.
    pub async fn stop(self) {
        self.crew.stop.cancel();
        let grace = self.crew.app.config.shutdown_grace;
        if tokio::time::timeout(grace, self.tracker.wait())
            .await
            .is_err()
        {
            tracing::warn!("submissions without an answer are left behind");
        }
        let app = &self.crew.app;
        if let Err(error) = intents::note_leavers(app).await {
            tracing::warn!(inside = ?error.inside(), "cannot write down who left");
        }
        let (lease, callers) = (self.crew.holds.lease(), app.attendance.name().to_owned());
        let left = app.store.write(move |conn| -> Result<(), StoreError> {
            store::workers::leave(conn, &callers)?;
            store::workers::leave(conn, &lease.name)
        });
        if let Err(error) = left.await {
            tracing::warn!(%error, "cannot give the lease back; it runs out");
        }
    }
}

/// One slot: takes a task for an engine, runs it, takes the next.
async fn work(crew: Arc<Crew>) {
    if crew.until_entered().await.is_none() {
        return;
    }
    while !crew.stop.is_cancelled() {
        match claim(&crew).await {
            Ok(Some((task, hold))) => {
                // There may be more; another slot shall look.
                crew.app.bell.ring_for_work();
                let span =
                    tracing::info_span!("task", task_id = %task.id, request_id = %task.request_id);
                run_embedded(&crew, task, hold).instrument(span).await;
            }
            Ok(None) => {
                tokio::select! {
                    () = crew.app.bell.wait_for_work() => {}
                    () = crew.stop.cancelled() => {}
                }
            }
            Err(error) => {
                tracing::error!(inside = ?error.inside(), "cannot claim a task");
                crew.pause(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn claim(crew: &Crew) -> Result<Option<(Task, Held)>, Error> {
    let now = crew.app.clock.now();
    let models: Arc<str> = ability::engines_json(&crew.app).into();
    let wanted = models.clone();
    // Looking first keeps an idle process from writing.
    let any = crew
        .app
        .store
        .read(move |conn| store::tasks::any_due(conn, &wanted, now).map_err(Error::from));
    if !any.await? {
        return Ok(None);
    }
    let _claiming = crew.holds.claiming();
    let lease = crew.holds.lease();
    let by = lease.name.clone();
    let claimed = crew
        .app
        .store
        .write(move |conn| store::tasks::claim(conn, &by, &models, now).map_err(Error::from))
        .await?;
    Ok(claimed.map(|task| {
        let hold = crew.holds.take(task.id, lease);
        (task, hold)
    }))
}

async fn run_embedded(crew: &Crew, task: Task, hold: Held) {
    crew.app.bell.ring(task.id);
    let outcome = tokio::select! {
        outcome = embedded::run(&crew.app, &task, &hold, &crew.alone) => outcome,
        () = embedded::report_progress(&crew.app, &task, &hold) => finish::Outcome::Stopped,
        () = crew.stop.cancelled() => {
            hold.stop();
            finish::Outcome::Stopped
        }
    };
    crew.end(&task, &hold, outcome, None).await;
}

impl Crew {
    /// Ends the task as far as this process is concerned. What cannot be written is
    /// written again until it is, or until the task is another process's.
    async fn end(
        &self,
        task: &Task,
        hold: &Hold,
        outcome: finish::Outcome,
        closing: Option<finish::Closing>,
    ) {
        let mut pause = Duration::from_millis(250);
        loop {
            let written = finish::finish(&self.app, hold.owner(), task, &outcome, closing.as_ref());
            let Err(error) = written.await else { break };
            tracing::error!(inside = ?error.inside(), "cannot write how a task ended; it is tried again");
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = hold.lease.lost() => break,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        self.app.bell.ring(task.id);
    }

    /// Sleeps, but not beyond the end of the process.
    async fn pause(&self, time: Duration) {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// Waits until this process has its lease; `None` when it ends before.
    async fn until_entered(&self) -> Option<()> {
        tokio::select! {
            () = self.holds.entered() => Some(()),
            () = self.stop.cancelled() => None,
        }
    }
}

/// Stops at once what is called off in this process; the heartbeat finds what
/// this misses.
async fn hear(crew: Arc<Crew>, mut called_off: broadcast::Receiver<TaskId>) {
    loop {
        tokio::select! {
            heard = called_off.recv() => match heard {
                Ok(task) => crew.holds.stop_all(&[task]),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            },
            () = crew.stop.cancelled() => return,
        }
    }
}

/// Keeps up to date which providers take connections.
async fn probe(crew: Arc<Crew>) {
    while !crew.stop.is_cancelled() {
        tokio::select! {
            () = crew.app.upstream.probe() => {}
            () = crew.stop.cancelled() => {}
        }
        crew.pause(PROBE).await;
    }
}

/// Writes down which callers left, a moment after they did: others that leave
/// in that moment go with them.
async fn note_leavers(crew: Arc<Crew>) {
    while !crew.stop.is_cancelled() {
        tokio::select! {
            () = crew.app.attendance.somebody_left() => {}
            () = crew.stop.cancelled() => return,
        }
        crew.pause(LEAVING).await;
        if let Err(error) = intents::note_leavers(&crew.app).await {
            tracing::warn!(inside = ?error.inside(), "cannot write down who left");
            crew.pause(HEARTBEAT).await;
        }
    }
}
