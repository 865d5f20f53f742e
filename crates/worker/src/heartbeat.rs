//! The process's lease: each answered heartbeat extends it, and proves that our tasks are still
//! ours. Tasks of dead workers are freed here too.
//!
//! The death of a killed process on the same machine is noticed at once ([`declare_dead`]), the death
//! of other processes only when their leases expire. Leases use the database's clock; this process
//! measures its own lease by the monotonic clock. Only a process that has extended its own lease
//! for a while may declare others dead: after a database outage all leases have expired.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use locks::lock;
use tokio::time::Instant;

use crate::runs::{Lease, LeaseHoldings};
use crate::{WorkerContext, model_offers};
use mediagate_core::domain::clock_sync::MAX_SYNC_LATENCY;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_store::{self as store, StoreError};

/// How long a lease lasts without a heartbeat. After a crash, tasks wait this long until they are
/// resumed.
const LEASE: Duration = Duration::from_secs(3);
/// How often the lease is extended and cancellations are noticed.
pub(super) const HEARTBEAT: Duration = Duration::from_millis(750);
/// A longer gap between heartbeats resets the count: the heartbeats of other processes may have
/// been as late, and their leases may have expired only for that reason.
const GAP: Duration = Duration::from_millis(2250);
/// Heartbeats in a row before this process may declare others dead.
const MIN_STREAK: u32 = 4;
/// How far back to look for tasks that ended: allows for late heartbeats and clock differences.
const LOOK_BACK: Duration = Duration::from_secs(10);
/// Number of rounds between comparisons of the tasks under our lease with those running here; they
/// differ only after an answer of the database was lost.
const COMPARE_EVERY: u32 = 8;
/// Number of rounds between searches for deliveries that are due too late; one also happens soon
/// after a start.
const CHECK_DELIVERIES_EVERY: u32 = 512;
/// The clocks of the processes on one database differ by less than this.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(5);
/// No task is postponed for longer; a later due time was written before the clock was set back.
const MAX_POSTPONEMENT: Duration = Duration::from_mins(15);

/// Counts heartbeats that were answered in a row.
#[derive(Default)]
pub(super) struct HeartbeatStreak {
    length: AtomicU32,
    last: Mutex<Option<Instant>>,
    /// Whether a lease of another process had expired at the last heartbeat.
    has_lapsed: AtomicBool,
}

impl HeartbeatStreak {
    fn record_success(&self) {
        let now = Instant::now();
        let mut last = lock(&self.last);
        let is_continued = last.is_some_and(|last| now - last <= GAP);
        *last = Some(now);
        let previous = self.length.load(Ordering::Relaxed);
        let length = if is_continued {
            previous.saturating_add(1)
        } else {
            1
        };
        self.length.store(length, Ordering::Relaxed);
    }

    fn reset(&self) {
        self.length.store(0, Ordering::Relaxed);
    }

    fn length(&self) -> u32 {
        self.length.load(Ordering::Relaxed)
    }
}

/// Extends the lease until the process stops.
pub(super) async fn heartbeat(context: Arc<WorkerContext>) {
    while !context.stop.is_cancelled() {
        context.pause(HEARTBEAT).await;
        try_heartbeat(&context).await;
    }
}

pub(super) async fn try_heartbeat(context: &WorkerContext) {
    match send_heartbeat(context).await {
        Ok(()) => context.streak.record_success(),
        Err(error) => {
            context.streak.reset();
            tracing::warn!(inside = ?error.internal_cause(), "heartbeat failed");
        }
    }
}

async fn send_heartbeat(context: &WorkerContext) -> Result<(), Error> {
    if context.runs.is_registered() && !extend_lease(context).await? {
        // Others took over our tasks while this process was suspended. It continues under another
        // name, so that it cannot end tasks that now belong to others.
        tracing::warn!("the lease was lost; taking a new one");
        context.runs.start_over();
    }
    if !context.runs.is_registered() {
        extend_lease(context).await?;
        context.runs.mark_registered();
    }
    Ok(())
}

