//! The requests that create and change an account, and move money by hand.

use serde_json::Value;

use super::fields::{Amount, or_removed};
use crate::fields::types::{Flag, Id, NotBlank, Required};
use crate::fields::{self, request};
use mediagate_core::domain::books::Changes;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::TaskId;
use mediagate_model::money::Micros;

/// Longest note in characters.
const NOTE: usize = 500;

request! {
    /// An account to create.
    pub struct AccountRequest {
        /// Short unique name: 1 to 40 of a-z, 0-9, - and _.
        handle: Required<NotBlank<40>>,
        /// Name for people, up to 100 characters; made of the handle by default.
        name: NotBlank<100>,
        /// Whether it can spend only its credit.
        prepaid: Flag,
        /// Limit on the total cost of all its tasks in US dollars, as text.
        budget_usd: Amount<false>,
    }
}

request! {
    /// What to change of an account: what is left out stays.
    pub struct AccountChange {
        /// Name for people, up to 100 characters.
        name: NotBlank<100>,
        /// Whether it can spend only its credit.
        prepaid: Flag,
        /// Limit on the total cost of all its tasks in US dollars, as text; null removes it.
        budget_usd: Amount<false>,
    }
}

request! {
    /// Money to pay in.
    pub struct CreditRequest {
        /// US dollars, as text; a negative amount withdraws.
        amount_usd: Required<Amount<true>>,
        /// For the ledger, up to 500 characters.
        note: NotBlank<NOTE>,
    }
}

request! {
    /// A correction of a task's cost.
    pub struct AdjustmentRequest {
        /// The task.
        task_id: Required<Id<TaskId>>,
        /// US dollars, as text: a positive amount charges, a negative one refunds.
        amount_usd: Required<Amount<true>>,
        /// The reason, for the ledger, up to 500 characters.
        note: Required<NotBlank<NOTE>>,
    }
}

/// Reads a new account.
pub fn read_account(body: &Value) -> Result<(String, Changes), Error> {
    fields::read(body, |body| {
        let request = AccountRequest::read(body);
        let changes = Changes {
            name: request.name,
            prepaid: request.prepaid,
            budget: request.budget_usd.map(Some),
        };
        Some((request.handle?, changes))
    })
}

/// Reads a change of an account.
pub fn read_change(body: &Value) -> Result<Changes, Error> {
    fields::read(body, |body| {
        let request = AccountChange::read(body);
        Some(Changes {
            name: request.name,
            prepaid: request.prepaid,
            budget: or_removed(body, "budget_usd", request.budget_usd),
        })
    })
}

/// Reads a credit and its note.
pub fn read_credit(body: &Value) -> Result<(Micros, Option<String>), Error> {
    fields::read(body, |body| {
        let request = CreditRequest::read(body);
        Some((request.amount_usd?, request.note))
    })
}

/// Reads an adjustment.
pub fn read_adjustment(body: &Value) -> Result<(TaskId, Micros, String), Error> {
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
