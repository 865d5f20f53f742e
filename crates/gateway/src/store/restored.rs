//! Tasks that a restored backup has open, and the mark by which one is known.
//!
//! Held tasks have a holder that never works: a row among the workers whose time
//! never ends. So whatever asks who holds a task finds that somebody does.

use crate::clock::Timestamp;
use crate::ids::TaskId;
use crate::store::{Conn, StoreError, meta, workers};

/// Who holds tasks of a restored backup.
pub const HOLDER: &str = "restored";
/// The year 9999.
const FOR_EVER: Timestamp = Timestamp::from_seconds(253_370_764_800);

/// Which database this is, and how often it was marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Names the database, and changes when a backup of it is restored.
    pub database: String,
    /// Counts up.
    pub count: u64,
}

/// The mark, if there is one.
pub fn mark(conn: &mut Conn<'_>) -> Result<Option<Mark>, StoreError> {
    let text: Option<String> = meta::get(conn, "mark")?;
    Ok(text.as_deref().and_then(Mark::parse))
}

/// Writes the mark down.
pub fn set_mark(conn: &mut Conn<'_>, mark: &Mark) -> Result<(), StoreError> {
    meta::set(conn, "mark", mark)
}

/// The newest submission: another one is reason for another mark.
pub fn newest_submission(conn: &mut Conn<'_>) -> Result<Option<String>, StoreError> {
    conn.one(
        "SELECT id FROM submissions ORDER BY id DESC LIMIT 1",
        &[],
        |row| row.text(0),
    )
}

/// Holds the open tasks for hosted providers of which nothing says that one took
/// them; how many there are.
pub fn hold(conn: &mut Conn<'_>) -> Result<u64, StoreError> {
    workers::enter(conn, HOLDER, FOR_EVER)?;
    conn.execute(
        "UPDATE tasks SET lease_owner = ?1 WHERE state IN ('queued', 'running') AND provider <> 'embedded'
         AND NOT EXISTS (SELECT 1 FROM submissions WHERE task_id = tasks.id AND submissions.state <> 'refused')",
        &[HOLDER.into()],
    )
}

/// The tasks that are held: each with its model and when it was accepted, oldest
/// first.
pub fn held(conn: &mut Conn<'_>) -> Result<Vec<(TaskId, String, Timestamp)>, StoreError> {
    conn.all(
        "SELECT id, model, created_at FROM tasks WHERE lease_owner = ?1 AND state IN ('queued', 'running') ORDER BY id",
        &[HOLDER.into()],
        |row| {
            let at = Timestamp::from_micros(row.int(2)?);
            Ok((row.parse(0, "tasks.id")?, row.text(1)?, at))
        },
    )
}

/// Gives a task to the workers. Returns whether it was held.
pub fn let_go(conn: &mut Conn<'_>, id: TaskId, now: Timestamp) -> Result<bool, StoreError> {
    let changed = conn.execute(
        "UPDATE tasks SET lease_owner = NULL, due_at = ?3 WHERE id = ?1 AND lease_owner = ?2 AND state IN ('queued', 'running')",
        &[
            (&id.to_string()).into(),
            HOLDER.into(),
            now.micros().into(),
        ],
    )?;
    Ok(changed == 1)
}

impl Mark {
    /// Reads what its `Display` wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let (database, count) = text.trim().split_once(' ')?;
        Some(Self {
            database: database.to_owned(),
            count: count.parse().ok()?,
        })
    }
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.database, self.count)
    }
}
