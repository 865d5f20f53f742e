//! The driver against servers that misbehave in ways that the simulator does not, with an adapter
//! made for these tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod download;
mod find;
mod plain;
mod poll;
mod server;
mod submit;
mod trust;
