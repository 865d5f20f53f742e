//! Money: a task's price is reserved when it is accepted, and charged or released when it ends.
//!
//! Everything here runs in the transaction that changes the task's state, so that the two always
//! agree. The rules are in `docs/money.md`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::app::{App, Ctx};
use crate::domain::{budget_alerts, end_users};
use mediagate_model::account::Caller;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, KeyId};
use mediagate_model::ledger::EntryKind;
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::price::Bill;
use mediagate_model::task::{Task, TaskState};
use mediagate_store::ledger::{EntrySubject, LedgerChange, LedgerSums};
use mediagate_store::tasks::TaskEnding;
use mediagate_store::verify::{LedgerAudit, Mismatch};
use mediagate_store::{self as store, Conn};
use mediagate_telemetry::counters;

/// Reserves the price of tasks that are being accepted, or refuses them all.
pub fn reserve(conn: &mut Conn<'_>, tasks: &[Task]) -> Result<(), Error> {
    let mut sums = None;
    // Written first, checked afterwards: adding an entry locks the rows of key and account, so the
    // sums that it returns include every order that came before. A refusal rolls the entries back.
    for task in tasks.iter().filter(|task| task.money == ChargeState::Held) {
        let change = LedgerChange {
            held: task.reserved,
            ..LedgerChange::default()
        };
        let new_sums = store::ledger::add(
            conn,
            entry_subject(task),
            EntryKind::Reserve,
            change,
            None,
            task.created_at,
        )?;
        sums = Some(new_sums);
    }
    // One check after the last entry is enough, as its sums include the earlier ones. So the videos
    // of an order are accepted together or not at all.
    let cost = tasks
        .iter()
        .fold(MicroDollars::ZERO, |sum, task| sum.plus(task.reserved));
    let (Some(sums), Some(first)) = (sums, tasks.first()) else {
        return Ok(());
    };
    check(&sums, cost)?;
    let owners = (first.account, first.key);
    budget_alerts::note_order(conn, owners, &sums, cost, first.created_at)
}

/// Refuses what [`reserve`] would refuse now. Reserves nothing.
pub fn check_reserve(
    conn: &mut Conn<'_>,
    (account, key): (AccountId, KeyId),
    cost: MicroDollars,
    now: Timestamp,
) -> Result<(), Error> {
    // A free order needs no money, so it passes even if the budget is used up or the balance
    // negative.
    if cost == MicroDollars::ZERO {
        return Ok(());
    }
    let mut key = store::ledger::of_key(conn, key, now)?;
    let Some(mut account) = store::ledger::of_account(conn, account)? else {
        return Ok(());
    };
    account.held = account.held.plus(cost);
    if let Some(key) = &mut key {
        key.held = key.held.plus(cost);
    }
    check(&LedgerSums { key, account }, cost)
}

/// What can still be reserved with a key for an end user, if one is named: the least that the budgets
/// of both and the account allow. `None` if none has a limit, or if the database does not answer: the
/// caller has its order already.
pub async fn remaining_budget(
    app: &Ctx,
    caller: &Caller,
    user: Option<String>,
) -> Option<MicroDollars> {
    if caller.key.budget.is_none() && !caller.account_is_limited && user.is_none() {
        return None;
    }
    let (account, key, now) = (caller.account.id, caller.key.id, app.clock.now());
    let read = app.store.read(move |conn| -> Result<_, Error> {
        let for_user = match &user {
            Some(user) => end_users::remaining_budget(conn, account, user, now)?,
            None => None,
        };
        let account = store::ledger::of_account(conn, account)?;
        let key = store::ledger::of_key(conn, key, now)?;
        let limits = [
            account.and_then(|money| money.available()),
            key.and_then(|money| money.available()),
            for_user,
        ];
        Ok(limits.into_iter().flatten().min())
    });
    match read.await {
        Ok(remaining) => remaining.map(|amount| amount.max(MicroDollars::ZERO)),
        Err(error) => {
            tracing::warn!(%error, "what is left of a budget could not be read");
            None
        }
    }
}

