//! Budgets of end users, and alerts about the budgets of keys, end users and accounts.

use crate::account::BudgetPeriod;
use crate::clock::Timestamp;
use crate::ids::{AccountId, AlertId, UserLimitsId};
use crate::money::MicroDollars;

/// In place of an end user: everyone of the account who has no limits of their own.
pub const EVERYONE: &str = "*";

/// The operator's limits for an end user of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserLimits {
    pub id: UserLimitsId,
    pub account: AccountId,
    /// The end user, or [`EVERYONE`]: then each end user without limits of their own has these.
    pub user: String,
    /// Limit on the cost of the user's tasks, in all or in each period.
    pub budget: Option<MicroDollars>,
    /// How often the budget renews; never if `None`.
    pub period: Option<BudgetPeriod>,
    /// Orders per minute.
    pub rpm: Option<u32>,
    /// Limit of open tasks, both queued and running.
    pub max_running: Option<u32>,
    pub created_at: Timestamp,
}

/// What an end user has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserSums {
    /// Reserved for open tasks.
    pub held: MicroDollars,
    /// Charged, adjustments included.
    pub spent: MicroDollars,
    /// The part of `spent` that counts against a budget with the period that was asked for.
    pub counted: MicroDollars,
    pub open_tasks: u32,
}

impl UserSums {
    /// What counts against the budget.
    pub fn used(&self) -> MicroDollars {
        self.counted.plus(self.held)
    }
}

/// The owner of a budget.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum BudgetOwner {
    Key,
    User,
    Account,
}

impl BudgetOwner {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// A part of a budget was used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetAlert {
    pub id: AlertId,
    pub account: AccountId,
    pub owner: BudgetOwner,
    /// The id of the key or the account, or the caller's id of its end user.
    pub owner_id: String,
    /// When the budget's period began; `None` if it never renews.
    pub period_start: Option<Timestamp>,
    /// The budget; of a prepaid account what was paid in.
    pub budget: MicroDollars,
    /// The threshold that was reached.
    pub percent: u32,
    /// Charged and held when it was reached.
    pub used: MicroDollars,
    pub at: Timestamp,
}

/// Thresholds in percent of a budget.
pub const THRESHOLDS: [u32; 3] = [50, 80, 100];

/// The thresholds that are reached when the used part of a budget grows.
pub fn thresholds_reached(
    budget: MicroDollars,
    before: MicroDollars,
    after: MicroDollars,
) -> impl Iterator<Item = u32> {
    let is_reached = move |used: MicroDollars, percent: u32| {
        i128::from(used.get()) * 100 >= i128::from(budget.get()) * i128::from(percent)
    };
    let has_budget = budget > MicroDollars::ZERO;
    let thresholds = THRESHOLDS.into_iter().filter(move |_| has_budget);
    thresholds.filter(move |percent| is_reached(after, *percent) && !is_reached(before, *percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_threshold_is_reached_once() {
        let reached = |budget, before, after| -> Vec<u32> {
            let [budget, before, after] = [budget, before, after].map(MicroDollars::new);
            thresholds_reached(budget, before, after).collect()
        };
        assert_eq!(reached(100, 0, 49), [0_u32; 0]);
        assert_eq!(reached(100, 49, 50), [50]);
        assert_eq!(reached(100, 50, 79), [0_u32; 0]);
        assert_eq!(reached(100, 0, 100), [50, 80, 100]);
        assert_eq!(reached(3, 2, 3), [80, 100]);
        assert_eq!(reached(0, 0, 5), [0_u32; 0]);
        assert_eq!(reached(i64::MAX, 0, i64::MAX), [50, 80, 100]);
    }
}
