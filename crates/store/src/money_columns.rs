//! The columns for the money of an account and a key, and how they are read.

use crate::columns::record;
use crate::usage;
use mediagate_model::account::{AccountMoney, BudgetPeriod, KeyMoney};
use mediagate_model::clock::Timestamp;

record! {
    account_money_columns for AccountMoney of "accounts" {
        prepaid: "prepaid",
        budget: "budget_micros",
        held: "held_micros",
        spent: "spent_micros",
        credit: "credit_micros",
    }
}

record! {
    /// The money of the key `k`; `:day`, `:week` and `:month` are the days on which the current day, week
    /// and month began.
    key_money_columns for KeyMoney of "api_keys" {
        budget: "k.budget_micros",
        period: "k.budget_period",
        held: "k.held_micros",
        spent: "k.spent_micros",
        counted: "CASE WHEN k.budget_period IS NULL THEN k.spent_micros ELSE
             (SELECT CAST(COALESCE(SUM(d.spent_micros), 0) AS BIGINT) FROM daily_sums d
              WHERE d.account_id = k.account_id AND d.key_id = k.id AND d.day >=
                  CASE k.budget_period WHEN 'day' THEN CAST(:day AS BIGINT) WHEN 'week' THEN CAST(:week AS BIGINT)
                  ELSE CAST(:month AS BIGINT) END) END",
    }
}

/// Days on which the current periods began, for [`key_money_columns!`].
pub(super) fn period_starts(now: Timestamp) -> [i64; 3] {
    [BudgetPeriod::Day, BudgetPeriod::Week, BudgetPeriod::Month]
        .map(|period| usage::day_of(period.start(now)))
}
