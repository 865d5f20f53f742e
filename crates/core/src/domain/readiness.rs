//! Readiness of this process to serve.

use std::time::{Duration, Instant};

use crate::app::{App, Ctx};
use mediagate_config::{DatabaseTarget, Durability};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_store::StoreError;
use mediagate_telemetry::counters;

/// How long the database may be silent while this process still counts as ready.
const MAX_SILENCE: Duration = Duration::from_secs(30);
/// Timeout of each check here.
const CHECK_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long a result is reused: writing has a cost.
const WRITABLE_TTL: Duration = Duration::from_secs(2);
/// Written to see whether the data folder has space.
static PROBE_BYTES: [u8; 64 * 1024] = [0; 64 * 1024];

/// The parts that are unavailable while this process can still serve; an error if it cannot.
pub async fn check(app: &App) -> Result<Vec<&'static str>, Error> {
    if app.process.draining.is_cancelled() || app.process.closing.is_cancelled() {
        return Err(Error::shutting_down());
    }
    let (answers, writable, has_folder) = tokio::join!(
        database_answers(app),
        is_writable(app),
        has_media_folder(app)
    );
    if !has_folder {
        return Err(unready(
            "The media folder is missing or was replaced by another one. No files are lost: the gateway serves and stores \
             files again when the folder is back.",
        ));
    }
    if !answers {
        // A fail-over takes some seconds. If every replica reported itself as not ready meanwhile,
        // callers would not even get an error that says when to retry.
        if app.store.time_since_answer() > MAX_SILENCE {
            return Err(unready("The database does not respond."));
        }
        let media = app.blobs.is_unavailable().then_some("media");
        return Ok(["database"].into_iter().chain(media).collect());
    }
    if !writable {
        return Err(unready(
            "The disk cannot be written to: it is full or failing.",
        ));
    }
    if app.config.durability == Durability::Replicated && !is_replicated(app).await {
        return Err(unready("The database has no synchronous standby."));
    }
    Ok(app
        .blobs
        .is_unavailable()
        .then_some("media")
        .into_iter()
        .collect())
}

/// The unavailable parts, both those that [`check`] returned and optional ones, each with the time
/// at which it became unavailable.
pub fn unavailable_parts(
    app: &App,
    unavailable: &[&'static str],
) -> Vec<(&'static str, Timestamp)> {
    let now = app.clock.now();
    let unavailable = unavailable.iter().map(|name| {
        let media = app.blobs.unavailable_since().filter(|_| *name == "media");
        let silence = media.map_or_else(|| app.store.time_since_answer(), |since| since.elapsed());
        (*name, now.minus(silence))
    });
    let mut parts: Vec<_> = unavailable.collect();
    let bell_silent_since = app.bell.silent_since();
    parts.extend(bell_silent_since.map(|since| ("bell", now.minus(since.elapsed()))));
    parts
}

/// Updates the metric that says whether losing the database's machine would lose no data.
pub async fn note_durability(app: &Ctx) {
    counters::set_durability(match app.config.durability {
        Durability::Assumed => true,
        Durability::Local | Durability::Replicated => is_replicated(app).await,
    });
}

async fn database_answers(app: &Ctx) -> bool {
    matches!(
        tokio::time::timeout(CHECK_TIMEOUT, app.store.ping()).await,
        Ok(Ok(()))
    )
}

/// Whether the database and the data folder accept writes.
async fn is_writable(app: &App) -> bool {
    // Locked while the probe runs, so that simultaneous checks share its result.
    let mut cached = app.process.writable.lock().await;
    if let Some((at, is_writable)) = *cached
        && at.elapsed() < WRITABLE_TTL
    {
        return is_writable;
    }
    let is_writable = has_room(app).await && takes_writes(app).await;
    *cached = Some((Instant::now(), is_writable));
    is_writable
}

async fn has_media_folder(app: &App) -> bool {
    let has_folder = tokio::time::timeout(CHECK_TIMEOUT, app.blobs.has_folder()).await;
    // A slow folder is not a missing one.
    has_folder.unwrap_or_else(|_| !app.blobs.is_unavailable())
}

/// Whether the database accepts writes. A server that accepted the last write is not tested
/// again.
async fn takes_writes(app: &Ctx) -> bool {
    if app.config.database != DatabaseTarget::Sqlite && app.store.takes_writes() {
        return true;
    }
    match tokio::time::timeout(CHECK_TIMEOUT, app.store.probe()).await {
        Ok(Ok(())) => true,
        // A slow database is not a full one.
        Ok(Err(StoreError::InDoubt | StoreError::TimedOut | StoreError::Busy)) | Err(_) => {
            app.store.takes_writes()
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "cannot write to the database");
            false
        }
    }
}

async fn has_room(app: &App) -> bool {
    let folder = app.config.spool_path();
    let write = app.compute(move || -> std::io::Result<()> {
        let mut file = tempfile::tempfile_in(folder)?;
        std::io::Write::write_all(&mut file, &PROBE_BYTES)
    });
    match tokio::time::timeout(CHECK_TIMEOUT, write).await {
        Ok(Ok(Ok(()))) | Err(_) => true,
        Ok(Ok(Err(error))) => {
            tracing::warn!(%error, "cannot write to the data folder");
            false
        }
        Ok(Err(_)) => false,
    }
}

async fn is_replicated(app: &Ctx) -> bool {
    let replicated = tokio::time::timeout(CHECK_TIMEOUT, app.store.is_replicated()).await;
    matches!(replicated, Ok(Ok(true)))
}

fn unready(message: &str) -> Error {
    Error::retry_later(ErrorCode::Overloaded, message, 2)
}
