//! `/v1/…`.

mod chat;
mod models;
mod provenance;
mod several;
#[cfg(feature = "c2pa")]
mod signed;
mod tasks;
mod videos;