/// Extends, or creates, this process's lease and the lease of its callers. Returns false if the
/// first was lost to others.
async fn extend_lease(context: &WorkerContext) -> Result<bool, Error> {
    let app = &context.app;
    let (lease, is_registered) = (context.runs.lease(), context.runs.is_registered());
    let (local_now, name) = (app.clock.now(), lease.name.clone());
    let models = model_offers::offered_models_json(app);
    let callers = app.server.name().to_owned();
    if !is_registered {
        // The lock is taken before the row is written, so that a kill right after the commit is
        // noticed at once.
        lease.begin(&app.store);
        let lock = || app.store.lock_process(&callers);
        context.callers_lock.get_or_init(lock);
    }
    // Read before the request is sent. The database counts from a later moment, so this process
    // never considers its lease valid for longer than others do.
    let sent_at = Instant::now();
    let (is_kept, database_now, has_lapsed) = app
        .store
        .write_heartbeat(move |conn| -> Result<(bool, Timestamp, bool), StoreError> {
            let database_now = store::workers::now(conn, local_now)?;
            let until = database_now.plus(LEASE);
            store::workers::register(conn, &callers, until)?;
            if !is_registered {
                store::workers::register(conn, &name, until)?;
            } else if !store::workers::prolong(conn, &name, until)? {
                return Ok((false, database_now, false));
            }
            store::workers::set_models(conn, &name, &models)?;
            // Looked up here, which saves a transaction of its own.
            let has_lapsed = store::workers::any_lapsed(conn, database_now)?;
            Ok((true, database_now, has_lapsed))
        })
        .await?;
    context
        .streak
        .has_lapsed
        .store(has_lapsed, Ordering::Relaxed);
    // The slower the answer, the less accurate is the measured difference of the clocks.
    if sent_at.elapsed() < MAX_SYNC_LATENCY {
        app.clock.sync_to_database(local_now, database_now);
    }
    app.server.prove(sent_at + LEASE);
    if is_kept {
        lease.extend(sent_at + LEASE);
    }
    Ok(is_kept)
}

/// Stops tasks that ended elsewhere, and frees tasks of dead workers.
pub(super) async fn watch_tasks(context: Arc<WorkerContext>) {
    let mut round = 0_u32;
    let mut could_free = false;
    while !context.stop.is_cancelled() {
        context.pause(HEARTBEAT).await;
        round = round.wrapping_add(1);
        // After an outage of the database all leases have expired. Only a process whose heartbeats
        // have worked for a while may declare others dead.
        let may_free = context.streak.length() >= MIN_STREAK && context.runs.lease().is_valid();
        // A released file lock is sufficient proof, regardless of the heartbeats.
        declare_dead(&context).await;
        let checks = async {
            stop_ended(&context).await?;
            if may_free {
                free_lapsed(&context, !could_free).await?;
            }
            if round.is_multiple_of(COMPARE_EVERY) {
                compare(&context).await?;
                correct_far_tasks(&context).await?;
            }
            if round % CHECK_DELIVERIES_EVERY == COMPARE_EVERY {
                correct_far_deliveries(&context).await?;
            }
            Ok::<(), Error>(())
        };
        match checks.await {
            Ok(()) => could_free = may_free,
            Err(error) => {
                tracing::warn!(inside = ?error.internal_cause(), "cannot check for abandoned tasks");
            }
        }
    }
}

async fn stop_ended(context: &WorkerContext) -> Result<(), Error> {
    if context.runs.is_empty() {
        return Ok(());
    }
    let since = context.app.clock.now().minus(LOOK_BACK);
    let ended = context
        .app
        .store
        .read(move |conn| store::tasks::ended_since(conn, since))
        .await?;
    context.runs.stop_all(&ended);
    Ok(())
}

/// Frees the tasks of processes of this machine that were certainly killed: without waiting for
/// their leases to expire.
pub(super) async fn declare_dead(context: &WorkerContext) {
    if let Err(error) = try_free_dead(context).await {
        tracing::warn!(%error, "cannot release the tasks of a killed process; its lease will expire");
    }
}

async fn try_free_dead(context: &WorkerContext) -> Result<(), StoreError> {
    let store = &context.app.store;
    if !store.has_process_locks() {
        return Ok(());
    }
    let now = context.app.clock.now();
    let mut names = store.read(store::workers::live_workers).await?;
    names.retain(|name| store.is_process_dead(name));
    if names.is_empty() {
        return Ok(());
    }
    let freed = store.write(move |conn| -> Result<u64, StoreError> {
        let mut freed = 0;
        for name in &names {
            freed += store::workers::declare_dead(conn, name, now)?;
        }
        Ok(freed)
    });
    report_freed(context, freed.await?);
    Ok(())
}

fn report_freed(context: &WorkerContext, tasks: u64) {
    if tasks > 0 {
        tracing::warn!(tasks, "the tasks of a dead worker were released");
        context.app.bell.ring_for_work();
        context.app.bell.ring_for_upstream();
    }
}

