//! Periodic jobs: expired media and orphaned files are removed, the ledger is checked, counts are
//! aggregated.
//!
//! Each kind runs on its own, so that a slow or failing one does not delay others. Upkeep of the
//! database or the files is done by one process of the cluster: the first that finds it due.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{deliver, upstream};
use mediagate_core::app::App;
use mediagate_core::domain::provenance::post_processing;
use mediagate_core::domain::{
    audit, keys, ledger, moderation, readiness, request_log, route_states, routes, settings_drift,
    tasks, webhooks,
};
use mediagate_media::engines::child::ChildWork;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_store::upkeep::UpkeepLease;
use mediagate_store::{self as store, StoreError};
use mediagate_telemetry::counters;

/// How long a process that died prevents others from doing a kind of upkeep.
const LEASE: Duration = Duration::from_secs(15);
/// Longest pause between checks of whether a kind is due.
const MAX_CHECK_INTERVAL: Duration = Duration::from_mins(1);
/// How often to query the database for the state of its standby.
const STANDBY_INTERVAL: Duration = Duration::from_secs(10);
/// How often to record which keys were used.
const KEY_USAGE_INTERVAL: Duration = Duration::from_secs(2);
/// How often to read which routes are paused.
const ROUTE_STATE_INTERVAL: Duration = Duration::from_secs(1);
/// Age from which a file without a record is an orphan. A younger one may be about to get its
/// record.
const ORPHAN_AGE: Duration = Duration::from_hours(24);

/// How long the file of an expired asset is kept after the asset was removed from its owner.
const DELETE_DELAY: Duration = Duration::from_hours(24);

/// Maximum number of batches in one run.
const MAX_BATCHES: u32 = 20;

/// For how long after `ORPHAN_AGE` a file is examined. An older file was examined already, unless
/// no upkeep was done for this long.
const SWEPT_AGE: Duration = Duration::from_hours(6 * 24);

/// Upkeep that is done once for the whole cluster.
#[derive(Debug, Clone, Copy)]
enum UpkeepJob {
    /// Removes expired media.
    Media,
    /// Removes files without a record.
    Orphans,
    /// Verifies the ledger.
    Ledger,
    /// Releases money that is still reserved although nothing needs it.
    LeftoverMoney,
    /// Cancels unsent tasks of keys that have ended.
    EndedKeys,
    /// Ends tasks that nobody approved in time.
    Approvals,
    /// Looks for the jobs of submissions with an unknown outcome.
    UnclearSubmissions,
    /// Removes expired intents.
    Intents,
    /// Removes records of old tasks.
    Records,
    /// Removes records of old webhooks.
    Webhooks,
    /// Removes old entries of accounts' audit logs, and old sums of verdicts.
    AccountLogs,
    /// Removes old entries of the log of requests.
    RequestLog,
    /// Examines films from providers that have not been examined yet.
    Films,
    /// Stores the latest trusted time.
    PersistTime,
}

impl UpkeepJob {
    const ALL: &[Self] = &[
        Self::Media,
        Self::Orphans,
        Self::Ledger,
        Self::LeftoverMoney,
        Self::EndedKeys,
        Self::Approvals,
        Self::UnclearSubmissions,
        Self::Intents,
        Self::Records,
        Self::Webhooks,
        Self::AccountLogs,
        Self::RequestLog,
        Self::Films,
        Self::PersistTime,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Media => "media",
            Self::Orphans => "orphans",
            Self::Ledger => "ledger",
            Self::LeftoverMoney => "left-over",
            Self::EndedKeys => "ended-keys",
            Self::Approvals => "approvals",
            Self::UnclearSubmissions => "unclear",
            Self::Intents => "intents",
            Self::Records => "records",
            Self::Webhooks => "webhooks",
            Self::AccountLogs => "account-logs",
            Self::RequestLog => "request-log",
            Self::Films => "films",
            Self::PersistTime => "time",
        }
    }

    fn interval(self, app: &App) -> Duration {
        match self {
            Self::Media => Duration::from_secs(10),
            Self::Orphans => Duration::from_hours(6),
            Self::Ledger => Duration::from_hours(1),
            Self::LeftoverMoney | Self::EndedKeys | Self::Approvals => Duration::from_secs(5),
            Self::UnclearSubmissions => Duration::from_secs(15),
            Self::Intents | Self::Webhooks => Duration::from_mins(5),
            Self::AccountLogs => half_of(app.config.audit_ttl),
            Self::RequestLog => half_of(app.config.requests_ttl),
            Self::PersistTime => MAX_CHECK_INTERVAL,
            Self::Films => Duration::from_secs(2),
            Self::Records => half_of(app.config.record_ttl.unwrap_or(MAX_CHECK_INTERVAL)),
        }
    }

    async fn work(self, app: &App) -> Result<(), Error> {
        match self {
            Self::Media => remove_expired_media(app).await,
            Self::Orphans => sweep_orphans(app).await,
            Self::Ledger => ledger::check_recent(app).await,
            Self::LeftoverMoney => upstream::release_left_over(app).await,
            Self::EndedKeys => keys::cancel_left_over(app).await,
            Self::Approvals => tasks::end_expired_approvals(app).await,
            Self::UnclearSubmissions => upstream::recheck_unclear(app).await,
            Self::Intents => app.intents.forget_old().await,
            Self::Records => tasks::remove_expired(app).await,
            Self::Webhooks => {
                webhooks::delivery_log::forget_old(app).await?;
                webhooks::callbacks::encrypt_earlier(app).await
            }
            Self::AccountLogs => {
                audit::forget_old(app).await?;
                moderation::forget_old(app).await
            }
            Self::RequestLog => request_log::forget_old(app).await,
            Self::Films => post_processing::examine_films(app).await,
            Self::PersistTime => persist_time(app).await,
        }
    }
}

