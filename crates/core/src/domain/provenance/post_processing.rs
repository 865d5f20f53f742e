//! Post-processing of films that providers made, once their tasks are over: their fingerprints, and
//! a poster of each.
//!
//! It takes a child process, so no caller waits for it; one child examines many films. A film stays
//! on the list until it has been examined or given up. If the database, the files or the start of
//! the child fails, the film is skipped and retried after increasing pauses. A film that is given
//! up is identified by its digest alone.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempPath;

use super::marking::{self, MarkError, SigningFacts};
use crate::app::App;
use crate::domain::assets::{self, AssetLifetime};
use crate::limits::{WorkKind, WorkSlot};
use mediagate_media::engines::child;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, AssetId};
use mediagate_model::media::{Asset, MediaType};
use mediagate_model::provenance::{PerceptualFingerprint, ResultFingerprint};
use mediagate_model::task::{Task, TaskResult, VideoOutput};
use mediagate_store as store;

/// Maximum number of films that are read from the list at once, and examined by one child.
const BATCH: u32 = 20;
/// A child gets no further film once its films have this total size: with a bucket, they have to be
/// fetched.
const MAX_FETCHED_BYTES: u64 = 256 << 20;
/// Maximum number of films per run, so that shutdown is not delayed.
const MAX_FILMS: usize = 100;
/// Memory of a child that examines one film: some frames of 4K.
const SCAN_MEMORY_BYTES: u64 = 128 << 20;

/// How many times a process tries to examine a film, and the pause after the first failure. Each
/// further pause is four times as long, so the last attempt is about six hours after the first.
const MAX_TRIES: u32 = 6;
const FIRST_RETRY_PAUSE: Duration = Duration::from_mins(1);

/// Examines the latest films that were not examined yet.
pub async fn examine_films(app: &App) -> Result<(), Error> {
    // Without the folder every film would count as failed, and finally be given up.
    if !app.blobs.has_folder().await {
        return Ok(());
    }
    let (mut cursor, mut examined) = (None, 0);
    while examined < MAX_FILMS {
        let films = due(app, &mut cursor).await?;
        if films.is_empty() {
            break;
        }
        examined += films.len();
        let mut films = films.into_iter().peekable();
        while films.peek().is_some() {
            if app.process.draining.is_cancelled() {
                return Ok(());
            }
            let batch = fetch(app, &mut films).await?;
            examine(app, batch).await?;
        }
    }
    Ok(())
}

/// A film that is to be examined, and its file.
struct FetchedFilm {
    print: ResultFingerprint,
    file: Arc<TempPath>,
}

/// The next films, as many as one child gets.
async fn fetch(
    app: &App,
    due: &mut impl Iterator<Item = ResultFingerprint>,
) -> Result<Vec<FetchedFilm>, Error> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while bytes < MAX_FETCHED_BYTES
        && let Some(print) = due.next()
    {
        match assets::load_file(app, print.id).await {
            Ok(Some(file)) => {
                bytes += std::fs::metadata(&file).map_or(0, |file| file.len());
                let file = Arc::new(file);
                batch.push(FetchedFilm { print, file });
            }
            // The file is gone, so there is nothing to examine. This takes it off the list.
            Ok(None) => keep(app, &print, PerceptualFingerprint::default(), None).await?,
            Err(error) => record_failed_scan(app, &print, &error).await?,
        }
    }
    Ok(batch)
}

/// Examines films, in one child.
async fn examine(app: &App, films: Vec<FetchedFilm>) -> Result<(), Error> {
    if films.is_empty() {
        return Ok(());
    }
    let engines = app.engines.clone();
    let files: Vec<_> = films.iter().map(|film| film.file.clone()).collect();
    let scan = move |slot: &WorkSlot| {
        let files: Vec<&Path> = files.iter().map(|file| &***file).collect();
        child::scan_films(&engines, &files, slot.watch())
    };
    // The films belong to many accounts, so the work uses no account's turn.
    let (account, media_work) = (AccountId::nobody(), &app.limits.media_work);
    let scanned = media_work
        .work(account, WorkKind::Result, SCAN_MEMORY_BYTES, scan)
        .await;
    match scanned.and_then(|scans| scans.map_err(Error::from)) {
        Ok(scans) => {
            for (film, scan) in films.iter().zip(scans) {
                match store_scan(app, film, scan).await {
                    Ok(()) => app.caches.misses.invalidate(&film.print.id),
                    Err(error) => record_failed_scan(app, &film.print, &error).await?,
                }
            }
        }
        Err(error) => {
            for film in &films {
                record_failed_scan(app, &film.print, &error).await?;
            }
        }
    }
    Ok(())
}

/// Whether there is a film to be examined.
pub async fn is_any_due(app: &App) -> bool {
    due(app, &mut None).await.is_ok_and(|due| !due.is_empty())
}

/// The next films that were not examined yet and are not waiting for a retry; moves `cursor` past
/// them.
async fn due(app: &App, cursor: &mut Option<AssetId>) -> Result<Vec<ResultFingerprint>, Error> {
    loop {
        let from = *cursor;
        let unexamined = app
            .store
            .read(move |conn| store::fingerprints::without_fingerprint(conn, from, BATCH));
        let mut unexamined = unexamined.await?;
        let Some(last) = unexamined.last() else {
            return Ok(unexamined);
        };
        *cursor = Some(last.id);
        let now = app.clock.now();
        let waits_for_retry =
            |id: &AssetId| app.caches.misses.get(id).is_some_and(|(_, at)| at > now);
        unexamined.retain(|print| !waits_for_retry(&print.id));
        if !unexamined.is_empty() {
            return Ok(unexamined);
        }
    }
}

