//! Plain data that every layer shares: no I/O, no storage, no presentation.

pub mod account;
pub mod catalog;
pub mod intent;
pub mod ledger;
pub mod media;
pub mod money;
pub mod music;
pub mod submission;
pub mod task;
