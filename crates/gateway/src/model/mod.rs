//! What exists: plain data that every layer shares.
//!
//! Nothing here does I/O or knows how things are stored, shown or made.

pub mod account;
pub mod catalog;
pub mod intent;
pub mod ledger;
pub mod media;
pub mod money;
pub mod music;
pub mod submission;
pub mod task;
