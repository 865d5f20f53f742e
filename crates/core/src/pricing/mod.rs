//! Prices applied to work: what an order is quoted at, what is reserved for its task, and what is
//! charged when the task ends or was cancelled.
//!
//! This module owns the decision of what is counted. A domain operation states what is ordered
//! ([`OrderedWork`]), a worker what was made ([`DeliveredWork`]); amounts and bills are written only
//! here. A quantity goes through four types, each with one constructor:
//!
//! | type | is | made from |
//! |---|---|---|
//! | [`QuotedQuantity`] | what a quote and an acceptance count | the order |
//! | [`ReservedQuantity`] | what a task's reservation covers | the task |
//! | [`DeliveredQuantity`] | what a provider is paid for | the task and its delivery |
//! | [`BilledQuantity`] | what the caller is charged for, at most the reserved quantity | the same |
//!
//! What is charged is at most what was reserved, and that is at most what was quoted. What is not
//! known, a price as well as a quantity, counts as it was reserved and never as zero.
//!
//! It must not know the database, the settings, requests or providers' responses. It moves no money:
//! `domain::ledger` does.

mod bill;
mod quantity;
mod quotation;
mod surplus;
#[cfg(test)]
mod tests;

pub use bill::{bill, cancelled_bill, provider_cost, unknown_bill};
pub use quantity::{
    BilledQuantity, ClipLengths, DeliveredQuantity, DeliveredWork, OrderedWork, QuotedQuantity,
    ReservedQuantity, SongTerms,
};
pub use quotation::{OrderQuotation, TaskHold};
pub use surplus::DeliverySurplus;

/// A provider's name in the settings, and its name for the model.
pub type RouteName<'a> = (&'a str, &'a str);
