//! The money of an account, in every response that shows it.

use serde::Serialize;
use utoipa::ToSchema;

use mediagate_model::account::AccountMoney;
use mediagate_model::money::MicroDollars;

/// An account's money, in US dollars.
#[derive(Debug, Serialize, ToSchema)]
pub struct AccountAmounts {
    /// Credit minus the amount spent.
    pub balance_usd: String,
    /// Reserved for open tasks.
    pub held_usd: String,
    /// Total spent.
    pub spent_usd: String,
    /// Total credit minus withdrawals.
    pub credit_usd: String,
    /// Amount that can still be reserved. Null if unlimited.
    #[schema(required = true)]
    pub available_usd: Option<String>,
    /// Limit on the total cost of all tasks. Null if unlimited.
    #[schema(required = true)]
    pub budget_usd: Option<String>,
}

impl From<&AccountMoney> for AccountAmounts {
    fn from(money: &AccountMoney) -> Self {
        Self {
            balance_usd: money.balance().to_string(),
            held_usd: money.held.to_string(),
            spent_usd: money.spent.to_string(),
            credit_usd: money.credit.to_string(),
            available_usd: text(money.available()),
            budget_usd: text(money.budget),
        }
    }
}

/// The only place where money becomes floating-point: some APIs require it.
#[expect(clippy::cast_precision_loss, reason = "the amount is only shown")]
pub(crate) fn dollars(amount: MicroDollars) -> f64 {
    amount.get() as f64 / 1e6
}

/// An amount that may be absent.
pub(crate) fn text(amount: Option<MicroDollars>) -> Option<String> {
    amount.map(|amount| amount.to_string())
}
