//! The answers as they go over the wire, field by field as the API documents them.
//!
//! They are built from model types; no logic beyond that. Requests are read in
//! `orders` and, where nothing is made, beside their handlers.

pub mod account;
pub mod chat;
pub mod error;
pub mod models;
pub mod music;
pub mod personas;
pub mod quotes;
pub mod tasks;
pub mod usage;
pub mod videos;
pub mod words;
