//! `/v1/…`.

mod chat;
mod models;
mod provenance;
mod several;
mod tasks;
mod videos;
