//! Restored backups: orders that are open in an old backup may have been sent and paid for since,
//! and must not be sent again.
//!
//! The database has a mark that counts up at each start and while orders are sent; the data folder,
//! and the bucket if there is one, have the same mark. The database also stores its own location,
//! and a copy is at another one. A folder that is put back as a whole brings its mark along. Then
//! the file of the mark gives it away: each mark is a new file that names its own inode, and a copy
//! that is written over a newer mark has that one's.
//!
//! If the database is behind a mark, is at another location, was put back, or was promoted without
//! proof that nothing was lost, its open tasks for hosted providers are held until the operator
//! decides. So are orders that were being sent: the provider may have refused them since, and
//! another one may have made them. Tasks that a provider is known to have accepted are simply
//! followed.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::app::{App, Ctx};
use crate::domain::audit::ChangeAuthor;
use crate::domain::{costs, endings};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AssetId, TaskId};
use mediagate_model::submission::SubmissionState;
use mediagate_model::task::{Task, TaskFailure};
use mediagate_store::restored::{DatabaseMark, HOLDER};
use mediagate_store::{self as store, Conn, DatabaseLocation, StoreError};
use mediagate_telemetry::counters;

/// How often the mark is updated while orders are sent.
const MARK_INTERVAL: Duration = Duration::from_secs(5);

/// How long a start waits for a process that was running during a promotion: while the database was
/// unavailable, leases ran out, and the first heartbeat after it may be a few seconds late.
const PROMOTION_WAIT: Duration = Duration::from_secs(10);
/// How often it checks for one.
const PROMOTION_POLL: Duration = Duration::from_millis(500);

/// The name of the mark in a bucket.
const MARK_NOTE: &str = "mark";

/// Why a database is considered restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RestoreEvidence {
    /// A mark outside the database is ahead of the database's own.
    Behind,
    /// The database is a copy, or was moved.
    Elsewhere,
    /// The mark beside the database is a copy: the whole folder was put back.
    PutBack,
    /// It was promoted, and there is no proof that nothing was lost.
    Promoted,
    /// The operator declared it restored.
    Told,
}

/// Evidence that is stored outside the database and is not restored with it.
#[derive(Clone)]
struct ExternalMarks {
    marks: Vec<DatabaseMark>,
    /// The mark in the data folder.
    file: Option<MarkFile>,
    location: Option<DatabaseLocation>,
}

/// A mark in the data folder.
#[derive(Clone)]
struct MarkFile {
    mark: DatabaseMark,
    /// Whether the file names another inode than its own.
    is_copy: bool,
}

impl MarkFile {
    fn read(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let (mark, written_as) = match text.trim().rsplit_once(" in ") {
            Some((mark, file)) => (mark, Some(file)),
            None => (text.trim(), None),
        };
        let own_file = std::fs::metadata(path)
            .ok()
            .map(|file| store::file_id(&file));
        Some(Self {
            mark: DatabaseMark::parse(mark)?,
            is_copy: written_as.is_some() && own_file.as_deref() != written_as,
        })
    }
}

impl ExternalMarks {
    async fn read(app: &App) -> Self {
        // The mark is in two places, because one may be missing: the data folder of a new machine
        // is empty, and not every deployment has a bucket.
        let file = MarkFile::read(&app.config.mark_path());
        let mut marks: Vec<DatabaseMark> = file.iter().map(|file| file.mark.clone()).collect();
        match app.blobs.note(MARK_NOTE).await {
            Ok(text) => marks.extend(text.as_deref().and_then(DatabaseMark::parse)),
            Err(error) => {
                // The other evidence must suffice: startup does not depend on the bucket.
                tracing::warn!(%error, "cannot read the database's mark in the bucket");
            }
        }
        Self {
            marks,
            file,
            location: app.store.location().await,
        }
    }

