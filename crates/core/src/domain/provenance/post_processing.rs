//! Post-processing of films that providers made, once their tasks are over: their fingerprints, and
//! a poster of each.
//!
//! It takes a child process, so no caller waits for it; one child examines many films. A film that
//! was not examined stays on the list, whatever happens. If the database, the files or the start of
//! the child fails, the film is skipped and retried after increasing pauses; in the end it is
//! identified by its digest alone.

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
use mediagate_model::error::Error;
use mediagate_model::ids::{AccountId, AssetId};
use mediagate_model::media::{Asset, MediaType};
use mediagate_model::provenance::{PerceptualFingerprint, ResultFingerprint};
use mediagate_model::task::{Task, TaskResult, VideoOutput};
use mediagate_store as store;

/// Most films that are read from the list at once, and examined by one child.
const BATCH: u32 = 20;
/// A child gets no further film once its films have this total size: with a bucket, they have to be
/// fetched.
const FETCHED_BYTES: u64 = 256 << 20;
/// Most films per run, so that shutdown is not delayed.
const MAX_FILMS: usize = 100;
/// Memory of a child that examines one film: some frames of 4K.
const LOOKING_BYTES: u64 = 128 << 20;

/// How often a process tries to examine a film, and the pause after the first failure; each further
/// one is four times as long, so that the last attempt is six hours after the first.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_mins(1);

