//! Webhooks: `endpoints`, `deliveries` on their way to them, and the log of past deliveries
//! (`delivery_log`).

mod claims;
pub mod deliveries;
pub mod delivery_log;
pub mod endpoints;
