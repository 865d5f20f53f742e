//! Mediagate. See ARCHITECTURE.md for the map.

pub mod clock;
pub mod error;
pub mod ids;
pub mod model;
pub mod store;
pub mod bell;
pub mod blob;
pub mod config;
pub mod fetch;
pub mod secret;
pub mod signer;
pub mod app;
pub mod artwork;
pub mod domain;
pub mod providers;
pub mod worker;
pub mod cli;
pub mod http;
pub mod telemetry;
