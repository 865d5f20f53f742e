//! Webhooks: who is told (`endpoints`), and what is on its way to them (`deliveries`).

pub mod deliveries;
pub mod endpoints;
