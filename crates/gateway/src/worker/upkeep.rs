//! What has to happen now and then: media whose time is over is removed, and
//! files that nothing refers to; counts are summed up.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::domain::{intents, ledger};
use crate::error::Error;
use crate::store;
use crate::telemetry;
use crate::worker::upstream;

/// How often expired media is looked for.
const MEDIA: Duration = Duration::from_secs(10);
/// How often the ledger is checked against what it sums up to.
const LEDGER: Duration = Duration::from_hours(1);
/// How often money is looked for that is held for nothing.
const LEFT_OVER: Duration = Duration::from_secs(5);
/// How often submissions are looked for that nobody knows the outcome of.
const UNCLEAR: Duration = Duration::from_secs(15);
/// How often intents are forgotten whose time is over.
const INTENTS: Duration = Duration::from_mins(5);
/// How often files without a record are looked for.
const ORPHANS: Duration = Duration::from_hours(6);
/// Age from which a file without a record is not merely on its way to one.
const ORPHAN_AGE: Duration = Duration::from_hours(24);

/// Runs the upkeep until told to stop.
pub(super) async fn run(app: App, stop: CancellationToken) {
    let mut media = tokio::time::interval(MEDIA);
    let mut orphans = tokio::time::interval(ORPHANS);
    let mut ledger = tokio::time::interval(LEDGER);
    let mut left_over = tokio::time::interval(LEFT_OVER);
    let mut unclear = tokio::time::interval(UNCLEAR);
    let mut intents = tokio::time::interval(INTENTS);
    let mut counts = tokio::time::interval(telemetry::METRICS_UPKEEP);
    loop {
        let done = tokio::select! {
            _ = counts.tick() => {
                telemetry::keep_metrics();
                Ok(())
            }
            _ = media.tick() => remove_expired_media(&app).await,
            _ = orphans.tick() => sweep_orphans(&app).await,
            _ = ledger.tick() => check_ledger(&app).await,
            _ = left_over.tick() => upstream::release_left_over(&app).await,
            _ = unclear.tick() => upstream::look_again(&app).await,
            _ = intents.tick() => intents::forget_old(&app).await,
            () = stop.cancelled() => return,
        };
        if let Err(error) = done {
            tracing::error!(inside = ?error.inside(), "upkeep failed; it is tried again later");
        }
    }
}

/// Checks the ledger and says what does not add up; repairs nothing.
pub(super) async fn check_ledger(app: &App) -> Result<(), Error> {
    let wrong = ledger::verify(app).await?;
    for mismatch in &wrong {
        tracing::error!(what = mismatch.what, id = %mismatch.id, why = %mismatch.why, "the money does not add up");
    }
    telemetry::ledger_checked(wrong.len());
    let count = u32::try_from(wrong.len()).unwrap_or(u32::MAX);
    app.mismatches.store(count, Ordering::Relaxed);
    Ok(())
}

/// Removes the files whose time is over; their records say so from then on.
pub async fn remove_expired_media(app: &App) -> Result<(), Error> {
    loop {
        let now = app.clock.now();
        let expired = app
            .store
            .read(move |conn| store::assets::expired(conn, now).map_err(Error::from))
            .await?;
        if expired.is_empty() {
            return Ok(());
        }
        for asset in expired {
            // The file first: a crash in between is mended by the next round.
            app.blobs.delete(asset.id, asset.media).await?;
            app.store
                .write(move |conn| {
                    store::assets::mark_removed(conn, asset.id, now).map_err(Error::from)
                })
                .await?;
            tracing::info!(asset_id = %asset.id, "media removed: its time was over");
        }
    }
}

/// Removes files that a crash left without a record, and uploads it cut off.
pub async fn sweep_orphans(app: &App) -> Result<(), Error> {
    let spool = app.config.spool_path();
    app.compute(move || remove_old_files(&spool))
        .await?
        .map_err(Error::internal)?;
    for (id, media) in app
        .blobs
        .written_before(app.clock.now().minus(ORPHAN_AGE))
        .await?
    {
        let known = app
            .store
            .read(move |conn| store::assets::by_id(conn, id).map_err(Error::from))
            .await?;
        if known.is_none() {
            app.blobs.delete(id, media).await?;
            tracing::info!(asset_id = %id, "file removed: nothing refers to it");
        }
    }
    Ok(())
}

fn remove_old_files(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
        if age > ORPHAN_AGE {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