    /// Evidence that a database with this mark was restored; `last_location` is its location when
    /// it was last used.
    fn restore_evidence(
        &self,
        own_mark: Option<&DatabaseMark>,
        last_location: Option<&DatabaseLocation>,
        has_live_workers: bool,
    ) -> Option<RestoreEvidence> {
        let is_ahead = |external: &DatabaseMark| match own_mark {
            // A mark of another database proves nothing, because folders and buckets are reused.
            // The count of the same one only falls if the database goes back in time.
            Some(own) => own.database == external.database && own.count < external.count,
            // The backup is of an empty database, or from a version without marks.
            None => true,
        };
        if self.marks.iter().any(is_ahead) {
            return Some(RestoreEvidence::Behind);
        }
        let (location, last_location) = (self.location.as_ref()?, last_location?);
        if location.id != last_location.id {
            return Some(RestoreEvidence::Elsewhere);
        }
        if location.is_file() && own_mark.is_some_and(|own| self.was_put_back(own)) {
            return Some(RestoreEvidence::PutBack);
        }
        // A new timeline is a fail-over or a restore to a point in time. The server does not tell
        // which.
        let is_promoted =
            last_location.timeline.is_some() && location.timeline != last_location.timeline;
        // A process that was running during the promotion compares the database with what it saw
        // itself. An equal mark outside proves that the database had advanced no further.
        let is_whole =
            has_live_workers || self.marks.iter().any(|external| Some(external) == own_mark);
        (is_promoted && !is_whole).then_some(RestoreEvidence::Promoted)
    }

    /// Whether the mark beside this database was put back with it.
    fn was_put_back(&self, own_mark: &DatabaseMark) -> bool {
        let file = self.file.as_ref();
        file.is_some_and(|file| file.is_copy && file.mark.database == own_mark.database)
    }

    /// Holds open tasks if there is evidence of a restore, and advances the mark. `None`, with
    /// nothing changed, if the database was promoted and a running process may still prove that
    /// nothing was lost.
    fn judge(
        &self,
        conn: &mut Conn<'_>,
        now: Timestamp,
        is_restored: bool,
        may_wait: bool,
    ) -> Result<Option<RestoreJudgement>, StoreError> {
        let previous = store::restored::mark(conn)?;
        let last_location = store::restored::location(conn)?;
        let has_live_workers = store::restored::has_live_workers(conn, now)?;
        let evidence =
            self.restore_evidence(previous.as_ref(), last_location.as_ref(), has_live_workers);
        let evidence = evidence.or(is_restored.then_some(RestoreEvidence::Told));
        if evidence == Some(RestoreEvidence::Promoted) && may_wait {
            return Ok(None);
        }
        // In one transaction with the hold. If only the location were on disk after a crash, a copy
        // would be taken for the original at the next start.
        if let Some(location) = &self.location {
            store::restored::set_location(conn, location)?;
        }
        let count = previous.as_ref().map_or(1, |previous| previous.count + 1);
        if let Some(evidence) = evidence {
            // The database gets a new name. The marks outside then belong to another database, so
            // the next start does not hold the same tasks again.
            let held = store::restored::hold(conn)?;
            return Ok(Some((Some((evidence, held)), branch(conn, count)?)));
        }
        let database = previous.map_or_else(new_name, |previous| previous.database);
        let mark = DatabaseMark { database, count };
        store::restored::set_mark(conn, &mark)?;
        Ok(Some((None, mark)))
    }
}

/// Why tasks were held, and how many, if any were; and the database's new mark.
type RestoreJudgement = (Option<(RestoreEvidence, u64)>, DatabaseMark);

