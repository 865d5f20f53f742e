//! Open tasks of a restored backup, and the mark that detects a restore.
//!
//! Held tasks belong to a placeholder worker row that never expires, so every query that looks for
//! unheld tasks skips these.

use crate::statement::sql;
use crate::workers::{self, APPROVAL_HOLDER, RESTORED_HOLDER, placeholders};
use crate::{Conn, DatabaseLocation, StoreError, meta};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::TaskId;

/// The name of the worker that holds tasks of a restored backup.
pub const HOLDER: &str = RESTORED_HOLDER;

/// The database's identity, and how many marks were written to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseMark {
    /// Changes when a backup of the database is restored.
    pub database: String,
    /// Increases with each mark.
    pub count: u64,
}

pub fn mark(conn: &mut Conn<'_>) -> Result<Option<DatabaseMark>, StoreError> {
    let text: Option<String> = meta::get(conn, "mark")?;
    Ok(text.as_deref().and_then(DatabaseMark::parse))
}

pub fn set_mark(conn: &mut Conn<'_>, mark: &DatabaseMark) -> Result<(), StoreError> {
    meta::set(conn, "mark", mark)
}

/// The location of the database when a process last started on it.
pub fn location(conn: &mut Conn<'_>) -> Result<Option<DatabaseLocation>, StoreError> {
    let Some(id) = meta::get(conn, "place")? else {
        return Ok(None);
    };
    let timeline = meta::get(conn, "timeline")?;
    Ok(Some(DatabaseLocation { id, timeline }))
}

pub fn set_location(conn: &mut Conn<'_>, location: &DatabaseLocation) -> Result<(), StoreError> {
    meta::set(conn, "place", &location.id)?;
    match &location.timeline {
        Some(timeline) => meta::set(conn, "timeline", timeline),
        None => Ok(()),
    }
}

/// Whether a live process uses the database.
pub fn has_live_workers(conn: &mut Conn<'_>, now: Timestamp) -> Result<bool, StoreError> {
    let now = workers::now(conn, now)?;
    sql!(
        concat!(
            "SELECT CAST(1 AS BIGINT) FROM workers WHERE held_until > :now AND name NOT IN ",
            placeholders!(),
            " LIMIT 1"
        ),
        now
    )
    .exists(conn)
}

/// The newest submission: if it has changed, a new mark is due.
pub fn newest_submission(conn: &mut Conn<'_>) -> Result<Option<String>, StoreError> {
    sql!("SELECT id FROM submissions ORDER BY id DESC LIMIT 1").value::<String>(conn)
}

/// Holds the open tasks for hosted providers whose resumption would send an order: those with no
/// submission, and those whose latest one was refused or was being sent. Returns how many.
pub fn hold(conn: &mut Conn<'_>) -> Result<u64, StoreError> {
    workers::register_placeholder(conn, HOLDER)?;
    sql!(
        "UPDATE tasks SET lease_owner = :holder WHERE state IN ('queued', 'running') AND provider <> 'embedded'
         AND COALESCE((SELECT state FROM submissions WHERE task_id = tasks.id ORDER BY attempt DESC LIMIT 1), 'refused')
             IN ('refused', 'intended')",
        holder = HOLDER
    )
    .execute(conn)
}

/// The held tasks with their model and time of acceptance, oldest first.
pub fn held_tasks(conn: &mut Conn<'_>) -> Result<Vec<(TaskId, String, Timestamp)>, StoreError> {
    sql!(
        "SELECT id, model, created_at FROM tasks WHERE lease_owner = :holder AND state IN ('queued', 'running')
         ORDER BY id",
        holder = HOLDER
    )
    .all(conn, |row| {
            Ok((row.field("id")?, row.field("model")?, row.field("created_at")?))
        })
}

/// Releases a task to the workers, or to those who may approve it. Returns whether it was held.
pub fn release_task(conn: &mut Conn<'_>, id: TaskId, now: Timestamp) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE tasks SET lease_owner = CASE approval_state WHEN 'pending' THEN :approval ELSE NULL END, due_at = :now
         WHERE id = :id AND lease_owner = :holder AND state IN ('queued', 'running')",
        id,
        approval = APPROVAL_HOLDER,
        holder = HOLDER,
        now
    )
    .execute(conn)?;
    Ok(changed == 1)
}

impl DatabaseMark {
    /// Parses the `Display` form.
    pub fn parse(text: &str) -> Option<Self> {
        let (database, count) = text.trim().split_once(' ')?;
        Some(Self {
            database: database.to_owned(),
            count: count.parse().ok()?,
        })
    }
}

impl std::fmt::Display for DatabaseMark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.database, self.count)
    }
}
