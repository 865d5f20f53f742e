//! Tasks that wait for approval.
//!
//! Until somebody decides, such a task is held under the lease of a placeholder worker. Its row
//! never expires, so every statement that claims unheld tasks skips it.

use super::append_event;
use crate::columns::TableRecord as _;
use crate::statement::sql;
use crate::workers::{self, APPROVAL_HOLDER};
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::TaskId;
use mediagate_model::task::{ApprovalState, Task};

/// Makes sure that the lease exists under which tasks wait, and returns its name.
pub(super) fn register_holder(conn: &mut Conn<'_>) -> Result<&'static str, StoreError> {
    workers::register_placeholder(conn, APPROVAL_HOLDER)?;
    Ok(APPROVAL_HOLDER)
}

/// Approves a task that still waits for approval and did not expire at `expired` or before. It is
/// due now, unless it is also held because a backup was restored. Returns the task.
pub fn approve(
    conn: &mut Conn<'_>,
    id: TaskId,
    expired: Timestamp,
    now: Timestamp,
) -> Result<Option<Task>, StoreError> {
    let approved = sql!(
        concat!(
            "UPDATE tasks SET approval_state = 'approved', approval_decided_at = :now, due_at = :now,
                    lease_owner = CASE lease_owner WHEN :holder THEN NULL ELSE lease_owner END,
                    event_seq = event_seq + 1
             WHERE id = :id AND state = 'queued' AND approval_state = 'pending' AND approval_expires_at > :expired
             RETURNING ",
            columns!()
        ),
        id,
        holder = APPROVAL_HOLDER,
        expired,
        now
    )
    .one(conn, Task::from_row)?;
    if approved.is_some() {
        append_event(conn, id)?;
    }
    Ok(approved)
}

/// Records why a task that waits for approval will not get it. Its end follows in the same
/// transaction. Returns whether it was waiting.
pub fn refuse_approval(
    conn: &mut Conn<'_>,
    id: TaskId,
    state: ApprovalState,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE tasks SET approval_state = :state, approval_decided_at = :now
         WHERE id = :id AND state = 'queued' AND approval_state = 'pending'",
        id,
        state,
        now
    )
    .execute(conn)?;
    Ok(changed == 1)
}

/// Up to `limit` tasks that wait for approval and expired at `expired` or before, the oldest first.
pub fn expired_approvals(
    conn: &mut Conn<'_>,
    expired: Timestamp,
    limit: u32,
) -> Result<Vec<TaskId>, StoreError> {
    sql!(
        "SELECT id FROM tasks WHERE approval_state = 'pending' AND approval_expires_at <= :expired
         AND state = 'queued' ORDER BY approval_expires_at LIMIT :limit",
        expired,
        limit
    )
    .values(conn)
}
