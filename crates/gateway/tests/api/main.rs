//! Integration tests: through HTTP, against the real application in process,
//! and for `cli` and `crash` against the real program.
//!
//! Modules mirror the paths of the API. The Postgres tests want
//! `MEDIAGATE_TEST_POSTGRES`; `./scripts/test` sets it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a task that a test spawns ends with the test's runtime"
)]
#![expect(
    clippy::case_sensitive_file_extension_comparisons,
    reason = "the gateway writes the file extensions in its URLs in lower case"
)]

mod admin;
mod attack;
mod auth;
mod blob;
mod buckets;
mod cli;
mod cluster;
mod confinement;
mod copying;
mod crash;
mod database;
mod errors;
mod flow;
mod guard;
mod health;
mod intents;
mod media;
mod media_folder;
mod metrics;
mod money;
mod music;
mod openapi;
mod openrouter;
mod outages;
#[cfg(feature = "onnx")]
mod own_models;
mod pages;
mod parameters;
mod personas;
mod pretrained_nets;
mod pricing;
#[path = "../process/mod.rs"]
mod process;
mod records;
mod restored;
mod store;
mod support;
mod traces;
mod upstream;
mod v1;
mod webhooks;
