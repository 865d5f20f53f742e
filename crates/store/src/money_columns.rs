//! The columns that hold the money of an account and a key, and how they are read.

use crate::{Row, StoreError, Value, usage};
use mediagate_model::account::{AccountMoney, BudgetPeriod, KeyMoney};
use mediagate_model::clock::Timestamp;
use mediagate_model::money::Micros;

/// The money of the key `k`; `?1`, `?2` and `?3` are the days on which the current day, week and month
/// began.
macro_rules! key_money_columns {
    () => {
        "k.budget_micros, k.held_micros, k.spent_micros, k.budget_period,
         CASE WHEN k.budget_period IS NULL THEN k.spent_micros ELSE
             (SELECT CAST(COALESCE(SUM(d.spent_micros), 0) AS BIGINT) FROM daily_sums d
              WHERE d.account_id = k.account_id AND d.key_id = k.id AND d.day >=
                  CASE k.budget_period WHEN 'day' THEN CAST(?1 AS BIGINT) WHEN 'week' THEN CAST(?2 AS BIGINT) ELSE CAST(?3 AS BIGINT) END) END"
    };
}
pub(super) use key_money_columns;

/// Days on which the current periods began, for [`key_money_columns!`].
pub(super) fn starts(now: Timestamp) -> [Value<'static>; 3] {
    [BudgetPeriod::Day, BudgetPeriod::Week, BudgetPeriod::Month]
        .map(|period| usage::day_of(period.start(now)).into())
}

pub(super) fn account_money(row: &Row<'_>, at: usize) -> Result<AccountMoney, StoreError> {
    Ok(AccountMoney {
        prepaid: row.flag(at)?,
        budget: row.int_or_null(at + 1)?.map(Micros::new),
        held: Micros::new(row.int(at + 2)?),
        spent: Micros::new(row.int(at + 3)?),
        credit: Micros::new(row.int(at + 4)?),
    })
}

/// What [`key_money_columns!`] selects.
pub(super) fn key_money(row: &Row<'_>, at: usize) -> Result<KeyMoney, StoreError> {
    Ok(KeyMoney {
        budget: row.int_or_null(at)?.map(Micros::new),
        held: Micros::new(row.int(at + 1)?),
        spent: Micros::new(row.int(at + 2)?),
        period: row.parse_or_null(at + 3, "api_keys.budget_period")?,
        counted: Micros::new(row.int(at + 4)?),
    })
}
