//! JSON records of tasks, clips and files, as callers see them.
//!
//! Responses show the current records; a webhook's body is a record that was frozen in the
//! transaction that ended its task. Built from model types only: the caller reads the database.

pub mod attempt;
pub mod budget_alert;
pub mod clip;
pub mod input;
mod links;
pub mod music;
pub mod provenance;
pub mod status_words;
pub mod task;
pub mod video;

pub use links::{LinkRules, Links, MediaGrant};
