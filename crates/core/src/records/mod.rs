//! JSON records of tasks, clips and files, as callers see them.
//!
//! Answers show records as they are now; a webhook's body is a record frozen when its task ended,
//! in the transaction that ends it. Built from model types alone: whoever asks reads the database.

pub mod attempt;
pub mod clip;
pub mod input;
mod links;
pub mod music;
pub mod provenance;
pub mod status_words;
pub mod task;
pub mod video;

pub use links::{LinkRules, Links};
