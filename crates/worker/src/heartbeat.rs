//! The process's lease: each answered heartbeat extends it, and proves that our tasks are still
//! ours. Tasks of dead workers are freed here too.
//!
//! A process of the same machine that was killed is known to be dead at once ([`free_dead`]); of others
//! only their lease tells. Leases use the database's clock; this process times its own by the monotonic clock. Only a
//! process that has extended its own lease for a while may judge others: after a database outage
//! everybody's lease has expired.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::runs::{Lease, LeaseHoldings};
use crate::{WorkerContext, model_offers};
use mediagate_core::domain::clock_sync::PROMPT;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_store::{self as store, StoreError};

/// How long a lease lasts without a heartbeat. After a crash, tasks wait this long to be taken up
/// again.
const LEASE: Duration = Duration::from_secs(3);
/// How often the lease is extended and cancellations are noticed.
pub(super) const HEARTBEAT: Duration = Duration::from_millis(750);
/// A longer gap between heartbeats starts the count over: other processes' may have been as late,
/// and their leases have expired for that reason alone.
const GAP: Duration = Duration::from_millis(2250);
/// Heartbeats in a row before others may be judged.
const ROW: u32 = 4;
/// How far back to look for tasks that ended: allows for late heartbeats and clock differences.
const LOOK_BACK: Duration = Duration::from_secs(10);
/// Every so many rounds the tasks under our lease are compared with what we are running; they
/// differ only after an answer of the database was lost.
const COMPARE: u32 = 8;
/// Every so many rounds, and soon after a start, deliveries are looked at that are due too late.
const FAR_DELIVERIES: u32 = 512;
/// Clocks of one database differ by less.
const APART: Duration = Duration::from_secs(5);
/// Nothing is postponed for longer; a later due time was written before the clock was set back.
const FAR_AHEAD: Duration = Duration::from_mins(15);

/// Counts heartbeats that were answered in a row.
#[derive(Default)]
pub(super) struct HeartbeatStreak {
    length: AtomicU32,
    last: Mutex<Option<Instant>>,
}

impl HeartbeatStreak {
    fn answered(&self) {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = last.is_some_and(|last| now - last <= GAP);
        *last = Some(now);
        let before = self.length.load(Ordering::Relaxed);
        let length = if goes_on { before.saturating_add(1) } else { 1 };
        self.length.store(length, Ordering::Relaxed);
    }

    fn broken(&self) {
        self.length.store(0, Ordering::Relaxed);
    }

    fn length(&self) -> u32 {
        self.length.load(Ordering::Relaxed)
    }
}

/// Extends the lease until the process stops.
pub(super) async fn heartbeat(crew: Arc<WorkerContext>) {
    while !crew.stop.is_cancelled() {
        crew.pause(HEARTBEAT).await;
        try_beat(&crew).await;
    }
}

pub(super) async fn try_beat(crew: &WorkerContext) {
    match beat(crew).await {
        Ok(()) => crew.row.answered(),
        Err(error) => {
            crew.row.broken();
            tracing::warn!(inside = ?error.inside(), "heartbeat failed");
        }
    }
}

async fn beat(crew: &WorkerContext) -> Result<(), Error> {
    if crew.runs.has_entered() && !prolong(crew).await? {
        // Others took over our tasks while this process was suspended. It continues under another
        // name, so that it cannot end tasks that are theirs now.
        tracing::warn!("the lease was lost; taking a new one");
        crew.runs.start_over();
    }
    if !crew.runs.has_entered() {
        prolong(crew).await?;
        crew.runs.enter();
    }
    Ok(())
}

