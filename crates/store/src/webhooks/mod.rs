//! Webhooks: `endpoints`, `deliveries` on their way to them, and the log of past deliveries
//! (`delivery_log`). `plain_callbacks` finds URLs that earlier versions did not encrypt.

mod claims;
pub mod deliveries;
pub mod delivery_log;
pub mod endpoints;
pub mod plain_callbacks;
