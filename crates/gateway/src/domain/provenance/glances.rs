//! Looks at films that providers made, once their tasks are over: what they are known by, and a
//! poster of each.
//!
//! It takes a child process and as much processor time as all else that is done for a film, so
//! nobody waits for it. A film that was not looked at stays on the list, whatever happens.

use std::sync::Arc;

use bytes::Bytes;

use super::check;
use super::mark::{self, Facts, MarkError};
use crate::app::App;
use crate::clock::Timestamp;
use crate::domain::assets::{self, Lifetime};
use crate::engines::look::Looked;
use crate::engines::{Watch, child};
use crate::error::Error;
use crate::model::media::{Asset, MediaType};
use crate::model::provenance::{Likeness, Print};
use crate::model::task::{Output, Task, VideoOutput};
use crate::store;

/// Most films that are read from the list at once.
const BATCH: u32 = 20;
/// Most films of one visit, so that stopping is not held up.
const MOST: u32 = 100;
/// Memory of a child that looks at one: some frames of 4K.
const LOOKING_BYTES: u64 = 128 << 20;

/// Looks at the latest films that nobody has looked at, one after the other.
pub async fn look_at_films(app: &App) -> Result<(), Error> {
    for _ in 0..MOST / BATCH {
        let unseen = app
            .store
            .read(move |conn| store::prints::unseen(conn, BATCH))
            .await?;
        let is_last = unseen.len() < BATCH as usize;
        for print in unseen {
            if app.process.draining.is_cancelled() {
                return Ok(());
            }
            look_at(app, &print).await?;
        }
        if is_last {
            break;
        }
    }
    Ok(())
}

/// Whether there is a film that nobody has looked at.
pub async fn is_any_unseen(app: &App) -> bool {
    let unseen = app.store.read(|conn| store::prints::unseen(conn, 1));
    unseen.await.is_ok_and(|unseen| !unseen.is_empty())
}

async fn look_at(app: &App, print: &Print) -> Result<(), Error> {
    let Some(film) = assets::load_file(app, print.id).await? else {
        return keep(app, print, Likeness::default(), None).await;
    };
    let film = Arc::new(film);
    let (place, path) = (check::place(app), film.clone());
    let watch = Arc::new(Watch::default());
    let _stopping = watch.stop_on_drop();
    let look = move |_: &_| child::glance(&place, &path, &watch);
    let seen = app.limits.room.work(LOOKING_BYTES, look).await?;
    let (looked, poster) = seen.unwrap_or_else(|error| (Looked::nothing(error.to_string()), None));
    if let Some(why) = looked.why {
        tracing::info!(asset_id = %print.id, %why, "a film's frames were not looked at");
    }
    let poster = match (poster, print.task) {
        (Some(poster), Some(id)) => {
            let read = move |conn: &mut store::Conn<'_>| store::tasks::of_anyone(conn, id);
            let task = app.store.read(read).await?;
            let task = task.filter(|task| wants_poster(task, app.clock.now()).is_some());
            match task {
                Some(task) => poster_of(app, &task, poster, film).await?,
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
        Output::VideoV1(video) => {
            (video.poster.is_none() && video.expires_at_micros > now.micros()).then_some(video)
        }
        Output::LinkV1(_) | Output::ClipsV1 { .. } => None,
    }
}

/// Signs and stores a poster; `None` if it cannot be signed.
async fn poster_of(
    app: &App,
    task: &Task,
    poster: Vec<u8>,
    film: Arc<tempfile::TempPath>,
) -> Result<Option<Asset>, Error> {
    let shows = app.models.catalog.load().shows_providers();
    let provider = shows.then(|| task.provider.clone());
    let facts = Facts::of(task, &task.id.video(), provider, "");
    let poster = match mark::poster(app, facts, poster, film).await {
        Ok(poster) => Bytes::from(poster),
        Err(MarkError::NotSigned(why)) => {
            tracing::warn!(task_id = %task.id, %why, "a poster cannot be signed and is left out");
            return Ok(None);
        }
        Err(MarkError::Inside(error)) => return Err(error),
    };
    let stored = assets::keep(app, task.account, MediaType::Jpeg, poster, Lifetime::Media);
    stored.await.map(Some)
}

/// Writes what was seen, and gives the task its poster if it has none and still has its film.
async fn keep(
    app: &App,
    print: &Print,
    likeness: Likeness,
    poster: Option<Asset>,
) -> Result<(), Error> {
    let (id, task, now) = (print.id, print.task, app.clock.now());
    let file = poster.clone();
    let written = app
        .store
        .write_for(print.account, move |conn| -> Result<bool, Error> {
            if !store::prints::set_seen(conn, id, &likeness)? {
                return Ok(false);
            }
            let (Some(id), Some(mut poster)) = (task, poster) else {
                return Ok(false);
            };
            let task = store::tasks::of_anyone(conn, id)?;
            let video = task.as_ref().and_then(|task| wants_poster(task, now));
            let Some(mut video) = video.cloned() else {
                return Ok(false);
            };
            // It goes with the film.
            poster.expires_at = (video.expires_at_micros < i64::MAX)
                .then(|| Timestamp::from_micros(video.expires_at_micros));
            store::assets::insert(conn, &poster)?;
            video.poster = Some(poster.id);
            store::tasks::set_output(conn, id, &Output::VideoV1(video))?;
            Ok(true)
        });
    match (written.await?, task, file) {
        (true, Some(task), _) => app.caches.ended.invalidate(&task),
        (false, _, Some(unused)) => assets::remove(app, &unused).await,
        _ => {}
    }
    Ok(())
}
