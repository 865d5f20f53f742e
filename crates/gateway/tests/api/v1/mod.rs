//! `/v1/…`.

mod chat;
mod models;
mod tasks;
mod videos;