/// The interval at which records with this lifetime are looked for.
fn half_of(ttl: Duration) -> Duration {
    (ttl / 2).clamp(Duration::from_secs(1), MAX_CHECK_INTERVAL)
}

/// Starts the upkeep; it runs until stopped.
pub(super) fn start(app: &App, tracker: &TaskTracker, stop: &CancellationToken) {
    for &kind in UpkeepJob::ALL {
        let (app, stop) = (app.clone(), stop.clone());
        tracker.spawn(async move {
            let mut checks = tokio::time::interval(kind.interval(&app).min(MAX_CHECK_INTERVAL));
            // A run that took long must not be followed by a burst of missed ticks.
            checks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            while !stop.is_cancelled() {
                tokio::select! {
                    () = async { checks.tick().await; run_if_due(&app, kind).await } => {}
                    () = stop.cancelled() => {}
                }
            }
        });
    }
    tracker.spawn(log_requests(app.clone(), stop.clone()));
    let (app, stop) = (app.clone(), stop.clone());
    tracker.spawn(async move {
        let mut metrics_timer = tokio::time::interval(counters::METRICS_UPKEEP);
        let mut spool_timer = tokio::time::interval(UpkeepJob::Orphans.interval(&app));
        let mut standby_timer = tokio::time::interval(STANDBY_INTERVAL);
        let mut key_usage_timer = tokio::time::interval(KEY_USAGE_INTERVAL);
        let mut published_states = Vec::new();
        let mut route_timer = tokio::time::interval(ROUTE_STATE_INTERVAL);
        route_timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = route_timer.tick() => {
                    refresh_routes(&app).await;
                    let states = route_states::own_states(&app);
                    // Operators may query this process's routes at any process, so changes are
                    // published at once.
                    if states != published_states {
                        compare_settings(&app).await;
                        published_states = states;
                    }
                }
                _ = key_usage_timer.tick() => {
                    if let Err(error) = keys::note_uses(&app).await {
                        tracing::warn!(inside = ?error.internal_cause(), "cannot record when keys were last used");
                    }
                }
                _ = standby_timer.tick() => {
                    tokio::join!(readiness::note_durability(&app), app.blobs.probe());
                    compare_settings(&app).await;
                }
                _ = metrics_timer.tick() => {
                    counters::run_upkeep();
                    for &work in ChildWork::ALL {
                        counters::child_oldest(work.name(), app.engines.oldest(work));
                    }
                    deliver::count(&app).await;
                    tasks::count_waiting(&app).await;
                }
                _ = spool_timer.tick() => log_failure(UpkeepJob::Orphans, sweep_spool(&app).await),
                () = stop.cancelled() => return,
            }
        }
    });
}

/// Writes the entries of the log of requests, and at the end those that are left: the server stops
/// before the workers do.
async fn log_requests(app: App, stop: CancellationToken) {
    loop {
        let is_last = tokio::select! {
            () = tokio::time::sleep(request_log::WRITE_INTERVAL) => false,
            () = stop.cancelled() => true,
        };
        if let Err(error) = request_log::write_waiting(&app).await {
            tracing::warn!(inside = ?error.internal_cause(), "cannot write the log of requests; trying again later");
        }
        if is_last {
            return;
        }
    }
}

/// Reads which routes are paused and whose keys are refused.
pub(super) async fn refresh_routes(app: &App) {
    if app.models.upstream.sites().is_empty() {
        return;
    }
    if let Err(error) = routes::refresh(app).await {
        tracing::warn!(inside = ?error.internal_cause(), "cannot read which routes are paused");
    }
}

async fn compare_settings(app: &App) {
    if let Err(error) = settings_drift::compare(app).await {
        tracing::warn!(inside = ?error.internal_cause(), "cannot compare the settings with other processes");
    }
}

