//! Ends tasks. Every end comes through here: by a worker, by a caller who cancels, by an operator,
//! or because no process can run the model.
//!
//! Everything that must happen at the end of a task happens here, in the transaction that ends it.
//! The reason and the result are supplied by the caller.

use crate::app::App;
use crate::domain::{ledger, webhooks};
use crate::intents;
use crate::pricing::{self, DeliveredWork, RouteName};
use mediagate_model::catalog::EMBEDDED;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::task::{Task, TaskFailure, TaskResult, TaskState};
use mediagate_store::tasks::TaskEnding;
use mediagate_store::{self as store, Conn, StoreError};

/// Ends a task, settles its money, runs `write_more`, which writes what else belongs to the end,
/// and records the webhook event. Returns whether this call ended it. `owner` is the lease that
/// must hold the task; `None` ends any open task.
pub fn end<E: From<Error> + From<StoreError>>(
    conn: &mut Conn<'_>,
    app: &App,
    task: &Task,
    owner: Option<&str>,
    ending: &TaskEnding,
    now: Timestamp,
    write_more: impl FnOnce(&mut Conn<'_>) -> Result<(), E>,
) -> Result<bool, E> {
    // Only one call ends a task. A late result, a second cancellation or a worker that lost its
    // lease gets `None` here, and so writes nothing.
    let Some(ended) = settle(conn, task, owner, ending, now)? else {
        return Ok(false);
    };
    write_more(conn)?;
    // The event comes last: its body is frozen now and shows the files and clips that `write_more`
    // wrote.
    webhooks::events::task_ended(conn, app, &ended, now)?;
    Ok(true)
}

/// The part of [`end`] that changes the task and its money. Returns the task as it ended.
pub fn settle(
    conn: &mut Conn<'_>,
    task: &Task,
    owner: Option<&str>,
    ending: &TaskEnding,
    now: Timestamp,
) -> Result<Option<Task>, Error> {
    let Some(ended) = store::tasks::finish(conn, task.id, owner, ending, now)? else {
        return Ok(None);
    };
    debug_assert!(fits(ending.state, ending.money), "{ending:?}");
    if task.provider != EMBEDDED {
        // An open job at a provider no longer uses a slot; it is cancelled or followed to its end.
        store::submissions::set_stray(conn, task.id, now)?;
    }
    ledger::end(conn, task, ending, now)?;
    let failure = ending.failure.as_ref();
    // The caller may have received the task's id earlier and may now send the order again. For a
    // while a repetition must get this failure, because a new order could be paid twice.
    if failure.is_some_and(|failure| failure.code == ErrorCode::SubmissionUnconfirmed) {
        intents::unconfirmed_ended(conn, task, now)?;
    }
    Ok(Some(ended))
}

/// The ending of a task that made this result, at this route if a provider made it: what was made is
/// charged.
pub fn succeeded_ending(
    task: &Task,
    result: TaskResult,
    delivered: &DeliveredWork,
    route: Option<RouteName<'_>>,
) -> TaskEnding {
    let bill = pricing::bill(task, delivered, route);
    TaskEnding {
        state: TaskState::Succeeded,
        cost: bill.as_ref().map_or(MicroDollars::ZERO, |bill| bill.cost),
        money: money_after(task, ChargeState::Settled),
        bill,
        output: Some(result),
        failure: None,
    }
}

/// The ending of a task that made nothing: its hold is released.
pub fn failed_ending(task: &Task, failure: TaskFailure) -> TaskEnding {
    TaskEnding {
        state: TaskState::Failed,
        cost: MicroDollars::ZERO,
        money: money_after(task, ChargeState::Released),
        bill: None,
        output: None,
        failure: Some(failure),
    }
}

/// `end`, or [`ChargeState::Free`] if the task is free.
const fn money_after(task: &Task, end: ChargeState) -> ChargeState {
    match task.money {
        ChargeState::Free => ChargeState::Free,
        _ => end,
    }
}

/// Whether the money fits the state: charged only for a result, and still held only after a
/// cancellation.
const fn fits(state: TaskState, money: ChargeState) -> bool {
    match money {
        ChargeState::Free => true,
        ChargeState::Settled => matches!(state, TaskState::Succeeded),
        ChargeState::Released => matches!(state, TaskState::Failed | TaskState::Cancelled),
        // The provider's job continues. Who pays for it is decided when it is over.
        ChargeState::Held => matches!(state, TaskState::Cancelled),
    }
}
