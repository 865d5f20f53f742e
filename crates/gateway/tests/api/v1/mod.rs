//! `/v1/…`.

mod chat;
mod film_examination;
mod models;
mod moderation;
mod neighbours;
mod provenance;
mod records;
mod requests;
mod several;
#[cfg(feature = "c2pa")]
mod signed;
mod tasks;
mod unmade;
mod videos;