/// Does this kind of upkeep if it is due and no other process is doing it.
async fn run_if_due(app: &App, kind: UpkeepJob) {
    // These kinds are due every few seconds. Acquiring the lease is a write, and usually there is
    // nothing to do.
    if matches!(kind, UpkeepJob::Films) && !post_processing::is_any_due(app).await {
        return;
    }
    if matches!(kind, UpkeepJob::EndedKeys) && !keys::has_left_over(app).await {
        return;
    }
    if matches!(kind, UpkeepJob::Approvals) && !tasks::has_expired_approvals(app).await {
        return;
    }
    let interval = kind.interval(app);
    // At most half the interval, so that a process that dies delays the next run only a little.
    let lease_time = LEASE.min(interval / 2);
    let acquired = app
        .store
        .write_unsynced(move |conn| store::upkeep::acquire(conn, kind.name(), lease_time));
    match acquired.await {
        Ok(Some(lease)) => {
            // On the heap, because it contains the work of every kind.
            let run = run_extending_lease(app, lease, lease_time, work(app, kind));
            let lease = Box::pin(run).await;
            // Due a little before the next check. A frequent kind needs no second write: its lease
            // has expired by then.
            let pause = interval.saturating_sub(interval.min(MAX_CHECK_INTERVAL) / 2);
            if let Some(lease) = lease.filter(|_| pause > lease_time) {
                log_failure(kind, postpone(app, lease, pause).await.map(|_| ()));
            }
        }
        Ok(None) => {}
        Err(error) => log_failure(kind, Err(error.into())),
    }
    if matches!(kind, UpkeepJob::Ledger) {
        log_failure(kind, ledger::update_metrics(app).await);
    }
}

async fn work(app: &App, kind: UpkeepJob) {
    log_failure(kind, kind.work(app).await);
}

/// Runs the work and keeps extending the lease. Returns `None` if the lease was lost.
async fn run_extending_lease(
    app: &App,
    mut lease: UpkeepLease,
    lease_time: Duration,
    work: impl Future<Output = ()>,
) -> Option<UpkeepLease> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            () = &mut work => return Some(lease),
            () = tokio::time::sleep(lease_time / 3) => match postpone(app, lease, lease_time).await {
                // If another process has the lease, dropping the work prevents both from doing it
                // at the same time.
                Ok(extended) => lease = extended?,
                Err(error) => tracing::warn!(inside = ?error.internal_cause(), "cannot extend the upkeep lease"),
            },
        }
    }
}

async fn postpone(
    app: &App,
    lease: UpkeepLease,
    pause: Duration,
) -> Result<Option<UpkeepLease>, Error> {
    Ok(app
        .store
        .write_unsynced(move |conn| store::upkeep::postpone(conn, &lease, pause))
        .await?)
}

fn log_failure(kind: UpkeepJob, result: Result<(), Error>) {
    if let Err(error) = result {
        tracing::error!(kind = kind.name(), inside = ?error.internal_cause(), "upkeep failed; trying again later");
    }
}

/// Removes expired files from their owners, and deletes files that were removed a day ago, or that
/// their owners deleted. If the clock has jumped far, nothing is removed: see [`Clock::cutoff`].
///
/// [`Clock::cutoff`]: mediagate_model::clock::Clock::cutoff
pub async fn remove_expired_media(app: &App) -> Result<(), Error> {
    // While the folder is missing, its files are unavailable, not expired, so they are not removed
    // from their owners.
    if !app.blobs.has_folder().await {
        return Err(Error::internal(
            "the media folder is missing, so no expired media is removed",
        ));
    }
    if !app.clock.is_settled() {
        return Ok(());
    }
    let now = app.clock.steady();
    // This comes first, so that files removed because of a wrong clock are not deleted below.
    restore_early_media(app, now).await?;
    for _ in 0..MAX_BATCHES {
        let expired = app
            .store
            .read(move |conn| store::assets::expired(conn, now))
            .await?;
        if expired.is_empty() {
            break;
        }
        let ids: Vec<_> = expired.iter().map(|asset| asset.id).collect();
        app.store
            .write(move |conn| -> Result<(), StoreError> {
                for id in ids {
                    store::assets::mark_removed(conn, id, now, now.plus(DELETE_DELAY))?;
                }
                Ok(())
            })
            .await?;
        for asset in expired {
            tracing::info!(asset_id = %asset.id, "expired media removed");
        }
    }
    delete_removed_media(app, now).await
}

/// Restores files that were removed before their time.
async fn restore_early_media(app: &App, now: Timestamp) -> Result<(), Error> {
    // This is checked every few seconds, and nearly always there is nothing to do, so the check
    // does not write.
    let has_early_removal = app
        .store
        .read(move |conn| store::assets::any_removed_early(conn, now));
    if !has_early_removal.await? {
        return Ok(());
    }
    let files = app
        .store
        .write(move |conn| store::assets::restore_early(conn, now))
        .await?;
    tracing::warn!(
        files,
        "media restored: a clock that was ahead had removed it"
    );
    Ok(())
}