/// Examines the latest films that were not examined yet.
pub async fn look_at_films(app: &App) -> Result<(), Error> {
    // Without the folder every film would count as failed, and finally be given up.
    if !app.blobs.has_folder().await {
        return Ok(());
    }
    let (mut before, mut looked) = (None, 0);
    while looked < MAX_FILMS {
        let due = due(app, &mut before).await?;
        if due.is_empty() {
            break;
        }
        looked += due.len();
        let mut due = due.into_iter().peekable();
        while due.peek().is_some() {
            if app.process.draining.is_cancelled() {
                return Ok(());
            }
            let some = fetch(app, &mut due).await?;
            look_at(app, some).await?;
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
    let (mut some, mut bytes) = (Vec::new(), 0);
    while bytes < FETCHED_BYTES
        && let Some(print) = due.next()
    {
        match assets::load_file(app, print.id).await {
            Ok(Some(file)) => {
                bytes += std::fs::metadata(&file).map_or(0, |file| file.len());
                let file = Arc::new(file);
                some.push(FetchedFilm { print, file });
            }
            // The file is gone, so there is nothing to examine. This takes it off the list.
            Ok(None) => keep(app, &print, PerceptualFingerprint::default(), None).await?,
            Err(error) => record_miss(app, &print, &error).await?,
        }
    }
    Ok(some)
}

/// Examines films, in one child.
async fn look_at(app: &App, films: Vec<FetchedFilm>) -> Result<(), Error> {
    if films.is_empty() {
        return Ok(());
    }
    let engines = app.engines.clone();
    let files: Vec<_> = films.iter().map(|film| film.file.clone()).collect();
    let look = move |place: &WorkSlot| {
        let files: Vec<&Path> = files.iter().map(|file| &***file).collect();
        child::scan_films(&engines, &files, place.watch())
    };
    // The films belong to many accounts, so the work uses no account's turn.
    let (account, room) = (AccountId::nobody(), &app.limits.media_work);
    let seen = room
        .work(account, WorkKind::Result, LOOKING_BYTES, look)
        .await;
    match seen.and_then(|seen| seen.map_err(|error| Error::internal(error.to_string()))) {
        Ok(seen) => {
            for (film, seen) in films.iter().zip(seen) {
                match note(app, film, seen).await {
                    Ok(()) => app.caches.misses.invalidate(&film.print.id),
                    Err(error) => record_miss(app, &film.print, &error).await?,
                }
            }
        }
        Err(error) => {
            for film in &films {
                record_miss(app, &film.print, &error).await?;
            }
        }
    }
    Ok(())
}

/// Whether there is a film to be examined.
pub async fn is_any_due(app: &App) -> bool {
    due(app, &mut None).await.is_ok_and(|due| !due.is_empty())
}

/// The next films that were not examined yet and are not waiting for a retry; moves `before` past
/// them.
async fn due(app: &App, before: &mut Option<AssetId>) -> Result<Vec<ResultFingerprint>, Error> {
    loop {
        let from = *before;
        let unseen = app
            .store
            .read(move |conn| store::fingerprints::without_fingerprint(conn, from, BATCH));
        let mut unseen = unseen.await?;
        let Some(last) = unseen.last() else {
            return Ok(unseen);
        };
        *before = Some(last.id);
        let now = app.clock.now();
        let rests = |id: &AssetId| app.caches.misses.get(id).is_some_and(|(_, at)| at > now);
        unseen.retain(|print| !rests(&print.id));
        if !unseen.is_empty() {
            return Ok(unseen);
        }
    }
}

/// Notes that a film could not be examined; after the last attempt it is given up.
async fn record_miss(app: &App, print: &ResultFingerprint, error: &Error) -> Result<(), Error> {
    let misses = &app.caches.misses;
    let tries = misses.get(&print.id).map_or(0, |(tries, _)| tries) + 1;
    let inside = error.internal_cause();
    if tries < TRIES {
        tracing::warn!(asset_id = %print.id, tries, ?inside, "video analysis failed; trying again later");
        let pause = PAUSE * 4u32.pow(tries - 1);
        misses.insert(print.id, (tries, app.clock.now().plus(pause)));
        return Ok(());
    }
    tracing::error!(asset_id = %print.id, tries, ?inside, "video analysis failed; giving up");
    keep(app, print, PerceptualFingerprint::default(), None).await?;
    misses.invalidate(&print.id);
    Ok(())
}

/// Stores the results for a film.
async fn note(
    app: &App,
    film: &FetchedFilm,
    (looked, poster): child::ScannedFilm,
) -> Result<(), Error> {
    let print = &film.print;
    if let Some(why) = looked.why {
        tracing::info!(asset_id = %print.id, %why, "video frames were not analysed");
    }
    let poster = match (poster, print.task) {
        (Some(poster), Some(id)) => {
            let read = move |conn: &mut store::Conn<'_>| store::tasks::by_id_any_account(conn, id);
            let task = app.store.read(read).await?;
            let task = task.filter(|task| wants_poster(task, app.clock.now()).is_some());
            match task {
                Some(task) => poster_of(app, &task, poster, film.file.clone()).await?,
                None => None,
            }
        }
        _ => None,
    };
    keep(app, print, looked.kept, poster).await
}

/// The video of a task that has no poster, unless it is gone.
fn wants_poster(task: &Task, now: Timestamp) -> Option<&VideoOutput> {
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
    let shows = app.models.catalog.load().shows_providers();
    let provider = shows.then(|| task.provider.clone());
    let facts = SigningFacts::of_task(task, &task.id.video(), provider, "");
    let poster = match marking::sign_poster(app, facts, poster, film).await {
        Ok(poster) => Bytes::from(poster),
        Err(MarkError::NotSigned(why)) => {
            tracing::warn!(task_id = %task.id, %why, "cannot sign a poster; the result gets no poster");
            return Ok(None);
        }
        Err(MarkError::Internal(error)) => return Err(error),
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
    let written = app
        .store
        .write_for(print.account, move |conn| -> Result<bool, Error> {
            // Another process examined it first. The poster that was stored here is removed below.
            if !store::fingerprints::set_fingerprint(conn, id, &likeness)? {
                return Ok(false);
            }
            let (Some(id), Some(mut poster)) = (task, poster) else {
                return Ok(false);
            };
            let task = store::tasks::by_id_any_account(conn, id)?;
            let video = task.as_ref().and_then(|task| wants_poster(task, now));
            let Some(mut video) = video.cloned() else {
                return Ok(false);
            };
            // It expires with the film.
            poster.expires_at = (video.expires_at_micros < i64::MAX)
                .then(|| Timestamp::from_micros(video.expires_at_micros));
            store::assets::insert(conn, &poster)?;
            video.poster = Some(poster.id);
            store::tasks::set_output(conn, id, &TaskResult::VideoV1(video))?;
            Ok(true)
        });
    match (written.await?, task, file) {
        // It may be cached without its poster.
        (true, Some(task), _) => app.caches.ended_tasks.invalidate(&task),
        (false, _, Some(unused)) => assets::remove(app, &unused).await,
        _ => {}
    }
    Ok(())
}