/// Updates the mark at startup. First holds open tasks if the database was restored, according to
/// the mark, the location or the operator.
pub async fn check(app: &App, is_restored: bool) -> Result<(), Error> {
    let deadline = Instant::now() + PROMOTION_WAIT;
    let (held, mark) = loop {
        let external = ExternalMarks::read(app).await;
        let (now, may_wait) = (app.clock.now(), Instant::now() < deadline);
        let judge = move |conn: &mut Conn<'_>| external.judge(conn, now, is_restored, may_wait);
        if let Some(judgement) = app.store.write(judge).await? {
            break judgement;
        }
        tokio::time::sleep(PROMOTION_POLL).await;
    };
    // Written after the database's own mark, never before it. A crash in between leaves the outside
    // marks behind, which is harmless; if they were ahead, the next start would hold open tasks.
    write(app, mark).await?;
    if let Some((evidence, held)) = held {
        log_held(evidence, held);
    }
    let waiting = list(app).await?;
    counters::tasks_restored(waiting.len());
    if held.is_none() && !waiting.is_empty() {
        tracing::warn!(
            held = waiting.len(),
            "tasks of a restored backup wait for `mediagate restored`"
        );
    }
    Ok(())
}

/// The database's history branches here, so it gets a new name.
fn branch(conn: &mut Conn<'_>, count: u64) -> Result<DatabaseMark, StoreError> {
    let mark = DatabaseMark {
        database: new_name(),
        count,
    };
    store::restored::set_mark(conn, &mark)?;
    Ok(mark)
}

fn log_held(evidence: RestoreEvidence, held: u64) {
    tracing::error!(
        sign = ?evidence,
        held,
        "the database is a copy or a restored backup: its open tasks wait for `mediagate restored`, because providers may already have charged for them"
    );
}

fn new_name() -> String {
    AssetId::new().simple()
}

/// Updates the mark while orders are sent, until stopped.
pub async fn keep_mark(app: App, stop: CancellationToken) {
    let mut last = LastSeenMark::default();
    loop {
        tokio::select! {
            () = tokio::time::sleep(MARK_INTERVAL) => {}
            () = stop.cancelled() => return,
        }
        if let Err(error) = advance_mark(&app, &mut last).await {
            tracing::warn!(inside = ?error.internal_cause(), "cannot update the database's mark");
        }
    }
}

/// The database's state that this process saw when it last advanced the mark.
#[derive(Default)]
struct LastSeenMark {
    submission: Option<String>,
    mark: Option<DatabaseMark>,
}

async fn advance_mark(app: &App, last: &mut LastSeenMark) -> Result<(), Error> {
    let (newest_submission, current) = app
        .store
        .read(|conn| -> Result<_, Error> {
            let newest = store::restored::newest_submission(conn)?;
            Ok((newest, store::restored::mark(conn)?))
        })
        .await?;
    // The database has lost what this process saw in it: it was restored while the process was
    // running, or failed over to a standby that lagged behind.
    let is_lost = |last_seen: &DatabaseMark| match &current {
        Some(current) => current.database == last_seen.database && current.count < last_seen.count,
        None => true,
    };
    let is_behind = last.mark.as_ref().is_some_and(is_lost);
    // The mark protects against sending orders twice, so it advances only when something was sent.
    if newest_submission == last.submission && !is_behind {
        return Ok(());
    }
    // A promotion without losses only changes the database's location, so the new location is
    // stored.
    let location = app.store.location().await.filter(|_| !is_behind);
    let (held, mark) = app
        .store
        .write(move |conn| -> Result<_, Error> {
            let Some(current) = store::restored::mark(conn)? else {
                return Ok((None, None));
            };
            let next = current.count + 1;
            if is_behind {
                let held = store::restored::hold(conn)?;
                return Ok((Some(held), Some(branch(conn, next)?)));
            }
            if let Some(location) = &location {
                store::restored::set_location(conn, location)?;
            }
            let mark = DatabaseMark {
                count: next,
                ..current
            };
            store::restored::set_mark(conn, &mark)?;
            Ok((None, Some(mark)))
        })
        .await?;
    if let Some(held) = held {
        log_held(RestoreEvidence::Behind, held);
    }
    if let Some(mark) = mark {
        last.mark = Some(mark.clone());
        write(app, mark).await?;
    }
    last.submission = newest_submission;
    let held = list(app).await?;
    counters::tasks_restored(held.len());
    Ok(())
}

