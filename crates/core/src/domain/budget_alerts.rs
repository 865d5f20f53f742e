//! Alerts about budgets: half of one, four fifths and all of it were used up. Each is noted once for
//! a budget and its period, in the transaction of the order that reached it.

use crate::domain::webhooks;
use mediagate_model::account::BudgetPeriod;
use mediagate_model::budget::{BudgetAlert, BudgetOwner, thresholds_reached};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::ids::{AccountId, AlertId, KeyId};
use mediagate_model::money::MicroDollars;
use mediagate_store::ledger::LedgerSums;
use mediagate_store::{self as store, Conn};

/// What is charged to a budget and held on it, before a change and after it.
#[derive(Debug, Clone)]
pub struct UsedBudget {
    pub account: AccountId,
    pub owner: BudgetOwner,
    /// The id of the key or the account, or the caller's id of its end user.
    pub owner_id: String,
    pub period: Option<BudgetPeriod>,
    pub budget: MicroDollars,
    pub before: MicroDollars,
    pub after: MicroDollars,
}

/// Notes the thresholds that a budget has reached, unless they were noted before.
pub fn note(conn: &mut Conn<'_>, used: &UsedBudget, now: Timestamp) -> Result<(), Error> {
    for percent in thresholds_reached(used.budget, used.before, used.after) {
        let alert = BudgetAlert {
            id: AlertId::new(),
            account: used.account,
            owner: used.owner,
            owner_id: used.owner_id.clone(),
            period_start: used.period.map(|period| period.start(now)),
            budget: used.budget,
            percent,
            used: used.after,
            at: now,
        };
        // Released money may be held again, so a threshold can be reached more than once.
        if store::budget_alerts::insert(conn, &alert)? {
            webhooks::events::budget_used(conn, &alert)?;
        }
    }
    Ok(())
}

/// Notes the thresholds that an order of this cost has reached. The sums include it.
pub fn note_order(
    conn: &mut Conn<'_>,
    (account, key): (AccountId, KeyId),
    sums: &LedgerSums,
    cost: MicroDollars,
    now: Timestamp,
) -> Result<(), Error> {
    if let Some(money) = sums.key
        && let Some(budget) = money.budget
    {
        let after = money.counted.plus(money.held);
        let used = UsedBudget {
            account,
            owner: BudgetOwner::Key,
            owner_id: key.to_string(),
            period: money.period,
            budget,
            before: after.minus(cost),
            after,
        };
        note(conn, &used, now)?;
    }
    let money = sums.account;
    let after = money.spent.plus(money.held);
    let credit = money.prepaid.then_some(money.credit);
    for budget in money.budget.into_iter().chain(credit) {
        let used = UsedBudget {
            account,
            owner: BudgetOwner::Account,
            owner_id: account.to_string(),
            period: None,
            budget,
            before: after.minus(cost),
            after,
        };
        note(conn, &used, now)?;
    }
    Ok(())
}