/// Extends, or creates, this process's lease and that of its callers. Returns false if the first
/// was taken from it.
async fn prolong(crew: &WorkerContext) -> Result<bool, Error> {
    let app = &crew.app;
    let (lease, has_entered) = (crew.runs.lease(), crew.runs.has_entered());
    let (clock, name) = (app.clock.now(), lease.name.clone());
    let models = model_offers::offer(app);
    let callers = app.server.name().to_owned();
    if !has_entered {
        // The lock comes before the row, so that a kill right after the commit is noticed at once.
        lease.begin(&app.store);
        let begin = || app.store.begin_life(&callers);
        crew.callers.get_or_init(begin);
    }
    // Taken before the request leaves. The database counts from a later moment, so this process
    // never believes in its lease for longer than others do.
    let asked = Instant::now();
    let (kept, shared) = app
        .store
        .beat(move |conn| -> Result<(bool, Timestamp), StoreError> {
            let shared = store::workers::now(conn, clock)?;
            let until = shared.plus(LEASE);
            store::workers::enter(conn, &callers, until)?;
            if !has_entered {
                store::workers::enter(conn, &name, until)?;
            } else if !store::workers::prolong(conn, &name, until)? {
                return Ok((false, shared));
            }
            store::workers::offer(conn, &name, &models)?;
            Ok((true, shared))
        })
        .await?;
    // The slower the answer, the less exact the difference of the clocks.
    if asked.elapsed() < PROMPT {
        app.clock.share(clock, shared);
    }
    app.server.prove(asked + LEASE);
    if kept {
        lease.prove(asked + LEASE);
    }
    Ok(kept)
}

/// Stops tasks that ended elsewhere, and frees tasks of dead workers.
pub(super) async fn look_after(crew: Arc<WorkerContext>) {
    let mut round = 0_u32;
    let mut was_in_row = false;
    while !crew.stop.is_cancelled() {
        crew.pause(HEARTBEAT).await;
        round = round.wrapping_add(1);
        // After an outage of the database all leases have expired. Only a process whose heartbeats
        // have worked for a while may declare others dead.
        let is_in_row = crew.row.length() >= ROW && crew.runs.lease().is_proved();
        // A file lock that was released is proof enough, whatever the heartbeats did.
        free_dead(&crew).await;
        let done = async {
            stop_ended(&crew).await?;
            if is_in_row {
                free_lapsed(&crew, !was_in_row).await?;
            }
            if round.is_multiple_of(COMPARE) {
                compare(&crew).await?;
                pull_near(&crew).await?;
            }
            if round % FAR_DELIVERIES == COMPARE {
                pull_deliveries_near(&crew).await?;
            }
            Ok::<(), Error>(())
        };
        match done.await {
            Ok(()) => was_in_row = is_in_row,
            Err(error) => {
                tracing::warn!(inside = ?error.inside(), "cannot check for abandoned tasks");
            }
        }
    }
}

async fn stop_ended(crew: &WorkerContext) -> Result<(), Error> {
    if crew.runs.is_empty() {
        return Ok(());
    }
    let since = crew.app.clock.now().minus(LOOK_BACK);
    let ended = crew
        .app
        .store
        .read(move |conn| store::tasks::ended_since(conn, since))
        .await?;
    crew.runs.stop_all(&ended);
    Ok(())
}

/// Frees the tasks of processes of this machine that were certainly killed: nobody waits for their leases.
pub(super) async fn free_dead(crew: &WorkerContext) {
    if let Err(error) = try_free_dead(crew).await {
        tracing::warn!(%error, "cannot release the tasks of a killed process; its lease will expire");
    }
}

async fn try_free_dead(crew: &WorkerContext) -> Result<(), StoreError> {
    let store = &crew.app.store;
    if !store.has_lives() {
        return Ok(());
    }
    let clock = crew.app.clock.now();
    let mut names = store.read(store::workers::living).await?;
    names.retain(|name| store.is_life_over(name));
    if names.is_empty() {
        return Ok(());
    }
    let freed = store.write(move |conn| -> Result<u64, StoreError> {
        let mut freed = 0;
        for name in &names {
            freed += store::workers::free_dead(conn, name, clock)?;
        }
        Ok(freed)
    });
    note_freed(crew, freed.await?);
    Ok(())
}

fn note_freed(crew: &WorkerContext, tasks: u64) {
    if tasks > 0 {
        tracing::warn!(tasks, "the tasks of a dead worker were released");
        crew.app.bell.ring_for_work();
        crew.app.bell.ring_for_upstream();
    }
}

