//! Mediagate's commands. See ARCHITECTURE.md for the map of all crates.

#![allow(
    missing_docs,
    reason = "the library is for its own program, tests and benches"
)]

pub mod cli;