/// Frees the tasks of expired workers; with `with_unknown`, also tasks of unknown workers.
async fn free_lapsed(context: &WorkerContext, with_unknown: bool) -> Result<(), Error> {
    let store = &context.app.store;
    let local_now = context.app.clock.now();
    let (lease, callers) = (context.runs.lease(), context.app.server.name().to_owned());
    let has_lapsed = context.streak.has_lapsed.load(Ordering::Relaxed);
    if !has_lapsed && !with_unknown {
        return Ok(());
    }
    let freed = store
        .write(move |conn| -> Result<u64, Error> {
            let now = store::workers::now(conn, local_now)?;
            // This process extends its own lease first. Otherwise it would free its own tasks if
            // the clock was just set forward.
            if !store::workers::prolong(conn, &lease.name, now.plus(LEASE))? {
                return Ok(0);
            }
            store::workers::register(conn, &callers, now.plus(LEASE))?;
            let mut freed = store::workers::free_lapsed(conn, now)?;
            if with_unknown {
                freed += store::workers::free_unknown(conn)?;
            }
            Ok(freed)
        })
        .await?;
    report_freed(context, freed);
    Ok(())
}

/// Releases tasks under our lease that do not run here, and stops those that we run but no longer
/// hold.
async fn compare(context: &WorkerContext) -> Result<(), Error> {
    let lease = context.runs.lease();
    let Some(snapshot) = context.runs.snapshot() else {
        return Ok(());
    };
    let holdings = lease_holdings(context, &lease).await?;
    // Something was claimed after the snapshot, so the two do not match. The next round compares
    // again.
    if !context.runs.is_current(&snapshot) {
        return Ok(());
    }
    snapshot.stop_unheld(&lease, &holdings);
    let tasks = snapshot.forgotten_tasks(&holdings, &context.runs);
    let strays: Vec<_> = snapshot.forgotten_strays(&holdings).collect();
    if tasks.is_empty() && strays.is_empty() {
        return Ok(());
    }
    tracing::warn!(
        tasks = tasks.len(),
        strays = strays.len(),
        "this process holds tasks that it is not running; releasing them"
    );
    let (name, now) = (lease.name.clone(), context.app.clock.now());
    context
        .app
        .store
        .write(move |conn| -> Result<(), StoreError> {
            for id in tasks {
                store::submissions::release_strays_of_task(conn, id, &name, now)?;
                store::tasks::release(conn, id, &name, now)?;
            }
            for id in strays {
                store::submissions::release_from_follower(conn, id, &name, now)?;
            }
            Ok(())
        })
        .await?;
    context.app.bell.ring_for_work();
    context.app.bell.ring_for_upstream();
    Ok(())
}

async fn lease_holdings(context: &WorkerContext, lease: &Lease) -> Result<LeaseHoldings, Error> {
    let name = lease.name.clone();
    context
        .app
        .store
        .long_read(move |conn| -> Result<_, Error> {
            let tasks: HashSet<_> = store::tasks::held_by(conn, &name)?.into_iter().collect();
            let strays = store::submissions::strays_of(conn, &name)?;
            Ok(LeaseHoldings { tasks, strays })
        })
        .await
}

/// Makes webhooks due now whose due time is impossibly far ahead. A late due time alone proves
/// nothing, because a receiver may have asked for a pause of hours.
async fn correct_far_deliveries(context: &WorkerContext) -> Result<(), Error> {
    let now = context.app.clock.now();
    let after = now.plus(MAX_CLOCK_DIFFERENCE);
    let moved = context
        .app
        .store
        .write(move |conn| store::webhooks::deliveries::pull_forward(conn, after, now));
    let moved = moved.await?;
    if moved > 0 {
        tracing::warn!(
            deliveries = moved,
            "a clock was set back: webhooks postponed too far are due now"
        );
        context.app.bell.ring_for_deliveries();
    }
    Ok(())
}

/// Makes tasks due now whose due time is impossibly far ahead.
async fn correct_far_tasks(context: &WorkerContext) -> Result<(), Error> {
    let now = context.app.clock.now();
    let limit = now.plus(MAX_POSTPONEMENT);
    let has_far_task = context
        .app
        .store
        .long_read(move |conn| -> Result<bool, Error> {
            Ok(store::tasks::any_due_after(conn, limit)?
                || store::submissions::any_stray_due_after(conn, limit)?)
        });
    if !has_far_task.await? {
        return Ok(());
    }
    let moved = context
        .app
        .store
        .write(move |conn| -> Result<u64, StoreError> {
            let tasks = store::tasks::pull_forward(conn, limit, now)?;
            Ok(tasks + store::submissions::pull_strays_forward(conn, limit, now)?)
        })
        .await?;
    tracing::warn!(
        tasks = moved,
        "a clock was set back: tasks postponed too far are due now"
    );
    context.app.bell.ring_for_work();
    context.app.bell.ring_for_upstream();
    Ok(())
}
