//! `/v1/…`.

mod chat;
mod models;
mod several;
mod tasks;
mod videos;
