//! Restored backups: orders that are open in an old backup may have been sent and paid for since,
//! and must not be sent again.
//!
//! The database has a mark that counts up at each start and while orders are sent; the data folder
//! has the same mark in a file. If the database is behind the file at startup, its open tasks for
//! hosted providers are held until the operator decides. Tasks that the database knows were
//! submitted are simply followed.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::app::{App, Parts};
use crate::clock::Timestamp;
use crate::domain::endings;
use crate::error::{Error, ErrorCode};
use crate::ids::{AssetId, TaskId};
use crate::model::task::TaskFailure;
use crate::store;
use crate::store::restored::{HOLDER, Mark};
use crate::telemetry;

/// How often the mark is updated while orders are sent.
const PACE: Duration = Duration::from_secs(5);

/// Updates the mark at startup. First holds open tasks if the database was restored, according to
/// the mark or the operator.
pub async fn check(app: &App, is_restored: bool) -> Result<(), Error> {
    let path = app.config.mark_path();
    let file = read(&path);
    let (held, mark) = app
        .store
        .write(move |conn| -> Result<_, Error> {
            let known = store::restored::mark(conn)?;
            let is_behind = match (&known, &file) {
                (Some(known), Some(file)) => {
                    known.database == file.database && known.count < file.count
                }
                // The backup is from a version without marks, or of an empty database.
                (None, Some(_)) => true,
                (_, None) => false,
            };
            let next = known.as_ref().map_or(1, |known| known.count + 1);
            if !(is_behind || is_restored) {
                let database = known.map(|known| known.database);
                let mark = Mark {
                    database: database.unwrap_or_else(name),
                    count: next,
                };
                store::restored::set_mark(conn, &mark)?;
                return Ok((None, mark));
            }
            // Its history branches here, so it gets a new name.
            let mark = Mark {
                database: name(),
                count: next,
            };
            store::restored::set_mark(conn, &mark)?;
            Ok((Some(store::restored::hold(conn)?), mark))
        })
        .await?;
    write(app, mark).await?;
    if let Some(held) = held {
        tracing::error!(
            held,
            "the database is a restored backup: its open tasks for hosted providers may have been paid for since, and wait for `mediagate restored`"
        );
    }
    let waiting = list(app).await?;
    telemetry::tasks_restored(waiting.len());
    if held.is_none() && !waiting.is_empty() {
        tracing::warn!(
            held = waiting.len(),
            "tasks of a restored backup wait for `mediagate restored`"
        );
    }
    Ok(())
}

fn name() -> String {
    AssetId::new().simple()
}

/// Updates the mark while orders are sent, until stopped.
pub async fn keep_mark(app: App, stop: CancellationToken) {
    let mut newest = None;
    loop {
        tokio::select! {
            () = tokio::time::sleep(PACE) => {}
            () = stop.cancelled() => return,
        }
        if let Err(error) = move_mark(&app, &mut newest).await {
            tracing::warn!(inside = ?error.inside(), "cannot update the database's mark");
        }
    }
}

async fn move_mark(app: &App, newest: &mut Option<String>) -> Result<(), Error> {
    let sent = app.store.read(store::restored::newest_submission).await?;
    if sent == *newest {
        return Ok(());
    }
    let mark = app
        .store
        .write(|conn| -> Result<_, Error> {
            let Some(known) = store::restored::mark(conn)? else {
                return Ok(None);
            };
            let mark = Mark {
                count: known.count + 1,
                ..known
            };
            store::restored::set_mark(conn, &mark)?;
            Ok(Some(mark))
        })
        .await?;
    if let Some(mark) = mark {
        write(app, mark).await?;
    }
    *newest = sent;
    let held = list(app).await?;
    telemetry::tasks_restored(held.len());
    Ok(())
}

/// Held tasks with their model and time of acceptance.
pub async fn list(app: &Parts) -> Result<Vec<(TaskId, String, Timestamp)>, Error> {
    Ok(app.store.read(store::restored::held).await?)
}

/// Releases a held task to be made, possibly for the second time. Returns whether it was held.
pub async fn resubmit(app: &Parts, id: TaskId) -> Result<bool, Error> {
    let now = app.clock.now();
    Ok(app
        .store
        .write(move |conn| store::restored::let_go(conn, id, now))
        .await?)
}

/// Ends a held task, uncharged. Returns whether it was held.
pub async fn fail(app: &App, id: TaskId) -> Result<bool, Error> {
    let (now, parts) = (app.clock.now(), app.clone());
    app.store
        .write(move |conn| -> Result<bool, Error> {
            let Some(task) = store::tasks::of_anyone(conn, id)? else {
                return Ok(false);
            };
            let message = "The gateway's data was restored from a backup, and it is not known whether a provider made this. Nothing was charged.";
            let failure = TaskFailure {
                code: ErrorCode::SubmissionUnconfirmed,
                message: message.to_owned(),
            };
            let ending = endings::failed(&task, failure);
            endings::end(conn, &parts, &task, Some(HOLDER), &ending, now, |_| Ok(()))
        })
        .await
}

fn read(path: &Path) -> Option<Mark> {
    Mark::parse(&std::fs::read_to_string(path).ok()?)
}

/// Writes the file atomically. If two processes share a folder, the later mark wins.
async fn write(app: &App, mark: Mark) -> Result<(), Error> {
    let path = app.config.mark_path();
    let written = app.compute(move || -> std::io::Result<()> {
        let is_later = |known: &Mark| known.database == mark.database && known.count >= mark.count;
        if read(&path).as_ref().is_some_and(is_later) {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        writeln!(file, "{mark}")?;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        std::fs::File::open(folder)?.sync_all()
    });
    written.await?.map_err(Error::internal)
}
