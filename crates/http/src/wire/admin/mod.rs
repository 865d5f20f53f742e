//! Responses to operators.

pub mod audit;
pub mod config;
pub mod events;
pub mod keys;
pub mod moderation;
pub mod money;
pub mod providers;
pub mod submissions;
pub mod tasks;
pub mod usage;
pub mod users;