/// Checks the sums, which include `cost`, against the limits.
fn check(sums: &LedgerSums, cost: MicroDollars) -> Result<(), Error> {
    let is_overdrawn = |available: Option<MicroDollars>| {
        available.is_some_and(|remaining| remaining < MicroDollars::ZERO)
    };
    let refuse = |reason: String| {
        let message =
            format!("The request may cost {cost} USD, but {reason}. Nothing was charged.");
        Err(Error::plain(ErrorCode::BudgetExceeded, message))
    };
    if let Some(key) = sums.key.filter(|key| is_overdrawn(key.available())) {
        // The sums include this request. The message states what was used without it.
        let used = key.counted.plus(key.held).minus(cost);
        let budget = key.budget.unwrap_or_default();
        let per_period = key
            .period
            .map_or_else(String::new, |period| format!(" per {}", period.name()));
        return refuse(format!(
            "{used} USD of the API key's budget of {budget} USD{per_period} are already used"
        ));
    }
    if is_overdrawn(sums.account.available()) {
        let remaining = sums.account.available().unwrap_or_default().plus(cost);
        return refuse(format!("the account has {remaining} USD left"));
    }
    Ok(())
}

/// The account, key, task and model for a task's ledger entries.
pub(super) fn entry_subject(task: &Task) -> EntrySubject<'_> {
    EntrySubject {
        account: task.account,
        key: Some(task.key),
        task: Some(task.id),
        model: Some(&task.model),
        attribution: Some(&task.attribution),
    }
}

/// Writes the ledger entry of a task that has just ended.
pub(super) fn end(
    conn: &mut Conn<'_>,
    task: &Task,
    ending: &TaskEnding,
    now: Timestamp,
) -> Result<(), Error> {
    let (money, cost, final_state) = (ending.money, ending.cost, Some(ending.state));
    write_end(conn, task, money, cost, final_state, now)
}

/// Settles the money of a task that was cancelled while its provider's job continued: charged if
/// there is a bill, else released.
pub fn close(
    conn: &mut Conn<'_>,
    task: &Task,
    bill: Option<&Bill>,
    now: Timestamp,
) -> Result<bool, Error> {
    close_with(conn, task, bill, &cancellation_message(task, bill), now)
}

/// Like [`close`], for a job of which it stays unknown whether it was completed.
pub fn close_unknown(
    conn: &mut Conn<'_>,
    task: &Task,
    bill: Option<&Bill>,
    now: Timestamp,
) -> Result<bool, Error> {
    let outcome = match bill {
        Some(bill) => format!("{} USD were charged.", bill.cost),
        None => format!("The {} USD held for it were released.", task.reserved),
    };
    let message = format!(
        "The task was cancelled. It is unknown whether the provider completed it. {outcome}"
    );
    close_with(conn, task, bill, &message, now)
}

fn close_with(
    conn: &mut Conn<'_>,
    task: &Task,
    bill: Option<&Bill>,
    message: &str,
    now: Timestamp,
) -> Result<bool, Error> {
    let money = if bill.is_some() {
        ChargeState::Settled
    } else {
        ChargeState::Released
    };
    let cost = bill.map_or(MicroDollars::ZERO, |bill| bill.cost);
    // A compare-and-set: the process that follows the job and the upkeep that releases leftovers
    // may both find that it is over, and only the first may write an entry.
    if !store::tasks::close_money(conn, task.id, money, bill, message)? {
        return Ok(false);
    }
    write_end(conn, task, money, cost, None, now)?;
    Ok(true)
}

/// The message of a cancelled task whose provider's job is over.
fn cancellation_message(task: &Task, bill: Option<&Bill>) -> String {
    match bill {
        Some(bill) if bill.cost < task.reserved => format!(
            "The task was cancelled, but the provider completed it anyway. {} USD were charged. The rest of the {} USD held for it was released.",
            bill.cost, task.reserved
        ),
        Some(bill) => format!(
            "The task was cancelled, but the provider completed it anyway. {} USD were charged.",
            bill.cost
        ),
        None => format!(
            "The task was cancelled. As far as known, the provider did not complete it. The {} USD held for it were released.",
            task.reserved
        ),
    }
}

