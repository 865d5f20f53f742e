//! The gateway's domain logic: tasks and their ends, money, webhooks, personas, routes, limits.
//!
//! Begin with [`domain`]: each of its modules is one group of operations, and an operation changes
//! the database in one transaction. [`app`] puts the shared parts of a process together,
//! [`pricing`] decides what work costs, [`catalog`] and [`upstream`] turn the settings into models
//! and routes, [`records`] represents tasks as callers see them, [`limits`] limits requests,
//! [`intents`] recognises repeated requests, [`moderation_client`] asks moderation services, and
//! [`bell`] wakes waiters. [`retry`] repeats what
//! storage refused, [`private_files`] restricts files to their user, and [`crash`] ends the process
//! where a test asks for it. This crate must not know HTTP, nor how a task is run:
//! `mediagate-http` and `mediagate-worker` do.

pub mod app;
pub mod bell;
pub mod caches;
pub mod callback_urls;
pub mod catalog;
pub mod crash;
pub mod domain;
pub mod event_feed;
pub mod intents;
mod key_usage;
pub mod limits;
pub mod local_dispatch;
pub mod moderation_client;
pub mod pricing;
pub mod private_files;
pub mod records;
pub mod request_log;
pub mod retry;
pub mod server_identity;
pub mod upstream;
pub mod webhook_client;
