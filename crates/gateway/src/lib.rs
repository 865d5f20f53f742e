//! Mediagate. See ARCHITECTURE.md for the map.

pub mod app;
pub mod attendance;
pub mod bell;
pub mod blob;
pub mod cli;
pub mod clock;
pub mod config;
pub mod crash;
pub mod csv;
pub mod domain;
pub mod engines;
pub mod error;
pub mod fetch;
pub mod http;
pub mod ids;
pub mod model;
pub mod patience;
pub mod private;
pub mod secret;
pub mod signer;
pub mod store;
pub mod telemetry;
pub mod upstream;
pub mod worker;
