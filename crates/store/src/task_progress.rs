//! Task progress: the newest event numbers, for processes that missed a notification.

use crate::columns::saturated;
use crate::statement::dialect_sql;
use crate::{Conn, StoreError, conn::to_json};
use mediagate_model::ids::TaskId;

/// Maximum number of tasks in one statement.
const CHUNK_TASKS: usize = 5_000;

/// The number of the newest event of each of these tasks that exists.
pub fn newest_events(
    conn: &mut Conn<'_>,
    tasks: &[TaskId],
) -> Result<Vec<(TaskId, u32)>, StoreError> {
    let mut events = Vec::with_capacity(tasks.len());
    for chunk in tasks.chunks(CHUNK_TASKS) {
        let ids: Vec<String> = chunk.iter().map(ToString::to_string).collect();
        let ids = to_json(&ids)?;
        events.extend(dialect_sql!(
            conn,
            "SELECT id, event_seq FROM tasks WHERE id IN (SELECT value FROM json_each(:ids))",
            "SELECT id, event_seq FROM tasks
         WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(CAST(:ids AS TEXT) AS JSONB))))",
            ids = &ids
        )
        .all(conn, |row| {
            Ok((row.field("id")?, saturated(row.field("event_seq")?)))
        })?);
    }
    Ok(events)
}
