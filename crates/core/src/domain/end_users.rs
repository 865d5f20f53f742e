//! End users of callers: the operator's limits for them, and their part in accepting an order.

use std::time::Duration;

use serde_json::{Value, json};

use crate::app::{App, Ctx};
use crate::domain::budget_alerts::{self, UsedBudget};
use crate::domain::operator::OperatorAction;
use mediagate_model::account::BudgetPeriod;
use mediagate_model::budget::{BudgetOwner, EVERYONE, UserLimits, UserSums};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, UserLimitsId};
use mediagate_model::money::MicroDollars;
use mediagate_model::task::Task;
use mediagate_store::tasks::PageQuery;
use mediagate_store::{self as store, Conn};

/// An order for an end user, as far as the user's limits are concerned.
#[derive(Debug, Clone, Copy)]
pub struct UserOrder<'a> {
    pub account: AccountId,
    pub user: &'a str,
    /// Number of its tasks.
    pub tasks: u32,
    /// What they reserve together.
    pub cost: MicroDollars,
}

/// Refuses an order whose tasks were just written if its end user's limits do not allow it. The
/// refusal rolls them back.
pub fn admit(conn: &mut Conn<'_>, tasks: &[Task]) -> Result<(), Error> {
    let Some(first) = tasks.first() else {
        return Ok(());
    };
    let Some(user) = first.attribution.user.as_deref() else {
        return Ok(());
    };
    let (account, now) = (first.account, first.created_at);
    let Some(limits) = store::end_users::limits_for(conn, account, user)? else {
        return Ok(());
    };
    let costs = tasks.iter().map(|task| task.reserved);
    let order = UserOrder {
        account,
        user,
        tasks: u32::try_from(tasks.len()).unwrap_or(u32::MAX),
        cost: costs.fold(MicroDollars::ZERO, MicroDollars::plus),
    };
    // Read after the user's row is locked, so the sums include every order that came before, and
    // this one.
    let arrival = store::end_users::lock(conn, account, user)?;
    let sums = store::end_users::sums(conn, account, user, limits.period, now)?;
    check_sums(&limits, &sums, order)?;
    if let Some(rpm) = limits.rpm {
        let next =
            next_arrival(arrival, rpm, now).map_err(|wait| too_many_orders(order, rpm, wait))?;
        store::end_users::set_arrival(conn, account, user, next)?;
    }
    let Some(budget) = limits.budget else {
        return Ok(());
    };
    let used = UsedBudget {
        account,
        owner: BudgetOwner::User,
        owner_id: user.to_owned(),
        period: limits.period,
        budget,
        before: sums.used().minus(order.cost),
        after: sums.used(),
    };
    budget_alerts::note(conn, &used, now)
}

/// Refuses what [`admit`] would refuse now, except for the rate. Writes nothing.
pub fn check(conn: &mut Conn<'_>, order: UserOrder<'_>, now: Timestamp) -> Result<(), Error> {
    let UserOrder { account, user, .. } = order;
    let Some(limits) = store::end_users::limits_for(conn, account, user)? else {
        return Ok(());
    };
    let sums = store::end_users::sums(conn, account, user, limits.period, now)?;
    let with_order = UserSums {
        held: sums.held.plus(order.cost),
        open_tasks: sums.open_tasks.saturating_add(order.tasks),
        ..sums
    };
    check_sums(&limits, &with_order, order)
}

/// What an end user can still reserve. `None` if it has no budget.
pub fn remaining_budget(
    conn: &mut Conn<'_>,
    account: AccountId,
    user: &str,
    now: Timestamp,
) -> Result<Option<MicroDollars>, Error> {
    let Some(limits) = store::end_users::limits_for(conn, account, user)? else {
        return Ok(None);
    };
    let Some(budget) = limits.budget else {
        return Ok(None);
    };
    let sums = store::end_users::sums(conn, account, user, limits.period, now)?;
    Ok(Some(budget.minus(sums.used())))
}

