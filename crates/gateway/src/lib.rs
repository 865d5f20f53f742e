//! Mediagate. See ARCHITECTURE.md for the map.

#![allow(
    missing_docs,
    reason = "the library is for its own program, tests and benches"
)]

pub mod app;
pub mod attendance;
pub mod bell;
pub mod blob;
pub mod caches;
pub mod catalog;
pub mod cli;
pub mod clock;
pub mod config;
pub mod crash;
pub mod csv;
pub mod domain;
pub mod engines;
pub mod error;
pub mod feed;
pub mod fetch;
pub mod handover;
pub mod hooks;
pub mod http;
pub mod ids;
pub mod limits;
pub mod model;
pub mod origin;
pub mod patience;
pub mod private;
pub mod records;
pub mod seal;
pub mod secret;
pub mod signer;
pub mod store;
pub mod telemetry;
pub mod traces;
pub mod upstream;
mod uses;
pub mod worker;
