//! Decisions about tasks that wait for approval: by somebody who may approve, or by time.
//!
//! A pending task is on disk with its price held, under a lease that no process has
//! (`store/tasks/approval.rs`). The transaction that approves it gives that lease up, so its order
//! is sent by whichever worker claims it next, and never before. Its tariff was stored when it was
//! accepted, so what was approved is what it may cost.

use serde_json::json;

use super::cancel::{self, CancelCause, CancelRules};
use super::{by_id_any_account, not_found};
use crate::app::{App, Ctx};
use crate::crash;
use crate::domain::audit::ChangeAuthor;
use crate::domain::keys;
use mediagate_model::catalog::EMBEDDED;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, TaskId};
use mediagate_model::task::{ApprovalState, Task};
use mediagate_store::{self as store, Conn};

/// Tasks that are ended in one run of upkeep, one transaction each; the next run follows within
/// seconds.
const EXPIRED_BATCH: u32 = 200;

/// A decision about a task that waits for approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// Its order is sent as soon as a route has room.
    Approve,
    /// It ends as cancelled, and its hold is released.
    Reject,
}

impl ApprovalDecision {
    /// The action in the audit log.
    const fn action(self) -> &'static str {
        match self {
            Self::Approve => "task.approve",
            Self::Reject => "task.reject",
        }
    }

    const fn state(self) -> ApprovalState {
        match self {
            Self::Approve => ApprovalState::Approved,
            Self::Reject => ApprovalState::Rejected,
        }
    }
}

/// Approves or rejects a task, of this account only if one is given. Returns the task as it is
/// afterwards.
pub async fn decide(
    app: &App,
    account: Option<AccountId>,
    id: TaskId,
    decision: ApprovalDecision,
    author: ChangeAuthor,
) -> Result<Task, Error> {
    let task = by_id_any_account(app, id).await?;
    if account.is_some_and(|account| account != task.account) {
        return Err(not_found());
    }
    let is_own = author.key_id() == Some(task.key);
    if decision == ApprovalDecision::Approve && is_own && app.config.approval_by_others {
        let message = "Orders of this gateway are approved by others: the API key that placed this order cannot approve it.";
        return Err(Error::plain(ErrorCode::ApprovalByOthers, message).with_task(id));
    }
    let now = app.clock.now();
    let app_handle = app.clone();
    let write = app
        .store
        .write_for(task.account, move |conn| -> Result<Task, Error> {
            // Waits for another decision, for a cancellation, and for the end by expiry.
            store::tasks::lock(conn, id)?;
            let task = store::tasks::by_id_any_account(conn, id)?.ok_or_else(not_found)?;
            let is_decided = match decision {
                ApprovalDecision::Approve => {
                    let expired = keys::expiry_cutoff(&app_handle);
                    store::tasks::approve(conn, id, expired, now)?.is_some()
                }
                ApprovalDecision::Reject => {
                    let state = ApprovalState::Rejected;
                    end(conn, &app_handle, &task, state, now)?
                }
            };
            if !is_decided {
                return Err(not_pending(&task).with_task(id));
            }
            let after = json!({
                "approval": decision.state().name(),
                "reserved_usd": task.reserved.to_string(),
                "key": task.key.to_string(),
            });
            let before = json!({"approval": ApprovalState::Pending.name()});
            let changed = (Some(before), Some(after));
            author.note_once(conn, decision.action(), &id, changed, now)?;
            store::tasks::by_id_any_account(conn, id)?.ok_or_else(not_found)
        });
    let task = store::await_within_limit(write).await?;
    match decision {
        ApprovalDecision::Approve => announce_approval(app, &task),
        ApprovalDecision::Reject => cancel::announce(app, &task),
    }
    Ok(task)
}

/// The error for a task about which nothing is to be decided.
fn not_pending(task: &Task) -> Error {
    let message = match task.approval.map(|approval| approval.state) {
        None => "The task needs no approval.",
        Some(ApprovalState::Approved) => "The task was already approved.",
        Some(ApprovalState::Rejected) => "The task was already rejected.",
        Some(ApprovalState::Cancelled) => "The task was cancelled before it was approved.",
        // While it is still pending, upkeep is about to end it.
        Some(ApprovalState::Expired | ApprovalState::Pending) => {
            "The task was not approved in time."
        }
    };
    Error::plain(ErrorCode::ApprovalNotPending, message)
}

/// Wakes the workers, and whoever follows the task. Called after the commit.
fn announce_approval(app: &App, task: &Task) {
    crash::point("task-approved");
    tracing::info!(task_id = %task.id, model = %task.model, "task approved");
    app.bell.ring_underway(task.id);
    if task.provider == EMBEDDED {
        app.bell.ring_for_work();
    } else {
        app.bell.ring_for_upstream();
    }
}

/// Ends a task that will not be approved; its hold is released. Returns whether it was waiting for
/// approval.
fn end(
    conn: &mut Conn<'_>,
    app: &App,
    task: &Task,
    state: ApprovalState,
    now: Timestamp,
) -> Result<bool, Error> {
    if !store::tasks::refuse_approval(conn, task.id, state, now)? {
        return Ok(false);
    }
    let cause = match state {
        ApprovalState::Expired => CancelCause::ApprovalExpiry,
        _ => CancelCause::Rejection,
    };
    cancel::end(conn, app, task, CancelRules::of(app), cause, now)
}

/// Ends the tasks that nobody approved in time. While the clock is not trusted, none has expired.
pub async fn end_expired_approvals(app: &App) -> Result<(), Error> {
    for id in expired(app, EXPIRED_BATCH).await? {
        let (now, app_handle) = (app.clock.now(), app.clone());
        let write = app.store.write(move |conn| -> Result<Option<Task>, Error> {
            store::tasks::lock(conn, id)?;
            let Some(task) = store::tasks::by_id_any_account(conn, id)? else {
                return Ok(None);
            };
            // Somebody may have decided in the last moment.
            if !end(conn, &app_handle, &task, ApprovalState::Expired, now)? {
                return Ok(None);
            }
            Ok(store::tasks::by_id_any_account(conn, id)?)
        });
        if let Some(task) = write.await? {
            cancel::announce(app, &task);
        }
    }
    Ok(())
}

/// Whether [`end_expired_approvals`] may have something to do.
pub async fn has_expired_approvals(app: &Ctx) -> bool {
    // After an error the work itself fails and is logged.
    expired(app, 1)
        .await
        .map_or(true, |tasks| !tasks.is_empty())
}

async fn expired(app: &Ctx, limit: u32) -> Result<Vec<TaskId>, Error> {
    let expired = keys::expiry_cutoff(app);
    let read = app
        .store
        .read(move |conn| store::tasks::expired_approvals(conn, expired, limit));
    Ok(read.await?)
}
