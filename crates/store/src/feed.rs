//! Recent events of all accounts for the operator feed, read from the records themselves, each kind
//! through an index.

use crate::columns::{TableRecord as _, record, saturated};
use crate::statement::sql;
use crate::tasks::first_id;
use crate::{Conn, StoreError, audit};
use mediagate_model::audit::AuditEntry;
use mediagate_model::clock::Timestamp;
use mediagate_model::feed::{SubmissionSent, TaskAccepted, TaskEnded};

record! {
    accepted_columns for TaskAccepted of "tasks" {
        task: "id",
        account: "account_id",
        key: "key_id",
        kind: "kind",
        model: "model",
        at: "created_at",
    }
}

record! {
    sent_columns for SubmissionSent of "submissions" {
        id: "s.id",
        task: "s.task_id",
        account: "t.account_id",
        key: "t.key_id",
        kind: "t.kind",
        model: "t.model",
        attempt: saturated("s.attempt"),
        provider: "s.provider",
        route_model: "s.route_model",
        at: "s.created_at",
    }
}

record! {
    ended_columns for TaskEnded of "tasks" {
        task: "id",
        account: "account_id",
        key: "key_id",
        kind: "kind",
        model: "model",
        provider: "provider",
        state: "state",
        error: "error_code",
        cost: "cost_micros",
        at: "finished_at",
    }
}

/// Tasks that were accepted at or after `since`, the oldest first.
pub fn accepted_tasks(
    conn: &mut Conn<'_>,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<TaskAccepted>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            accepted_columns!(),
            " FROM tasks WHERE id > :first_id ORDER BY id LIMIT :limit"
        ),
        first_id = &first_id(since),
        limit
    )
    .all(conn, TaskAccepted::from_row)
}

/// Orders that were sent to providers at or after `since`, the oldest first.
pub fn sent_submissions(
    conn: &mut Conn<'_>,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<SubmissionSent>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            sent_columns!(),
            " FROM submissions s JOIN tasks t ON t.id = s.task_id WHERE s.id > :first_id ORDER BY s.id LIMIT :limit"
        ),
        first_id = &first_id(since),
        limit
    )
    .all(conn, SubmissionSent::from_row)
}

/// Tasks that ended at or after `since`, the first to end first.
pub fn ended_tasks(
    conn: &mut Conn<'_>,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<TaskEnded>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            ended_columns!(),
            " FROM tasks WHERE finished_at IS NOT NULL AND finished_at >= :since ORDER BY finished_at, id LIMIT :limit"
        ),
        since,
        limit
    )
    .all(conn, TaskEnded::from_row)
}

/// Entries of the audit log that were written at or after `since`, the oldest first.
pub fn audit_entries(
    conn: &mut Conn<'_>,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<AuditEntry>, StoreError> {
    audit::oldest(conn, since, limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mediagate_model::clock::Clock;
    use mediagate_model::ids::TaskId;

    #[test]
    fn ids_sort_behind_the_time_at_which_they_were_made() {
        let now = Clock::system().now();
        let id = TaskId::new().to_string();
        assert!(id > first_id(now), "{id}");
        let later = now.plus(std::time::Duration::from_secs(5));
        assert!(id < first_id(later), "{id}");
    }
}
