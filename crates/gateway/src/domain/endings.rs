//! The one door through which tasks end: by their worker, a caller who calls them off,
//! an operator, or because no process has their model.
//!
//! What has to happen with every end is written here, in the transaction that ends
//! the task. Knows nothing of why one ends, nor of what it made.

use crate::clock::Timestamp;
use crate::domain::{intents, ledger};
use crate::error::{Error, ErrorCode};
use crate::model::catalog::EMBEDDED;
use crate::model::money::{Micros, Money};
use crate::model::task::{Task, TaskFailure, TaskState};
use crate::store::tasks::Ending;
use crate::store::{self, Conn};

/// Ends a task and its money with it. Returns whether this call ended it.
/// `owner` is the lease that must hold it; any open task when `None`.
pub fn end(
    conn: &mut Conn<'_>,
    task: &Task,
    owner: Option<&str>,
    ending: &Ending,
    now: Timestamp,
) -> Result<bool, Error> {
    if !store::tasks::finish(conn, task.id, owner, ending, now)? {
        return Ok(false);
    }
    debug_assert!(fits(ending.state, ending.money), "{ending:?}");
    if task.provider != EMBEDDED {
        // Whatever its provider still has of it takes no place, and is called off
        // or followed to its end.
        store::submissions::set_stray(conn, task.id, now)?;
    }
    ledger::end(conn, task, ending, now)?;
    let failure = ending.failure.as_ref();
    if failure.is_some_and(|failure| failure.code == ErrorCode::SubmissionUnconfirmed) {
        intents::unconfirmed_ended(conn, task, now)?;
    }
    Ok(true)
}

/// How a task ends that made nothing: its money comes back.
pub fn failed(task: &Task, failure: TaskFailure) -> Ending {
    Ending {
        state: TaskState::Failed,
        cost: Micros::ZERO,
        money: money_after(task, Money::Released),
        bill: None,
        output: None,
        failure: Some(failure),
    }
}

/// Where a task's money goes: nowhere, when it costs nothing.
pub const fn money_after(task: &Task, end: Money) -> Money {
    match task.money {
        Money::Free => Money::Free,
        _ => end,
    }
}

/// Which money goes with which end: paid only for what was made, and never
/// kept from a caller who got nothing.
const fn fits(state: TaskState, money: Money) -> bool {
    match money {
        Money::Free => true,
        Money::Settled => matches!(state, TaskState::Succeeded),
        Money::Released => matches!(state, TaskState::Failed | TaskState::Cancelled),
        Money::Held => matches!(state, TaskState::Cancelled),
    }
}
