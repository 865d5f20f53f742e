//! What happened lately, of all accounts, for those who follow it: read from the records themselves,
//! in the order of an index each.

use crate::tasks::first_id;
use crate::{Conn, StoreError, audit};
use mediagate_model::audit::AuditEntry;
use mediagate_model::clock::Timestamp;
use mediagate_model::feed::{Accepted, Ended, Sent};
use mediagate_model::ids::{AccountId, KeyId, SubmissionId, TaskId};
use mediagate_model::money::Micros;

/// Tasks that were accepted at or after `since`, the oldest first.
pub fn accepted(
    conn: &mut Conn<'_>,
    since: Timestamp,
    most: u32,
) -> Result<Vec<Accepted>, StoreError> {
    conn.all(
        "SELECT id, account_id, key_id, kind, model, created_at FROM tasks WHERE id > ?1 ORDER BY id LIMIT ?2",
        &[(&first_id(since)).into(), i64::from(most).into()],
        |row| {
            Ok(Accepted {
                task: row.parse::<TaskId>(0, "tasks.id")?,
                account: row.parse::<AccountId>(1, "tasks.account_id")?,
                key: row.parse::<KeyId>(2, "tasks.key_id")?,
                kind: row.parse(3, "tasks.kind")?,
                model: row.text(4)?,
                at: Timestamp::from_micros(row.int(5)?),
            })
        },
    )
}

/// Orders that were sent to providers at or after `since`, the oldest first.
pub fn sent(conn: &mut Conn<'_>, since: Timestamp, most: u32) -> Result<Vec<Sent>, StoreError> {
    conn.all(
        "SELECT s.id, s.task_id, t.account_id, t.key_id, t.kind, t.model, s.attempt, s.provider, s.route_model, s.created_at
         FROM submissions s JOIN tasks t ON t.id = s.task_id WHERE s.id > ?1 ORDER BY s.id LIMIT ?2",
        &[(&first_id(since)).into(), i64::from(most).into()],
        |row| {
            let attempt = row.int(6)?;
            Ok(Sent {
                id: row.parse::<SubmissionId>(0, "submissions.id")?,
                task: row.parse::<TaskId>(1, "submissions.task_id")?,
                account: row.parse::<AccountId>(2, "tasks.account_id")?,
                key: row.parse::<KeyId>(3, "tasks.key_id")?,
                kind: row.parse(4, "tasks.kind")?,
                model: row.text(5)?,
                attempt: u32::try_from(attempt).unwrap_or(u32::MAX),
                provider: row.text(7)?,
                route_model: row.text(8)?,
                at: Timestamp::from_micros(row.int(9)?),
            })
        },
    )
}

/// Tasks that ended at or after `since`, the first to end first.
pub fn ended(conn: &mut Conn<'_>, since: Timestamp, most: u32) -> Result<Vec<Ended>, StoreError> {
    conn.all(
        "SELECT id, account_id, key_id, kind, model, provider, state, error_code, cost_micros, finished_at FROM tasks
         WHERE finished_at IS NOT NULL AND finished_at >= ?1 ORDER BY finished_at, id LIMIT ?2",
        &[since.micros().into(), i64::from(most).into()],
        |row| {
            Ok(Ended {
                task: row.parse::<TaskId>(0, "tasks.id")?,
                account: row.parse::<AccountId>(1, "tasks.account_id")?,
                key: row.parse::<KeyId>(2, "tasks.key_id")?,
                kind: row.parse(3, "tasks.kind")?,
                model: row.text(4)?,
                provider: row.text(5)?,
                state: row.parse(6, "tasks.state")?,
                error: row.text_or_null(7)?,
                cost: Micros::new(row.int(8)?),
                at: Timestamp::from_micros(row.int(9)?),
            })
        },
    )
}

/// Entries of the audit log that were written at or after `since`, the oldest first.
pub fn changed(
    conn: &mut Conn<'_>,
    since: Timestamp,
    most: u32,
) -> Result<Vec<AuditEntry>, StoreError> {
    audit::oldest(conn, since, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mediagate_model::clock::Clock;

    #[test]
    fn ids_sort_behind_the_time_at_which_they_were_made() {
        let now = Clock::system().now();
        let id = TaskId::new().to_string();
        assert!(id > first_id(now), "{id}");
        let later = now.plus(std::time::Duration::from_secs(5));
        assert!(id < first_id(later), "{id}");
    }
}
