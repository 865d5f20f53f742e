//! The requests that create and change an account, and move money by hand.

use serde_json::Value;

use super::fields::{AmountField, LineText, or_removed};
use crate::fields::types::{BooleanField, IdField, NonBlankText, RequiredField};
use crate::fields::{self, request};
use mediagate_core::domain::accounting::AccountChanges;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::TaskId;
use mediagate_model::money::MicroDollars;

/// Longest note in characters.
const MAX_NOTE: usize = 500;

request! {
    /// An account to create.
    pub struct AccountRequest {
        /// Short unique name: 1 to 40 characters from a-z, 0-9, - and _.
        handle: RequiredField<NonBlankText<40>>,
        /// Display name, at most 100 characters. Default: derived from the handle.
        name: LineText<100>,
        /// Whether the account can spend only its credit.
        prepaid: BooleanField,
        /// Limit on the total cost of all tasks in US dollars, as a string.
        budget_usd: AmountField<false>,
    }
}

request! {
    /// Changes to an account. Omitted fields stay unchanged.
    pub struct AccountChange {
        /// Display name, at most 100 characters.
        name: LineText<100>,
        /// Whether the account can spend only its credit.
        prepaid: BooleanField,
        /// Limit on the total cost of all tasks in US dollars, as a string. Null removes the limit.
        budget_usd: AmountField<false>,
    }
}

request! {
    /// Credit to add to an account.
    pub struct CreditRequest {
        /// Amount in US dollars, as a string. A negative amount withdraws credit.
        amount_usd: RequiredField<AmountField<true>>,
        /// Note for the ledger, at most 500 characters.
        note: LineText<MAX_NOTE>,
    }
}

request! {
    /// An adjustment of a task's cost.
    pub struct AdjustmentRequest {
        /// The task's id.
        task_id: RequiredField<IdField<TaskId>>,
        /// Amount in US dollars, as a string. A positive amount charges, a negative amount refunds.
        amount_usd: RequiredField<AmountField<true>>,
        /// Reason for the ledger, at most 500 characters.
        note: RequiredField<LineText<MAX_NOTE>>,
    }
}

/// Reads a new account.
pub fn read_account(body: &Value) -> Result<(String, AccountChanges), Error> {
    fields::read_strict(body, &AccountRequest::object(), &["policy"], |body| {
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
    fields::read_strict(body, &AccountChange::object(), &["policy"], |body| {
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
    fields::read_strict(body, &CreditRequest::object(), &[], |body| {
        let request = CreditRequest::read(body);
        Some((request.amount_usd?, request.note))
    })
}

/// Reads an adjustment.
pub fn read_adjustment(body: &Value) -> Result<(TaskId, MicroDollars, String), Error> {
    fields::read_strict(body, &AdjustmentRequest::object(), &[], |body| {
        let request = AdjustmentRequest::read(body);
        // An empty id counts as absent when it is read, but as present for the required check.
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
