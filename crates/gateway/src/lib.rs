//! The program: its commands, its startup and its shutdown.
//!
//! It owns the command line, the order in which a process starts and stops, the demo and the
//! end-to-end tests (`tests`). It must not know how a request is answered or a task is run:
//! `mediagate-http` and `mediagate-worker` do. Begin with [`cli`], then `cli/serve.rs`.
//! `ARCHITECTURE.md` has the map of all crates.

#![allow(
    missing_docs,
    reason = "the library is for its own program, tests and benches"
)]

pub mod cli;