/// Notes that a film could not be examined, and gives it up after the last attempt.
async fn record_failed_scan(
    app: &App,
    print: &ResultFingerprint,
    error: &Error,
) -> Result<(), Error> {
    let misses = &app.caches.misses;
    let tries = misses.get(&print.id).map_or(0, |(tries, _)| tries);
    let cause = error.internal_cause();
    if error.code() == ErrorCode::Overloaded {
        // Not the film's fault, so this is not one of its attempts.
        tracing::warn!(asset_id = %print.id, inside = ?cause, "video analysis must wait");
        misses.insert(print.id, (tries, app.clock.now().plus(FIRST_RETRY_PAUSE)));
        return Ok(());
    }
    let tries = tries + 1;
    if tries < MAX_TRIES {
        tracing::warn!(asset_id = %print.id, tries, inside = ?cause, "video analysis failed; trying again later");
        let pause = FIRST_RETRY_PAUSE * 4u32.pow(tries - 1);
        misses.insert(print.id, (tries, app.clock.now().plus(pause)));
        return Ok(());
    }
    tracing::error!(asset_id = %print.id, tries, inside = ?cause, "video analysis failed; giving up");
    keep(app, print, PerceptualFingerprint::default(), None).await?;
    misses.invalidate(&print.id);
    Ok(())
}

/// Stores the results for a film.
async fn store_scan(
    app: &App,
    film: &FetchedFilm,
    (scan, poster): child::ScannedFilm,
) -> Result<(), Error> {
    let print = &film.print;
    if let Some(reason) = scan.why {
        tracing::info!(asset_id = %print.id, why = %reason, "video frames were not analysed");
    }
    let poster = match (poster, print.task) {
        (Some(poster), Some(id)) => {
            let read = move |conn: &mut store::Conn<'_>| store::tasks::by_id_any_account(conn, id);
            let task = app.store.read(read).await?;
            let task = task.filter(|task| lacks_poster(task, app.clock.now()).is_some());
            match task {
                Some(task) => poster_of(app, &task, poster, film.file.clone()).await?,
                None => None,
            }
        }
        _ => None,
    };
    keep(app, print, scan.kept, poster).await
}

/// A task's video, if it has no poster and has not expired.
fn lacks_poster(task: &Task, now: Timestamp) -> Option<&VideoOutput> {
    match task.output.as_ref()? {
        TaskResult::VideoV1(video) => {
            (video.poster.is_none() && video.expires_at_micros > now.micros()).then_some(video)
        }
        TaskResult::LinkV1(_) | TaskResult::ClipsV1 { .. } => None,
    }
}

/// Signs and stores a poster; `None` if it cannot be signed.
async fn poster_of(
    app: &App,
    task: &Task,
    poster: Vec<u8>,
    film: Arc<TempPath>,
) -> Result<Option<Asset>, Error> {
    let shows_provider = app.models.catalog.load().shows_providers();
    let provider = shows_provider.then(|| task.provider.clone());
    let facts = SigningFacts::of_task(task, &task.id.video(), provider, "");
    let poster = match marking::sign_poster(app, facts, poster, film).await {
        Ok(poster) => Bytes::from(poster),
        Err(MarkError::NotSigned(reason)) => {
            tracing::warn!(task_id = %task.id, why = %reason, "cannot sign a poster; the result gets no poster");
            return Ok(None);
        }
        Err(error @ (MarkError::NoChild(_) | MarkError::Internal(_))) => return Err(error.into()),
    };
    let stored = assets::keep(
        app,
        task.account,
        MediaType::Jpeg,
        poster,
        AssetLifetime::Media,
    );
    stored.await.map(Some)
}

/// Writes the results, and gives the task its poster if it has none and still has its film.
async fn keep(
    app: &App,
    print: &ResultFingerprint,
    likeness: PerceptualFingerprint,
    poster: Option<Asset>,
) -> Result<(), Error> {
    let (id, task, now) = (print.id, print.task, app.clock.now());
    let file = poster.clone();
    let write = app
        .store
        .write_for(print.account, move |conn| -> Result<bool, Error> {
            // Another process examined the film first. The poster that was stored here is removed
            // below.
            if !store::fingerprints::set_fingerprint(conn, id, &likeness)? {
                return Ok(false);
            }
            let (Some(id), Some(mut poster)) = (task, poster) else {
                return Ok(false);
            };
            let task = store::tasks::by_id_any_account(conn, id)?;
            let video = task.as_ref().and_then(|task| lacks_poster(task, now));
            let Some(mut video) = video.cloned() else {
                return Ok(false);
            };
            // The poster expires with the film.
            poster.expires_at = (video.expires_at_micros < i64::MAX)
                .then(|| Timestamp::from_micros(video.expires_at_micros));
            store::assets::insert(conn, &poster)?;
            video.poster = Some(poster.id);
            store::tasks::set_output(conn, id, &TaskResult::VideoV1(video))?;
            Ok(true)
        });
    match (write.await?, task, file) {
        // The task may be cached without its poster.
        (true, Some(task), _) => app.caches.ended_tasks.invalidate(&task),
        (false, _, Some(unused)) => assets::remove(app, &unused).await,
        _ => {}
    }
    Ok(())
}
