//! Responses, field by field as documented.
//!
//! They are built from model types, without other logic. Requests are declared in `orders` or, if
//! they make nothing, next to their handlers.

pub mod account;
pub mod admin;
pub mod chat;
pub mod error;
pub mod list;
pub mod models;
pub mod money;
pub mod openrouter;
pub mod personas;
pub mod provenance;
pub mod quotes;
pub mod requests;
pub mod usage;
pub mod videos;
pub mod webhooks;