/// Checks the sums, which include the order, against the limits.
fn check_sums(limits: &UserLimits, sums: &UserSums, order: UserOrder<'_>) -> Result<(), Error> {
    let user = order.user;
    if let Some(most) = limits.max_running.filter(|most| sums.open_tasks > *most) {
        let open = sums.open_tasks.saturating_sub(order.tasks);
        // An order that is larger than the limit can never be accepted.
        if order.tasks > most {
            let message = format!("The end user {user:?} may have {most} open tasks.");
            return Err(Error::plain(ErrorCode::InvalidValue, message));
        }
        let message = format!("The end user {user:?} has {open} open tasks. The limit is {most}.");
        return Err(Error::retry_later(ErrorCode::TooManyTasks, message, 5));
    }
    // A free order needs no money, so it passes even if the budget is used up.
    let budget = limits.budget.filter(|_| order.cost > MicroDollars::ZERO);
    let Some(budget) = budget.filter(|budget| sums.used() > *budget) else {
        return Ok(());
    };
    let used = sums.used().minus(order.cost);
    let per_period = limits
        .period
        .map_or_else(String::new, |period| format!(" per {}", period.name()));
    let message = format!(
        "The request may cost {} USD, but {used} USD of the budget of the end user {user:?}, {budget} USD{per_period}, are already used. Nothing was charged.",
        order.cost
    );
    Err(Error::plain(ErrorCode::BudgetExceeded, message))
}

fn too_many_orders(order: UserOrder<'_>, rpm: u32, wait: Duration) -> Error {
    // Rounded up: a retry after the truncated number of seconds would come too early.
    let seconds = u32::try_from(wait.as_secs())
        .unwrap_or(60)
        .saturating_add(1);
    let message = format!(
        "The end user {:?} is limited to {rpm} orders per minute.",
        order.user
    );
    Error::retry_later(ErrorCode::RateLimitExceeded, message, seconds)
}

/// When all orders would have arrived if they were spread evenly, including one at `now`; `Err` is
/// the wait until the next one. A minute's orders may arrive at once.
fn next_arrival(arrival: Timestamp, rpm: u32, now: Timestamp) -> Result<Timestamp, Duration> {
    const BURST: Duration = Duration::from_mins(1);
    let interval = BURST / rpm.max(1);
    let latest = now.plus(BURST);
    // Further ahead than orders can bring it: the clock was set back since.
    let arrival = if arrival > latest.plus(BURST) {
        now
    } else {
        arrival
    };
    let next = arrival.max(now).plus(interval);
    if next <= latest {
        Ok(next)
    } else {
        let micros = next.micros() - latest.micros();
        Err(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
    }
}

/// An end user's limits, and what it has used.
#[derive(Debug, Clone)]
pub struct UserRecord {
    pub limits: UserLimits,
    /// The handle of the account.
    pub account: String,
    /// Nothing for [`EVERYONE`].
    pub sums: UserSums,
}

/// New limits of an end user.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewLimits {
    pub budget: Option<MicroDollars>,
    pub period: Option<BudgetPeriod>,
    pub rpm: Option<u32>,
    pub max_running: Option<u32>,
}

/// The error for an end user without limits.
pub fn not_found() -> Error {
    let message = "There are no limits for this end user.";
    Error::plain(ErrorCode::UserNotFound, message)
}

/// Sets an end user's limits; they replace earlier ones.
pub async fn put(
    app: &App,
    operation: OperatorAction<'_, UserRecord>,
    account: AccountId,
    user: String,
    new: NewLimits,
) -> Result<UserRecord, Error> {
    let now = app.clock.now();
    operation
        .write(app, move |conn, author| {
            let before = store::end_users::own_limits(conn, account, &user)?;
            let limits = UserLimits {
                id: UserLimitsId::new(),
                account,
                user,
                budget: new.budget,
                period: new.period,
                rpm: new.rpm,
                max_running: new.max_running,
                created_at: now,
            };
            store::end_users::put_limits(conn, &limits)?;
            let record = record_of(conn, account, &limits.user, now)?;
            let changed = (
                before.as_ref().map(audit_value),
                Some(audit_value(&record.limits)),
            );
            author.note(conn, "user.limits", &target(&record), changed, now)?;
            Ok(record)
        })
        .await
}

