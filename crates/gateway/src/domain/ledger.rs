//! Money: what a task costs is held when it is accepted, and paid or given back
//! when it ends.
//!
//! Everything here runs in the transaction that changes the state of the task,
//! so that money and state cannot part. `docs/money.md` tells the rules.

use crate::app::App;
use crate::clock::Timestamp;
use crate::error::{Error, ErrorCode};
use crate::model::ledger::EntryKind;
use crate::model::money::{Bill, Micros, Money};
use crate::model::task::{Task, TaskState};
use crate::store::ledger::{Change, Mismatch, Of, Sums};
use crate::store::tasks::Ending;
use crate::store::{self, Conn};

/// Holds the price of tasks that are being accepted, or refuses them all.
pub fn reserve(conn: &mut Conn<'_>, tasks: &[Task]) -> Result<(), Error> {
    let mut sums = None;
    for task in tasks.iter().filter(|task| task.money == Money::Held) {
        let change = Change {
            held: task.reserved,
            ..Change::default()
        };
        let written = store::ledger::add(
            conn,
            of(task),
            EntryKind::Reserve,
            change,
            None,
            task.created_at,
        )?;
        sums = Some(written);
    }
    let cost = tasks
        .iter()
        .fold(Micros::ZERO, |sum, task| sum.plus(task.reserved));
    sums.map_or(Ok(()), |sums| check(&sums, cost))
}

/// Whether the sums with `cost` in them are within their bounds.
fn check(sums: &Sums, cost: Micros) -> Result<(), Error> {
    let short = |available: Option<Micros>| available.is_some_and(|left| left < Micros::ZERO);
    let refused = |why: String| {
        let message = format!("This would cost up to {cost} USD; {why}. Nothing was charged.");
        Err(Error::plain(ErrorCode::BudgetExceeded, message))
    };
    if let Some(key) = sums.key.filter(|key| short(key.available())) {
        let used = key.spent.plus(key.held).minus(cost);
        let budget = key.budget.unwrap_or_default();
        return refused(format!(
            "{used} of the API key's budget of {budget} USD are used"
        ));
    }
    if short(sums.account.available()) {
        let left = sums.account.available().unwrap_or_default().plus(cost);
        return refused(format!("the account has {left} USD left"));
    }
    Ok(())
}

/// Whose money a task moves.
pub(super) fn of(task: &Task) -> Of {
    Of {
        account: task.account,
        key: Some(task.key),
        task: Some(task.id),
    }
}

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
    write_end(conn, task, ending.money, ending.cost, now)?;
    Ok(true)
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

/// Closes the money of a task that was cancelled while its provider went on:
/// with a bill it is paid, without one given back.
pub fn close(
    conn: &mut Conn<'_>,
    task: &Task,
    bill: Option<&Bill>,
    now: Timestamp,
) -> Result<bool, Error> {
    let money = if bill.is_some() {
        Money::Settled
    } else {
        Money::Released
    };
    if !store::tasks::close_money(conn, task.id, money, bill)? {
        return Ok(false);
    }
    let cost = bill.map_or(Micros::ZERO, |bill| bill.cost);
    write_end(conn, task, money, cost, now)?;
    Ok(true)
}

fn write_end(
    conn: &mut Conn<'_>,
    task: &Task,
    money: Money,
    cost: Micros,
    now: Timestamp,
) -> Result<(), Error> {
    let (kind, spent) = match money {
        Money::Free | Money::Held => return Ok(()),
        Money::Settled => (EntryKind::Settle, cost),
        Money::Released => (EntryKind::Release, Micros::ZERO),
    };
    let change = Change {
        held: Micros::ZERO.minus(task.reserved),
        spent,
        credit: Micros::ZERO,
    };
    store::ledger::add(conn, of(task), kind, change, None, now)?;
    Ok(())
}

/// Everything that does not add up; nothing is repaired.
pub async fn verify(app: &App) -> Result<Vec<Mismatch>, Error> {
    app.store
        .examine(|conn| store::ledger::mismatches(conn).map_err(Error::from))
        .await
}
