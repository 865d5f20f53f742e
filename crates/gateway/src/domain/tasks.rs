//! Reading tasks, waiting for them, cancelling them.

use std::sync::Arc;
use std::time::Duration;

use crate::app::{App, Parts};
use crate::config::CancelPolicy;
use crate::crash;
use crate::domain::endings;
use crate::error::{Error, ErrorCode};
use crate::ids::{AccountId, TaskId};
use crate::model::money::{Micros, Money};
use crate::model::task::{Task, TaskEvent, TaskFailure, TaskState};
use crate::store;
use crate::store::tasks::{Ending, Filter, Page};
use crate::telemetry;

pub async fn get(app: &Parts, account: AccountId, id: TaskId) -> Result<Task, Error> {
    let known = app.caches.ended.get(&id);
    if let Some(task) = known.filter(|task| task.account == account && !is_past(app, task)) {
        return Ok(Task::clone(&task));
    }
    let read = app
        .store
        .read(move |conn| store::tasks::by_id(conn, id, account));
    let task = read.await?.ok_or_else(not_found)?;
    if task.state.is_terminal() && task.money != Money::Held {
        app.caches.ended.insert(id, Arc::new(task.clone()));
    }
    Ok(task)
}

/// Whether the task's record may have been deleted.
fn is_past(app: &Parts, task: &Task) -> bool {
    let end = task.finished_at.zip(app.config.record_ttl);
    end.is_some_and(|(finished, ttl)| finished.plus(ttl) <= app.clock.now())
}

/// Deletes the records of finished tasks older than `record_ttl`.
pub async fn remove_past(app: &Parts) -> Result<(), Error> {
    /// Tasks per transaction.
    const BATCH: u32 = 200;
    let Some(ttl) = app.config.record_ttl else {
        return Ok(());
    };
    loop {
        let before = app.clock.now().minus(ttl);
        let past = app
            .store
            .examine(move |conn| store::records::past(conn, before, BATCH))
            .await?;
        if past.is_empty() {
            return Ok(());
        }
        tracing::info!(tasks = past.len(), "records removed: they expired");
        app.store
            .write(move |conn| store::records::remove(conn, &past))
            .await?;
    }
}

pub fn not_found() -> Error {
    Error::plain(ErrorCode::TaskNotFound, "There is no task with this id.")
}

/// A page of the account's tasks, and whether more follow.
pub async fn list(
    app: &Parts,
    account: AccountId,
    filter: Filter,
    page: Page<TaskId>,
) -> Result<(Vec<Task>, bool), Error> {
    let (limit, one_more) = (page.limit, page.with_one_more());
    let read = app
        .store
        .examine(move |conn| store::tasks::page(conn, account, &filter, one_more));
    let mut tasks = store::soon(read).await?;
    let has_more = store::tasks::cut_one_more(&mut tasks, limit);
    Ok((tasks, has_more))
}

/// The task once it has ended, or as it is after `limit`.
pub async fn wait(
    app: &Parts,
    account: AccountId,
    id: TaskId,
    limit: Duration,
) -> Result<Task, Error> {
    let task = get(app, account, id).await?;
    if task.state.is_terminal() || limit.is_zero() {
        return Ok(task);
    }
    let mut listener = app.bell.listen(id);
    let deadline = tokio::time::Instant::now() + limit;
    loop {
        let task = get(app, account, id).await?;
        if task.state.is_terminal() || tokio::time::Instant::now() >= deadline {
            return Ok(task);
        }
        tokio::select! {
            () = listener.changed(task.event_seq) => {}
            () = tokio::time::sleep_until(deadline) => {}
            () = app.stop.closing.cancelled() => return Err(Error::shutting_down().of_task(id)),
        }
    }
}

/// The task's events after `seq`; waits until there is one. Empty if the task has ended and there
/// are no more.
pub async fn next_events(
    app: &Parts,
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
            // The task may have been read after an event that was not.
            () = listener.changed(newest) => {}
            () = app.stop.closing.cancelled() => return Err(Error::shutting_down().of_task(id)),
        }
    }
}

/// Cancels a task. It is cancelled when this returns; a worker that runs it stops soon after and
/// can no longer write a result.
///
/// Its hold is released, unless the operator charges for what a provider makes anyway
/// (`cancel_policy`): then it stays held until the provider's job has ended.
pub async fn cancel(app: &App, account: AccountId, id: TaskId) -> Result<Task, Error> {
    let now = app.clock.now();
    let (policy, parts) = (app.config.cancel_policy, app.clone());
    let written = app
        .store
        .write_for(account, move |conn| -> Result<Task, Error> {
            let task = store::tasks::by_id(conn, id, account)?.ok_or_else(not_found)?;
            let last = store::submissions::latest(conn, id)?;
            let at_work = last.is_some_and(|last| last.state.is_open());
            let ending = cancellation(&task, at_work && policy == CancelPolicy::Charge);
            if !endings::end(conn, &parts, &task, None, &ending, now, |_| {
                Ok::<_, Error>(())
            })? {
                let message = "The task has already ended and cannot be cancelled.";
                return Err(Error::plain(ErrorCode::TaskNotCancellable, message).of_task(id));
            }
            store::tasks::by_id(conn, id, account)?.ok_or_else(not_found)
        });
    let task = store::soon(written).await?;
    crash::point("task-cancelled");
    telemetry::task_ended(&task, TaskState::Cancelled);
    tracing::info!(task_id = %id, money = task.money.name(), "task cancelled");
    app.bell.call_off(id);
    app.bell.ring_for_upstream();
    app.bell.ring_for_deliveries();
    Ok(task)
}

/// The ending of a cancelled task, with a message about its money.
fn cancellation(task: &Task, is_charged: bool) -> Ending {
    let (money, cost, message) = match task.money {
        Money::Held if is_charged => {
            let message = format!(
                "The task was cancelled while its provider was working on it. What the provider makes anyway is charged, at most {} USD; the rest is released when its job has ended.",
                task.reserved
            );
            (Money::Held, task.reserved, message)
        }
        Money::Held => {
            let message = format!(
                "The task was cancelled. The {} USD held for it were released.",
                task.reserved
            );
            (Money::Released, Micros::ZERO, message)
        }
        money => (money, Micros::ZERO, "The task was cancelled.".to_owned()),
    };
    Ending {
        state: TaskState::Cancelled,
        cost,
        money,
        bill: None,
        output: None,
        failure: Some(TaskFailure {
            code: ErrorCode::TaskCancelled,
            message,
        }),
    }
}

/// The model's median run time in the last 24 hours.
pub async fn median_time(app: &Parts, model: &str) -> Result<Option<Duration>, Error> {
    let (model, since) = (
        model.to_owned(),
        app.clock.now().minus(Duration::from_hours(24)),
    );
    let read = app
        .store
        .examine(move |conn| store::tasks::median_run_time(conn, &model, since));
    Ok(store::soon(read).await?)
}

/// Cached for a few seconds, because thousands of jobs need it.
pub async fn usual_time(app: &Parts, model: &str) -> Result<Option<Duration>, Error> {
    if let Some(known) = app.caches.usual_times.get(model) {
        return Ok(known);
    }
    let time = median_time(app, model).await?;
    app.caches.usual_times.insert(model.to_owned(), time);
    Ok(time)
}
