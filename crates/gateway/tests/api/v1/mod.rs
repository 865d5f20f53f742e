//! `/v1/…`.

mod chat;
mod models;
mod records;
mod several;
mod tasks;
mod videos;
