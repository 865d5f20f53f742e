//! The simulator as those see it who talk HTTP to it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod client;
mod faults;
mod proxies;
mod world;
