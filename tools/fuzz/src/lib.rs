//! Fuzz targets for untrusted input: each takes any bytes, and panics if the product mishandles
//! them.
//!
//! `tests/damaged.rs` runs the targets on damaged samples with every `cargo test`;
//! `fuzz/` has them for cargo-fuzz, which needs a nightly compiler:
//!
//! ```sh
//! cargo run -p fuzz --features c2pa --example seeds -- /tmp/seeds
//! cd tools/fuzz && cargo +nightly fuzz run film /tmp/seeds/film
//! ```
//!
//! The feature `c2pa` adds the target for Content Credentials, as it adds them to the gateway.
//! Begin with [`TARGETS`]. No other crate may use this one.

#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a target fails by panicking"
)]

mod answers;
#[cfg(feature = "c2pa")]
mod credentials;
mod damage;
mod gateway;
mod marks;
mod media;
mod recipes;
mod shipped;

pub use damage::{DamageRng, damaged_sample};

/// A fuzz target: a function that takes untrusted bytes.
#[derive(Debug, Clone, Copy)]
pub struct FuzzTarget {
    /// Its name, here and in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Runs the target with these bytes.
    pub run: fn(&[u8]),
    /// Samples of valid input.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Cases that an ordinary test tries.
    pub cases: u32,
}

/// Every target.
pub const TARGETS: &[FuzzTarget] = &[
    gateway::JSON,
    gateway::FORM,
    media::PICTURE,
    media::RECORDING,
    media::FILM,
    marks::MARKS,
    #[cfg(feature = "c2pa")]
    credentials::CREDENTIALS,
    recipes::RECIPE,
    answers::ANSWER,
];

/// Runs the target of this name.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap().run)(bytes);
}
