//! Telemetry of a process: the log, the metrics and the traces.
//!
//! [`logs`] writes lines to standard error, [`counters`] holds the metrics of `/metrics`, and
//! [`traces`] sends spans to a collector. Only this crate knows how they are exported. It must not
//! know requests, routes or SQL: the other crates report their events to it.
//!
//! Begin with [`counters`], which lists all metrics, and [`logs::start`] and [`traces::start`],
//! which a process calls first.

pub mod counters;
pub mod logs;
pub mod traces;
