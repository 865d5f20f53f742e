//! An alert about a budget, as webhooks and the operators' events show it.

use serde::Serialize;
use utoipa::ToSchema;

use mediagate_model::budget::{BudgetAlert, BudgetOwner};
use mediagate_model::clock::Timestamp;

/// A part of a budget that was used up. Amounts are in US dollars.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct BudgetAlertView {
    /// Whose budget it is: `key`, `user` or `account`.
    pub owner: &'static str,
    /// The id of the API key. Only for the budget of a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The end user. Only for the budget of an end user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The threshold that was reached: 50, 80 or 100 percent.
    pub percent: u32,
    /// The budget. Of a prepaid account, the total of what was paid in.
    pub budget_usd: String,
    /// Amount charged and held.
    pub used_usd: String,
    /// When the current period of the budget began. Null if it never renews.
    #[schema(required = true)]
    pub period_start: Option<String>,
}

impl BudgetAlertView {
    pub fn new(alert: &BudgetAlert) -> Self {
        let id_of = |owner| (alert.owner == owner).then(|| alert.owner_id.clone());
        Self {
            owner: alert.owner.name(),
            key_id: id_of(BudgetOwner::Key),
            user: id_of(BudgetOwner::User),
            percent: alert.percent,
            budget_usd: alert.budget.to_string(),
            used_usd: alert.used.to_string(),
            period_start: alert.period_start.map(Timestamp::rfc3339),
        }
    }
}
