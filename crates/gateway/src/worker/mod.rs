//! Runs tasks: those for the engines of this process in a few slots, those for
//! hosted providers as many as the providers take.
//!
//! A worker process holds its tasks by one lease, a row that its heartbeat
//! prolongs; a process that dies stops prolonging, and the others free its
//! tasks. Whoever runs a task ends it by compare-and-set (`finish`).

mod embedded;
mod finish;
mod hold;
mod upkeep;
mod upstream;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::app::App;
use crate::domain::intents;
use crate::error::Error;
use crate::ids::TaskId;
use crate::model::task::Task;
use crate::store::{self, StoreError};
use crate::worker::hold::{Hold, Holds};

pub use upkeep::{remove_expired_media, sweep_orphans, sweep_spool};

/// How long a lease holds without a heartbeat. A restarted process takes its
/// tasks up again once this is over, so it bounds the pause after a crash.
const LEASE: Duration = Duration::from_secs(3);
/// How often the lease is prolonged, and cancellations noticed.
const HEARTBEAT: Duration = Duration::from_millis(750);
/// How often providers are tried. A provider that is gone is known to be within
/// 5 s: this, and the time that a probe takes at most.
const PROBE: Duration = Duration::from_secs(2);
/// How long callers that left are gathered before the database is told.
const LEAVING: Duration = Duration::from_millis(100);
/// How far back endings are looked for: heartbeats that came late included,
/// and clocks that differ.
const LOOK_BACK: Duration = Duration::from_secs(10);

/// The workers of one process.
pub struct Workers {
    tracker: TaskTracker,
    crew: Arc<Crew>,
}

/// What the workers of one process share.
struct Crew {
    app: App,
    holds: Holds,
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
        tracker.spawn(note_leavers(crew.clone()));
        tracker.spawn(probe(crew.clone()));
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
        let (name, callers) = (self.crew.holds.name(), app.attendance.name().to_owned());
        let left = app.store.write(move |conn| -> Result<(), StoreError> {
            store::workers::leave(conn, &callers)?;
            store::workers::leave(conn, &name)
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
            Ok(Some((task, owner))) => {
                // There may be more; another slot shall look.
                crew.app.bell.ring_for_work();
                let span =
                    tracing::info_span!("task", task_id = %task.id, request_id = %task.request_id);
                run_embedded(&crew, task, owner).instrument(span).await;
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

async fn claim(crew: &Crew) -> Result<Option<(Task, Arc<str>)>, Error> {
    let now = crew.app.clock.now();
    // Looking first keeps an idle process from writing.
    let any = crew
        .app
        .store
        .read(move |conn| store::tasks::any_due(conn, now).map_err(Error::from));
    if !any.await? {
        return Ok(None);
    }
    let owner = crew.holds.name();
    let by = owner.clone();
    let claimed = crew
        .app
        .store
        .write(move |conn| store::tasks::claim(conn, &by, now).map_err(Error::from))
        .await?;
    Ok(claimed.map(|task| (task, owner)))
}

async fn run_embedded(crew: &Crew, task: Task, owner: Arc<str>) {
    crew.app.bell.ring(task.id);
    let hold = crew.holds.take(task.id, owner);
    let outcome = tokio::select! {
        outcome = embedded::run(&crew.app, &task, &hold.watch) => outcome,
        () = embedded::report_progress(&crew.app, &task, &hold) => finish::Outcome::Stopped,
        () = crew.stop.cancelled() => {
            hold.stop();
            finish::Outcome::Stopped
        }
    };
    crew.end(&task, &hold, outcome, None).await;
}

impl Crew {
    /// Ends the task as far as this process is concerned.
    async fn end(
        &self,
        task: &Task,
        hold: &Hold,
        outcome: finish::Outcome,
        closing: Option<finish::Closing>,
    ) {
        let ended = finish::finish(&self.app, &hold.owner, task, outcome, closing).await;
        if let Err(error) = ended {
            // The lease runs out, and the task is taken up again.
            tracing::error!(inside = ?error.inside(), "cannot end a task");
        }
        self.holds.drop_hold(task.id);
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

/// Prolongs the lease, stops what ended elsewhere, and frees the tasks of
/// processes that died.
async fn heartbeat(crew: Arc<Crew>) {
    while !crew.stop.is_cancelled() {
        crew.pause(HEARTBEAT).await;
        try_beat(&crew).await;
    }
}

async fn try_beat(crew: &Crew) {
    if let Err(error) = beat(crew).await {
        tracing::warn!(inside = ?error.inside(), "heartbeat failed");
    }
}

async fn beat(crew: &Crew) -> Result<(), Error> {
    let store = &crew.app.store;
    let now = crew.app.clock.now();
    let (name, until) = (crew.holds.name(), now.plus(LEASE));
    let callers = crew.app.attendance.name().to_owned();
    if crew.holds.has_entered() {
        let by = name.clone();
        let holds = store
            .write(move |conn| -> Result<bool, Error> {
                store::workers::enter(conn, &callers, until)?;
                Ok(store::workers::prolong(conn, &by, until)?)
            })
            .await?;
        if !holds {
            // Others took over what this process held while it stood still. It
            // goes on under another name, or it could end what is theirs now.
            tracing::warn!("the lease was lost; it is entered anew");
            crew.holds.start_over();
        }
    }
    if !crew.holds.has_entered() {
        let name = crew.holds.name();
        let callers = crew.app.attendance.name().to_owned();
        store
            .write(move |conn| -> Result<(), Error> {
                store::workers::enter(conn, &callers, until)?;
                Ok(store::workers::enter(conn, &name, until)?)
            })
            .await?;
        crew.holds.enter();
    }
    if !crew.holds.is_empty() {
        let since = now.minus(LOOK_BACK);
        let ended = store
            .read(move |conn| store::tasks::ended_since(conn, since).map_err(Error::from))
            .await?;
        crew.holds.stop_all(&ended);
    }
    let lapsed = store
        .read(move |conn| store::workers::any_lapsed(conn, now).map_err(Error::from))
        .await?;
    if lapsed {
        let freed = store
            .write(move |conn| store::workers::free_lapsed(conn, now).map_err(Error::from))
            .await?;
        tracing::warn!(tasks = freed, "a worker is gone; its tasks are free");
        crew.app.bell.ring_for_work();
        crew.app.bell.ring_for_upstream();
    }
    Ok(())
}
