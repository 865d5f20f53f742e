//! The requests that create and change an account, and move money by hand.

use serde_json::Value;

use super::fields::{AmountField, or_removed};
use crate::fields::types::{BooleanField, IdField, NonBlankText, RequiredField};
use crate::fields::{self, request};
use mediagate_core::domain::accounting::AccountChanges;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::TaskId;
use mediagate_model::money::MicroDollars;

/// Longest note in characters.
const NOTE: usize = 500;

request! {
    /// An account to create.
    pub struct AccountRequest {
        /// Short unique name: 1 to 40 of a-z, 0-9, - and _.
        handle: RequiredField<NonBlankText<40>>,
        /// Name for people, up to 100 characters; made of the handle by default.
        name: NonBlankText<100>,
        /// Whether it can spend only its credit.
        prepaid: BooleanField,
        /// Limit on the total cost of all its tasks in US dollars, as text.
        budget_usd: AmountField<false>,
    }
}

request! {
    /// What to change of an account: what is left out stays.
    pub struct AccountChange {
        /// Name for people, up to 100 characters.
        name: NonBlankText<100>,
        /// Whether it can spend only its credit.
        prepaid: BooleanField,
        /// Limit on the total cost of all its tasks in US dollars, as text; null removes it.
        budget_usd: AmountField<false>,
    }
}

request! {
    /// Money to pay in.
    pub struct CreditRequest {
        /// US dollars, as text; a negative amount withdraws.
        amount_usd: RequiredField<AmountField<true>>,
        /// For the ledger, up to 500 characters.
        note: NonBlankText<NOTE>,
    }
}

request! {
    /// A correction of a task's cost.
    pub struct AdjustmentRequest {
        /// The task.
        task_id: RequiredField<IdField<TaskId>>,
        /// US dollars, as text: a positive amount charges, a negative one refunds.
        amount_usd: RequiredField<AmountField<true>>,
        /// The reason, for the ledger, up to 500 characters.
        note: RequiredField<NonBlankText<NOTE>>,
    }
}

/// Reads a new account.
pub fn read_account(body: &Value) -> Result<(String, AccountChanges), Error> {
    fields::read(body, |body| {
        let request = AccountRequest::read(body);
        let changes = AccountChanges {
            name: request.name,
            prepaid: request.prepaid,
            budget: request.budget_usd.map(Some),
        };
        Some((request.handle?, changes))
    })
}

/// Reads a change of an account.
pub fn read_change(body: &Value) -> Result<AccountChanges, Error> {
    fields::read(body, |body| {
        let request = AccountChange::read(body);
        Some(AccountChanges {
            name: request.name,
            prepaid: request.prepaid,
            budget: or_removed(body, "budget_usd", request.budget_usd),
        })
    })
}

/// Reads a credit and its note.
pub fn read_credit(body: &Value) -> Result<(MicroDollars, Option<String>), Error> {
    fields::read(body, |body| {
        let request = CreditRequest::read(body);
        Some((request.amount_usd?, request.note))
    })
}

/// Reads an adjustment.
pub fn read_adjustment(body: &Value) -> Result<(TaskId, MicroDollars, String), Error> {
    fields::read(body, |body| {
        let request = AdjustmentRequest::read(body);
        if body.value("task_id").and_then(Value::as_str) == Some("") {
            body.fault(
                "task_id",
                ErrorCode::MissingField,
                "This field is required.",
            );
        }
        Some((request.task_id?, request.amount_usd?, request.note?))
    })
}