/// Removes an end user's limits. Those for everyone apply from then on, if there are any.
pub async fn remove(
    app: &App,
    operation: OperatorAction<'_, UserRecord>,
    account: AccountId,
    user: String,
) -> Result<UserRecord, Error> {
    let now = app.clock.now();
    operation
        .write(app, move |conn, author| {
            let record = record_of(conn, account, &user, now)?;
            store::end_users::remove_limits(conn, record.limits.id)?;
            let changed = (Some(audit_value(&record.limits)), None);
            author.note(conn, "user.limits_removed", &target(&record), changed, now)?;
            Ok(record)
        })
        .await
}

/// The end user, as the audit log names it.
fn target(record: &UserRecord) -> String {
    format!("{}/{}", record.account, record.limits.user)
}

fn audit_value(limits: &UserLimits) -> Value {
    json!({
        "budget_usd": limits.budget.map(|budget| budget.to_string()),
        "budget_period": limits.period.map(BudgetPeriod::name),
        "rpm": limits.rpm,
        "max_running": limits.max_running,
    })
}

/// The limits that were set for exactly this end user, and what it has used.
pub async fn get(app: &Ctx, account: AccountId, user: String) -> Result<UserRecord, Error> {
    let now = app.clock.now();
    let read = app
        .store
        .long_read(move |conn| record_of(conn, account, &user, now));
    store::await_within_limit(read).await
}

fn record_of(
    conn: &mut Conn<'_>,
    account: AccountId,
    user: &str,
    now: Timestamp,
) -> Result<UserRecord, Error> {
    let limits = store::end_users::own_limits(conn, account, user)?;
    with_sums(conn, limits.ok_or_else(not_found)?, now)
}

fn with_sums(conn: &mut Conn<'_>, limits: UserLimits, now: Timestamp) -> Result<UserRecord, Error> {
    let sums = if limits.user == EVERYONE {
        UserSums::default()
    } else {
        store::end_users::sums(conn, limits.account, &limits.user, limits.period, now)?
    };
    let account = store::accounts::account_by_id(conn, limits.account)?;
    Ok(UserRecord {
        account: account.map(|account| account.handle).unwrap_or_default(),
        sums,
        limits,
    })
}

/// A page of limits, newest first, of one account or of all, and whether more follow.
pub async fn page(
    app: &Ctx,
    account: Option<AccountId>,
    page: PageQuery<UserLimitsId>,
) -> Result<(Vec<UserRecord>, bool), Error> {
    let (limit, one_more, now) = (page.limit, page.with_one_more(), app.clock.now());
    let read = app.store.long_read(move |conn| -> Result<_, Error> {
        let mut limits = store::end_users::page(conn, account, one_more)?;
        let has_more = store::page::truncate_to_limit(&mut limits, limit);
        let records = limits
            .into_iter()
            .map(|limits| with_sums(conn, limits, now));
        Ok((records.collect::<Result<Vec<_>, Error>>()?, has_more))
    });
    store::await_within_limit(read).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minutes_orders_may_come_at_once_and_then_one_after_the_other() {
        let now = Timestamp::from_seconds(1_000);
        let mut arrival = Timestamp::from_micros(0);
        for _ in 0..3 {
            arrival = next_arrival(arrival, 3, now).unwrap();
        }
        let wait = next_arrival(arrival, 3, now).unwrap_err();
        assert_eq!(wait, Duration::from_secs(20));
        assert!(next_arrival(arrival, 3, now.plus(wait)).is_ok());
        let before = Timestamp::from_seconds(500);
        assert!(next_arrival(arrival, 3, before).is_ok(), "set back");
    }
}
