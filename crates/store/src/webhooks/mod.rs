//! Webhooks: `endpoints`, `deliveries` on their way to them, and the log of past deliveries
//! (`log`).

mod claims;
pub mod deliveries;
pub mod delivery_log;
pub mod endpoints;
