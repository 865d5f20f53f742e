//! The shapes that go over the wire, field by field as the API documents them.
//!
//! Requests are parsed once, through [`fields`], into values that need no more
//! checking; answers are built from model types. No logic beyond that.

pub mod account;
pub mod chat;
pub mod chat_orders;
pub mod error;
pub mod fields;
pub mod models;
pub mod music;
pub mod music_orders;
pub mod personas;
pub mod quotes;
pub mod tasks;
pub mod usage;
pub mod video_fields;
pub mod videos;
pub mod words;