/// Held tasks with their model and time of acceptance.
pub async fn list(app: &Ctx) -> Result<Vec<(TaskId, String, Timestamp)>, Error> {
    Ok(app.store.read(store::restored::held_tasks).await?)
}

/// Releases a held task to be made, possibly for the second time. Returns whether it was held.
pub async fn resubmit(app: &Ctx, id: TaskId, author: ChangeAuthor) -> Result<bool, Error> {
    let now = app.clock.now();
    app.store
        .write(move |conn| -> Result<bool, Error> {
            let was_held = store::restored::release_task(conn, id, now)?;
            if was_held {
                author.note(conn, "task.resubmit", &id, audit_values("queued"), now)?;
            }
            Ok(was_held)
        })
        .await
}

/// The audit log's values for a decision about a held task.
fn audit_values(status: &str) -> (Option<Value>, Option<Value>) {
    let value = |status: &str, held: bool| Some(json!({"status": status, "held": held}));
    (value("queued", true), value(status, false))
}

/// Ends a held task, uncharged. Returns whether it was held.
pub async fn fail(app: &App, id: TaskId, author: ChangeAuthor) -> Result<bool, Error> {
    let (now, app_handle) = (app.clock.now(), app.clone());
    app.store
        .write(move |conn| -> Result<bool, Error> {
            let Some(task) = store::tasks::by_id_any_account(conn, id)? else {
                return Ok(false);
            };
            let message = "The gateway's data was restored from a backup. It is unknown whether a provider completed this task. Nothing was charged.";
            let failure = TaskFailure {
                code: ErrorCode::SubmissionUnconfirmed,
                message: message.to_owned(),
            };
            let ending = endings::failed_ending(&task, failure);
            // With the hold as owner: a task that was released meanwhile may be at a provider and
            // is not ended.
            endings::end(conn, &app_handle, &task, Some(HOLDER), &ending, now, |conn| {
                close_interrupted(conn, &task, now)?;
                author.note(conn, "task.fail", &id, audit_values("failed"), now)
            })
        })
        .await
}

/// Closes the submission of a task that was being sent: its outcome will not become known.
fn close_interrupted(conn: &mut Conn<'_>, task: &Task, now: Timestamp) -> Result<(), Error> {
    let latest = store::submissions::latest(conn, task.id)?;
    let Some(latest) = latest.filter(|latest| latest.state == SubmissionState::Intended) else {
        return Ok(());
    };
    let error = Some((
        "unclear",
        "the database was restored while it was being sent",
    ));
    let (from, to) = (SubmissionState::Intended, SubmissionState::Unclear);
    match store::submissions::close(conn, latest.id, from, to, error, now)? {
        Some(closed) => costs::record_job_cost(conn, task, closed, None, None, now),
        None => Ok(()),
    }
}

/// Writes the mark into the data folder and the bucket.
async fn write(app: &App, mark: DatabaseMark) -> Result<(), Error> {
    if let Err(error) = app.blobs.keep_note(MARK_NOTE, mark.to_string()).await {
        tracing::warn!(%error, "cannot write the database's mark to the bucket");
    }
    // Replaced in one step, because half a mark would be unreadable. If two processes share the
    // folder, the slower one must not put an older count back.
    let path = app.config.mark_path();
    let replaced = app.compute(move || -> std::io::Result<()> {
        let is_later =
            |stored: &DatabaseMark| stored.database == mark.database && stored.count >= mark.count;
        let stored = MarkFile::read(&path).filter(|stored| !stored.is_copy);
        if stored.is_some_and(|stored| is_later(&stored.mark)) {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let own_file = store::file_id(&file.as_file().metadata()?);
        writeln!(file, "{mark} in {own_file}")?;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        // The rename is durable only once the folder is synced.
        std::fs::File::open(folder)?.sync_all()
    });
    replaced.await?.map_err(Error::internal)
}
