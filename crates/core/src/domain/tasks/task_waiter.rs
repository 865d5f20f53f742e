//! Waiting for a task: for its end, or for its next event. Listens first, then looks, then sleeps
//! until the bell rings.

use std::time::Duration;

use super::{get, not_found};
use crate::app::AppParts;
use crate::bell::TaskListener;
use mediagate_model::error::Error;
use mediagate_model::ids::{AccountId, TaskId};
use mediagate_model::task::{Task, TaskEvent};
use mediagate_store as store;

/// The task once it has ended, or as it is after `limit`.
pub async fn wait(
    app: &AppParts,
    account: AccountId,
    id: TaskId,
    limit: Duration,
) -> Result<Task, Error> {
    if limit.is_zero() {
        return get(app, account, id).await;
    }
    TaskWaiter::listen(app, account, id, None)
        .wait(app, limit)
        .await
}

/// Waits for a task's end; listens to its bell from construction on.
pub struct TaskWaiter {
    account: AccountId,
    pub id: TaskId,
    listener: TaskListener,
    /// The number of the last event that is known before the first look-up.
    known_seq: Option<u32>,
}

impl TaskWaiter {
    /// A waiter for a task that is about to be accepted: it is not looked up before its bell rings.
    pub fn for_new_task(app: &AppParts, task: &Task) -> Self {
        Self::listen(app, task.account, task.id, Some(task.event_seq))
    }

    fn listen(app: &AppParts, account: AccountId, id: TaskId, known_seq: Option<u32>) -> Self {
        Self {
            account,
            id,
            listener: app.bell.listen(id),
            known_seq,
        }
    }

    /// The task once it has ended, or as it is after `limit`.
    pub async fn wait(mut self, app: &AppParts, limit: Duration) -> Result<Task, Error> {
        let (account, id) = (self.account, self.id);
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let known_seq = self.known_seq.take();
            // A task that is just being accepted, or was just read, is not looked up before the
            // next sleep.
            let seq = if let Some(seq) = known_seq {
                seq
            } else {
                let read = app
                    .store
                    .read(move |conn| store::tasks::state_and_seq(conn, id, account));
                let (state, seq) = read.await?.ok_or_else(not_found)?;
                // Looked up once more after the deadline, so that an end whose ring was lost is not
                // missed.
                if state.is_terminal() || tokio::time::Instant::now() >= deadline {
                    return get(app, account, id).await;
                }
                seq
            };
            let was_rung = tokio::select! {
                was_rung = self.listener.wait_for_end(seq) => was_rung,
                () = tokio::time::sleep_until(deadline) => false,
                () = app.process.closing.cancelled() => return Err(Error::shutting_down().with_task(id)),
            };
            if was_rung {
                // Most rings mean the end, so the whole task is read instead of its state first.
                let task = get(app, account, id).await?;
                if task.state.is_terminal() {
                    return Ok(task);
                }
                self.known_seq = Some(task.event_seq);
            }
        }
    }
}

/// The task's events after `seq`; waits until there is one. Empty if the task has ended and there
/// are no more.
pub async fn next_events(
    app: &AppParts,
    account: AccountId,
    id: TaskId,
    seq: u32,
) -> Result<(Task, Vec<TaskEvent>), Error> {
    let mut listener = app.bell.listen(id);
    loop {
        let (task, events) = app
            .store
            .read(move |conn| -> Result<_, Error> {
                // Events first, so that the task is at least as recent.
                let events = store::tasks::events_after(conn, id, seq)?;
                let task = store::tasks::by_id(conn, id, account)?.ok_or_else(not_found)?;
                Ok((task, events))
            })
            .await?;
        let newest = events.last().map_or(seq, |event| event.seq);
        if !events.is_empty() || (task.state.is_terminal() && task.event_seq <= newest) {
            return Ok((task, events));
        }
        tokio::select! {
            // Measured by the newest event that was read. The task's own number may already count
            // an event that this read missed.
            () = listener.wait_for_change(newest) => {}
            () = app.process.closing.cancelled() => return Err(Error::shutting_down().with_task(id)),
        }
    }
}