async fn delete_removed_media(app: &App, now: Timestamp) -> Result<(), Error> {
    for _ in 0..MAX_BATCHES {
        let assets = app
            .store
            .read(move |conn| store::assets::deletable(conn, now))
            .await?;
        if assets.is_empty() {
            break;
        }
        let files: Vec<_> = assets.iter().map(|asset| (asset.id, asset.media)).collect();
        // The files are deleted first: after a crash in between, the next round updates the
        // records.
        app.blobs.delete_all(&files).await?;
        app.store
            .write(move |conn| -> Result<(), StoreError> {
                for (id, _) in files {
                    store::assets::mark_deleted(conn, id)?;
                }
                Ok(())
            })
            .await?;
    }
    Ok(())
}

/// Stores the latest trusted time, because the next start cannot know how long the gateway was down
/// or whether its clock is right. Logs if the clock has jumped.
async fn persist_time(app: &App) -> Result<(), Error> {
    let steady = app.clock.steady();
    let ahead = app.clock.drift();
    counters::clock_ahead(ahead);
    if !app.clock.is_settled() {
        tracing::error!(
            ahead_seconds = ahead.as_seconds(),
            "the clock has jumped: it was set, or the gateway was down; nothing is deleted because of its age until the clock is trusted again"
        );
    }
    Ok(app
        .store
        .write(move |conn| store::meta::advance_steady(conn, steady))
        .await?)
}

/// Removes uploads, and folders of children, left by a crash of this process's predecessor.
pub async fn sweep_spool(app: &App) -> Result<(), Error> {
    let spool = app.config.spool_path();
    if !app.clock.is_settled() {
        return Ok(());
    }
    app.compute(move || remove_old_files(&spool, ORPHAN_AGE))
        .await?
        .map_err(Error::internal)
}

/// Removes files that a crash left without a record. Only the recent files of each folder are
/// examined, so the work does not grow with the archive.
pub async fn sweep_orphans(app: &App) -> Result<(), Error> {
    const FILES_AT_ONCE: usize = 100;
    if !app.clock.is_settled() {
        return Ok(());
    }
    let to = app.clock.cutoff(ORPHAN_AGE);
    let from = to.minus(SWEPT_AGE);
    for folder in 0..=u8::MAX {
        for files in app
            .blobs
            .made_between(folder, from, to)
            .await?
            .chunks(FILES_AT_ONCE)
        {
            let ids: Vec<_> = files.iter().map(|(id, _)| *id).collect();
            let existing_ids = app
                .store
                .read(move |conn| store::assets::existing_ids(conn, &ids))
                .await?;
            let mut orphans = files.to_vec();
            orphans.retain(|(id, _)| !existing_ids.contains(id));
            if orphans.is_empty() {
                continue;
            }
            app.blobs.delete_all(&orphans).await?;
            for (id, _) in orphans {
                tracing::info!(asset_id = %id, "unreferenced file removed");
            }
        }
    }
    Ok(())
}

/// Removes files older than `oldest`, by this machine's own clock, as the file system uses it. A
/// file's age counts from the last change of its metadata, so a new hard link makes an old film
/// new.
fn remove_old_files(folder: &Path, oldest: Duration) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        match remove_if_old(&entry?, oldest) {
            // The work that it belongs to has removed it meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    Ok(())
}

fn remove_if_old(entry: &std::fs::DirEntry, oldest: Duration) -> std::io::Result<()> {
    let metadata = entry.metadata()?;
    let seconds = u64::try_from(metadata.ctime()).unwrap_or(0);
    let changed_at = UNIX_EPOCH + Duration::from_secs(seconds);
    if changed_at.elapsed().unwrap_or_default() <= oldest {
        return Ok(());
    }
    if metadata.is_dir() {
        std::fs::remove_dir_all(entry.path())
    } else {
        std::fs::remove_file(entry.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_name_of_an_old_file_is_not_old() {
        let (media, spool) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (film, link) = (media.path().join("film.mp4"), spool.path().join("film"));
        std::fs::write(&film, "film").unwrap();
        let file = std::fs::File::options().write(true).open(&film).unwrap();
        file.set_modified(UNIX_EPOCH).unwrap();
        std::fs::hard_link(&film, &link).unwrap();
        remove_old_files(spool.path(), ORPHAN_AGE).unwrap();
        assert!(link.exists());
        remove_old_files(spool.path(), Duration::ZERO).unwrap();
        assert_eq!((link.exists(), film.exists()), (false, true));
    }
}
