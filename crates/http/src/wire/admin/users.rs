//! End users and their limits, as an operator sees them.

use serde::Serialize;
use utoipa::ToSchema;

use crate::wire::money::text;
use mediagate_core::domain::end_users::UserRecord;
use mediagate_model::account::BudgetPeriod;

/// An end user with limits. All amounts are in US dollars.
#[derive(Debug, Serialize, ToSchema)]
pub struct UserObject {
    /// Id of these limits, for pages of the list.
    pub id: String,
    /// Always `user`.
    pub object: &'static str,
    /// The caller's id of its end user, or `*` for each end user without limits of their own.
    pub user: String,
    /// The handle of the account.
    pub account: String,
    /// Limit on the total cost of the user's tasks. Null if unlimited.
    #[schema(required = true)]
    pub budget_usd: Option<String>,
    /// Period after which the budget renews: `day`, `week` or `month`. Null if it never renews.
    #[schema(required = true)]
    pub budget_period: Option<&'static str>,
    /// Maximum number of orders per minute. Null if unlimited.
    #[schema(required = true)]
    pub rpm: Option<u32>,
    /// Maximum number of open tasks. Null if unlimited.
    #[schema(required = true)]
    pub max_running: Option<u32>,
    /// Reserved for open tasks. 0 for `*`.
    pub held_usd: String,
    /// Total spent. 0 for `*`.
    pub spent_usd: String,
    /// Amount that can still be reserved. Null if unlimited.
    #[schema(required = true)]
    pub available_usd: Option<String>,
    /// Number of open tasks. 0 for `*`.
    pub open_tasks: u32,
    /// Time when the limits were first set.
    pub created_at: String,
}

impl UserObject {
    pub fn new(record: &UserRecord) -> Self {
        let (limits, sums) = (&record.limits, &record.sums);
        Self {
            id: limits.id.to_string(),
            object: "user",
            user: limits.user.clone(),
            account: record.account.clone(),
            budget_usd: text(limits.budget),
            budget_period: limits.period.map(BudgetPeriod::name),
            rpm: limits.rpm,
            max_running: limits.max_running,
            held_usd: sums.held.to_string(),
            spent_usd: sums.spent.to_string(),
            available_usd: text(limits.budget.map(|budget| budget.minus(sums.used()))),
            open_tasks: sums.open_tasks,
            created_at: limits.created_at.rfc3339(),
        }
    }
}
