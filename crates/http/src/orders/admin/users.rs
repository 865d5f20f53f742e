//! The request that sets the limits of an end user.

use serde_json::Value;

use super::fields::{AmountField, PeriodField};
use crate::fields::types::{IntegerField, OptionalText};
use crate::fields::{self, request};
use mediagate_core::domain::end_users::NewLimits;
use mediagate_model::error::{Error, ErrorCode};

const MAX_LIMIT: i64 = u32::MAX as i64;

request! {
    /// The limits of an end user. They replace earlier ones. An omitted limit is none.
    pub struct UserLimitsRequest {
        /// The handle of the account whose end user it is. It can be a query parameter instead.
        /// Default: `default`
        account: OptionalText<100>,
        /// Limit on the total cost of the user's tasks in US dollars, as a string.
        budget_usd: AmountField<false>,
        /// Period after which the budget renews: `day`, `week` or `month`, in UTC. Default: it
        /// never renews.
        budget_period: PeriodField,
        /// Maximum number of orders per minute.
        rpm: IntegerField<1, MAX_LIMIT>,
        /// Maximum number of open tasks.
        max_running: IntegerField<1, MAX_LIMIT>,
    }
}

/// Reads the handle of the account, if it is named, and the limits. None at all are allowed: they
/// exempt a user from those for everyone.
pub fn read(body: &Value) -> Result<(Option<String>, NewLimits), Error> {
    fields::read_strict(body, &UserLimitsRequest::object(), &[], |body| {
        let request = UserLimitsRequest::read(body);
        // A period without an amount would look like a limit and limit nothing.
        if request.budget_period.is_some() && request.budget_usd.is_none() {
            let message = "This field is required if budget_period is set.";
            body.fault("budget_usd", ErrorCode::MissingField, message);
        }
        let to_u32 = |number: i64| u32::try_from(number).ok();
        let limits = NewLimits {
            budget: request.budget_usd,
            period: request.budget_period,
            rpm: request.rpm.and_then(to_u32),
            max_running: request.max_running.and_then(to_u32),
        };
        Some((request.account, limits))
    })
}
