//! The simulator as its HTTP clients see it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod client;
mod faults;
mod proxies;
mod world;
