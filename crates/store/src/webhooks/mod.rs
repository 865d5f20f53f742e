//! Webhooks: who is told (`endpoints`), what is on its way to them (`deliveries`), and what was
//! (`log`).

pub mod deliveries;
pub mod endpoints;
pub mod log;