/// Frees the tasks of expired workers; with `all`, also tasks of unknown workers.
async fn free_lapsed(crew: &WorkerContext, all: bool) -> Result<(), Error> {
    let store = &crew.app.store;
    let clock = crew.app.clock.now();
    let (lease, callers) = (crew.runs.lease(), crew.app.server.name().to_owned());
    let lapsed = store
        .read(move |conn| -> Result<bool, Error> {
            let now = store::workers::now(conn, clock)?;
            Ok(store::workers::any_lapsed(conn, now)?)
        })
        .await?;
    if !lapsed && !all {
        return Ok(());
    }
    let freed = store
        .write(move |conn| -> Result<u64, Error> {
            let now = store::workers::now(conn, clock)?;
            // The judge extends its own lease first. If the clock was just set forward, it would
            // free its own tasks otherwise.
            if !store::workers::prolong(conn, &lease.name, now.plus(LEASE))? {
                return Ok(0);
            }
            store::workers::enter(conn, &callers, now.plus(LEASE))?;
            let mut freed = store::workers::free_lapsed(conn, now)?;
            if all {
                freed += store::workers::free_unknown(conn)?;
            }
            Ok(freed)
        })
        .await?;
    note_freed(crew, freed);
    Ok(())
}

/// Releases tasks under our lease that nothing here runs, and stops those that we run but no longer
/// hold.
async fn compare(crew: &WorkerContext) -> Result<(), Error> {
    let lease = crew.runs.lease();
    let Some(census) = crew.runs.census() else {
        return Ok(());
    };
    let standing = standing(crew, &lease).await?;
    // Something was claimed after the census, so the two do not fit together. The next round
    // compares again.
    if !crew.runs.still_runs(&census) {
        return Ok(());
    }
    census.stop_others(&lease, &standing);
    let tasks = census.forgotten(&standing, &crew.runs);
    let strays: Vec<_> = census.forgotten_strays(&standing).collect();
    if tasks.is_empty() && strays.is_empty() {
        return Ok(());
    }
    tracing::warn!(
        tasks = tasks.len(),
        strays = strays.len(),
        "this process holds tasks that it is not running; releasing them"
    );
    let (name, now) = (lease.name.clone(), crew.app.clock.now());
    crew.app
        .store
        .write(move |conn| -> Result<(), StoreError> {
            for id in tasks {
                store::submissions::let_go_of_task(conn, id, &name, now)?;
                store::tasks::release(conn, id, &name, now)?;
            }
            for id in strays {
                store::submissions::let_go(conn, id, &name, now)?;
            }
            Ok(())
        })
        .await?;
    crew.app.bell.ring_for_work();
    crew.app.bell.ring_for_upstream();
    Ok(())
}

async fn standing(crew: &WorkerContext, lease: &Lease) -> Result<LeaseHoldings, Error> {
    let name = lease.name.clone();
    crew.app
        .store
        .examine(move |conn| -> Result<_, Error> {
            let tasks: HashSet<_> = store::tasks::held_by(conn, &name)?.into_iter().collect();
            let strays = store::submissions::strays_of(conn, &name)?;
            Ok(LeaseHoldings { tasks, strays })
        })
        .await
}

/// The same for webhooks: a receiver may have asked for hours, so their due time alone tells nothing.
async fn pull_deliveries_near(crew: &WorkerContext) -> Result<(), Error> {
    let now = crew.app.clock.now();
    let after = now.plus(APART);
    let pulled = crew
        .app
        .store
        .write(move |conn| store::webhooks::deliveries::pull_near(conn, after, now));
    let pulled = pulled.await?;
    if pulled > 0 {
        tracing::warn!(
            deliveries = pulled,
            "a clock was set back: webhooks postponed too far are due now"
        );
        crew.app.bell.ring_for_deliveries();
    }
    Ok(())
}

/// Makes tasks that are due absurdly late due now.
async fn pull_near(crew: &WorkerContext) -> Result<(), Error> {
    let now = crew.app.clock.now();
    let far = now.plus(FAR_AHEAD);
    let any = crew.app.store.examine(move |conn| -> Result<bool, Error> {
        Ok(store::tasks::any_due_after(conn, far)?
            || store::submissions::any_stray_due_after(conn, far)?)
    });
    if !any.await? {
        return Ok(());
    }
    let pulled = crew
        .app
        .store
        .write(move |conn| -> Result<u64, StoreError> {
            let tasks = store::tasks::pull_near(conn, far, now)?;
            Ok(tasks + store::submissions::pull_strays_near(conn, far, now)?)
        })
        .await?;
    tracing::warn!(
        tasks = pulled,
        "a clock was set back: tasks postponed too far are due now"
    );
    crew.app.bell.ring_for_work();
    crew.app.bell.ring_for_upstream();
    Ok(())
}