fn write_end(
    conn: &mut Conn<'_>,
    task: &Task,
    money: ChargeState,
    cost: MicroDollars,
    final_state: Option<TaskState>,
    now: Timestamp,
) -> Result<(), Error> {
    let (kind, spent) = match (money, final_state) {
        (ChargeState::Free | ChargeState::Held, None) => return Ok(()),
        // A free task has no entry. A cancelled task whose money stays held gets its entry when its
        // job is over. But the task has ended, so the key's open-task count and the day's counts
        // are updated now.
        (ChargeState::Free | ChargeState::Held, Some(state)) => {
            return Ok(store::ledger::end_without_entry(
                conn,
                entry_subject(task),
                state,
                now,
            )?);
        }
        (ChargeState::Settled, _) => (EntryKind::Settle, cost),
        (ChargeState::Released, _) => (EntryKind::Release, MicroDollars::ZERO),
    };
    let change = LedgerChange {
        // Whatever is charged, the whole reservation ends here, so the unused rest needs no entry.
        held: MicroDollars::ZERO.minus(task.reserved),
        spent,
        final_state,
        ..LedgerChange::default()
    };
    store::ledger::add(conn, entry_subject(task), kind, change, None, now)?;
    Ok(())
}

/// Checks the whole ledger and returns every mismatch; repairs nothing.
pub async fn verify(app: &Ctx) -> Result<Vec<Mismatch>, Error> {
    run(app, LedgerAudit::whole()).await
}

/// `meta` key: entries before this time were checked and correct.
const CHECKED_UNTIL: &str = "ledger_checked_until";
/// `meta` key: number of mismatches at the last check.
const MISMATCHES: &str = "ledger_mismatches";
/// Entries may be committed this much later than their own time says.
const LATE_COMMITS: Duration = Duration::from_hours(1);
/// Maximum number of mismatches that a check logs.
const MOST_LOGGED: usize = 100;

/// Checks all sums, and what happened since the last clean check; logs mismatches.
pub async fn check_recent(app: &Ctx) -> Result<(), Error> {
    // Taken before the check: what is written while it runs is checked again next time.
    let started = app.clock.now();
    let read = app
        .store
        .long_read(|conn| store::meta::get(conn, CHECKED_UNTIL));
    let since = read.await?.map(Timestamp::from_micros);
    let mismatches = run(
        app,
        since.map_or_else(LedgerAudit::whole, LedgerAudit::since),
    )
    .await?;
    for mismatch in mismatches.iter().take(MOST_LOGGED) {
        tracing::error!(what = mismatch.kind, id = %mismatch.id, why = %mismatch.detail, "the ledger does not add up");
    }
    let count = i64::try_from(mismatches.len()).unwrap_or(i64::MAX);
    app.store
        .write(move |conn| -> Result<(), Error> {
            store::meta::set(conn, MISMATCHES, count)?;
            // After a mismatch this time stays as it is. The next check covers the same time
            // again, so the alarm continues as long as the fault exists.
            if count == 0 {
                store::meta::set(conn, CHECKED_UNTIL, started.minus(LATE_COMMITS).micros())?;
            }
            Ok(())
        })
        .await
}

/// Updates the metrics with the last check's result, whichever process made it.
pub async fn update_metrics(app: &App) -> Result<(), Error> {
    let read = app
        .store
        .long_read(|conn| store::meta::get::<i64>(conn, MISMATCHES));
    let count = u32::try_from(read.await?.unwrap_or(0)).unwrap_or(u32::MAX);
    counters::ledger_checked(count);
    app.process.mismatches.store(count, Ordering::Relaxed);
    Ok(())
}

async fn run(app: &Ctx, mut check: LedgerAudit) -> Result<Vec<Mismatch>, Error> {
    loop {
        let step = move |conn: &mut Conn<'_>| -> Result<_, Error> {
            let has_more = check.step(conn)?;
            Ok((check, has_more))
        };
        // One page per transaction: the whole ledger in one read would exceed its time limit.
        let has_more;
        (check, has_more) = app.store.long_read(step).await?;
        if !has_more {
            return Ok(check.mismatches);
        }
    }
}
