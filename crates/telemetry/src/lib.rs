//! Telemetry of a process: the log, the metrics and the traces.
//!
//! [`logs`] writes lines to standard error, [`counters`] keeps what `/metrics` shows, and [`traces`]
//! sends spans to a collector. Only this crate knows how any of them leaves the process. It must not
//! know requests, routes or SQL: whoever acts says what happened.

pub mod counters;
pub mod logs;
pub mod traces;
