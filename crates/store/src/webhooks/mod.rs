//! Webhooks: who is told (`endpoints`), what is on its way to them (`deliveries`), and what was
//! (`log`).

mod claiming;
pub mod deliveries;
pub mod endpoints;
pub mod log;
